/* tests/unit/test_verify.c - what an auditor is told about a log that somebody worked on: S10 (deletion is seen), S11
 * and U07 (what was signed is what is stored), cut head, cut tail, swap, edit, drop, insert, other origin, other key.
 * Never OK for any of them. */
#include "tests/support/log_fixture.h"

#include "daemon/log/crc32c.h"
#include "daemon/log/verify.h"

static char dir[64];
static struct sign_key *key, *thief;

#define FIRST       "journal-00000000000000000000"
#define LOG_ENTRIES 9

/* ---- a log as a list of entries that a test may rearrange, and the files that it makes ---- */

struct made {
	char *note[16];
	size_t n_note[16];
	size_t n;
};

static void made_add(struct made *m, struct buf *note)
{
	assert_true(m->n < 16);
	m->note[m->n] = buf_take(note, &m->n_note[m->n]);
	assert_non_null(m->note[m->n]);
	m->n++;
}

static void made_good(struct made *m, const struct sign_key *k, const char *origin)
{
	uint8_t prev[32] = { 0 };

	*m = (struct made){ .n = 0 };
	for (uint64_t i = 0; i < LOG_ENTRIES; i++) {
		struct buf b = BUF_MAX(65535);
		char body[64];

		(void)snprintf(body, sizeof(body), "{\"kind\":\"stop\",\"why\":\"%llu\"}", (unsigned long long)i);
		fx_entry(k, origin, i, prev, body, &b);
		made_add(m, &b);
	}
}

static void made_done(struct made *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->note[i]);
}

static void made_swap(struct made *m, size_t a, size_t b)
{
	char *t = m->note[a];
	size_t n = m->n_note[a];

	m->note[a] = m->note[b];
	m->n_note[a] = m->n_note[b];
	m->note[b] = t;
	m->n_note[b] = n;
}

static void made_drop(struct made *m, size_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(m->note[at + i]);
	for (size_t i = at + n; i < m->n; i++) {
		m->note[i - n] = m->note[i];
		m->n_note[i - n] = m->n_note[i];
	}
	m->n -= n;
}

/* The attacker's pen: framing, counts and CRCs all fit, whatever the entries are. */
static size_t frame(const struct made *m, const char *origin, uint64_t first, struct buf *out)
{
	uint8_t hash[32];

	crypto_hash_sha256(hash, (const uint8_t *)origin, strlen(origin));
	for (size_t i = 0; i < m->n; i += 3) {
		struct buf rec = BUF_MAX(1u << 20);
		struct str notes[3];
		size_t n = m->n - i < 3 ? m->n - i : 3;

		for (size_t k = 0; k < n; k++)
			notes[k] = (struct str){ m->note[i + k], m->n_note[i + k] };
		record_build(hash, first + i, notes, n, &rec);
		buf_str_add(out, buf_str(&rec));
		buf_done(&rec);
	}
	assert_true(buf_ok(out));
	return out->n;
}

static void wipe(void)
{
	fx_remove(dir);
	assert_int_equal(mkdir(dir, 0700), 0);
}

static void put(const struct made *m, const char *origin, uint64_t first)
{
	struct buf b = BUF_MAX(1u << 20);
	char name[32];

	wipe();
	frame(m, origin, first, &b);
	journal_segment_name(first, name);
	fx_write(dir, name, b.p, b.n, 0600);
	buf_done(&b);
}

static struct verify_report verify(const struct verify_anchor *anchor)
{
	struct verify_report rep;
	struct pawl_error err;

	if (log_verify(dir, sign_key_vkey(key), anchor, NULL, NULL, &rep, &err) < 0)
		fail_msg("%s", err.msg);
	return rep;
}

static void expect(const char *what, const struct verify_anchor *anchor, enum verify_status want)
{
	struct verify_report rep = verify(anchor);

	if (rep.status != want)
		fail_msg("%s: %s (%s), expected %s", what, verify_word(rep.status), rep.message, verify_word(want));
}

static struct verify_anchor anchor_of(const struct made *m, uint64_t seq)
{
	struct verify_anchor a = { .seq = seq };
	struct pawl_error err;
	struct entry_view v;

	assert_int_equal(entry_view_parse((struct str){ m->note[seq], m->n_note[seq] }, &v, &err), 0);
	entry_hash(v.text, a.hash);
	return a;
}

/* ---- outcomes, told apart ---- */

static void test_outcomes(void **state)
{
	struct verify_report rep;
	struct verify_anchor a, wrong;
	struct pawl_error err;
	struct made m;
	uint8_t *p;
	size_t n;

	(void)state;
	wipe();
	expect("empty folder", NULL, VERIFY_NOTHING);
	fx_write(dir, FIRST, "", 0, 0600);
	expect("empty segment", NULL, VERIFY_NOTHING);
	made_good(&m, key, FX_ORIGIN);
	a = anchor_of(&m, 5);
	expect("nothing, but 5 was known", &a, VERIFY_INCOMPLETE);
	put(&m, FX_ORIGIN, 0);
	rep = verify(NULL); /* U07, S11: what we write verifies */
	assert_int_equal(rep.status, VERIFY_NO_ANCHOR);
	assert_true(rep.entries == LOG_ENTRIES && rep.first_seq == 0 && rep.last_seq == LOG_ENTRIES - 1);
	assert_string_equal(rep.origin, FX_ORIGIN);
	wrong = anchor_of(&m, LOG_ENTRIES - 1);
	assert_memory_equal(wrong.hash, rep.last_hash, 32); /* what is printed is what can be given */
	expect("anchor at the end", &wrong, VERIFY_OK);
	expect("anchor inside", &a, VERIFY_OK);
	wrong = a;
	wrong.hash[31] ^= 1;
	expect("another history", &wrong, VERIFY_TAMPERED);
	wrong.seq = 9;
	expect("known to have been longer", &wrong, VERIFY_INCOMPLETE);
	assert_int_equal(log_verify("/nonexistent/pawl", sign_key_vkey(key), NULL, NULL, NULL, &rep, &err), PAWL_E_SYS);
	assert_int_equal(log_verify(dir, sign_key_vkey(thief), NULL, NULL, NULL, &rep, &err), 0);
	assert_int_equal(rep.status, VERIFY_WRONG_KEY);
	assert_non_null(strstr(rep.message, "f3794be2"));
	p = fx_read(dir, FIRST, &n); /* a torn tail */
	fx_write(dir, FIRST, p, n - 1, 0600);
	expect("torn", &a, VERIFY_INCOMPLETE);
	assert_true(verify(NULL).torn_bytes > 0);
	free(p);
	made_done(&m);
}

/* ---- a visitor of what is genuine ---- */

struct visits {
	uint64_t n, stop_at;
	enum pawl_err with;
};

static int visitor(void *arg, const struct entry_view *v, struct pawl_error *err)
{
	struct visits *seen = arg;

	assert_int_equal(v->seq, seen->n);
	if (seen->n++ == seen->stop_at)
		return pawl_fail(err, seen->with, "stopped by the visitor");
	return 0;
}

static void test_each(void **state)
{
	struct visits all = { .stop_at = 99 }, found = { .stop_at = 3, .with = PAWL_E_TAMPERED }, broken = { .stop_at = 3, .with = PAWL_E_NOMEM },
		      half = { .stop_at = 99 };
	struct verify_report rep;
	struct pawl_error err = { .code = PAWL_OK };
	struct made m;

	(void)state;
	made_good(&m, key, FX_ORIGIN);
	put(&m, FX_ORIGIN, 0);
	assert_int_equal(log_verify_each(dir, sign_key_vkey(key), visitor, NULL, &all, &rep, &err), 0);
	assert_true(all.n == LOG_ENTRIES && rep.status == VERIFY_NO_ANCHOR);
	assert_int_equal(log_verify_each(dir, sign_key_vkey(key), visitor, NULL, &found, &rep, &err), 0);
	assert_true(found.n == 4 && rep.status == VERIFY_TAMPERED && rep.bad_seq == 3 && strstr(rep.message, "entry 3: stopped by the visitor"));
	assert_int_equal(log_verify_each(dir, sign_key_vkey(key), visitor, NULL, &broken, &rep, &err), PAWL_E_NOMEM);
	assert_string_equal(err.msg, "stopped by the visitor");
	m.note[4][m.n_note[4] - 5] ^= 1; /* in the signature */
	put(&m, FX_ORIGIN, 0);
	assert_int_equal(log_verify_each(dir, sign_key_vkey(key), visitor, NULL, &half, &rep, &err), 0);
	assert_true(half.n == 4 && rep.status == VERIFY_TAMPERED && rep.bad_seq == 4); /* nothing that is not genuine is shown */
	made_done(&m);
}

/* The published vectors, as the journal file that another program wrote. */
static void test_vector(void **state)
{
	struct verify_report rep;
	struct pawl_error err;
	struct vkey k;

	(void)state;
	assert_int_equal(vkey_load("tests/vectors/log/entry.vkey", &k, &err), 0);
	assert_int_equal(log_verify("tests/vectors/log", &k, NULL, NULL, NULL, &rep, &err), 0);
	assert_int_equal(rep.status, VERIFY_NO_ANCHOR);
	assert_int_equal(rep.entries, 2);
}

/* ---- edits ---- */

/* Every byte of the file, changed without mending the CRC, and every byte of every note with it mended: never OK, with
 * or without anchor. */
static void test_every_byte(void **state)
{
	struct verify_anchor a;
	struct made m;
	uint8_t *p;
	size_t n;

	(void)state;
	made_good(&m, key, FX_ORIGIN);
	a = anchor_of(&m, LOG_ENTRIES - 1);
	put(&m, FX_ORIGIN, 0);
	p = fx_read(dir, FIRST, &n);
	for (size_t i = 0; i < n; i++) {
		struct verify_report rep;

		p[i] ^= (uint8_t)(1u << i % 8);
		fx_write(dir, FIRST, p, n, 0600);
		rep = verify(i % 2 ? &a : NULL);
		if (rep.status != VERIFY_TAMPERED && rep.status != VERIFY_INCOMPLETE)
			fail_msg("byte %zu: %s", i, verify_word(rep.status));
		p[i] ^= (uint8_t)(1u << i % 8);
	}
	free(p);
	for (size_t e = 0; e < m.n; e += 4) { /* the first, one inside, the last */
		for (size_t i = 0; i < m.n_note[e]; i++) {
			struct verify_report rep;

			m.note[e][i] = (char)(m.note[e][i] ^ (1 << i % 8));
			put(&m, FX_ORIGIN, 0);
			rep = verify(NULL);
			if (rep.status != VERIFY_TAMPERED || rep.bad_seq > e)
				fail_msg("entry %zu byte %zu: %s, %s", e, i, verify_word(rep.status), rep.message);
			m.note[e][i] = (char)(m.note[e][i] ^ (1 << i % 8));
		}
	}
	put(&m, FX_ORIGIN, 0);
	expect("as it was", &a, VERIFY_OK);
	made_done(&m);
}

/* S10 and its kin: the attacker can write files, not signatures. */
static void test_rearranged(void **state)
{
	struct verify_anchor a;
	struct made m, other;
	struct buf b = BUF_MAX(65535);
	uint8_t prev[32];

	(void)state;
	made_good(&m, key, FX_ORIGIN);
	a = anchor_of(&m, LOG_ENTRIES - 1);
	made_swap(&m, 3, 4);
	put(&m, FX_ORIGIN, 0);
	expect("swap", NULL, VERIFY_TAMPERED);
	made_swap(&m, 3, 4);

	made_drop(&m, 7, 2); /* cut tail, whole batches and a remade one */
	put(&m, FX_ORIGIN, 0);
	expect("cut tail, no anchor", NULL, VERIFY_NO_ANCHOR); /* cannot be known, and is called so */
	expect("cut tail", &a, VERIFY_INCOMPLETE);
	made_drop(&m, 2, 1);
	put(&m, FX_ORIGIN, 0);
	expect("dropped inside", NULL, VERIFY_TAMPERED);
	made_done(&m);

	made_good(&m, key, FX_ORIGIN);
	made_drop(&m, 0, 3);
	put(&m, FX_ORIGIN, 3);
	expect("cut head", NULL, VERIFY_INCOMPLETE);
	assert_int_equal(verify(NULL).first_seq, 3);
	put(&m, FX_ORIGIN, 0);
	expect("cut head, renamed and renumbered", NULL, VERIFY_TAMPERED);
	made_done(&m);

	made_good(&m, key, FX_ORIGIN); /* an entry again in a later place */
	free(m.note[8]);
	m.note[8] = strdup(m.note[2]);
	m.n_note[8] = m.n_note[2];
	put(&m, FX_ORIGIN, 0);
	expect("repeated", NULL, VERIFY_TAMPERED);
	made_done(&m);

	made_good(&m, key, FX_ORIGIN); /* an entry put in, well chained, signed by somebody else */
	memcpy(prev, anchor_of(&m, 7).hash, 32);
	fx_entry(thief, FX_ORIGIN, 8, prev, "{\"kind\":\"stop\",\"why\":\"8\"}", &b);
	made_drop(&m, 8, 1);
	made_add(&m, &b);
	put(&m, FX_ORIGIN, 0);
	expect("inserted with another key", NULL, VERIFY_TAMPERED);
	assert_int_equal(verify(NULL).bad_seq, 8);
	made_done(&m);

	made_good(&m, key, FX_ORIGIN); /* our own key, another log */
	made_good(&other, key, "example.com/other");
	free(m.note[5]);
	m.note[5] = strdup(other.note[5]);
	m.n_note[5] = other.n_note[5];
	put(&m, FX_ORIGIN, 0);
	expect("an entry of another log", NULL, VERIFY_TAMPERED);
	put(&other, FX_ORIGIN, 0);
	expect("batches name one log, entries another", NULL, VERIFY_TAMPERED);
	put(&other, "example.com/other", 0);
	expect("another whole log", &a, VERIFY_TAMPERED);
	made_done(&m);
	made_done(&other);

	made_good(&m, key,
		  FX_ORIGIN); /* rewritten and re-signed from entry 4 on with the stolen key: only an anchor shows it */
	memcpy(prev, anchor_of(&m, 3).hash, 32);
	made_drop(&m, 4, 5);
	for (uint64_t i = 4; i < LOG_ENTRIES; i++) {
		struct buf f = BUF_MAX(65535);

		fx_entry(key, FX_ORIGIN, i, prev, "{\"kind\":\"stop\",\"why\":\"forged\"}", &f);
		made_add(&m, &f);
	}
	put(&m, FX_ORIGIN, 0);
	expect("forged with the key, no anchor", NULL, VERIFY_NO_ANCHOR);
	expect("forged with the key", &a, VERIFY_TAMPERED);
	made_done(&m);
}

static void test_segments(void **state)
{
	struct buf one = BUF_MAX(1u << 20), two = BUF_MAX(1u << 20);
	uint8_t prev[32] = { 0 };
	uint64_t seq = 0;

	(void)state;
	wipe();
	fx_records(key, FX_ORIGIN, &seq, prev, 2, 3, &one);
	fx_records(key, FX_ORIGIN, &seq, prev, 2, 2, &two);
	fx_write(dir, FIRST, one.p, one.n, 0600);
	fx_write(dir, "journal-00000000000000000006", two.p, two.n, 0600);
	expect("two segments", NULL, VERIFY_NO_ANCHOR);
	assert_int_equal(verify(NULL).entries, 10);
	fx_write(dir, "journal-00000000000000000010", two.p, two.n, 0600);
	expect("a segment twice", NULL, VERIFY_TAMPERED);
	fx_write(dir, "journal-00000000000000000010", "", 0, 0600);
	expect("a fresh empty segment", NULL, VERIFY_NO_ANCHOR);
	fx_write(dir, "journal-00000000000000000011", "", 0, 0600);
	expect("a gap", NULL, VERIFY_TAMPERED);
	fx_write(dir, "journal-00000000000000000011.bak", "x", 1, 0600); /* no segment */
	fx_write(dir, "journal-spare", two.p, two.n, 0600);              /* what a repair left */
	char path[512];
	fx_path(dir, "journal-00000000000000000011", path);
	(void)unlink(path);
	expect("strangers in the folder", NULL, VERIFY_NO_ANCHOR);
	fx_path(dir, FIRST, path);
	(void)unlink(path);
	expect("first segment removed (U04)", NULL, VERIFY_INCOMPLETE);
	buf_done(&one);
	buf_done(&two);
}

/* ---- anchors as text ---- */

static void test_anchor_text(void **state)
{
#define HEX64 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{ "7:" HEX64, true },
		{ "7:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", true },
		{ "", false },
		{ ":", false },
		{ "7", false },
		{ "7:", false },
		{ ":" HEX64, false },
		{ "-1:" HEX64, false },
		{ "7x:" HEX64, false },
		{ " 7:" HEX64, false },
		{ "7:" HEX64 "0", false },
		{ "7:zz" HEX64, false },
		{ "7:g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", false },
		{ "9999999999999999999999:" HEX64, false },
		{ "7:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", false }, /* spare bits */
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct verify_anchor a;
		struct pawl_error err;
		int r = verify_anchor_parse(str_of(rows[i].text), &a, &err);

		if ((r == 0) != rows[i].good || (r < 0 && r != PAWL_E_USAGE))
			fail_msg("row %zu: %d", i, r);
		if (r == 0)
			assert_true(a.seq == 7 && a.hash[31] == 31);
	}
}

static int setup(void **state)
{
	struct pawl_error err;

	(void)state;
	fx_dir(dir);
	key = fx_key();
	return sign_key_new("example.com/pawl-test/entry", &thief, &err);
}

static int teardown(void **state)
{
	(void)state;
	fx_remove(dir);
	sign_key_free(key);
	sign_key_free(thief);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),       cmocka_unit_test(test_outcomes),   cmocka_unit_test(test_vector),   cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_rearranged), cmocka_unit_test(test_segments), cmocka_unit_test(test_anchor_text),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
