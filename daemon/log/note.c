/* daemon/log/note.c - see note.h. Formats only: owns no memory, keeps no secret, reads no file. What a reader could
 * take in two ways is refused, so that the bytes that verify are the only bytes that say what they say. */
#include "daemon/log/note.h"

#include "daemon/base/swar.h"

#include <sodium.h>

#define ENTRY_HEAD       "pawl-entry/v1\n"
#define DASH             "\xe2\x80\x94 " /* U+2014 and a space open every signature line */
#define NOTE_KEY_ED25519 0x01

/* libsodium 1.0.18 takes some bytes above 0x7f for digits, so its word alone is not enough: what was decoded must
 * encode to the same. */
bool b64_exact(struct str text, uint8_t *out, size_t out_n)
{
	char again[128];
	size_t n;
	bool ok;

	if (text.n != (out_n + 2) / 3 * 4 || text.n >= sizeof(again))
		return false;
	if (sodium_base642bin(out, out_n, text.p, text.n, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
	    n != out_n)
		return false;
	sodium_bin2base64(again, sizeof(again), out, out_n, sodium_base64_VARIANT_ORIGINAL);
	ok = sodium_memcmp(again, text.p, text.n) == 0;
	sodium_memzero(again, sizeof(again)); /* it may be a seed */
	return ok;
}

/* By a table: the time it takes tells what it reads. */
bool b64_public(struct str text, uint8_t *out, size_t out_n)
{
	/* One more than a digit's worth, 0 for what is none. */
	static const uint8_t worth[256] = {
		['+'] = 63, ['/'] = 64, ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,
		['A'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
		['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
	};
	const uint8_t *p = (const uint8_t *)text.p;
	size_t n = out_n;

	if (text.n != (out_n + 2) / 3 * 4)
		return false;
	for (; n >= 3; p += 4, out += 3, n -= 3) {
		unsigned a = worth[p[0]], b = worth[p[1]], c = worth[p[2]], d = worth[p[3]], v;

		if (!a || !b || !c || !d)
			return false;
		v = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
		out[0] = (uint8_t)(v >> 16);
		out[1] = (uint8_t)(v >> 8);
		out[2] = (uint8_t)v;
	}
	if (n) { /* one byte and "==", or two and "="; the bits between are zero */
		unsigned a = worth[p[0]], b = worth[p[1]], c = n == 2 ? worth[p[2]] : 1, v;

		if (!a || !b || !c || p[3] != '=' || (n == 1 && p[2] != '='))
			return false;
		v = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6;
		if (v & (n == 2 ? 0xffu : 0xffffu))
			return false;
		out[0] = (uint8_t)(v >> 16);
		if (n == 2)
			out[1] = (uint8_t)(v >> 8);
	}
	return true;
}

void buf_b64(struct buf *b, const uint8_t *p, size_t n)
{
	size_t len = (n + 2) / 3 * 4;
	char *out = buf_room(b, len + 1); /* libsodium ends the text with NUL */

	if (!out)
		return;
	sodium_bin2base64(out, len + 1, p, n, sodium_base64_VARIANT_ORIGINAL);
	b->n += len;
}

/* ---- names and keys ---- */

/* Unicode White_Space beyond ASCII, as UTF-8. A name that holds one reads as two words. */
static bool space_at(const unsigned char *p, size_t n)
{
	if (n >= 2 && p[0] == 0xc2)
		return p[1] == 0x85 || p[1] == 0xa0;
	if (n < 3)
		return false;
	if (p[0] == 0xe1)
		return p[1] == 0x9a && p[2] == 0x80;
	if (p[0] == 0xe2 && p[1] == 0x80)
		return p[2] <= 0x8a || p[2] == 0xa8 || p[2] == 0xa9 || p[2] == 0xaf;
	if (p[0] == 0xe2 && p[1] == 0x81)
		return p[2] == 0x9f;
	return p[0] == 0xe3 && p[1] == 0x80 && p[2] == 0x80;
}

bool note_name_ok(struct str name)
{
	const unsigned char *p = (const unsigned char *)name.p;

	if (name.n == 0 || name.n >= sizeof(((struct vkey *)0)->name) || !utf8_valid(name))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (p[i] <= 0x20 || p[i] == 0x7f || p[i] == '+' || space_at(p + i, name.n - i))
			return false;
	return true;
}

uint32_t vkey_id(const char *name, const uint8_t pub[static 32])
{
	static const uint8_t tail[2] = { '\n', NOTE_KEY_ED25519 };
	crypto_hash_sha256_state h;
	uint8_t d[32];

	crypto_hash_sha256_init(&h);
	crypto_hash_sha256_update(&h, (const uint8_t *)name, strlen(name));
	crypto_hash_sha256_update(&h, tail, sizeof(tail));
	crypto_hash_sha256_update(&h, pub, 32);
	crypto_hash_sha256_final(&h, d);
	return (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3];
}

static bool hex8(const char *p, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < 8; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			v = v << 4 | (uint32_t)(p[i] - '0');
		else if (p[i] >= 'a' && p[i] <= 'f')
			v = v << 4 | (uint32_t)(p[i] - 'a' + 10);
		else
			return false;
	}
	*ret = v;
	return true;
}

bool keyed_name_parse(struct str text, struct keyed_name *ret)
{
	const char *plus = text.n ? memchr(text.p, '+', text.n) : NULL;
	struct keyed_name k;
	uint8_t raw[33];
	size_t at;
	bool ok;

	if (!plus)
		return false;
	k.name = (struct str){ text.p, (size_t)(plus - text.p) };
	at = k.name.n + 1;
	if (!note_name_ok(k.name) || text.n != at + 8 + 1 + 44 || text.p[at + 8] != '+' || !hex8(text.p + at, &k.id))
		return false;
	ok = b64_exact((struct str){ text.p + at + 9, 44 }, raw, sizeof(raw)) && raw[0] == NOTE_KEY_ED25519;
	if (ok) {
		memcpy(k.bytes, raw + 1, 32);
		*ret = k;
		sodium_memzero(&k, sizeof(k));
	}
	sodium_memzero(raw, sizeof(raw));
	return ok;
}

void keyed_name_text(const char *name, uint32_t id, const uint8_t bytes[static 32], struct buf *out)
{
	uint8_t raw[33] = { NOTE_KEY_ED25519 };

	memcpy(raw + 1, bytes, 32);
	buf_puts(out, name);
	buf_printf(out, "+%08x+", id);
	buf_b64(out, raw, sizeof(raw));
	sodium_memzero(raw, sizeof(raw));
}

int vkey_parse(struct str text, struct vkey *ret, struct pawl_error *err)
{
	struct keyed_name k;
	struct vkey v = { .id = 0 };

	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	if (!keyed_name_parse(text, &k))
		return pawl_fail(err, PAWL_E_KEY, "not a verifier key (name+8 hex digits+base64 of 33 bytes)");
	memcpy(v.name, k.name.p, k.name.n);
	memcpy(v.pub, k.bytes, 32);
	v.id = vkey_id(v.name, v.pub);
	if (v.id != k.id)
		return pawl_fail(err, PAWL_E_KEY, "verifier key: the id is %08x but name and key give %08x", k.id,
				 v.id);
	*ret = v;
	return 0;
}

void vkey_text(const struct vkey *k, struct buf *out)
{
	keyed_name_text(k->name, k->id, k->pub, out);
}

/* ---- writing ---- */

void entry_prev_text(const uint8_t prev[static 32], char out[static ENTRY_PREV_TEXT])
{
	char t[ENTRY_PREV_TEXT + 1];

	sodium_bin2base64(t, sizeof(t), prev, 32, sodium_base64_VARIANT_ORIGINAL);
	memcpy(out, t, ENTRY_PREV_TEXT);
}

void entry_text(struct str origin, uint64_t seq, const uint8_t prev[static 32], struct str body, struct buf *out,
		size_t *ret_prev_at)
{
	char t[ENTRY_PREV_TEXT];

	buf_add(out, ENTRY_HEAD, sizeof(ENTRY_HEAD) - 1);
	buf_str_add(out, origin);
	buf_putc(out, '\n');
	buf_u64(out, seq);
	buf_putc(out, '\n');
	if (ret_prev_at)
		*ret_prev_at = out->n;
	entry_prev_text(prev, t);
	buf_add(out, t, sizeof(t));
	buf_putc(out, '\n');
	buf_str_add(out, body);
	buf_putc(out, '\n');
}

void note_sig_line(const char *name, uint32_t key_id, const uint8_t sig[static 64], struct buf *out)
{
	uint8_t raw[68] = { (uint8_t)(key_id >> 24), (uint8_t)(key_id >> 16), (uint8_t)(key_id >> 8), (uint8_t)key_id };

	memcpy(raw + 4, sig, 64);
	buf_putc(out, '\n');
	buf_add(out, DASH, sizeof(DASH) - 1);
	buf_puts(out, name);
	buf_putc(out, ' ');
	buf_b64(out, raw, sizeof(raw));
	buf_putc(out, '\n');
}

size_t entry_note_bytes(struct str origin, const char *key_name, size_t body_bytes)
{
	/* head, origin, 20 digits, chain, body: a \n after each; empty line, dash, name, space, signature, \n; base64's
	 * NUL */
	return sizeof(ENTRY_HEAD) - 1 + origin.n + 1 + 20 + 1 + ENTRY_PREV_TEXT + 1 + body_bytes + 1 + 1 +
	       sizeof(DASH) - 1 + strlen(key_name) + 1 + NOTE_SIG_TEXT + 1 + 1;
}

void entry_hash(struct str text, uint8_t out[static 32])
{
	crypto_hash_sha256(out, (const uint8_t *)text.p, text.n);
}

/* ---- reading ---- */

/* Takes one line off *rest, without its \n. */
static bool line_take(struct str *rest, struct str *ret)
{
	const char *nl = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;

	if (!nl)
		return false;
	*ret = (struct str){ rest->p, (size_t)(nl - rest->p) };
	rest->p = nl + 1;
	rest->n -= ret->n + 1;
	return true;
}

static bool decimal(struct str t, uint64_t *ret)
{
	uint64_t v = 0;

	if (t.n == 0 || t.n > 19 || (t.p[0] == '0' && t.n > 1))
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(t.p[i] - '0'); /* 19 digits fit */
	}
	if (v > INT64_MAX)
		return false;
	*ret = v;
	return true;
}

static bool no_control(struct str t)
{
	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] < 0x20 && t.p[i] != '\n')
			return false;
	return true;
}

/* Eight bytes at a time; only those that hold something odd are looked at one by one. */
static bool text_ok(struct str t)
{
	size_t i = 0, plain = t.n; /* plain: up to here all is ASCII */

	for (; t.n - i >= 8; i += 8) {
		uint64_t w = swar_load(t.p + i);

		if (swar_not_ascii(w) && plain == t.n)
			plain = i;
		if (swar_control(w) && !no_control((struct str){ t.p + i, 8 }))
			return false;
	}
	if (plain == t.n)
		plain = i;
	return no_control((struct str){ t.p + i, t.n - i }) && utf8_valid((struct str){ t.p + plain, t.n - plain });
}

static const char *sig_line(struct str line, struct entry_view *v)
{
	uint8_t raw[68];
	size_t at;

	if (line.n < sizeof(DASH) - 1 || memcmp(line.p, DASH, sizeof(DASH) - 1) != 0)
		return "no signature line";
	line.p += sizeof(DASH) - 1;
	line.n -= sizeof(DASH) - 1;
	if (line.n < NOTE_SIG_TEXT + 2 || line.p[line.n - NOTE_SIG_TEXT - 1] != ' ')
		return "signature line is not: name, space, 92 base64 characters";
	at = line.n - NOTE_SIG_TEXT;
	v->sig_name = (struct str){ line.p, at - 1 };
	if (!note_name_ok(v->sig_name))
		return "key name in the signature line";
	if (!b64_public((struct str){ line.p + at, NOTE_SIG_TEXT }, raw, sizeof(raw)))
		return "signature is not canonical base64";
	v->sig_id = (uint32_t)raw[0] << 24 | (uint32_t)raw[1] << 16 | (uint32_t)raw[2] << 8 | raw[3];
	memcpy(v->sig, raw + 4, 64);
	return NULL;
}

/* What is wrong, or NULL. */
static const char *view(struct str note, struct entry_view *v)
{
	struct str rest = note, head, seq, prev, blank, sig;

	if (note.n > PAWL_MAX_NOTE)
		return "longer than 65535 bytes";
	if (!text_ok(note))
		return "not UTF-8, or a control byte in it";
	if (!line_take(&rest, &head) || !str_is(head, "pawl-entry/v1"))
		return "first line is not pawl-entry/v1";
	if (!line_take(&rest, &v->origin) || v->origin.n > PAWL_MAX_ORIGIN || !note_name_ok(v->origin))
		return "origin (line 2)";
	if (!line_take(&rest, &seq) || !decimal(seq, &v->seq))
		return "sequence (line 3)";
	if (!line_take(&rest, &prev) || !b64_public(prev, v->prev, 32))
		return "hash of the entry before (line 4)";
	if (!line_take(&rest, &v->body) || v->body.n < 2 || v->body.p[0] != '{' || v->body.p[v->body.n - 1] != '}')
		return "body (line 5) is not a JSON object";
	v->text = (struct str){ note.p, (size_t)(rest.p - note.p) };
	if (!line_take(&rest, &blank) || blank.n != 0)
		return "no empty line before the signature";
	if (!line_take(&rest, &sig))
		return "no signature line";
	if (rest.n != 0)
		return "bytes after the signature line";
	return sig_line(sig, v);
}

int entry_view_parse(struct str note, struct entry_view *ret, struct pawl_error *err)
{
	struct entry_view v = { .seq = 0 };
	const char *wrong = view(note, &v);

	if (wrong)
		return pawl_fail(err, PAWL_E_MALFORMED, "not a signed entry: %s", wrong);
	*ret = v;
	return 0;
}

int entry_view_verify(const struct entry_view *v, const struct vkey *k, struct pawl_error *err)
{
	if (!str_is(v->sig_name, k->name) || v->sig_id != k->id)
		return pawl_fail(err, PAWL_E_KEY, "signed by %.*s+%08x, not by %s+%08x", STR_ARG(v->sig_name),
				 v->sig_id, k->name, k->id);
	if (crypto_sign_verify_detached(v->sig, (const uint8_t *)v->text.p, v->text.n, k->pub) != 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "the signature does not fit the text");
	return 0;
}
