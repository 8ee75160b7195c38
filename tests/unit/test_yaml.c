/* tests/unit/test_yaml.c - policy/yaml.c alone: nodes with their places, and what is refused before anything asks what
 * a key means. */
#include "policy/yaml.h"

#include "daemon/base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

struct read {
	struct arena mem;
	struct policy_report rep;
	struct ynode *root;
	int r;
};

static struct read read_text(struct str text)
{
	struct read got = { .root = NULL };

	report_init(&got.rep, "t");
	got.r = yaml_read(text, &got.mem, &got.rep, &got.root);
	report_sort(&got.rep);
	return got;
}

static void read_done(struct read *got)
{
	arena_done(&got->mem);
	policy_report_done(&got->rep);
}

static void show(const struct ynode *n, struct buf *out)
{
	if (n->kind == YNODE_TEXT) {
		buf_printf(out, "%s%.*s%s@%u:%u", n->plain ? "" : "'", STR_ARG(n->text), n->plain ? "" : "'", n->line,
			   n->column);
		return;
	}
	buf_putc(out, n->kind == YNODE_LIST ? '[' : '{');
	for (const struct ynode *c = n->first; c; c = c->next) {
		show(c, out);
		if (c->value) {
			buf_putc(out, '=');
			show(c->value, out);
		}
		buf_putc(out, c->next ? ' ' : n->kind == YNODE_LIST ? ']' : '}');
	}
}

static const struct {
	const char *text, *want;
} trees[] = {
	{ "a: 1\n...\n", "{a@1:1=1@1:4}" },
	{ "# c\n---\nb:\n  - x\n  - \"y\"\n...\n# c\n", "{b@3:1=[x@4:5 'y'@5:5]}" },
	{ "{a: no, 'b': ~, c: }\n...", "{a@1:2=no@1:5 'b'@1:9=~@1:14 c@1:17=@1:20}" },
	{ "a: |\n  x\n  y\n...\n", "{a@1:1='x\ny\n'@1:4}" },
	{ "é: \"\\u00e9\"\r\n...\r\n", "{é@1:1='é'@1:4}" },
	{ "[no, NO, off, y, 1e3, .nan, null]\n... # end\n",
	  "[no@1:2 NO@1:6 off@1:10 y@1:15 1e3@1:18 .nan@1:23 null@1:29]" },
};

static void test_trees(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(trees); i++) {
		struct read got = read_text(str_of(trees[i].text));
		struct buf out = BUF_MAX(4096);
		char *text;

		assert_int_equal(got.r, 0);
		assert_int_equal(got.rep.n, 0);
		show(got.root, &out);
		text = buf_take(&out, NULL);
		assert_string_equal(text, trees[i].want);
		free(text);
		read_done(&got);
	}
}

/* want: "line:column text" of every row, one a line. fatal: no tree. */
static const struct {
	const char *name;
	struct str text;
	bool fatal;
	const char *want;
} faults[] = {
	{ "tab in the indentation", STR("a:\n\tb: 1\n...\n"), true, "2:1 a tab in the indentation\n" },
	{ "tab in a flow's indentation", STR("a: {b: 1,\n  \t c: 2}\n...\n"), false, "2:3 a tab in the indentation\n" },
	{ "tabs, each told", STR("a: 1\n\t\n \t# c\n...\n"), true,
	  "2:1 a tab in the indentation\n3:2 a tab in the indentation\n" },
	{ "P01 repeated keys, all of them", STR("a: 1\nb: {c: 1, 'c': 2, c: 3}\na: 2\n...\n"), false,
	  "2:11 key \"c\" is there twice, first in line 2\n2:19 key \"c\" is there twice, first in line 2\n"
	  "3:1 key \"a\" is there twice, first in line 1\n" },
	{ "P09 alias, anchor, tag, merge", STR("a: &x 1\nb: *x\nc: !!str 1\nd: ! 1\n<<: {e: f}\n...\n"), false,
	  "1:4 anchors\n2:4 aliases\n3:4 tags\n4:4 tags\n5:1 merge keys\n" },
	{ "P09 anchors and tags on lists and maps", STR("a: &x [b]\nc: !!map {d: *x}\n...\n"), false,
	  "1:4 anchors\n2:4 tags\n2:14 aliases\n" },
	{ "two documents", STR("a: 1\n---\nb: 1\n...\n"), true, "2:1 a second document\n" },
	{ "two documents, the first one ended", STR("a: 1\n...\nb: 1\n...\n"), true, "3:1 a second document\n" },
	{ "P10 cut at a line", STR("a: 1\n"), false, "2:1 the last line is not \"...\": was the file cut short?\n" },
	{ "P10 cut in a flow", STR("a: [1,\n"), true, "2:1 not YAML\n2:1 the last line is not \"...\"\n" },
	{ "P10 cut in the end line", STR("a: 1\n..\n"), true, "3:1 not YAML\n3:1 the last line is not \"...\"\n" },
	{ "the end line in a comment is none", STR("a: 1\n# ...\n"), false, "3:1 the last line is not \"...\"\n" },
	{ "the end line in a block is none", STR("a: |\n  ...\n"), false, "3:1 the last line is not \"...\"\n" },
	{ "nothing", STR(""), true, "1:1 the last line is not \"...\"\n" },
	{ "directive", STR("%YAML 1.1\n---\na: 1\n...\n"), false, "1:1 directives\n" },
	{ "tag directive", STR("%TAG ! tag:x,2000:\n---\na: 1\n...\n"), false, "1:1 directives\n" },
	{ "complex key", STR("? [a]\n: b\n...\n"), true, "1:3 a key is one text\n" },
	{ "missing key", STR("?\n: b\n...\n"), false, "1:2 a key is missing\n" },
	{ "run-on text", STR("a: [b\n  c]\n...\n"), false, "1:5 text without quotes runs on\n" },
	{ "syntax", STR("a: ]\n...\n"), true, "1:4 not YAML\n" },
	{ "not UTF-8", STR("a: caf\xe9 x\n...\n"), true, "1:7 not UTF-8\n" },
	{ "not UTF-8, columns are characters", STR("a: \xc3\xa9\xc3\xa9\xff\n...\n"), true, "1:6 not UTF-8\n" },
	{ "a sequence cut by the line's end", STR("a: \xe2\x80\n...\n"), true, "1:4 not UTF-8\n" },
	{ "a surrogate", STR("a: \xed\xa0\x80\n...\n"), true, "1:4 not UTF-8\n" },
	{ "a surrogate, escaped", STR("a: \"\\ud800\"\n...\n"), true, "1:7 not YAML\n" },
	{ "NUL", STR("a: b\0c\n...\n"), true, "1:5 a NUL byte\n" },
	{ "NUL, escaped", STR("a: \"b\\0c\"\n...\n"), false, "1:4 text with a NUL byte\n" },
	{ "UTF-16", STR("a\0:\0 \0b\0\n\0"), true, "1:2 a NUL byte\n" },
	{ "byte order mark",
	  STR("\xef\xbb\xbf"
	      "a: b\n...\n"),
	  true, "1:1 a character that hides text\n" },
	{ "a rule behind a Unicode line end in a comment",
	  STR("a: b # x\xe2\x80\xa8"
	      "c: d\n...\n"),
	  true, "1:9 a character that hides text\n" },
	{ "a rule behind a lone CR in a comment", STR("a: b # x\rc: d\n...\n"), true,
	  "1:9 a character that hides text\n" },
	{ "next line",
	  STR("a: b # x\xc2\x85"
	      "c: d\n...\n"),
	  true, "1:9 a character that hides text\n" },
	{ "text direction",
	  STR("a: \xe2\x80\xae"
	      "b\n...\n"),
	  true, "1:4 a character that hides text\n" },
	{ "control byte", STR("a: b\x07\n...\n"), true, "1:5 not YAML\n" },
};

static void check_rows(const char *name, const struct policy_report *rep, const char *want)
{
	for (size_t i = 0; i < rep->n; i++) {
		size_t n = strcspn(want, "\n");
		char row[320];

		(void)snprintf(row, sizeof(row), "%u:%u %s", rep->rows[i].line, rep->rows[i].column, rep->rows[i].msg);
		if (n == 0 || strncmp(row, want, n) != 0)
			fail_msg("%s: row %zu is \"%s\", wanted \"%.*s\"", name, i, row, (int)n, want);
		want += n + (want[n] == '\n');
	}
	if (*want)
		fail_msg("%s: no row for \"%s\"", name, want);
}

static void test_faults(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(faults); i++) {
		struct read got = read_text(faults[i].text);

		check_rows(faults[i].name, &got.rep, faults[i].want);
		if (got.r != (faults[i].fatal ? PAWL_E_POLICY : 0) || (got.r == 0) != (got.root != NULL))
			fail_msg("%s: code %d", faults[i].name, got.r);
		assert_int_equal(got.rep.errors, got.rep.n);
		read_done(&got);
	}
}

/* Repeats are taken out, so that a reader that goes on after the error sees the first one. */
static void test_repeat_keeps_first(void **state)
{
	struct read got = read_text(STR("{a: 1, b: 2, a: 3}\n...\n"));

	(void)state;
	assert_int_equal(got.root->n, 2);
	assert_true(str_is(got.root->first->value->text, "1"));
	assert_null(got.root->first->next->next);
	read_done(&got);
}

static struct str repeat(const char *head, const char *piece, size_t times, const char *tail)
{
	size_t each = strlen(piece);
	struct buf b = BUF_MAX(128u << 20);
	struct str s;

	buf_puts(&b, head);
	for (size_t i = 0; i < times; i++)
		buf_add(&b, piece, each);
	buf_puts(&b, tail);
	assert_true(buf_ok(&b));
	s.p = buf_take(&b, &s.n);
	return s;
}

/* P09: refused in bounded time and memory. */
static const struct {
	const char *name, *head, *piece, *tail;
	size_t times;
	const char *want;
} bombs[] = {
	{ "30 levels of aliases", "a0: &a [x]\n", "b: [*a, *a]\n", "...\n", 30, "aliases" },
	{ "100,000 brackets", "a: ", "[", "\n...\n", 100000, "nested deeper than 32 levels" },
	{ "100,000 closed brackets", "a: ", "[", "]]\n...\n", 100000, "nested deeper than 32 levels" },
	{ "100,000 braces", "a: ", "{a: ", "\n...\n", 100000, "nested deeper than 32 levels" },
	{ "100,000 dashes", "", "- ", "a\n...\n", 100000, "nested deeper than 32 levels" },
	{ "100,000 question marks", "", "? ", "a\n...\n", 100000, "a key is one text" },
	{ "60,000 values", "a: [", "b,", "]\n...\n", 60000, "more than 50,000 values" },
	{ "60,000 keys", "", "k: 1\n", "...\n", 60000, "more than 50,000 values" },
	{ "20,000 equal keys", "", "k: 1\n", "...\n", 20000, "key \"k\" is there twice" },
	{ "400,000 tabs", "a: 1\n", "\t\n", "...\n", 400000, "a tab in the indentation" },
	{ "1 MiB + 1", "#", "########", "\n...\n", 131072, "larger than 1 MiB" },
	{ "64 MB", "a:\n", "- bbbbbb\n", "...\n", 7500000, "larger than 1 MiB" },
};

static void test_bombs(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bombs); i++) {
		struct str text = repeat(bombs[i].head, bombs[i].piece, bombs[i].times, bombs[i].tail);
		clock_t start = clock();
		struct read got = read_text(text);
		double took = (double)(clock() - start) / CLOCKS_PER_SEC;
		bool named = false;

		for (size_t k = 0; k < got.rep.n; k++)
			named = named || strncmp(got.rep.rows[k].msg, bombs[i].want, strlen(bombs[i].want)) == 0;
		if (!named)
			fail_msg("%s: not told as \"%s\"", bombs[i].name, bombs[i].want);
		assert_true(got.rep.n <= REPORT_MAX_ROWS);
		if (took > 10) /* milliseconds; ten seconds is a machine under valgrind */
			fail_msg("%s: %.1f s", bombs[i].name, took);
		read_done(&got);
		free((char *)(uintptr_t)text.p);
	}
}

/* The depth that is allowed, and one more. */
static void test_depth_edge(void **state)
{
	char text[128];
	struct read got;

	(void)state;
	for (size_t depth = YAML_MAX_DEPTH; depth <= YAML_MAX_DEPTH + 1; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		memcpy(text + 2 * depth, "\n...\n", 6);
		got = read_text(str_of(text));
		assert_int_equal(got.r, depth > YAML_MAX_DEPTH ? PAWL_E_POLICY : 0);
		read_done(&got);
	}
}

/* Above 200 rows the file's first ones are kept, errors before warnings, and all errors are counted. */
static void test_report_bound(void **state)
{
	struct policy_report rep;
	static const char tail[] = "t:200:2: error: e200\nt: error: 100 more errors are not shown\n";
	struct buf out = BUF_MAX(1u << 20);

	(void)state;
	report_init(&rep, "t");
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(report_add(&rep, true, i + 1, 1, "w"), 0);
	for (unsigned i = 300; i > 0; i--)
		assert_int_equal(report_add(&rep, false, i, 2, "e%u", i), 0);
	report_sort(&rep);
	assert_int_equal(rep.n, REPORT_MAX_ROWS);
	assert_int_equal(rep.errors, 300);
	for (unsigned i = 0; i < rep.n; i++) {
		assert_false(rep.rows[i].warning);
		assert_int_equal(rep.rows[i].line, i + 1);
	}
	policy_report_text(&rep, &out);
	assert_true(out.n > strlen(tail) && memcmp(out.p + out.n - strlen(tail), tail, strlen(tail)) == 0);
	buf_done(&out);
	policy_report_done(&rep);
}

static void test_quote(void **state)
{
	char out[REPORT_QUOTE];
	char longer[300];

	(void)state;
	assert_string_equal(report_quote(STR("a\x1b[31m\xe2\x80\xae"), out), "\"a\\x1b[31m\\xe2\\x80\\xae\"");
	memset(longer, '\n', sizeof(longer));
	for (size_t n = 0; n <= sizeof(longer); n++)
		assert_true(strlen(report_quote((struct str){ longer, n }, out)) < REPORT_QUOTE);
	assert_int_equal(out[strlen(out) - 1], '"');
	assert_non_null(strstr(out, "...\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_repeat_keeps_first),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_depth_edge),
		cmocka_unit_test(test_report_bound),
		cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
