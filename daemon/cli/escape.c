/* daemon/cli/escape.c - see escape.h. The list says what may pass, not what may not: a new trick of Unicode is escaped
 * unseen. */
#include "daemon/cli/escape.h"

#include <sodium.h>
#include <stdlib.h>
#include <strings.h>

struct range {
	uint32_t from, to;
};

/* Letters that nobody takes for ASCII. Left out on purpose: dotless i, kra, long s, ligatures of i and j, the middle
 * dot. */
static const struct range plain[] = {
	{ 0xa3, 0xa3 },     { 0xa5, 0xa5 },     { 0xa7, 0xa7 },     { 0xb0, 0xb0 },     { 0xc0, 0xd6 },
	{ 0xd8, 0xf6 },     { 0xf8, 0xff },     { 0x100, 0x130 },   { 0x134, 0x137 },   { 0x139, 0x13e },
	{ 0x141, 0x148 },   { 0x14a, 0x17e },   { 0x20ac, 0x20ac }, { 0x3041, 0x3096 }, { 0x30a1, 0x30fa },
	{ 0x4e00, 0x9fff }, { 0xac00, 0xd7a3 },
};

/* Inside those: strokes that pass for - / | , = + and I. */
static const uint32_t strokes[] = { 0x30a8, 0x30ce, 0x4e00, 0x4e28, 0x4e36, 0x4e3f, 0x4e85, 0x4e8c, 0x5341, 0x5de5 };

/* What has no ink, or turns the ink of others. Told apart from the merely rare only for the mark. */
static const struct range hidden[] = {
	{ 0xa0, 0xa0 },     { 0xad, 0xad },     { 0x300, 0x36f },     { 0x61c, 0x61c },     { 0x115f, 0x1160 },
	{ 0x17b4, 0x17b5 }, { 0x180b, 0x180f }, { 0x2000, 0x200f },   { 0x2028, 0x202f },   { 0x205f, 0x206f },
	{ 0x2800, 0x2800 }, { 0x3000, 0x3000 }, { 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
	{ 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

static bool in(const struct range *r, size_t n, uint32_t cp)
{
	for (size_t i = 0; i < n; i++)
		if (cp >= r[i].from && cp <= r[i].to)
			return true;
	return false;
}

static bool is_plain(uint32_t cp)
{
	for (size_t i = 0; i < PAWL_LEN(strokes); i++)
		if (cp == strokes[i])
			return false;
	return in(plain, PAWL_LEN(plain), cp);
}

enum escape_mode escape_mode_of(const char *locale)
{
	const char *dot = locale ? strchr(locale, '.') : NULL;

	return dot && (strncasecmp(dot + 1, "UTF-8", 5) == 0 || strncasecmp(dot + 1, "UTF8", 4) == 0) ? ESCAPE_UTF8
												      : ESCAPE_ASCII;
}

enum escape_mode escape_mode_here(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < PAWL_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (v && *v)
			return escape_mode_of(v);
	}
	return ESCAPE_ASCII;
}

/* Bytes of the character at p, 0 when it is no UTF-8 (overlong, surrogate, above U+10FFFF, cut). */
static size_t decode(const unsigned char *p, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = p[0] < 0x80                   ? 1
		     : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		     : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
		     : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
						   : 0;
	uint32_t cp = len > 1 ? p[0] & (0xffu >> (len + 1)) : p[0];

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3fu);
	}
	if (cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	*ret = cp;
	return len;
}

static void one(struct buf *out, struct str s, uint32_t cp, enum escape_mode mode, char quote, struct escape_seen *seen)
{
	if (cp == '\\' || (quote && cp == (unsigned char)quote)) {
		buf_putc(out, '\\');
		buf_str_add(out, s);
	} else if ((cp >= 0x20 && cp < 0x7f) || (mode == ESCAPE_UTF8 && is_plain(cp))) {
		buf_str_add(out, s);
	} else {
		buf_printf(out, "\\u{%x}", cp);
		if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
			seen->control++;
		else if (in(hidden, PAWL_LEN(hidden), cp))
			seen->hidden++;
		else if (!is_plain(cp))
			seen->rare++;
	}
}

void escape_text(struct buf *out, struct str s, enum escape_mode mode, char quote, struct escape_seen *seen)
{
	struct escape_seen unused = { 0 };
	const unsigned char *p = (const unsigned char *)s.p;
	size_t n, i = 0;
	uint32_t cp = 0;

	if (!seen)
		seen = &unused;
	if (quote)
		buf_putc(out, quote);
	for (; i < s.n; i += n) {
		n = decode(p + i, s.n - i, &cp);
		if (n) {
			one(out, (struct str){ s.p + i, n }, cp, mode, quote, seen);
			continue;
		}
		buf_printf(out, "\\x{%02x}", p[i]);
		seen->invalid++;
		n = 1;
	}
	if (quote)
		buf_putc(out, quote);
}

bool escape_cut(struct buf *out, struct str s, size_t max, enum escape_mode mode, struct escape_seen *seen)
{
	uint8_t hash[crypto_hash_sha256_BYTES];
	size_t head = max - max / 4, tail = s.n - max / 4;

	if (s.n <= max) {
		escape_text(out, s, mode, '"', seen);
		return false;
	}
	while (head > 0 && ((unsigned char)s.p[head] & 0xc0) == 0x80)
		head--;
	while (tail < s.n && ((unsigned char)s.p[tail] & 0xc0) == 0x80)
		tail++;
	/* the end is shown too: a harmless beginning is the first thing that a cut would be used for */
	escape_text(out, (struct str){ s.p, head }, mode, '"', seen);
	buf_puts(out, " ... ");
	escape_text(out, (struct str){ s.p + tail, s.n - tail }, mode, '"', seen);
	(void)crypto_hash_sha256(hash, (const uint8_t *)s.p, s.n);
	buf_printf(out, " (cut: %zu bytes, SHA-256 ", s.n);
	buf_hex(out, hash, sizeof(hash));
	buf_putc(out, ')');
	return true;
}

void escape_json(struct buf *out, struct str text)
{
	const unsigned char *p = (const unsigned char *)text.p;
	size_t n, i = 0;
	uint32_t cp = 0;

	for (; i < text.n; i += n) {
		n = decode(p + i, text.n - i, &cp);
		if (n == 0) {
			buf_puts(out, "\\ufffd"); /* a parsed reply has none */
			n = 1;
		} else if (cp >= 0x20 && cp < 0x7f) {
			buf_putc(out, (char)cp);
		} else if (cp == '\n' || cp == '\t' || cp == '\r') {
			buf_putc(out, ' '); /* white space between values; inside a text it was escaped already */
		} else if (cp < 0x10000) {
			buf_printf(out, "\\u%04x", cp);
		} else {
			buf_printf(out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10), 0xdc00 + (cp & 0x3ff));
		}
	}
}

bool escape_any(const struct escape_seen *seen)
{
	return seen->control || seen->hidden || seen->rare || seen->invalid;
}

void escape_summary(const struct escape_seen *seen, struct buf *out)
{
	const struct {
		size_t n;
		const char *what;
	} rows[] = { { seen->control, "control" },
		     { seen->hidden, "hidden or turning" },
		     { seen->rare, "look-alike or rare" },
		     { seen->invalid, "not UTF-8" } };
	const char *comma = "";

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		if (rows[i].n == 0)
			continue;
		buf_printf(out, "%s%zu %s", comma, rows[i].n, rows[i].what);
		comma = ", ";
	}
}

size_t escape_piece(struct str s, size_t *ret_columns)
{
	const unsigned char *p = (const unsigned char *)s.p;
	uint32_t cp = 0;
	size_t n = decode(p, s.n, &cp);

	*ret_columns = cp >= 0x1100 ? 2 : 1;
	if (p[0] == '\\' && s.n > 2 && (p[1] == 'u' || p[1] == 'x') && p[2] == '{') {
		for (n = 3; n < s.n && n < 12 && p[n - 1] != '}';)
			n++;
		*ret_columns = n;
	} else if (p[0] == '\\' && s.n > 1) {
		n = *ret_columns = 2;
	}
	return n ? n : 1;
}
