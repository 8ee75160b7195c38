/* daemon/store/projection_call.c - rows of decisions, of the reviews that they ask for, and of what became of both. */
#include "daemon/store/projection_int.h"

#include "daemon/log/entry.h"

/* The largest of the call's holds of that unit, which is what `pawl spend` counts; -1 when it holds nothing because it may not run. */
static int64_t reserved(const struct entry_decision *d, enum unit unit)
{
	int64_t most = 0;

	for (size_t i = 0; i < d->n_draws; i++)
		if (d->draws[i].unit == unit && d->draws[i].amount > most)
			most = d->draws[i].amount;
	return d->answer == VERDICT_ALLOW ? most : -1;
}

/* Of a call that runs because the policy is only tried. */
static void put_would(struct put *u, const struct entry_decision *d)
{
	const char *code = d->would ? reason_name(d->would_why.code) : NULL;

	put_word(u, d->would ? verdict_name(d->would) : NULL);
	put_word(u, code);
	put_str(u, d->would ? d->would_why.rule : STR_NONE);
	put_str(u, d->would ? str_of(d->would_why.message) : STR_NONE);
}

static int put_decision(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	int64_t money = reserved(d, UNIT_MONEY), tokens = reserved(d, UNIT_TOKENS);
	struct put u = put_begin(p, SQL_DECISION);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_u64(&u, d->session);
	put_u64(&u, d->root);
	put_int(&u, e->kind == ENTRY_CLAIM);
	put_text(&u, d->call);
	put_text(&u, d->tool);
	put_word(&u, call_kind_name(d->kind));
	put_str(&u, d->model);
	put_word(&u, verdict_name(d->answer));
	put_word(&u, reason_name(d->why.code));
	put_str(&u, d->why.rule);
	put_text(&u, str_of(d->why.message));
	put_id(&u, d->why.refers);
	put_id(&u, d->card);
	put_id(&u, d->spends);
	put_str(&u, d->money_unit);
	put_opt(&u, d->cost_known, d->money);
	put_opt(&u, d->tokens_known, d->tokens);
	put_opt(&u, money >= 0, money);
	put_opt(&u, tokens >= 0, tokens);
	put_opt(&u, d->lease_until != 0, d->lease_until);
	put_id(&u, d->claims);
	put_would(&u, d);
	return put_end(&u, err);
}

static void put_asks(struct put *u, const struct entry_decision *d)
{
	struct buf *b = &u->p->text;

	buf_reset(b);
	buf_putc(b, '[');
	for (size_t i = 0; i < d->n_asks; i++) {
		buf_puts(b, i ? ",{\"code\":" : "{\"code\":");
		buf_text(b, str_of(reason_name(d->asks[i].code)));
		if (d->asks[i].rule.n) {
			buf_puts(b, ",\"rule\":");
			buf_text(b, d->asks[i].rule);
		}
		buf_putc(b, '}');
	}
	buf_putc(b, ']');
	put_json(u, b);
}

static int put_review(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	struct put u = put_begin(p, d->card == e->seq ? SQL_REVIEW : SQL_REVIEW_JOIN);

	put_u64(&u, d->card);
	if (d->card == e->seq) {
		put_u64(&u, d->session);
		put_text(&u, d->tool);
		put_int(&u, e->now);
		put_int(&u, d->card_until);
		put_asks(&u, d);
		put_str(&u, d->money_unit);
	}
	put_int(&u, d->money);
	put_int(&u, d->tokens);
	if (d->card == e->seq)
		put_blob(&u, d->card_token, sizeof(d->card_token));
	return put_end(&u, err);
}

static int put_denial(struct projection *p, const struct entry *e, const struct stick_fact *k, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_DENIAL);

	put_u64(&u, e->decision.session);
	put_word(&u, stick_name(k->how));
	put_text(&u, k->tool);
	put_text(&u, k->rule);
	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_int(&u, e->decision.shadow);
	return put_end(&u, err);
}

static int spend_review(struct projection *p, const struct entry *e, enum projection_sql what, struct pawl_error *err)
{
	struct put u = put_begin(p, what);

	put_u64(&u, e->decision.spends);
	put_u64(&u, e->seq);
	put_int(&u, e->now);
	return put_end(&u, err);
}

int rows_of_decision(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	int r = put_decision(p, e, err);

	for (size_t i = 0; r == 0 && i < d->n_sticks; i++)
		r = put_denial(p, e, &d->sticks[i], err);
	if (r == 0 && d->answer == VERDICT_REVIEW && d->card)
		r = put_review(p, e, err);
	if (r == 0 && d->answer == VERDICT_ALLOW && d->spends)
		r = spend_review(p, e, SQL_REVIEW_SPEND, err);
	if (r == 0 && d->answer == VERDICT_ALLOW && d->spends && d->ends_cards)
		r = spend_review(p, e, SQL_REVIEW_END, err);
	for (size_t i = 0; d->answer == VERDICT_ALLOW && i < d->n_draws; i++)
		mark_ledger(p, &d->draws[i].key);
	return r;
}

int rows_of_timeout(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	struct put u = put_begin(p, e->timeout.waiter ? SQL_REVIEW_WAITER : SQL_REVIEW_TIMEOUT);

	put_u64(&u, e->timeout.card);
	if (!e->timeout.waiter) {
		put_int(&u, e->now);
		put_u64(&u, e->seq);
	}
	return put_end(&u, err);
}

/* ---- reports ---- */

static int put_settlement(struct projection *p, const struct entry *e, const struct entry_settle *s, bool late, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_SETTLEMENT);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_u64(&u, late ? e->loss.decision : s->decision);
	put_u64(&u, late ? e->loss.session : s->session);
	put_int(&u, late);
	put_word(&u, outcome_name(s->outcome));
	put_str(&u, s->money_unit);
	put_opt(&u, s->has_money, s->money);
	put_opt(&u, s->has_tokens, s->tokens);
	put_int(&u, s->charged_money);
	put_int(&u, s->charged_tokens);
	put_int(&u, s->returned);
	put_opt(&u, s->has_result, s->result_bytes);
	put_str(&u, s->has_error ? s->error_kind : STR_NONE);
	put_opt(&u, s->duration_ns >= 0, s->duration_ns);
	return put_end(&u, err);
}

int rows_of_settle(struct projection *p, const struct entry *e, const struct entry_settle *s, bool late, struct pawl_error *err)
{
	int r = put_settlement(p, e, s, late, err);
	struct put u;

	if (r < 0)
		return r;
	u = put_begin(p, late ? SQL_CALL_LATE : SQL_CALL_SETTLE);
	put_u64(&u, late ? e->loss.decision : s->decision);
	put_word(&u, outcome_name(s->outcome));
	put_int(&u, e->now);
	put_u64(&u, e->seq);
	put_int(&u, s->charged_money);
	put_int(&u, s->charged_tokens);
	for (size_t i = 0; i < s->n_charges; i++)
		mark_ledger(p, &s->charges[i].draw.key);
	return put_end(&u, err);
}
