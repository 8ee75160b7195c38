/* daemon/door/reply.c - the answers to decide and settle, and refusals. Made of an entry and its note alone, so that
 * asking again after a restart gives the same bytes. Owns nothing; pure. */
#include "daemon/door/reply.h"

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

/* At once what nearly every reply needs, instead of growing into it: the note with an escape for each quote, a row for
 * each budget. */
static void make_room(struct str note, size_t n_rows, struct buf *out)
{
	(void)buf_room(out, note.n + note.n / 4 + n_rows * 192 + 512);
}

static void key_amount(struct buf *out, const char *key, enum unit unit, int64_t v)
{
	char t[32];

	buf_key(out, key);
	buf_json(out, (struct str){ t, amount_text(unit, v, t) });
}

static void key_text(struct buf *out, const char *key, struct str s)
{
	buf_key(out, key);
	if (s.p)
		buf_text(out, s);
	else
		buf_puts(out, "null");
}

static void key_time(struct buf *out, const char *key, int64_t ns)
{
	buf_key(out, key);
	if (ns)
		buf_time(out, ns);
	else
		buf_puts(out, "null");
}

static void key_span(struct buf *out, const char *key, int64_t ns)
{
	char t[MONEY_TEXT];

	buf_key(out, key);
	if (ns > 0)
		buf_json(out, (struct str){ t, span_text(ns, t) });
	else
		buf_puts(out, "null");
}

static void key_id(struct buf *out, const char *key, char letter, uint64_t id)
{
	buf_key(out, key);
	if (id)
		buf_id(out, letter, id);
	else
		buf_puts(out, "null");
}

static void key_log(struct buf *out, uint64_t seq, struct str note)
{
	buf_key(out, "log");
	buf_puts(out, "{\"seq\":");
	buf_u64(out, seq);
	buf_puts(out, ",\"entry\":");
	buf_json(out, note);
	buf_putc(out, '}');
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
	key_amount(out, "used", d->unit, used_of(d, taken));
	key_amount(out, "remaining", d->unit, left > 0 ? left : 0);
	key_amount(out, "limit", d->unit, d->limit);
	if (d->granted > 0)
		key_amount(out, "granted", d->unit, d->granted);
	if (left < 0)
		key_amount(out, "over", d->unit, left == INT64_MIN ? INT64_MAX : -left);
	key_text(out, "unit", unit_text(d->unit, currency));
	buf_puts(out, ",\"reset_at\":null");
	key_text(out, "scope", scope ? str_of(scope) : STR_NONE);
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

/* ---- decide ---- */

static void decide_reason(const struct reason *why, struct str currency, struct buf *out)
{
	buf_puts(out, "{\"code\":");
	buf_json(out, str_of(reason_name(why->code)));
	key_text(out, "rule", why->rule);
	key_text(out, "message", (struct str){ why->message, strnlen(why->message, sizeof(why->message)) });
	if (why->has_numbers) {
		key_amount(out, "counter", why->unit, why->counter);
		key_amount(out, "limit", why->unit, why->limit);
		key_text(out, "unit", unit_text(why->unit, currency));
	}
	if (why->refers)
		key_id(out, "decision", 'd', why->refers);
	buf_putc(out, '}');
}

static void decide_settled(const struct entry_decision *d, struct buf *out)
{
	const char *outcome = outcome_name(d->settled);

	buf_key(out, "settled");
	buf_puts(out, "{\"outcome\":");
	buf_json(out, str_of(outcome ? outcome : "ok"));
	buf_key(out, "result");
	if (d->has_settled_result) {
		buf_putc(out, '"');
		buf_hex(out, d->settled_result, sizeof(d->settled_result));
		buf_putc(out, '"');
	} else {
		buf_puts(out, "null");
	}
	buf_putc(out, '}');
}

void reply_decide(const struct entry *e, struct str note, struct buf *out)
{
	const struct entry_decision *d = &e->decision;
	bool allowed = d->answer == VERDICT_ALLOW;

	if (e->kind != ENTRY_DECISION) { /* a caller's bug must not become an answer */
		out->failed = true;
		return;
	}
	make_room(note, d->n_draws, out);
	reply_head(OP_DECIDE, out);
	key_text(out, "call", d->call);
	key_text(out, "verdict", str_of(verdict_name(d->answer)));
	key_id(out, "decision", 'd', e->seq);
	key_id(out, "review", 'r', d->answer == VERDICT_REVIEW ? d->card : 0);
	buf_puts(out, ",\"permit\":null");
	key_span(out, "retry_after", d->why.retry_after_ns);
	buf_key(out, "reason");
	decide_reason(&d->why, d->money_unit, out);
	buf_key(out, "remaining");
	reply_remaining(d->draws, sizeof(*d->draws), d->n_draws, allowed, d->money_unit, out);
	key_time(out, "lease_until", allowed ? d->lease_until : 0);
	if (d->answer == VERDICT_REVIEW &&
	    d->card) /* what the entry does not say must not show: a deadline without card */
		key_time(out, "expires", d->card_until);
	if (d->settled != OUTCOME_NONE)
		decide_settled(d, out);
	if (d->call_reused)
		buf_puts(out, ",\"call_reused\":true");
	if (d->limits_ignored)
		buf_puts(out, ",\"limits_ignored\":true");
	key_log(out, e->seq, note);
	buf_putc(out, '}');
}

void reply_unavailable_decide(struct str call, const char *message, struct buf *out)
{
	struct reason why = { .code = REASON_LOG_UNAVAILABLE };
	struct str text = str_of(message);

	if (text.n == 0)
		text = STR("the audit log cannot be written: nothing runs until it can");
	memcpy(why.message, text.p, text.n < sizeof(why.message) ? text.n : sizeof(why.message) - 1);
	reply_head(OP_DECIDE, out);
	key_text(out, "call", call);
	buf_puts(
	    out,
	    ",\"verdict\":\"deny\",\"decision\":null,\"review\":null,\"permit\":null,\"retry_after\":null,\"reason\":");
	decide_reason(&why, STR_NONE, out);
	buf_puts(out, ",\"remaining\":{},\"lease_until\":null,\"log\":null}");
}

/* ---- settle ---- */

/* Tokens that went back: what was held and not charged. The ledgers of one call hold the same number, so the largest is
 * it. */
static int64_t tokens_returned(const struct entry_settle *s)
{
	int64_t most = 0;

	for (size_t i = 0; i < s->n_charges; i++)
		if (s->charges[i].draw.unit == UNIT_TOKENS && s->charges[i].reserved - s->charges[i].charged > most)
			most = s->charges[i].reserved - s->charges[i].charged;
	return most;
}

static void money_and_tokens(struct buf *out, const char *key, int64_t money, int64_t tokens)
{
	buf_key(out, key);
	buf_putc(out, '{');
	key_amount(out, "money", UNIT_MONEY, money);
	buf_key(out, "tokens");
	buf_i64(out, tokens);
	buf_putc(out, '}');
}

_Static_assert(offsetof(struct charge, draw) == 0, "reply_remaining() reads a charge as a draw");

void reply_settle(const struct entry *e, struct str note, struct buf *out)
{
	bool late = e->kind == ENTRY_LOSS;
	const struct entry_settle *s = late ? &e->loss.late : &e->settle;
	const char *outcome;

	if (e->kind != ENTRY_SETTLE && !(late && e->loss.what == LOSS_LATE_SETTLE)) {
		out->failed = true;
		return;
	}
	outcome = outcome_name(s->outcome);
	make_room(note, s->n_charges, out);
	reply_head(OP_SETTLE, out);
	key_id(out, "decision", 'd', late ? e->loss.decision : s->decision);
	key_text(out, "outcome", outcome ? str_of(outcome) : STR_NONE);
	money_and_tokens(out, "charged", s->charged_money, s->charged_tokens);
	money_and_tokens(out, "returned", s->returned, tokens_returned(s));
	buf_puts(out, late ? ",\"late\":true" : ",\"late\":false");
	buf_key(out, "remaining");
	reply_remaining(s->charges, sizeof(*s->charges), s->n_charges, false, s->money_unit, out);
	key_log(out, e->seq, note);
	buf_putc(out, '}');
}

/* ---- refusals ---- */

void reply_error(enum wire_op op, enum reason_code code, const char *field, const char *message, int64_t retry_after_ns,
		 struct buf *out)
{
	reply_head(op, out);
	buf_puts(out, ",\"error\":{\"code\":");
	buf_json(out, str_of(reason_name(code)));
	key_text(out, "field", field && field[0] ? str_of(field) : STR_NONE);
	key_text(out, "message", str_of(message ? message : ""));
	if (retry_after_ns > 0)
		key_span(out, "retry_after", retry_after_ns);
	buf_puts(out, "}}");
}
