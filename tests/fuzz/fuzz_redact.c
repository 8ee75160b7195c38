/* tests/fuzz/fuzz_redact.c - any bytes, as JSON and as a command line, through what takes secrets out.
 * What comes out is JSON again, not much longer than what went in; a value under a secret's name is gone whatever it is; an argument
 * behind --password is. */
#include "policy/redact.h"

#include <stdlib.h>

#define TIMES 12 /* one byte may become "[redacted]" */

static struct redact_path rows[] = { { { "a.b", 3 }, false }, { { "key", 3 }, true } };
static const struct redact_set set = { rows, 2 };

static void must(bool good)
{
	if (!good)
		abort();
}

static void check(const struct buf *out, size_t n_in, struct json **ret)
{
	must(buf_ok(out) && out->n <= n_in * TIMES + 64);
	must(json_parse(buf_str(out), PAWL_MAX_DEPTH, ret, NULL) == 0);
}

static void whole(struct str text)
{
	struct buf out = BUF_MAX(64 << 20);
	struct json *j, *back;

	if (json_parse(text, PAWL_MAX_DEPTH - 1, &j, NULL) < 0)
		return;
	redact_json(&set, j, &out);
	/* 1e20 is written as digits, which JSON takes for an integer beyond 64 bits */
	must(buf_ok(&out) && utf8_valid(buf_str(&out)));
	if (json_parse(buf_str(&out), PAWL_MAX_DEPTH, &back, NULL) == 0)
		json_free(back);
	json_free(j);
	buf_done(&out);
}

static void hidden(struct str text)
{
	struct buf in = BUF_MAX(64 << 20), out = BUF_MAX(64 << 20);
	struct json *j;

	if (!utf8_valid(text))
		return;
	buf_puts(&in, "{\"q\":1,\"password\":");
	buf_json(&in, text);
	buf_putc(&in, '}');
	must(json_parse(buf_str(&in), PAWL_MAX_DEPTH, &j, NULL) == 0);
	redact_json(NULL, j, &out);
	must(str_is(buf_str(&out), "{\"q\":1,\"password\":\"" REDACTED "\"}"));
	json_free(j);
	buf_done(&in);
	buf_done(&out);
}

static void command(struct str argv)
{
	struct buf in = BUF_MAX(64 << 20), out = BUF_MAX(64 << 20);
	struct json *j;

	redact_argv(&set, argv, true, &out);
	/* a byte that is no UTF-8 becomes \xNN, and its backslash two */
	check(&out, argv.n, &j);
	json_free(j);
	buf_reset(&out);
	if (argv.n == 0 || !utf8_valid(argv) || (argv.n > 1 && argv.p[0] == '-' && argv.p[1] == '-')) {
		buf_done(&out);
		return;
	}
	buf_add(&in, "x\0--password", 13);
	buf_str_add(&in, argv);
	redact_argv(NULL, buf_str(&in), true, &out);
	must(str_is(buf_str(&out), "[\"x\",\"--password\",\"" REDACTED "\"]"));
	buf_done(&in);
	buf_done(&out);
}

static void inside(struct str text)
{
	struct buf out = BUF_MAX(64 << 20);

	redact_text(&set, text, false, &out);
	must(!out.failed && out.n <= text.n * TIMES + 64 && (!utf8_valid(text) || utf8_valid(buf_str(&out))));
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str text = { (const char *)p, n };

	whole(text);
	hidden(text);
	command(text);
	inside(text);
	return 0;
}
