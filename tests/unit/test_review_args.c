/* tests/unit/test_review_args.c - the arguments that are held for people: what a card shows is what its own call asked for, or nothing. */
#include "daemon/review.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct str text_of(char *big, size_t n, char c)
{
	memset(big, c, n);
	return (struct str){ big, n };
}

/* A number is given again when the entry that had it failed. Nothing of the first call may be left under it, least of all when there is no room
 * for the second's. */
static void test_a_number_given_again(void **state)
{
	const size_t n = PAWL_MAX_VALUE, many = REVIEWS_MAX_BYTES / n;
	char *big = malloc(n);
	struct reviews *rv = NULL;
	struct pawl_error err;

	(void)state;
	assert_non_null(big);
	assert_int_equal(reviews_new(&rv, &err), 0);
	for (uint64_t card = 1; card < many; card++)
		assert_int_equal(reviews_args_put(rv, card, text_of(big, n, 'o'), &err), 0);
	assert_int_equal(reviews_args_put(rv, many, STR("{\"harmless\":1}"), &err), 0);
	assert_int_equal(reviews_args_put(rv, many + 1, text_of(big, n - 14, 'o'), &err), 0); /* full */
	assert_int_equal(reviews_args(rv, many + 1).n, n - 14);
	assert_int_equal(reviews_args_put(rv, many, text_of(big, n, 'h'), &err), 0);
	assert_int_equal(reviews_args(rv, many).n, 0);
	assert_int_equal(reviews_args_put(rv, many, STR("{\"x\":2}"), &err), 0); /* what was dropped is room again */
	assert_int_equal(reviews_args(rv, many).n, 7);
	assert_int_equal(reviews_args(rv, many - 1).n, n);
	assert_int_equal(reviews_args(rv, many + 1).n, n - 14);
	reviews_free(rv);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_number_given_again) };

	return cmocka_run_group_tests_name("review args", tests, NULL, NULL);
}
