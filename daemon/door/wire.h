/* daemon/door/wire.h - a request's bytes -> struct request, or an error that names the field. Pure, bounded, fuzzed.
 * docs/wire.md is the law. Replies are rendered in daemon/door/reply.c. */
#ifndef PAWL_WIRE_H
#define PAWL_WIRE_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "pawl/entry.h"

enum wire_door { DOOR_AGENT, DOOR_OPERATOR, DOOR_WATCH };
enum wire_op {
	OP_NONE,
	OP_HELLO,
	OP_SESSION_OPEN,
	OP_SESSION_CLOSE,
	OP_SESSION_STATE,
	OP_DECIDE,
	OP_SETTLE,
	OP_HEARTBEAT,
	OP_CLAIM,
	OP_REVIEW_WAIT, /* agent */
	OP_STATUS,
	OP_SESSION_LIST,
	OP_POLICY_SHOW,
	OP_NONCE,
	OP_REVIEW_LIST,
	OP_REVIEW_SHOW, /* operator, reading */
	OP_REVIEW_RESOLVE,
	OP_SESSION_ABORT,
	OP_BREAKER_RESET,
	OP_POLICY_RELOAD, /* operator, signed: wire_op_signed() */
	OP_RUN,
	OP_ATTACH,
	OP_EXITED,
	OP_REJOIN, /* watch; all but run say session and token */
	OP_COUNT
};
const char *wire_op_name(enum wire_op op); /* "decide" …; NULL for OP_NONE */
bool wire_op_signed(enum wire_op op);      /* it changes something, so struct request_operator says who signed */

struct request_open {
	struct str agent, agent_token, root; /* STR_NONE when absent or null */
	uint64_t parent;                     /* 0: a root; else parent_token is there too */
	bool has_parent_token;
	uint8_t parent_token[32];
	const struct json *labels; /* object of texts or NULL */
	bool has_limit[UNIT_COUNT];
	int64_t limit[UNIT_COUNT];
	int64_t share_percent; /* 1 to 100: instead of limit[UNIT_MONEY], of what the parent has left; 0 = none */
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
struct request_operator {
	struct str operator; /* the name of an enrolled key */
	uint8_t nonce[32], signature[64];
	enum resolve_action action;      /* review.resolve; never RESOLVE_CLOSE */
	struct str reason;               /* may be empty; STR_NONE when absent */
	bool tree;                       /* with all of the tree */
	bool all;                        /* review.list: answered ones too */
	bool has_shown;                  /* review.resolve: the amounts of the card that the person saw */
	int64_t shown_money, shown_tokens;
	struct str breaker, owner, tool; /* breaker.reset; tool as sent */
};
struct request { /* owns doc; all text is borrowed from it */
	enum wire_op op;
	struct json *doc;
	uint64_t session; /* agent ops; session.abort; 0 when review.list or breaker.reset do not say */
	uint8_t token[32];
	struct request_call call;
	struct request_settle settle;
	struct request_open open;
	struct request_operator by;
	bool allow_degraded; /* run */
	int64_t status;	     /* exited */
	uint64_t review; /* claim, review.wait, review.show, review.resolve */
	int64_t wait_ns;
	uint64_t after;     /* session.list, review.list: sequence of a session or card, 0 = from the start */
	int64_t list_limit; /* default 100 */
};
/* currency: the policy's; another one in the request is malformed. Ops of the other door are "unknown op". On failure
 * *ret_op is the op when it could be read (for the error reply), else OP_NONE, and nothing is owned. */
PAWL_MUST_USE int wire_parse(struct str body, enum wire_door door, struct str currency, struct request *ret,
			     enum wire_op *ret_op, struct pawl_error *err);
void request_done(struct request *rq);

/* The bytes that a signed request's signature is over: "pawl-operator/v1\n" and the canonical JSON of all members but
 * `signature`, as they were sent. Fails only by .failed. */
void wire_signed_bytes(const struct request *rq, struct buf *out);
#endif
