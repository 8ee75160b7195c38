/* policy/cut.c - see cut.h. Pure. The text is our own canon_json()'s: well formed, without spaces, and no deeper than
 * json_parse() let it be; so the scanner checks nothing but its end. Finds the ranges to leave out and copies what lies
 * between them. */
#include "policy/cut.h"

struct cut {
	const char *end;  /* of the text */
	const char *from; /* not copied yet */
	char *out;
	const struct str *drop;
	size_t n_drop;
};

struct place { /* the keys above a value; arrays have none */
	const struct place *up;
	struct str key;
};

bool cut_path_plain(struct str path)
{
	for (size_t i = 0; i < path.n; i++)
		if ((unsigned char)path.p[i] < 0x20 || path.p[i] == '"' || path.p[i] == '\\')
			return false;
	return true;
}

/* p is at the opening quote; behind the closing one. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		const char *q = memchr(p, '"', (size_t)(end - p)), *back;

		if (!q)
			return end;
		for (back = q; back > p && back[-1] == '\\'; back--)
			;
		p = q;
		if ((q - back) % 2 == 0)
			return q + 1;
	}
	return end;
}

static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	while (p < end) {
		char c = *p;

		if (c == '"') {
			p = skip_string(p, end);
			if (depth == 0)
				return p;
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']' || c == ',') && depth == 0)
			return p;
		else if ((c == '}' || c == ']') && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

static bool path_names(struct str path, const struct place *at)
{
	for (;; at = at->up) {
		const struct str *key = &at->key;

		if (path.n < key->n || (key->n && memcmp(path.p + path.n - key->n, key->p, key->n) != 0) ||
		    memchr(key->p, '.', key->n))
			return false;
		path.n -= key->n;
		if (!at->up || path.n == 0)
			return !at->up && path.n == 0;
		if (path.p[--path.n] != '.')
			return false;
	}
}

static bool dropped(const struct cut *c, const struct place *at)
{
	for (size_t i = 0; i < c->n_drop; i++)
		if (path_names(c->drop[i], at))
			return true;
	return false;
}

/* Can a path name something below this member of the whole? Asked at the top only, where nearly all of the text can be
 * skipped. */
static bool below(const struct cut *c, const struct place *at)
{
	if (at->up)
		return true;
	for (size_t i = 0; i < c->n_drop; i++)
		if (c->drop[i].n > at->key.n && c->drop[i].p[at->key.n] == '.' &&
		    (at->key.n == 0 || memcmp(c->drop[i].p, at->key.p, at->key.n) == 0))
			return true;
	return false;
}

static void leave_out(struct cut *c, const char *from, const char *to)
{
	size_t n = (size_t)(from - c->from);

	memcpy(c->out, c->from, n);
	c->out += n;
	c->from = to;
}

static const char *scan_value(struct cut *c, const char *p, const struct place *at);

/* p is behind the brace; behind the closing one. */
static const char *scan_members(struct cut *c, const char *p, const struct place *up)
{
	bool kept = false;

	while (p < c->end && *p != '}') {
		const char *value = skip_string(p, c->end) + 1, *stop;
		struct place here = { up, { p + 1, (size_t)(value - p) - 3 } };

		if (dropped(c, &here)) {
			stop = skip_value(value, c->end);
			if (kept) /* the comma in front goes along, else the one behind */
				leave_out(c, p - 1, stop);
			else
				leave_out(c, p, stop + (stop < c->end && *stop == ','));
		} else {
			stop = below(c, &here) ? scan_value(c, value, &here) : skip_value(value, c->end);
			kept = true;
		}
		p = stop + (stop < c->end && *stop == ',');
	}
	return p < c->end ? p + 1 : c->end;
}

static const char *scan_value(struct cut *c, const char *p, const struct place *at)
{
	if (*p == '{')
		return scan_members(c, p + 1, at);
	if (*p != '[')
		return skip_value(p, c->end);
	for (p++; p < c->end && *p != ']'; p += p < c->end && *p == ',')
		p = scan_value(c, p, at);
	return p < c->end ? p + 1 : c->end;
}

void cut_members(struct buf *b, size_t at, size_t n, const struct str *drop, size_t n_drop)
{
	char *out = buf_room(b, n); /* before the text is looked at: it may move */
	struct cut c = { .drop = drop, .n_drop = n_drop };

	if (!out || n == 0)
		return;
	c.from = b->p + at;
	c.end = c.from + n;
	c.out = out;
	(void)scan_value(&c, c.from, NULL);
	leave_out(&c, c.end, c.end);
	b->n += (size_t)(c.out - out);
}
