/* tests/unit/test_top.c - a frame of `pawl top`: no line is wider than the terminal, none too many, no byte of an agent's moves the cursor. */
#include "daemon/cli/top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WATCH                                                                                                                                        \
	"\"watch\":{\"state\":\"on\",\"processes\":{\"used\":5,\"limit\":50},\"cpu\":{\"used\":\"1.206999999\",\"limit\":\"60\"},\"memory\":{\"used\":20971520," \
	"\"limit\":2147483648},\"wall\":{\"used\":\"12\",\"limit\":null},\"execs\":7,\"kills\":1"
#define STATUS                                                                                                                                 \
	"{\"server\":\"pawld 1\",\"mode\":\"enforce\",\"policy\":{\"name\":\"p\"},\"now\":\"2026-11-29T18:41:10Z\",\"sessions\":{\"live\":2},\"log\":{" \
	"\"seq\":12,\"state\":\"ok\"},\"watch\":{\"state\":\"on\",\"tier\":\"B\",\"trees\":1,\"lost\":3}}"
#define PLAIN "{\"session\":\"s_1\",\"agent\":\"local\",\"ended\":null,\"decisions\":4,\"reviews\":2}"
#define WATCHED "{\"session\":\"s_5\",\"agent\":\"crew\",\"ended\":null,\"decisions\":0,\"reviews\":1,\"money\":{\"used\":\"1.5\",\"remaining\":\"3.5\"}," WATCH "}}"
#define STOPPED                                                                                                                                     \
	"{\"session\":\"s_9\",\"agent\":\"crew\",\"ended\":\"aborted\",\"decisions\":0,\"reviews\":0," WATCH ",\"killed\":{\"why\":\"processes\",\"measured\":51," \
	"\"limit\":50}}}"
#define LIST(rows) "{\"sessions\":[" rows "],\"more\":false}"
#define NASTY "{\"session\":\"s_\\u001b[2J\",\"agent\":\"\\u009b\\r\\u202eabcdefghijklmnopqrstuvwxyz\",\"ended\":\"\\u0007\",\"watch\":{\"cpu\":\"\\n\",\"processes\":[1],\"memory\":-1}}"

static struct json *parse(const char *text)
{
	struct pawl_error err;
	struct json *doc = NULL;

	if (json_parse(str_of(text), PAWL_MAX_DEPTH, &doc, &err) < 0)
		fail_msg("the test's own JSON: %s: %.100s", err.msg, text);
	return doc;
}

static void frame(const struct top_view *v, const char *status, const char *list, struct buf *out)
{
	struct json *s = status ? parse(status) : NULL, *l = list ? parse(list) : NULL;

	top_frame(v, s, l, out);
	buf_putc(out, '\0');
	assert_true(buf_ok(out));
	json_free(l);
	json_free(s);
}

static const struct {
	const char *name, *list;
	struct top_view view;
	const char *has, *not;
} cases[] = {
	{ "watched first", LIST(PLAIN "," WATCHED), { ESCAPE_ASCII, 120, 0, false }, "live\ns_1 ", NULL },
	{ "spent and left", LIST(WATCHED), { ESCAPE_ASCII, 160, 0, false }, "1.5       3.5", "-" },
	{ "limits", LIST(WATCHED), { ESCAPE_ASCII, 160, 0, false }, "5/50  1.20s/1m00      20M/2G", NULL },
	{ "no limit, no slash", LIST(WATCHED), { ESCAPE_ASCII, 160, 0, false }, " 12s ", "12s/" },
	{ "not watched", LIST(PLAIN), { ESCAPE_ASCII, 160, 0, false }, "s_1      local                -         -         -", "?" },
	{ "ended ones are left out", LIST(PLAIN "," STOPPED), { ESCAPE_ASCII, 160, 0, false }, "s_1", "s_9" },
	{ "and shown when asked for", LIST(STOPPED), { ESCAPE_ASCII, 160, 0, true }, "aborted: processes 51, limit 50", NULL },
	{ "reviews are added up", LIST(PLAIN "," WATCHED), { ESCAPE_ASCII, 160, 0, false }, "reviews waiting 3", NULL },
	{ "the head", LIST(""), { ESCAPE_ASCII, 160, 0, false }, "live sessions 2  reviews waiting 0  log 12 ok  watch on, tier B, trees 1, events lost 3\n", NULL },
	{ "nobody", LIST(""), { ESCAPE_ASCII, 160, 0, false }, "\nno session\n", NULL },
	{ "narrow: what uses the machine stays", LIST(WATCHED), { ESCAPE_ASCII, 60, 0, false }, "PROC", "EXECS" },
	{ "very narrow", LIST(STOPPED), { ESCAPE_ASCII, 20, 0, true }, "s_9      aborted: p~", "PROC" },
	{ "low: the rest is counted", LIST(PLAIN "," PLAIN "," PLAIN), { ESCAPE_ASCII, 80, 5, false }, "... 2 more\n", NULL },
	{ "more than pawld tells", "{\"sessions\":[" PLAIN "],\"more\":true}", { ESCAPE_ASCII, 80, 0, false }, "... more than 1\n", NULL },
	{ "not a list", "{\"sessions\":7}", { ESCAPE_ASCII, 80, 0, false }, "no session", NULL },
	{ "escaped", LIST(NASTY), { ESCAPE_UTF8, 400, 0, true }, "\\u{9b}\\u{d}~", NULL },
};

static void test_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct buf out = BUF_MAX(1u << 20);
		const char *table;

		frame(&cases[i].view, STATUS, cases[i].list, &out);
		table = strstr(out.p, "SESSION");
		if (!table || !strstr(out.p, cases[i].has) || (cases[i].not && strstr(table, cases[i].not)))
			fail_msg("%s:\n%s", cases[i].name, out.p);
		buf_done(&out);
	}
}

/* Every width and height: no line is wider, no more lines, nothing but printable bytes. */
static void test_bounds(void **state)
{
	(void)state;
	for (size_t width = 20; width < 170; width++)
		for (size_t height = 0; height < 9; height++) {
			struct top_view v = { ESCAPE_ASCII, width, height, true };
			struct buf out = BUF_MAX(1u << 20);
			size_t lines = 0, columns = 0;

			frame(&v, STATUS, LIST(WATCHED "," NASTY "," STOPPED "," PLAIN "," PLAIN), &out);
			for (size_t i = 0; i + 1 < out.n; i++) {
				columns = out.p[i] == '\n' ? 0 : columns + 1;
				lines += out.p[i] == '\n';
				if (columns > width || (out.p[i] != '\n' && (out.p[i] < 0x20 || out.p[i] > 0x7e)))
					fail_msg("%zu x %zu, column %zu:\n%s", width, height, columns, out.p);
			}
			if (height && lines > (height < 5 ? 5 : height))
				fail_msg("%zu x %zu: %zu lines", width, height, lines);
			buf_done(&out);
		}
}

static void test_without_replies(void **state)
{
	struct top_view v = { ESCAPE_ASCII, 80, 24, false };
	struct buf out = BUF_MAX(1u << 16);

	(void)state;
	frame(&v, NULL, NULL, &out);
	assert_non_null(strstr(out.p, "no session"));
	buf_done(&out);
}

static void test_no_memory(void **state)
{
	struct json *list = parse(LIST(WATCHED));
	struct top_view v = { ESCAPE_ASCII, 80, 24, false };
	struct buf whole = BUF_MAX(1u << 16);

	(void)state;
	top_frame(&v, NULL, list, &whole);
	assert_in_range(whole.n, 100, 400);
	for (size_t max = 0; max < 2 * whole.n; max++) {
		struct buf out = BUF_MAX(max);

		top_frame(&v, NULL, list, &out);
		assert_true(out.n <= max);
		assert_int_equal(buf_ok(&out), max >= whole.n);
		buf_done(&out);
	}
	buf_done(&whole);
	json_free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_frames), cmocka_unit_test(test_bounds), cmocka_unit_test(test_without_replies),
					    cmocka_unit_test(test_no_memory) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
