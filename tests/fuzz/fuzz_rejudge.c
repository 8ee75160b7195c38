/* tests/fuzz/fuzz_rejudge.c - lines of any origin as the bodies of a log that is judged again: what is no entry, or contradicts those before it,
 * ends it; every other one is equal, different, given or left out, and what is told of it is JSON. */
#include "daemon/base/json.h"
#include "daemon/cli/rejudge.h"
#include "tests/support/replay_policy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

static void told(const struct rejudging *rj)
{
	struct buf doc = BUF_MAX(64u << 20);
	struct json *rows = NULL;

	buf_putc(&doc, '[');
	buf_str_add(&doc, buf_str(&rj->shown));
	buf_putc(&doc, ']');
	need(buf_ok(&doc) && json_parse(buf_str(&doc), PAWL_MAX_DEPTH, &rows, NULL) == 0);
	need(json_size(rows) == (rj->differ < REJUDGE_MAX_SHOWN ? rj->differ : REJUDGE_MAX_SHOWN));
	json_free(rows);
	buf_done(&doc);
}

static void give(struct rejudging *rj, const char *text)
{
	struct policy_report rep = { .rows = NULL };
	struct policy *pol = NULL;

	need(policy_load(str_of(text), "p", &pol, &rep, NULL) == 0);
	policy_report_done(&rep);
	need(rejudging_policy(rj, pol, "p", NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct rejudging rj;
	uint64_t seq = 0;
	int r = 0;

	need(rejudging_init(&rj, NULL) == 0);
	give(&rj, policy_text);
	give(&rj, shadow_text);
	while (r == 0 && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct str body = { at, (size_t)((stop ? stop : end) - at) };

		r = rejudging_entry(&rj, seq++, body, NULL);
		at = stop ? stop + 1 : end;
	}
	need(rj.entries == rj.equal + rj.differ + rj.given + rj.skipped);
	told(&rj);
	rejudging_done(&rj);
	return 0;
}
