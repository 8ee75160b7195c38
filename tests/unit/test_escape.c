/* tests/unit/test_escape.c - A16: what agents wrote reaches a terminal as letters or as escapes, never as a command to
 * it. */
#include "daemon/cli/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define U ESCAPE_UTF8
#define A ESCAPE_ASCII

static const struct {
	const char *name;
	struct str in;
	enum escape_mode mode;
	char quote;
	const char *out;
	struct escape_seen seen; /* control, hidden, rare, invalid */
} rows[] = {
	{ "plain", STR("rm -rf ~/tmp"), U, 0, "rm -rf ~/tmp", { 0 } },
	{ "empty", STR(""), U, '"', "\"\"", { 0 } },
	{ "A16 clear the screen", STR("\x1b[2J\x1b[H"), U, 0, "\\u{1b}[2J\\u{1b}[H", { 2, 0, 0, 0 } },
	{ "A16 a title that types", STR("\x1b]0;x\x07"), U, 0, "\\u{1b}]0;x\\u{7}", { 2, 0, 0, 0 } },
	{ "A16 right to left",
	  STR("fdp.\xe2\x80\xae"
	      "exe"),
	  U,
	  0,
	  "fdp.\\u{202e}exe",
	  { 0, 1, 0, 0 } },
	{ "A16 isolates", STR("\xe2\x81\xa6x\xe2\x81\xa9"), U, 0, "\\u{2066}x\\u{2069}", { 0, 2, 0, 0 } },
	{ "A16 zero width",
	  STR("a\xe2\x80\x8b"
	      "b\xef\xbb\xbf"),
	  U,
	  0,
	  "a\\u{200b}b\\u{feff}",
	  { 0, 2, 0, 0 } },
	{ "soft hyphen, blank, joiner",
	  STR("\xc2\xad\xc2\xa0\xe2\x80\x8d"),
	  U,
	  0,
	  "\\u{ad}\\u{a0}\\u{200d}",
	  { 0, 3, 0, 0 } },
	{ "C1: CSI as a character",
	  STR("\xc2\x9b"
	      "31m"),
	  U,
	  0,
	  "\\u{9b}31m",
	  { 1, 0, 0, 0 } },
	{ "C1: next line",
	  STR("a\xc2\x85"
	      "b"),
	  U,
	  0,
	  "a\\u{85}b",
	  { 1, 0, 0, 0 } },
	{ "C1: a bare byte is no UTF-8",
	  STR("\x9b"
	      "31m"),
	  U,
	  0,
	  "\\x{9b}31m",
	  { 0, 0, 0, 1 } },
	{ "line ends", STR("a\nb\r\tc\x0b\x0c"), U, 0, "a\\u{a}b\\u{d}\\u{9}c\\u{b}\\u{c}", { 5, 0, 0, 0 } },
	{ "line and paragraph separator", STR("\xe2\x80\xa8\xe2\x80\xa9"), U, 0, "\\u{2028}\\u{2029}", { 0, 2, 0, 0 } },
	{ "NUL and DEL", { "a\0\x7f", 3 }, U, 0, "a\\u{0}\\u{7f}", { 2, 0, 0, 0 } },
	{ "backspaces", STR("safe\b\b\b\bevil"), U, 0, "safe\\u{8}\\u{8}\\u{8}\\u{8}evil", { 4, 0, 0, 0 } },
	{ "a forged escape", STR("\\u{202e}"), U, 0, "\\\\u{202e}", { 0 } },
	{ "quotes end nothing", STR("a\" b"), U, '"', "\"a\\\" b\"", { 0 } },
	{ "quote 0 leaves them", STR("a\" b"), U, 0, "a\" b", { 0 } },
	{ "look-alike: Cyrillic", STR("p\xd0\xb0yp\xd0\xb0l"), U, 0, "p\\u{430}yp\\u{430}l", { 0, 0, 2, 0 } },
	{ "look-alike: Greek", STR("\xce\x91\xce\xbf"), U, 0, "\\u{391}\\u{3bf}", { 0, 0, 2, 0 } },
	{ "look-alike: full width", STR("\xef\xbc\x8f\xef\xbd\x81"), U, 0, "\\u{ff0f}\\u{ff41}", { 0, 0, 2, 0 } },
	{ "look-alike: dotless i, long s", STR("\xc4\xb1\xc5\xbf"), U, 0, "\\u{131}\\u{17f}", { 0, 0, 2, 0 } },
	{ "look-alike: division slash",
	  STR("a\xe2\x88\x95"
	      "b"),
	  U,
	  0,
	  "a\\u{2215}b",
	  { 0, 0, 1, 0 } },
	{ "look-alike: hyphens, curly quotes",
	  STR("\xe2\x80\x90\xe2\x80\x9d"),
	  U,
	  0,
	  "\\u{2010}\\u{201d}",
	  { 0, 0, 2, 0 } },
	{ "look-alike: Han one, no-stroke",
	  STR("\xe4\xb8\x80\xe3\x83\x8e"),
	  U,
	  0,
	  "\\u{4e00}\\u{30ce}",
	  { 0, 0, 2, 0 } },
	{ "look-alike: mathematical a", STR("\xf0\x9d\x90\x9a"), U, 0, "\\u{1d41a}", { 0, 0, 1, 0 } },
	{ "emoji are rare", STR("\xf0\x9f\x98\x80"), U, 0, "\\u{1f600}", { 0, 0, 1, 0 } },
	{ "combining marks", STR("a\xcc\x81"), U, 0, "a\\u{301}", { 0, 1, 0, 0 } },
	{ "tags", STR("\xf3\xa0\x81\xa1"), U, 0, "\\u{e0061}", { 0, 1, 0, 0 } },
	{ "variation selector, filler", STR("\xef\xb8\x8f\xe3\x85\xa4"), U, 0, "\\u{fe0f}\\u{3164}", { 0, 2, 0, 0 } },
	{ "private use", STR("\xee\x80\x80"), U, 0, "\\u{e000}", { 0, 0, 1, 0 } },
	{ "letters of languages stay",
	  STR("Gr\xc3\xbc\xc3\x9f"
	      "e \xc5\x82 \xe6\x97\xa5\xe6\x9c\xac \xed\x95\x9c \xe2\x82\xac"),
	  U,
	  0,
	  "Gr\xc3\xbc\xc3\x9f"
	  "e \xc5\x82 \xe6\x97\xa5\xe6\x9c\xac \xed\x95\x9c \xe2\x82\xac",
	  { 0 } },
	{ "not on a terminal without UTF-8",
	  STR("Gr\xc3\xbc\xc3\x9f"
	      "e"),
	  A,
	  0,
	  "Gr\\u{fc}\\u{df}e",
	  { 0 } },
	{ "there the second byte would be CSI",
	  STR("\xc3\x9b"
	      "2J"),
	  A,
	  0,
	  "\\u{db}2J",
	  { 0 } },
	{ "invalid: overlong slash", STR("\xc0\xaf"), U, 0, "\\x{c0}\\x{af}", { 0, 0, 0, 2 } },
	{ "invalid: overlong ESC", STR("\xe0\x80\x9b"), U, 0, "\\x{e0}\\x{80}\\x{9b}", { 0, 0, 0, 3 } },
	{ "invalid: surrogate", STR("\xed\xa0\x80"), U, 0, "\\x{ed}\\x{a0}\\x{80}", { 0, 0, 0, 3 } },
	{ "invalid: above Unicode", STR("\xf4\x90\x80\x80"), U, 0, "\\x{f4}\\x{90}\\x{80}\\x{80}", { 0, 0, 0, 4 } },
	{ "invalid: cut at the end", STR("a\xe2\x80"), U, 0, "a\\x{e2}\\x{80}", { 0, 0, 0, 2 } },
	{ "invalid: hides no ESC", STR("\xe2\x1b[2J"), U, 0, "\\x{e2}\\u{1b}[2J", { 1, 0, 0, 1 } },
	{ "invalid: ff", STR("\xff\xfe"), U, 0, "\\x{ff}\\x{fe}", { 0, 0, 0, 2 } },
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct buf out = BUF_MAX(4096);
		struct escape_seen seen = { 0 };

		escape_text(&out, rows[i].in, rows[i].mode, rows[i].quote, &seen);
		if (!buf_ok(&out) || !str_is(buf_str(&out), rows[i].out))
			fail_msg("%s: got %.*s, expected %s", rows[i].name, STR_ARG(buf_str(&out)), rows[i].out);
		if (memcmp(&seen, &rows[i].seen, sizeof(seen)) != 0)
			fail_msg("%s: counted %zu %zu %zu %zu", rows[i].name, seen.control, seen.hidden, seen.rare,
				 seen.invalid);
		buf_done(&out);
	}
}

/* Whatever goes in: only printable ASCII comes out in one mode, and valid UTF-8 without C0, DEL and C1 in the other. */
static void test_any_bytes(void **state)
{
	uint64_t seed = 88172645463325252u;
	char in[64];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		enum escape_mode mode = round % 2 ? U : A;
		struct buf out = BUF_MAX(4096);

		for (size_t i = 0; i < sizeof(in); i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			in[i] = (char)(i && seed % 3 == 0 ? in[i - 1] + 1 : (char)(seed >> 32));
		}
		escape_text(&out, (struct str){ in, sizeof(in) }, mode, '"', NULL);
		assert_true(buf_ok(&out) && utf8_valid(buf_str(&out)));
		for (size_t i = 0; i < out.n; i++) {
			unsigned char c = (unsigned char)out.p[i];

			assert_true(c >= 0x20 && c != 0x7f && (mode == U || c < 0x7f));
			assert_false(c == 0xc2 && (unsigned char)out.p[i + 1] < 0xa0);
		}
		buf_done(&out);
	}
}

static void test_cut(void **state)
{
	enum { BIG = 100 * 1024 };
	char *big = malloc(BIG);
	struct buf out = BUF_MAX(8192);
	struct escape_seen seen = { 0 };

	(void)state;
	assert_non_null(big);
	memset(big, 'a', BIG);
	memcpy(big + BIG - 9, "\x1b[2J evil", 9);
	assert_true(escape_cut(&out, (struct str){ big, BIG }, 480, U, &seen));
	buf_putc(&out, '\0');
	assert_true(buf_ok(&out) && out.n < 700);
	assert_non_null(strstr(out.p, "102400 bytes"));
	/* the end is shown, since a cut hides the end first; SHA-256 of the whole, as sha256sum prints it */
	assert_non_null(strstr(out.p, "\\u{1b}[2J evil\" (cut: 102400 bytes, SHA-256 "
				      "64d4f7b866d120eb36d6e48c1c9301ca6c524d42337ffe7b8111e8a97a36bb23)"));
	assert_int_equal(seen.control, 1);
	buf_done(&out);

	/* exactly at the bound nothing is cut; one more byte is; a cut never splits a character */
	out = BUF_MAX(8192);
	assert_false(escape_cut(&out, STR("12345678"), 8, U, &seen));
	assert_true(str_is(buf_str(&out), "\"12345678\""));
	buf_reset(&out);
	assert_true(escape_cut(&out, STR("123456789"), 8, U, &seen));
	assert_memory_equal(out.p, "\"123456\" ... \"89\" (cut: 9 bytes, ", 33);
	buf_reset(&out);
	assert_true(escape_cut(&out,
			       STR("12345\xe6\x97\xa5"
				   "678\xe6\x97\xa5"
				   "9"),
			       8, U, &seen));
	assert_int_equal(seen.invalid, 0);
	assert_memory_equal(out.p, "\"12345\" ... \"9\" (cut: 15 bytes, ", 32);
	buf_done(&out);
	free(big);
}

static const struct {
	struct str in;
	const char *out;
} json_rows[] = {
	{ STR("{\"a\":\"x\"}"), "{\"a\":\"x\"}" },
	{ STR("{\"a\":\"\xe2\x80\xae\x7f\"}"), "{\"a\":\"\\u202e\\u007f\"}" },
	{ STR("[\"\xc2\x9b\",\"\xf0\x9d\x84\x9e\"]"), "[\"\\u009b\",\"\\ud834\\udd1e\"]" },
	{ STR("{\n\t\"a\":1}\r"), "{  \"a\":1} " },
};

static void test_json(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(json_rows); i++) {
		struct buf out = BUF_MAX(512);

		escape_json(&out, json_rows[i].in);
		if (!str_is(buf_str(&out), json_rows[i].out))
			fail_msg("row %zu: %.*s", i, STR_ARG(buf_str(&out)));
		buf_done(&out);
	}
}

static void test_mode(void **state)
{
	static const struct {
		const char *locale;
		enum escape_mode mode;
	} modes[] = { { "C.UTF-8", U }, { "de_DE.utf8", U }, { "en_US.UTF-8@x", U },
		      { "C", A },       { "POSIX", A },      { "de_DE.ISO-8859-1", A },
		      { "", A },        { NULL, A } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(modes); i++)
		if (escape_mode_of(modes[i].locale) != modes[i].mode)
			fail_msg("%s", modes[i].locale);
}

static void test_summary(void **state)
{
	struct buf out = BUF_MAX(512);

	(void)state;
	assert_false(escape_any(&(struct escape_seen){ 0 }));
	escape_summary(&(struct escape_seen){ 2, 1, 0, 3 }, &out);
	assert_true(str_is(buf_str(&out), "2 control, 1 hidden or turning, 3 not UTF-8"));
	buf_done(&out);
}

static void test_piece(void **state)
{
	static const struct {
		struct str s;
		size_t bytes, columns;
	} pieces[] = { { STR("ab"), 1, 1 },    { STR("\\u{202e}x"), 8, 8 },    { STR("\\x{9b}x"), 6, 6 },
		       { STR("\\\\x"), 2, 2 }, { STR("\xe6\x97\xa5x"), 3, 2 }, { STR("\xc3\xbcx"), 2, 1 },
		       { STR("\\"), 1, 1 } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(pieces); i++) {
		size_t columns = 0, bytes = escape_piece(pieces[i].s, &columns);

		if (bytes != pieces[i].bytes || columns != pieces[i].columns)
			fail_msg("piece %zu: %zu bytes, %zu columns", i, bytes, columns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),  cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_json),  cmocka_unit_test(test_mode),      cmocka_unit_test(test_summary),
		cmocka_unit_test(test_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
