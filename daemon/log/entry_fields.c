/* daemon/log/entry_fields.c - the rows: every field of every kind, sorted by name. docs/audit-format.md tells the same
 * in words. Owns constant tables only. */
#include "daemon/log/entry_fields.h"

#include "daemon/log/entry.h"

#define FIELD(name, type_, when_, off_)                                                                       \
	.key = "\"" name "\":", .key_n = sizeof("\"" name "\":") - 1, .type = FIELD_##type_, .when = (when_), \
	.off = (off_)
#define E(member) offsetof(struct entry, member)
#define NAMES(list)                    \
	&(const struct names)          \
	{                              \
		(list), PAWL_LEN(list) \
	}
#define FIELDS(list)                   \
	&(const struct fields)         \
	{                              \
		(list), PAWL_LEN(list) \
	}
#define N(lit)                       \
	{                            \
		lit, sizeof(lit) - 1 \
	}

static const struct str kind_names[] = {
	[ENTRY_START] = N("start"),     [ENTRY_STOP] = N("stop"),         [ENTRY_POLICY] = N("policy"),
	[ENTRY_SESSION] = N("session"), [ENTRY_DECISION] = N("decision"), [ENTRY_SETTLE] = N("settle"),
	[ENTRY_TIMEOUT] = N("timeout"), [ENTRY_THROTTLE] = N("throttle"), [ENTRY_LOSS] = N("loss")
};
static const struct str action_names[] = { N("open"), N("close"), N("stale") };
static const struct str call_kind_names[] = { N("tool"), N("llm"), N("delegate"), N("http"), N("code") };
static const struct str scope_names[] = { N("session"), N("agent"), N("tenant"), N("global") };
static const struct str what_names[] = { N("reservation_expired"), N("late_settle"), N("torn_tail") };
static const struct str verdict_names[] = { N("deny"), N("allow"), N("review"),
					    N("deny") }; /* unset is a deny, here too */
static const struct str outcome_names[] = { [OUTCOME_OK] = N("ok"),
					    [OUTCOME_ERROR] = N("error"),
					    [OUTCOME_CANCELLED] = N("cancelled"),
					    [OUTCOME_NOT_RUN] = N("not_run"),
					    [OUTCOME_EXPIRED] = N("expired") };
static const struct str reason_names[] = {
#define X(id, text) [REASON_##id] = N(text),
	PAWL_REASONS(X)
#undef X
};
_Static_assert(PAWL_LEN(kind_names) == ENTRY_KIND_COUNT, "a kind has no name");
_Static_assert(PAWL_LEN(action_names) == SESSION_ACTION_COUNT, "an action has no name");
_Static_assert(PAWL_LEN(call_kind_names) == CALL_KIND_COUNT, "a kind of call has no name");
_Static_assert(PAWL_LEN(scope_names) == SCOPE_COUNT, "a scope has no name");
_Static_assert(PAWL_LEN(what_names) == LOSS_WHAT_COUNT, "a loss has no name");
_Static_assert(PAWL_LEN(outcome_names) == OUTCOME_COUNT, "an outcome has no name");
_Static_assert(sizeof(enum verdict) == 4 && sizeof(enum reason_code) == 4, "the tables read enums as unsigned");
_Static_assert(sizeof(struct entry) < UINT16_MAX, "offsets have 16 bits");

#define ENDS_KIND                                                               \
	{                                                                       \
		FIELD("kind", NAME, ALWAYS, E(kind)), .more = NAMES(kind_names) \
	}
#define ENDS_NOW                                   \
	{                                          \
		FIELD("now", TIME, ALWAYS, E(now)) \
	}
#define ENDS_WALL                                    \
	{                                            \
		FIELD("wall", TIME, ALWAYS, E(wall)) \
	}

/* ---- start, stop, policy ---- */
static const struct field start_policy_rows[] = {
	{ FIELD("hash", TEXT, ALWAYS, E(start.policy_hash)) },
	{ FIELD("name", TEXT, ALWAYS, E(start.policy_name)) },
};
static const struct field start_rows[] = {
	{ FIELD("default", TEXT, ALWAYS, E(start.fallback)) },
	{ FIELD("judge", INT, ALWAYS, E(start.judge)) },
	ENDS_KIND,
	{ FIELD("mode", TEXT, ALWAYS, E(start.mode)) },
	ENDS_NOW,
	{ FIELD("policy", OBJECT, ALWAYS, 0), .more = FIELDS(start_policy_rows) },
	{ FIELD("probes", JSON, ALWAYS, E(start.probes_text)) },
	{ FIELD("version", TEXT, ALWAYS, E(start.version)) },
	ENDS_WALL,
};
static const struct field stop_rows[] = {
	ENDS_KIND,
	ENDS_NOW,
	ENDS_WALL,
	{ FIELD("why", TEXT, ALWAYS, E(stop.why)) },
};
static const struct field policy_rows[] = {
	{ FIELD("hash", TEXT, WHEN_SET, E(policy.hash)) },
	ENDS_KIND,
	{ FIELD("loaded", BOOL, ALWAYS, E(policy.loaded)) },
	{ FIELD("message", TEXT, WHEN_SET, E(policy.message)) },
	{ FIELD("name", TEXT, WHEN_SET, E(policy.name)) },
	ENDS_NOW,
	ENDS_WALL,
};

/* ---- session ---- */
static const struct field session_limit_rows[] = {
	{ FIELD("calls", COUNT, WHEN_FLAG, E(session.limit[UNIT_CALLS])), .flag = E(session.has_limit[UNIT_CALLS]) },
	{ FIELD("money", MONEY, WHEN_FLAG, E(session.limit[UNIT_MONEY])), .flag = E(session.has_limit[UNIT_MONEY]) },
	{ FIELD("time", SPAN, WHEN_FLAG, E(session.limit[UNIT_TIME])), .flag = E(session.has_limit[UNIT_TIME]) },
	{ FIELD("tokens", COUNT, WHEN_FLAG, E(session.limit[UNIT_TOKENS])), .flag = E(session.has_limit[UNIT_TOKENS]) },
};
static const struct field open_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(session.action)), .more = NAMES(action_names) },
	{ FIELD("agent", TEXT, ALWAYS, E(session.agent)) },
	{ FIELD("fresh_end", TIME, WHEN_SET, E(session.fresh_end)) },
	ENDS_KIND,
	{ FIELD("labels", JSON, ALWAYS, E(session.labels_text)) },
	{ FIELD("lease", SPAN, ALWAYS, E(session.lease_ns)) },
	{ FIELD("limits", OBJECT, WHEN_SET, 0), .more = FIELDS(session_limit_rows) },
	ENDS_NOW,
	{ FIELD("parent", ID, WHEN_SET, E(session.parent)), .arg = 's' },
	{ FIELD("root", ID, ALWAYS, E(session.root)), .arg = 's' },
	{ FIELD("root_dir", TEXT, WHEN_SET, E(session.root_dir)) },
	{ FIELD("session", ID, ALWAYS, E(session.session)), .arg = 's' },
	{ FIELD("token_hash", HEX, ALWAYS, E(session.token_hash)), .arg = 32 },
	ENDS_WALL,
};
static const struct field end_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(session.action)), .more = NAMES(action_names) },
	ENDS_KIND,
	ENDS_NOW,
	{ FIELD("session", ID, ALWAYS, E(session.session)), .arg = 's' },
	ENDS_WALL,
};

/* ---- decision ---- */
#define D(member) offsetof(struct draw, member)
static const struct field draw_rows[] = {
	{ FIELD("amount", AMOUNT, WHEN_SET, D(amount)), .unit = D(unit) },
	{ FIELD("budget", TEXT, ALWAYS, D(key.budget)) },
	{ FIELD("granted", AMOUNT, WHEN_SET, D(granted)), .unit = D(unit) },
	{ FIELD("limit", AMOUNT, ALWAYS, D(limit)), .unit = D(unit) },
	{ FIELD("owner", TEXT, WHEN_SET, D(key.owner)) },
	{ FIELD("scope", NAME, ALWAYS, D(key.scope)), .more = NAMES(scope_names) },
	{ FIELD("session", ID, WHEN_SET, D(key.session)), .arg = 's' },
	{ FIELD("tool", TEXT, WHEN_SET, D(key.tool)) },
	{ FIELD("unit", UNIT, ALWAYS, D(unit)) },
	{ FIELD("used", AMOUNT, ALWAYS, D(used)), .unit = D(unit) },
};
static const struct list draw_list = {
	{ draw_rows, PAWL_LEN(draw_rows) }, sizeof(struct draw), PAWL_MAX_LEDGERS, E(decision.n_draws), false
};
static const struct field path_rows[] = {
	{ FIELD("field", TEXT, ALWAYS, offsetof(struct fact_path, subject)) },
	{ FIELD("resolved", BOOL, ALWAYS, offsetof(struct fact_path, resolved)) },
};
static const struct list path_list = { { path_rows, PAWL_LEN(path_rows) },
				       sizeof(struct fact_path),
				       PAWL_LEN(((struct entry_decision *)0)->paths),
				       E(decision.n_paths),
				       true };
static const struct field card_rows[] = {
	{ FIELD("id", ID, WHEN_SET, E(decision.card)), .arg = 'r' },
	{ FIELD("until", TIME, ALWAYS, E(decision.card_until)) },
};
static const struct field fact_rows[] = {
	{ FIELD("money", MONEY, WHEN_FLAG, E(decision.money)), .flag = E(decision.cost_known) },
	{ FIELD("paths", LIST, WHEN_SET, E(decision.paths)), .more = &path_list },
	{ FIELD("tokens", INT, WHEN_FLAG, E(decision.tokens)), .flag = E(decision.tokens_known) },
};
static const struct field guard_rows[] = {
	{ FIELD("money", MONEY, WHEN_FLAG, E(decision.guard_money)), .flag = E(decision.has_guard_money) },
	{ FIELD("repeat", INT, WHEN_SET, E(decision.guard_repeat)) },
};
#define WHY_NUMBERS .flag = E(decision.why.has_numbers), .unit = E(decision.why.unit)
static const struct field reason_rows[] = {
	{ FIELD("code", NAME, ALWAYS, E(decision.why.code)), .more = NAMES(reason_names) },
	{ FIELD("counter", AMOUNT, WHEN_FLAG, E(decision.why.counter)), WHY_NUMBERS },
	{ FIELD("limit", AMOUNT, WHEN_FLAG, E(decision.why.limit)), WHY_NUMBERS },
	{ FIELD("message", MESSAGE, ALWAYS, E(decision.why.message)), .arg = sizeof(((struct reason *)0)->message) },
	{ FIELD("refers", ID, WHEN_SET, E(decision.why.refers)), .arg = 'd' },
	{ FIELD("retry_after", SPAN, WHEN_SET, E(decision.why.retry_after_ns)) },
	{ FIELD("rule", TEXT, WHEN_SET, E(decision.why.rule)) },
	{ FIELD("unit", UNIT, WHEN_FLAG, E(decision.why.unit)), WHY_NUMBERS },
};
#define RULE(word, verdict)                                                             \
	{ FIELD(word, TEXT, WHEN_SET, E(decision.rules[verdict])) },                    \
	{                                                                               \
		FIELD(word "_failed", BOOL, WHEN_SET, E(decision.rule_failed[verdict])) \
	}
static const struct field rule_rows[] = {
	RULE("allow", VERDICT_ALLOW),
	RULE("deny", VERDICT_DENY),
	RULE("review", VERDICT_REVIEW),
};
static const struct field settled_rows[] = {
	{ FIELD("outcome", NAME, WHEN_SET, E(decision.settled)), .more = NAMES(outcome_names) },
	{ FIELD("result", HEX, WHEN_FLAG, E(decision.settled_result)), .flag = E(decision.has_settled_result),
	  .arg = 32 },
};
static const struct field decision_rows[] = {
	{ FIELD("args_mac", HEX, ALWAYS, E(decision.args_mac)), .arg = 32 },
	{ FIELD("call", TEXT, ALWAYS, E(decision.call)) },
	{ FIELD("call_hash", HEX64, ALWAYS, E(decision.call_hash)) },
	{ FIELD("call_kind", NAME, ALWAYS, E(decision.kind)), .more = NAMES(call_kind_names) },
	{ FIELD("call_reused", BOOL, WHEN_SET, E(decision.call_reused)) },
	{ FIELD("card", OBJECT, WHEN_SET, 0), .more = FIELDS(card_rows) },
	{ FIELD("card_token", HEX, ALWAYS, E(decision.card_token)), .arg = 16 },
	{ FIELD("client", HEX, ALWAYS, E(decision.client)), .arg = 16 },
	{ FIELD("currency", CURRENCY, WHEN_SET, E(decision.money_unit)) },
	{ FIELD("draws", LIST, WHEN_SET, E(decision.draws)), .more = &draw_list },
	{ FIELD("facts", OBJECT, WHEN_SET, 0), .more = FIELDS(fact_rows) },
	{ FIELD("guard", OBJECT, WHEN_SET, 0), .more = FIELDS(guard_rows) },
	{ FIELD("key", HEX, ALWAYS, E(decision.key)), .arg = 16 },
	ENDS_KIND,
	{ FIELD("lease_until", TIME, WHEN_SET, E(decision.lease_until)) },
	{ FIELD("limits_ignored", BOOL, WHEN_SET, E(decision.limits_ignored)) },
	{ FIELD("model", TEXT, WHEN_SET, E(decision.model)) },
	ENDS_NOW,
	{ FIELD("reason", OBJECT, ALWAYS, 0), .more = FIELDS(reason_rows) },
	{ FIELD("repeat", HEX, WHEN_FLAG, E(decision.repeat)), .flag = E(decision.has_repeat), .arg = 16 },
	{ FIELD("root", ID, ALWAYS, E(decision.root)), .arg = 's' },
	{ FIELD("rules", OBJECT, WHEN_SET, 0), .more = FIELDS(rule_rows) },
	{ FIELD("same", HEX, ALWAYS, E(decision.same)), .arg = 16 },
	{ FIELD("session", ID, ALWAYS, E(decision.session)), .arg = 's' },
	{ FIELD("settled", OBJECT, WHEN_SET, 0), .more = FIELDS(settled_rows) },
	{ FIELD("tool", TEXT, ALWAYS, E(decision.tool)) },
	{ FIELD("verdict", NAME, ALWAYS, E(decision.answer)), .more = NAMES(verdict_names) },
	ENDS_WALL,
};

/* ---- settle, and its twin inside a loss ---- */
#define C(member) offsetof(struct charge, member)
static const struct field charge_rows[] = {
	{ FIELD("budget", TEXT, ALWAYS, C(draw.key.budget)) },
	{ FIELD("charged", AMOUNT, ALWAYS, C(charged)), .unit = C(draw.unit) },
	{ FIELD("granted", AMOUNT, WHEN_SET, C(draw.granted)), .unit = C(draw.unit) },
	{ FIELD("limit", AMOUNT, ALWAYS, C(draw.limit)), .unit = C(draw.unit) },
	{ FIELD("owner", TEXT, WHEN_SET, C(draw.key.owner)) },
	{ FIELD("reserved", AMOUNT, ALWAYS, C(reserved)), .unit = C(draw.unit) },
	{ FIELD("scope", NAME, ALWAYS, C(draw.key.scope)), .more = NAMES(scope_names) },
	{ FIELD("session", ID, WHEN_SET, C(draw.key.session)), .arg = 's' },
	{ FIELD("tool", TEXT, WHEN_SET, C(draw.key.tool)) },
	{ FIELD("unit", UNIT, ALWAYS, C(draw.unit)) },
	{ FIELD("used", AMOUNT, ALWAYS, C(draw.used)), .unit = C(draw.unit) },
};
/* s: where the struct entry_settle is; o: where the ids are */
#define SETTLE_ROWS(s, o)                                                                                              \
	{ FIELD("charged", OBJECT, ALWAYS, 0), .more = FIELDS(((const struct field[]){                                 \
						   { FIELD("money", MONEY, ALWAYS, E(s.charged_money)) },              \
						   { FIELD("tokens", INT, ALWAYS, E(s.charged_tokens)) },              \
					       })) },                                                                  \
	    { FIELD("currency", CURRENCY, WHEN_SET, E(s.money_unit)) },                                                \
	    { FIELD("decision", ID, ALWAYS, E(o.decision)), .arg = 'd' },                                              \
	    { FIELD("duration", SPAN, WHEN_NOT_NEGATIVE, E(s.duration_ns)) },                                          \
	    { FIELD("error", OBJECT, WHEN_FLAG, 0), .flag = E(s.has_error),                                            \
	      .more = FIELDS(((const struct field[]){                                                                  \
		  { FIELD("mac", HEX, ALWAYS, E(s.error_mac)), .arg = 32 },                                            \
		  { FIELD("type", TEXT, ALWAYS, E(s.error_kind)) },                                                    \
	      })) },                                                                                                   \
	    ENDS_KIND,                                                                                                 \
	    { FIELD("ledgers", LIST, WHEN_SET, E(s.charges)),                                                          \
	      .more = &(const struct list){ { charge_rows, PAWL_LEN(charge_rows) },                                    \
					    sizeof(struct charge),                                                     \
					    PAWL_MAX_LEDGERS,                                                          \
					    E(s.n_charges),                                                            \
					    false } },                                                                 \
	    ENDS_NOW, { FIELD("outcome", NAME, ALWAYS, E(s.outcome)), .more = NAMES(outcome_names) },                  \
	    { FIELD("reported", OBJECT, WHEN_SET, 0),                                                                  \
	      .more = FIELDS(((const struct field[]){                                                                  \
		  { FIELD("money", MONEY, WHEN_FLAG, E(s.money)), .flag = E(s.has_money) },                            \
		  { FIELD("tokens", INT, WHEN_FLAG, E(s.tokens)), .flag = E(s.has_tokens) },                           \
	      })) },                                                                                                   \
	    { FIELD("result", OBJECT, WHEN_FLAG, 0), .flag = E(s.has_result),                                          \
	      .more = FIELDS(((const struct field[]){                                                                  \
		  { FIELD("bytes", INT, ALWAYS, E(s.result_bytes)) },                                                  \
		  { FIELD("mac", HEX, ALWAYS, E(s.result_mac)), .arg = 32 },                                           \
	      })) },                                                                                                   \
	    { FIELD("returned", MONEY, ALWAYS, E(s.returned)) }, { FIELD("same", HEX, ALWAYS, E(s.same)), .arg = 16 }, \
	    { FIELD("session", ID, ALWAYS, E(o.session)), .arg = 's' }, ENDS_WALL
#define ENDS_WHAT                                                                    \
	{                                                                            \
		FIELD("what", NAME, ALWAYS, E(loss.what)), .more = NAMES(what_names) \
	}

static const struct field settle_rows[] = { SETTLE_ROWS(settle, settle) };
static const struct field late_rows[] = { SETTLE_ROWS(loss.late, loss), ENDS_WHAT };
static const struct field expired_rows[] = {
	{ FIELD("decision", ID, ALWAYS, E(loss.decision)), .arg = 'd' }, ENDS_KIND, ENDS_NOW,
	{ FIELD("session", ID, ALWAYS, E(loss.session)), .arg = 's' },   ENDS_WALL, ENDS_WHAT,
};
static const struct field torn_rows[] = {
	{ FIELD("bytes", INT, ALWAYS, E(loss.bytes)) }, ENDS_KIND, ENDS_NOW, ENDS_WALL, ENDS_WHAT,
};

/* ---- timeout, throttle ---- */
static const struct field timeout_rows[] = {
	{ FIELD("card", ID, ALWAYS, E(timeout.card)), .arg = 'r' },       ENDS_KIND, ENDS_NOW,
	{ FIELD("session", ID, ALWAYS, E(timeout.session)), .arg = 's' }, ENDS_WALL,
};
static const struct field throttle_rows[] = {
	{ FIELD("agent", TEXT, ALWAYS, E(throttle.agent)) },
	{ FIELD("count", INT, ALWAYS, E(throttle.count)) },
	ENDS_KIND,
	ENDS_NOW,
	{ FIELD("session", ID, WHEN_SET, E(throttle.session)), .arg = 's' },
	ENDS_WALL,
};

#define SHAPE(rows, kind, sub, mark)                  \
	{                                             \
		rows, PAWL_LEN(rows), kind, sub, mark \
	}
const struct shape entry_shapes[] = {
	SHAPE(decision_rows, ENTRY_DECISION, 0, NULL), /* the most frequent first */
	SHAPE(settle_rows, ENTRY_SETTLE, 0, NULL),
	SHAPE(open_rows, ENTRY_SESSION, SESSION_OPEN, "\"action\":\"open\""),
	SHAPE(end_rows, ENTRY_SESSION, SESSION_CLOSE, "\"action\":\"close\""),
	SHAPE(end_rows, ENTRY_SESSION, SESSION_STALE, "\"action\":\"stale\""),
	SHAPE(expired_rows, ENTRY_LOSS, LOSS_RESERVATION_EXPIRED, "\"what\":\"reservation_expired\""),
	SHAPE(late_rows, ENTRY_LOSS, LOSS_LATE_SETTLE, "\"what\":\"late_settle\""),
	SHAPE(torn_rows, ENTRY_LOSS, LOSS_TORN_TAIL, "\"what\":\"torn_tail\""),
	SHAPE(timeout_rows, ENTRY_TIMEOUT, 0, NULL),
	SHAPE(throttle_rows, ENTRY_THROTTLE, 0, NULL),
	SHAPE(policy_rows, ENTRY_POLICY, 0, NULL),
	SHAPE(start_rows, ENTRY_START, 0, NULL),
	SHAPE(stop_rows, ENTRY_STOP, 0, NULL),
};
_Static_assert(PAWL_LEN(decision_rows) <= 32 && PAWL_LEN(late_rows) <= 32, "the reader has a bit a row");
const size_t entry_n_shapes = PAWL_LEN(entry_shapes);

const char *entry_kind_name(enum entry_kind kind)
{
	return (unsigned)kind < ENTRY_KIND_COUNT ? kind_names[kind].p : NULL;
}

const struct shape *entry_shape_of(const struct entry *e)
{
	unsigned sub = e->kind == ENTRY_SESSION ? e->session.action : e->kind == ENTRY_LOSS ? e->loss.what : 0;

	for (size_t i = 0; i < entry_n_shapes; i++)
		if (entry_shapes[i].kind == e->kind && entry_shapes[i].sub == sub)
			return &entry_shapes[i];
	return NULL;
}

const char *verdict_name(enum verdict v)
{
	return (unsigned)v < PAWL_LEN(verdict_names) ? verdict_names[v].p : "deny";
}

const char *scope_name(enum scope s)
{
	return (unsigned)s < SCOPE_COUNT ? scope_names[s].p : NULL;
}

const char *outcome_name(enum outcome o)
{
	return (unsigned)o < OUTCOME_COUNT ? outcome_names[o].p : NULL;
}

const char *call_kind_name(enum call_kind k)
{
	return (unsigned)k < CALL_KIND_COUNT ? call_kind_names[k].p : NULL;
}
