/* tests/fuzz/fuzz_entry.c - any bytes as an entry's line: refused, or the one rendering of what was read. Answers are made of it too. */
#include "daemon/door/reply.h"
#include "daemon/log/entry.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str body = { (const char *)data, size };
	struct buf out = BUF_MAX(1 << 20);
	struct entry_parsed p;
	struct json *reply = NULL;

	if (entry_parse(body, 7, &p, NULL) < 0)
		return 0;
	entry_render(&p.e, &out);
	need(buf_ok(&out) && str_eq(buf_str(&out), body));
	buf_reset(&out);
	if (p.e.kind == ENTRY_DECISION || p.e.kind == ENTRY_CLAIM)
		reply_reviewed(&p.e, STR("note"), (enum card_mode)(size % CARD_MODE_COUNT), &out);
	else if (p.e.kind == ENTRY_SETTLE || (p.e.kind == ENTRY_LOSS && p.e.loss.what == LOSS_LATE_SETTLE))
		reply_settle(&p.e, STR("note"), &out);
	if (out.n) {
		need(buf_ok(&out) && json_parse(buf_str(&out), PAWL_MAX_DEPTH, &reply, NULL) == 0);
		json_free(reply);
	}
	entry_parsed_done(&p);
	buf_done(&out);
	return 0;
}
