/* tests/fuzz/fuzz_canon.c - any bytes: the strict parser and the canonical form.
 * What parses has a canonical text; that text parses again, and its canonical text is itself. One exception: a whole real
 * beyond 64 bits (1e20) has a canonical text that, read as JSON, is an integer beyond 64 bits. */
#include "policy/canon.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str text = { (const char *)p, n };
	struct buf once = BUF_MAX(8 << 20), twice = BUF_MAX(8 << 20);
	struct pawl_error err = { .code = PAWL_OK };
	struct json *j, *again;

	if (json_parse(text, PAWL_MAX_DEPTH, &j, &err) < 0) {
		if (err.code != PAWL_E_MALFORMED || !err.msg[0] || !utf8_valid(str_of(err.msg)))
			abort();
		return 0;
	}
	canon_json(j, NULL, 0, &once);
	if (!buf_ok(&once) || !utf8_valid(buf_str(&once)))
		abort();
	if (json_parse(buf_str(&once), PAWL_MAX_DEPTH, &again, &err) == 0) {
		canon_json(again, NULL, 0, &twice);
		if (!buf_ok(&twice) || !str_eq(buf_str(&once), buf_str(&twice)))
			abort();
		json_free(again);
	} else if (strncmp(err.msg, "an integer outside 64 bits", 26) != 0) {
		abort();
	}
	json_free(j);
	buf_done(&once);
	buf_done(&twice);
	return 0;
}
