/* daemon/log/entry_render.c - a typed entry -> its line. Walks the rows of entry_fields.c; knows no kind by name.
 * Refuses (by .failed) what the reader would refuse: an entry that cannot be read back would stop the next start. */
#include "daemon/log/entry.h"
#include "daemon/log/entry_fields.h"
#include "policy/money.h"

struct writer {
	uint64_t own; /* the entry's sequence */
	struct str currency;
};

static void render_fields(struct writer *w, const struct fields *of, const char *base, struct buf *out);
static void render_value(struct writer *w, const struct field *f, const char *base, struct buf *out);

static void quoted(struct buf *out, const char *p, size_t n)
{
	char *to = buf_room(out, n + 2);

	if (!to)
		return;
	to[0] = '"';
	memcpy(to + 1, p, n);
	to[n + 1] = '"';
	out->n += n + 2;
}

static void render_amount(enum unit unit, int64_t v, struct buf *out)
{
	char t[32];

	if (v < 0)
		out->failed = true;
	else
		quoted(out, t, amount_text(unit, v, t));
}

static void render_span(int64_t ns, struct buf *out)
{
	char t[MONEY_TEXT];

	if (ns < 0)
		out->failed = true;
	else
		quoted(out, t, span_text(ns, t));
}

static void render_name(const struct names *names, unsigned v, struct buf *out)
{
	if (v >= names->n || !names->names[v].p)
		out->failed = true;
	else
		quoted(out, names->names[v].p, names->names[v].n);
}

static void render_hex64(uint64_t v, struct buf *out)
{
	uint8_t b[8];

	for (size_t i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> (56 - 8 * i));
	buf_putc(out, '"');
	buf_hex(out, b, 8);
	buf_putc(out, '"');
}

static void render_list(struct writer *w, const struct field *f, const char *base, struct buf *out)
{
	const struct list *list = f->more;
	size_t n = list_count(list, base);
	const char *row = list->in_place ? base + f->off : *(const char *const *)(const void *)(base + f->off);

	if (n > list->max || !row) {
		out->failed = true;
		return;
	}
	buf_putc(out, '[');
	for (size_t i = 0; i < n; i++, row += list->size) {
		if (i)
			buf_putc(out, ',');
		if (list->item)
			render_value(w, list->item, row, out);
		else
			render_fields(w, &list->fields, row, out);
	}
	buf_putc(out, ']');
}

static void render_id(char letter, uint64_t v, struct buf *out)
{
	out->failed |= v == 0 || v > INT64_MAX;
	buf_id(out, letter, v);
}

static void render_number(const struct field *f, const char *base, uint64_t own, struct buf *out)
{
	int64_t v = field_i64(f, base);

	switch ((enum field_type)f->type) {
	case FIELD_TIME:
		buf_time(out, v);
		return;
	case FIELD_SPAN:
		render_span(v, out);
		return;
	case FIELD_AMOUNT:
		render_amount((enum unit) * (const unsigned *)(const void *)(base + f->unit), v, out);
		return;
	case FIELD_MONEY:
		render_amount(UNIT_MONEY, v, out);
		return;
	case FIELD_COUNT:
		render_amount(UNIT_CALLS, v, out);
		return;
	case FIELD_HEX64:
		render_hex64((uint64_t)v, out);
		return;
	case FIELD_ID:
	case FIELD_ID_OR_OWN:
		render_id((char)f->arg, f->type == FIELD_ID_OR_OWN && v == -1 ? own : (uint64_t)v, out);
		return;
	case FIELD_INT:
		out->failed |= v < 0;
		buf_i64(out, v);
		return;
	case FIELD_TEXT:
	case FIELD_MESSAGE:
	case FIELD_JSON:
	case FIELD_CURRENCY:
	case FIELD_BOOL:
	case FIELD_HEX:
	case FIELD_NAME:
	case FIELD_UNIT:
	case FIELD_OBJECT:
	case FIELD_LIST:
		break;
	}
	out->failed = true;
}

static void render_unit(unsigned v, struct str currency, struct buf *out)
{
	struct str t = unit_text((enum unit)v, currency);

	if (v >= UNIT_COUNT)
		out->failed = true;
	buf_text(out, t);
}

static void render_value(struct writer *w, const struct field *f, const char *base, struct buf *out)
{
	const char *at = base + f->off;

	switch ((enum field_type)f->type) {
	case FIELD_CURRENCY:
		w->currency = *(const struct str *)(const void *)at;
		buf_text(out, w->currency);
		return;
	case FIELD_TEXT:
		buf_text(out, *(const struct str *)(const void *)at);
		return;
	case FIELD_MESSAGE:
		buf_text(out, (struct str){ at, strnlen(at, f->arg - 1u) });
		return;
	case FIELD_JSON:
		buf_str_add(out, *(const struct str *)(const void *)at);
		return;
	case FIELD_BOOL:
		buf_puts(out, *(const bool *)at ? "true" : "false");
		return;
	case FIELD_HEX:
		buf_putc(out, '"');
		buf_hex(out, (const uint8_t *)at, f->arg);
		buf_putc(out, '"');
		return;
	case FIELD_NAME:
		render_name(f->more, *(const unsigned *)(const void *)at, out);
		return;
	case FIELD_UNIT:
		render_unit(*(const unsigned *)(const void *)at, w->currency, out);
		return;
	case FIELD_OBJECT:
		render_fields(w, f->more, at, out);
		return;
	case FIELD_LIST:
		render_list(w, f, base, out);
		return;
	case FIELD_TIME:
	case FIELD_SPAN:
	case FIELD_INT:
	case FIELD_HEX64:
	case FIELD_ID:
	case FIELD_ID_OR_OWN:
	case FIELD_AMOUNT:
	case FIELD_MONEY:
	case FIELD_COUNT:
		break;
	}
	render_number(f, base, w->own, out);
}

static void render_fields(struct writer *w, const struct fields *of, const char *base, struct buf *out)
{
	bool first = true;

	buf_putc(out, '{');
	for (size_t i = 0; i < of->n; i++) {
		const struct field *f = &of->rows[i];

		if (!field_present(f, base))
			continue;
		if (!first)
			buf_putc(out, ',');
		first = false;
		buf_add(out, f->key, f->key_n);
		render_value(w, f, base, out);
	}
	buf_putc(out, '}');
}

void entry_render(const struct entry *e, struct buf *out)
{
	const struct shape *s = entry_shape_of(e);
	struct writer w = { .own = e->seq };
	size_t from = out->n;

	if (!s) {
		out->failed = true;
		return;
	}
	render_fields(&w, s->fields, (const char *)e, out);
	if (out->n - from > PAWL_MAX_BODY)
		out->failed = true;
}
