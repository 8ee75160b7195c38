/* tests/fuzz/fuzz_zone.c - any bytes as a TZif file: refused, or a zone in which every moment lies in one window. */
#include "policy/zone.h"
#include "pawl/policy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena mem = { 0 };
	const struct zone *z = NULL;
	struct pawl_error err;
	int r = zone_parse((struct str){ (const char *)data, size }, STR("fuzz"), &mem, &z, &err);

	if ((r == 0) != (z != NULL))
		abort();
	for (size_t i = 1; r == 0 && i < z->n; i++)
		if (z->steps[i - 1].at >= z->steps[i].at)
			abort();
	for (enum window_kind k = WINDOW_HOUR; r == 0 && k <= WINDOW_MONTH; k++) {
		struct window w = { .kind = k, .zone = z };
		int64_t now = INT64_C(1800000000) * NS_PER_SEC;

		for (int i = 0; i < 50; i++) {
			int64_t end = window_end(&w, now);

			if (end <= now || window_end(&w, end - 1) != end)
				abort();
			now = end;
		}
	}
	arena_done(&mem);
	return 0;
}
