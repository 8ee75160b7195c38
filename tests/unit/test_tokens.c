/* tests/unit/test_tokens.c - which calls are equal, and the exact bytes that say so. */
#include "policy/canon.h"
#include "policy/cut.h"
#include "tests/support/ask_facts.h"

static const uint8_t secret_b[32] = { 9 };

/* ---- equal calls ---- */

struct side {
	const char *tool, *args, *call;
	uint64_t session;
	const uint8_t *secret;
};
enum { CALLHASH = 1, KEY = 2, CARD = 4, SAME = 8, REPEAT = 16, ALL = 31 };
#define S(tool, args)                     \
	{                                 \
		tool, args, NULL, 0, NULL \
	}
static const struct {
	const char *id;
	struct side a, b;
	int equal;
} pairs[] = {
	{ "the same", S("q", "{\"n\":1}"), S("q", "{\"n\":1}"), ALL },
	{ "L08 order of keys", S("q", "{\"n\":1,\"m\":{\"a\":1,\"b\":2}}"), S("q", "{\"m\":{\"b\":2,\"a\":1},\"n\":1}"),
	  ALL },
	{ "L08 1 and 1.0", S("q", "{\"n\":1}"), S("q", "{\"n\":1.0}"), ALL },
	{ "L08 1 and 1e0, spaces, escapes", S("q", "{\"n\":1,\"s\":\"a\"}"), S("q", "{ \"s\":\"\\u0061\", \"n\":1e0 }"),
	  ALL },
	{ "L08 a volatile field", S("q", "{\"n\":1,\"since\":1}"), S("q", "{\"since\":2,\"n\":1}"),
	  CALLHASH | SAME | REPEAT },
	{ "L08 volatile, there and not", S("q", "{\"n\":1,\"since\":1}"), S("q", "{\"n\":1}"),
	  CALLHASH | SAME | REPEAT },
	{ "volatile below", S("q", "{\"p\":{\"at\":1,\"x\":1}}"), S("q", "{\"p\":{\"x\":1,\"at\":2}}"),
	  CALLHASH | SAME | REPEAT },
	{ "the loop rule's own ignore", S("q", "{\"n\":1,\"rid\":1}"), S("q", "{\"n\":1,\"rid\":2}"),
	  CALLHASH | REPEAT },
	{ "ignore and volatile", S("q", "{\"n\":1,\"rid\":1,\"since\":1}"), S("q", "{\"n\":1,\"rid\":2,\"since\":2}"),
	  CALLHASH | REPEAT },
	{ "volatile of another tool", S("z", "{\"since\":1}"), S("z", "{\"since\":2}"), CALLHASH },
	{ "L17 other arguments", S("q", "{\"level\":\"B2\"}"), S("q", "{\"level\":\"E2\"}"), CALLHASH },
	{ "1 and \"1\"", S("q", "{\"n\":1}"), S("q", "{\"n\":\"1\"}"), CALLHASH },
	{ "null and absent", S("q", "{\"n\":null}"), S("q", "{}"), CALLHASH },
	{ "neighbours above 2^53", S("q", "{\"n\":9007199254740993}"), S("q", "{\"n\":9007199254740992}"), CALLHASH },
	{ "D01 an alias", S("q", "{}"), S("query", "{}"), ALL },
	{ "D02 letter case", S("q", "{}"), S("QUERY", "{}"), ALL },
	{ "another tool", S("q", "{}"), S("r", "{}"), CALLHASH },
	{ "another call id", { "q", "{}", "c-1", 0, NULL }, { "q", "{}", "c-2", 0, NULL }, CARD | SAME | REPEAT },
	{ "another session of the tree", { "q", "{}", NULL, 5, NULL }, { "q", "{}", NULL, 6, NULL }, SAME | REPEAT },
	{ "another tree", { "q", "{}", NULL, 0, secret_a }, { "q", "{}", NULL, 0, secret_b }, 0 },
	{ "fields do not run into one another", { "bc", "{}", "a", 0, NULL }, { "c", "{}", "ab", 0, NULL }, 0 },
};

static struct pb *equal_policy(bool same_args)
{
	struct pb *b = pb_new();
	struct tool *t = pb_tool(b, "q", "query");

	t->n_volatile = pb_split(b, "since|p.at", &t->volatile_paths);
	b->pol.repeat = (struct loop_repeat){ .on = true, .same_args = same_args, .limit = 3, .window = 50 };
	b->pol.repeat.n_ignore = pb_split(b, "rid", &b->pol.repeat.ignore);
	return b;
}

static int equal_tokens(const struct facts *a, const struct facts *b)
{
	return (a->call_hash == b->call_hash ? CALLHASH : 0) | (memcmp(a->key, b->key, 16) == 0 ? KEY : 0) |
	       (memcmp(a->card, b->card, 16) == 0 ? CARD : 0) | (memcmp(a->same, b->same, 16) == 0 ? SAME : 0) |
	       (memcmp(a->repeat, b->repeat, 16) == 0 ? REPEAT : 0);
}

static struct facts side_facts(const struct policy *pol, const struct side *s)
{
	return facts(
	    pol, (struct asked){
		     .tool = s->tool, .args = s->args, .call = s->call, .session = s->session, .secret = s->secret });
}

static void test_equal(void **state)
{
	struct pb *b = equal_policy(true);
	const struct policy *pol = pb_done(b);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(pairs); i++) {
		struct facts x = side_facts(pol, &pairs[i].a), y = side_facts(pol, &pairs[i].b);

		if (equal_tokens(&x, &y) != pairs[i].equal)
			fail_msg("%s: %d, not %d", pairs[i].id, equal_tokens(&x, &y), pairs[i].equal);
	}
	pb_free(b);
}

static void test_same_tool_only(void **state)
{
	static const uint8_t zero[16];
	struct pb *b = equal_policy(false);
	const struct policy *pol = pb_done(b);
	struct facts x = facts(pol, (struct asked){ .tool = "q", .args = "{\"n\":1}" });
	struct facts y = facts(pol, (struct asked){ .tool = "q", .args = "{\"n\":2}" });

	(void)state;
	assert_int_equal(equal_tokens(&x, &y), CALLHASH | REPEAT);
	y = facts(pol, (struct asked){ .tool = "r", .args = "{\"n\":1}" });
	assert_int_equal(equal_tokens(&x, &y), CALLHASH);
	b->pol.repeat.on = false;
	x = facts(pol, (struct asked){ .tool = "q" });
	assert_memory_equal(x.repeat, zero, 16);
	pb_free(b);
}

/* The bytes that docs/audit-format.md states, put together here by hand. */
static void blake(const uint8_t *key, const char *bytes, size_t n, uint8_t *out, size_t out_n)
{
	assert_int_equal(crypto_generichash(out, out_n, (const uint8_t *)bytes, n, key, 32), 0);
}

static void test_exact_bytes(void **state)
{
	static const char call[] = "pawl/call\0\0\0\0\x08\0\0\0\0\0\0\0\x05\0\0\0\x03"
				   "c-1";
	static const char key[] = "pawl/key\0\0\0\0\x08\0\0\0\0\0\0\0\x05\0\0\0\x03"
				  "c-1\0\0\0\x01q\0\0\0\x20";
	static const char card[] = "pawl/card\0\0\0\0\x08\0\0\0\0\0\0\0\x05\0\0\0\x01q\0\0\0\x20";
	static const char same[] = "pawl/same\0\0\0\0\x01q\0\0\0\x20";
	static const char repeat[] = "pawl/loop/repeat\0\0\0\0\x01q\0\0\0\x20";
	static const struct {
		const char *head;
		size_t n;
		const char *canon;
		size_t at;
	} rows[] = {
		{ key, sizeof(key) - 1, "{\"n\":1,\"rid\":2,\"since\":3}", offsetof(struct facts, key) },
		{ card, sizeof(card) - 1, "{\"n\":1,\"rid\":2,\"since\":3}", offsetof(struct facts, card) },
		{ same, sizeof(same) - 1, "{\"n\":1,\"rid\":2}", offsetof(struct facts, same) },
		{ repeat, sizeof(repeat) - 1, "{\"n\":1}", offsetof(struct facts, repeat) },
	};
	struct pb *b = equal_policy(true);
	struct facts f =
	    facts(pb_done(b), (struct asked){ .tool = "Query", .args = "{\"since\":3,\"rid\":2,\"n\":1.0}" });
	uint8_t out[16];
	uint64_t want = 0;

	(void)state;
	assert_true(str_is(f.canon_args, "{\"n\":1,\"rid\":2,\"since\":3}"));
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		char text[128];
		uint8_t d[32];

		memcpy(text, rows[i].head, rows[i].n);
		blake(secret_a, rows[i].canon, strlen(rows[i].canon), d, 32);
		memcpy(text + rows[i].n, d, 32);
		blake(secret_a, text, rows[i].n + 32, out, 16);
		if (memcmp(out, (const uint8_t *)&f + rows[i].at, 16) != 0)
			fail_msg("row %zu", i);
	}
	blake(secret_a, call, sizeof(call) - 1, out, 16);
	for (size_t i = 0; i < 8; i++)
		want = want << 8 | out[i];
	assert_true(f.call_hash == want);
	pb_free(b);
}

/* ---- cutting members out of the text is leaving them out of the walk ---- */

static const char *const cut_args[] = {
	"{}",
	"{\"a\":1}",
	"{\"a\":1,\"b\":2}",
	"{\"a\":1,\"b\":2,\"c\":3}",
	"{\"a\":{\"b\":{\"c\":1}}}",
	"{\"a\":{\"b\":1,\"c\":2},\"b\":1,\"c\":[]}",
	"{\"a\":[{\"b\":1},{\"c\":2,\"b\":3},[[{\"b\":4,\"d\":5}]],\"b\",7]}",
	"{\"b\":[1,[2,[3]]],\"c\":\"}\"}",
	"{\"a\":\"\\\"b\\\":1,\",\"b\":\"\\\\\",\"c\":\"\\\\\\\"\"}",
	"{\"\":1,\"a\":{\"\":2}}",
	"{\"a.b\":1,\"a\":{\"b\":2}}",
	"{\"ab\":1,\"a\":2,\"b\":{\"ab\":3}}",
	"{\"a\\u0001\":1,\"a\":2}",
	"{\"a\":[],\"b\":{},\"c\":[{}]}",
	"{\"a\":null,\"b\":true,\"c\":-1.5e-9,\"d\":\"\xc3\xa9\"}",
	"{\"a\":[[],[],{\"a\":{\"a\":[{\"a\":1}]}}]}",
};
static const char *const cut_paths[] = { "a",   "b",     "c", "d",  "a.b", "a.c", "b.c",  "a.b.c",
					 "a.a", "a.a.a", "",  "a.", ".a",  "ab",  "b.ab", "x.y" };

static void test_cut(void **state)
{
	struct buf b = BUF_MAX(1 << 16), want = BUF_MAX(1 << 16);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cut_args); i++) {
		struct json *args;
		struct pawl_error err;

		if (json_parse(str_of(cut_args[i]), 32, &args, &err) != 0)
			fail_msg("%s: %s", cut_args[i], err.msg);
		for (size_t set = 0; set < (size_t)1 << PAWL_LEN(cut_paths); set += set < 300 ? 1 : 37) {
			struct str drop[PAWL_LEN(cut_paths)];
			size_t n = 0, at;

			for (size_t k = 0; k < PAWL_LEN(cut_paths); k++)
				if (set >> k & 1)
					drop[n++] = str_of(cut_paths[k]);
			buf_reset(&b);
			buf_reset(&want);
			canon_json(args, NULL, 0, &b);
			canon_json(args, drop, n, &want);
			at = b.n;
			cut_members(&b, 0, at, drop, n);
			if (!str_eq((struct str){ b.p + at, b.n - at }, buf_str(&want)))
				fail_msg("%s less set %zx: %.*s, not %.*s", cut_args[i], set, (int)(b.n - at), b.p + at,
					 STR_ARG(buf_str(&want)));
		}
		json_free(args);
	}
	buf_done(&b);
	buf_done(&want);
	assert_true(cut_path_plain(STR("a.\xc3\xa9")));
	assert_false(cut_path_plain(STR("a\"")) || cut_path_plain(STR("a\\")) || cut_path_plain(STR("a\x01")));
}

/* A volatile member whose name JSON must escape: the slow way gives the same. */
static void test_escaped_volatile(void **state)
{
	struct pb *b = pb_new();
	struct tool *t = pb_tool(b, "q", "");
	const struct policy *pol;
	struct facts x, y;

	(void)state;
	t->n_volatile = pb_split(b, "a\"b|since", &t->volatile_paths);
	pol = pb_done(b);
	x = facts(pol, (struct asked){ .tool = "q", .args = "{\"n\":1,\"a\\\"b\":1,\"since\":1}" });
	y = facts(pol, (struct asked){ .tool = "q", .args = "{\"n\":1,\"a\\\"b\":2}" });
	assert_int_equal(equal_tokens(&x, &y) & (SAME | KEY), SAME);
	pb_free(b);
}

/* ---- fold_space ---- */

static const struct {
	const char *id, *a, *b;
	int equal;
} folds[] = {
	{ "L13 runs of blanks", "{\"q\":\"select  1\"}", "{\"q\":\"select 1\"}", CALLHASH | SAME | REPEAT },
	{ "L13 line ends and tabs", "{\"q\":\"a\\n\\t b\\r\\n\"}", "{\"q\":\" a b \"}", CALLHASH | SAME | REPEAT },
	{ "vertical tab, form feed", "{\"q\":\"a\\u000bb\\fc\"}", "{\"q\":\"a b c\"}", CALLHASH | SAME | REPEAT },
	{ "white space beyond ASCII", "{\"q\":\"a\xc2\xa0\xe2\x80\x83 b\xe3\x80\x80\"}", "{\"q\":\"a b\"}",
	  CALLHASH | SAME | REPEAT },
	{ "no blank is not a blank", "{\"q\":\"ab\"}", "{\"q\":\"a b\"}", CALLHASH },
	{ "only white space", "{\"q\":\" \\n \"}", "{\"q\":\"\"}", CALLHASH | SAME | REPEAT },
	{ "absent is not empty", "{\"q\":\"\"}", "{}", CALLHASH },
	{ "what only looks like an escape", "{\"q\":\"a\\\\nb\"}", "{\"q\":\"a b\"}", CALLHASH },
	{ "an escaped backslash before a line end", "{\"q\":\"a\\\\\\n b\"}", "{\"q\":\"a\\\\ b\"}",
	  CALLHASH | SAME | REPEAT },
	{ "quotes and text beyond ASCII stay", "{\"q\":\"\\\"\xc3\xa9\xe2\x82\xac\"}",
	  "{\"q\":\" \\\"\xc3\xa9\xe2\x82\xac \"}", CALLHASH | SAME | REPEAT },
	{ "a neighbour of a folded argument", "{\"q\":\"a\",\"r\":\"a  b\"}", "{\"q\":\"a\",\"r\":\"a b\"}", CALLHASH },
	{ "below", "{\"p\":{\"q\":\"a  b\"}}", "{\"p\":{\"q\":\"a b\"}}", CALLHASH | SAME | REPEAT },
	{ "texts of a list", "{\"q\":[\"a  b\",1]}", "{\"q\":[\"a b\",1]}", CALLHASH | SAME | REPEAT },
	{ "inside another object it is another argument", "{\"q\":{\"q\":\"a  b\"}}", "{\"q\":{\"q\":\"a b\"}}",
	  CALLHASH },
	{ "with a volatile member", "{\"q\":\"a  b\",\"since\":1}", "{\"q\":\"a b\",\"since\":2}",
	  CALLHASH | SAME | REPEAT },
	{ "with an ignored member", "{\"q\":\"a  b\",\"rid\":1}", "{\"q\":\"a b\",\"rid\":2}", CALLHASH | REPEAT },
	{ "keys are not folded", "{\"q\":\"a\",\"k  k\":1}", "{\"q\":\"a\",\"k k\":1}", CALLHASH },
};

/* What was asked stays what was asked: neither a retry's key nor an approval's card takes a look-alike. */
static void test_fold_space(void **state)
{
	struct pb *b = pb_new();
	struct tool *t = pb_tool(b, "q", "");
	const struct policy *pol;

	(void)state;
	t->n_fold = pb_split(b, "q|p.q", &t->fold_paths);
	t->n_volatile = pb_split(b, "since", &t->volatile_paths);
	b->pol.repeat = (struct loop_repeat){ .on = true, .same_args = true, .limit = 3, .window = 50 };
	b->pol.repeat.n_ignore = pb_split(b, "rid", &b->pol.repeat.ignore);
	pol = pb_done(b);
	for (size_t i = 0; i < PAWL_LEN(folds); i++) {
		struct facts x = facts(pol, (struct asked){ .tool = "q", .args = folds[i].a });
		struct facts y = facts(pol, (struct asked){ .tool = "q", .args = folds[i].b });

		if (equal_tokens(&x, &y) != folds[i].equal)
			fail_msg("%s: %d, not %d", folds[i].id, equal_tokens(&x, &y), folds[i].equal);
		x = facts(pol, (struct asked){ .tool = "other", .args = folds[i].a });
		y = facts(pol, (struct asked){ .tool = "other", .args = folds[i].b });
		assert_int_equal(equal_tokens(&x, &y) & SAME, 0); /* only of the tool that says so */
	}
	pb_free(b);
}

static void test_too_many_volatile(void **state)
{
	struct pb *b = pb_new();
	struct tool *t = pb_tool(b, "q", "");
	struct str *v = pb_mem(b, 65 * sizeof(*v));
	char args[2048] = "{";
	const struct policy *pol;
	struct pawl_error err;
	struct facts f;

	(void)state;
	for (int i = 0; i < 65; i++) {
		char name[16];
		size_t n = strlen(args);

		(void)snprintf(name, sizeof(name), "k%d", i);
		v[i] = pb_text(b, name);
		(void)snprintf(args + n, sizeof(args) - n, "%s\"k%d\":%d", i ? "," : "", i, i);
	}
	t->volatile_paths = v;
	t->n_volatile = 65;
	pol = pb_done(b);
	assert_int_equal(try_facts(pol, &(struct asked){ .tool = "q", .args = "{\"k1\":1,\"k64\":1}" }, &f, &err), 0);
	(void)snprintf(args + strlen(args), sizeof(args) - strlen(args), "}");
	assert_int_equal(try_facts(pol, &(struct asked){ .tool = "q", .args = args }, &f, &err), PAWL_E_MALFORMED);
	pb_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_same_tool_only),
		cmocka_unit_test(test_exact_bytes),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_escaped_volatile),
		cmocka_unit_test(test_fold_space),
		cmocka_unit_test(test_too_many_volatile),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
