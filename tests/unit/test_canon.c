/* tests/unit/test_canon.c - canonical JSON against the shared vectors, what may be dropped from it, and memory that
 * runs out. */
#include "policy/canon.h"
#include "tests/support/fail_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define VECTORS "tests/vectors/canon/"

static struct buf read_file(const char *name)
{
	struct buf b = BUF_MAX(1 << 20);
	FILE *f = fopen(name, "rb");
	char *room;

	if (!f)
		fail_msg("%s: cannot be read", name);
	while ((room = buf_room(&b, 4096)) != NULL) {
		size_t n = fread(room, 1, 4096, f);

		b.n += n;
		if (n == 0)
			break;
	}
	(void)fclose(f);
	return b;
}

static struct buf canon_of(const char *what, struct str text, const struct str *drop, size_t n_drop)
{
	struct buf b = BUF_MAX(1 << 20);
	struct pawl_error err;
	struct json *j;

	if (json_parse(text, PAWL_MAX_DEPTH, &j, &err) < 0)
		fail_msg("%s: %s: %s", what, err.field, err.msg);
	canon_json(j, drop, n_drop, &b);
	json_free(j);
	assert_true(buf_ok(&b));
	return b;
}

static void test_vectors(void **state)
{
	DIR *d = opendir(VECTORS);
	struct dirent *e;
	int n = 0;

	(void)state;
	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		char in_name[300], out_name[300];
		struct buf in, want, got;
		size_t len = strlen(e->d_name);

		if (len < 5 || strcmp(e->d_name + len - 5, ".json") != 0)
			continue;
		(void)snprintf(in_name, sizeof(in_name), VECTORS "%s", e->d_name);
		(void)snprintf(out_name, sizeof(out_name), VECTORS "%.*s.canon", (int)len - 5, e->d_name);
		in = read_file(in_name);
		want = read_file(out_name);
		got = canon_of(in_name, buf_str(&in), NULL, 0);
		if (!str_eq(buf_str(&got), buf_str(&want)))
			fail_msg("%s: %.*s", in_name, (int)got.n, got.p);
		buf_done(&in);
		buf_done(&want);
		buf_done(&got);
		n++;
	}
	(void)closedir(d);
	assert_true(n >= 7);
}

static void test_numbers(void **state)
{
	struct buf b = read_file(VECTORS "numbers.txt");
	char *text = buf_take(&b, NULL), *save = NULL;
	int n = 0;

	(void)state;
	assert_non_null(text);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
		char *want = strchr(line, ' ') + 1, got[32];
		uint64_t bits = strtoull(line, NULL, 16);
		double d;

		memcpy(&d, &bits, sizeof(d));
		if (canon_double(d, got) != strlen(want) || strcmp(got, want) != 0)
			fail_msg("%s: %s", line, got);
	}
	assert_true(n >= 30);
	free(text);
}

/* Every bit pattern that is sent comes back: a text with fewer digits than needed would not. */
static void test_round_trip(void **state)
{
	uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char t[32];
		double d;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(&d, &x, sizeof(d));
		if (!(d - d == 0))
			continue;
		assert_true(canon_double(d, t) < sizeof(t));
		if (strtod(t, NULL) != d)
			fail_msg("%016llx: %s", (unsigned long long)x, t);
	}
}

static const struct {
	const char *id, *json, *drop[3], *want;
} drops[] = {
	{ "L08 one member", "{\"since\":5,\"n\":1.0}", { "since" }, "{\"n\":1}" },
	{ "first and last", "{\"a\":1,\"b\":2,\"c\":3}", { "a", "c" }, "{\"b\":2}" },
	{ "all of them", "{\"a\":1}", { "a" }, "{}" },
	{ "below a member", "{\"a\":{\"b\":1,\"c\":2},\"b\":3}", { "a.b" }, "{\"a\":{\"c\":2},\"b\":3}" },
	{ "only at the top", "{\"a\":{\"since\":1},\"since\":2}", { "since" }, "{\"a\":{\"since\":1}}" },
	{ "through an array", "{\"l\":[{\"t\":1,\"x\":2},[{\"t\":3}],4]}", { "l.t" }, "{\"l\":[{\"x\":2},[{}],4]}" },
	{ "a longer path than there is", "{\"a\":1}", { "x.a" }, "{\"a\":1}" },
	{ "a path is not a suffix of a key", "{\"ba\":1}", { "a" }, "{\"ba\":1}" },
	{ "several", "{\"a\":{\"b\":1},\"c\":2}", { "a.b", "c", "zz" }, "{\"a\":{}}" },
};

static void test_drops(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(drops); i++) {
		struct str drop[3];
		size_t n = 0;
		struct buf got;

		while (n < 3 && drops[i].drop[n]) {
			drop[n] = str_of(drops[i].drop[n]);
			n++;
		}
		got = canon_of(drops[i].id, str_of(drops[i].json), drop, n);
		if (!str_is(buf_str(&got), drops[i].want))
			fail_msg("%s: %.*s", drops[i].id, (int)got.n, got.p);
		buf_done(&got);
	}
}

/* L08: order of keys, 1 and 1.0 make no difference. */
static void test_equal_texts(void **state)
{
	static const char *const same[] = { "{\"n\":1,\"q\":\"x\"}", "{\"q\":\"x\",\"n\":1.0}",
					    " { \"q\" : \"\\u0078\", \"n\":10e-1}" };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(same); i++) {
		struct buf got = canon_of(same[i], str_of(same[i]), NULL, 0);

		assert_true(str_is(buf_str(&got), "{\"n\":1,\"q\":\"x\"}"));
		buf_done(&got);
	}
}

/* No memory: .failed says so, and nothing else does. */
static void walk_no_memory(void)
{
	struct buf text = read_file(VECTORS "many.json"), want = read_file(VECTORS "many.canon"),
		   out = BUF_MAX(1 << 20), small = BUF_MAX(20);
	struct json *j;
	long n = 1, refused = 0;

	assert_int_equal(json_parse(buf_str(&text), 4, &j, NULL), 0);
	for (;; n++) {
		buf_done(&out);
		fail_malloc_after(n);
		canon_json(j, NULL, 0, &out);
		if (!fail_malloc_stop())
			break;
		refused += !buf_ok(&out);
		assert_true(!buf_ok(&out) ||
			    str_eq(buf_str(&out), buf_str(&want))); /* qsort() asks for memory it can do without */
	}
	assert_true(refused >= 2 && buf_ok(&out)); /* the sorted members and the text itself */
	canon_json(j, NULL, 0, &small);
	assert_false(buf_ok(&small));
	json_free(j);
	buf_done(&out);
	buf_done(&small);
	buf_done(&text);
	buf_done(&want);
}

static void test_no_memory(void **state)
{
	(void)state;
	walk_no_memory();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_numbers),     cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_drops),   cmocka_unit_test(test_equal_texts), cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
