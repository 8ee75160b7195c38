/* daemon/log/entry_fields.c - the rows: every field of every kind, sorted by name; those of entries about pawld itself are in
 * entry_fields_daemon.c, those of the watch in entry_fields_watch.c. docs/audit-format.md tells the same in words; the enums' words are in entry_names.c. Owns constant tables only. */
#include "daemon/log/entry_rows.h"

_Static_assert(sizeof(struct entry) < UINT16_MAX, "offsets have 16 bits");

/* ---- session ---- */
static const struct field session_limit_rows[] = {
	{ FIELD("calls", COUNT, WHEN_FLAG, E(session.limit[UNIT_CALLS])), .flag = E(session.has_limit[UNIT_CALLS]) },
	{ FIELD("money", MONEY, WHEN_FLAG, E(session.limit[UNIT_MONEY])), .flag = E(session.has_limit[UNIT_MONEY]) },
	{ FIELD("time", SPAN, WHEN_FLAG, E(session.limit[UNIT_TIME])), .flag = E(session.has_limit[UNIT_TIME]) },
	{ FIELD("tokens", COUNT, WHEN_FLAG, E(session.limit[UNIT_TOKENS])), .flag = E(session.has_limit[UNIT_TOKENS]) },
};
static const struct field open_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(session.action)), .more = &entry_action_names },
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
/* ---- breakers, in whatever changes them ---- */
static const struct field time_item = { FIELD("", TIME, ALWAYS, 0) };
#define B(member) offsetof(struct breaker_row, member)
#define TIMES(n) { .item = &time_item, .size = sizeof(int64_t), .max = PAWL_MAX_STREAK, .count = (n), .count32 = true, .in_place = true }
static const struct list breaches_list = TIMES(B(n_breaches)), denies_list = TIMES(B(n_denies)), fails_list = TIMES(B(n_fails));
const struct field entry_breaker_rows[] = {
	{ FIELD("breaches", LIST, WHEN_SET, B(breaches)), .more = &breaches_list },
	{ FIELD("denies", LIST, WHEN_SET, B(denies)), .more = &denies_list },
	{ FIELD("fails", LIST, WHEN_SET, B(fails)), .more = &fails_list },
	{ FIELD("generation", INT, ALWAYS, B(generation)) },
	{ FIELD("id", TEXT, ALWAYS, B(id)) },
	{ FIELD("mode", NAME, ALWAYS, B(mode)), .more = &entry_mode_names },
	{ FIELD("owner", TEXT, WHEN_SET, B(owner)) },
	{ FIELD("probe", ID_OR_OWN, WHEN_SET, B(probe)), .arg = 'd' },
	{ FIELD("scope", NAME, ALWAYS, B(scope)), .more = &entry_reach_names },
	{ FIELD("session", ID, WHEN_SET, B(session)), .arg = 's' },
	{ FIELD("sticky", BOOL, WHEN_SET, B(sticky)) },
	{ FIELD("tool", TEXT, WHEN_SET, B(tool)) },
	{ FIELD("until", TIME, WHEN_SET, B(until)) },
	{ FIELD("would", BOOL, WHEN_SET, B(would)) },
};
_Static_assert(PAWL_LEN(entry_breaker_rows) == BREAKER_ROWS, "entry_rows.h counts them");

static const struct field abort_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(session.action)), .more = &entry_action_names },
	BREAKERS(session),
	{ FIELD("hold_until", TIME, WHEN_SET, E(session.hold_until)) },
	{ FIELD("key", TEXT, ALWAYS, E(session.key)) },
	ENDS_KIND, ENDS_NOW,
	{ FIELD("operator", TEXT, ALWAYS, E(session.operator)) },
	{ FIELD("reason", TEXT, ALWAYS, E(session.reason)) },
	{ FIELD("session", ID, ALWAYS, E(session.session)), .arg = 's' },
	{ FIELD("signature", HEX, ALWAYS, E(session.signature)), .arg = 64 },
	{ FIELD("signed", HEX, ALWAYS, E(session.signed_hash)), .arg = 32 },
	ENDS_WALL,
};
static const struct field end_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(session.action)), .more = &entry_action_names },
	ENDS_KIND, ENDS_NOW,
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
	{ FIELD("reset_at", TIME, WHEN_SET, D(window_end)) },
	{ FIELD("scope", NAME, ALWAYS, D(key.scope)), .more = &entry_scope_names },
	{ FIELD("session", ID, WHEN_SET, D(key.session)), .arg = 's' },
	{ FIELD("tool", TEXT, WHEN_SET, D(key.tool)) },
	{ FIELD("unit", UNIT, ALWAYS, D(unit)) },
	{ FIELD("used", AMOUNT, ALWAYS, D(used)), .unit = D(unit) },
};
static const struct list draw_list = { .fields = { draw_rows, PAWL_LEN(draw_rows) }, .size = sizeof(struct draw), .max
					= PAWL_MAX_LEDGERS, .count = E(decision.n_draws) };
static const struct field path_rows[] = {
	{ FIELD("field", TEXT, ALWAYS, offsetof(struct fact_path, subject)) },
	{ FIELD("resolved", BOOL, ALWAYS, offsetof(struct fact_path, resolved)) },
};
static const struct list path_list = { .fields = { path_rows, PAWL_LEN(path_rows) }, .size = sizeof(struct fact_path),
					.max = PAWL_LEN(((struct entry_decision *)0)->paths), .count = E(decision.n_paths), .in_place = true };
static const struct field ask_rows[] = {
	{ FIELD("code", NAME, ALWAYS, offsetof(struct ask, code)), .more = &entry_reason_names },
	{ FIELD("refers", ID, WHEN_SET, offsetof(struct ask, refers)), .arg = 'd' },
	{ FIELD("rule", TEXT, WHEN_SET, offsetof(struct ask, rule)) },
};
static const struct list ask_list = { .fields = { ask_rows, PAWL_LEN(ask_rows) }, .size = sizeof(struct ask), .max =
					PAWL_MAX_ASKS, .count = E(decision.n_asks), .in_place = true };
static const struct field stick_rows[] = {
	{ FIELD("how", NAME, ALWAYS, offsetof(struct stick_fact, how)), .more = &entry_stick_names },
	{ FIELD("rule", TEXT, ALWAYS, offsetof(struct stick_fact, rule)) },
	{ FIELD("tool", TEXT, ALWAYS, offsetof(struct stick_fact, tool)) },
};
static const struct list stick_list = { .fields = { stick_rows, PAWL_LEN(stick_rows) }, .size = sizeof(struct
					stick_fact), .max = PAWL_MAX_STICKS, .count = E(decision.n_sticks), .in_place = true };
static const struct field token_item = { FIELD("", HEX, ALWAYS, 0), .arg = 16 };
static const struct list trip_list = {
	.item = &token_item, .size = 16, .max = PAWL_MAX_PERIOD, .count = E(decision.n_trips), .in_place = true
};
#define A(member) E(decision.asked.member)
static const struct field asked_rows[] = {
	{ FIELD("lease", SPAN, WHEN_SET, A(lease_ns)) },
	{ FIELD("money", MONEY, WHEN_FLAG, A(money)), .flag = A(has_money) },
	{ FIELD("repeat", INT, WHEN_SET, A(repeat)) },
};
static const struct field card_rows[] = {
	{ FIELD("asks", LIST, WHEN_SET, E(decision.asks)), .more = &ask_list },
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
/* why: the struct reason */
#define WHY_NUMBERS(why) .flag = E(why.has_numbers), .unit = E(why.unit)
#define REASON_ROWS(why)                                                                                             \
	{ FIELD("code", NAME, ALWAYS, E(why.code)), .more = &entry_reason_names },                                   \
	    { FIELD("counter", AMOUNT, WHEN_FLAG, E(why.counter)), WHY_NUMBERS(why) },                               \
	    { FIELD("limit", AMOUNT, WHEN_FLAG, E(why.limit)), WHY_NUMBERS(why) },                                   \
	    { FIELD("message", MESSAGE, ALWAYS, E(why.message)), .arg = sizeof(((struct reason *)0)->message) },     \
	    { FIELD("refers", ID, WHEN_SET, E(why.refers)), .arg = 'd' },                                            \
	    { FIELD("retry_after", SPAN, WHEN_SET, E(why.retry_after_ns)) },                                         \
	    { FIELD("rule", TEXT, WHEN_SET, E(why.rule)) },                                                          \
	{                                                                                                            \
		FIELD("unit", UNIT, WHEN_FLAG, E(why.unit)), WHY_NUMBERS(why)                                        \
	}
static const struct field reason_rows[] = { REASON_ROWS(decision.why) };
static const struct field would_reason_rows[] = { REASON_ROWS(decision.would_why) };
static const struct field would_rows[] = {
	{ FIELD("reason", OBJECT, ALWAYS, 0), .more = FIELDS(would_reason_rows) },
	{ FIELD("verdict", NAME, WHEN_SET, E(decision.would)), .more = &entry_verdict_names },
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
	{ FIELD("outcome", NAME, WHEN_SET, E(decision.settled)), .more = &entry_outcome_names },
	{ FIELD("result", HEX, WHEN_FLAG, E(decision.settled_result)), .flag = E(decision.has_settled_result),
	  .arg = 32 },
};
static const struct field decision_rows[] = {
	{ FIELD("args_mac", HEX, ALWAYS, E(decision.args_mac)), .arg = 32 },
	{ FIELD("asked", OBJECT, WHEN_SET, 0), .more = FIELDS(asked_rows) },
	BREAKERS(decision),
	{ FIELD("call", TEXT, ALWAYS, E(decision.call)) },
	{ FIELD("call_hash", HEX64, ALWAYS, E(decision.call_hash)) },
	{ FIELD("call_kind", NAME, ALWAYS, E(decision.kind)), .more = &entry_call_kind_names },
	{ FIELD("call_reused", BOOL, WHEN_SET, E(decision.call_reused)) },
	{ FIELD("card", OBJECT, WHEN_SET, 0), .more = FIELDS(card_rows) },
	{ FIELD("card_token", HEX, ALWAYS, E(decision.card_token)), .arg = 16 },
	{ FIELD("claims", ID, WHEN_SET, E(decision.claims)), .arg = 'r' },
	{ FIELD("client", HEX, ALWAYS, E(decision.client)), .arg = 16 },
	{ FIELD("currency", CURRENCY, WHEN_SET, E(decision.money_unit)) },
	{ FIELD("draws", LIST, WHEN_SET, E(decision.draws)), .more = &draw_list },
	{ FIELD("ends_cards", BOOL, WHEN_SET, E(decision.ends_cards)) },
	{ FIELD("facts", OBJECT, WHEN_SET, 0), .more = FIELDS(fact_rows) },
	{ FIELD("guard", OBJECT, WHEN_SET, 0), .more = FIELDS(guard_rows) },
	{ FIELD("key", HEX, ALWAYS, E(decision.key)), .arg = 16 },
	ENDS_KIND,
	{ FIELD("lease_until", TIME, WHEN_SET, E(decision.lease_until)) },
	{ FIELD("limits_ignored", BOOL, WHEN_SET, E(decision.limits_ignored)) },
	{ FIELD("model", TEXT, WHEN_SET, E(decision.model)) },
	ENDS_NOW,
	{ FIELD("polling", BOOL, WHEN_SET, E(decision.polling)) },
	{ FIELD("price", MONEY, WHEN_FLAG, E(decision.price)), .flag = E(decision.has_price) },
	{ FIELD("reason", OBJECT, ALWAYS, 0), .more = FIELDS(reason_rows) },
	{ FIELD("refund", BOOL, WHEN_SET, E(decision.refund)) },
	{ FIELD("repeat", HEX, WHEN_FLAG, E(decision.repeat)), .flag = E(decision.has_repeat), .arg = 16 },
	{ FIELD("root", ID, ALWAYS, E(decision.root)), .arg = 's' },
	{ FIELD("rules", OBJECT, WHEN_SET, 0), .more = FIELDS(rule_rows) },
	{ FIELD("same", HEX, ALWAYS, E(decision.same)), .arg = 16 },
	{ FIELD("session", ID, ALWAYS, E(decision.session)), .arg = 's' },
	{ FIELD("settled", OBJECT, WHEN_SET, 0), .more = FIELDS(settled_rows) },
	{ FIELD("shadow", BOOL, WHEN_SET, E(decision.shadow)) },
	{ FIELD("spends", ID, WHEN_SET, E(decision.spends)), .arg = 'r' },
	{ FIELD("sticks", LIST, WHEN_SET, E(decision.sticks)), .more = &stick_list },
	{ FIELD("tool", TEXT, ALWAYS, E(decision.tool)) },
	{ FIELD("trips", LIST, WHEN_SET, E(decision.trips)), .more = &trip_list },
	{ FIELD("verdict", NAME, ALWAYS, E(decision.answer)), .more = &entry_verdict_names },
	ENDS_WALL,
	{ FIELD("would", OBJECT, WHEN_SET, 0), .more = FIELDS(would_rows) },
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
	{ FIELD("reset_at", TIME, WHEN_SET, C(draw.window_end)) },
	{ FIELD("scope", NAME, ALWAYS, C(draw.key.scope)), .more = &entry_scope_names },
	{ FIELD("session", ID, WHEN_SET, C(draw.key.session)), .arg = 's' },
	{ FIELD("tool", TEXT, WHEN_SET, C(draw.key.tool)) },
	{ FIELD("unit", UNIT, ALWAYS, C(draw.unit)) },
	{ FIELD("used", AMOUNT, ALWAYS, C(draw.used)), .unit = C(draw.unit) },
};
/* s: where the struct entry_settle is; o: where the ids and the breakers are */
#define SETTLE_ROWS(s, o)                                                                                              \
	BREAKERS(o),                                                                                                   \
	    { FIELD("charged", OBJECT, ALWAYS, 0), .more = FIELDS(((const struct field[]){                             \
						       { FIELD("money", MONEY, ALWAYS, E(s.charged_money)) },          \
						       { FIELD("tokens", INT, ALWAYS, E(s.charged_tokens)) },          \
						   })) },                                                              \
	    { FIELD("currency", CURRENCY, WHEN_SET, E(s.money_unit)) },                                                \
	    { FIELD("decision", ID, ALWAYS, E(o.decision)), .arg = 'd' },                                              \
	    { FIELD("duration", SPAN, WHEN_NOT_NEGATIVE, E(s.duration_ns)) },                                          \
	    { FIELD("error", OBJECT, WHEN_FLAG, 0), .flag = E(s.has_error),                                            \
	      .more = FIELDS(((const struct field[]){                                                                  \
		  { FIELD("mac", HEX, ALWAYS, E(s.error_mac)), .arg = 32 },                                            \
		  { FIELD("type", TEXT, ALWAYS, E(s.error_kind)) },                                                    \
	      })) },                                                                                                   \
	    { FIELD("error_token", HEX, WHEN_FLAG, E(s.error_token)), .flag = E(s.has_error_token), .arg = 16 },       \
	    ENDS_KIND,                                                                                                 \
	    { FIELD("ledgers", LIST, WHEN_SET, E(s.charges)),                                                          \
	      .more = &(const struct list){ .fields = { charge_rows, PAWL_LEN(charge_rows) },                          \
					    .size = sizeof(struct charge),                                             \
					    .max = PAWL_MAX_LEDGERS,                                                   \
					    .count = E(s.n_charges) } },                                               \
	    ENDS_NOW, { FIELD("outcome", NAME, ALWAYS, E(s.outcome)), .more = &entry_outcome_names },                  \
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
	    { FIELD("result_token", HEX, WHEN_FLAG, E(s.result_token)), .flag = E(s.has_result_token), .arg = 16 },    \
	    { FIELD("returned", MONEY, ALWAYS, E(s.returned)) }, { FIELD("same", HEX, ALWAYS, E(s.same)), .arg = 16 }, \
	    { FIELD("session", ID, ALWAYS, E(o.session)), .arg = 's' }, ENDS_WALL
#define ENDS_WHAT                                                                    \
	{                                                                            \
		FIELD("what", NAME, ALWAYS, E(loss.what)), .more = &entry_what_names \
	}

static const struct field settle_rows[] = { SETTLE_ROWS(settle, settle) };
static const struct field late_rows[] = { SETTLE_ROWS(loss.late, loss), ENDS_WHAT };
static const struct field expired_rows[] = {
	BREAKERS(loss), { FIELD("decision", ID, ALWAYS, E(loss.decision)), .arg = 'd' }, ENDS_KIND,
	ENDS_NOW,       { FIELD("session", ID, ALWAYS, E(loss.session)), .arg = 's' },   ENDS_WALL,
	ENDS_WHAT,
};
static const struct field torn_rows[] = {
	{ FIELD("bytes", INT, ALWAYS, E(loss.bytes)) }, ENDS_KIND, ENDS_NOW, ENDS_WALL, ENDS_WHAT,
};

/* ---- timeout ---- */
static const struct field timeout_rows[] = {
	{ FIELD("card", ID, ALWAYS, E(timeout.card)), .arg = 'r' },       ENDS_KIND, ENDS_NOW,
	{ FIELD("session", ID, ALWAYS, E(timeout.session)), .arg = 's' },
	{ FIELD("waiter", BOOL, WHEN_SET, E(timeout.waiter)) },		 ENDS_WALL,
};

/* ---- what people do ---- */
#define G(member) offsetof(struct grant, member)
static const struct field grant_rows[] = {
	{ FIELD("amount", AMOUNT, ALWAYS, G(amount)), .unit = G(key.unit) },
	{ FIELD("budget", TEXT, ALWAYS, G(key.budget)) },
	{ FIELD("owner", TEXT, WHEN_SET, G(key.owner)) },
	{ FIELD("scope", NAME, ALWAYS, G(key.scope)), .more = &entry_scope_names },
	{ FIELD("session", ID, WHEN_SET, G(key.session)), .arg = 's' },
	{ FIELD("tool", TEXT, WHEN_SET, G(key.tool)) },
	{ FIELD("unit", UNIT, ALWAYS, G(key.unit)) },
};
static const struct list grant_list = { .fields = { grant_rows, PAWL_LEN(grant_rows) }, .size = sizeof(struct grant),
					.max = PAWL_MAX_ASKS, .count = E(resolve.n_grants), .in_place = true };
static const struct field resolve_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(resolve.action)), .more = &entry_answer_names },
	BREAKERS(resolve),
	{ FIELD("card", ID, ALWAYS, E(resolve.card)), .arg = 'r' },
	{ FIELD("currency", CURRENCY, WHEN_SET, E(resolve.money_unit)) },
	{ FIELD("ends", ID, WHEN_SET, E(resolve.ends)), .arg = 's' },
	{ FIELD("grants", LIST, WHEN_SET, E(resolve.grants)), .more = &grant_list },
	{ FIELD("hold_until", TIME, WHEN_SET, E(resolve.hold_until)) },
	{ FIELD("key", TEXT, ALWAYS, E(resolve.key)) },
	ENDS_KIND, ENDS_NOW,
	{ FIELD("operator", TEXT, ALWAYS, E(resolve.operator)) },
	{ FIELD("reason", TEXT, ALWAYS, E(resolve.reason)) },
	{ FIELD("session", ID, ALWAYS, E(resolve.session)), .arg = 's' },
	{ FIELD("signature", HEX, ALWAYS, E(resolve.signature)), .arg = 64 },
	{ FIELD("signed", HEX, ALWAYS, E(resolve.signed_hash)), .arg = 32 },
	ENDS_WALL,
};
static const struct field card_close_rows[] = {
	{ FIELD("action", NAME, ALWAYS, E(resolve.action)), .more = &entry_answer_names },
	{ FIELD("card", ID, ALWAYS, E(resolve.card)), .arg = 'r' },
	ENDS_KIND, ENDS_NOW,
	{ FIELD("reason", TEXT, WHEN_SET, E(resolve.reason)) },
	{ FIELD("session", ID, ALWAYS, E(resolve.session)), .arg = 's' },
	ENDS_WALL,
};
static const struct field reset_rows[] = {
	{ FIELD("breaker", OBJECT, ALWAYS, E(breaker.row)), .more = FIELDS(entry_breaker_rows) },
	{ FIELD("key", TEXT, ALWAYS, E(breaker.key)) },
	ENDS_KIND, ENDS_NOW,
	{ FIELD("operator", TEXT, ALWAYS, E(breaker.operator)) },
	{ FIELD("reason", TEXT, ALWAYS, E(breaker.reason)) },
	{ FIELD("signature", HEX, ALWAYS, E(breaker.signature)), .arg = 64 },
	{ FIELD("signed", HEX, ALWAYS, E(breaker.signed_hash)), .arg = 32 },
	ENDS_WALL,
};

#define SHAPE(rows, kind, sub, mark)            \
	{                                       \
		FIELDS(rows), kind, sub, mark   \
	}
#define WATCH_SHAPE(action, word)                                                                  \
	{                                                                                          \
		&entry_watch_fields[action], ENTRY_WATCH, action, "\"action\":\"" word "\""      \
	}
const struct shape entry_shapes[] = {
	SHAPE(decision_rows, ENTRY_DECISION, 0, NULL), /* the most frequent first */
	SHAPE(settle_rows, ENTRY_SETTLE, 0, NULL),
	SHAPE(open_rows, ENTRY_SESSION, SESSION_OPEN, "\"action\":\"open\""),
	SHAPE(end_rows, ENTRY_SESSION, SESSION_CLOSE, "\"action\":\"close\""),
	SHAPE(end_rows, ENTRY_SESSION, SESSION_STALE, "\"action\":\"stale\""),
	SHAPE(abort_rows, ENTRY_SESSION, SESSION_ABORT, "\"action\":\"abort\""),
	SHAPE(decision_rows, ENTRY_CLAIM, 0, NULL),
	SHAPE(resolve_rows, ENTRY_RESOLVE, RESOLVE_RESUME, "\"action\":\"resume\""),
	SHAPE(resolve_rows, ENTRY_RESOLVE, RESOLVE_SKIP, "\"action\":\"skip\""),
	SHAPE(resolve_rows, ENTRY_RESOLVE, RESOLVE_ABORT, "\"action\":\"abort\""),
	SHAPE(card_close_rows, ENTRY_RESOLVE, RESOLVE_CLOSE, "\"action\":\"close\""),
	SHAPE(reset_rows, ENTRY_BREAKER, 0, NULL),
	{ &entry_key_fields, ENTRY_KEY, 0, NULL },
	SHAPE(expired_rows, ENTRY_LOSS, LOSS_RESERVATION_EXPIRED, "\"what\":\"reservation_expired\""),
	SHAPE(late_rows, ENTRY_LOSS, LOSS_LATE_SETTLE, "\"what\":\"late_settle\""),
	SHAPE(torn_rows, ENTRY_LOSS, LOSS_TORN_TAIL, "\"what\":\"torn_tail\""),
	SHAPE(timeout_rows, ENTRY_TIMEOUT, 0, NULL),
	{ &entry_throttle_fields, ENTRY_THROTTLE, 0, NULL },
	{ &entry_policy_fields, ENTRY_POLICY, 0, NULL },
	{ &entry_start_fields, ENTRY_START, 0, NULL },
	{ &entry_stop_fields, ENTRY_STOP, 0, NULL },
	{ &entry_snapshot_fields, ENTRY_SNAPSHOT, 0, NULL },
	WATCH_SHAPE(WATCHED_EXECS, "execs"),
	WATCH_SHAPE(WATCHED_ATTACH, "attach"),
	WATCH_SHAPE(WATCHED_KILL, "kill"),
	WATCH_SHAPE(WATCHED_BREACH, "breach"),
	WATCH_SHAPE(WATCHED_LOST, "lost"),
	WATCH_SHAPE(WATCHED_LEFT, "left"),
	WATCH_SHAPE(WATCHED_END, "end"),
};
_Static_assert(PAWL_LEN(decision_rows) <= 64 && PAWL_LEN(late_rows) <= 64, "the reader has a bit a row");
const size_t entry_n_shapes = PAWL_LEN(entry_shapes);

const struct shape *entry_shape_of(const struct entry *e)
{
	unsigned sub = e->kind == ENTRY_SESSION   ? e->session.action
		       : e->kind == ENTRY_LOSS    ? e->loss.what
		       : e->kind == ENTRY_RESOLVE ? e->resolve.action
		       : e->kind == ENTRY_WATCH   ? e->watch.action
						  : 0;

	for (size_t i = 0; i < entry_n_shapes; i++)
		if (entry_shapes[i].kind == e->kind && entry_shapes[i].sub == sub)
			return &entry_shapes[i];
	return NULL;
}
