/* tests/unit/test_near.c - distances behind "did you mean". */
#include "daemon/base/near.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct {
	const char *a, *b;
	size_t want;
} rows[] = {
	{ "", "", 0 },
	{ "log", "log", 0 },
	{ "lgo", "log", 1 }, /* a swap is one edit */
	{ "alow", "allow", 1 },
	{ "inti", "init", 1 },
	{ "ini", "init", 1 },
	{ "initt", "init", 1 },
	{ "pol", "policy", 3 },
	{ "abc", "", 3 },
	{ "abcdef", "ghijkl", 6 },
	{ "budgets", "bugdet", 2 },
	{ "12345678901234567890123456789012", "12345678901234567890123456789012", 0 },
	{ "123456789012345678901234567890123", "123456789012345678901234567890123", NEAR_MAX },
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		size_t there = near_edits(str_of(rows[i].a), str_of(rows[i].b)), back = near_edits(str_of(rows[i].b), str_of(rows[i].a));

		if (there != rows[i].want || back != rows[i].want)
			fail_msg("\"%s\" \"%s\": %zu and %zu, not %zu", rows[i].a, rows[i].b, there, back, rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
