/* daemon/base/json.c - see json.h. The only file that includes <jansson.h>.
 * Owns a strict scanner that reads the text before jansson does: the text comes from a peer, and a parser that recurses
 * must not be the first to see it. The scanner knows the path of every value, so that a fault can be named. Borrows the
 * text. */
#include <jansson.h> /* first: json.h gives three of its names another meaning */

#include "daemon/base/json.h"

#include "daemon/base/buf.h"

#include <stdio.h>
#include <stdlib.h>

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
	while (s->at < s->n &&
	       (s->p[s->at] == ' ' || s->p[s->at] == '\n' || s->p[s->at] == '\t' || s->p[s->at] == '\r'))
		s->at++;
}

static bool ends_word(const struct scan *s, size_t at)
{
	return at >= s->n || strchr(" \t\r\n,:[]{}\"", s->p[at]) != NULL; /* a NUL byte ends one as well */
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

/* s->at is on the opening quote. */
static int scan_string(struct scan *s)
{
	size_t from = ++s->at, run;
	int r;

	for (run = from; s->at < s->n && s->p[s->at] != '"';) {
		unsigned char c = (unsigned char)s->p[s->at];

		if (c == '\\') {
			r = scan_escape(s, from);
			if (r < 0)
				return r;
		} else if (c == 0) {
			return scan_fail(s, "a NUL byte in a text", from, s->at + 1);
		} else if (c < 0x20) {
			return scan_fail(s, "a raw control byte in a text", from, s->at + 1);
		} else {
			run |= c & 0x80u ? SIZE_MAX : 0; /* remembers that there is something beyond ASCII */
			s->at++;
		}
	}
	if (run == SIZE_MAX && !utf8_valid((struct str){ s->p + from, s->at - from }))
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

/* What the scanner leaves to jansson: repeated keys and reals beyond a double. The place is the token that ends where
 * it stopped. */
static int refuse(struct str text, unsigned max_depth, const json_error_t *je, struct pawl_error *err)
{
	struct scan s = { .p = text.p, .n = text.n, .max_depth = max_depth, .err = err };
	enum json_error_code code = json_error_code(je);

	if (code != json_error_duplicate_key && code != json_error_numeric_overflow)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory while reading JSON");
	s.stop = je->position > 0 ? (size_t)je->position : 0;
	if (scan_text(&s) != SCAN_STOPPED)
		return pawl_fail_field(err, "", "not JSON");
	return scan_fail(&s, code == json_error_duplicate_key ? "a repeated key" : "not a finite number", s.token,
			 s.token + s.token_n);
}

/* When jansson's text buffer cannot grow it drops a byte and goes on: a shortened text would be judged. So every failure of its
 * allocator is noted here, and nothing parsed meanwhile is believed. Of the thread alone, and false between two calls. */
static _Thread_local bool starved;

static void *noting_malloc(size_t n)
{
	void *p = malloc(n);

	starved = starved || !p;
	return p;
}

int json_parse(struct str text, unsigned max_depth, struct json **ret, struct pawl_error *err)
{
	struct scan s = { .p = text.p,
			  .n = text.n,
			  .stop = SIZE_MAX,
			  .err = err,
			  .max_depth = max_depth < SCAN_DEPTH ? max_depth : SCAN_DEPTH };
	json_error_t je;
	json_t *j;
	int r;

	r = scan_text(&s);
	if (r < 0)
		return r;
	json_set_alloc_funcs(noting_malloc, free);
	starved = false;
	j = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
	if (starved) {
		json_decref(j);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory while reading JSON");
	}
	if (!j)
		return refuse(text, s.max_depth, &je, err);
	*ret = (struct json *)j;
	return 0;
}

static json_t *raw(const struct json *j)
{
	return (json_t *)(uintptr_t)j; /* jansson's getters are const in fact, not all of them in type */
}

void json_free(struct json *j)
{
	json_decref(raw(j));
}

enum json_kind json_kind(const struct json *j)
{
	switch (json_typeof(raw(j))) {
	case JSON_OBJECT:
		return JSON_KIND_OBJECT;
	case JSON_ARRAY:
		return JSON_KIND_ARRAY;
	case JSON_STRING:
		return JSON_KIND_STRING;
	case JSON_INTEGER:
		return JSON_KIND_INT;
	case JSON_REAL:
		return JSON_KIND_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return JSON_KIND_BOOL;
	case JSON_NULL:
	default:
		return JSON_KIND_NULL;
	}
}

struct json *json_get(const struct json *obj, const char *key)
{
	return (struct json *)json_object_get(raw(obj), key);
}

struct json *json_get_str(const struct json *obj, struct str key)
{
	return key.p ? (struct json *)json_object_getn(raw(obj), key.p, key.n) : NULL;
}

size_t json_size(const struct json *j)
{
	return json_is_object(raw(j)) ? json_object_size(raw(j)) : json_array_size(raw(j));
}

struct json *json_at(const struct json *arr, size_t i)
{
	return (struct json *)json_array_get(raw(arr), i);
}

void *json_iter(const struct json *obj)
{
	return json_object_iter(raw(obj));
}

void *json_iter_next(const struct json *obj, void *it)
{
	return json_object_iter_next(raw(obj), it);
}

struct str json_iter_key(void *it)
{
	return (struct str){ json_object_iter_key(it), json_object_iter_key_len(it) };
}

struct json *json_iter_value(void *it)
{
	return (struct json *)json_object_iter_value(it);
}

struct str json_string(const struct json *j)
{
	const char *p = json_string_value(raw(j));

	return p ? (struct str){ p, json_string_length(raw(j)) } : STR_NONE;
}

int64_t json_int(const struct json *j)
{
	return json_integer_value(raw(j));
}

double json_real(const struct json *j)
{
	return json_number_value(raw(j));
}

bool json_true(const struct json *j)
{
	return json_is_true(raw(j));
}
