/* tests/unit/test_keys.c - signing keys: U03 (without a proper key there is no log), S12 (a key is never made in
 * passing). */
#include "tests/support/log_fixture.h"
#include "tests/support/skip.h"

static char dir[64];

static int setup(void **state)
{
	(void)state;
	fx_dir(dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fx_remove(dir);
	return 0;
}

static int load(const char *name, struct sign_key **ret, struct pawl_error *err)
{
	char path[512];
	struct sign_key *k = NULL;
	int r;

	fx_path(dir, name, path);
	r = sign_key_load(path, &k, err);
	if (r < 0) {
		assert_null(k); /* untouched on failure */
		if (!strstr(err->msg, name))
			fail_msg("the file is not named: %s", err->msg);
	}
	if (ret)
		*ret = k;
	else
		sign_key_free(k);
	return r;
}

static void test_U03_content(void **state)
{
	static const struct {
		const char *what, *text;
		int want;
	} rows[] = {
		{ "good", FX_KEY, 0 },
		{ "good, with newline", FX_KEY "\n", 0 },
		{ "two newlines", FX_KEY "\n\n", PAWL_E_KEY },
		{ "empty", "", PAWL_E_KEY },
		{ "newline", "\n", PAWL_E_KEY },
		{ "truncated", "PRIVATE+KEY+example.com/pawl-test/entry+f3794be2+ASAhIiMkJSYnKCkqKywtLi8wMTIz",
		  PAWL_E_KEY },
		{ "head only", "PRIVATE+KEY+", PAWL_E_KEY },
		{ "a verifier key", FX_VKEY "\n", PAWL_E_KEY },
		{ "garbage", "\x01\x02\xff garbage", PAWL_E_KEY },
		{ "other id",
		  "PRIVATE+KEY+example.com/pawl-test/entry+f3794be3+ASAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/",
		  PAWL_E_KEY },
		{ "other name",
		  "PRIVATE+KEY+example.com/pawl-test/entrx+f3794be2+ASAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/",
		  PAWL_E_KEY },
		{ "type 6",
		  "PRIVATE+KEY+example.com/pawl-test/entry+f3794be2+BiAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/",
		  PAWL_E_KEY },
		{ "second line", FX_KEY "\n" FX_KEY "\n", PAWL_E_KEY },
	};
	struct pawl_error err;
	char big[4096];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		fx_write(dir, "k", rows[i].text, strlen(rows[i].text), 0600);
		if (load("k", NULL, &err) != rows[i].want)
			fail_msg("%s", rows[i].what);
	}
	memset(big, 'a', sizeof(big));
	fx_write(dir, "k", big, sizeof(big), 0600);
	assert_int_equal(load("k", NULL, &err), PAWL_E_KEY);
}

static void test_U03_no_key(void **state)
{
	char path[512];
	struct pawl_error err;

	(void)state;
	assert_int_equal(load("absent", NULL, &err), PAWL_E_KEY);
	fx_path(dir, "absent", path);
	assert_int_equal(access(path, F_OK), -1); /* S12: looking for a key does not make one */
	assert_int_equal(load("absent/below", NULL, &err), PAWL_E_KEY);
	fx_path(dir, "folder", path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(load("folder", NULL, &err), PAWL_E_KEY);
	(void)rmdir(path);
	fx_path(dir, "pipe", path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(load("pipe", NULL, &err), PAWL_E_KEY); /* and does not wait for a writer */
}

static void test_U03_mode(void **state)
{
	static const mode_t bad[] = { 0640, 0604, 0620, 0602, 0610, 0601, 0644, 0777, 04644 };
	static const mode_t good[] = { 0600, 0400, 0700 };
	struct pawl_error err;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bad); i++) {
		fx_write(dir, "k", FX_KEY, strlen(FX_KEY), bad[i]);
		assert_int_equal(load("k", NULL, &err), PAWL_E_UNSAFE);
	}
	for (size_t i = 0; i < PAWL_LEN(good); i++) {
		fx_write(dir, "k", FX_KEY, strlen(FX_KEY), good[i]);
		assert_int_equal(load("k", NULL, &err), 0);
	}
}

/* Needs root: owners can be given away and rights be dropped. */
static void test_U03_owner_and_unreadable(void **state)
{
	char path[512];
	struct pawl_error err;

	(void)state;
	if (geteuid() != 0) {
		fx_write(dir, "k", FX_KEY, strlen(FX_KEY), 0000);
		assert_int_equal(load("k", NULL, &err), PAWL_E_KEY);
		skip_aloud("root, to give a file away");
	}
	fx_write(dir, "k", FX_KEY, strlen(FX_KEY), 0600);
	fx_path(dir, "k", path);
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(load("k", NULL, &err), PAWL_E_UNSAFE);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(path, 0), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(load("k", NULL, &err), PAWL_E_KEY); /* ours, but unreadable */
	assert_int_equal(seteuid(0), 0);
}

/* S12: the same file gives the same key; what was signed before a restart verifies after it. */
static void test_S12_same_key(void **state)
{
	struct sign_key *made, *again;
	struct buf text = BUF_MAX(4096), b = BUF_MAX(65535);
	uint8_t prev[32] = { 0 };
	struct pawl_error err;
	struct entry_view v;

	(void)state;
	assert_int_equal(sign_key_new("host.example/pawl/1/entry", &made, &err), 0);
	sign_key_text(made, &text);
	assert_true(buf_ok(&text));
	fx_write(dir, "k", text.p, text.n, 0600);
	fx_entry(made, FX_ORIGIN, 0, prev, "{}", &b);
	sign_key_free(made);
	assert_int_equal(load("k", &again, &err), 0);
	assert_int_equal(entry_view_parse(buf_str(&b), &v, &err), 0);
	assert_int_equal(entry_view_verify(&v, sign_key_vkey(again), &err), 0);
	sign_key_free(again);
	buf_done(&text);
	buf_done(&b);
}

static void test_new_names(void **state)
{
	static const char *const bad[] = { "", "a b", "a+b", "a\n" };
	struct pawl_error err;
	struct sign_key *a, *b;
	char name[200];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bad); i++)
		assert_int_equal(sign_key_new(bad[i], &a, &err), PAWL_E_KEY);
	memset(name, 'n', sizeof(name));
	name[160] = 0;
	assert_int_equal(sign_key_new(name, &a, &err), PAWL_E_KEY);
	name[159] = 0;
	assert_int_equal(sign_key_new(name, &a, &err), 0);
	assert_int_equal(sign_key_new(name, &b, &err), 0);
	assert_memory_not_equal(sign_key_vkey(a)->pub, sign_key_vkey(b)->pub, 32);
	sign_key_free(a);
	sign_key_free(b);
	sign_key_free(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_U03_content),  cmocka_unit_test(test_U03_no_key),
		cmocka_unit_test(test_U03_mode),     cmocka_unit_test(test_U03_owner_and_unreadable),
		cmocka_unit_test(test_S12_same_key), cmocka_unit_test(test_new_names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
