/* daemon/door/reply.c - the answers to decide, claim and settle, and refusals. Made of an entry and its note alone, so
 * that asking again after a restart gives the same bytes. Owns nothing; pure. */
#include "daemon/door/reply_part.h"

#include "daemon/log/entry.h"

/* At once what nearly every reply needs, instead of growing into it: the note with an escape for each quote, a row for
 * each budget. */
static void make_room(struct str note, size_t n_rows, struct buf *out)
{
	(void)buf_room(out, note.n + note.n / 4 + n_rows * 192 + 512);
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

/* ---- decide ---- */

static void decide_reason(const struct reason *why, struct str currency, struct buf *out)
{
	buf_puts(out, "{\"code\":");
	buf_json(out, str_of(reason_name(why->code)));
	reply_key_text(out, "rule", why->rule);
	reply_key_text(out, "message", (struct str){ why->message, strnlen(why->message, sizeof(why->message)) });
	if (why->has_numbers) {
		reply_key_amount(out, "counter", why->unit, why->counter);
		reply_key_amount(out, "limit", why->unit, why->limit);
		reply_key_text(out, "unit", unit_text(why->unit, currency));
	}
	if (why->refers)
		reply_key_id(out, "decision", 'd', why->refers);
	buf_putc(out, '}');
}

/* Shadow mode: what enforce would have answered. */
static void decide_would(const struct entry_decision *d, struct buf *out)
{
	buf_key(out, "would");
	buf_puts(out, "{\"verdict\":");
	buf_json(out, str_of(verdict_name(d->would)));
	reply_key_span(out, "retry_after", d->would_why.retry_after_ns);
	buf_key(out, "reason");
	decide_reason(&d->would_why, d->money_unit, out);
	buf_putc(out, '}');
}

static void decide_settled(const struct entry_decision *d, struct buf *out)
{
	const char *outcome = outcome_name(d->settled);

	buf_key(out, "settled");
	buf_puts(out, "{\"outcome\":");
	buf_json(out, str_of(outcome ? outcome : "ok"));
	if (d->has_settled_result)
		reply_key_hex(out, "result", d->settled_result, sizeof(d->settled_result));
	else
		buf_puts(out, ",\"result\":null");
	buf_putc(out, '}');
}

void reply_decide(const struct entry *e, struct str note, struct buf *out)
{
	reply_reviewed(e, note, CARD_PENDING, out);
}

void reply_reviewed(const struct entry *e, struct str note, enum card_mode card, struct buf *out)
{
	const struct entry_decision *d = &e->decision;
	bool allowed = d->answer == VERDICT_ALLOW, asks = d->answer == VERDICT_REVIEW && d->card;

	if (e->kind != ENTRY_DECISION && e->kind != ENTRY_CLAIM) { /* a caller's bug must not become an answer */
		out->failed = true;
		return;
	}
	make_room(note, d->n_draws, out);
	reply_head(e->kind == ENTRY_CLAIM ? OP_CLAIM : OP_DECIDE, out);
	reply_key_text(out, "call", d->call);
	reply_key_text(out, "verdict", str_of(verdict_name(d->answer)));
	reply_key_id(out, "decision", 'd', e->seq);
	reply_key_id(out, "review", 'r', asks ? d->card : 0);
	buf_puts(out, ",\"permit\":null");
	reply_key_span(out, "retry_after", d->why.retry_after_ns);
	buf_key(out, "reason");
	decide_reason(&d->why, d->money_unit, out);
	buf_key(out, "remaining");
	reply_remaining(d->draws, sizeof(*d->draws), d->n_draws, allowed, d->money_unit, out);
	reply_key_time(out, "lease_until", allowed ? d->lease_until : 0);
	if (asks) { /* what the entry does not say must not show: a deadline without card */
		reply_key_time(out, "expires", d->card_until);
		reply_key_text(out, "review_state", reply_card_state(card));
	}
	if (d->settled != OUTCOME_NONE)
		decide_settled(d, out);
	if (d->call_reused)
		buf_puts(out, ",\"call_reused\":true");
	if (d->limits_ignored)
		buf_puts(out, ",\"limits_ignored\":true");
	if (d->would)
		decide_would(d, out);
	key_log(out, e->seq, note);
	buf_putc(out, '}');
}

static void unavailable(enum wire_op op, struct str call, const char *message, struct buf *out)
{
	struct reason why = { .code = REASON_LOG_UNAVAILABLE };
	struct str text = str_of(message);

	if (text.n == 0)
		text = STR("the audit log cannot be written: nothing runs until it can");
	memcpy(why.message, text.p, text.n < sizeof(why.message) ? text.n : sizeof(why.message) - 1);
	reply_head(op, out);
	reply_key_text(out, "call", call);
	buf_puts(
	    out,
	    ",\"verdict\":\"deny\",\"decision\":null,\"review\":null,\"permit\":null,\"retry_after\":null,\"reason\":");
	decide_reason(&why, STR_NONE, out);
	buf_puts(out, ",\"remaining\":{},\"lease_until\":null,\"log\":null}");
}

void reply_unavailable_decide(struct str call, const char *message, struct buf *out)
{
	unavailable(OP_DECIDE, call, message, out);
}

void reply_unavailable_claim(struct str call, const char *message, struct buf *out)
{
	unavailable(OP_CLAIM, call, message, out);
}

void reply_review_wait(const struct reply_wait *w, struct buf *out)
{
	reply_head(OP_REVIEW_WAIT, out);
	reply_key_id(out, "review", 'r', w->review);
	reply_key_text(out, "state", reply_card_state(w->mode));
	reply_key_time(out, "expires", w->expires);
	reply_key_text(out, "operator", w->operator);
	reply_key_text(out, "reason", w->reason);
	buf_putc(out, '}');
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
	reply_key_amount(out, "money", UNIT_MONEY, money);
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
	reply_key_id(out, "decision", 'd', late ? e->loss.decision : s->decision);
	reply_key_text(out, "outcome", outcome ? str_of(outcome) : STR_NONE);
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
	reply_key_text(out, "field", field && field[0] ? str_of(field) : STR_NONE);
	reply_key_text(out, "message", str_of(message ? message : ""));
	if (retry_after_ns > 0)
		reply_key_span(out, "retry_after", retry_after_ns);
	buf_puts(out, "}}");
}
