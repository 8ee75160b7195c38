/* tests/unit/test_name.c - folding of tool names, aliases, and the index of rules by name. */
#include "tests/support/fail_malloc.h"
#include "tests/support/policy_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>

#define X16  "aaaaaaaaaaaaaaaa"
#define X128 X16 X16 X16 X16 X16 X16 X16 X16

static const struct {
	const char *id, *raw, *want;
} folds[] = {
	{ "plain", "web.search", "web.search" },
	{ "D02 mixed case", "Web_Search", "web_search" },
	{ "D02 upper case", "WEB_SEARCH", "web_search" },
	{ "all of the set", "abcxyz0189_.:/-", "abcxyz0189_.:/-" },
	{ "words of YAML stay text (P07)", "NO", "no" },
	{ "128 bytes", X128, X128 },
	{ "129 bytes", X128 "a", NULL },
	{ "empty", "", NULL },
	{ "D04 Cyrillic e",
	  "web_s\xd0\xb5"
	  "arch",
	  NULL },
	{ "D04 zero-width space", "web\xe2\x80\x8bsearch", NULL },
	{ "D04 full-width letters", "\xef\xbd\x97\xef\xbd\x85\xef\xbd\x82", NULL },
	{ "D04 right-to-left mark", "web\xe2\x80\x8fsearch", NULL },
	{ "D04 dotless i", "l\xc4\xb1st", NULL },
	{ "D04 Kelvin sign folds to k elsewhere",
	  "\xe2\x84\xaa"
	  "ill",
	  NULL },
	{ "blank", "web search", NULL },
	{ "blank in front", " web", NULL },
	{ "tab", "web\t", NULL },
	{ "newline (U14)", "web\nallow", NULL },
	{ "star", "web*", NULL },
	{ "comma", "a,b", NULL },
	{ "backslash", "a\\b", NULL },
	{ "at sign lies before A", "@", NULL },
	{ "bracket lies after Z", "[", NULL },
	{ "brace lies after z", "{", NULL },
	{ "DEL", "\x7f", NULL },
};

static void test_folds(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(folds); i++) {
		char out[PAWL_MAX_TOOL + 1] = "untouched";
		struct pawl_error err = { 0 };
		int r = tool_name_fold(str_of(folds[i].raw), out, &err);

		if (folds[i].want) {
			if (r != 0 || strcmp(out, folds[i].want) != 0)
				fail_msg("%s: %d \"%s\"", folds[i].id, r, out);
		} else if (r != PAWL_E_MALFORMED || strcmp(err.field, "tool") != 0 || strcmp(out, "untouched") != 0) {
			fail_msg("%s: %d, field \"%s\", out \"%s\"", folds[i].id, r, err.field, out);
		}
	}
}

static void test_every_byte(void **state)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-";

	(void)state;
	for (unsigned c = 0; c < 256; c++) { /* 0 too: U14, a NUL in a name */
		char raw[3] = { 'a', (char)c, 'b' }, out[PAWL_MAX_TOOL + 1];
		bool good = c && strchr(set, (int)c);

		if ((tool_name_fold((struct str){ raw, 3 }, out, NULL) == 0) != good)
			fail_msg("byte 0x%02x", c);
	}
}

/* ---- aliases and the index ---- */

struct ids {
	char text[4096];
};

static void add_id(void *arg, uint32_t rule)
{
	struct ids *got = arg;
	size_t n = strlen(got->text);

	(void)snprintf(got->text + n, sizeof(got->text) - n, "%s%u", n ? " " : "", rule);
}

static const struct {
	const char *id, *name, *canonical, *rules;
	uint32_t budgets;
} asks[] = {
	{ "canonical name", "web.search", "web.search", "0 1 2 3 6", 3 },
	{ "D01 alias is the tool", "bing_search", "web.search", "0 1 2 3 6", 3 },
	{ "D01 another alias", "search_web", "web.search", "0 1 2 3 6", 3 },
	{ "D01 undeclared synonym is only itself", "websearch", "websearch", "0 2 6", 1 },
	{ "unlisted tool with a rule of its own", "fs.read", "fs.read", "0 5 6", 1 },
	{ "glob with a tail", "fs.read.all", "fs.read.all", "0 5 6", 1 },
	{ "prefix only", "fs.rea", "fs.rea", "0 6", 1 },
	{ "question mark", "db1", "db1", "0 6 8", 1 },
	{ "question mark wants one", "db12", "db12", "0 6", 1 },
	{ "alias-only glob does not reach an allow rule", "shell", "shell", "0 6 7", 1 },
};

static struct pb *index_policy(void)
{
	struct pb *b = pb_new();

	(void)pb_tool(b, "web.search", "bing_search|search_web");
	(void)pb_tool(b, "shell", "bash|web");
	(void)pb_rule(b, VERDICT_ALLOW, "*", NULL, NULL);                    /* 0 */
	(void)pb_rule(b, VERDICT_DENY, "web.search", NULL, NULL);            /* 1 */
	(void)pb_rule(b, VERDICT_ALLOW, "web.*|web.search|w*h", NULL, NULL); /* 2: three ways, named once */
	(void)pb_rule(b, VERDICT_REVIEW, "bing*|search_*", NULL, NULL);      /* 3: by alias alone */
	(void)pb_rule(b, VERDICT_ALLOW, "bing*|bash", NULL, NULL);           /* 4: allow does not look at aliases */
	(void)pb_rule(b, VERDICT_DENY, "fs.read*", NULL, NULL);              /* 5 */
	(void)pb_rule(b, VERDICT_DENY, "*", NULL, NULL);                     /* 6 */
	(void)pb_rule(b, VERDICT_DENY, "ba?h", NULL, NULL);                  /* 7: alias of shell */
	(void)pb_rule(b, VERDICT_DENY, "db?|d*1|db1|*1", NULL, NULL);        /* 8: four ways, named once */
	pb_entry(b, "*", 0, INDEX_BUDGET, false);
	pb_entry(b, "web.*", 1, INDEX_BUDGET, false);
	pb_entry(b, "bing*", 2, INDEX_BUDGET, false); /* budgets do not look at aliases */
	return b;
}

static void check_asks(const struct policy *pol)
{
	for (size_t i = 0; i < PAWL_LEN(asks); i++) {
		const struct tool *def;
		struct str canonical = tool_canonical(pol, str_of(asks[i].name), &def);
		struct ids got = { "" };
		uint32_t budgets = name_index_find(pol->index, canonical, def, add_id, &got).budgets;

		if (!str_is(canonical, asks[i].canonical) || strcmp(got.text, asks[i].rules) != 0 ||
		    budgets != asks[i].budgets)
			fail_msg("%s: %.*s: rules %s, budgets %x", asks[i].id, STR_ARG(canonical), got.text, budgets);
	}
}

static void test_index(void **state)
{
	struct pb *b = index_policy();

	(void)state;
	check_asks(pb_done(b));
	pb_free(b);
}

/* The index against the plain question asked of every row. */
static void test_index_is_the_scan(void **state)
{
	static const char *const parts[] = { "a", "b", "a.", "ab", "*", "?", "a*", "" };
	struct pb *b = pb_new();
	const struct policy *pol;

	(void)state;
	(void)pb_tool(b, "ab", "a.b|b.a.a");
	(void)pb_tool(b, "a", "bbb");
	for (size_t i = 0; i < 512; i++) {
		char glob[32];

		(void)snprintf(glob, sizeof(glob), "%s%s%s", parts[i % 8], parts[i / 8 % 8], parts[i / 64]);
		if (glob[0])
			(void)pb_rule(b, i % 3 ? VERDICT_DENY : VERDICT_ALLOW, glob, NULL, NULL);
	}
	pol = pb_done(b);
	for (size_t i = 1; i < 4096; i++) {
		static const char *const names[] = { "", "a", "b", "." };
		char name[16], want[4096] = "";
		const struct tool *def;
		struct str canonical;
		struct ids ids = { "" };

		(void)snprintf(name, sizeof(name), "%s%s%s%s%s%s", names[i % 4], names[i / 4 % 4], names[i / 16 % 4],
			       names[i / 64 % 4], names[i / 256 % 4], names[i / 1024 % 4]);
		if (!name[0])
			continue;
		canonical = tool_canonical(pol, str_of(name), &def);
		for (size_t e = 0, n = 0; e < b->n_entries; e++) {
			bool hit = pattern_match(&b->entries[e].pattern, canonical);

			for (size_t a = 0; a < b->n_aliases; a++)
				if (def == &pol->tools[b->aliases[a].tool] && b->entries[e].aliases_too)
					hit |= pattern_match(&b->entries[e].pattern, b->aliases[a].alias);
			if (hit)
				n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%u", n ? " " : "",
						      b->entries[e].target);
		}
		(void)name_index_find(pol->index, canonical, def, add_id, &ids);
		if (strcmp(ids.text, want) != 0)
			fail_msg("%s (%.*s): %s, not %s", name, STR_ARG(canonical), ids.text, want);
	}
	pb_free(b);
}

static void test_two_tools_one_name(void **state)
{
	struct pb *b = pb_new();
	struct pawl_error err;

	(void)state;
	(void)pb_tool(b, "a", "x");
	(void)pb_tool(b, "b", "x");
	assert_int_equal(name_index_new(&b->pol, NULL, 0, &b->pol.index, &err), 0);
	assert_int_equal(name_index_aliases(b->pol.index, b->aliases, b->n_aliases, &err), PAWL_E_POLICY);
	pb_free(b);
}

/* The index is built with the n-th allocation failing, for every n: an error and nothing leaked, and then it works. */
static void test_no_memory(void **state)
{
	struct pb *b = index_policy();
	bool failed = true;

	(void)state;
	for (long n = 1; failed; n++) {
		struct name_index *ix = NULL;
		struct pawl_error err;
		int r;

		assert_true(n < 1000);
		fail_malloc_after(n);
		r = name_index_new(&b->pol, b->entries, b->n_entries, &ix, &err);
		if (r == 0)
			r = name_index_aliases(ix, b->aliases, b->n_aliases, &err);
		failed = fail_malloc_stop();
		/* qsort() may ask for memory too and does without */
		if (r != 0 && (r != PAWL_E_NOMEM || !failed))
			fail_msg("allocation %ld: %d", n, r);
		if (r == 0) {
			b->pol.index = ix;
			check_asks(&b->pol);
			b->pol.index = NULL;
		}
		name_index_free(ix);
	}
	pb_free(b);
}

/* A file of a megabyte can name tools and rules that all match one another: refused, not gigabytes. */
static void test_too_many_pairs(void **state)
{
	size_t n = 2100;
	struct tool *tools = calloc(n, sizeof(*tools));
	struct index_entry *rows = calloc(n, sizeof(*rows));
	char(*names)[16] = calloc(n, sizeof(*names));
	struct policy pol = { .tools = tools, .n_tools = n };
	struct name_index *ix = NULL;
	struct pawl_error err;

	(void)state;
	assert_true(tools && rows && names);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "t%zu", i);
		tools[i].name = str_of(names[i]);
		assert_int_equal(pattern_compile(STR("*"), &rows[i].pattern, &err), 0);
		rows[i].target = (uint32_t)i;
	}
	assert_int_equal(name_index_new(&pol, rows, n, &ix, &err), PAWL_E_LIMIT);
	assert_null(ix);
	free(tools);
	free(rows);
	free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folds),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_index_is_the_scan),
		cmocka_unit_test(test_two_tools_one_name),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_too_many_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
