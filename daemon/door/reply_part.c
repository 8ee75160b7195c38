/* daemon/door/reply_part.c - the pieces that several replies are made of. Owns nothing; pure. */
#include "daemon/door/reply_part.h"

#include "daemon/log/entry.h"
#include "policy/money.h"

void reply_head(enum wire_op op, struct buf *out)
{
	const char *name = wire_op_name(op);

	buf_puts(out, "{\"v\":1,\"op\":");
	if (name)
		buf_json(out, str_of(name));
	else
		buf_puts(out, "null");
}

void reply_key_amount(struct buf *out, const char *key, enum unit unit, int64_t v)
{
	char t[32];

	buf_key(out, key);
	buf_json(out, (struct str){ t, amount_text(unit, v, t) });
}

void reply_key_text(struct buf *out, const char *key, struct str s)
{
	buf_key(out, key);
	if (s.p)
		buf_text(out, s);
	else
		buf_puts(out, "null");
}

void reply_key_time(struct buf *out, const char *key, int64_t ns)
{
	buf_key(out, key);
	if (ns)
		buf_time(out, ns);
	else
		buf_puts(out, "null");
}

void reply_key_span(struct buf *out, const char *key, int64_t ns)
{
	char t[MONEY_TEXT];

	buf_key(out, key);
	if (ns > 0)
		buf_json(out, (struct str){ t, span_text(ns, t) });
	else
		buf_puts(out, "null");
}

void reply_key_id(struct buf *out, const char *key, char letter, uint64_t id)
{
	buf_key(out, key);
	if (id)
		buf_id(out, letter, id);
	else
		buf_puts(out, "null");
}

void reply_key_int(struct buf *out, const char *key, int64_t v)
{
	buf_key(out, key);
	buf_i64(out, v);
}

void reply_key_hex(struct buf *out, const char *key, const uint8_t *p, size_t n)
{
	buf_key(out, key);
	buf_putc(out, '"');
	buf_hex(out, p, n);
	buf_putc(out, '"');
}

void reply_key_seq(struct buf *out, uint64_t seq)
{
	buf_puts(out, ",\"log\":{\"seq\":");
	buf_u64(out, seq);
	buf_putc(out, '}');
}

struct str reply_card_state(enum card_mode mode)
{
	const char *name = card_mode_name(mode == CARD_SPENT ? CARD_RESUMED : mode);

	return name ? str_of(name) : STR("closed");
}

void reply_asks(const struct ask *asks, size_t n, struct buf *out)
{
	buf_puts(out, ",\"asks\":[");
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ",{\"code\":" : "{\"code\":");
		buf_json(out, str_of(reason_name(asks[i].code)));
		reply_key_text(out, "rule", asks[i].rule);
		if (asks[i].refers)
			reply_key_id(out, "decision", 'd', asks[i].refers);
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

/* ---- remaining ---- */

static int64_t used_of(const struct draw *d, bool taken)
{
	return taken ? add_sat(d->used, d->amount) : d->used;
}

/* What is left; negative when more than the limit is used. */
static int64_t left_of(const struct draw *d, bool taken)
{
	int64_t used = used_of(d, taken);

	return add_sat(add_sat(d->limit, d->granted), used == INT64_MIN ? INT64_MAX : -used);
}

static const struct draw *row_at(const void *rows, size_t stride, size_t i)
{
	return (const struct draw *)(const void *)((const char *)rows + i * stride);
}

static void remaining_row(const struct draw *d, bool taken, struct str currency, struct buf *out)
{
	int64_t left = left_of(d, taken);
	const char *scope = scope_name(d->key.scope);

	if (out->p && out->n && out->p[out->n - 1] != '{')
		buf_putc(out, ',');
	buf_text(out, d->key.budget);
	buf_puts(out, ":{");
	reply_key_amount(out, "used", d->unit, used_of(d, taken));
	reply_key_amount(out, "remaining", d->unit, left > 0 ? left : 0);
	reply_key_amount(out, "limit", d->unit, d->limit);
	if (d->granted > 0)
		reply_key_amount(out, "granted", d->unit, d->granted);
	if (left < 0)
		reply_key_amount(out, "over", d->unit, left == INT64_MIN ? INT64_MAX : -left);
	reply_key_text(out, "unit", unit_text(d->unit, currency));
	reply_key_time(out, "reset_at", d->window_end);
	reply_key_text(out, "scope", scope ? str_of(scope) : STR_NONE);
	buf_putc(out, '}');
}

void reply_remaining(const void *rows, size_t stride, size_t n, bool taken, struct str currency, struct buf *out)
{
	buf_putc(out, '{');
	for (size_t i = 0; i < n; i++) {
		const struct draw *first = row_at(rows, stride, i), *tightest = first;
		bool shown = false;

		for (size_t k = 0; k < i && !shown; k++)
			shown = str_eq(row_at(rows, stride, k)->key.budget, first->key.budget);
		for (size_t k = i + 1; k < n && !shown; k++) {
			const struct draw *d = row_at(rows, stride, k);

			if (str_eq(d->key.budget, first->key.budget) && left_of(d, taken) < left_of(tightest, taken))
				tightest = d;
		}
		if (!shown)
			remaining_row(tightest, taken, currency, out);
	}
	buf_putc(out, '}');
}
