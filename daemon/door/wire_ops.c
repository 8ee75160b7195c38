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
	{ ROW("money", MONEY, MAY), R(open.limit[UNIT_MONEY]), FLAG(open.has_limit[UNIT_MONEY]) },
	{ ROW("tokens", INT, MAY), R(open.limit[UNIT_TOKENS]), FLAG(open.has_limit[UNIT_TOKENS]), .max = WIRE_MAX_INT },
	{ ROW("calls", INT, MAY), R(open.limit[UNIT_CALLS]), FLAG(open.has_limit[UNIT_CALLS]), .max = WIRE_MAX_INT },
	{ ROW("time", SPAN, MAY), R(open.limit[UNIT_TIME]), FLAG(open.has_limit[UNIT_TIME]), .max = INT64_MAX },
};
static const struct wire_field open_rows[] = {
	HEAD,
	{ ROW("agent", TEXT, NEED), R(open.agent), NO_FLAG, .max = PAWL_MAX_ID },
	{ ROW("agent_token", TEXT, MAY), R(open.agent_token), NO_FLAG, .max = PAWL_MAX_TEXT },
	{ ROW("parent", UNBUILT, MAY), NO_FLAG },
	{ ROW("parent_token", UNBUILT, MAY), NO_FLAG },
	{ ROW("root", PATH, MAY), R(open.root), NO_FLAG, .max = 4096 },
	{ ROW("labels", LABELS, MAY), R(open.labels), NO_FLAG, .max = PAWL_MAX_LABELS },
	{ ROW("limits", OBJECT, MAY), NO_FLAG, ROWS(open_limits) },
};

/* ---- decide ---- */
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
static const struct wire_field decide_rows[] = {
	HEAD,
	WHO,
	{ ROW("client", HEX, NEED), R(call.client), NO_FLAG, .max = 16 },
	{ ROW("call", TEXT, NEED), R(call.call), NO_FLAG, .max = PAWL_MAX_CALL },
	{ ROW("kind", WORD, MAY), R(call.kind), NO_FLAG, .words = kind_words, .n = PAWL_LEN(kind_words) },
	{ ROW("tool", TOOL, NEED), R(call.tool), NO_FLAG },
	{ ROW("model", TEXT, MAY), R(call.model), NO_FLAG, .max = PAWL_MAX_TEXT },
	{ ROW("args", ARGS, NEED), R(call.args), NO_FLAG },
	{ ROW("estimate", OBJECT, MAY), NO_FLAG, ROWS(estimate_rows) },
	{ ROW("limits", OBJECT, MAY), NO_FLAG, ROWS(limit_rows) },
	{ ROW("wait", SPAN, MAY), R(wait_ns), NO_FLAG, .max = MAX_WAIT },
};

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
	OP("status", OP_STATUS, DOOR_OPERATOR, plain_rows),
	OP("session.list", OP_SESSION_LIST, DOOR_OPERATOR, list_rows),
	OP("policy.show", OP_POLICY_SHOW, DOOR_OPERATOR, plain_rows),
};
const size_t wire_n_ops = PAWL_LEN(wire_ops);
