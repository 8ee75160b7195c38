/* tests/unit/test_projection.c - the SQLite projection: rows of every kind of entry, whatever the batches; damage, foreign files, full disks
 * and missing memory have names. Snapshots are in test_snapshots.c. */
#include "tests/support/fail_malloc.h"
#include "tests/support/projection_world.h"
#include "tests/support/random_entry.h"

#include <time.h>

/* ---- every kind of entry ---- */

static const struct question {
	const char *sql, *answer;
} script[] = {
	{ "SELECT run,version,judge,mode,stop,why FROM run", "0|0.9|1|enforce||\n30|0.9|1|enforce|31|told to stop\n" },
	{ "SELECT entry,how,name,message,changes FROM policy_change",
	  "0|start|p||[]\n1|loaded|p||[\"loosened: \\\"run\\\"\"]\n2|refused|p|bad line|[]\n30|start|p||[]\n" },
	{ "SELECT * FROM budget", "all|calls|global|0|1|100\nrun|money|session|0|0|5000000000\n" },
	{ "SELECT * FROM budgets", "all|calls|global|0|1|100\nrun|money|session|0|0|5\n" },
	{ "SELECT session,parent,root,agent,labels,limit_money,limit_calls,ended,ended_by FROM session",
	  "3||3|local|{}|2000000000||abort|25\n4|3|3|local|{}|||abort|25\n5||5|ann|{}|||close|26\n27||27|local|{}|||stale|28\n" },
	{ "SELECT session,opened,ended_at,ended FROM sessions WHERE session='s_5'",
	  "s_5|1970-01-01T00:16:40.000000000Z|1970-01-01T00:41:40.000000000Z|close\n" },
	{ "SELECT decision,session,root,claim,tool,verdict,code,rule,review,spends,money,reserved_money,reserved_tokens,outcome,ended_by,"
	  "charged_money FROM decision",
	  "6|4|3|0|t|allow|ok||||1500000000|1500000000|0|ok|7|1250000000\n"	/* settled */
	  "8|3|3|0|t|allow|ok||||2000000000|2000000000|0|ok|10|2300000000\n"	/* expired, then reported: more */
	  "11|3|3|0|t|deny|rule|r1||||||||\n"
	  "12|3|3|0|t|review|review_required|r2|12||0|||||\n"
	  "13|3|3|0|t|review|review_required|r2|12||700|||||\n"
	  "16|3|3|1|t|allow|ok|||12||0|0|expired|25|0\n"			/* the abort of its session */
	  "17|3|3|0|t|review|review_required|r2|17||0|||||\n"
	  "19|3|3|0|t|review|review_required|r2|19||0|||||\n"
	  "21|3|3|0|t|review|review_required|r2|21||0|||||\n"
	  "22|5|5|0|t|allow|ok||||3000000000|3000000000|0|expired|26|3000000000\n"	/* its session closed */ },
	{ "SELECT entry,decision,session,late,outcome,charged_money FROM settlement", "7|6|4|0|ok|1250000000\n10|8|3|1|ok|300000000\n" },
	{ "SELECT decision,charged,outcome FROM decisions WHERE charged<>'0'", "d_6|1.25|ok\nd_8|2.3|ok\nd_22|3|expired\n" },
	{ "SELECT review,session,joined,asks,money,state,claim_only,ended_by,operator,reason,spent_by FROM review",
	  "12|3|2|[{\"code\":\"review_required\",\"rule\":\"r2\"}]|700|spent|1|15|ann|looks fine|16\n"
	  "17|3|1|[{\"code\":\"review_required\",\"rule\":\"r2\"}]|0|timeout|0|18|||\n"
	  "19|3|1|[{\"code\":\"review_required\",\"rule\":\"r2\"}]|0|skipped|0|20|ann|looks fine|\n"
	  "21|3|1|[{\"code\":\"review_required\",\"rule\":\"r2\"}]|0|aborted|0|25|ann|looks fine|\n" },
	{ "SELECT entry,action,operator,key,reason,review,session,breaker FROM answer",
	  "15|resume|ann||looks fine|12|3|\n20|skip|ann||looks fine|19|3|\n23|reset|ann|k|mended|||web\n25|abort|ann||looks fine|21|3|\n29|enroll|bob|k2||||\n" },
	{ "SELECT entry,at,review,budget,unit,scope,session,amount FROM budget_grant", "15|0|12|run|money|session|3|250000000\n" },
	{ "SELECT operator,budget,amount FROM grants", "ann|run|0.25\n" },
	{ "SELECT how,owner,tool,rule,decision FROM denial", "agent|local|t|r1|11\nsession|s_3|u|r1|11\ntree|s_3|t|r1|11\n" },
	{ "SELECT breaker,scope,session,owner,state,generation,probe FROM breaker", "web|agent|0|local|half_open|1|16\n" }, /* s_3's died with it */
	{ "SELECT entry,agent,session,turned_away FROM throttle", "24|local||17\n" },
	{ "SELECT entry,what,session,decision,bytes FROM loss", "9|reservation_expired|3|8|\n10|late_settle|3|8|\n32|torn_tail|||77\n" },
	{ "SELECT budget,unit,scope,session,spent,reserved,granted FROM ledger", "all|calls|global|0|3|0|0\n" },
	{ "SELECT budget,spent,\"limit\" FROM ledgers", "all|3|100\n" },
	{ "SELECT * FROM spend_by_tool", "t|4|0|6|0|6.55|0|0||0|0\n" },
	{ "SELECT agent,calls,refused,settled FROM spend_by_agent", "ann|1|0|3\nlocal|3|6|3.55\n" },
	{ "SELECT day,settled FROM spend_by_day", "1970-01-01|6.55\n" },
	{ "SELECT code,rule,denials,sessions FROM denials_by_rule", "rule|r1|1|1\n" },
	{ "SELECT * FROM open_reviews", "" },
	{ "SELECT applied FROM projection", "33\n" },
};

static void start_entry(struct world *w)
{
	static const struct budget_row rows[] = { { .id = STR_INIT("run"), .unit = UNIT_MONEY, .scope = SCOPE_SESSION, .limit = 5 * USD },
						  { .id = STR_INIT("all"), .unit = UNIT_CALLS, .scope = SCOPE_GLOBAL, .windowed = true, .limit = 100 } };
	struct entry e = at(&w->f, ENTRY_START);

	e.start = (struct entry_start){ .version = STR("0.9"), .policy_name = STR("p"), .policy_hash = STR("00"), .mode = STR("enforce"), .judge = 1,
					.probes_text = STR("{}"), .budgets = { .rows = rows, .n = 2 } };
	give(w, &e);
}

static void policies(struct world *w) /* 1, 2 */
{
	const struct str change = STR("loosened: \"run\"");
	struct entry e = at(&w->f, ENTRY_POLICY);

	e.policy = (struct entry_policy){ .loaded = true, .name = STR("p"), .hash = STR("01"), .budgets = { .changes = &change, .n_changes = 1 } };
	give(w, &e);
	e = at(&w->f, ENTRY_POLICY);
	e.policy = (struct entry_policy){ .name = STR("p"), .hash = STR("01"), .message = STR("bad line") };
	give(w, &e);
}

static void sessions(struct world *w) /* 3, 4, 5 */
{
	struct entry e = opening(&w->f, "local");

	e.session.has_limit[UNIT_MONEY] = true;
	e.session.limit[UNIT_MONEY] = 2 * USD;
	give(w, &e);
	e = opening_child(&w->f, 3);
	give(w, &e);
	e = opening(&w->f, "ann");
	give(w, &e);
}

static void calls(struct world *w) /* 6 to 11 */
{
	static const struct stick_fact sticks[] = { { .how = STICK_TREE, .tool = STR_INIT("t"), .rule = STR_INIT("r1") },
						    { .how = STICK_SESSION, .tool = STR_INIT("u"), .rule = STR_INIT("r1") },
						    { .how = STICK_AGENT, .tool = STR_INIT("t"), .rule = STR_INIT("r1") } };
	struct entry e;

	give_allow(w, 4, 1, 3 * USD / 2);
	give_settle(w, 4, 6, 5 * USD / 4, false);
	give_allow(w, 3, 2, 2 * USD);
	w->f.now += 900 * SEC; /* its lease */
	e = expiry(&w->f, 3, 8);
	give(w, &e);
	give_settle(w, 3, 8, 3 * USD / 10, true);
	e = decision(&w->f, 3, 3, 3, VERDICT_DENY, NULL, 0);
	e.decision.why.rule = STR("r1");
	memcpy(e.decision.sticks, sticks, sizeof(sticks));
	e.decision.n_sticks = 3;
	give(w, &e);
}

static void reviews(struct world *w) /* 12 to 21 */
{
	struct breaker_row probe = breaker_of("web", SCOPE_AGENT, 0, BREAKER_HALF_OPEN), own = breaker_of("web", SCOPE_SESSION, 3, BREAKER_OPEN);
	struct entry e;

	give_review(w, 3, 4, 4, 0);
	give_review(w, 3, 5, 4, 700);
	e = timing_out(&w->f, 3, 12);
	e.timeout.waiter = true;
	give(w, &e);
	e = resolving(&w->f, 12, RESOLVE_RESUME);
	e.resolve.grants[0] = (struct grant){ .key = { .budget = STR("run"), .scope = SCOPE_SESSION, .session = 3 }, .amount = USD / 4 };
	e.resolve.n_grants = 1;
	give(w, &e);
	e = spending(&w->f, 3, 6, 4, 12, true);
	e.decision.breakers = (struct breaker_row[]){ probe, own };
	e.decision.n_breakers = 2;
	give(w, &e);
	give_review(w, 3, 7, 7, 0);
	w->f.now += 600 * SEC;
	e = timing_out(&w->f, 3, 17);
	give(w, &e);
	give_review(w, 3, 8, 8, 0);
	e = resolving(&w->f, 19, RESOLVE_SKIP);
	give(w, &e);
	give_review(w, 3, 9, 9, 0);
}

static void endings(struct world *w) /* 22 to 32 */
{
	struct entry e;

	give_allow(w, 5, 10, 3 * USD);
	e = at(&w->f, ENTRY_BREAKER);
	e.breaker = (struct entry_breaker){ .operator = STR("ann"), .key = STR("k"), .reason = STR("mended"), .row = { .id = STR("web"), .scope = SCOPE_COUNT } };
	give(w, &e);
	e = at(&w->f, ENTRY_THROTTLE);
	e.throttle = (struct entry_throttle){ .agent = STR("local"), .count = 17 };
	give(w, &e);
	e = resolving(&w->f, 21, RESOLVE_ABORT);
	give(w, &e);
	e = ending(&w->f, 5, SESSION_CLOSE);
	give(w, &e);
	e = opening(&w->f, "local");
	give(w, &e);
	e = ending(&w->f, 27, SESSION_STALE);
	give(w, &e);
	e = at(&w->f, ENTRY_KEY);
	e.key = (struct entry_key){ true, STR("bob"), STR("k2") };
	give(w, &e);
	start_entry(w);
	e = at(&w->f, ENTRY_STOP);
	e.stop.why = STR("told to stop");
	give(w, &e);
	e = at(&w->f, ENTRY_LOSS);
	e.loss = (struct entry_loss){ .what = LOSS_TORN_TAIL, .bytes = 77 };
	give(w, &e);
}

static void play(struct world *w)
{
	start_entry(w);
	policies(w);
	sessions(w);
	calls(w);
	reviews(w);
	endings(w);
}

static void test_rows(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, "rows.sqlite");
	play(&w);
	world_commit(&w);
	for (size_t i = 0; i < PAWL_LEN(script); i++) {
		char *is = answer(w.path, script[i].sql);

		if (strcmp(is, script[i].answer) != 0)
			fail_msg("%s\nis\n%s\nnot\n%s", script[i].sql, is, script[i].answer);
		free(is);
	}
	world_done(&w);
}

/* ---- whatever the batches: the same rows, and the ledgers of the state ---- */

static char *dump(const char *path)
{
	static const char *const tables[] = { "projection", "run", "policy_change", "budget", "session", "decision", "settlement", "review", "answer",
					      "budget_grant", "denial", "breaker", "ledger", "throttle", "loss" };
	struct buf all = BUF_MAX(256u << 20);

	for (size_t i = 0; i < PAWL_LEN(tables); i++) {
		char sql[64], *rows;

		(void)snprintf(sql, sizeof(sql), "SELECT * FROM %s", tables[i]);
		rows = answer(path, sql);
		buf_printf(&all, "== %s\n", tables[i]);
		buf_puts(&all, rows);
		free(rows);
	}
	assert_true(buf_ok(&all));
	return buf_take(&all, NULL);
}

static void assert_same_rows(const char *a, const char *b)
{
	char *x = dump(a), *y = dump(b);
	size_t at = 0;

	while (x[at] && x[at] == y[at])
		at++;
	if (x[at] || y[at]) {
		size_t from = at > 200 ? at - 200 : 0;

		fail_msg("rows differ:\n%.400s\n---- and ----\n%.400s", x + from, y + from);
	}
	free(x);
	free(y);
}

static void assert_ledgers(struct world *w)
{
	struct ledger_key key;
	struct ledger_state sum;
	size_t live = 0;
	char *n, due[32];

	for (uint32_t at = 0; state_ledger_next(w->f.st, &at, &key, &sum);) {
		const struct session_state *who = key.session ? state_session(w->f.st, key.session) : NULL;
		char sql[256], *is, row[128];

		if (who && who->end != SESSION_LIVE)
			continue;
		live++;
		(void)snprintf(sql, sizeof(sql), "SELECT spent,reserved,granted,ifnull(window_end_ns,0)FROM ledger WHERE budget='%.*s' AND session=%llu",
			       STR_ARG(key.budget), (unsigned long long)key.session);
		(void)snprintf(row, sizeof(row), "%lld|%lld|%lld|%lld\n", (long long)sum.spent, (long long)sum.reserved, (long long)sum.granted,
			       (long long)sum.window_end);
		is = answer(w->path, sql);
		assert_string_equal(is, row);
		free(is);
	}
	n = answer(w->path, "SELECT count(*)FROM ledger");
	(void)snprintf(due, sizeof(due), "%zu\n", live);
	assert_string_equal(n, due);
	free(n);
}

struct life { /* a long log by dice: the same steps for each world */
	struct dice *d;
	uint64_t open[64];
	uint64_t session_of[64];
	size_t n_open;
};

static uint64_t a_session(struct world *w, struct dice *d)
{
	const struct session_state *s = state_session_after(w->f.st, dice_below(d, (unsigned)state_next_seq(w->f.st)));

	while (s && s->end != SESSION_LIVE)
		s = state_session_after(w->f.st, s->id);
	return s ? s->id : 0;
}

static void due_first(struct world *w)
{
	struct deadline due;

	while (state_next_deadline(w->f.st, &due) && due.at <= w->f.now) {
		struct entry e = due.kind == DEADLINE_CARD ? timing_out(&w->f, due.session, due.id) : expiry(&w->f, due.session, due.id);

		give(w, &e);
	}
}

static void step_open(struct world *w, struct dice *d)
{
	uint64_t parent = dice_coin(d) ? a_session(w, d) : 0;
	struct entry e = parent ? opening_child(&w->f, parent) : opening(&w->f, dice_coin(d) ? "local" : "ann");

	give(w, &e);
}

static void step_call(struct world *w, struct life *l, uint64_t session)
{
	struct draw draws[3] = { draw_of(session, "run", UNIT_MONEY, dice_below(l->d, 1000)), draw_of(0, "all", UNIT_CALLS, 1),
				 draw_of(0, "daily", UNIT_MONEY, dice_below(l->d, 50)) };
	struct entry e = decision(&w->f, session, state_next_seq(w->f.st), dice_below(l->d, 1u << 30), VERDICT_ALLOW, draws, 3);

	draws[2].window_end = (w->f.now / (3600 * SEC) + 1) * (3600 * SEC);
	give(w, &e);
	if (l->n_open < PAWL_LEN(l->open)) {
		l->session_of[l->n_open] = session;
		l->open[l->n_open++] = e.seq;
	}
}

static void step_settle(struct world *w, struct life *l)
{
	struct charge c[3];
	size_t i = dice_below(l->d, (unsigned)l->n_open);
	const struct call_state *call = state_decision(w->f.st, l->open[i]);
	struct draw held[3];
	struct entry e;
	bool late;

	l->n_open--;
	if (call && state_holds(w->f.st, l->open[i], held, 3) == 3) {
		struct entry_settle s = { .session = l->session_of[i], .decision = l->open[i], .outcome = OUTCOME_OK, .charges = c, .n_charges = 3,
					  .duration_ns = -1 };

		late = call->settled != 0;
		for (int k = 0; k < 3; k++) {
			c[k] = (struct charge){ .draw = held[k], .reserved = late ? 0 : held[k].amount, .charged = late ? 3 : dice_below(l->d, 900) };
			if (held[k].window_end)
				c[k].draw.window_end = (w->f.now / (3600 * SEC) + 1) * (3600 * SEC);
		}
		e = at(&w->f, late ? ENTRY_LOSS : ENTRY_SETTLE);
		if (late)
			e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = s.session, .decision = s.decision, .late = s };
		else
			e.settle = s;
		give(w, &e);
	}
	l->open[i] = l->open[l->n_open];
	l->session_of[i] = l->session_of[l->n_open];
}

static void step_review(struct world *w, struct dice *d, uint64_t session)
{
	const struct card_state *card = state_card_after(w->f.st, 0, 0);
	struct entry e;

	if (!card || dice_coin(d)) {
		give_review(w, session, dice_below(d, 1u << 30), dice_below(d, 5), dice_below(d, 100));
		return;
	}
	e = resolving(&w->f, card->id, (enum resolve_action)dice_below(d, RESOLVE_ACTION_COUNT));
	e.resolve.grants[0] = (struct grant){ .key = { .budget = STR("run"), .scope = SCOPE_SESSION, .session = card->session }, .amount = 5 };
	e.resolve.n_grants = e.resolve.action == RESOLVE_RESUME;
	give(w, &e);
}

static void step(struct world *w, struct life *l)
{
	uint64_t session = a_session(w, l->d);
	struct entry e;

	w->f.now += dice_below(l->d, 200) ? (int64_t)dice_below(l->d, 60) * SEC : 5000 * SEC; /* now and then all that ended is forgotten */
	due_first(w);
	if (!session || !state_session(w->f.st, session) || state_session(w->f.st, session)->end != SESSION_LIVE || !dice_below(l->d, 12)) {
		step_open(w, l->d);
	} else if (!dice_below(l->d, 40)) {
		e = ending(&w->f, session, SESSION_CLOSE);
		give(w, &e);
	} else if (!dice_below(l->d, 8)) {
		step_review(w, l->d, session);
	} else if (!dice_below(l->d, 500)) {
		start_entry(w);
	} else if (l->n_open && dice_coin(l->d)) {
		step_settle(w, l);
	} else {
		step_call(w, l, session);
	}
}

/* mode 0: a transaction each entry. 1: of many, some without a state. 2: reopened in between too. */
static void live(struct world *w, const char *name, uint64_t seed, int mode)
{
	struct dice *d = calloc(1, sizeof(*d)), *own = calloc(1, sizeof(*own));
	struct life l = { .d = d };
	struct pawl_error err;

	assert_non_null(d);
	assert_non_null(own);
	d->s = seed;
	own->s = seed + 1;
	world_open(w, name);
	start_entry(w);
	for (int i = 0; i < 500; i++) {
		step(w, &l);
		if (mode == 0 || !dice_below(own, 100))
			world_commit(w);
		if (mode && w->begun && !dice_below(own, 100)) {
			assert_int_equal(projection_commit(w->p, NULL, &err), 0);
			w->begun = false;
		}
		if (mode == 2 && !w->begun && dice_coin(own)) {
			projection_close(w->p);
			w->p = open_good(w->path);
		}
	}
	step_open(w, d); /* so that the last commit is one with a state */
	world_commit(w);
	free(d);
	free(own);
}

static void test_batches(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 6; seed++) {
		struct world one, many, opened;
		char names[3][32];

		for (int i = 0; i < 3; i++)
			(void)snprintf(names[i], sizeof(names[i]), "life-%d-%d", (int)seed, i);
		live(&one, names[0], seed * 977, 0);
		live(&many, names[1], seed * 977, 1);
		live(&opened, names[2], seed * 977, 2);
		assert_same_rows(one.path, many.path);
		assert_same_rows(one.path, opened.path);
		assert_ledgers(&one);
		world_done(&one);
		world_done(&many);
		world_done(&opened);
	}
}

/* No entry names the ledgers of calls that nobody reported: their lease ran out, their session ended, and it was forgotten since. */
static void test_ledgers_unnamed(void **state)
{
	struct world w;
	struct entry e;

	(void)state;
	world_open(&w, "unnamed.sqlite");
	start_entry(&w);
	for (int how = 0; how < 3; how++) {
		uint64_t session = state_next_seq(w.f.st), call;

		e = opening(&w.f, "local");
		give(&w, &e);
		call = give_allow(&w, session, 1, USD);
		world_commit(&w);
		assert_ledgers(&w);
		w.f.now += 900 * SEC;
		e = how == 0 ? expiry(&w.f, session, call) : ending(&w.f, session, SESSION_CLOSE);
		give(&w, &e);
		if (how == 2) {
			w.f.now += 2 * PAWL_SESSION_LINGER_NS;
			e = opening(&w.f, "local");
			give(&w, &e);
			assert_null(state_decision(w.f.st, call));
		}
		world_commit(&w);
		assert_ledgers(&w);
	}
	world_done(&w);
}

/* Odd texts and amounts at the ends of their range go in, and every view can be read. */
static void test_random_entries(void **state)
{
	struct dice *d = calloc(1, sizeof(*d));
	struct pawl_error err = { .code = PAWL_OK };
	struct projection *p;
	char path[512], *views;

	(void)state;
	assert_non_null(d);
	d->s = 4711;
	fx_path(dir, "random.sqlite", path);
	p = open_good(path);
	for (uint64_t seq = 0; seq < 6000; seq++) {
		struct entry e;

		random_entry(d, (enum entry_kind)(1 + seq % (ENTRY_KIND_COUNT - 1)), &e);
		e.seq = seq;
		e.now &= INT64_MAX;
		if (e.kind == ENTRY_SESSION && e.session.action == SESSION_OPEN)
			e.session.session = seq;
		if (seq % 100 == 0)
			assert_int_equal(projection_begin(p, &err), 0);
		if (projection_entry(p, &e, &err) < 0)
			fail_msg("%s", err.msg);
		if (seq % 100 == 99)
			assert_int_equal(projection_commit(p, NULL, &err), 0);
	}
	projection_close(p);
	views = answer(path, "SELECT name FROM sqlite_schema WHERE type='view'");
	for (char *at = views, *next; (next = strchr(at, '\n')) != NULL; at = next + 1) {
		char sql[128];

		*next = '\0';
		(void)snprintf(sql, sizeof(sql), "SELECT * FROM %s", at);
		free(answer(path, sql));
	}
	free(views);
	free(d);
}

/* ---- transactions ---- */

static int one_entry(struct projection *p, uint64_t seq, struct pawl_error *err)
{
	struct entry e = { .kind = ENTRY_STOP, .seq = seq, .now = 1, .stop.why = STR("why") };

	return projection_entry(p, &e, err);
}

static void test_transactions(void **state)
{
	struct pawl_error err;
	struct projection *p;
	char path[512];

	(void)state;
	fx_path(dir, "tx.sqlite", path);
	p = open_good(path);
	assert_int_equal(projection_applied(p), 0);
	assert_int_equal(one_entry(p, 0, &err), PAWL_E_USAGE);
	assert_int_equal(projection_commit(p, NULL, &err), PAWL_E_USAGE);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(projection_begin(p, &err), PAWL_E_USAGE);
	assert_int_equal(one_entry(p, 1, &err), PAWL_E_CONFLICT);
	assert_int_equal(one_entry(p, 0, &err), 0);
	assert_int_equal(one_entry(p, 0, &err), PAWL_E_CONFLICT);
	assert_int_equal(one_entry(p, 1, &err), 0);
	assert_int_equal(projection_applied(p), 0);
	assert_int_equal(projection_commit(p, NULL, &err), 0);
	assert_int_equal(projection_applied(p), 2);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(one_entry(p, 2, &err), 0);
	projection_rollback(p);
	projection_rollback(p);
	assert_int_equal(projection_applied(p), 2);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(one_entry(p, 2, &err), 0);
	projection_close(p); /* not committed: gone */
	projection_close(NULL);
	p = open_good(path);
	assert_int_equal(projection_applied(p), 2);
	projection_close(p);
	assert_int_equal(projection_open_readonly(path, &p, &err), 0);
	assert_int_equal(projection_applied(p), 2);
	projection_close(p);
}

/* ---- whose file ---- */

static int try_open(const char *path, struct pawl_error *err)
{
	struct projection *p = NULL;
	int r = projection_open(path, &p, err);

	if (r < 0) {
		assert_null(p);
		assert_int_equal(err->code, r);
	}
	projection_close(p);
	return r;
}

static void test_foreign(void **state)
{
	static const struct {
		const char *sql;
		int result;
	} rows[] = {
		{ "CREATE TABLE t(x)", PAWL_E_MALFORMED },
		{ "PRAGMA application_id=7", PAWL_E_MALFORMED },
		{ "PRAGMA user_version=9", PAWL_E_MALFORMED },
		{ "CREATE TRIGGER x AFTER INSERT ON loss BEGIN DELETE FROM loss; END", PAWL_E_MALFORMED },
		{ "CREATE VIEW x AS SELECT 1", PAWL_E_MALFORMED },
		{ "DROP VIEW losses", PAWL_E_MALFORMED },
		{ "DROP INDEX ledger_session", PAWL_E_MALFORMED },
		{ "ALTER TABLE loss ADD COLUMN x INTEGER", PAWL_E_MALFORMED },
		{ "DELETE FROM projection", PAWL_E_MALFORMED },
		{ "UPDATE projection SET applied=-1", PAWL_E_MALFORMED },
		{ "ANALYZE", 0 }, /* a habit of people that changes no answer */
		{ "PRAGMA journal_mode=DELETE", 0 },
	};
	struct pawl_error err;
	char path[512];

	(void)state;
	fx_path(dir, "foreign.sqlite", path);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		assert_int_equal(projection_remove(path, &err), 0);
		assert_int_equal(try_open(path, &err), 0);
		edit(path, rows[i].sql);
		if (try_open(path, &err) != rows[i].result)
			fail_msg("%s: %s", rows[i].sql, err.msg);
	}
}

/* Another application's database is refused, and not a byte of it changes. */
static void test_left_alone(void **state)
{
	struct pawl_error err;
	uint8_t *before, *after;
	char path[512];
	size_t n, m;

	(void)state;
	fx_write(dir, "other.sqlite", "", 0, 0600);
	fx_path(dir, "other.sqlite", path);
	edit(path, "CREATE TABLE t(x); INSERT INTO t VALUES(1)");
	before = fx_read(dir, "other.sqlite", &n);
	assert_int_equal(try_open(path, &err), PAWL_E_MALFORMED);
	after = fx_read(dir, "other.sqlite", &m);
	assert_int_equal(n, m);
	assert_memory_equal(before, after, n);
	free(before);
	free(after);
	fx_write(dir, "other.sqlite", "this is no database at all, and it is long enough to be taken for one ........................", 95, 0600);
	assert_int_equal(try_open(path, &err), PAWL_E_MALFORMED);
	assert_non_null(strstr(err.msg, "other.sqlite"));
}

static void test_unsafe(void **state)
{
	static const mode_t bad[] = { 0640, 0644, 0604, 0660 };
	struct projection *p = NULL;
	struct pawl_error err;
	char path[512], other[512];
	struct stat st;

	(void)state;
	fx_path(dir, "mode.sqlite", path);
	assert_int_equal(try_open(path, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	for (size_t i = 0; i < PAWL_LEN(bad); i++) {
		assert_int_equal(chmod(path, bad[i]), 0);
		assert_int_equal(try_open(path, &err), PAWL_E_UNSAFE);
	}
	assert_int_equal(chmod(path, 0600), 0);
	fx_path(dir, "link", other);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(try_open(other, &err), PAWL_E_UNSAFE);
	assert_int_equal(projection_open_readonly(other, &p, &err), PAWL_E_UNSAFE);
	fx_path(dir, "absent/p.sqlite", other);
	assert_int_equal(try_open(other, &err), PAWL_E_SYS);
	fx_path(dir, "nothing", other);
	assert_int_equal(projection_open_readonly(other, &p, &err), PAWL_E_INCOMPLETE);
	assert_int_equal(access(other, F_OK), -1);
	assert_int_equal(try_open(dir, &err), PAWL_E_UNSAFE);
	assert_true(projection_remove(dir, &err) < 0);
	(void)snprintf(other, sizeof(other), "%s-lock", dir); /* beside the folder, where fx_remove() does not look */
	(void)unlink(other);
	assert_null(p);
}

static void test_busy(void **state)
{
	struct projection *p, *other = NULL;
	struct pawl_error err;
	char path[512];

	(void)state;
	fx_path(dir, "busy.sqlite", path);
	p = open_good(path);
	assert_int_equal(projection_open(path, &other, &err), PAWL_E_BUSY);
	assert_int_equal(projection_remove(path, &err), PAWL_E_BUSY);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(projection_open_readonly(path, &other, &err), 0); /* whoever only looks may */
	projection_close(other);
	projection_close(p);
	assert_int_equal(projection_remove(path, &err), 0);
	assert_int_equal(projection_remove(path, &err), 0);
	assert_int_equal(access(path, F_OK), -1);
}

/* Its name leads to another file, or nowhere: no row goes where nobody looks, and the other file is not touched by the close. */
static void test_moved(void **state)
{
	struct projection *p, *other;
	struct pawl_error err;
	char path[512], aside[512];

	(void)state;
	fx_path(dir, "moved.sqlite", path);
	fx_path(dir, "aside.sqlite", aside);
	p = open_good(aside);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(one_entry(p, 0, &err), 0);
	assert_int_equal(projection_commit(p, NULL, &err), 0);
	projection_close(p);
	for (int replaced = 0; replaced < 2; replaced++) {
		p = open_good(path);
		assert_int_equal(projection_begin(p, &err), 0);
		assert_int_equal(one_entry(p, 0, &err), 0);
		assert_int_equal(projection_commit(p, NULL, &err), 0);
		assert_int_equal(replaced ? rename(aside, path) : unlink(path), 0);
		assert_int_equal(projection_begin(p, &err), PAWL_E_MALFORMED);
		projection_close(p);
		assert_int_equal(access(path, F_OK), replaced ? 0 : -1);
		assert_int_equal(projection_open(path, &other, &err), 0);
		assert_int_equal(projection_applied(other), replaced);
		projection_close(other);
		assert_int_equal(projection_remove(path, &err), 0);
	}
}

/* ---- a reader that stays ---- */

static int fill_some(struct projection *p, uint64_t *seq, struct pawl_error *err)
{
	static char text[200];
	int r = projection_begin(p, err);

	memset(text, 'x', sizeof(text));
	for (int i = 0; r == 0 && i < 20000; i++, ++*seq) {
		struct entry e = { .kind = ENTRY_KEY, .seq = *seq, .now = 1, .key = { true, { text, sizeof(text) }, { text, sizeof(text) } } };

		r = projection_entry(p, &e, err);
	}
	return r < 0 ? r : projection_commit(p, NULL, err);
}

/* It stops nobody until the WAL is as long as it may get; then the rows fall behind, and catch up when it has gone. */
static void test_long_reader(void **state)
{
	struct pawl_error err;
	struct projection *p;
	struct stat st;
	char path[512], wal[512];
	sqlite3 *db = NULL;
	uint64_t seq = 0;
	int r = 0, rounds = 0;

	(void)state;
	fx_path(dir, "reader.sqlite", path);
	fx_path(dir, "reader.sqlite-wal", wal);
	p = open_good(path);
	assert_int_equal(fill_some(p, &seq, &err), 0);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM answer", NULL, NULL, NULL), SQLITE_OK);
	for (; r == 0 && rounds < 100; rounds++)
		r = fill_some(p, &seq, &err);
	assert_int_equal(r, PAWL_E_BUSY);
	assert_true(rounds > 5);
	assert_int_equal(stat(wal, &st), 0);
	assert_true(st.st_size > (off_t)PROJECTION_WAL_MAX && st.st_size < (off_t)PROJECTION_WAL_MAX + (24 << 20));
	assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(fill_some(p, &seq, &err), 0);
	assert_int_equal(stat(wal, &st), 0);
	assert_true(st.st_size < (24 << 20));
	assert_int_equal(projection_applied(p), seq);
	sqlite3_close(db);
	projection_close(p);
	assert_int_equal(projection_remove(path, &err), 0);
}

/* Somebody holds the write lock: told, not waited for; and then it goes on. */
static void test_other_writer(void **state)
{
	struct pawl_error err;
	struct projection *p;
	sqlite3 *db = NULL;
	char path[512];

	(void)state;
	fx_path(dir, "writer.sqlite", path);
	p = open_good(path);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(projection_begin(p, &err), PAWL_E_BUSY);
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(projection_begin(p, &err), 0);
	sqlite3_close(db);
	projection_close(p);
}

/* ---- what cannot be had ---- */

/* Full at the first page, at the second, …: told, rolled back, and nothing of it is left. */
static void test_full(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct world w;
	unsigned full = 0;
	int r = -1;

	(void)state;
	world_open(&w, "full.sqlite");
	start_entry(&w);
	world_commit(&w);
	for (int64_t pages = 1; r < 0; pages++) {
		struct projection *p = w.p;
		char text[4000];

		memset(text, 'x', sizeof(text));
		assert_int_equal(projection_limit(p, pages, &err), 0);
		r = projection_begin(p, &err);
		for (uint64_t seq = 1; r == 0 && seq < 40; seq++) {
			struct entry e = { .kind = ENTRY_KEY, .seq = seq, .now = 1, .key = { true, { text, sizeof(text) }, STR("k") } };

			if (seq % 3 == 0)
				e = (struct entry){ .kind = ENTRY_THROTTLE, .seq = seq, .throttle = { .agent = { text, sizeof(text) } } };
			r = projection_entry(p, &e, &err);
			if (r < 0)
				assert_true(projection_entry(p, &e, &err) < 0); /* not by the back door, after SQLite rolled back by itself */
		}
		if (r == 0)
			r = projection_commit(p, NULL, &err);
		if (r == 0)
			break;
		full++;
		assert_int_equal(r, PAWL_E_FULL);
		projection_rollback(p);
		assert_int_equal(projection_applied(p), 1);
		free(answer(w.path, "SELECT 1/(count(*)=0)FROM answer"));
	}
	assert_true(full > 20);
	assert_int_equal(projection_applied(w.p), 40);
	world_done(&w);
}

/* A transaction with an entry of each kind and a snapshot. */
static int all_kinds(struct projection *p, struct dice *d, struct pawl_error *err)
{
	static const uint8_t sha[32] = { 1 };
	int r = projection_begin(p, err);

	d->s = 31;
	for (unsigned kind = 1; r == 0 && kind < ENTRY_KIND_COUNT; kind++) {
		struct entry e;

		random_entry(d, (enum entry_kind)kind, &e);
		e.seq = projection_applied(p) + kind - 1;
		if (e.kind == ENTRY_SESSION)
			e.session.session = e.seq;
		r = projection_entry(p, &e, err);
	}
	if (r == 0)
		r = projection_snapshot_begin(p, 1, err);
	if (r == 0)
		r = projection_snapshot_add(p, "abc", 3, err);
	if (r == 0)
		r = projection_snapshot_end(p, sha, err);
	return r < 0 ? r : projection_commit(p, NULL, err);
}

/* The 1st, the 2nd, … allocation fails, SQLite's among them. An open makes thousands, most of them for the schema's text. */
static void test_malloc_at_open(void **state)
{
	struct pawl_error err;
	char path[512];
	int r = -1;

	(void)state;
	fx_path(dir, "malloc.sqlite", path);
	for (long n = 1, failed = 1; failed; n += 1 + n / 12) {
		struct projection *p = NULL;

		assert_int_equal(projection_remove(path, &err), 0);
		err = (struct pawl_error){ .code = PAWL_OK };
		fail_malloc_after(n);
		r = projection_open(path, &p, &err);
		failed = fail_malloc_stop();
		if (r < 0 && err.code != PAWL_E_NOMEM)
			fail_msg("allocation %ld: %s", n, err.msg);
		projection_close(p);
		p = open_good(path); /* whatever it was: nothing half made */
		projection_close(p);
	}
	assert_int_equal(r, 0);
}

static void test_malloc_in_use(void **state)
{
	struct dice *d = calloc(1, sizeof(*d));
	struct pawl_error err;
	char path[512];
	long n = 1;

	(void)state;
	assert_non_null(d);
	fx_path(dir, "malloc.sqlite", path);
	assert_int_equal(projection_remove(path, &err), 0);
	for (bool failed = true; failed; n += n < 40 ? 1 : 1 + n / 20) {
		struct projection *p = open_good(path);
		uint64_t before = projection_applied(p);
		int r;

		err = (struct pawl_error){ .code = PAWL_OK };
		fail_malloc_after(n);
		r = all_kinds(p, d, &err);
		projection_rollback(p);
		failed = fail_malloc_stop();
		if (r < 0 && err.code != PAWL_E_NOMEM)
			fail_msg("allocation %ld: %s", n, err.msg);
		assert_int_equal(projection_applied(p), r < 0 ? before : before + ENTRY_KIND_COUNT - 1);
		projection_close(p);
		p = open_good(path);
		assert_int_equal(projection_applied(p), r < 0 ? before : before + ENTRY_KIND_COUNT - 1);
		projection_close(p);
	}
	assert_true(n > 20);
	free(d);
}

/* ---- damage ---- */

/* All that is ever done to a file: look, add entries of many kinds, read what is there. */
static int use(const char *path, struct pawl_error *err)
{
	struct projection_snapshot s[4];
	struct projection *p = NULL;
	struct dice *d = calloc(1, sizeof(*d));
	size_t n = 0;
	int r = projection_open(path, &p, err);

	assert_non_null(d);
	d->s = 99;
	if (r == 0)
		r = projection_begin(p, err);
	for (uint64_t i = 0; r == 0 && i < 60; i++) {
		struct entry e;

		random_entry(d, (enum entry_kind)(1 + i % (ENTRY_KIND_COUNT - 1)), &e);
		e.seq = projection_applied(p) + i;
		if (e.kind == ENTRY_SESSION && e.session.action == SESSION_OPEN)
			e.session.session = e.seq;
		else if (e.kind == ENTRY_SESSION)
			e.session.session = 3;
		else if (e.kind == ENTRY_SETTLE)
			e.settle.decision = 6;
		r = projection_entry(p, &e, err);
	}
	if (r == 0)
		r = projection_commit(p, NULL, err);
	if (r == 0)
		r = projection_snapshots(p, s, 4, &n, err);
	projection_close(p);
	free(d);
	return r;
}

static void test_damaged(void **state)
{
	static const uint8_t patterns[] = { 0x00, 0x0d };
	struct pawl_error err = { .code = PAWL_OK };
	unsigned refused = 0, tried = 0;
	struct world w;
	uint8_t *good, *bad;
	size_t n;

	(void)state;
	world_open(&w, "damaged.sqlite");
	play(&w);
	world_commit(&w);
	world_done(&w);
	good = fx_read(dir, "damaged.sqlite", &n);
	bad = malloc(n);
	assert_non_null(bad);
	assert_true(n > 20 * 4096);
	for (size_t page = 0; page < n; page += 4096)
		for (size_t i = 0; i < 3 * PAWL_LEN(patterns); i++) {
			size_t at = i % 3 == 1 ? 100 : i % 3 == 2 ? 2048 : 0; /* all of it, all but the header, its second half */

			memcpy(bad, good, n);
			memset(bad + page + at, patterns[i / 3], 4096 - at);
			fx_write(dir, "damaged.sqlite", bad, n, 0600);
			tried++;
			if (use(w.path, &err) < 0) {
				refused++;
				if (err.code != PAWL_E_MALFORMED)
					fail_msg("page %zu: %s", page / 4096, err.msg);
			}
			assert_int_equal(projection_remove(w.path, &err), 0);
		}
	assert_int_equal(use(w.path, &err), 0);
	assert_int_equal(projection_remove(w.path, &err), 0);
	assert_true(refused > tried / 4);
	for (size_t cut = 1; cut < n; cut += 4001) {
		fx_write(dir, "damaged.sqlite", good, cut, 0600);
		if (use(w.path, &err) < 0)
			assert_int_equal(err.code, PAWL_E_MALFORMED);
		assert_int_equal(projection_remove(w.path, &err), 0);
	}
	free(good);
	free(bad);
}

/* Rows that somebody edits while it is open change what is shown, and never more. */
static void test_edited(void **state)
{
	static const char *const edits[] = { "UPDATE session SET parent=session", "DELETE FROM decision", "DELETE FROM session", "DROP TABLE loss",
					     "INSERT INTO loss VALUES(30,1,'x',1,1,1)", "UPDATE session SET ended_ns=NULL,ended=NULL,ended_by=NULL,parent=3",
					     "UPDATE decision SET charged_money=9223372036854775807,reserved_money=NULL" };
	struct pawl_error err;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(edits); i++) {
		struct world w;
		struct entry e;
		int r;

		world_open(&w, "edited.sqlite");
		start_entry(&w);
		policies(&w);
		sessions(&w);
		calls(&w);
		world_commit(&w);
		edit(w.path, edits[i]);
		assert_int_equal(projection_begin(w.p, &err), 0);
		for (uint64_t seq = 12; seq < 40; seq++) {
			e = ending(&w.f, 3, SESSION_CLOSE);
			if (seq % 2)
				e = (struct entry){ .kind = ENTRY_LOSS, .loss = { .what = LOSS_LATE_SETTLE, .session = 3, .decision = 8 } };
			if (e.kind == ENTRY_LOSS)
				e.loss.late = (struct entry_settle){ .outcome = OUTCOME_OK, .charged_money = 7 };
			e.seq = seq;
			r = projection_entry(w.p, &e, &err);
			if (r < 0) {
				assert_int_equal(r, PAWL_E_MALFORMED);
				break;
			}
		}
		projection_rollback(w.p);
		world_done(&w);
		assert_int_equal(projection_remove(w.path, &err), 0);
	}
}

/* ---- how fast: printed, not judged ---- */

static void test_speed(void **state)
{
	enum { CALLS = 30000 };
	struct timespec a, b;
	struct pawl_error err;
	struct projection *p;
	struct feed f = feed_new();
	uint64_t session = open_session(&f), seq = 0;
	char path[512];
	double s;

	(void)state;
	fx_path(dir, "speed.sqlite", path);
	p = open_good(path);
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &a), 0);
	for (int i = 0; i < CALLS; i++) {
		struct draw d[2] = { draw_of(session, "run", UNIT_MONEY, USD), draw_of(0, "all", UNIT_CALLS, 1) };
		struct charge c[2] = { { .draw = d[0], .reserved = USD, .charged = USD }, { .draw = d[1], .reserved = 1, .charged = 1 } };
		struct entry e = decision(&f, session, 1, 1, VERDICT_ALLOW, d, 2);

		if (i % 500 == 0)
			assert_int_equal(projection_begin(p, &err), 0);
		e.seq = seq++;
		e.decision.call = STR("toolu_01A09q90qw90lq917835lq9");
		e.decision.tool = STR("search_the_web");
		e.decision.money_unit = STR("USD");
		assert_int_equal(projection_entry(p, &e, &err), 0);
		e = (struct entry){ .kind = ENTRY_SETTLE, .seq = seq, .now = f.now };
		e.settle = (struct entry_settle){ .session = session, .decision = seq - 1, .outcome = OUTCOME_OK, .charges = c, .n_charges = 2,
						  .money_unit = STR("USD"), .charged_money = USD, .duration_ns = 17 };
		seq++;
		assert_int_equal(projection_entry(p, &e, &err), 0);
		if (i % 500 == 499)
			assert_int_equal(projection_commit(p, f.st, &err), 0);
	}
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &b), 0);
	s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	print_message("%.0f entries/s (decision, settle; 1,000 a transaction)\n", 2 * CALLS / s);
	projection_close(p);
	state_free(f.st);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	     cmocka_unit_test(test_batches),	  cmocka_unit_test(test_random_entries),
		cmocka_unit_test(test_ledgers_unnamed), cmocka_unit_test(test_moved),
		cmocka_unit_test(test_transactions), cmocka_unit_test(test_foreign),	  cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_unsafe),	     cmocka_unit_test(test_busy),	  cmocka_unit_test(test_long_reader),
		cmocka_unit_test(test_other_writer), cmocka_unit_test(test_full),	  cmocka_unit_test(test_malloc_at_open),
		cmocka_unit_test(test_malloc_in_use),
		cmocka_unit_test(test_damaged),	     cmocka_unit_test(test_edited),	  cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, projection_setup, projection_teardown);
}
