/* daemon/door/wire_field.c - an object of a request by its rows: unknown, missing, nested and counted things. Pure.
 * Borrows the document; writes only into struct request at the offsets of the rows. */
#include "daemon/door/wire_field.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_CLASSES    16 /* of tokens */
#define MAX_CLASS_NAME 32

int wire_bad(struct wire_reader *r, struct str name, const char *fmt, ...)
{
	char path[sizeof(r->path) * 2], shown[WIRE_QUOTE], msg[sizeof(r->err->msg)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	(void)snprintf(path, sizeof(path), "%s%s%s", r->path, r->path[0] ? "." : "", wire_quote(name, shown));
	return pawl_fail_field(r->err, path, "%s", msg);
}

int wire_bad_kind(struct wire_reader *r, struct str name, const char *due, const struct json *v)
{
	static const char *const words[] = {
		[JSON_KIND_NULL] = "null",       [JSON_KIND_BOOL] = "true or false",
		[JSON_KIND_INT] = "a number",    [JSON_KIND_REAL] = "a number with decimals",
		[JSON_KIND_STRING] = "a text",   [JSON_KIND_ARRAY] = "a list",
		[JSON_KIND_OBJECT] = "an object"
	};

	return wire_bad(r, name, "must be %s, not %s", due, words[json_kind(v)]);
}

static int read_int(struct wire_reader *r, struct str name, const struct json *v, int64_t min, int64_t max,
		    int64_t *ret)
{
	if (json_kind(v) != JSON_KIND_INT)
		return wire_bad_kind(r, name, "an integer", v);
	if (json_int(v) < min || json_int(v) > max)
		return wire_bad(r, name, "must be %lld to %lld, not %lld", (long long)min, (long long)max,
				(long long)json_int(v));
	*ret = json_int(v);
	return 0;
}

static bool class_name(struct str s)
{
	if (s.n == 0 || s.n > MAX_CLASS_NAME)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] < 'a' || s.p[i] > 'z') && s.p[i] != '_')
			return false;
	return true;
}

/* The path of the object in row f, for what is read inside it; hands back where to cut it off again. */
static size_t path_push(struct wire_reader *r, const struct wire_field *f)
{
	size_t n = strlen(r->path);

	(void)snprintf(r->path + n, sizeof(r->path) - n, "%s%.*s", n ? "." : "", STR_ARG(f->name));
	return n;
}

static int read_classes(struct wire_reader *r, const struct json *obj, int64_t *ret)
{
	char shown[WIRE_QUOTE];
	int64_t sum = 0, one;

	for (void *it = json_iter(obj); it; it = json_iter_next(obj, it)) {
		struct str name = json_iter_key(it);
		int got;

		if (!class_name(name))
			return wire_bad(r, name, "a class of tokens has 1 to %d of the characters a-z _: \"%s\"",
					MAX_CLASS_NAME, wire_quote(name, shown));
		got = read_int(r, name, json_iter_value(it), 0, WIRE_MAX_INT, &one);
		if (got < 0)
			return got;
		if (add_over(sum, one, &sum) || sum > WIRE_MAX_INT)
			return wire_bad(r, name, "the classes add up to more than %lld tokens",
					(long long)WIRE_MAX_INT);
	}
	*ret = sum;
	return 0;
}

static int read_tokens(struct wire_reader *r, const struct wire_field *f, const struct json *v, int64_t *ret)
{
	size_t back;
	int got;

	if (json_kind(v) == JSON_KIND_INT)
		return read_int(r, f->name, v, 0, WIRE_MAX_INT, ret);
	if (json_kind(v) != JSON_KIND_OBJECT)
		return wire_bad_kind(r, f->name, "an integer or an object of classes", v);
	if (json_size(v) > MAX_CLASSES)
		return wire_bad(r, f->name, "%zu classes of tokens: at most %d", json_size(v), MAX_CLASSES);
	back = path_push(r, f);
	got = read_classes(r, v, ret);
	r->path[back] = '\0';
	return got;
}

static int read_labels(struct wire_reader *r, const struct wire_field *f, const struct json *v, const struct json **ret)
{
	size_t back;
	int got = 0;

	if (json_kind(v) != JSON_KIND_OBJECT)
		return wire_bad_kind(r, f->name, "an object of texts", v);
	if (json_size(v) > (size_t)f->max)
		return wire_bad(r, f->name, "%zu labels: at most %zu", json_size(v), (size_t)f->max);
	back = path_push(r, f);
	for (void *it = json_iter(v); it && got == 0; it = json_iter_next(v, it)) {
		struct str key = json_iter_key(it);
		const struct json *value = json_iter_value(it);

		got = wire_check_text(r, key, key, 1, PAWL_MAX_TEXT);
		if (got == 0 && json_kind(value) != JSON_KIND_STRING)
			got = wire_bad_kind(r, key, "a text", value);
		if (got == 0)
			got = wire_check_text(r, key, json_string(value), 0, PAWL_MAX_TEXT);
	}
	r->path[back] = '\0';
	if (got == 0)
		*ret = v;
	return got;
}

static int read_object(struct wire_reader *r, const struct wire_field *f, const struct json *v)
{
	size_t back;
	int got;

	if (json_kind(v) != JSON_KIND_OBJECT)
		return wire_bad_kind(r, f->name, "an object", v);
	back = path_push(r, f);
	got = wire_read(r, v, f->rows, f->n);
	r->path[back] = '\0';
	return got;
}

static int read_value(struct wire_reader *r, const struct wire_field *f, const struct json *v)
{
	void *at = (char *)r->rq + f->off;

	switch (f->type) {
	case WIRE_VERSION: /* both were looked at before the op's table was known */
	case WIRE_SEEN:
		return 0;
	case WIRE_BOOL:
		if (json_kind(v) != JSON_KIND_BOOL)
			return wire_bad_kind(r, f->name, "true or false", v);
		*(bool *)at = json_true(v);
		return 0;
	case WIRE_INT:
		return read_int(r, f->name, v, f->min, f->max, at);
	case WIRE_TOKENS:
		return read_tokens(r, f, v, at);
	case WIRE_LABELS:
		return read_labels(r, f, v, at);
	case WIRE_OBJECT:
		return read_object(r, f, v);
	case WIRE_ARGS:
		if (json_kind(v) != JSON_KIND_OBJECT)
			return wire_bad_kind(r, f->name, "an object", v);
		*(const struct json **)at = v;
		return 0;
	case WIRE_TEXT:
	case WIRE_NOTE:
	case WIRE_PATH:
	case WIRE_TOOL:
	case WIRE_ID:
	case WIRE_HEX:
	case WIRE_WORD:
	case WIRE_SPAN:
	case WIRE_MONEY_UP:
	case WIRE_MONEY:
	case WIRE_SHARE:
	case WIRE_CURRENCY:
		break;
	}
	return wire_read_string(r, f, v, at);
}

int wire_read(struct wire_reader *r, const struct json *obj, const struct wire_field *rows, size_t n)
{
	char shown[WIRE_QUOTE];
	uint32_t seen = 0;
	int got;

	for (void *it = json_iter(obj); it; it = json_iter_next(obj, it)) {
		const struct json *v = json_iter_value(it);
		struct str key = json_iter_key(it);
		size_t i = 0;

		while (i < n && !str_eq(rows[i].name, key))
			i++;
		if (i == n)
			return wire_bad(r, key, "unknown field \"%s\"", wire_quote(key, shown));
		if (!rows[i].required && json_kind(v) == JSON_KIND_NULL)
			continue;
		got = read_value(r, &rows[i], v);
		if (got < 0)
			return got;
		seen |= UINT32_C(1) << i;
		if (rows[i].flag != WIRE_NO_FLAG)
			*(bool *)((char *)r->rq + rows[i].flag) = true;
	}
	for (size_t i = 0; i < n; i++)
		if (rows[i].required && !(seen >> i & 1))
			return wire_bad(r, rows[i].name, "missing");
	return 0;
}
