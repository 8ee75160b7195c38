/* tests/unit/test_money.c - decimal text and spans, there and back; what is not a number is refused with its text. */
#include "policy/money.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define BAD INT64_MIN
#define MAX INT64_MAX

static const struct {
	const char *id, *text;
	int64_t exact, up;
	const char *say;
} amounts[] = {
	{ "zero", "0", 0, 0, NULL },
	{ "leading zeros", "0005", 5000000000, 5000000000, NULL },
	{ "one nano", "0.000000001", 1, 1, NULL },
	{ "ten decimals, the last 0", "0.0000000010", BAD, 1, "more than 9 decimals: \"0.0000000010\"" },
	{ "rounds up", "0.0000000011", BAD, 2, NULL },
	{ "rounds up from nothing", "0.00000000000000000000000000001", BAD, 1, NULL },
	{ "the largest", "9223372036.854775807", MAX, MAX, NULL },
	{ "one more", "9223372036.854775808", BAD, BAD,
	  "an amount above 9223372036.854775807: \"9223372036.854775808\"" },
	{ "rounds over the largest", "9223372036.8547758070001", BAD, BAD, NULL },
	{ "huge", "99999999999999999999999999999999999999999999999999999999999", BAD, BAD,
	  "an amount above 9223372036.854775807: \"999999999999999999999999999999999999999999999999...\"" },
	{ "huge and a fraction", "99999999999999999999.5", BAD, BAD, NULL },
	{ "B07 NaN", "NaN", BAD, BAD, "not a decimal number: \"NaN\"" },
	{ "B07 nan", "nan", BAD, BAD, NULL },
	{ "B07 .nan", ".nan", BAD, BAD, NULL },
	{ "B07 .inf", ".inf", BAD, BAD, NULL },
	{ "B07 inf", "inf", BAD, BAD, NULL },
	{ "B07 negative", "-1", BAD, BAD, "not a decimal number: \"-1\"" },
	{ "B07 1e309", "1e309", BAD, BAD, "not a decimal number: \"1e309\"" },
	{ "1e400", "1e400", BAD, BAD, "not a decimal number: \"1e400\"" },
	{ "sign", "+1", BAD, BAD, NULL },
	{ "hexadecimal", "0x10", BAD, BAD, NULL },
	{ "empty", "", BAD, BAD, "not a decimal number: \"\"" },
	{ "blank in front", " 1", BAD, BAD, NULL },
	{ "blank behind", "1 ", BAD, BAD, NULL },
	{ "newline", "1\n", BAD, BAD, "not a decimal number: \"1\\x0a\"" },
	{ "comma", "1,5", BAD, BAD, NULL },
	{ "no digit before", ".5", BAD, BAD, NULL },
	{ "no digit behind", "5.", BAD, BAD, NULL },
	{ "two points", "1.2.3", BAD, BAD, NULL },
	{ "Arabic digits", "\xd9\xa1", BAD, BAD, "not a decimal number: \"\\xd9\\xa1\"" },
	{ "quote", "1\"", BAD, BAD, "not a decimal number: \"1\\\"\"" },
};

static void check(const char *id, int r, int64_t got, int64_t want, const struct pawl_error *err, const char *say)
{
	if (want != BAD ? r != 0 || got != want : r != PAWL_E_MALFORMED || got != 42)
		fail_msg("%s: %d, %lld, %s", id, r, (long long)got, err->msg);
	if (want == BAD && say && strcmp(err->msg, say) != 0)
		fail_msg("%s: says %s", id, err->msg);
}

static void test_money(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(amounts); i++) {
		int64_t exact = 42, up = 42;
		struct pawl_error err = { .code = PAWL_OK };
		int r = money_parse(str_of(amounts[i].text), MONEY_EXACT, &exact, &err);

		check(amounts[i].id, r, exact, amounts[i].exact, &err, amounts[i].say);
		r = money_parse(str_of(amounts[i].text), MONEY_UP, &up, &err);
		check(amounts[i].id, r, up, amounts[i].up, &err,
		      amounts[i].exact == amounts[i].up ? amounts[i].say : NULL);
	}
	assert_int_equal(money_parse((struct str){ "1\0", 2 }, MONEY_UP, &(int64_t){ 0 }, NULL), PAWL_E_MALFORMED);
}

static const struct {
	int64_t nano;
	const char *text;
} texts[] = {
	{ 0, "0" },
	{ 5000000000, "5" },
	{ 2000000, "0.002" },
	{ -100000000, "-0.1" },
	{ 1, "0.000000001" },
	{ 1000000000000, "1000" },
	{ 4999000000, "4.999" },
	{ INT64_MAX, "9223372036.854775807" },
	{ INT64_MIN, "-9223372036.854775808" },
	{ -5000000000, "-5" },
};

static void test_money_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(texts); i++) {
		char t[MONEY_TEXT];
		int64_t back;

		assert_int_equal(money_text(texts[i].nano, t), strlen(texts[i].text));
		assert_string_equal(t, texts[i].text);
		if (texts[i].nano < 0)
			continue;
		assert_int_equal(money_parse(str_of(t), MONEY_EXACT, &back, NULL), 0);
		assert_int_equal(back, texts[i].nano);
	}
}

/* B09: ten charges of 0.1 are exactly 1. */
static void test_b09_sum(void **state)
{
	int64_t one, sum = 0;
	char t[MONEY_TEXT];

	(void)state;
	assert_int_equal(money_parse(STR("0.1"), MONEY_UP, &one, NULL), 0);
	for (int i = 0; i < 10; i++)
		sum += one;
	(void)money_text(sum, t);
	assert_string_equal(t, "1");
}

/* B11: 3 tokens at 0.15 a million cost 0.00000045; a million such calls cost exactly 0.45, however they are summed. */
static void test_b11_prices(void **state)
{
	int64_t call, sum = 0;
	char t[MONEY_TEXT];

	(void)state;
	assert_int_equal(money_parse(STR("0.00000045"), MONEY_UP, &call, NULL), 0);
	for (int i = 0; i < 1000000; i++)
		sum += call;
	(void)money_text(sum, t);
	assert_string_equal(t, "0.45");
	assert_int_equal(money_parse(STR("0.00000000015"), MONEY_UP, &call, NULL),
			 0); /* one token: up to a nano-unit, never to 0 */
	assert_int_equal(call, 1);
}

#define SEC NS_PER_SEC
static const struct {
	const char *text;
	int64_t ns;
	const char *back;
} spans[] = {
	{ "30s", 30 * SEC, "30s" },
	{ "250ms", 250000000, "250ms" },
	{ "5m", 300 * SEC, "5m" },
	{ "1h", 3600 * SEC, "1h" },
	{ "7d", 604800 * SEC, "1w" },
	{ "1w", 604800 * SEC, "1w" },
	{ "1.5h", 5400 * SEC, "90m" },
	{ "0s", 0, "0s" },
	{ "0ms", 0, "0s" },
	{ "0.000001ms", 1, "0.000000001s" },
	{ "1.000000001s", SEC + 1, "1.000000001s" },
	{ "90s", 90 * SEC, "90s" },
	{ "1.50000000000000000000s", 1500000000, "1500ms" },
	{ "15250w", INT64_C(15250) * 604800 * SEC, "15250w" },
	{ "0.0000001ms", BAD, NULL },
	{ "0.00000010000005ms", BAD, NULL },
	{ "0.00000000005s", BAD, NULL },
	{ "15251w", BAD, NULL },
	{ "99999999999999999999s", BAD, NULL },
	{ "s", BAD, NULL },
	{ "", BAD, NULL },
	{ "5", BAD, NULL },
	{ "5 s", BAD, NULL },
	{ "5S", BAD, NULL },
	{ "-5s", BAD, NULL },
	{ "1.s", BAD, NULL },
	{ ".5s", BAD, NULL },
	{ "1h30m", BAD, NULL },
	{ "5us", BAD, NULL },
	{ "1e3s", BAD, NULL },
	{ "0.000000000001w", BAD, NULL },
	{ "0.00000000001w", 6048, "0.000006048s" },
	{ "5sm", BAD, NULL },
	{ "nan", BAD, NULL },
};

static void test_spans(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(spans); i++) {
		char t[MONEY_TEXT];
		struct pawl_error err = { .code = PAWL_OK };
		int64_t ns = 42;
		int r = span_parse(str_of(spans[i].text), &ns, &err);

		check(spans[i].text, r, ns, spans[i].ns, &err, NULL);
		if (!spans[i].back)
			continue;
		assert_int_equal(span_text(ns, t), strlen(spans[i].back));
		assert_string_equal(t, spans[i].back);
	}
	(void)span_text(INT64_MAX, (char[MONEY_TEXT]){ 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_money),      cmocka_unit_test(test_money_text), cmocka_unit_test(test_b09_sum),
		cmocka_unit_test(test_b11_prices), cmocka_unit_test(test_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
