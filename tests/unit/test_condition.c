/* tests/unit/test_condition.c - the three answers of a condition, and `under` with a resolver that a table plays. */
#include "policy/under.h"
#include "tests/support/policy_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>

#define YES    TRUTH_YES
#define NO     TRUTH_NO
#define FAILED TRUTH_FAILED

static const char *const words[] = { [TRUTH_NO] = "no", [TRUTH_YES] = "yes", [TRUTH_FAILED] = "failed" };

/* A small file tree: path as asked -> real path, NULL = unresolved. Counts questions. */
struct tree {
	int asked;
};
static const struct {
	const char *path, *real;
} tree_rows[] = {
	{ "/srv/agent", "/srv/agent" },
	{ "workspace/", "/srv/agent/workspace" },
	{ "workspace", "/srv/agent/workspace" },
	{ "workspace/a.txt", "/srv/agent/workspace/a.txt" },
	{ "/srv/agent/workspace/a.txt", "/srv/agent/workspace/a.txt" },
	{ "workspace/../secrets/key", "/srv/agent/secrets/key" },
	{ "notes.txt", "/srv/agent/notes.txt" },
	{ "workspace/out", "/etc" },                /* a link out of the root */
	{ "workspace/side", "/srv/agent/secrets" }, /* a link out of the folder */
	{ "notes/in", "/srv/agent/workspace/b" },   /* a link into the folder */
	{ "secrets/", "/srv/agent/secrets" },
	{ "secrets/key", "/srv/agent/secrets/key" },
	{ "link-to-key", "/srv/agent/secrets/key" },
	{ "workspacex/a", "/srv/agent/workspacex/a" },
	{ "/etc", "/etc" },
	{ "/etc/passwd", "/etc/passwd" },
	{ "/", "/" },
	{ "workspace/gone", NULL },
	{ "gone/", NULL },
	{ "moved/", "/srv/agent/data" },
	{ "moved/x", "/srv/agent/data/x" },
	{ ".", "/srv/agent" },
	{ "odd", "relative" },
};

static int tree_resolve(void *arg, struct str root, struct str path, char *out, size_t size)
{
	struct tree *t = arg;

	(void)root;
	t->asked++;
	for (size_t i = 0; i < PAWL_LEN(tree_rows); i++)
		if (str_is(path, tree_rows[i].path) && tree_rows[i].real) {
			(void)snprintf(out, size, "%s", tree_rows[i].real);
			return 0;
		}
	return PAWL_E_SYS;
}

struct call {
	const char *args, *root;
	const struct resolver *res;
	struct fact_path paths[SUBJECT_PATHS];
	size_t n_paths;
};

static enum truth eval(const struct condition *c, struct call *call)
{
	struct request_call rq = { .kind = CALL_TOOL, .has_money = true, .money = 2500000000 };
	struct caller who = { .agent = STR("local"), .root_dir = str_of(call->root) };
	struct under_memo memo = { .n = 0 };
	struct buf scratch = BUF_MAX(1 << 20);
	struct json *args = NULL, *labels = NULL;
	struct subjects s = { .rq = &rq,
			      .who = &who,
			      .tool = STR("fs.write"),
			      .res = call->res,
			      .paths = call->paths,
			      .n_paths = &call->n_paths,
			      .scratch = &scratch,
			      .memo = &memo };
	struct pawl_error err;
	enum truth got;

	if (json_parse(str_of(call->args), PAWL_MAX_DEPTH, &args, &err) < 0)
		fail_msg("%s: %s", call->args, err.msg);
	assert_int_equal(json_parse(STR("{\"run\":\"42\",\"a.b\":\"dotted\"}"), 4, &labels, &err), 0);
	rq.args = args;
	who.labels = labels;
	call->n_paths = 0;
	got = condition_eval(c, &s);
	json_free(args);
	json_free(labels);
	buf_done(&scratch);
	return got;
}

static const struct {
	const char *name;
	enum cond_op op;
	const char *what, *args;
	enum truth want;
} cases[] = {
	/* is, in, not: within one type exact, across types failed */
	{ "args.a", COND_IS, "x", "{\"a\":\"x\"}", YES },
	{ "args.a", COND_IS, "x", "{\"a\":\"X\"}", NO },
	{ "args.a", COND_IS, "x", "{}", FAILED },
	{ "args.a", COND_IS, "x", "{\"a\":null}", FAILED },
	{ "args.a", COND_IS, "x", "{\"a\":[\"x\"]}", FAILED },
	{ "args.a", COND_IS, "x", "{\"a\":{\"x\":1}}", FAILED },
	{ "args.a", COND_IS, "x", "{\"a\":5}", FAILED },
	{ "args.a", COND_IS, "5", "{\"a\":5}", FAILED },
	{ "args.a", COND_IS, "#5", "{\"a\":\"5\"}", FAILED },
	{ "args.a", COND_IS, "#5", "{\"a\":5}", YES },
	{ "args.a", COND_IS, "#1", "{\"a\":1.0}", YES },
	{ "args.a", COND_IS, "#1.0", "{\"a\":1}", YES },
	{ "args.a", COND_IS, "#0.1", "{\"a\":0.1}", YES },
	{ "args.a", COND_IS, "#0.1", "{\"a\":0.10000000000000002}", NO },
	{ "args.a", COND_IS, "#0", "{\"a\":-0.0}", YES },
	{ "args.a", COND_IS, "#0", "{\"a\":1e-300}", NO },
	{ "args.a", COND_IS, "#-0.000000001", "{\"a\":-1e-9}", YES },
	{ "args.a", COND_IS, "#123456789.123456789", "{\"a\":123456789.12345679}", NO },
	{ "args.a", COND_IS, "#123456789.12345679", "{\"a\":123456789.12345679}", YES },
	{ "args.a", COND_IS, "#9007199254740993", "{\"a\":9007199254740993}", YES },
	{ "args.a", COND_IS, "#9007199254740993", "{\"a\":9007199254740992}", NO },
	{ "args.a", COND_IS, "#9223372036854775807", "{\"a\":9223372036854775807}", YES },
	{ "args.a", COND_IS, "#-9223372036854775808", "{\"a\":-9223372036854775808}", YES },
	{ "args.a", COND_IS, "#100000000000000000000", "{\"a\":1e20}", YES },
	{ "args.a", COND_IS, "!true", "{\"a\":true}", YES },
	{ "args.a", COND_IS, "!true", "{\"a\":false}", NO },
	{ "args.a", COND_IS, "!true", "{\"a\":\"true\"}", FAILED },
	{ "args.a", COND_IS, "!true", "{\"a\":1}", FAILED },
	{ "args.a", COND_IN, "x|y", "{\"a\":\"y\"}", YES },
	{ "args.a", COND_IN, "x|y", "{\"a\":\"z\"}", NO },
	{ "args.a", COND_IN, "x|#7", "{\"a\":7}", YES },
	{ "args.a", COND_IN, "x|#7", "{\"a\":\"z\"}", NO },
	{ "args.a", COND_IN, "x|#7", "{\"a\":true}", FAILED },
	{ "args.a", COND_NOT, "x|y", "{\"a\":\"z\"}", YES },
	{ "args.a", COND_NOT, "x|y", "{\"a\":\"x\"}", NO },
	{ "args.a", COND_NOT, "x|y", "{}", FAILED },
	{ "args.a", COND_NOT, "x|y", "{\"a\":7}", FAILED },
	{ "args.a", COND_NOT, "x|#7", "{\"a\":8}", YES },
	/* glob, regex: text only */
	{ "args.a", COND_GLOB, "*.txt", "{\"a\":\"b.txt\"}", YES },
	{ "args.a", COND_GLOB, "*.txt", "{\"a\":\"b.txt.exe\"}", NO },
	{ "args.a", COND_GLOB, "*", "{\"a\":7}", FAILED },
	{ "args.a", COND_REGEX, "^rm\\b", "{\"a\":\"rm -rf\"}", YES },
	{ "args.a", COND_REGEX, "^rm\\b", "{\"a\":\"ls\"}", NO },
	{ "args.a", COND_REGEX, "^rm\\b", "{\"a\":[\"rm\"]}", FAILED },
	{ "args.a", COND_REGEX, "(a+)+$", "{\"a\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"}", FAILED },
	/* over, below: strictly; D18 a string, list or null where a number is due */
	{ "args.n", COND_OVER, "20", "{\"n\":20}", NO },
	{ "args.n", COND_OVER, "20", "{\"n\":21}", YES },
	{ "args.n", COND_OVER, "20", "{\"n\":20.000000001}", YES },
	{ "args.n", COND_OVER, "20", "{\"n\":20.0000000001}", YES },
	{ "args.n", COND_OVER, "0.1", "{\"n\":0.1}", NO },
	{ "args.n", COND_BELOW, "20", "{\"n\":20}", NO },
	{ "args.n", COND_BELOW, "20", "{\"n\":19.9999999999}", YES },
	{ "args.n", COND_BELOW, "20", "{\"n\":-1e308}", YES },
	{ "args.n", COND_BELOW, "20", "{\"n\":1e308}", NO },
	{ "args.n", COND_BELOW, "0", "{\"n\":-1e-300}", YES },
	{ "args.n", COND_OVER, "9007199254740992", "{\"n\":9007199254740993}", YES },
	{ "args.n", COND_BELOW, "20", "{\"n\":\"5\"}", FAILED },
	{ "args.n", COND_BELOW, "20", "{\"n\":[5]}", FAILED },
	{ "args.n", COND_BELOW, "20", "{\"n\":null}", FAILED },
	{ "args.n", COND_BELOW, "20", "{\"n\":true}", FAILED },
	{ "args.n", COND_BELOW, "20", "{}", FAILED },
	/* bytes */
	{ "args.t", COND_BYTES_OVER, "3", "{\"t\":\"\xc3\xa9\xc3\xa9\"}", YES },
	{ "args.t", COND_BYTES_BELOW, "4", "{\"t\":\"\xc3\xa9\xc3\xa9\"}", NO },
	{ "args.t", COND_BYTES_OVER, "7", "{\"t\":[1, 2, 3.0]}", NO }, /* [1,2,3] */
	{ "args.t", COND_BYTES_OVER, "6", "{\"t\":[1, 2, 3.0]}", YES },
	{ "args.t", COND_BYTES_BELOW, "5", "{\"t\":null}", YES },
	{ "args", COND_BYTES_BELOW, "8", "{ \"t\" : 1 }", YES }, /* {"t":1} */
	{ "args", COND_BYTES_BELOW, "7", "{ \"t\" : 1 }", NO },
	{ "args.x", COND_BYTES_BELOW, "100", "{}", FAILED },
	{ "estimate.money", COND_BYTES_BELOW, "100", "{}", FAILED },
	/* paths into args */
	{ "args.a.b", COND_IS, "x", "{\"a\":{\"b\":\"x\"}}", YES },
	{ "args.a.b", COND_IS, "x", "{\"a.b\":\"x\"}", FAILED },
	{ "args.a.1", COND_IS, "x", "{\"a\":[\"y\",\"x\"]}", YES },
	{ "args.a.2", COND_IS, "x", "{\"a\":[\"y\",\"x\"]}", FAILED },
	{ "args.a.01", COND_IS, "x", "{\"a\":[\"y\",\"x\"]}", FAILED },
	{ "args.a.-1", COND_IS, "x", "{\"a\":[\"y\",\"x\"]}", FAILED },
	{ "args.a.4294967296", COND_IS, "x", "{\"a\":[\"x\"]}", FAILED },
	{ "args.a.1", COND_IS, "x", "{\"a\":{\"1\":\"x\"}}", YES },
	{ "args.a.b", COND_IS, "x", "{\"a\":\"b\"}", FAILED },
	{ "args.a.0.b", COND_IS, "x", "{\"a\":[{\"b\":\"x\"}]}", YES },
	/* other subjects */
	{ "agent", COND_IS, "local", "{}", YES },
	{ "agent", COND_IS, "other", "{}", NO },
	{ "kind", COND_IN, "llm|tool", "{}", YES },
	{ "tool", COND_GLOB, "fs.*", "{}", YES },
	{ "labels.run", COND_IS, "42", "{}", YES },
	{ "labels.run", COND_IS, "#42", "{}", FAILED },
	{ "labels.a.b", COND_IS, "dotted", "{}", YES },
	{ "labels.none", COND_NOT, "x", "{}", FAILED },
	{ "estimate.money", COND_OVER, "2.499999999", "{}", YES },
	{ "estimate.money", COND_OVER, "2.5", "{}", NO },
	{ "estimate.money", COND_IS, "#2.5", "{}", YES },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct pb *b = pb_new();
		struct call call = { .args = cases[i].args };
		enum truth got = eval(pb_when(b, NULL, cases[i].name, cases[i].op, cases[i].what), &call);

		if (got != cases[i].want)
			fail_msg("%zu: %s (%d) %s on %s: %s, not %s", i, cases[i].name, cases[i].op, cases[i].what,
				 cases[i].args, words[got], words[cases[i].want]);
		pb_free(b);
	}
}

/* Two fields: a definite no decides, in either place; else a failure does. */
static void test_fields_together(void **state)
{
	static const struct {
		const char *args;
		enum truth want;
	} rows[] = {
		{ "{\"a\":1,\"b\":1}", YES }, { "{\"a\":2,\"b\":1}", NO },
		{ "{\"a\":1,\"b\":2}", NO },  { "{\"a\":2}", NO },
		{ "{\"b\":2}", NO },          { "{\"a\":1}", FAILED },
		{ "{\"b\":1}", FAILED },      { "{}", FAILED },
	};
	struct pb *b = pb_new();
	struct condition *c = pb_when(b, NULL, "args.a", COND_IS, "#1"), empty = { 0 };
	struct call call = { .args = "{}" };

	(void)state;
	(void)pb_when(b, c, "args.b", COND_IS, "#1");
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		call.args = rows[i].args;
		if (eval(c, &call) != rows[i].want)
			fail_msg("%s: %s", rows[i].args, words[eval(c, &call)]);
	}
	assert_int_equal(eval(&empty, &call), FAILED); /* P06: an empty condition is not a match-all */
	pb_free(b);
}

static const struct {
	const char *id, *root, *dir, *path;
	enum truth want;
	bool resolved;
} unders[] = {
	{ "inside", "/srv/agent", "workspace/", "workspace/a.txt", YES, true },
	{ "inside, absolute", "/srv/agent", "workspace", "/srv/agent/workspace/a.txt", YES, true },
	{ "the folder itself", "/srv/agent", "workspace/", "workspace", YES, true },
	{ "beside", "/srv/agent", "workspace/", "notes.txt", NO, true },
	{ "a longer name is another folder", "/srv/agent", "workspace/", "workspacex/a", NO, true },
	{ "dots lead out of the folder", "/srv/agent", "workspace/", "workspace/../secrets/key", NO, true },
	{ "dots lead out of the root", "/srv/agent", "workspace/", "../../etc/passwd", FAILED, false },
	{ "absolute outside the root", "/srv/agent", "workspace/", "/etc/passwd", FAILED, false },
	{ "absolute folder outside the root", "/srv/agent", "/etc", "/etc/passwd", FAILED, false },
	{ "absolute folder, no root stated", NULL, "/etc", "/etc/passwd", YES, true },
	{ "everything lies below /", NULL, "/", "/etc/passwd", YES, true },
	{ "relative, no root stated", NULL, "/etc", "workspace/a.txt", FAILED, false },
	{ "relative folder, no root stated", NULL, "workspace/", "/etc/passwd", FAILED, false },
	{ "root is not absolute", "srv", "workspace/", "workspace/a.txt", FAILED, false },
	{ "link out of the root", "/srv/agent", "workspace/", "workspace/out", FAILED, true },
	{ "link out of the root, asked of another folder", "/srv/agent", "secrets/", "workspace/out", FAILED, true },
	{ "link out of the folder", "/srv/agent", "workspace/", "workspace/side", FAILED, true },
	{ "link into the folder", "/srv/agent", "workspace/", "notes/in", FAILED, true },
	{ "D13 by its own name", "/srv/agent", "secrets/", "secrets/key", YES, true },
	{ "D13 by a link's name: not a no", "/srv/agent", "secrets/", "link-to-key", FAILED, true },
	{ "unresolved", "/srv/agent", "workspace/", "workspace/gone", FAILED, false },
	{ "unresolved folder", "/srv/agent", "gone/", "workspace/a.txt", FAILED, true },
	{ "the folder is a link, and that is fine", "/srv/agent", "moved/", "moved/x", YES, true },
	{ "the root itself", "/srv/agent", ".", "workspace/a.txt", YES, true },
	{ "a resolver's answer that is no path", "/srv/agent", "workspace/", "odd", FAILED, false },
	{ "empty path", "/srv/agent", "workspace/", "", FAILED, false },
};

static void test_under(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(unders); i++) {
		struct pb *b = pb_new();
		struct tree tree = { 0 };
		struct resolver res = { tree_resolve, &tree };
		char args[256];
		struct call call = { .args = args, .root = unders[i].root, .res = &res };
		struct condition *c = pb_when(b, NULL, "args.path", COND_UNDER, unders[i].dir);
		enum truth got;

		(void)snprintf(args, sizeof(args), "{\"path\":\"%s\"}", unders[i].path);
		got = eval(c, &call);
		if (got != unders[i].want || call.n_paths != 1 || !str_is(call.paths[0].subject, "args.path") ||
		    call.paths[0].resolved != unders[i].resolved)
			fail_msg("%s: %s, %zu paths, resolved %d", unders[i].id, words[got], call.n_paths,
				 call.paths[0].resolved);
		call.res = NULL;
		assert_int_equal(eval(c, &call), FAILED);
		call.args = "{\"path\":7}";
		call.res = &res;
		assert_int_equal(eval(c, &call), FAILED);
		pb_free(b);
	}
}

static void test_under_asks_once(void **state)
{
	struct pb *b = pb_new();
	struct tree tree = { 0 };
	struct resolver res = { tree_resolve, &tree };
	struct call call = { .args = "{\"path\":\"workspace/a.txt\",\"also\":\"workspace/a.txt\"}",
			     .root = "/srv/agent",
			     .res = &res };
	struct condition *c = pb_when(b, NULL, "args.path", COND_UNDER, "workspace/");

	(void)state;
	(void)pb_when(b, c, "args.path", COND_UNDER, "workspace/");
	(void)pb_when(b, c, "args.also", COND_UNDER, "workspace");
	assert_int_equal(eval(c, &call), YES);
	assert_int_equal(tree.asked, 4); /* the path, two spellings of the folder, the root */
	assert_int_equal(call.n_paths, 2);
	pb_free(b);
}

/* The entry has room for eight subjects: a ninth fails, it is not forgotten. */
static void test_under_ninth_subject(void **state)
{
	struct pb *b = pb_new();
	struct tree tree = { 0 };
	struct resolver res = { tree_resolve, &tree };
	struct call call = { .args = "{\"p\":[\".\",\".\",\".\",\".\",\".\",\".\",\".\",\".\",\".\"]}",
			     .root = "/srv/agent",
			     .res = &res };
	struct condition *c = pb_mem(b, sizeof(*c));

	(void)state;
	c->fields = pb_mem(b, 9 * sizeof(*c->fields));
	for (int i = 0; i < 9; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "args.p.%d", i);
		assert_int_equal(i ? eval(c, &call) : YES, YES);
		(void)pb_when(b, c, name, COND_UNDER, ".");
	}
	assert_int_equal(eval(c, &call), FAILED);
	assert_int_equal(call.n_paths, SUBJECT_PATHS);
	pb_free(b);
}

static const struct {
	const char *root, *path, *want;
} cleans[] = {
	{ "/r", "a", "/r/a" },
	{ "/r/", "./a//b/.", "/r/a/b" },
	{ "/r", "..", "/" },
	{ "/r", "../../../x", "/x" },
	{ "/r", "/x/y/../z/", "/x/z" },
	{ "/r", ".", "/r" },
	{ NULL, "/", "/" },
	{ NULL, "//a", "/a" },
	{ NULL, "/..", "/" },
	{ NULL, "/...", "/..." },
	{ NULL, "/a/..b", "/a/..b" },
	{ NULL, "a", NULL },
	{ "r", "a", NULL },
	{ "/r", "", NULL },
	{ "/r", "..a", "/r/..a" },
	{ "/r/../s", "a", "/s/a" },
};

static void test_clean(void **state)
{
	char out[UNDER_PATH_BYTES], big[2 * UNDER_PATH_BYTES];
	struct str got;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cleans); i++) {
		int r = path_clean(str_of(cleans[i].root), str_of(cleans[i].path), out, &got);

		if (cleans[i].want ? r != 0 || !str_is(got, cleans[i].want) || strlen(out) != got.n
				   : r != PAWL_E_MALFORMED)
			fail_msg("%s + %s: %d %s", cleans[i].root ? cleans[i].root : "-", cleans[i].path, r, out);
	}
	assert_int_equal(path_clean(STR("/r"), (struct str){ "a\0b", 3 }, out, &got), PAWL_E_MALFORMED);
	memset(big, 'a', sizeof(big));
	big[0] = '/';
	assert_int_equal(path_clean(STR_NONE, (struct str){ big, UNDER_PATH_BYTES - 1 }, out, &got), 0);
	assert_int_equal(got.n, UNDER_PATH_BYTES - 1);
	assert_int_equal(path_clean(STR_NONE, (struct str){ big, UNDER_PATH_BYTES }, out, &got), PAWL_E_MALFORMED);
	assert_int_equal(path_clean((struct str){ big, UNDER_PATH_BYTES }, STR("a"), out, &got), PAWL_E_MALFORMED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_fields_together),
		cmocka_unit_test(test_under),
		cmocka_unit_test(test_under_asks_once),
		cmocka_unit_test(test_under_ninth_subject),
		cmocka_unit_test(test_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
