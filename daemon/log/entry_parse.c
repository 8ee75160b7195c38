/* daemon/log/entry_parse.c - a line -> the typed entry, for rebuild, replay and verify. Not a JSON parser: it walks the
 * rows of entry_fields.c and takes only the spelling that entry_render.c writes, so every accepted line is its own
 * rendering. Owns a copy of the line; texts are unescaped in place there and borrowed by the entry. */
#include "daemon/log/entry.h"
#include "daemon/log/entry_fields.h"
#include "daemon/log/entry_reader.h"

#include <stdlib.h>

#define MAX_AMOUNTS 8 /* a table's rows of FIELD_AMOUNT; charges have 5 */

static int read_fields(struct reader *r, const struct fields *of, char *base);
static int read_value(struct reader *r, const struct field *f, char *base);

/* ---- rows ---- */

static int read_name(struct reader *r, const struct names *names, unsigned *ret)
{
	struct str t;
	int got = reader_word(r, &t);

	if (got < 0)
		return got;
	for (size_t i = names->n; i-- > 0;) /* from the end: "deny" is VERDICT_DENY, not the unset one */
		if (names->names[i].p && str_eq(names->names[i], t)) {
			*ret = (unsigned)i;
			return 0;
		}
	return reader_bad(r, "an unknown word");
}

static int read_unit(struct reader *r, unsigned *ret)
{
	struct str t;
	int got = reader_text(r, &t);

	if (got < 0)
		return got;
	for (unsigned u = UNIT_COUNT; u-- > 0;)
		if (str_eq(t, unit_text((enum unit)u, r->currency))) {
			*ret = u;
			return 0;
		}
	return reader_bad(r, "an unknown unit");
}

static int read_bool(struct reader *r, bool *ret)
{
	if (reader_take_str(r, "true", 4))
		*ret = true;
	else if (reader_take_str(r, "false", 5))
		*ret = false;
	else
		return reader_bad(r, "true or false is due");
	return 0;
}

/* Room for one more row: in the struct itself, or in a block that doubles and ends with the parsed entry. */
static char *list_room(struct reader *r, const struct list *list, char *base, const struct field *f, size_t n)
{
	void **block = &r->ret->rows[list->block], *p = *block, *more;

	if (list->in_place)
		return base + f->off + n * list->size;
	if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
		more = realloc(p, (n < 4 ? 4 : 2 * n) * list->size);
		if (!more)
			return NULL;
		p = *block = more;
		*(void **)(void *)(base + f->off) = p;
	}
	return (char *)p + n * list->size;
}

static int read_list(struct reader *r, const struct list *list, const struct field *f, char *base)
{
	size_t n = 0;

	if (!reader_take(r, '['))
		return reader_bad(r, "a list is due");
	do {
		char *row;
		int got;

		if (n == list->max)
			return reader_bad(r, "too many");
		row = list_room(r, list, base, f, n);
		if (!row)
			return pawl_fail(r->err, PAWL_E_NOMEM, "out of memory");
		memset(row, 0, list->size);
		got = list->item ? read_value(r, list->item, row) : read_fields(r, &list->fields, row);
		if (got < 0)
			return got;
		n++;
	} while (reader_take(r, ','));
	if (list->count32)
		*(uint32_t *)(void *)(base + list->count) = (uint32_t)n;
	else
		*(size_t *)(void *)(base + list->count) = n;
	return reader_take(r, ']') ? 0 : reader_bad(r, "a list without end");
}

static int read_value(struct reader *r, const struct field *f, char *base)
{
	void *at = base + f->off;
	int got;

	switch ((enum field_type)f->type) {
	case FIELD_CURRENCY:
		got = reader_text(r, at);
		r->currency = *(struct str *)at;
		return got;
	case FIELD_TEXT:
		return reader_text(r, at);
	case FIELD_MESSAGE:
		return reader_message(r, at, f->arg);
	case FIELD_JSON:
		return reader_json(r, at);
	case FIELD_TIME:
		return reader_time(r, at);
	case FIELD_SPAN:
		return reader_span(r, at);
	case FIELD_INT:
		return reader_int(r, at);
	case FIELD_BOOL:
		return read_bool(r, at);
	case FIELD_HEX:
		return reader_hex(r, at, f->arg);
	case FIELD_HEX64: {
		uint8_t b[8];
		uint64_t v = 0;

		got = reader_hex(r, b, sizeof(b));
		for (size_t i = 0; got == 0 && i < sizeof(b); i++)
			v = v << 8 | b[i];
		*(uint64_t *)at = v;
		return got;
	}
	case FIELD_ID:
	case FIELD_ID_OR_OWN:
		return reader_id(r, (char)f->arg, at);
	case FIELD_NAME:
		return read_name(r, f->more, at);
	case FIELD_UNIT:
		return read_unit(r, at);
	case FIELD_MONEY:
		return reader_amount(r, UNIT_MONEY, at);
	case FIELD_COUNT:
		return reader_amount(r, UNIT_CALLS, at);
	case FIELD_OBJECT:
		return read_fields(r, f->more, at);
	case FIELD_LIST:
		return read_list(r, f->more, f, base);
	case FIELD_AMOUNT: /* read_fields() does these */
		break;
	}
	return reader_bad(r, "a field of no type");
}

static int unit_amount(struct reader *r, const struct amount *a, char *base)
{
	const struct field *f = a->field;

	return reader_amount_value(r, a, (enum unit) * (unsigned *)(void *)(base + f->unit),
				   (int64_t *)(void *)(base + f->off));
}

/* Most of a table's rows are not in the line: the letter behind the quote tells them apart without a call. */
static bool take_key(struct reader *r, const struct field *f, bool first)
{
	char *at = r->at;

	if (!first && (at == r->end || *at++ != ','))
		return false;
	if (r->end - at < f->key_n || at[1] != f->key[1] || memcmp(at, f->key, f->key_n) != 0)
		return false;
	r->at = at + f->key_n;
	return true;
}

static int read_fields(struct reader *r, const struct fields *of, char *base)
{
	struct amount amounts[MAX_AMOUNTS];
	size_t n_amounts = 0;
	uint64_t seen = 0;
	int got = 0;

	if (!reader_take(r, '{'))
		return reader_bad(r, "an object is due");
	for (size_t i = 0; i < of->n && got == 0; i++) {
		const struct field *f = &of->rows[i];

		if (!take_key(r, f, !seen))
			continue;
		seen |= UINT64_C(1) << i;
		r->where = f->key;
		if (f->when == WHEN_FLAG)
			*(bool *)(base + f->flag) = true;
		if (f->type == FIELD_AMOUNT) {
			amounts[n_amounts].field = f;
			got = reader_decimal(r, &amounts[n_amounts++]);
		} else {
			got = read_value(r, f, base);
		}
	}
	if (got == 0 && !reader_take(r, '}'))
		got = reader_bad(r, "an unknown, repeated or misplaced field behind this one");
	for (size_t i = 0; i < n_amounts && got == 0; i++)
		got = unit_amount(r, &amounts[i], base);
	for (size_t i = 0; i < of->n && got == 0; i++) /* what the writer would have put there, no more and no less */
		if (field_present(&of->rows[i], base) != ((seen >> i & 1) != 0)) {
			r->where = of->rows[i].key;
			got = reader_bad(r, seen >> i & 1 ? "there, and empty" : "missing");
		}
	return got;
}

/* ---- the line ---- */

static const struct shape *shape_of_line(const char *line, size_t n)
{
	static const char mark[] = "\"kind\":\""; /* quotes inside texts have a backslash: only a key looks like this */
	const char *at = memmem(line, n, mark, sizeof(mark) - 1);
	const char *end = at ? memchr(at + sizeof(mark) - 1, '"', (size_t)(line + n - at) - (sizeof(mark) - 1)) : NULL;

	if (!end)
		return NULL;
	at += sizeof(mark) - 1;
	for (size_t i = 0; i < entry_n_shapes; i++) {
		const struct shape *s = &entry_shapes[i];
		const char *kind = entry_kind_name(s->kind);

		if (kind && str_is((struct str){ at, (size_t)(end - at) }, kind) &&
		    (!s->mark || memmem(line, n, s->mark, strlen(s->mark))))
			return s;
	}
	return NULL;
}

/* A row says its unit once; the ledger's name has it too. */
static void name_units(struct entry_parsed *p)
{
	struct draw *draws = p->rows[0];
	struct charge *charges = p->rows[0];
	const struct entry *e = &p->e;
	size_t n = e->kind == ENTRY_SETTLE ? e->settle.n_charges : e->kind == ENTRY_LOSS ? e->loss.late.n_charges : 0;

	for (size_t i = 0; i < n; i++)
		charges[i].draw.key.unit = charges[i].draw.unit;
	if (e->kind == ENTRY_DECISION || e->kind == ENTRY_CLAIM)
		for (size_t i = 0; i < e->decision.n_draws; i++)
			draws[i].key.unit = draws[i].unit;
}

static int read_line(struct reader *r, size_t n)
{
	struct entry *e = &r->ret->e;
	const struct shape *s = shape_of_line(r->from, n);
	int got;

	if (!s)
		return reader_bad(r, "an unknown kind of entry");
	e->kind = s->kind;
	e->seq = r->seq;
	if (s->kind == ENTRY_SETTLE)
		e->settle.duration_ns = -1;
	if (s->kind == ENTRY_LOSS)
		e->loss.late.duration_ns = -1;
	got = read_fields(r, s->fields, (char *)e);
	if (got < 0)
		return got;
	r->where = "the end";
	if (r->at != r->end)
		return reader_bad(r, "something behind the entry");
	if (entry_shape_of(e) != s)
		return reader_bad(r, "not the kind it seemed");
	name_units(r->ret);
	if (s->kind == ENTRY_SESSION && s->sub == SESSION_OPEN && e->session.session != e->seq)
		return reader_bad(r, "a session that is not named after its entry");
	if (s->kind == ENTRY_START)
		e->start.probes = r->ret->doc;
	if (s->kind == ENTRY_LOSS && s->sub == LOSS_LATE_SETTLE) {
		e->loss.late.session = e->loss.session;
		e->loss.late.decision = e->loss.decision;
		e->loss.late.breakers = e->loss.breakers;
		e->loss.late.n_breakers = e->loss.n_breakers;
	}
	return 0;
}

int entry_parse(struct str body, uint64_t seq, struct entry_parsed *ret, struct pawl_error *err)
{
	struct entry_parsed p = { 0 };
	struct reader r = { .where = "the line", .ret = &p, .seq = seq, .err = err };
	int got;

	if (body.n == 0 || body.n > PAWL_MAX_BODY)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu: %zu bytes", (unsigned long long)seq, body.n);
	p.bytes = malloc(body.n);
	if (!p.bytes)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	memcpy(p.bytes, body.p, body.n);
	r.from = r.at = p.bytes;
	r.end = p.bytes + body.n;
	got = read_line(&r, body.n);
	if (got < 0)
		entry_parsed_done(&p);
	else
		*ret = p;
	return got;
}
