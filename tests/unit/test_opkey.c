/* tests/unit/test_opkey.c - an operator's key file: what opens it, what does not, who may read it; and what a signed
 * order is. A12 begins here: nothing but the key's own passphrase makes a signature. */
#include "daemon/cli/opkey.h"
#include "daemon/cli/sign.h"
#include "tests/support/fail_malloc.h"

#include <sodium.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PASS STR("correct horse")

struct fixture {
	struct sign_key *key;
	struct buf sealed, plain;
	char dir[64], path[96];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct pawl_error err;

	if (!f || sign_key_new("anna", &f->key, &err) < 0)
		return -1;
	f->sealed = BUF_MAX(OPKEY_MAX);
	f->plain = BUF_MAX(OPKEY_MAX);
	sign_key_text(f->key, &f->plain);
	if (opkey_seal(f->key, PASS, &f->sealed, &err) < 0 || !buf_ok(&f->plain))
		return -1;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/pawl-opkey-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%s/k", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)unlink(f->path);
	(void)rmdir(f->dir);
	sign_key_free(f->key);
	buf_done(&f->sealed);
	buf_done(&f->plain);
	free(f);
	return 0;
}

static bool same_key(const struct sign_key *a, const struct sign_key *b)
{
	uint8_t x[64], y[64];

	sign_key_sign(a, STR("text"), x);
	sign_key_sign(b, STR("text"), y);
	return memcmp(x, y, sizeof(x)) == 0 && strcmp(sign_key_vkey(a)->name, sign_key_vkey(b)->name) == 0;
}

static void test_open(void **state)
{
	struct fixture *f = *state;
	const struct {
		const char *name;
		struct str text, pass;
		int want;
	} rows[] = {
		{ "the passphrase", buf_str(&f->sealed), PASS, 0 },
		{ "another", buf_str(&f->sealed), STR("correct horsf"), PAWL_E_KEY },
		{ "a longer one", buf_str(&f->sealed), STR("correct horse "), PAWL_E_KEY },
		{ "none", buf_str(&f->sealed), STR_NONE, PAWL_E_KEY },
		{ "plain, nothing asked", buf_str(&f->plain), STR_NONE, 0 },
		{ "plain without its line end", { f->plain.p, f->plain.n - 1 }, STR_NONE, 0 },
		{ "plain, cut", { f->plain.p, f->plain.n - 3 }, STR_NONE, PAWL_E_KEY },
		{ "empty", STR(""), PASS, PAWL_E_KEY },
		{ "a public key", STR("anna+00000000+AAAA"), PASS, PAWL_E_KEY },
	};

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct pawl_error err = { .code = PAWL_OK };
		struct sign_key *key = NULL;
		int r = opkey_open(rows[i].text, rows[i].pass, &key, &err);

		if (r != rows[i].want || (r == 0) != (key != NULL) || (key && !same_key(key, f->key)))
			fail_msg("%s: %d %s", rows[i].name, r, err.msg);
		sign_key_free(key);
	}
}

/* The secret is nowhere in the sealed file, and two sealings of one key have nothing in common behind the public line.
 */
static void test_sealed_text(void **state)
{
	struct fixture *f = *state;
	struct buf again = BUF_MAX(OPKEY_MAX);
	struct pawl_error err;
	struct vkey pub;
	const char *secret = f->plain.p + strlen("PRIVATE+KEY+anna+01234567+"), *box, *box2;
	bool sealed = false;

	assert_int_equal(opkey_seal(f->key, PASS, &again, &err), 0);
	assert_null(memmem(f->sealed.p, f->sealed.n, secret, 20));
	box = memmem(f->sealed.p, f->sealed.n, "\nbox ", 5);
	box2 = memmem(again.p, again.n, "\nbox ", 5);
	assert_memory_not_equal(box, box2, 40);
	assert_int_equal(opkey_public(buf_str(&f->sealed), &pub, &sealed, &err), 0);
	assert_true(sealed && memcmp(pub.pub, sign_key_vkey(f->key)->pub, 32) == 0);
	assert_int_equal(opkey_public(buf_str(&f->plain), &pub, &sealed, &err), 0);
	assert_true(!sealed && strcmp(pub.name, "anna") == 0);
	buf_done(&again);
}

/* Cut at any byte, or with any byte behind its end: no key file, and told so without argon2's work. */
static void test_truncated(void **state)
{
	struct fixture *f = *state;
	char more[OPKEY_MAX];

	for (size_t n = 0; n < f->sealed.n; n++) {
		struct pawl_error err;
		struct sign_key *key = NULL;

		if (opkey_open((struct str){ f->sealed.p, n }, PASS, &key, &err) != PAWL_E_KEY || key)
			fail_msg("cut to %zu of %zu bytes: not refused", n, f->sealed.n);
	}
	memcpy(more, f->sealed.p, f->sealed.n);
	for (int c = 0; c < 256; c++) {
		struct sign_key *key = NULL;

		more[f->sealed.n] = (char)c;
		assert_int_equal(opkey_open((struct str){ more, f->sealed.n + 1 }, PASS, &key, NULL), PAWL_E_KEY);
	}
}

static void test_changed(void **state)
{
	static const struct {
		const char *name, *from, *to; /* to may be longer */
	} rows[] = {
		{ "other version", "key/v1", "key/v2" },
		{ "more work than is allowed", "argon2id 2 ", "argon2id 17 " },
		{ "no work", "argon2id 2 ", "argon2id 0 " },
		{ "a sign", "argon2id 2 ", "argon2id +2 " },
		{ "more memory than is allowed", " 67108864\n", " 1073741825\n" },
		{ "memory beyond 64 bits", " 67108864\n", " 99999999999999999999\n" },
		{ "less memory than argon2 takes", " 67108864\n", " 1\n" },
		{ "other work", "argon2id 2 ", "argon2id 3 " },
		{ "a line twice", "\nsalt ", "\nsalt AAAA\nsalt " },
		{ "a line too many", "\nbox ", "\nnote x\nbox " },
		{ "CR", "\nsalt ", "\r\nsalt " },
		{ "two blanks", "\nsalt ", "\nsalt  " },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		const char *at = memmem(f->sealed.p, f->sealed.n, rows[i].from, strlen(rows[i].from));
		struct sign_key *key = NULL;
		struct buf text = BUF_MAX(4096);

		assert_non_null(at);
		buf_add(&text, f->sealed.p, (size_t)(at - f->sealed.p));
		buf_puts(&text, rows[i].to);
		at += strlen(rows[i].from);
		buf_add(&text, at, f->sealed.n - (size_t)(at - f->sealed.p));
		if (opkey_open(buf_str(&text), PASS, &key, NULL) != PAWL_E_KEY || key)
			fail_msg("%s: not refused", rows[i].name);
		buf_done(&text);
	}
}

/* The public line is not inside the box: one that was swapped for another good key must not pass. */
static void test_swapped_public(void **state)
{
	struct fixture *f = *state;
	struct buf text = BUF_MAX(4096);
	struct sign_key *other = NULL, *key = NULL;
	struct pawl_error err;
	const char *rest = memmem(f->sealed.p, f->sealed.n, "\nargon2id", 9);

	assert_int_equal(sign_key_new("anna", &other, &err), 0);
	buf_puts(&text, "pawl-operator-key/v1\npublic ");
	vkey_text(sign_key_vkey(other), &text);
	buf_puts(&text, rest ? "" : "?");
	buf_add(&text, rest, f->sealed.n - (size_t)(rest - f->sealed.p));
	assert_int_equal(opkey_open(buf_str(&text), PASS, &key, &err), PAWL_E_KEY);
	assert_null(key);
	assert_non_null(strstr(err.msg, "another key"));
	sign_key_free(other);
	buf_done(&text);
}

static void write_file(const struct fixture *f, const void *p, size_t n, mode_t mode)
{
	int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void test_modes(void **state)
{
	static const struct {
		mode_t mode;
		int want;
	} rows[] = { { 0600, 0 },
		     { 0400, 0 },
		     { 0700, 0 },
		     { 0640, PAWL_E_UNSAFE },
		     { 0604, PAWL_E_UNSAFE },
		     { 0620, PAWL_E_UNSAFE },
		     { 0602, PAWL_E_UNSAFE },
		     { 0610, PAWL_E_UNSAFE },
		     { 0644, PAWL_E_UNSAFE },
		     { 0666, PAWL_E_UNSAFE } };
	struct fixture *f = *state;
	char text[OPKEY_MAX], big[OPKEY_MAX] = { 'x' };
	struct pawl_error err;
	size_t n = 0;

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		write_file(f, f->sealed.p, f->sealed.n, rows[i].mode);
		if (opkey_read(f->path, text, &n, &err) != rows[i].want)
			fail_msg("mode %04o: %d", (unsigned)rows[i].mode, err.code);
		if (rows[i].want == 0)
			assert_true(n == f->sealed.n && memcmp(text, f->sealed.p, n) == 0);
		(void)unlink(f->path);
	}
	write_file(f, "", 0, 0600);
	assert_int_equal(opkey_read(f->path, text, &n, &err), PAWL_E_KEY);
	write_file(f, big, sizeof(big), 0600);
	assert_int_equal(opkey_read(f->path, text, &n, &err), PAWL_E_KEY);
	(void)unlink(f->path);
	assert_int_equal(opkey_read(f->path, text, &n, &err), PAWL_E_SYS);
	assert_int_equal(mkfifo(f->path, 0600), 0); /* must not hold anybody up */
	assert_int_equal(opkey_read(f->path, text, &n, &err), PAWL_E_UNSAFE);
	assert_int_equal(opkey_read(f->dir, text, &n, &err), PAWL_E_UNSAFE);
}

static void test_names(void **state)
{
	static const struct {
		struct str name;
		bool good;
	} rows[] = {
		{ STR("anna"), true },
		{ STR("a.b-c_D9"), true },
		{ STR(""), false },
		{ STR(".hidden"), false },
		{ STR("../x"), false },
		{ STR("a/b"), false },
		{ STR("a b"), false },
		{ STR("a+b"), false },
		{ STR("\xc3\xbc"), false },
		{ STR("a\n"), false },
		{ STR("0123456789012345678901234567890123456789012345678901234567890123"), true },
		{ STR("01234567890123456789012345678901234567890123456789012345678901234"), false },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (opkey_name_ok(rows[i].name) != rows[i].good)
			fail_msg("\"%.*s\"", STR_ARG(rows[i].name));
}

static void test_default(void **state)
{
	static const struct {
		const char *said, *xdg, *home, *want; /* want NULL: refused */
	} rows[] = {
		{ "/k", "/x", "/h", "/k" },
		{ NULL, "/x", "/h", "/x/pawl/operator.key" },
		{ NULL, NULL, "/h", "/h/.config/pawl/operator.key" },
		{ "", "x", "/h", "/h/.config/pawl/operator.key" },
		{ NULL, NULL, NULL, NULL },
		{ NULL, NULL, "h", NULL },
	};
	static const char *const names[] = { "PAWL_KEY", "XDG_CONFIG_HOME", "HOME" };
	char out[64];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		const char *const values[] = { rows[i].said, rows[i].xdg, rows[i].home };
		int r;

		for (size_t v = 0; v < 3; v++)
			(void)(values[v] ? setenv(names[v], values[v], 1) : unsetenv(names[v]));
		r = opkey_default(out, sizeof(out), NULL);
		if (rows[i].want ? r != 0 || strcmp(out, rows[i].want) != 0 : r != PAWL_E_USAGE)
			fail_msg("row %zu: %d %s", i, r, out);
	}
}

/* ---- orders ---- */

#define NONCE "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void test_sign(void **state)
{
	/* members sorted, escapes in their one form: what the contract calls canonical, written out by hand */
	static const char want[] =
	    "{\"action\":\"resume\",\"nonce\":\"" NONCE "\",\"op\":\"review.resolve\",\"operator\":\"anna\","
	    "\"reason\":\"\xc3\xbc\\\"\",\"review\":\"r_56\",\"v\":1}";
	struct fixture *f = *state;
	struct signer who = { f->key, STR("anna") };
	struct buf out = BUF_MAX(4096), text = BUF_MAX(4096);
	struct pawl_error err;
	struct json *doc = NULL;
	struct str hex;
	uint8_t sig[64];

	assert_int_equal(sign_request(&who, STR(NONCE),
				      STR("{\"v\":1,\"op\":\"review.resolve\",\"review\":\"r_56\",\"action\":"
					  "\"resume\",\"reason\":\"\\u00fc\\\"\"}"),
				      &out, &err),
			 0);
	assert_int_equal(json_parse(buf_str(&out), 8, &doc, &err), 0);
	hex = json_string(json_get(doc, "signature"));
	assert_int_equal(hex.n, 128);
	assert_int_equal(sodium_hex2bin(sig, sizeof(sig), hex.p, hex.n, NULL, NULL, NULL), 0);
	buf_puts(&text, "pawl-operator/v1\n");
	buf_puts(&text, want);
	assert_int_equal(crypto_sign_verify_detached(sig, (const uint8_t *)text.p, text.n, sign_key_vkey(f->key)->pub),
			 0);
	/* sent as it was signed */
	assert_memory_equal(out.p, want, sizeof(want) - 2);
	json_free(doc);
	buf_done(&out);
	buf_done(&text);
}

static void test_sign_refuses(void **state)
{
	static const struct {
		const char *name;
		struct str nonce, request;
	} rows[] = {
		{ "no nonce", STR_NONE, STR("{\"v\":1}") },
		{ "short nonce", STR("0011"), STR("{\"v\":1}") },
		{ "upper-case nonce", STR("00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"),
		  STR("{\"v\":1}") },
		{ "a nonce that is more", STR(NONCE "\",\"x\":\""), STR("{\"v\":1}") },
		{ "no object", STR(NONCE), STR("[1]") },
		{ "an operator already", STR(NONCE), STR("{\"operator\":\"bob\"}") },
		{ "a nonce already", STR(NONCE), STR("{\"nonce\":\"\"}") },
		{ "no JSON", STR(NONCE), STR("{x}") },
	};
	struct fixture *f = *state;
	struct signer who = { f->key, STR("anna") };

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct buf out = BUF_MAX(4096);

		if (sign_request(&who, rows[i].nonce, rows[i].request, &out, NULL) != PAWL_E_MALFORMED || out.n)
			fail_msg("%s: signed", rows[i].name);
		buf_done(&out);
	}
}

static void test_no_memory(void **state)
{
	struct fixture *f = *state;
	struct signer who = { f->key, STR("anna") };
	int r = PAWL_E_NOMEM;

	for (long n = 1; r != 0; n++) {
		struct buf out = BUF_MAX(4096);

		fail_malloc_after(n);
		r = sign_request(&who, STR(NONCE), STR("{\"v\":1}"), &out, NULL);
		assert_true(fail_malloc_stop() ? r < 0 : r == 0);
		buf_done(&out);
		assert_true(n < 1000);
	}
	r = PAWL_E_NOMEM;
	for (long n = 1; r != 0; n++) {
		struct buf out = BUF_MAX(OPKEY_MAX);
		struct sign_key *key = NULL;
		bool failed;

		fail_malloc_after(n);
		r = opkey_seal(f->key, PASS, &out, NULL);
		failed = fail_malloc_stop();
		assert_true(failed ? r == PAWL_E_NOMEM : r == 0);
		if (!failed) {
			assert_int_equal(opkey_open(buf_str(&out), PASS, &key, NULL), 0);
			sign_key_free(key);
		}
		buf_done(&out);
		assert_true(n < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sealed_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_swapped_public, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modes, setup, teardown),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_default),
		cmocka_unit_test_setup_teardown(test_sign, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sign_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
