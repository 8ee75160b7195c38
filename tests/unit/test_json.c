/* tests/unit/test_json.c - what is refused, and which value is named; what is accepted, and how it reads. */
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "tests/support/fail_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>

#define OPEN8 "[[[[[[[["
#define SHUT8 "]]]]]]]]"

static const struct {
	const char *id;
	struct str text;
	const char *field, *msg;
} refused[] = {
	{ "empty", STR(""), "", "not JSON: the text ends too early" },
	{ "blank", STR("  \n"), "", "not JSON: the text ends too early" },
	{ "torn", STR("{\"a\":[1,"), "", "not JSON: the text ends too early" },
	{ "torn text", STR("{\"a\":\"x"), "", "not JSON: the text ends too early" },
	{ "torn escape", STR("\"\\"), "", "not JSON: the text ends too early" },
	{ "torn key", STR("{\"a"), "", "not JSON: the text ends too early" },
	{ "something behind", STR("{} {}"), "", "something after the end of the JSON value: \"{\"" },
	{ "NUL behind", STR("{}\0"), "", "something after the end of the JSON value: \"\\x00\"" },
	{ "NaN", STR("{\"estimate\":{\"money\":NaN}}"), "estimate.money", "not JSON: \"NaN\"" },
	{ "Infinity", STR("[-Infinity]"), "0", "not a JSON number: \"-Infinity\"" },
	{ "True", STR("[True]"), "0", "not JSON: \"True\"" },
	{ "nulls", STR("[nulls]"), "0", "not JSON: \"nulls\"" },
	{ "single quotes", STR("{'a':1}"), "", "not JSON: a key in quotes is due: \"'a'\"" },
	{ "comment", STR("[1/*x*/]"), "0", "not a JSON number: \"1/*x*/\"" },
	{ "trailing comma", STR("[1,]"), "1", "not JSON: \"]\"" },
	{ "trailing comma in an object", STR("{\"a\":1,}"), "a", "not JSON: a key in quotes is due: \"}\"" },
	{ "no colon", STR("{\"a\" 1}"), "a", "not JSON: a colon is due: \"1\"" },
	{ "no comma", STR("{\"a\":1 \"b\":2}"), "a", "not JSON: a comma or the end is due: \"\\\"\"" },
	{ "wrong bracket", STR("[1}"), "0", "not JSON: a comma or the end is due: \"}\"" },
	{ "leading zero", STR("{\"n\":01}"), "n", "not a JSON number: \"01\"" },
	{ "leading plus", STR("{\"n\":+1}"), "n", "not JSON: \"+1\"" },
	{ "hexadecimal", STR("{\"n\":0x10}"), "n", "not a JSON number: \"0x10\"" },
	{ "no digit behind the point", STR("[1.]"), "0", "not a JSON number: \"1.\"" },
	{ "no digit in the exponent", STR("[1e]"), "0", "not a JSON number: \"1e\"" },
	{ "two to the 63", STR("{\"a\":{\"b\":[1,9223372036854775808]}}"), "a.b.1",
	  "an integer outside 64 bits: \"9223372036854775808\"" },
	{ "below", STR("[-9223372036854775809]"), "0", "an integer outside 64 bits: \"-9223372036854775809\"" },
	{ "much too big", STR("{\"n\":123456789012345678901234567890123456789012345678901234567890}"), "n",
	  "an integer outside 64 bits: \"123456789012345678901234567890123456789012345678...\"" },
	{ "1e400", STR("{\"estimate\":{\"money\":1e400}}"), "estimate.money", "not a finite number: \"1e400\"" },
	{ "-1e309 deep inside", STR("{\"args\":{\"list\":[0,0,0,-1e309]}}"), "args.list.3",
	  "not a finite number: \"-1e309\"" },
	{ "twice", STR("{\"op\":\"x\",\"op\":\"y\"}"), "op", "a repeated key: \"op\"" },
	{ "twice below", STR("{\"a\":{\"b\":1,\"c\":{},\"b\":2}}"), "a.b", "a repeated key: \"b\"" },
	{ "twice, spelt differently", STR("{\"a\":1,\"\\u0061\":2}"), "\\u0061", "a repeated key: \"\\\\u0061\"" },
	{ "twice in an array", STR("[{\"a\":1},{\"a\":1,\"a\":1}]"), "1.a", "a repeated key: \"a\"" },
	{ "NUL in a text", STR("{\"a\":\"x\0y\"}"), "a", "a NUL byte in a text: \"x\\x00\"" },
	{ "NUL as an escape", STR("{\"a\":\"x\\u0000\"}"), "a", "a NUL character in a text: \"\\\\u0000\"" },
	{ "NUL in a key", STR("{\"a\\u0000b\":1}"), "", "a NUL character in a text: \"\\\\u0000\"" },
	{ "raw newline", STR("[\"a\nb\"]"), "0", "a raw control byte in a text: \"a\\x0a\"" },
	{ "unknown escape", STR("[\"\\x41\"]"), "0", "unknown escape in a text: \"\\\\x\"" },
	{ "short \\u", STR("[\"\\u12g4\"]"), "0", "\\u without four hexadecimal digits: \"\\\\u12g4\"" },
	{ "high half alone", STR("{\"t\":\"\\ud800\"}"), "t", "half a surrogate pair in a text: \"\\\\ud800\"" },
	{ "high half and a letter", STR("{\"t\":\"\\ud800x\"}"), "t", NULL },
	{ "two high halves", STR("{\"t\":\"\\ud800\\ud800\"}"), "t", NULL },
	{ "low half alone", STR("{\"t\":\"\\udc00\"}"), "t", "half a surrogate pair in a text: \"\\\\udc00\"" },
	{ "half as bytes", STR("{\"t\":\"\xed\xa0\x80\"}"), "t", "a text that is not UTF-8: \"\\xed\\xa0\\x80\"" },
	{ "latin-1", STR("{\"a\":[\"\xe9\"]}"), "a.0", "a text that is not UTF-8: \"\\xe9\"" },
	{ "overlong", STR("[\"\xc0\xaf\"]"), "0", NULL },
	{ "cut sequence", STR("[\"\xe2\x82\"]"), "0", NULL },
	{ "UTF-8 in a key", STR("{\"\xff\":1}"), "", "a text that is not UTF-8: \"\\xff\"" },
	{ "byte-order mark", STR("\xef\xbb\xbf{}"), "", "not JSON: \"\\xef\\xbb\\xbf\"" },
	{ "33 deep", STR(OPEN8 OPEN8 OPEN8 OPEN8 "[1]" SHUT8 SHUT8 SHUT8 SHUT8),
	  "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0", "nested more than 32 levels deep" },
	{ "control bytes do not reach the path", STR("{\"a\x7f\":nope}"), "a?", "not JSON: \"nope\"" },
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(refused); i++) {
		struct json *j = NULL;
		struct pawl_error err = { .code = PAWL_OK };
		int r = json_parse(refused[i].text, PAWL_MAX_DEPTH, &j, &err);

		if (r != PAWL_E_MALFORMED || j || strcmp(err.field, refused[i].field) != 0 ||
		    (refused[i].msg && strcmp(err.msg, refused[i].msg) != 0))
			fail_msg("%s: %d, \"%s\": %s", refused[i].id, r, err.field, err.msg);
	}
	assert_int_equal(json_parse(STR("nope"), 1, &(struct json *){ NULL }, NULL), PAWL_E_MALFORMED);
}

static const struct {
	const char *id;
	struct str text;
} accepted[] = {
	{ "a word alone", STR(" true ") },
	{ "32 deep", STR(OPEN8 OPEN8 OPEN8 OPEN8 SHUT8 SHUT8 SHUT8 SHUT8) },
	{ "the ends of int64", STR("[9223372036854775807,-9223372036854775808,-0]") },
	{ "too small for a double is 0", STR("[1e-400]") },
	{ "a pair", STR("[\"\\ud83d\\ude00\",\"\xf0\x9f\x98\x80\"]") },
	{ "equal keys apart", STR("{\"a\":{\"a\":1},\"b\":{\"a\":1}}") },
	{ "all escapes", STR("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\"]") },
	{ "empty things", STR("[{},[],\"\",{\"\":[]}]") },
	{ "numbers", STR("[0,-1,1.5,1E5,1e+5,1e-5,-0.0]") },
};

static void test_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(accepted); i++) {
		struct json *j;
		struct pawl_error err;

		if (json_parse(accepted[i].text, PAWL_MAX_DEPTH, &j, &err) != 0)
			fail_msg("%s: %s: %s", accepted[i].id, err.field, err.msg);
		json_free(j);
	}
}

static void test_reading(void **state)
{
	static const char *const keys[] = { "z", "a", "list" };
	struct json *j;
	void *it;
	size_t n = 0;

	(void)state;
	assert_int_equal(json_parse(STR("{\"z\":-7,\"a\":\"t\\u00e9\",\"list\":[true,false,null,2.5]}"), 4, &j, NULL),
			 0);
	for (it = json_iter(j); it; it = json_iter_next(j, it), n++)
		assert_true(str_is(json_iter_key(it), keys[n])); /* in the text's order */
	assert_int_equal(n, 3);
	assert_int_equal(json_size(j), 3);
	assert_int_equal(json_kind(j), JSON_KIND_OBJECT);
	assert_int_equal(json_int(json_get(j, "z")), -7);
	assert_true(json_real(json_get(j, "z")) == -7.0);
	assert_true(str_is(json_string(json_get(j, "a")), "t\xc3\xa9"));
	assert_null(json_string(json_get(j, "z")).p);
	assert_ptr_equal(json_get_str(j, (struct str){ "listless", 4 }), json_get(j, "list"));
	assert_null(json_get(j, "none"));
	assert_null(json_get(json_get(j, "a"), "none"));
	assert_null(json_get_str(j, STR_NONE));
	assert_int_equal(json_size(json_get(j, "list")), 4);
	assert_int_equal(json_size(json_get(j, "a")), 0);
	assert_true(json_true(json_at(json_get(j, "list"), 0)));
	assert_false(json_true(json_at(json_get(j, "list"), 1)));
	assert_int_equal(json_kind(json_at(json_get(j, "list"), 2)), JSON_KIND_NULL);
	assert_true(json_real(json_at(json_get(j, "list"), 3)) == 2.5);
	assert_null(json_at(json_get(j, "list"), 4));
	json_free(j);
	json_free(NULL);
}

/* What goes over a whole document in few calls sees what the getters see. */
static void test_looking(void **state)
{
	static const char text[] = "{\"z\":-7,\"a\":\"t\\u00e9\",\"e\":\"\",\"r\":2.5,\"y\":true,\"n\":false,\"nil\":null,\"l\":[1],\"o\":{}}";
	struct json_member m[16];
	struct json *j;
	void *it;

	(void)state;
	assert_int_equal(json_parse(STR(text), 4, &j, NULL), 0);
	assert_int_equal(json_members(j, m, 0), 0);
	assert_int_equal(json_members(j, m, 4), 4);
	assert_int_equal(json_members(j, m, 16), 9);
	it = json_iter(j);
	for (size_t i = 0; i < 9; i++, it = json_iter_next(j, it)) {
		struct json_scalar v = { STR("?"), 99, 99, false };
		enum json_kind kind = json_look(m[i].value, &v);

		assert_true(str_eq(m[i].key, json_iter_key(it)) && m[i].value == json_iter_value(it));
		assert_int_equal(kind, json_kind(m[i].value));
		assert_true(str_eq(v.text, kind == JSON_KIND_STRING ? json_string(m[i].value) : STR("?")));
		assert_int_equal(v.number, kind == JSON_KIND_INT ? json_int(m[i].value) : 99);
		assert_true(v.real == (kind == JSON_KIND_REAL ? json_real(m[i].value) : 99));
		assert_int_equal(v.yes, json_true(m[i].value));
	}
	assert_null(it);
	json_free(j);
}

/* One byte that needs an escape, or none, or two, at every place of texts of every length up to five words; and the same at a buffer's end. */
static void test_writing_texts(void **state)
{
	static const unsigned char odd[] = { '"', '\\', '\n', 1, 0x1f };
	static const char *const as[] = { "\\\"", "\\\\", "\\n", "\\u0001", "\\u001f" };
	char in[40], want[400];

	(void)state;
	for (size_t n = 0; n <= sizeof(in); n++)
		for (size_t at = 0; at <= n; at++)
			for (size_t k = 0; k < sizeof(odd); k++) {
				struct buf b = BUF_MAX(1000), full = BUF_MAX(1000);
				size_t w = 0;

				memset(in, 'x', sizeof(in));
				in[n / 2 < n ? n / 2 : 0] = '\x7f';
				if (at < n) /* at n: none */
					in[at] = (char)odd[k];
				if (at + 3 < n)
					in[at + 3] = (char)odd[(k + 1) % sizeof(odd)];
				want[w++] = '"';
				for (size_t i = 0; i < n; i++) {
					size_t o = 0;

					while (o < sizeof(odd) && in[i] != (char)odd[o])
						o++;
					w += (size_t)snprintf(want + w, sizeof(want) - w, "%.*s", o < sizeof(odd) ? 6 : 1,
							      o < sizeof(odd) ? as[o] : in + i);
				}
				want[w++] = '"';
				buf_json(&b, (struct str){ in, n });
				assert_true(buf_ok(&b) && str_eq(buf_str(&b), (struct str){ want, w }));
				buf_member(&b, ',', (struct str){ in, n });
				assert_true(b.n == 2 * w + 2 && b.p[w] == ',' && memcmp(b.p + w + 1, want, w) == 0 && b.p[b.n - 1] == ':');
				full.max = w;
				buf_json(&full, (struct str){ in, n });
				assert_true(buf_ok(&full) && full.n == w);
				buf_reset(&full);
				full.max = w - 1;
				buf_json(&full, (struct str){ in, n });
				assert_false(buf_ok(&full));
				buf_done(&b);
				buf_done(&full);
			}
}

/* A long path is cut to what the error can hold. */
static void test_long_path(void **state)
{
	struct buf b = BUF_MAX(1 << 20);
	struct pawl_error err;
	struct json *j;

	(void)state;
	buf_puts(&b, "{\"");
	for (int i = 0; i < 5000; i++)
		buf_putc(&b, 'k');
	buf_puts(&b, "\":{\"x\":nope}}");
	assert_int_equal(json_parse(buf_str(&b), 4, &j, &err), PAWL_E_MALFORMED);
	assert_int_equal(strlen(err.field), sizeof(err.field) - 1);
	buf_done(&b);
}

/* Many small values, then one text that is longer than any block of memory: a failure in the middle of either must not leave a shorter
 * document behind. */
static void test_no_memory(void **state)
{
	struct buf text = BUF_MAX(1 << 20);
	struct json *j = NULL;
	long n = 1;

	(void)state;
	buf_puts(&text, "{\"a\":[1,2,{\"b\":\"text\",\"c\":1.5}],\"d\":[null");
	for (int i = 0; i < 3000; i++)
		buf_printf(&text, ",{\"k%d\":%d}", i, i);
	buf_puts(&text, "],\"e\":\"");
	for (int i = 0; i < 200000; i++)
		buf_putc(&text, 'x');
	buf_puts(&text, "\"}");
	assert_true(buf_ok(&text));
	for (;; n++) {
		struct pawl_error err = { .code = PAWL_OK };
		int r;

		fail_malloc_after(n);
		r = json_parse(buf_str(&text), 8, &j, &err);
		if (!fail_malloc_stop()) {
			assert_int_equal(r, 0);
			break;
		}
		if (r != PAWL_E_NOMEM || err.code != PAWL_E_NOMEM)
			fail_msg("allocation %ld: %d %s", n, r, err.msg);
		j = NULL;
	}
	assert_true(n > 10);
	assert_int_equal(json_size(json_get(j, "d")), 3001);
	assert_int_equal(json_string(json_get(j, "e")).n, 200000);
	json_free(j);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),   cmocka_unit_test(test_accepted),  cmocka_unit_test(test_reading),
		cmocka_unit_test(test_looking),   cmocka_unit_test(test_writing_texts),
		cmocka_unit_test(test_long_path), cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
