/* tests/unit/test_operator_key.c - who may answer: enrolled keys and nonces, under a clock that the test moves. */
#include "daemon/base/owner.h"
#include "daemon/operator_key.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define T0 (1000 * NS_PER_SEC)
#define PREFIX "pawl-operator/v1\n"

struct person {
	struct vkey key;
	uint8_t secret[64];
};

static struct person person_new(const char *name)
{
	struct person p;

	assert_int_equal(crypto_sign_keypair(p.key.pub, p.secret), 0);
	(void)snprintf(p.key.name, sizeof(p.key.name), "%s", name);
	p.key.id = vkey_id(p.key.name, p.key.pub);
	return p;
}

struct folder {
	char dir[64];
	char path[8][160];
	size_t n;
};

static void write_file(struct folder *f, const char *name, const char *text, size_t n)
{
	char *path = f->path[f->n++], dir[sizeof(f->dir)];
	FILE *out;

	memcpy(dir, f->dir, sizeof(dir));
	(void)snprintf(path, sizeof(f->path[0]), "%s/%s", dir, name);
	out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(path, 0600), 0);
}

static void enrol(struct folder *f, const char *file, const struct person *p)
{
	struct buf text = BUF_MAX(512);

	vkey_text(&p->key, &text);
	buf_putc(&text, '\n');
	write_file(f, file, text.p, text.n);
	buf_done(&text);
}

static struct folder folder_new(void)
{
	struct folder f = { .dir = "/tmp/pawl-operators-XXXXXX" };

	assert_non_null(mkdtemp(f.dir));
	return f;
}

static void folder_done(struct folder *f)
{
	while (f->n)
		(void)unlink(f->path[--f->n]);
	(void)rmdir(f->dir);
}

struct told {
	int enrolled, revoked;
};

static void tell(void *arg, bool enrolled, struct str name, struct str vkey)
{
	struct told *t = arg;

	assert_true(name.n > 0 && vkey.n > 0);
	t->enrolled += enrolled;
	t->revoked += !enrolled;
}

static int load(struct operators *ops, const struct folder *f, struct told *ret)
{
	*ret = (struct told){ 0, 0 };
	return operators_load(ops, f->dir, OWNER_NO_GROUP, tell, ret, NULL);
}

/* Signs text as p and presents it as `name` at `now`. */
static int present(struct operators *ops, const char *name, const uint8_t nonce[static 32], const struct person *p, const char *text, int64_t now)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct str vkey = STR_NONE;
	uint8_t sig[64];
	int r;

	(void)crypto_sign_detached(sig, NULL, (const uint8_t *)text, strlen(text), p->secret);
	r = operators_check(ops, str_of(name), nonce, str_of(text), sig, now, &vkey, &err);
	assert_true(r == 0 ? vkey.n > 0 : vkey.p == NULL && err.code == PAWL_E_AUTH);
	return r;
}

static void a_nonce_is_good_once_and_for_a_minute(void **state)
{
	static const struct {
		int64_t later;
		int want;
	} rows[] = { { 0, 0 }, { OPERATOR_NONCE_NS - 1, 0 }, { OPERATOR_NONCE_NS, PAWL_E_AUTH }, { 2 * OPERATOR_NONCE_NS, PAWL_E_AUTH } };
	struct person anna = person_new("anna");
	struct folder f = folder_new();
	struct operators *ops;
	struct told told;
	uint8_t nonce[32];
	int64_t expires;

	(void)state;
	enrol(&f, "anna.vkey", &anna);
	assert_int_equal(operators_new(&ops, NULL), 0);
	assert_int_equal(load(ops, &f, &told), 0);
	assert_int_equal(told.enrolled, 1);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		operators_nonce(ops, T0, nonce, &expires);
		assert_int_equal(expires, T0 + OPERATOR_NONCE_NS);
		assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0 + rows[i].later), rows[i].want);
		assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0 + rows[i].later), PAWL_E_AUTH); /* used, or too late */
	}
	memset(nonce, 0, sizeof(nonce));
	assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", 0), PAWL_E_AUTH); /* what an empty slot holds */
	operators_free(ops);
	folder_done(&f);
}

/* Whoever can open the door may ask for nonces, and send what it signs with a key of its own: neither spoils another's. */
static void nobody_spoils_anothers_nonce(void **state)
{
	struct person anna = person_new("anna"), mallory = person_new("anna");
	struct folder f = folder_new();
	struct operators *ops, *after;
	struct told told;
	uint8_t mine[32], other[32], bent[32];
	int64_t expires;

	(void)state;
	enrol(&f, "anna.vkey", &anna);
	assert_int_equal(operators_new(&ops, NULL), 0);
	assert_int_equal(operators_new(&after, NULL), 0);
	assert_int_equal(load(ops, &f, &told), 0);
	assert_int_equal(load(after, &f, &told), 0);
	operators_nonce(ops, T0, mine, &expires);
	for (int i = 0; i < 10000; i++)
		operators_nonce(ops, T0, other, &expires);
	for (int i = 0; i < 300; i++) {
		operators_nonce(ops, T0, other, &expires);
		assert_int_equal(present(ops, "anna", other, &mallory, PREFIX "{}", T0), PAWL_E_AUTH);
	}
	assert_int_equal(present(ops, "anna", mine, &mallory, PREFIX "{}", T0), PAWL_E_AUTH); /* also over this very one */
	for (size_t i = 0; i < sizeof(mine); i++) { /* no byte of it may differ: not the time, not the proof */
		memcpy(bent, mine, sizeof(bent));
		bent[i] ^= 1;
		assert_int_equal(present(ops, "anna", bent, &anna, PREFIX "{}", T0), PAWL_E_AUTH);
	}
	assert_int_equal(present(after, "anna", mine, &anna, PREFIX "{}", T0), PAWL_E_AUTH); /* another process's */
	assert_int_equal(present(ops, "anna", mine, &anna, PREFIX "{}", T0), 0);
	assert_int_equal(present(ops, "anna", mine, &anna, PREFIX "{}", T0), PAWL_E_AUTH);
	operators_free(after);
	operators_free(ops);
	folder_done(&f);
}

/* Used ones are remembered as long as they could be used again: rather none more than one twice. */
static void a_full_minute_takes_no_more(void **state)
{
	struct person anna = person_new("anna");
	struct folder f = folder_new();
	struct operators *ops;
	struct told told;
	uint8_t first[32], nonce[32];
	int64_t expires;

	(void)state;
	enrol(&f, "anna.vkey", &anna);
	assert_int_equal(operators_new(&ops, NULL), 0);
	assert_int_equal(load(ops, &f, &told), 0);
	operators_nonce(ops, T0, first, &expires);
	assert_int_equal(present(ops, "anna", first, &anna, PREFIX "{}", T0), 0);
	for (int i = 1; i < OPERATOR_USED; i++) {
		operators_nonce(ops, T0 + 1, nonce, &expires);
		assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0 + 1), 0);
	}
	operators_nonce(ops, T0 + 1, nonce, &expires);
	assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0 + 1), PAWL_E_AUTH);
	assert_int_equal(present(ops, "anna", first, &anna, PREFIX "{}", T0 + 1), PAWL_E_AUTH);
	assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0 + OPERATOR_NONCE_NS), 0); /* the first one's place is free */
	assert_int_equal(present(ops, "anna", first, &anna, PREFIX "{}", T0 + OPERATOR_NONCE_NS), PAWL_E_AUTH);
	operators_free(ops);
	folder_done(&f);
}

static void only_the_key_of_that_name_over_that_text(void **state)
{
	struct person anna = person_new("anna"), berta = person_new("berta"), mallory = person_new("anna");
	const struct {
		const char *name;
		const struct person *by;
		const char *text;
		int want;
	} rows[] = {
		{ "anna", &anna, PREFIX "{}", 0 },
		{ "berta", &berta, PREFIX "{}", 0 },
		{ "anna", &berta, PREFIX "{}", PAWL_E_AUTH },
		{ "anna", &mallory, PREFIX "{}", PAWL_E_AUTH },
		{ "mallory", &mallory, PREFIX "{}", PAWL_E_AUTH },
		{ "Anna", &anna, PREFIX "{}", PAWL_E_AUTH },
		{ "", &anna, PREFIX "{}", PAWL_E_AUTH },
		{ "anna", &anna, "pawl-entry/v1\n{}", PAWL_E_AUTH }, /* signed for something else */
		{ "anna", &anna, "{}", PAWL_E_AUTH },
		{ "anna", &anna, "", PAWL_E_AUTH },
	};
	struct folder f = folder_new();
	struct operators *ops;
	struct told told;
	uint8_t nonce[32];
	int64_t expires;

	(void)state;
	enrol(&f, "anna.vkey", &anna);
	enrol(&f, "berta.vkey", &berta);
	assert_int_equal(operators_new(&ops, NULL), 0);
	assert_int_equal(load(ops, &f, &told), 0);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		operators_nonce(ops, T0, nonce, &expires);
		if (present(ops, rows[i].name, nonce, rows[i].by, rows[i].text, T0) != rows[i].want)
			fail_msg("row %zu", i);
	}
	operators_free(ops);
	folder_done(&f);
}

static void a_revoked_key_is_gone_and_a_bad_file_changes_nothing(void **state)
{
	struct person anna = person_new("anna"), next = person_new("anna"), ben = person_new("ben");
	struct folder f = folder_new();
	struct operators *ops;
	struct told told;
	uint8_t nonce[32];
	int64_t expires;

	(void)state;
	enrol(&f, "anna.vkey", &anna);
	assert_int_equal(operators_new(&ops, NULL), 0);
	assert_int_equal(load(ops, &f, &told), 0);
	write_file(&f, "bad.vkey", "not a key\n", 10);
	assert_true(load(ops, &f, &told) < 0);
	assert_int_equal(told.enrolled + told.revoked, 0);
	operators_nonce(ops, T0, nonce, &expires);
	assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0), 0); /* the set is what it was */
	assert_int_equal(unlink(f.path[--f.n]), 0);

	f.n--;
	enrol(&f, "anna.vkey", &next); /* another key under the name: the old one is revoked */
	operators_nonce(ops, T0, nonce, &expires);
	assert_int_equal(load(ops, &f, &told), 0);
	assert_int_equal(told.enrolled, 1);
	assert_int_equal(told.revoked, 1);
	assert_int_equal(present(ops, "anna", nonce, &anna, PREFIX "{}", T0), PAWL_E_AUTH);
	operators_nonce(ops, T0, nonce, &expires);
	assert_int_equal(present(ops, "anna", nonce, &next, PREFIX "{}", T0), 0);

	/* a bad file lets nobody in beside it, and keeps nobody who was taken away */
	write_file(&f, "bad.vkey", "not a key\n", 10);
	assert_int_equal(unlink(f.path[f.n - 2]), 0);
	assert_true(load(ops, &f, &told) < 0);
	assert_int_equal(told.revoked, 1);
	assert_int_equal(operators_count(ops), 0);
	enrol(&f, "ben.vkey", &ben);
	assert_true(load(ops, &f, &told) < 0);
	assert_int_equal(told.enrolled, 0);
	assert_int_equal(operators_count(ops), 0);
	assert_int_equal(unlink(f.path[f.n - 1]), 0);
	assert_int_equal(unlink(f.path[f.n - 2]), 0);
	f.n -= 3;
	assert_int_equal(load(ops, &f, &told), 0);
	assert_int_equal(told.enrolled + told.revoked, 0);
	operators_free(ops);
	folder_done(&f);
}

/* Else the log would say that anna answered, with ben's signature. */
static void a_key_is_its_names_own(void **state)
{
	static const char *const files[] = { "anna.vkey", "Ben.vkey", "be.vkey", "benn.vkey" };
	struct person ben = person_new("ben");
	struct operators *ops;
	struct told told;

	(void)state;
	assert_int_equal(operators_new(&ops, NULL), 0);
	for (size_t i = 0; i < PAWL_LEN(files); i++) {
		struct folder f = folder_new();
		struct pawl_error err = { .code = PAWL_OK };

		enrol(&f, files[i], &ben);
		told = (struct told){ 0, 0 };
		assert_int_equal(operators_load(ops, f.dir, OWNER_NO_GROUP, tell, &told, &err), PAWL_E_KEY);
		assert_non_null(strstr(err.msg, files[i]));
		assert_non_null(strstr(err.msg, "the key inside is ben's"));
		assert_int_equal(told.enrolled + (int)operators_count(ops), 0);
		folder_done(&f);
	}
	operators_free(ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_nonce_is_good_once_and_for_a_minute),
		cmocka_unit_test(nobody_spoils_anothers_nonce),
		cmocka_unit_test(a_full_minute_takes_no_more),
		cmocka_unit_test(only_the_key_of_that_name_over_that_text),
		cmocka_unit_test(a_key_is_its_names_own),
		cmocka_unit_test(a_revoked_key_is_gone_and_a_bad_file_changes_nothing),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
