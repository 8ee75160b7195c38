/* tests/fuzz/fuzz_wire.c - any bytes at both doors: parsed or refused, never more; and every refusal can be told to the peer. */
#include "daemon/door/reply.h"
#include "policy/canon.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* What was signed is one line of canonical JSON behind the prefix, says all that the request says, and is not over itself. */
static void check_signed(const struct request *rq)
{
	static const char first[] = "pawl-operator/v1\n";
	struct buf out = BUF_MAX(2 << 20), again = BUF_MAX(2 << 20);
	size_t n = sizeof(first) - 1;
	struct json *doc = NULL;

	wire_signed_bytes(rq, &out);
	need(buf_ok(&out) == wire_op_signed(rq->op));
	if (buf_ok(&out)) {
		need(out.n > n && memcmp(out.p, first, n) == 0 && !memchr(out.p + n, '\n', out.n - n));
		need(json_parse((struct str){ out.p + n, out.n - n }, PAWL_MAX_DEPTH, &doc, NULL) == 0);
		need(!json_get(doc, "signature") && json_get(doc, "nonce") && json_get(doc, "operator"));
		need(json_size(doc) == json_size(rq->doc) - 1);
		canon_json(doc, NULL, 0, &again);
		need(buf_ok(&again) && again.n == out.n - n && memcmp(again.p, out.p + n, again.n) == 0);
		need(rq->by.operator.n && (rq->op != OP_REVIEW_RESOLVE || (rq->review && rq->by.action < RESOLVE_CLOSE)));
		json_free(doc);
	} else {
		need(!rq->by.operator.p && rq->by.action == RESOLVE_CLOSE);
	}
	buf_done(&out);
	buf_done(&again);
}

static void one(struct str body, enum wire_door door)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct buf out = BUF_MAX(1 << 20);
	enum wire_op op = OP_COUNT;
	struct request rq;

	if (wire_parse(body, door, STR("USD"), &rq, &op, &err) == 0) {
		need(op == rq.op && op > OP_NONE && op < OP_COUNT);
		need(rq.call.money >= 0 && rq.call.tokens >= 0 && rq.call.limits.money >= 0 && rq.call.limits.repeat >= 0);
		need(rq.settle.money >= 0 && rq.settle.tokens >= 0 && rq.settle.duration_ns >= -1 && rq.settle.result_bytes >= 0);
		need(rq.wait_ns >= 0 && rq.wait_ns <= 60 * NS_PER_SEC && rq.list_limit >= 1 && rq.list_limit <= 1000);
		need(rq.open.share_percent >= 0 && rq.open.share_percent <= 100 && (!rq.open.share_percent || !rq.open.has_limit[UNIT_MONEY]));
		need(!rq.open.parent == !rq.open.has_parent_token && (!rq.open.share_percent || rq.open.parent));
		need((op == OP_CLAIM || op == OP_REVIEW_WAIT || op == OP_REVIEW_SHOW || op == OP_REVIEW_RESOLVE) == (rq.review != 0));
		check_signed(&rq);
		need((op != OP_DECIDE && op != OP_CLAIM) || (rq.call.args && rq.call.tool.n && rq.call.tool.n <= PAWL_MAX_TOOL && rq.session));
		request_done(&rq);
	} else {
		struct json *reply = NULL;

		need(err.code == PAWL_E_MALFORMED && err.msg[0]);
		reply_error(op, REASON_MALFORMED, err.field, err.msg, 0, &out);
		need(buf_ok(&out) && json_parse(buf_str(&out), PAWL_MAX_DEPTH, &reply, NULL) == 0);
		json_free(reply);
	}
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	one((struct str){ (const char *)data, size }, DOOR_AGENT);
	one((struct str){ (const char *)data, size }, DOOR_OPERATOR);
	one((struct str){ (const char *)data, size }, DOOR_WATCH);
	return 0;
}
