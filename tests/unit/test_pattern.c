/* tests/unit/test_pattern.c - globs and regular expressions: what they match, and that no text makes them slow. */
#include "policy/condition.h"
#include "tests/support/fail_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const struct {
	const char *glob, *text;
	bool want;
} globs[] = {
	{ "a", "a", true },
	{ "a", "b", false },
	{ "a", "aa", false },
	{ "a", "", false },
	{ "*", "", true },
	{ "*", "x/y.z", true },
	{ "**", "", true },
	{ "***", "abc", true },
	{ "?", "", false },
	{ "?", "a", true },
	{ "?", "ab", false },
	{ "??", "ab", true },
	{ "a*", "a", true },
	{ "a*", "ab/c", true },
	{ "a*", "ba", false },
	{ "*a", "a", true },
	{ "*a", "bca", true },
	{ "*a", "ab", false },
	{ "a*b", "ab", true },
	{ "a*b", "axxb", true },
	{ "a*b", "a", false },
	{ "a*a", "a", false },
	{ "a*a", "aa", true },
	{ "*ab*", "xxabyy", true },
	{ "*ab*", "xaxb", false },
	{ "*a?c*", "zzabczz", true },
	{ "*a?c*", "zzaczz", false },
	{ "*a?c", "abcabd", false },
	{ "*a?c", "abdabc", true },
	{ "a?*", "a", false },
	{ "a?*", "ab", true },
	{ "?*?", "a", false },
	{ "?*?", "ab", true },
	{ "*?*", "", false },
	{ "*?*", "x", true },
	{ "*aab*aab", "aaab", false },
	{ "*aab*aab", "aaabaaab", true },
	{ "/srv/*/x", "/srv/a/b/x", true },
	{ "[ab]", "a", false },
	{ "[ab]", "[ab]", true },
	{ "\\*", "*", false },
	{ "\\*", "\\x", true },
	{ "*.txt", "a.txt.exe", false },
	{ "a\n*", "a\nb", true },
	{ "A*", "abc", false },
};

static void test_globs(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(globs); i++) {
		struct pattern p;

		assert_int_equal(pattern_compile(str_of(globs[i].glob), &p, NULL), 0);
		if (pattern_match(&p, str_of(globs[i].text)) != globs[i].want)
			fail_msg("%s on \"%s\"", globs[i].glob, globs[i].text);
	}
}

static bool slow_match(const char *g, const char *s)
{
	if (*g == '\0')
		return *s == '\0';
	if (*g == '*')
		return slow_match(g + 1, s) || (*s && slow_match(g, s + 1));
	return *s && (*g == '?' || *g == *s) && slow_match(g + 1, s + 1);
}

/* All globs of up to 6 of {a b * ?} on all texts of up to 6 of {a b}: against the definition. */
static void test_globs_exhaustive(void **state)
{
	(void)state;
	for (unsigned g = 1; g < 5461; g++) {
		char glob[8];
		size_t gn = 0;
		struct pattern p;

		for (unsigned v = g; v; v = (v - 1) / 4)
			glob[gn++] = "ab*?"[(v - 1) % 4];
		glob[gn] = '\0';
		assert_int_equal(pattern_compile(str_of(glob), &p, NULL), 0);
		for (unsigned t = 0; t < 127; t++) {
			char text[8];
			size_t n = 0;

			for (unsigned v = t; v; v = (v - 1) / 2)
				text[n++] = "ab"[(v - 1) % 2];
			text[n] = '\0';
			if (pattern_match(&p, (struct str){ text, n }) != slow_match(glob, text))
				fail_msg("%s on \"%s\"", glob, text);
		}
	}
}

static const struct {
	const char *id;
	const char *unit;
	size_t times;
	int want;
} compiles[] = {
	{ "empty", "", 1, PAWL_E_POLICY },
	{ "1024 bytes", "a", 1024, 0 },
	{ "1025 bytes", "a", 1025, PAWL_E_POLICY },
	{ "64 question marks in one run", "?", 64, 0 },
	{ "65 question marks in one run", "?", 65, PAWL_E_POLICY },
	{ "many runs", "?*", 500, 0 },
};

static void test_glob_bounds(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(compiles); i++) {
		char text[2048] = "";
		struct pattern p;
		size_t n = strlen(compiles[i].unit);

		for (size_t k = 0; k < compiles[i].times; k++)
			memcpy(text + k * n, compiles[i].unit, n);
		if (pattern_compile((struct str){ text, n * compiles[i].times }, &p, NULL) != compiles[i].want)
			fail_msg("%s", compiles[i].id);
	}
}

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A megabyte that almost matches, over and over. With backtracking each of these is minutes or years. */
static void test_glob_is_linear(void **state)
{
	static const char *const hard[] = { "*a*a*a*a*a*a*a*a*a*a*a*a*b",
					    "*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab*",
					    "*a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?b*", "*?*?*?*?*?*?*b",
					    "a*?a*?a*?a*?b*?a" };
	size_t n = 1 << 20;
	char *text = malloc(n);

	(void)state;
	assert_non_null(text);
	memset(text, 'a', n);
	for (size_t i = 0; i < PAWL_LEN(hard); i++) {
		double from = seconds();
		struct pattern p;

		assert_int_equal(pattern_compile(str_of(hard[i]), &p, NULL), 0);
		assert_false(pattern_match(&p, (struct str){ text, n }));
		if (seconds() - from > 1)
			fail_msg("%s: %.2f s for a megabyte", hard[i], seconds() - from);
	}
	free(text);
}

/* want: 1, 0; -1 = error or limit; -2 = does not compile */
static const struct {
	const char *regex, *text;
	int want;
} regexes[] = {
	{ "a", "xay", 1 },
	{ "^a$", "a", 1 },
	{ "^a$", "a\n", 0 },
	{ "(?m)^a$", "b\na", 1 },
	{ "^ls( -[la]+)?$", "ls -la", 1 },
	{ "^.$", "\xc3\xa9", 1 },
	{ "^..$", "\xc3\xa9", 0 },
	{ "(?i)drop table", "DROP TABLE x", 1 },
	{ "^$", "", 1 },
	{ "(a)(b)(c)\\3", "abcc", 1 },
	{ "a",
	  "\xff"
	  "a",
	  -1 },
	{ "a", "a\xc3", -1 },
	{ "(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", -1 },
	{ "(x+x+)+[yz]", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", -1 },
	{ "(", "", -2 },
	{ "", "", -2 },
	{ "\\C", "", -2 },
	{ "a{99999}", "", -2 },
	{ "\xff", "", -2 },
	{ "(?C1)a", "a", 1 },
	{ "((((((((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))))))))", "", -2 },
};

static void test_regexes(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(regexes); i++) {
		struct pawl_error err;
		struct regex *r = NULL;
		int got = regex_compile(str_of(regexes[i].regex), &r, &err);

		if (got < 0) {
			if (regexes[i].want != -2 || got != PAWL_E_POLICY || r)
				fail_msg("%s: %d %s", regexes[i].regex, got, err.msg);
			continue;
		}
		for (int again = 0; again < 2; again++) { /* what is kept between matches must not matter */
			got = regex_match(r, str_of(regexes[i].text));
			if ((got < 0 ? -1 : got) != regexes[i].want)
				fail_msg("%s on %s: %d", regexes[i].regex, regexes[i].text, got);
		}
		regex_free(r);
	}
	regex_free(NULL);
}

static void test_regex_is_bounded(void **state)
{
	static const struct {
		const char *regex;
		size_t n;
	} hard[] = { { "(a|aa|b*)*[cd]$", 1 << 20 }, { "(a+a+)+[bc]", 60 } };
	char text[1100];
	size_t n = 1 << 20;
	char *big = malloc(n);
	struct regex *r;
	double from;

	(void)state;
	assert_non_null(big);
	memset(text, 'a', sizeof(text));
	assert_int_equal(regex_compile((struct str){ text, 1025 }, &r, NULL), PAWL_E_POLICY);
	assert_int_equal(regex_compile((struct str){ text, 1024 }, &r, NULL), 0);
	regex_free(r);
	memset(big, 'a', n);
	for (size_t i = 0; i < PAWL_LEN(hard); i++) {
		assert_int_equal(regex_compile(str_of(hard[i].regex), &r, NULL), 0);
		from = seconds();
		assert_true(regex_match(r, (struct str){ big, hard[i].n }) < 0);
		if (seconds() - from > 0.1) /* the limits make it a few ms */
			fail_msg("%s: %.2f s until the limit", hard[i].regex, seconds() - from);
		regex_free(r);
	}
	free(big);
}

/* PCRE2's limit starts anew wherever a match could begin; the whole of it is bounded too, whatever the length. */
static void test_regex_is_bounded_in_all(void **unused)
{
	static const struct {
		const char *regex, *piece, *end;
	} cases[] = {
		{ "\\w+@\\w+[.]com", "a", "@.com m" },
		{ "rm .*-rf", "rm ", "f" },
		{ "\\s+$", " ", "x" },
		{ "(a|b)+c", "ab", "d" },
	};
	enum { N = 300000 };
	char *text = malloc(N + 16);

	(void)unused;
	assert_non_null(text);
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		size_t n = strlen(cases[i].piece), at = 0;
		struct regex *r = NULL;

		for (; at + n <= N; at += n)
			memcpy(text + at, cases[i].piece, n);
		memcpy(text + at, cases[i].end, strlen(cases[i].end));
		assert_int_equal(regex_compile(str_of(cases[i].regex), &r, NULL), 0);
		assert_true(regex_match(r, (struct str){ text, at + strlen(cases[i].end) }) <= 0); /* 0: PCRE2 saw it at once */
		assert_int_equal(regex_match(r, STR("a@b.com rm -rf \t c ac")) < 0, 0); /* and is whole again for the next text */
		regex_free(r);
	}
	free(text);
}

static void test_regex_no_memory(void **state)
{
	bool failed = true;

	(void)state;
	for (long n = 1; failed; n++) {
		struct regex *r = NULL;
		struct pawl_error err;
		int rc;

		assert_true(n < 100);
		fail_malloc_after(n);
		rc = regex_compile(STR("(a|b)+\\d{3}(?<name>x)"), &r, &err);
		failed = fail_malloc_stop();
		assert_int_equal(rc, failed ? PAWL_E_NOMEM : 0);
		assert_int_equal(r != NULL, !failed);
		if (r) { /* and a match that cannot grow is an error, not a no */
			fail_malloc_after(1);
			rc = regex_match(r, STR("ab123x"));
			assert_true(fail_malloc_stop() ? rc < 0 : rc == 1);
		}
		regex_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_globs),           cmocka_unit_test(test_globs_exhaustive),
		cmocka_unit_test(test_glob_bounds),     cmocka_unit_test(test_glob_is_linear),
		cmocka_unit_test(test_regexes),         cmocka_unit_test(test_regex_is_bounded), cmocka_unit_test(test_regex_is_bounded_in_all),
		cmocka_unit_test(test_regex_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
