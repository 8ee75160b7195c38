/* daemon/door/wire.h - a request's bytes -> struct request, or an error that names the field. Pure, bounded, fuzzed.
 * docs/wire.md is the law. Replies are rendered in daemon/door/reply.c. */
#ifndef PAWL_WIRE_H
#define PAWL_WIRE_H
#include "daemon/base/json.h"
#include "pawl/policy.h"

enum wire_door { DOOR_AGENT, DOOR_OPERATOR };
enum wire_op {
	OP_NONE,
	OP_HELLO,
	OP_SESSION_OPEN,
	OP_SESSION_CLOSE,
	OP_SESSION_STATE,
	OP_DECIDE,
	OP_SETTLE,
	OP_HEARTBEAT, /* agent */
	OP_STATUS,
	OP_SESSION_LIST,
	OP_POLICY_SHOW, /* operator */
	OP_COUNT
};
const char *wire_op_name(enum wire_op op); /* "decide" …; NULL for OP_NONE */

struct request_open {
	struct str agent, agent_token, parent, parent_token, root; /* STR_NONE when absent or null */
	const struct json *labels;                                 /* object of texts or NULL */
	bool has_limit[UNIT_COUNT];
	int64_t limit[UNIT_COUNT];
};
struct request_settle {
	uint64_t decision;
	enum outcome outcome;
	bool has_money, has_tokens, has_result, has_error;
	int64_t money, tokens;
	uint8_t result_sha256[32];
	int64_t result_bytes;
	struct str error_kind;
	bool has_error_sha256;
	uint8_t error_sha256[32];
	int64_t duration_ns; /* -1 = not said */
};
struct request { /* owns doc; all text is borrowed from it */
	enum wire_op op;
	struct json *doc;
	uint64_t session; /* decide, settle, session.close, session.state, heartbeat */
	uint8_t token[32];
	struct request_call call;
	struct request_settle settle;
	struct request_open open;
	int64_t wait_ns;
	uint64_t after;     /* session.list: sequence of a session, 0 = from the start */
	int64_t list_limit; /* default 100 */
};
/* currency: the policy's; another one in the request is malformed. Ops of the other door are "unknown op". On failure
 * *ret_op is the op when it could be read (for the error reply), else OP_NONE, and nothing is owned. */
PAWL_MUST_USE int wire_parse(struct str body, enum wire_door door, struct str currency, struct request *ret,
			     enum wire_op *ret_op, struct pawl_error *err);
void request_done(struct request *rq);
#endif
