/* tests/fuzz/fuzz_wire.c - any bytes at both doors: parsed or refused, never more; and every refusal can be told to the peer. */
#include "daemon/door/reply.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
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
		need(op != OP_DECIDE || (rq.call.args && rq.call.tool.n && rq.call.tool.n <= PAWL_MAX_TOOL && rq.session));
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
	return 0;
}
