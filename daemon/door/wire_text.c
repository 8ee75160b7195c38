/* daemon/door/wire_text.c - request fields that are texts: names, ids, digits, amounts, spans; and a peer's text in our
 * messages. Pure. Borrows the document; writes one value at the row's offset, or nothing. */
#include "daemon/door/wire_field.h"

#include "daemon/log/entry.h"
#include "policy/money.h"

#include <stdio.h>

/* One code point of valid UTF-8. */
static unsigned code_point(struct str s, size_t *i)
{
	unsigned c = (unsigned char)s.p[(*i)++], more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;

	c &= more ? 0x3fu >> more : 0x7fu;
	for (; more && *i < s.n; more--)
		c = c << 6 | ((unsigned char)s.p[(*i)++] & 0x3fu);
	return c;
}

const char *wire_quote(struct str s, char out[static WIRE_QUOTE])
{
	size_t w = 0, i = 0;

	while (i < s.n && w < WIRE_QUOTE - 16) {
		unsigned c = code_point(s, &i);

		if (c == '"' || c == '\\')
			w += (size_t)snprintf(out + w, WIRE_QUOTE - w, "\\%c", c);
		else if (c >= 0x20 && c < 0x7f)
			out[w++] = (char)c;
		else
			w += (size_t)snprintf(out + w, WIRE_QUOTE - w, "\\u{%x}", c);
	}
	(void)snprintf(out + w, WIRE_QUOTE - w, "%s", i < s.n ? "..." : "");
	return out;
}

static bool has_control(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return true;
	return false;
}

int wire_check_text(struct wire_reader *r, struct str name, struct str t, size_t min, size_t max)
{
	char shown[WIRE_QUOTE];

	if (t.n < min)
		return wire_bad(r, name, "must not be empty");
	if (t.n > max)
		return wire_bad(r, name, "too long: %zu bytes, at most %zu: \"%s\"", t.n, max, wire_quote(t, shown));
	if (has_control(t))
		return wire_bad(r, name, "a control character in \"%s\"", wire_quote(t, shown));
	return 0;
}

static int read_text(struct wire_reader *r, const struct wire_field *f, struct str t, struct str *ret)
{
	int got = wire_check_text(r, f->name, t, f->type == WIRE_TEXT, (size_t)f->max);

	if (got == 0)
		*ret = t;
	return got;
}

static int read_path(struct wire_reader *r, const struct wire_field *f, struct str t, struct str *ret)
{
	char shown[WIRE_QUOTE];

	if (t.n == 0 || t.p[0] != '/')
		return wire_bad(r, f->name, "not an absolute path: \"%s\"", wire_quote(t, shown));
	if (t.n > (size_t)f->max)
		return wire_bad(r, f->name, "too long: %zu bytes, at most %zu", t.n, (size_t)f->max);
	*ret = t;
	return 0;
}

static bool tool_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_.:/-", c));
}

static int read_tool(struct wire_reader *r, const struct wire_field *f, struct str t, struct str *ret)
{
	char shown[WIRE_QUOTE];

	if (t.n == 0 || t.n > PAWL_MAX_TOOL)
		return wire_bad(r, f->name, "a tool name has 1 to %d bytes, not %zu: \"%s\"", PAWL_MAX_TOOL, t.n,
				wire_quote(t, shown));
	for (size_t i = 0; i < t.n; i++)
		if (!tool_byte(t.p[i])) /* look-alike letters are refused, not guessed at */
			return wire_bad(r, f->name, "a tool name has only the characters a-z 0-9 _ . : / -: \"%s\"",
					wire_quote(t, shown));
	*ret = t;
	return 0;
}

static int read_id(struct wire_reader *r, const struct wire_field *f, struct str t, uint64_t *ret)
{
	char shown[WIRE_QUOTE];

	if (id_parse(t, f->letter, ret) < 0)
		return wire_bad(r, f->name, "not an id such as %c_12: \"%s\"", f->letter, wire_quote(t, shown));
	return 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Its message does not quote the text: it may be a token. */
static int read_hex(struct wire_reader *r, const struct wire_field *f, struct str t, uint8_t *out)
{
	size_t n = (size_t)f->max;
	uint8_t v[64];

	if (t.n != 2 * n)
		return wire_bad(r, f->name, "must be %zu hexadecimal digits, not %zu bytes", 2 * n, t.n);
	for (size_t i = 0; i < n; i++) {
		int hi = hex_digit(t.p[2 * i]), lo = hex_digit(t.p[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return wire_bad(r, f->name, "must be %zu hexadecimal digits in lower case", 2 * n);
		v[i] = (uint8_t)(hi << 4 | lo);
	}
	memcpy(out, v, n);
	return 0;
}

static int read_word(struct wire_reader *r, const struct wire_field *f, struct str t, unsigned *ret)
{
	char shown[WIRE_QUOTE], list[96] = "";
	size_t w = 0;

	for (unsigned i = 0; i < f->n; i++)
		if (f->words[i] && str_is(t, f->words[i])) {
			*ret = i;
			return 0;
		}
	for (size_t i = 0; i < f->n; i++)
		if (f->words[i] && w < sizeof(list))
			w += (size_t)snprintf(list + w, sizeof(list) - w, "%s%s", w ? ", " : "", f->words[i]);
	return wire_bad(r, f->name, "must be one of %s, not \"%s\"", list, wire_quote(t, shown));
}

static int read_money(struct wire_reader *r, const struct wire_field *f, struct str t, int64_t *ret)
{
	struct pawl_error why;

	if (money_parse(t, f->type == WIRE_MONEY_UP ? MONEY_UP : MONEY_EXACT, ret, &why) < 0)
		return wire_bad(r, f->name, "%s", why.msg);
	return 0;
}

/* An amount, or a share of what the parent has left: the row's offset is the amount's. */
static int read_share(struct wire_reader *r, const struct wire_field *f, struct str t, int64_t *ret)
{
	struct request_open *open = &r->rq->open;
	char shown[WIRE_QUOTE];
	int64_t v = 0;

	if (t.n == 0 || t.p[t.n - 1] != '%') {
		int got = read_money(r, f, t, ret);

		open->has_limit[UNIT_MONEY] = got == 0;
		return got;
	}
	for (size_t i = 0; i + 1 < t.n && v <= 100; i++)
		v = t.p[i] < '0' || t.p[i] > '9' || (i == 0 && t.p[i] == '0') ? 101 : v * 10 + (t.p[i] - '0');
	if (v < 1 || v > 100)
		return wire_bad(r, f->name, "a share is 1%% to 100%%, without decimals: \"%s\"", wire_quote(t, shown));
	open->share_percent = v;
	return 0;
}

static int read_span(struct wire_reader *r, const struct wire_field *f, struct str t, int64_t *ret)
{
	char shown[WIRE_QUOTE], most[MONEY_TEXT];
	struct pawl_error why;
	int64_t v;

	if (span_parse(t, &v, &why) < 0)
		return wire_bad(r, f->name, "%s", why.msg);
	if (v < f->min)
		return wire_bad(r, f->name, "must be more than 0s, not \"%s\"", wire_quote(t, shown));
	if (v > f->max) {
		(void)span_text(f->max, most);
		return wire_bad(r, f->name, "must be at most %s, not \"%s\"", most, wire_quote(t, shown));
	}
	*ret = v;
	return 0;
}

static int read_currency(struct wire_reader *r, const struct wire_field *f, struct str t)
{
	char shown[WIRE_QUOTE];

	if (!str_eq(t, r->currency))
		return wire_bad(r, f->name, "this policy counts in %.*s, not in \"%s\"", STR_ARG(r->currency),
				wire_quote(t, shown));
	return 0;
}

int wire_read_string(struct wire_reader *r, const struct wire_field *f, const struct json *v, void *at)
{
	struct str t = json_string(v);

	if (json_kind(v) != JSON_KIND_STRING) /* an amount as a JSON number would have been a double on the way */
		return wire_bad_kind(r, f->name,
				     f->type == WIRE_MONEY || f->type == WIRE_MONEY_UP || f->type == WIRE_SHARE
					 ? "decimal text such as \"0.25\""
					 : "a text",
				     v);
	switch (f->type) {
	case WIRE_TEXT:
	case WIRE_NOTE:
		return read_text(r, f, t, at);
	case WIRE_PATH:
		return read_path(r, f, t, at);
	case WIRE_TOOL:
		return read_tool(r, f, t, at);
	case WIRE_ID:
		return read_id(r, f, t, at);
	case WIRE_HEX:
		return read_hex(r, f, t, at);
	case WIRE_WORD:
		return read_word(r, f, t, at);
	case WIRE_SPAN:
		return read_span(r, f, t, at);
	case WIRE_MONEY:
	case WIRE_MONEY_UP:
		return read_money(r, f, t, at);
	case WIRE_SHARE:
		return read_share(r, f, t, at);
	case WIRE_CURRENCY:
		return read_currency(r, f, t);
	case WIRE_VERSION:
	case WIRE_SEEN:
	case WIRE_INT:
	case WIRE_TOKENS:
	case WIRE_ARGS:
	case WIRE_LABELS:
	case WIRE_OBJECT:
	case WIRE_BOOL:
		break;
	}
	return wire_bad(r, f->name, "not a text");
}
