/* daemon/cli/differ.c - see differ.h. Walks both values side by side; owns nothing. */
#include "daemon/cli/differ.h"

#include "daemon/log/entry.h"
#include "policy/canon.h"

#include <stdio.h>

#define PATH_TEXT 128 /* entries are three levels deep; a longer path is cut, and the values still tell */

struct differ {
	struct buf *out;
	size_t n, max;
	char path[PATH_TEXT];
};

static void compare(struct differ *d, size_t at, const struct json *a, const struct json *b);

static void put_value(struct buf *out, const struct json *v)
{
	if (v)
		canon_json(v, NULL, 0, out);
	else
		buf_puts(out, "null");
}

static void row(struct differ *d, const struct json *a, const struct json *b)
{
	if (d->n++ >= d->max)
		return;
	buf_puts(d->out, d->n > 1 ? ",{" : "{");
	buf_key(d->out, "field");
	buf_text(d->out, str_of(d->path)); /* a cut may have halved a letter */
	buf_puts(d->out, ",\"logged\":");
	put_value(d->out, a);
	buf_puts(d->out, ",\"again\":");
	put_value(d->out, b);
	buf_putc(d->out, '}');
}

static bool same_text(struct differ *d, const struct json *a, const struct json *b)
{
	PAWL_CLEANUP(buf_done) struct buf x = BUF_MAX(PAWL_MAX_BODY * 2), y = BUF_MAX(PAWL_MAX_BODY * 2);

	put_value(&x, a);
	put_value(&y, b);
	d->out->failed |= x.failed || y.failed;
	return str_eq(buf_str(&x), buf_str(&y));
}

/* The path with one more step behind the first `at` bytes; what else was behind them is gone. */
static size_t step(struct differ *d, size_t at, struct str name)
{
	int n = snprintf(d->path + at, sizeof(d->path) - at, "%s%.*s", at ? "." : "", STR_ARG(name));

	return n < 0 || at + (size_t)n >= sizeof(d->path) ? sizeof(d->path) - 1 : at + (size_t)n;
}

static void compare_objects(struct differ *d, size_t at, const struct json *a, const struct json *b)
{
	for (void *it = json_iter(a); it; it = json_iter_next(a, it))
		compare(d, step(d, at, json_iter_key(it)), json_iter_value(it), json_get_str(b, json_iter_key(it)));
	for (void *it = json_iter(b); it; it = json_iter_next(b, it))
		if (!json_get_str(a, json_iter_key(it)))
			compare(d, step(d, at, json_iter_key(it)), NULL, json_iter_value(it));
}

static void compare_arrays(struct differ *d, size_t at, const struct json *a, const struct json *b)
{
	size_t n = json_size(a) > json_size(b) ? json_size(a) : json_size(b);
	char number[24];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(number, sizeof(number), "%zu", i);
		compare(d, step(d, at, str_of(number)), i < json_size(a) ? json_at(a, i) : NULL, i < json_size(b) ? json_at(b, i) : NULL);
	}
}

static void compare(struct differ *d, size_t at, const struct json *a, const struct json *b)
{
	enum json_kind kind = a ? json_kind(a) : JSON_KIND_NULL;

	if (a && b && kind == json_kind(b) && kind == JSON_KIND_OBJECT)
		compare_objects(d, at, a, b);
	else if (a && b && kind == json_kind(b) && kind == JSON_KIND_ARRAY)
		compare_arrays(d, at, a, b);
	else if (!a || !b || !same_text(d, a, b))
		row(d, a, b);
}

size_t differ_rows(struct str logged, struct str again, size_t max, struct buf *out)
{
	struct differ d = { .out = out, .max = max };
	struct json *a = NULL, *b = NULL;
	int r = json_parse(logged, PAWL_MAX_DEPTH, &a, NULL);

	if (r == 0)
		r = json_parse(again, PAWL_MAX_DEPTH, &b, NULL);
	buf_putc(out, '[');
	if (r == 0)
		compare(&d, 0, a, b);
	else
		row(&d, NULL, NULL);
	out->failed |= r == PAWL_E_NOMEM;
	buf_putc(out, ']');
	json_free(a);
	json_free(b);
	return d.n;
}
