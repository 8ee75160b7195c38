/* daemon/door/wire_ops.c - what each op may say, as docs/wire.md has it: one table an op, nothing else. */
#include "daemon/door/wire_field.h"

#define R(member)              .off = offsetof(struct request, member)
#define FLAG(member)           .flag = offsetof(struct request, member)
#define ROW(text, type_, need) .name = { text, sizeof(text) - 1 }, .type = WIRE_##type_, .required = (need)
#define NEED                   true
#define MAY                    false
#define ROWS(list)             .rows = (list), .n = PAWL_LEN(list)
#define NO_FLAG                .flag = WIRE_NO_FLAG
#define MAX_LEASE              (24 * 3600 * NS_PER_SEC)
#define MAX_WAIT               (60 * NS_PER_SEC)

static const char *const kind_words[] = { [CALL_TOOL] = "tool",
					  [CALL_LLM] = "llm",
					  [CALL_DELEGATE] = "delegate",
					  [CALL_HTTP] = "http",
					  [CALL_CODE] = "code" };
static const char *const outcome_words[] = {
	[OUTCOME_OK] = "ok", [OUTCOME_ERROR] = "error", [OUTCOME_CANCELLED] = "cancelled", [OUTCOME_NOT_RUN] = "not_run"
};

#define HEAD                                   \
	{ ROW("v", VERSION, NEED), NO_FLAG },  \
	{                                      \
		ROW("op", SEEN, NEED), NO_FLAG \
	}
#define WHO                                                               \
	{ ROW("session", ID, NEED), R(session), NO_FLAG, .letter = 's' }, \
	{                                                                 \
		ROW("token", HEX, NEED), R(token), NO_FLAG, .max = 32     \
	}

static const struct wire_field plain_rows[] = { HEAD };
static const struct wire_field who_rows[] = { HEAD, WHO };

/* ---- session.open ---- */
static const struct wire_field open_limits[] = {
	{ ROW("money", SHARE, MAY), R(open.limit[UNIT_MONEY]), NO_FLAG },
	{ ROW("tokens", INT, MAY), R(open.limit[UNIT_TOKENS]), FLAG(open.has_limit[UNIT_TOKENS]), .max = WIRE_MAX_INT },
	{ ROW("calls", INT, MAY), R(open.limit[UNIT_CALLS]), FLAG(open.has_limit[UNIT_CALLS]), .max = WIRE_MAX_INT },
	{ ROW("time", SPAN, MAY), R(open.limit[UNIT_TIME]), FLAG(open.has_limit[UNIT_TIME]), .max = INT64_MAX },
};
static const struct wire_field open_rows[] = {
	HEAD,
	{ ROW("agent", TEXT, NEED), R(open.agent), NO_FLAG, .max = PAWL_MAX_ID },
	{ ROW("agent_token", TEXT, MAY), R(open.agent_token), NO_FLAG, .max = PAWL_MAX_TEXT },
	{ ROW("parent", ID, MAY), R(open.parent), NO_FLAG, .letter = 's' },
	{ ROW("parent_token", HEX, MAY), R(open.parent_token), FLAG(open.has_parent_token), .max = 32 },
	{ ROW("root", PATH, MAY), R(open.root), NO_FLAG, .max = 4096 },
	{ ROW("labels", LABELS, MAY), R(open.labels), NO_FLAG, .max = PAWL_MAX_LABELS },
	{ ROW("limits", OBJECT, MAY), NO_FLAG, ROWS(open_limits) },
};

/* ---- decide and claim ---- */
static const struct wire_field estimate_rows[] = {
	{ ROW("money", MONEY_UP, MAY), R(call.money), FLAG(call.has_money) },
	{ ROW("tokens", TOKENS, MAY), R(call.tokens), FLAG(call.has_tokens) },
	{ ROW("currency", CURRENCY, MAY), NO_FLAG },
};
static const struct wire_field limit_rows[] = {
	{ ROW("money", MONEY, MAY), R(call.limits.money), FLAG(call.limits.has_money) },
	{ ROW("repeat", INT, MAY), R(call.limits.repeat), NO_FLAG, .min = 1, .max = WIRE_MAX_INT },
	{ ROW("lease", SPAN, MAY), R(call.limits.lease_ns), NO_FLAG, .min = 1, .max = MAX_LEASE },
};
#define CALL                                                                                                   \
	{ ROW("client", HEX, NEED), R(call.client), NO_FLAG, .max = 16 },                                      \
	    { ROW("call", TEXT, NEED), R(call.call), NO_FLAG, .max = PAWL_MAX_CALL },                          \
	    { ROW("kind", WORD, MAY), R(call.kind), NO_FLAG, .words = kind_words, .n = PAWL_LEN(kind_words) }, \
	    { ROW("tool", TOOL, NEED), R(call.tool), NO_FLAG },                                                \
	    { ROW("model", TEXT, MAY), R(call.model), NO_FLAG, .max = PAWL_MAX_TEXT },                         \
	    { ROW("args", ARGS, NEED), R(call.args), NO_FLAG },                                                \
	    { ROW("estimate", OBJECT, MAY), NO_FLAG, ROWS(estimate_rows) },                                    \
	{                                                                                                      \
		ROW("limits", OBJECT, MAY), NO_FLAG, ROWS(limit_rows)                                          \
	}
#define REVIEW                                                             \
	{                                                                  \
		ROW("review", ID, NEED), R(review), NO_FLAG, .letter = 'r' \
	}
#define WAIT                                                                 \
	{                                                                    \
		ROW("wait", SPAN, MAY), R(wait_ns), NO_FLAG, .max = MAX_WAIT \
	}
static const struct wire_field decide_rows[] = { HEAD, WHO, CALL, WAIT };
static const struct wire_field claim_rows[] = { HEAD, WHO, CALL, REVIEW };
static const struct wire_field review_wait_rows[] = { HEAD, WHO, REVIEW, WAIT };

/* ---- settle ---- */
static const struct wire_field cost_rows[] = {
	{ ROW("money", MONEY_UP, MAY), R(settle.money), FLAG(settle.has_money) },
	{ ROW("tokens", TOKENS, MAY), R(settle.tokens), FLAG(settle.has_tokens) },
	{ ROW("currency", CURRENCY, MAY), NO_FLAG },
};
static const struct wire_field result_rows[] = {
	{ ROW("sha256", HEX, NEED), R(settle.result_sha256), NO_FLAG, .max = 32 },
	{ ROW("bytes", INT, NEED), R(settle.result_bytes), NO_FLAG, .max = WIRE_MAX_INT },
};
static const struct wire_field error_rows[] = {
	{ ROW("kind", TEXT, NEED), R(settle.error_kind), NO_FLAG, .max = PAWL_MAX_TEXT },
	{ ROW("sha256", HEX, MAY), R(settle.error_sha256), FLAG(settle.has_error_sha256), .max = 32 },
};
static const struct wire_field settle_rows[] = {
	HEAD,
	WHO,
	{ ROW("decision", ID, NEED), R(settle.decision), NO_FLAG, .letter = 'd' },
	{ ROW("outcome", WORD, NEED), R(settle.outcome), NO_FLAG, .words = outcome_words,
	  .n = PAWL_LEN(outcome_words) },
	{ ROW("cost", OBJECT, MAY), NO_FLAG, ROWS(cost_rows) },
	{ ROW("result", OBJECT, MAY), FLAG(settle.has_result), ROWS(result_rows) },
	{ ROW("error", OBJECT, MAY), FLAG(settle.has_error), ROWS(error_rows) },
	{ ROW("duration", SPAN, MAY), R(settle.duration_ns), NO_FLAG, .max = INT64_MAX },
};

/* ---- operator door ---- */
static const struct wire_field list_rows[] = {
	HEAD,
	{ ROW("after", ID, MAY), R(after), NO_FLAG, .letter = 's' },
	{ ROW("limit", INT, MAY), R(list_limit), NO_FLAG, .min = 1, .max = 1000 },
};

static const struct wire_field review_list_rows[] = {
	HEAD,
	{ ROW("session", ID, MAY), R(session), NO_FLAG, .letter = 's' },
	{ ROW("all", BOOL, MAY), R(by.all), NO_FLAG },
	{ ROW("after", ID, MAY), R(after), NO_FLAG, .letter = 'r' },
	{ ROW("limit", INT, MAY), R(list_limit), NO_FLAG, .min = 1, .max = 1000 },
};
static const struct wire_field review_show_rows[] = { HEAD, REVIEW };

/* ---- operator door, signed ---- */
#define SIGNED                                                                              \
	HEAD, { ROW("operator", TEXT, NEED), R(by.operator), NO_FLAG, .max = PAWL_MAX_ID }, \
	    { ROW("nonce", HEX, NEED), R(by.nonce), NO_FLAG, .max = 32 },                   \
	{                                                                                   \
		ROW("signature", HEX, NEED), R(by.signature), NO_FLAG, .max = 64            \
	}
#define BECAUSE                                                                       \
	{                                                                             \
		ROW("reason", NOTE, MAY), R(by.reason), NO_FLAG, .max = PAWL_MAX_TEXT \
	}
static const char *const action_words[] = {
	[RESOLVE_RESUME] = "resume", [RESOLVE_SKIP] = "skip", [RESOLVE_ABORT] = "abort"
};
static const struct wire_field shown_rows[] = {
	{ ROW("money", MONEY, NEED), R(by.shown_money), NO_FLAG },
	{ ROW("tokens", INT, NEED), R(by.shown_tokens), NO_FLAG, .max = WIRE_MAX_INT },
};
static const struct wire_field resolve_rows[] = {
	SIGNED,
	REVIEW,
	{ ROW("action", WORD, NEED), R(by.action), NO_FLAG, .words = action_words, .n = PAWL_LEN(action_words) },
	BECAUSE,
	{ ROW("shown", OBJECT, MAY), FLAG(by.has_shown), ROWS(shown_rows) },
	{ ROW("tree", BOOL, MAY), R(by.tree), NO_FLAG },
};
static const struct wire_field abort_rows[] = {
	SIGNED,
	{ ROW("session", ID, NEED), R(session), NO_FLAG, .letter = 's' },
	BECAUSE,
	{ ROW("tree", BOOL, MAY), R(by.tree), NO_FLAG },
};
static const struct wire_field reset_rows[] = {
	SIGNED,
	{ ROW("breaker", TEXT, NEED), R(by.breaker), NO_FLAG, .max = PAWL_MAX_ID },
	{ ROW("session", ID, MAY), R(session), NO_FLAG, .letter = 's' },
	{ ROW("owner", TEXT, MAY), R(by.owner), NO_FLAG, .max = PAWL_MAX_TEXT },
	{ ROW("tool", TOOL, MAY), R(by.tool), NO_FLAG },
	BECAUSE,
};
static const struct wire_field reload_rows[] = { SIGNED, BECAUSE };

/* ---- watch door ---- */
static const struct wire_field run_limits[] = {
	{ ROW("money", MONEY, MAY), R(open.limit[UNIT_MONEY]), FLAG(open.has_limit[UNIT_MONEY]) },
	{ ROW("tokens", INT, MAY), R(open.limit[UNIT_TOKENS]), FLAG(open.has_limit[UNIT_TOKENS]), .max = WIRE_MAX_INT },
	{ ROW("calls", INT, MAY), R(open.limit[UNIT_CALLS]), FLAG(open.has_limit[UNIT_CALLS]), .max = WIRE_MAX_INT },
	{ ROW("time", SPAN, MAY), R(open.limit[UNIT_TIME]), FLAG(open.has_limit[UNIT_TIME]), .max = INT64_MAX },
};
static const struct wire_field run_rows[] = {
	HEAD,
	{ ROW("agent", TEXT, NEED), R(open.agent), NO_FLAG, .max = PAWL_MAX_ID },
	{ ROW("root", PATH, MAY), R(open.root), NO_FLAG, .max = 4096 },
	{ ROW("labels", LABELS, MAY), R(open.labels), NO_FLAG, .max = PAWL_MAX_LABELS },
	{ ROW("limits", OBJECT, MAY), NO_FLAG, ROWS(run_limits) },
	{ ROW("allow_degraded", BOOL, MAY), R(allow_degraded), NO_FLAG },
};
static const struct wire_field exited_rows[] = {
	HEAD,
	WHO,
	{ ROW("status", INT, NEED), R(status), NO_FLAG, .max = 65535 },
};

#define OP(text, op, door, list)                                           \
	{                                                                  \
		{ text, sizeof(text) - 1 }, op, door, list, PAWL_LEN(list) \
	}
const struct wire_op_def wire_ops[] = {
	OP("decide", OP_DECIDE, DOOR_AGENT, decide_rows),
	OP("settle", OP_SETTLE, DOOR_AGENT, settle_rows),
	OP("heartbeat", OP_HEARTBEAT, DOOR_AGENT, who_rows),
	OP("hello", OP_HELLO, DOOR_AGENT, plain_rows),
	OP("session.open", OP_SESSION_OPEN, DOOR_AGENT, open_rows),
	OP("session.close", OP_SESSION_CLOSE, DOOR_AGENT, who_rows),
	OP("session.state", OP_SESSION_STATE, DOOR_AGENT, who_rows),
	OP("claim", OP_CLAIM, DOOR_AGENT, claim_rows),
	OP("review.wait", OP_REVIEW_WAIT, DOOR_AGENT, review_wait_rows),
	OP("status", OP_STATUS, DOOR_OPERATOR, plain_rows),
	OP("session.list", OP_SESSION_LIST, DOOR_OPERATOR, list_rows),
	OP("policy.show", OP_POLICY_SHOW, DOOR_OPERATOR, plain_rows),
	OP("nonce", OP_NONCE, DOOR_OPERATOR, plain_rows),
	OP("review.list", OP_REVIEW_LIST, DOOR_OPERATOR, review_list_rows),
	OP("review.show", OP_REVIEW_SHOW, DOOR_OPERATOR, review_show_rows),
	OP("review.resolve", OP_REVIEW_RESOLVE, DOOR_OPERATOR, resolve_rows),
	OP("session.abort", OP_SESSION_ABORT, DOOR_OPERATOR, abort_rows),
	OP("breaker.reset", OP_BREAKER_RESET, DOOR_OPERATOR, reset_rows),
	OP("policy.reload", OP_POLICY_RELOAD, DOOR_OPERATOR, reload_rows),
	OP("run", OP_RUN, DOOR_WATCH, run_rows),
	OP("attach", OP_ATTACH, DOOR_WATCH, who_rows),
	OP("exited", OP_EXITED, DOOR_WATCH, exited_rows),
	OP("rejoin", OP_REJOIN, DOOR_WATCH, who_rows),
};
const size_t wire_n_ops = PAWL_LEN(wire_ops);
