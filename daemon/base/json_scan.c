/* daemon/base/json_scan.c - see json_scan.h. Knows the path of every value, so that a fault can be named. Borrows the text; needs no
 * memory, and its depth is a number, not the stack's. */
#include "daemon/base/json_scan.h"

#include "daemon/base/buf.h"
#include "daemon/base/swar.h"

#include <stdio.h>

#define SCAN_DEPTH 64 /* the deepest max_depth anybody may ask for */

struct level { /* one open array or object */
	bool array;
	size_t index;   /* of the element we are in */
	struct str key; /* raw, between its quotes; STR_NONE before the first */
};

struct scan {
	const char *p;
	size_t n, at;
	size_t stop;           /* the scan ends at the token that reaches this offset; SIZE_MAX = at the end */
	size_t token, token_n; /* the last scalar or key */
	struct level level[SCAN_DEPTH];
	unsigned depth, max_depth;
	struct pawl_error *err;
};

enum { SCAN_GO = 0, SCAN_STOPPED = 1 }; /* negative: failed */

static void scan_path(const struct scan *s, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < s->depth && n + 1 < size; i++) {
		const struct level *l = &s->level[i];
		const char *dot = n ? "." : "";

		if (l->array)
			n += (size_t)snprintf(out + n, size - n, "%s%zu", dot, l->index);
		else if (l->key.p)
			n += (size_t)snprintf(out + n, size - n, "%s%.*s", dot,
					      (int)(l->key.n < size ? l->key.n : size), l->key.p);
	}
	for (char *c = out; *c; c++) /* a key is a peer's text, and the path goes to logs and replies as it is */
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
}

static void quote(const char *p, size_t n, char out[static 64])
{
	size_t w = 0, i = 0;

	for (; i < n && w < 48; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
			out[w++] = (char)c;
		else
			w += (size_t)snprintf(out + w, 64 - w, c == '"' || c == '\\' ? "\\%c" : "\\x%02x", c);
	}
	(void)snprintf(out + w, 64 - w, "%s", i < n ? "..." : "");
}

/* what: a sentence; with the token [from, s->at + more) behind it when more says so. */
static int scan_fail(const struct scan *s, const char *what, size_t from, size_t to)
{
	char path[sizeof(s->err->field)], token[64];

	if (!s->err)
		return PAWL_E_MALFORMED;
	scan_path(s, path, sizeof(path));
	if (from >= to)
		return pawl_fail_field(s->err, path, "%s", what);
	quote(s->p + from, to - from, token);
	return pawl_fail_field(s->err, path, "%s: \"%s\"", what, token);
}

static int scan_early_end(const struct scan *s)
{
	return pawl_fail_field(s->err, "", "not JSON: the text ends too early");
}

static void skip_space(struct scan *s)
{
	for (; s->at < s->n && (unsigned char)s->p[s->at] <= ' '; s->at++)
		if (s->p[s->at] != ' ' && s->p[s->at] != '\n' && s->p[s->at] != '\t' && s->p[s->at] != '\r')
			return;
}

static bool ends_word(const struct scan *s, size_t at)
{
	if (at >= s->n)
		return true;
	switch (s->p[at]) {
	case '\0':
	case ' ':
	case '\t':
	case '\r':
	case '\n':
	case ',':
	case ':':
	case '[':
	case ']':
	case '{':
	case '}':
	case '"':
		return true;
	default:
		return false;
	}
}

/* The end of what looks like one token, for the message only. */
static size_t word_end(const struct scan *s, size_t from)
{
	size_t i = from;

	while (i < from + 64 && !ends_word(s, i))
		i++;
	return i > from ? i : from + 1 < s->n ? from + 1 : s->n;
}

static int hex4(const struct scan *s, size_t at, unsigned *ret)
{
	unsigned v = 0;

	if (at + 4 > s->n)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		char c = s->p[i];

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (unsigned)((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	*ret = v;
	return 0;
}

/* s->at is on the backslash; leaves it behind the escape. */
static int scan_escape(struct scan *s, size_t from)
{
	unsigned hi, lo;

	if (s->at + 1 >= s->n)
		return scan_early_end(s);
	if (s->p[s->at + 1] != 'u') {
		if (!strchr("\"\\/bfnrt", s->p[s->at + 1]) || s->p[s->at + 1] == '\0')
			return scan_fail(s, "unknown escape in a text", s->at, s->at + 2);
		s->at += 2;
		return 0;
	}
	if (hex4(s, s->at + 2, &hi) < 0)
		return scan_fail(s, "\\u without four hexadecimal digits", from, s->at + 6 < s->n ? s->at + 6 : s->n);
	if (hi == 0)
		return scan_fail(s, "a NUL character in a text", s->at, s->at + 6);
	s->at += 6;
	if (hi < 0xd800 || hi > 0xdfff)
		return 0;
	if (hi > 0xdbff || s->at + 1 >= s->n || s->p[s->at] != '\\' || s->p[s->at + 1] != 'u' ||
	    hex4(s, s->at + 2, &lo) < 0 || lo < 0xdc00 || lo > 0xdfff)
		return scan_fail(s, "half a surrogate pair in a text", s->at - 6, s->at);
	s->at += 6;
	return 0;
}

/* Goes over what needs no look of its own. Whether any of it is beyond ASCII is added to *high. */
static void scan_plain(struct scan *s, uint64_t *high)
{
	while (s->n - s->at >= 8) {
		uint64_t w = swar_load(s->p + s->at), special = swar_json_special(w);
		size_t n = special ? swar_before(special) : 8;

		*high |= n == 8 ? swar_not_ascii(w) : swar_not_ascii(w) & ((UINT64_C(1) << 8 * n) - 1);
		s->at += n;
		if (special)
			return;
	}
	for (; s->at < s->n; s->at++) {
		unsigned char c = (unsigned char)s->p[s->at];

		if (c < 0x20 || c == '"' || c == '\\')
			return;
		*high |= c & 0x80u;
	}
}

/* s->at is on the opening quote. */
static int scan_string(struct scan *s)
{
	size_t from = ++s->at;
	uint64_t high = 0;

	for (;;) {
		scan_plain(s, &high);
		if (s->at >= s->n || s->p[s->at] == '"')
			break;
		if (s->p[s->at] == '\\') {
			int r = scan_escape(s, from);

			if (r < 0)
				return r;
		} else if (s->p[s->at] == 0) {
			return scan_fail(s, "a NUL byte in a text", from, s->at + 1);
		} else {
			return scan_fail(s, "a raw control byte in a text", from, s->at + 1);
		}
	}
	if (high && !utf8_valid((struct str){ s->p + from, s->at - from }))
		return scan_fail(s, "a text that is not UTF-8", from, s->at);
	if (s->at >= s->n)
		return scan_early_end(s);
	s->token = from;
	s->token_n = s->at - from;
	s->at++;
	return 0;
}

static size_t digits(struct scan *s)
{
	size_t from = s->at;

	while (s->at < s->n && s->p[s->at] >= '0' && s->p[s->at] <= '9')
		s->at++;
	return s->at - from;
}

static bool fits_int64(const char *p, size_t n)
{
	bool minus = p[0] == '-';
	int64_t v = 0;

	if (n <= 18)
		return true;
	for (size_t i = minus; i < n; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_sub_overflow(v, p[i] - '0', &v)) /* down: INT64_MIN has no positive twin */
			return false;
	return minus || v != INT64_MIN;
}

static int scan_number(struct scan *s)
{
	size_t from = s->at, whole;
	bool real = false, bad;

	s->at += s->p[s->at] == '-';
	whole = s->at;
	bad = digits(s) == 0 || (s->p[whole] == '0' && s->at - whole > 1);
	if (!bad && s->at < s->n && s->p[s->at] == '.') {
		real = true;
		s->at++;
		bad = digits(s) == 0;
	}
	if (!bad && s->at < s->n && (s->p[s->at] | 0x20) == 'e') {
		real = true;
		s->at++;
		s->at += s->at < s->n && (s->p[s->at] == '+' || s->p[s->at] == '-');
		bad = digits(s) == 0;
	}
	if (bad || !ends_word(s, s->at))
		return scan_fail(s, "not a JSON number", from, word_end(s, from));
	if (!real && !fits_int64(s->p + from, s->at - from))
		return scan_fail(s, "an integer outside 64 bits", from, s->at);
	s->token = from;
	s->token_n = s->at - from;
	return 0;
}

static int scan_word(struct scan *s)
{
	static const struct str words[] = { { "true", 4 }, { "false", 5 }, { "null", 4 } };
	size_t end = word_end(s, s->at);

	for (size_t i = 0; i < PAWL_LEN(words); i++)
		if (str_eq(words[i], (struct str){ s->p + s->at, end - s->at })) {
			s->token = s->at;
			s->token_n = words[i].n;
			s->at = end;
			return 0;
		}
	return scan_fail(s, "not JSON", s->at, end);
}

/* A key and its colon; the level's key is set before faults in the value are named. */
static int scan_key(struct scan *s)
{
	struct level *l = &s->level[s->depth - 1];
	int r;

	skip_space(s);
	if (s->at >= s->n)
		return scan_early_end(s);
	if (s->p[s->at] != '"')
		return scan_fail(s, "not JSON: a key in quotes is due", s->at, word_end(s, s->at));
	r = scan_string(s);
	if (r < 0)
		return r;
	l->key = (struct str){ s->p + s->token, s->token_n };
	if (s->at >= s->stop)
		return SCAN_STOPPED;
	skip_space(s);
	if (s->at >= s->n)
		return scan_early_end(s);
	if (s->p[s->at] != ':')
		return scan_fail(s, "not JSON: a colon is due", s->at, word_end(s, s->at));
	s->at++;
	return 0;
}

/* Opens a level and, for an object that is not empty, reads the first key. *ret_empty: it closed again at once. */
static int scan_open(struct scan *s, bool *ret_empty)
{
	bool array = s->p[s->at] == '[';

	if (s->depth >= s->max_depth) {
		char what[64];

		(void)snprintf(what, sizeof(what), "nested more than %u levels deep", s->max_depth);
		return scan_fail(s, what, 0, 0);
	}
	s->at++;
	s->level[s->depth++] = (struct level){ .array = array };
	skip_space(s);
	*ret_empty = s->at < s->n && s->p[s->at] == (array ? ']' : '}');
	if (*ret_empty) {
		s->at++;
		s->depth--;
		return 0;
	}
	return array ? 0 : scan_key(s);
}

/* Behind a value: closes what ends here, or goes on to the next member. *ret_done: nothing is open any more. */
static int scan_after(struct scan *s, bool *ret_done)
{
	for (;;) {
		struct level *l;

		*ret_done = s->depth == 0;
		if (*ret_done)
			return 0;
		l = &s->level[s->depth - 1];
		skip_space(s);
		if (s->at >= s->n)
			return scan_early_end(s);
		if (s->p[s->at] == ',') {
			s->at++;
			l->index++;
			return l->array ? 0 : scan_key(s);
		}
		if (s->p[s->at] != (l->array ? ']' : '}'))
			return scan_fail(s, "not JSON: a comma or the end is due", s->at, word_end(s, s->at));
		s->at++;
		s->depth--;
	}
}

static int scan_scalar(struct scan *s)
{
	char c = s->p[s->at];
	int r;

	if (c == '"')
		r = scan_string(s);
	else if (c == '-' || (c >= '0' && c <= '9'))
		r = scan_number(s);
	else
		r = scan_word(s);
	return r == 0 && s->at >= s->stop ? SCAN_STOPPED : r;
}

static int scan_text(struct scan *s)
{
	bool done = false;
	int r = 0;

	while (r == 0 && !done) {
		skip_space(s);
		if (s->at >= s->n)
			return scan_early_end(s);
		if (s->p[s->at] == '[' || s->p[s->at] == '{') {
			bool empty = false;

			r = scan_open(s, &empty);
			if (r != 0 || !empty)
				continue;
		} else {
			r = scan_scalar(s);
		}
		if (r == 0)
			r = scan_after(s, &done);
	}
	if (r != 0)
		return r;
	skip_space(s);
	return s->at < s->n ? scan_fail(s, "something after the end of the JSON value", s->at, word_end(s, s->at)) : 0;
}

/* The levels stay as they are: each is written when it is opened. */
static void scan_start(struct scan *s, struct str text, unsigned max_depth, size_t stop, struct pawl_error *err)
{
	s->p = text.p;
	s->n = text.n;
	s->at = s->token = s->token_n = 0;
	s->stop = stop;
	s->depth = 0;
	s->max_depth = max_depth < SCAN_DEPTH ? max_depth : SCAN_DEPTH;
	s->err = err;
}

int json_scan(struct str text, unsigned max_depth, struct pawl_error *err)
{
	struct scan s;

	scan_start(&s, text, max_depth, SIZE_MAX, err);
	return scan_text(&s);
}

int json_scan_blame(struct str text, unsigned max_depth, size_t end, const char *what, struct pawl_error *err)
{
	struct scan s;

	scan_start(&s, text, max_depth, end, err);
	if (scan_text(&s) != SCAN_STOPPED)
		return pawl_fail_field(err, "", "not JSON");
	return scan_fail(&s, what, s.token, s.token + s.token_n);
}
