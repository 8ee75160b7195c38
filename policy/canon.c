/* policy/canon.c - see canon.h. RFC 8785: members sorted by UTF-16 code units, numbers as ECMAScript prints them.
 * Owns nothing; memory only for objects with more members than fit on the stack. Recursion is bounded by json_parse().
 */
#include "policy/canon.h"
#include "policy/space.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TWO_53 9007199254740992.0 /* below it every whole number is a double of its own */
#define SMALL 24 /* members sorted on the stack */

struct place { /* the keys above a value; arrays have none, so that a path goes through them */
	const struct place *up;
	struct str key;
};

struct canon {
	const struct str *drop, *fold;
	size_t n_drop, n_fold;
	struct buf *out;
};

/* ---- numbers ---- */

struct decimal { /* 0.d1d2d3… x 10^point */
	char digit[18];
	int n, point;
};

/* The correctly rounded decimal of d > 0 with n digits. */
static void round_to(double d, int n, struct decimal *ret)
{
	char t[40];

	(void)snprintf(t, sizeof(t), "%.*e", n - 1, d);
	ret->digit[0] = t[0];
	memcpy(ret->digit + 1, t + 2, (size_t)(n - 1));
	ret->n = n;
	ret->point = (int)strtol(t + (n > 1 ? n + 2 : 2), NULL, 10) + 1;
}

static double value_of(const struct decimal *c)
{
	char t[40];

	(void)snprintf(t, sizeof(t), ".%.*se%d", c->n, c->digit, c->point);
	return strtod(t, NULL);
}

/* The next decimal of as many digits upwards. */
static void step_up(struct decimal *c)
{
	for (int i = c->n - 1; i >= 0; i--) {
		if (c->digit[i] != '9') {
			c->digit[i]++;
			return;
		}
		c->digit[i] = '0';
	}
	c->digit[0] = '1';
	c->point++;
}

/* Below a power of two doubles lie twice as close as above it. The nearest decimal may then fall out on the narrow side
 * while the next one up still means d (2^-44 is 5.684341886080802e-14): ECMAScript asks for the fewest digits, so it is
 * tried too. */
static bool fits_in(double d, int n, struct decimal *ret)
{
	struct decimal c;

	round_to(d, n, &c);
	if (value_of(&c) < d) {
		step_up(&c);
		if (value_of(&c) != d)
			return false;
	} else if (value_of(&c) != d) {
		return false;
	}
	*ret = c;
	return true;
}

static void shortest(double d, struct decimal *ret)
{
	/* every decimal of up to 15 digits survives a normal double, so 15 digits less zeros are the fewest if they fit
	 * at all */
	int n = d >= DBL_MIN ? 15 : 1;

	while (!fits_in(d, n, ret))
		n++;
	while (ret->n > 1 && ret->digit[ret->n - 1] == '0')
		ret->n--;
}

/* Up to 16 digits and a sign; no NUL. */
static size_t whole_number(int64_t v, char *out)
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, power = 10;
	size_t n = 1, minus = v < 0;

	for (; left >= power; n++)
		power *= 10;
	out[0] = '-';
	for (size_t i = n; i; left /= 10)
		out[minus + --i] = (char)('0' + left % 10);
	return minus + n;
}

/* Most numbers that people write have few decimals. Where i / 10^k is d and i has at most 15 digits, no other decimal
 * of so few digits means d, so the digits of i with the least k are the answer; 10^k and i are exact, so the division
 * is the one a reader would make. */
static bool few_decimals(double d, struct decimal *ret)
{
	double power = 10;

	for (int k = 1; k <= 9 && d * power < 1e15; k++, power *= 10) {
		int64_t i = (int64_t)(d * power + 0.5);

		if ((double)i / power != d)
			continue;
		ret->n = (int)whole_number(i, ret->digit); /* below 10^15, and a half more */
		ret->point = ret->n - k;
		return i > 0;
	}
	return false;
}

static size_t put(char *out, size_t at, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) /* a few bytes: a call would cost more than they do */
		out[at + i] = p[i];
	return at + n;
}

/* ECMAScript 2024, Number::toString: where the point goes. */
static size_t lay_out(const struct decimal *c, char *out, size_t at)
{
	static const char zeros[] = "000000000000000000000";
	size_t n = (size_t)c->n;

	if (c->point > 21 || c->point <= -6) {
		at = put(out, at, c->digit, 1);
		if (n > 1) {
			at = put(out, at, ".", 1);
			at = put(out, at, c->digit + 1, n - 1);
		}
		return at + (size_t)snprintf(out + at, 8, "e%+d", c->point - 1);
	}
	if (c->point <= 0) {
		at = put(out, at, "0.", 2);
		at = put(out, at, zeros, (size_t)-c->point);
		return put(out, at, c->digit, n);
	}
	if (c->n <= c->point) {
		at = put(out, at, c->digit, n);
		return put(out, at, zeros, (size_t)(c->point - c->n));
	}
	at = put(out, at, c->digit, (size_t)c->point);
	at = put(out, at, ".", 1);
	return put(out, at, c->digit + c->point, (size_t)(c->n - c->point));
}

size_t canon_double(double d, char out[static 32])
{
	struct decimal c;
	size_t at = 0;

	if (d > -TWO_53 && d < TWO_53 && d == (double)(int64_t)d) { /* also -0, which prints as 0 */
		at = whole_number((int64_t)d, out);
		out[at] = '\0';
		return at;
	}
	if (d < 0)
		out[at++] = '-';
	if (!few_decimals(fabs(d), &c))
		shortest(fabs(d), &c);
	at = lay_out(&c, out, at);
	out[at] = '\0';
	return at;
}

/* ---- objects ---- */

/* UTF-8 order is UTF-16 order but for one thing: U+E000 to U+FFFF (lead bytes ee, ef) sort behind the surrogate pairs
 * of what lies above U+FFFF (lead bytes f0 and up). */
static int key_order(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;

	for (size_t i = 0; i < n; i++) {
		unsigned char x = (unsigned char)a.p[i], y = (unsigned char)b.p[i];

		if (x == y)
			continue;
		if (x >= 0xee && y >= 0xee && (x >= 0xf0) != (y >= 0xf0))
			return x >= 0xf0 ? -1 : 1;
		return x < y ? -1 : 1;
	}
	return a.n < b.n ? -1 : a.n > b.n;
}

static int member_order(const void *a, const void *b)
{
	return key_order(((const struct json_member *)a)->key, ((const struct json_member *)b)->key);
}

static void sort(struct json_member *m, size_t n)
{
	if (n > SMALL) {
		qsort(m, n, sizeof(*m), member_order);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct json_member x = m[i];
		size_t k = i;

		for (; k > 0 && key_order(x.key, m[k - 1].key) < 0; k--)
			m[k] = m[k - 1];
		m[k] = x;
	}
}

/* The path's last key is the member's, the one before it its object's, up to the root and no further. */
static bool path_names(struct str path, const struct place *at)
{
	size_t end = path.n;

	for (; at; at = at->up) {
		size_t from = end;

		while (from > 0 && path.p[from - 1] != '.')
			from--;
		if (!str_eq(at->key, (struct str){ path.p + from, end - from }))
			return false;
		if (from == 0)
			return !at->up;
		end = from - 1;
	}
	return false;
}

static bool named(const struct str *paths, size_t n, const struct place *at)
{
	for (size_t i = 0; i < n; i++)
		if (path_names(paths[i], at))
			return true;
	return false;
}

static void canon_value(const struct canon *c, const struct json *j, const struct place *at);

static void canon_members(const struct canon *c, const struct json_member *m, size_t n, const struct place *at)
{
	char before = '{';

	for (size_t i = 0; i < n; i++) {
		struct place here = { at, m[i].key };

		if (named(c->drop, c->n_drop, &here))
			continue;
		buf_member(c->out, before, m[i].key);
		before = ',';
		canon_value(c, m[i].value, &here);
	}
	if (before == '{')
		buf_putc(c->out, '{');
	buf_putc(c->out, '}');
}

static void canon_object(const struct canon *c, const struct json *j, const struct place *at)
{
	struct json_member small[SMALL], *m = small;
	size_t n = json_size(j);

	if (n > SMALL)
		m = malloc(n * sizeof(*m));
	if (!m) {
		c->out->failed = true;
		return;
	}
	n = json_members(j, m, n);
	sort(m, n);
	canon_members(c, m, n, at);
	if (m != small)
		free(m);
}

static void canon_text(const struct canon *c, struct str s, const struct place *at)
{
	size_t from = c->out->n;

	buf_json(c->out, s);
	if (c->n_fold && buf_ok(c->out) && named(c->fold, c->n_fold, at))
		space_fold(c->out, from);
}

static void canon_array(const struct canon *c, const struct json *j, const struct place *at)
{
	size_t n = json_size(j);

	buf_putc(c->out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(c->out, ',');
		canon_value(c, json_at(j, i), at);
	}
	buf_putc(c->out, ']');
}

static void canon_real(const struct canon *c, double d)
{
	char t[32];

	buf_add(c->out, t, canon_double(d, t));
}

static void canon_value(const struct canon *c, const struct json *j, const struct place *at)
{
	struct json_scalar v;

	switch (json_look(j, &v)) {
	case JSON_KIND_NULL:
		buf_add(c->out, "null", 4);
		break;
	case JSON_KIND_BOOL:
		if (v.yes)
			buf_add(c->out, "true", 4);
		else
			buf_add(c->out, "false", 5);
		break;
	case JSON_KIND_INT:
		buf_i64(c->out, v.number);
		break;
	case JSON_KIND_REAL:
		canon_real(c, v.real);
		break;
	case JSON_KIND_STRING:
		canon_text(c, v.text, at);
		break;
	case JSON_KIND_ARRAY:
		canon_array(c, j, at);
		break;
	case JSON_KIND_OBJECT:
		canon_object(c, j, at);
		break;
	}
}

void canon_json(const struct json *j, const struct str *drop, size_t n_drop, struct buf *out)
{
	canon_json_fold(j, drop, n_drop, NULL, 0, out);
}

void canon_json_fold(const struct json *j, const struct str *drop, size_t n_drop, const struct str *fold, size_t n_fold,
		     struct buf *out)
{
	struct canon c = { drop, fold, n_drop, n_fold, out };

	canon_value(&c, j, NULL);
}
