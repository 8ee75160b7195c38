/* tests/unit/test_note.c - signed entries and verifier keys: the published vectors, and every way to write them
 * wrongly. */
#include "tests/support/log_fixture.h"

#define VEC     "tests/vectors/log"
#define E0_HEAD "pawl-entry/v1\nexample.com/pawl-test\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
#define E0_BODY "{\"kind\":\"decision\",\"verdict\":\"allow\"}\n"
#define E0_NAME "\n\xe2\x80\x94 example.com/pawl-test/entry "
#define E0_SIG  "83lL4izHz4rltiFNC0+uIg/0regdl5ExfNWH9qvF3ko4TlXJeV9yxMQUcMnze43CGK2LPzo9oa6ICqJNrxvtCoSH7AU="
#define E0      E0_HEAD E0_BODY E0_NAME E0_SIG "\n"

static void test_vkey(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{ "example.com/pawl-test+2d368089+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4", true },
		{ FX_VKEY, true },
		{ FX_VKEY "\n", true },
		{ FX_VKEY "\n\n", false },
		{ FX_VKEY " ", false },
		{ "", false },
		{ "\n", false },
		{ "+", false },
		{ "example.com/pawl-test", false },
		{ "+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X", false },
		{ "example.com/pawl-test/entry+F3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X",
		  false }, /* upper case id */
		{ "example.com/pawl-test/entry+f3794be3+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X",
		  false }, /* other id */
		{ "example.com/pawl-test/entrx+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X",
		  false }, /* other name */
		{ "example.com/pawl-test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3Y",
		  false }, /* other key */
		{ "example.com/pawl-test/entry+f3794be2+BCmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X",
		  false }, /* type 4 */
		{ "example.com/pawl-test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC_4SyJeUvJMilm3X",
		  false }, /* URL alphabet */
		{ "example.com/pawl-test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm0=",
		  false }, /* short */
		{ "example.com/pawl test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X", false },
	};
	struct buf b = BUF_MAX(1024);
	struct pawl_error err;
	struct vkey k;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		int r = vkey_parse(str_of(rows[i].text), &k, &err);

		if ((r == 0) != rows[i].good || (r < 0 && r != PAWL_E_KEY))
			fail_msg("row %zu: %d", i, r);
		if (r < 0)
			continue;
		buf_reset(&b);
		vkey_text(&k, &b);
		assert_int_equal(strncmp(rows[i].text, b.p, b.n), 0);
	}
	buf_done(&b);
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool good;
	} rows[] = {
		{ "host.example/pawl/1", true },
		{ "h\xc3\xb6st", true },
		{ "", false },
		{ "a b", false },
		{ "a+b", false },
		{ "a\tb", false },
		{ "a\x7f", false },
		{ "a\xc2\xa0", false },
		{ "a\xc2\x85", false },
		{ "\xe1\x9a\x80", false },
		{ "\xe2\x80\x83x", false },
		{ "\xe2\x80\xa8", false },
		{ "\xe2\x81\x9f", false },
		{ "\xe3\x80\x80", false },
		{ "a\xff", false },
		{ "\xe2\x80\x94", true },
		{ "a\xe2\x80", false /* cut */ },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (note_name_ok(str_of(rows[i].name)) != rows[i].good)
			fail_msg("row %zu", i);
}

/* audit-format.md, the two entries: written by us byte for byte, read by us, leaf hashes as published. */
static void test_vectors(void **state)
{
	static const char *const leaf[] = { "2a7064893441e71789c7c9a824de4b3b557de60a8f2f1eca61d8023e523f6ff3",
					    "d8b240053b0d857cf676299db3f2e625df806e0611bf2767aa052646af636497" };
	static const char *const body[] = { "{\"kind\":\"decision\",\"verdict\":\"allow\"}",
					    "{\"kind\":\"decision\",\"verdict\":\"deny\"}" };
	struct sign_key *k = fx_key();
	uint8_t prev[32] = { 0 }, hash[32];
	struct pawl_error err;
	struct vkey pub;

	(void)state;
	assert_int_equal(vkey_load(VEC "/entry.vkey", &pub, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct buf made = BUF_MAX(65535), leaf_in = BUF_MAX(65536), hex = BUF_MAX(128);
		struct entry_view v;
		char name[32];
		uint8_t *want;
		size_t n;

		(void)snprintf(name, sizeof(name), "entry-%u.note", i);
		want = fx_read(VEC, name, &n);
		memcpy(hash, prev, 32);
		fx_entry(k, FX_ORIGIN, i, prev, body[i], &made);
		assert_int_equal(made.n, n);
		assert_memory_equal(made.p, want, n);
		assert_true(entry_note_bytes(STR(FX_ORIGIN), pub.name, strlen(body[i])) >= n);
		assert_int_equal(entry_view_parse(buf_str(&made), &v, &err), 0);
		assert_int_equal(entry_view_verify(&v, &pub, &err), 0);
		assert_int_equal(v.seq, i);
		assert_true(str_is(v.body, body[i]) && str_is(v.origin, FX_ORIGIN));
		assert_memory_equal(v.prev, hash, 32);
		buf_putc(&leaf_in, '\0');
		buf_str_add(&leaf_in, buf_str(&made));
		entry_hash(buf_str(&leaf_in), hash);
		buf_hex(&hex, hash, 32);
		assert_true(str_is(buf_str(&hex), leaf[i]));
		buf_done(&made);
		buf_done(&leaf_in);
		buf_done(&hex);
		free(want);
	}
	sign_key_free(k);
}

static void test_malformed(void **state)
{
	static const struct {
		const char *what, *text;
	} rows[] = {
		{ "empty", "" },
		{ "head",
		  "pawl-entry/v2\nexample.com/pawl-test\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY
		      E0_NAME E0_SIG "\n" },
		{ "no last \\n", E0_HEAD E0_BODY E0_NAME E0_SIG },
		{ "text after", E0 "x\n" },
		{ "empty line after", E0 "\n" },
		{ "two signatures",
		  E0_HEAD E0_BODY E0_NAME E0_SIG "\n\xe2\x80\x94 example.com/pawl-test/entry " E0_SIG "\n" },
		{ "no signature", E0_HEAD E0_BODY "\n" },
		{ "no empty line", E0_HEAD E0_BODY "\xe2\x80\x94 example.com/pawl-test/entry " E0_SIG "\n" },
		{ "two empty lines", E0_HEAD E0_BODY "\n" E0_NAME E0_SIG "\n" },
		{ "hyphen for dash", E0_HEAD E0_BODY "\n- example.com/pawl-test/entry " E0_SIG "\n" },
		{ "no name", E0_HEAD E0_BODY "\n\xe2\x80\x94  " E0_SIG "\n" },
		{ "two spaces", E0_HEAD E0_BODY "\n\xe2\x80\x94 a  " E0_SIG "\n" },
		{ "plus in the name", E0_HEAD E0_BODY "\n\xe2\x80\x94 a+b " E0_SIG "\n" },
		{ "spare bits set", E0_HEAD E0_BODY E0_NAME
		  "83lL4izHz4rltiFNC0+uIg/0regdl5ExfNWH9qvF3ko4TlXJeV9yxMQUcMnze43CGK2LPzo9oa6ICqJNrxvtCoSH7AV=\n" },
		{ "bytes that libsodium takes for digits",
		  E0_HEAD E0_BODY E0_NAME "83lL4izHz4rltiFNC0+u\xc9\xba/"
					  "0regdl5ExfNWH9qvF3ko4TlXJeV9yxMQUcMnze43CGK2LPzo9oa6ICqJNrxvtCoSH7AU=\n" },
		{ "no padding", E0_HEAD E0_BODY E0_NAME
		  "83lL4izHz4rltiFNC0+uIg/0regdl5ExfNWH9qvF3ko4TlXJeV9yxMQUcMnze43CGK2LPzo9oa6ICqJNrxvtCoSH7AU\n" },
		{ "chain spare bits",
		  "pawl-entry/v1\nexample.com/pawl-test\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=\n" E0_BODY
		      E0_NAME E0_SIG "\n" },
		{ "chain short", "pawl-entry/v1\nexample.com/pawl-test\n0\nAAAA\n" E0_BODY E0_NAME E0_SIG "\n" },
		{ "leading zero",
		  "pawl-entry/v1\nexample.com/pawl-test\n00\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY
		      E0_NAME E0_SIG "\n" },
		{ "sign",
		  "pawl-entry/v1\nexample.com/pawl-test\n+0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY
		      E0_NAME E0_SIG "\n" },
		{ "2^63",
		  "pawl-entry/v1\nexample.com/"
		  "pawl-test\n9223372036854775808\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY E0_NAME
		      E0_SIG "\n" },
		{ "20 digits",
		  "pawl-entry/v1\nexample.com/"
		  "pawl-test\n18446744073709551617\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY E0_NAME
		      E0_SIG "\n" },
		{ "no sequence",
		  "pawl-entry/v1\nexample.com/pawl-test\n\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY
		      E0_NAME E0_SIG "\n" },
		{ "no origin",
		  "pawl-entry/v1\n\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY E0_NAME E0_SIG "\n" },
		{ "origin with a space",
		  "pawl-entry/v1\na b\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY E0_NAME E0_SIG "\n" },
		{ "body is no object", E0_HEAD "[]\n" E0_NAME E0_SIG "\n" },
		{ "body empty", E0_HEAD "\n" E0_NAME E0_SIG "\n" },
		{ "body in two lines (U14)", E0_HEAD "{\"a\":\n1}\n" E0_NAME E0_SIG "\n" },
		{ "CR",
		  "pawl-entry/v1\r\nexample.com/pawl-test\n0\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" E0_BODY
		      E0_NAME E0_SIG "\n" },
		{ "tab in the body", E0_HEAD "{\"a\":\t1}\n" E0_NAME E0_SIG "\n" },
		{ "not UTF-8", E0_HEAD "{\"a\":\"\xff\"}\n" E0_NAME E0_SIG "\n" },
		{ "surrogate", E0_HEAD "{\"a\":\"\xed\xa0\x80\"}\n" E0_NAME E0_SIG "\n" },
	};
	struct pawl_error err;
	struct entry_view v;
	char *big;
	size_t n;

	(void)state;
	assert_int_equal(entry_view_parse(STR(E0), &v, &err), 0);
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (entry_view_parse(str_of(rows[i].text), &v, &err) != PAWL_E_MALFORMED)
			fail_msg("%s was taken", rows[i].what);
	assert_int_equal(entry_view_parse((struct str){ E0, sizeof(E0) }, &v, &err),
			 PAWL_E_MALFORMED);  /* NUL at the end */
	for (n = 0; n < sizeof(E0) - 1; n++) /* every prefix */
		assert_int_equal(entry_view_parse((struct str){ E0, n }, &v, &err), PAWL_E_MALFORMED);
	big = malloc(70000);
	assert_non_null(big);
	for (size_t body = 65535 - sizeof(E0) - 100; body < 65600; body += 1) { /* 65535 bytes is the last that goes */
		size_t at = sizeof(E0_HEAD) - 1;

		memcpy(big, E0_HEAD, at);
		memset(big + at, ' ', body);
		big[at] = '{';
		big[at + body - 1] = '}';
		big[at + body] = '\n';
		memcpy(big + at + body + 1, E0_NAME E0_SIG "\n", sizeof(E0_NAME E0_SIG));
		n = at + body + 1 + sizeof(E0_NAME E0_SIG);
		assert_int_equal(entry_view_parse((struct str){ big, n }, &v, &err), n <= 65535 ? 0 : PAWL_E_MALFORMED);
	}
	free(big);
}

/* Whatever single byte is changed, to whatever value: not an entry, another key, or a bad signature. */
static void test_every_byte(void **state)
{
	char note[] = E0;
	struct pawl_error err;
	struct entry_view v;
	struct vkey k;

	(void)state;
	assert_int_equal(vkey_parse(STR(FX_VKEY), &k, &err), 0);
	for (size_t i = 0; i < sizeof(E0) - 1; i++) {
		for (unsigned x = 1; x < 256; x += x < 4 ? 1 : 7) {
			note[i] = (char)((unsigned char)E0[i] ^ x);
			if (entry_view_parse(STR(note), &v, &err) == 0 && entry_view_verify(&v, &k, &err) == 0)
				fail_msg("byte %zu ^ %02x still verifies", i, x);
		}
		note[i] = E0[i];
	}
	assert_int_equal(entry_view_parse(STR(note), &v, &err), 0);
	assert_int_equal(entry_view_verify(&v, &k, &err), 0);
}

/* The quick reader takes what the careful one takes, and makes the same of it: any bytes where digits belong, near misses of each length. */
static void test_two_readers_of_base64(void **state)
{
	static const char near[] = "+/=AZaz09-_ \n";
	uint64_t taken = 0;

	(void)state;
	for (uint32_t i = 0; i < 400000; i++) {
		uint8_t raw[70], one[70], two[70];
		size_t n = i % 68;
		char text[100];
		bool good;

		randombytes_buf(raw, sizeof(raw));
		if (i % 5 == 0)
			memset(raw, 0, sizeof(raw));
		sodium_bin2base64(text, sizeof(text), raw, n, sodium_base64_VARIANT_ORIGINAL);
		if (i % 3 && text[0])
			text[raw[68] % strlen(text)] = i % 2 ? (char)raw[69] : near[raw[69] % (sizeof(near) - 1)];
		good = b64_exact((struct str){ text, (n + 2) / 3 * 4 }, one, n);
		taken += good;
		if (b64_public((struct str){ text, (n + 2) / 3 * 4 }, two, n) != good || (good && memcmp(one, two, n) != 0))
			fail_msg("\"%s\": the careful reader says %d", text, good);
		assert_false(n && b64_public((struct str){ text, (n + 2) / 3 * 4 }, two, n + 3));
	}
	assert_in_range(taken, 100000, 399999); /* neither was every text good nor none */
}

/* A byte that no text may hold, at every place of an entry's body: what is looked at eight at a time is looked at whole. */
static void test_control_bytes(void **state)
{
	static const unsigned char bad[] = { 0, 1, 8, 9, 11, 13, 27, 31, 0x80, 0xbf, 0xc0, 0xff };
	struct pawl_error err;
	struct entry_view v;
	char note[400];

	(void)state;
	for (size_t len = 0; len < 40; len++) {
		int n = snprintf(note, sizeof(note), E0_HEAD "{\"a\":\"%.*s\"}\n" E0_NAME E0_SIG "\n", (int)len,
				 "0123456789012345678901234567890123456789");
		size_t from = sizeof(E0_HEAD) - 1 + 6;

		assert_int_equal(entry_view_parse((struct str){ note, (size_t)n }, &v, &err), 0);
		for (size_t at = from; at < from + len; at++)
			for (size_t k = 0; k < sizeof(bad); k++) {
				char was = note[at];

				note[at] = (char)bad[k];
				if (entry_view_parse((struct str){ note, (size_t)n }, &v, &err) == 0)
					fail_msg("%zu bytes, byte %zu is %02x", len, at - from, bad[k]);
				note[at] = 0x7f; /* and what one may */
				assert_int_equal(entry_view_parse((struct str){ note, (size_t)n }, &v, &err), 0);
				note[at] = was;
			}
	}
}

/* Written, read back, the same; for bodies with every kind of character (U07: the signed bytes are the stored bytes).
 */
static void test_round_trip(void **state)
{
	static const char *const bodies[] = { "{}", "{\"a\":\"\xc3\xa9\xe2\x80\xa8\\u0000\\n\"}",
					      "{\"t\":\"2026-11-29T18:41:10.123456789Z\"}",
					      "{\"n\":-9223372036854775808,\"m\":0.1,\"z\":null,\"b\":[true,false]}" };
	static const uint64_t seqs[] = { 0, 1, 9, 10, 4294967296, INT64_MAX };
	struct sign_key *k = fx_key();

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bodies) * PAWL_LEN(seqs); i++) {
		const char *body = bodies[i % PAWL_LEN(bodies)];
		uint64_t seq = seqs[i / PAWL_LEN(bodies)];
		struct buf b = BUF_MAX(65535);
		uint8_t prev[32], first[32], hash[32];
		struct pawl_error err;
		struct entry_view v;

		memset(prev, (int)i, 32);
		memcpy(first, prev, 32);
		fx_entry(k, FX_ORIGIN, seq, prev, body, &b);
		assert_int_equal(entry_view_parse(buf_str(&b), &v, &err), 0);
		assert_int_equal(entry_view_verify(&v, sign_key_vkey(k), &err), 0);
		assert_true(v.seq == seq && str_is(v.body, body));
		assert_memory_equal(v.prev, first, 32);
		entry_hash(v.text, hash);
		assert_memory_equal(hash, prev, 32);
		buf_done(&b);
	}
	sign_key_free(k);
}

static void test_other_key(void **state)
{
	struct pawl_error err;
	struct entry_view v;
	struct sign_key *other;

	(void)state;
	assert_int_equal(sign_key_new("example.com/pawl-test/entry", &other, &err), 0);
	assert_int_equal(entry_view_parse(STR(E0), &v, &err), 0);
	assert_int_equal(entry_view_verify(&v, sign_key_vkey(other), &err), PAWL_E_KEY);
	sign_key_free(other);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vkey),      cmocka_unit_test(test_names),      cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_every_byte), cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_other_key), cmocka_unit_test(test_two_readers_of_base64), cmocka_unit_test(test_control_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
