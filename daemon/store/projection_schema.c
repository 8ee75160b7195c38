/* daemon/store/projection_schema.c - the projection's tables, views and statements as text. Owns constants only.
 *
 * Tables are named in the singular and keep what can be computed with: ids are the numbers of entries, times int64 ns since 1970 UTC, money
 * int64 nano-units. The views of the same names in the plural say it readably. docs/store.md is about both. */
#include "daemon/store/projection_int.h"

/* ---- tables. An index is there for a statement below or a query of docs/store.md, and says which. ---- */

#define TABLES                                                                                                                              \
	"CREATE TABLE projection(id INTEGER PRIMARY KEY CHECK(id=1),applied INTEGER NOT NULL)STRICT;"                                       \
	"INSERT INTO projection VALUES(1,0);"                                                                                               \
	"CREATE TABLE snapshot(at INTEGER PRIMARY KEY,entry INTEGER,bytes INTEGER NOT NULL,sha256 BLOB NOT NULL)STRICT;"                    \
	"CREATE TABLE snapshot_part(at INTEGER NOT NULL,part INTEGER NOT NULL,bytes BLOB NOT NULL,PRIMARY KEY(at,part))STRICT;"             \
	"CREATE TABLE run(run INTEGER PRIMARY KEY,started_ns INTEGER NOT NULL,wall_ns INTEGER NOT NULL,version TEXT NOT NULL,"              \
	"judge INTEGER NOT NULL,mode TEXT NOT NULL,probes TEXT NOT NULL,stop INTEGER,stopped_ns INTEGER,why TEXT)STRICT;"                   \
	"CREATE TABLE policy_change(entry INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,how TEXT NOT NULL,name TEXT,hash TEXT,message TEXT,"  \
	"changes TEXT NOT NULL,mode TEXT,operator TEXT,reason TEXT)STRICT;"                                                                 \
	"CREATE TABLE budget(budget TEXT PRIMARY KEY,unit TEXT NOT NULL,scope TEXT NOT NULL,per_tool INTEGER NOT NULL,"                     \
	"windowed INTEGER NOT NULL,amount INTEGER NOT NULL)STRICT,WITHOUT ROWID;"                                                           \
	"CREATE TABLE session(session INTEGER PRIMARY KEY,parent INTEGER,root INTEGER NOT NULL,agent TEXT NOT NULL,root_dir TEXT,"          \
	"labels TEXT NOT NULL,lease_ns INTEGER NOT NULL,limit_money INTEGER,limit_calls INTEGER,limit_tokens INTEGER,limit_time_ns INTEGER," \
	"opened_ns INTEGER NOT NULL,ended_ns INTEGER,ended TEXT,ended_by INTEGER)STRICT;"                                                   \
	"CREATE INDEX session_parent ON session(parent)WHERE parent IS NOT NULL;" /* the end of a tree */                                   \
	"CREATE TABLE decision(decision INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,session INTEGER NOT NULL,root INTEGER NOT NULL,"        \
	"claim INTEGER NOT NULL,call TEXT NOT NULL,tool TEXT NOT NULL,call_kind TEXT NOT NULL,model TEXT,verdict TEXT NOT NULL,"            \
	"code TEXT NOT NULL,rule TEXT,message TEXT NOT NULL,refers INTEGER,review INTEGER,spends INTEGER,currency TEXT,money INTEGER,"      \
	"tokens INTEGER,reserved_money INTEGER,reserved_tokens INTEGER,lease_until_ns INTEGER,outcome TEXT,ended_ns INTEGER,"               \
	"ended_by INTEGER,charged_money INTEGER,charged_tokens INTEGER,claims INTEGER,would_verdict TEXT,would_code TEXT,would_rule TEXT,"   \
	"would_message TEXT)STRICT;"                                                                                                        \
	"CREATE INDEX decision_session ON decision(session);" /* the end of a session; what a session did */                                \
	"CREATE TABLE settlement(entry INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,decision INTEGER NOT NULL,session INTEGER NOT NULL,"     \
	"late INTEGER NOT NULL,outcome TEXT NOT NULL,currency TEXT,reported_money INTEGER,reported_tokens INTEGER,"                         \
	"charged_money INTEGER NOT NULL,charged_tokens INTEGER NOT NULL,returned_money INTEGER NOT NULL,result_bytes INTEGER,"              \
	"error TEXT,duration_ns INTEGER)STRICT;"                                                                                            \
	"CREATE TABLE review(review INTEGER PRIMARY KEY,session INTEGER NOT NULL,tool TEXT NOT NULL,opened_ns INTEGER NOT NULL,"            \
	"until_ns INTEGER NOT NULL,asks TEXT NOT NULL,joined INTEGER NOT NULL,currency TEXT,money INTEGER NOT NULL,"                        \
	"tokens INTEGER NOT NULL,state TEXT NOT NULL,claim_only INTEGER NOT NULL,ended_ns INTEGER,ended_by INTEGER,operator TEXT,"          \
	"reason TEXT,spent_by INTEGER,spent_ns INTEGER,same BLOB NOT NULL)STRICT;"                                                          \
	"CREATE INDEX review_waiting ON review(session)WHERE state IN('pending','resumed');" /* the end of a session or call; open_reviews */ \
	"CREATE TABLE answer(entry INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,action TEXT NOT NULL,operator TEXT NOT NULL,"                \
	"key TEXT NOT NULL,reason TEXT NOT NULL,review INTEGER,session INTEGER,breaker TEXT)STRICT;"                                        \
	"CREATE TABLE budget_grant(entry INTEGER NOT NULL,at INTEGER NOT NULL,review INTEGER NOT NULL,budget TEXT NOT NULL,"                \
	"unit TEXT NOT NULL,scope TEXT NOT NULL,session INTEGER,owner TEXT,tool TEXT,amount INTEGER NOT NULL,"                              \
	"PRIMARY KEY(entry,at))STRICT,WITHOUT ROWID;"                                                                                       \
	"CREATE TABLE denial(how TEXT NOT NULL,owner TEXT NOT NULL,tool TEXT NOT NULL,rule TEXT NOT NULL,decision INTEGER NOT NULL,"        \
	"now_ns INTEGER NOT NULL,would INTEGER NOT NULL,PRIMARY KEY(how,owner,tool,rule))STRICT,WITHOUT ROWID;"                              \
	"CREATE TABLE breaker(breaker TEXT NOT NULL,scope TEXT NOT NULL,session INTEGER NOT NULL,owner TEXT NOT NULL,tool TEXT NOT NULL,"   \
	"state TEXT NOT NULL,sticky INTEGER NOT NULL,generation INTEGER NOT NULL,until_ns INTEGER,probe INTEGER,fails INTEGER NOT NULL,"    \
	"denies INTEGER NOT NULL,breaches INTEGER NOT NULL,entry INTEGER NOT NULL,now_ns INTEGER NOT NULL,would INTEGER NOT NULL,"                                  \
	"PRIMARY KEY(breaker,scope,session,owner,tool,would))STRICT,WITHOUT ROWID;"                                                         \
	"CREATE INDEX breaker_session ON breaker(session)WHERE session>0;" /* the end of a session */                                       \
	"CREATE TABLE ledger(budget TEXT NOT NULL,unit TEXT NOT NULL,scope TEXT NOT NULL,session INTEGER NOT NULL,owner TEXT NOT NULL,"     \
	"tool TEXT NOT NULL,spent INTEGER NOT NULL,reserved INTEGER NOT NULL,granted INTEGER NOT NULL,window_end_ns INTEGER,"               \
	"PRIMARY KEY(budget,unit,scope,session,owner,tool))STRICT,WITHOUT ROWID;"                                                           \
	"CREATE INDEX ledger_session ON ledger(session)WHERE session>0;" /* the end of a session */                                         \
	"CREATE TABLE throttle(entry INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,agent TEXT NOT NULL,session INTEGER,"                      \
	"turned_away INTEGER NOT NULL)STRICT;"                                                                                              \
	"CREATE TABLE loss(entry INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,what TEXT NOT NULL,session INTEGER,decision INTEGER,"          \
	"bytes INTEGER)STRICT;"                                                                                                             \
	"CREATE TABLE watch(entry INTEGER PRIMARY KEY,now_ns INTEGER NOT NULL,session INTEGER NOT NULL,action TEXT NOT NULL,why TEXT,"      \
	"log_only INTEGER NOT NULL,pid INTEGER,programs TEXT NOT NULL,total INTEGER,measured INTEGER,ceiling INTEGER,peak INTEGER,"         \
	"cpu_ns INTEGER,memory_peak INTEGER)STRICT;"                                                                                        \
	"CREATE INDEX watch_session ON watch(session);" /* what a session ran */

/* ---- views ---- */

#define UTC(c) "strftime('%Y-%m-%dT%H:%M:%S'," c "/1000000000,'unixepoch')||printf('.%09dZ'," c "%1000000000)"
#define TRIM(text) "rtrim(rtrim(" text ",'0'),'.')"
#define DEC(c) "iif(" c " IS NULL,NULL," TRIM("printf('%d.%09d'," c "/1000000000," c "%1000000000)") ")"
/* A sum of nano-units as decimals: whole units and the rest apart, so that no absurd report makes it overflow. */
#define SUM(c)                                                                                                                             \
	TRIM("printf('%d.%09d',ifnull(sum(" c "/1000000000)+sum(" c "%1000000000)/1000000000,0),ifnull(sum(" c "%1000000000)%1000000000,0))")
#define COUNT(c) "CAST(total(" c ")AS INTEGER)"
#define AMOUNT(unit, c) "iif(" unit " IN('money','time')," DEC(c) "," c ")"
#define OPEN "d.verdict='allow' AND d.outcome IS NULL"
#define SPEND(name, key)                                                                                                                   \
	"CREATE VIEW spend_by_" name " AS SELECT " key " AS " name ",sum(d.verdict='allow')AS calls,sum(" OPEN ")AS open,"                  \
	"sum(d.verdict<>'allow')AS refused,sum(d.would_verdict IS NOT NULL)AS would," SUM("d.charged_money") "AS settled,"      \
	SUM("iif(d.would_verdict IS NULL,0,d.charged_money)") "AS would_settled," SUM("iif(d.outcome IS NULL,d.reserved_money,0)")          \
	"AS reserved,d.currency," COUNT("d.charged_tokens") "AS tokens," COUNT("iif(d.outcome IS NULL,d.reserved_tokens,0)")                \
	"AS tokens_reserved FROM decision d LEFT JOIN session s USING(session)GROUP BY 1,d.currency;"

#define VIEWS                                                                                                                              \
	"CREATE VIEW decisions AS SELECT 'd_'||d.decision AS decision," UTC("d.now_ns") "AS now,'s_'||d.session AS session,s.agent,d.tool,"  \
	"d.call,d.verdict,d.code,d.rule,d.message,d.would_verdict,d.would_code,d.would_rule,d.would_message," DEC("d.reserved_money") "AS reserved," DEC("d.charged_money") "AS charged,d.currency,"  \
	"d.charged_tokens AS tokens,d.outcome," UTC("d.ended_ns") "AS ended,'r_'||ifnull(d.review,d.spends)AS review "                      \
	"FROM decision d LEFT JOIN session s USING(session);"                                                                               \
	"CREATE VIEW settlements AS SELECT 'd_'||decision AS decision," UTC("now_ns") "AS now,'s_'||session AS session,late,outcome,"        \
	DEC("reported_money") "AS reported," DEC("charged_money") "AS charged," DEC("returned_money") "AS returned,currency,"               \
	"charged_tokens AS tokens,result_bytes,error," DEC("duration_ns") "AS seconds FROM settlement;"                                     \
	"CREATE VIEW sessions AS SELECT 's_'||session AS session,'s_'||parent AS parent,'s_'||root AS root,agent,labels,root_dir,"           \
	DEC("limit_money") "AS limit_money,limit_calls,limit_tokens," UTC("opened_ns") "AS opened," UTC("ended_ns")                         \
	"AS ended_at,ended FROM session;"                                                                                                   \
	"CREATE VIEW reviews AS SELECT 'r_'||r.review AS review,'s_'||r.session AS session,s.agent,r.tool,r.state,r.asks,r.joined,"          \
	DEC("r.money") "AS money,r.currency," UTC("r.opened_ns") "AS opened," UTC("r.until_ns") "AS until," UTC("r.ended_ns")               \
	"AS ended,r.operator,r.reason,'d_'||r.spent_by AS spent_by FROM review r LEFT JOIN session s USING(session);"                       \
	"CREATE VIEW open_reviews AS SELECT 'r_'||r.review AS review,'s_'||r.session AS session,s.agent,r.tool,r.asks,r.joined,"             \
	DEC("r.money") "AS money,r.currency," UTC("r.opened_ns") "AS opened," UTC("r.until_ns")                                             \
	"AS until FROM review r LEFT JOIN session s USING(session)WHERE r.state='pending';"                                                 \
	"CREATE VIEW answers AS SELECT entry," UTC("now_ns") "AS now,action,operator,reason,'r_'||review AS review,"                         \
	"'s_'||session AS session,breaker FROM answer;"                                                                                     \
	"CREATE VIEW grants AS SELECT g.entry," UTC("a.now_ns") "AS now,a.operator,'r_'||g.review AS review,g.budget,g.unit,g.scope,"        \
	"'s_'||g.session AS session,g.owner,g.tool," AMOUNT("g.unit", "g.amount") "AS amount FROM budget_grant g LEFT JOIN answer a USING(entry);" \
	"CREATE VIEW denials AS SELECT how,owner,tool,rule,would,'d_'||decision AS decision," UTC("now_ns") "AS now FROM denial;"            \
	"CREATE VIEW breakers AS SELECT breaker,scope,iif(session>0,'s_'||session,owner)AS owner,tool,would,state,sticky,generation,"        \
	UTC("until_ns") "AS until,'d_'||probe AS probe,fails,denies,breaches,entry," UTC("now_ns") "AS now FROM breaker;"                            \
	"CREATE VIEW ledgers AS SELECT l.budget,l.unit,l.scope,iif(l.session>0,'s_'||l.session,l.owner)AS owner,l.tool,"                     \
	AMOUNT("l.unit", "l.spent") "AS spent," AMOUNT("l.unit", "l.reserved") "AS reserved," AMOUNT("l.unit", "l.granted") "AS granted,"   \
	AMOUNT("l.unit", "b.amount") "AS 'limit'," UTC("l.window_end_ns") "AS reset_at "                                                    \
	"FROM ledger l LEFT JOIN budget b ON b.budget=l.budget AND b.unit=l.unit AND b.scope=l.scope;"                                      \
	"CREATE VIEW budgets AS SELECT budget,unit,scope,per_tool,windowed," AMOUNT("unit", "amount") "AS 'limit' FROM budget;"              \
	"CREATE VIEW policy_changes AS SELECT entry," UTC("now_ns") "AS now,how,mode,name,hash,operator,reason,message,changes "             \
	"FROM policy_change;"                                                                                                               \
	"CREATE VIEW runs AS SELECT run," UTC("started_ns") "AS started,version,mode," UTC("stopped_ns") "AS stopped,why FROM run;"          \
	"CREATE VIEW losses AS SELECT entry," UTC("now_ns") "AS now,what,'s_'||session AS session,'d_'||decision AS decision,bytes FROM loss;" \
	"CREATE VIEW throttles AS SELECT entry," UTC("now_ns") "AS now,agent,'s_'||session AS session,turned_away FROM throttle;"            \
	"CREATE VIEW watched AS SELECT w.entry," UTC("w.now_ns") "AS now,'s_'||w.session AS session,s.agent,w.action,w.why,w.log_only,w.pid,"    \
	"w.programs,w.total,w.measured,w.ceiling AS 'limit',w.peak AS processes," DEC("w.cpu_ns") "AS cpu,w.memory_peak AS memory "           \
	"FROM watch w LEFT JOIN session s USING(session);"                                                                                  \
	"CREATE VIEW denials_by_rule AS SELECT code,rule,count(*)AS denials,count(DISTINCT session)AS sessions," UTC("max(now_ns)")          \
	"AS newest FROM decision WHERE verdict='deny' GROUP BY code,rule ORDER BY denials DESC;"                                            \
	"CREATE VIEW would_by_rule AS SELECT(SELECT hash FROM policy_change WHERE entry<d.decision AND how<>'refused' "                     \
	"ORDER BY entry DESC LIMIT 1)AS policy,d.would_verdict AS verdict,d.would_code AS code,d.would_rule AS rule,count(*)AS calls,"      \
	"count(DISTINCT d.session)AS sessions,count(DISTINCT s.agent)AS agents," SUM("d.charged_money") "AS settled,d.currency,"            \
	UTC("max(d.now_ns)") "AS newest FROM decision d LEFT JOIN session s USING(session)WHERE d.would_verdict IS NOT NULL "               \
	"GROUP BY 1,2,3,4,d.currency ORDER BY calls DESC;"                                                                                  \
	SPEND("tool", "d.tool") SPEND("agent", "s.agent") SPEND("day", "strftime('%Y-%m-%d',d.now_ns/1000000000,'unixepoch')")

const char projection_schema[] = TABLES VIEWS;
const char *const projection_units[UNIT_COUNT] = { "money", "calls", "tokens", "time" };

/* ---- statements ---- */

/* A session and all that it opened. Below one that is over nothing lives; UNION also ends where edited rows go round in circles. */
#define TREE                                                                                                                               \
	"(WITH RECURSIVE tree(id)AS(SELECT session FROM session WHERE session=?1 AND ended IS NULL UNION "                                  \
	"SELECT s.session FROM tree JOIN session s ON s.parent=tree.id WHERE s.ended IS NULL)SELECT id FROM tree)"

const char *const projection_sql[SQL_COUNT] = {
	[SQL_APPLIED] = "UPDATE projection SET applied=?1 WHERE id=1",
	[SQL_RUN] = "INSERT INTO run(run,started_ns,wall_ns,version,judge,mode,probes)VALUES(?,?,?,?,?,?,?)",
	[SQL_RUN_STOP] = "UPDATE run SET stop=?1,stopped_ns=?2,why=?3 WHERE run=(SELECT max(run)FROM run)",
	[SQL_POLICY] = "INSERT INTO policy_change VALUES(?,?,?,?,?,?,?,?,?,?)",
	[SQL_BUDGETS_CLEAR] = "DELETE FROM budget",
	[SQL_BUDGET] = "INSERT OR REPLACE INTO budget VALUES(?,?,?,?,?,?)",
	[SQL_SESSION] = "INSERT INTO session(session,parent,root,agent,root_dir,labels,lease_ns,limit_money,limit_calls,limit_tokens,"
			"limit_time_ns,opened_ns)VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
	[SQL_END_CALLS] = "UPDATE decision SET outcome='expired',ended_ns=?2,ended_by=?3,charged_money=reserved_money,"
			  "charged_tokens=reserved_tokens WHERE session IN" TREE "AND verdict='allow' AND outcome IS NULL RETURNING decision",
	[SQL_END_REVIEWS] = "UPDATE review SET state='closed',ended_ns=?2,ended_by=?3 WHERE session IN" TREE "AND state IN('pending','resumed')",
	[SQL_END_BREAKERS] = "DELETE FROM breaker WHERE session>0 AND session IN" TREE,
	[SQL_END_LEDGERS] = "DELETE FROM ledger WHERE session>0 AND session IN" TREE,
	[SQL_END_SESSIONS] = "UPDATE session SET ended_ns=?2,ended_by=?3,ended=?4 WHERE session IN" TREE,
	[SQL_DECISION] = "INSERT INTO decision(decision,now_ns,session,root,claim,call,tool,call_kind,model,verdict,code,rule,message,refers,"
			 "review,spends,currency,money,tokens,reserved_money,reserved_tokens,lease_until_ns,claims,would_verdict,would_code,"
			 "would_rule,would_message)VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[SQL_DENIAL] = "INSERT OR IGNORE INTO denial SELECT ?2,CASE ?2 WHEN 'agent' THEN agent WHEN 'tree' THEN 's_'||root ELSE 's_'||session "
		       "END,?3,?4,?5,?6,?7 FROM session WHERE session=?1",
	[SQL_REVIEW] = "INSERT INTO review(review,session,tool,opened_ns,until_ns,asks,joined,currency,money,tokens,state,claim_only,same)"
		       "VALUES(?,?,?,?,?,?,1,?,?,?,'pending',0,?)",
	[SQL_REVIEW_JOIN] = "UPDATE review SET joined=joined+1,money=max(money,?2),tokens=max(tokens,?3)WHERE review=?1",
	[SQL_REVIEW_SPEND] = "UPDATE review SET state='spent',spent_by=?2,spent_ns=?3 WHERE review=?1",
	/* those of the very call that has run now */
	[SQL_REVIEW_END] = "UPDATE review SET state='closed',ended_ns=?3,ended_by=?2,spent_by=?2 FROM review one WHERE one.review=?1 "
			   "AND review.session=one.session AND review.same=one.same AND review.state IN('pending','resumed')",
	[SQL_REVIEW_ANSWER] = "UPDATE review SET state=?2,ended_ns=?3,ended_by=?4,operator=?5,reason=?6 WHERE review=?1",
	[SQL_REVIEW_TIMEOUT] = "UPDATE review SET state='timeout',ended_ns=?2,ended_by=?3 WHERE review=?1",
	[SQL_REVIEW_WAITER] = "UPDATE review SET claim_only=1 WHERE review=?1",
	[SQL_SETTLEMENT] = "INSERT INTO settlement VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[SQL_CALL_SETTLE] = "UPDATE decision SET outcome=?2,ended_ns=?3,ended_by=?4,charged_money=?5,charged_tokens=?6 WHERE decision=?1",
	/* sums saturate, as everywhere: a value above int64 would not be an INTEGER any more */
	[SQL_CALL_LATE] = "UPDATE decision SET outcome=?2,ended_by=?4,"
			  "charged_money=min(ifnull(charged_money,0),9223372036854775807-?5)+?5,"
			  "charged_tokens=min(ifnull(charged_tokens,0),9223372036854775807-?6)+?6 WHERE decision=?1",
	[SQL_CALL_EXPIRE] = "UPDATE decision SET outcome='expired',ended_ns=?2,ended_by=?3,charged_money=reserved_money,"
			    "charged_tokens=reserved_tokens WHERE decision=?1",
	[SQL_ANSWER] = "INSERT INTO answer VALUES(?,?,?,?,?,?,?,?,?)",
	[SQL_GRANT] = "INSERT INTO budget_grant VALUES(?,?,?,?,?,?,?,?,?,?)",
	/* ?17: it says no more than no row would; kept all the same in shadow mode beside one that binds and says more */
	[SQL_BREAKER] = "INSERT OR REPLACE INTO breaker SELECT ?1,?2,?3,?4,?5,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?6 "
			"WHERE(?3=0 OR EXISTS(SELECT 1 FROM session WHERE session=?3 AND ended IS NULL))AND(?17=0 OR EXISTS(SELECT 1 FROM breaker "
			"WHERE breaker=?1 AND scope=?2 AND session=?3 AND owner=?4 AND tool=?5 AND would<>?6))",
	[SQL_BREAKER_DROP] = "DELETE FROM breaker WHERE breaker=?1 AND scope=?2 AND session=?3 AND owner=?4 AND tool=?5 AND would=?6",
	[SQL_END_WOULD_DENIALS] = "DELETE FROM denial WHERE would",
	[SQL_END_WOULD_BREAKERS] = "DELETE FROM breaker WHERE would",
	[SQL_THROTTLE] = "INSERT INTO throttle VALUES(?,?,?,?,?)",
	[SQL_LOSS] = "INSERT INTO loss VALUES(?,?,?,?,?,?)",
	[SQL_WATCH] = "INSERT INTO watch VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[SQL_LEDGER] = "INSERT OR REPLACE INTO ledger VALUES(?,?,?,?,?,?,?,?,?,?)",
	[SQL_LEDGERS_CLEAR] = "DELETE FROM ledger",
	[SQL_SNAPSHOT_TRIM_PARTS] = "DELETE FROM snapshot_part WHERE at=?1 OR at IS NOT(SELECT max(at)FROM snapshot WHERE entry IS NOT NULL)",
	[SQL_SNAPSHOT_TRIM] = "DELETE FROM snapshot WHERE at=?1 OR at IS NOT(SELECT max(at)FROM snapshot WHERE entry IS NOT NULL)",
	[SQL_SNAPSHOT] = "INSERT INTO snapshot(at,bytes,sha256)VALUES(?,?,?)",
	[SQL_SNAPSHOT_PART] = "INSERT INTO snapshot_part VALUES(?,?,?)",
	[SQL_SNAPSHOT_LOGGED] = "UPDATE snapshot SET entry=?2 WHERE at=?1",
};
