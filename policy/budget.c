/* policy/budget.c - the law of budgets: a call must fit into every ledger that it draws from. Amounts are int64 in the
 * ledger's unit (nano-units, calls, tokens, ns); sums saturate, and what saturates does not fit. Pure.
 *
 * A ledger is named by its budget and scope alone, never by a limit or a policy's hash, so that a reload keeps what was
 * spent. The caller's own limits of a session are ledgers too, one for each unit: @session, @session.calls,
 * @session.tokens, @session.time. */
#include "policy/laws.h"

#include "pawl/settle.h"
#include "policy/money.h"

#include <stdio.h>

/* ---- which ledgers ---- */

static int64_t need(const struct facts *f, enum unit unit)
{
	switch (unit) {
	case UNIT_MONEY:
		return f->cost_known ? f->money : 0; /* unknown: refused by the law, whatever stands here */
	case UNIT_CALLS:
		return 1;
	case UNIT_TOKENS:
		return f->tokens_known ? f->tokens : 0;
	case UNIT_TIME:
	case UNIT_COUNT:
		break;
	}
	return 0;
}

int64_t budget_window(const struct budget *b, const struct ledger_state *led, int64_t now)
{
	return led->window_end > now ? led->window_end : window_end(&b->every, now);
}

/* opened: of the session whose age a time budget looks at. */
static void draw(struct question *q, int budget, struct ledger_key key, enum unit unit, int64_t limit, int64_t opened)
{
	struct judgement *j = q->j;
	struct ledger_state led;
	int64_t end;

	if (j->n_draws == PAWL_MAX_LEDGERS) {
		q->draws_cut = true;
		return;
	}
	key.unit = unit;
	led = state_ledger(q->st, &key, q->now);
	end = budget < 0 ? 0 : budget_window(&q->pol->budgets[budget], &led, q->now);
	if (end && led.window_end == 0) /* a reload gave the budget its first window, which starts empty */
		led = (struct ledger_state){ .granted = 0 };
	q->budget_of[j->n_draws] = (int16_t)budget;
	j->draws[j->n_draws++] = (struct draw){
		.key = key,
		.unit = unit,
		.amount = need(q->f, unit),
		.used = unit == UNIT_TIME ? q->now - opened : add_sat(led.spent, led.reserved),
		.limit = limit,
		.granted = led.granted,
		.window_end = end,
	};
}

struct str own_ledger_name(enum unit unit)
{
	static const struct str names[UNIT_COUNT] = { [UNIT_MONEY] = { "@session", 8 },
						      [UNIT_CALLS] = { "@session.calls", 14 },
						      [UNIT_TOKENS] = { "@session.tokens", 15 },
						      [UNIT_TIME] = { "@session.time", 13 } };

	return (unsigned)unit < UNIT_COUNT ? names[unit] : STR_NONE;
}

static void draw_own(struct question *q, const struct session_state *s)
{
	struct ledger_key key = { .scope = SCOPE_SESSION, .session = s->id };

	for (int u = 0; u < UNIT_COUNT; u++)
		if (s->has_limit[u]) {
			key.budget = own_ledger_name((enum unit)u);
			draw(q, -1, key, (enum unit)u, s->limit[u], s->opened_ns);
		}
}

static const struct session_state *parent_of(const struct question *q, const struct session_state *s)
{
	return s->parent ? state_session(q->st, s->parent) : NULL;
}

struct str scope_owner(enum scope scope, struct str agent)
{
	return scope == SCOPE_AGENT ? agent : scope == SCOPE_TENANT ? STR("local") : STR_NONE;
}

static void draw_budget(struct question *q, int i)
{
	const struct budget *b = &q->pol->budgets[i];
	struct ledger_key key = { .budget = b->id, .scope = b->scope, .tool = b->per_tool ? q->f->tool : STR_NONE };

	if (b->scope == SCOPE_SESSION) { /* its own, and that of every session above it */
		for (const struct session_state *s = q->who; s; s = parent_of(q, s)) {
			key.session = s->id;
			draw(q, i, key, b->unit, b->limit, s->opened_ns);
		}
		return;
	}
	key.owner = scope_owner(b->scope, q->f->agent);
	draw(q, i, key, b->unit, b->limit, q->who->opened_ns);
}

void budget_draws(struct question *q)
{
	const struct session_state *who = q->who;

	if (!who)
		return;
	for (uint32_t left = q->f->budgets; left; left &= left - 1)
		draw_budget(q, __builtin_ctz(left));
	for (const struct session_state *s = who; s; s = parent_of(q, s))
		draw_own(q, s);
	if (q->guard.has_money)
		draw(q, -1,
		     (struct ledger_key){
			 .budget = STR("@guard"), .scope = SCOPE_SESSION, .session = who->id, .tool = q->f->tool },
		     UNIT_MONEY, q->guard.money, 0);
}

/* ---- does it fit? ---- */

#define AMOUNT_TEXT 40

static void amount_text(const struct question *q, enum unit unit, int64_t v, bool with_unit,
			char out[static AMOUNT_TEXT])
{
	char t[MONEY_TEXT];

	switch (unit) {
	case UNIT_MONEY:
		(void)money_text(v, t);
		(void)snprintf(out, AMOUNT_TEXT, "%s%s%.*s", t, with_unit ? " " : "",
			       with_unit ? (int)q->pol->currency.n : 0, q->pol->currency.p);
		return;
	case UNIT_TIME:
		(void)span_text(v, t);
		(void)snprintf(out, AMOUNT_TEXT, "%s", t);
		return;
	case UNIT_CALLS:
	case UNIT_TOKENS:
	case UNIT_COUNT:
		break;
	}
	(void)snprintf(out, AMOUNT_TEXT, "%lld%s", (long long)v,
		       !with_unit           ? ""
		       : unit == UNIT_CALLS ? " calls"
					    : " tokens");
}

static void numbers(const struct draw *d, enum reason_code code, struct reason *why)
{
	*why = (struct reason){ .code = code,
				.rule = d->key.budget,
				.has_numbers = true,
				.unit = d->unit,
				.counter = d->used,
				.limit = add_sat(d->limit, d->granted) };
}

static void too_much(const struct question *q, const struct draw *d, struct reason *why)
{
	char left[AMOUNT_TEXT], limit[AMOUNT_TEXT], needs[AMOUNT_TEXT];

	numbers(d, REASON_BUDGET, why);
	amount_text(q, d->unit, why->limit > d->used ? why->limit - d->used : 0, true, left);
	amount_text(q, d->unit, why->limit, true, limit);
	amount_text(q, d->unit, d->amount, false, needs);
	(void)snprintf(why->message, sizeof(why->message), "%.*s has %s left of %s; this call needs %s",
		       STR_ARG(d->key.budget), left, limit,
		       d->amount > 0 ? needs : "something to be left (zero_cost: deny)");
}

/* Nothing can be granted to a clock: where a person may be asked about it, the approval alone answers. */
static void too_old(struct question *q, const struct draw *d, enum verdict then)
{
	char age[AMOUNT_TEXT], limit[AMOUNT_TEXT];
	struct reason why;

	if (d->used < add_sat(d->limit, d->granted))
		return;
	numbers(d, REASON_BUDGET, &why);
	amount_text(q, UNIT_TIME, why.counter / NS_PER_SEC * NS_PER_SEC, true, age);
	amount_text(q, UNIT_TIME, why.limit, true, limit);
	(void)snprintf(why.message, sizeof(why.message),
		       "%.*s: the session is %s old; it may ask for %s. Open a new session", STR_ARG(d->key.budget),
		       age, limit);
	law_found(q, then, &why);
}

static void unknown(struct question *q, const struct draw *d)
{
	struct reason why = { .code = REASON_BUDGET, .rule = d->key.budget };
	bool money = d->unit == UNIT_MONEY;

	(void)snprintf(why.message, sizeof(why.message), "%s unknown: %.*s draws from %.*s; %s",
		       money ? "cost" : "tokens", q->f->tool.n > 48 ? 48 : (int)q->f->tool.n, q->f->tool.p,
		       STR_ARG(d->key.budget),
		       money ? "give the tool cost or default_cost in the policy, or let the caller estimate it" : "let the caller estimate them");
	law_found(q, VERDICT_DENY, &why);
}

static void below_floor(struct question *q, const struct draw *d, int64_t rest, int64_t floor)
{
	char left[AMOUNT_TEXT], least[AMOUNT_TEXT];
	struct reason why;

	numbers(d, REASON_FLOOR, &why);
	amount_text(q, d->unit, rest, true, left);
	amount_text(q, d->unit, floor, true, least);
	(void)snprintf(why.message, sizeof(why.message),
		       "%.*s would have %s left after this call; below its floor of %s a person is asked",
		       STR_ARG(d->key.budget), left, least);
	law_found(q, VERDICT_REVIEW, &why);
}

static void must_fit(struct question *q, const struct draw *d, const struct budget *b)
{
	enum verdict then = b && b->then == VERDICT_REVIEW ? VERDICT_REVIEW : VERDICT_DENY;
	int64_t limit = add_sat(d->limit, d->granted), after = add_sat(d->used, d->amount);
	struct reason why;

	if (d->unit == UNIT_TIME) {
		too_old(q, d, then);
	} else if ((d->unit == UNIT_MONEY && !q->f->cost_known) ||
		   (d->unit == UNIT_TOKENS && !q->f->tokens_known && q->f->kind == CALL_LLM)) {
		unknown(q, d);
	} else if (d->amount == 0) {
		/* takes nothing: only a budget that says so refuses it, and only when nothing is left */
		if (!b || !b->zero_cost_deny || d->used < limit)
			return;
		too_much(q, d, &why);
		law_found(q, then, &why);
	} else if (after > limit || after == INT64_MAX) {
		too_much(q, d, &why);
		law_found_firm(q, then, &why); /* a yes adds to no ledger: a grant does, and then it fits */
	} else if (b && limit - after < b->floor) {
		below_floor(q, d, limit - after, b->floor);
	}
}

/* Among equals the first in the policy is named. */
void budget_law(struct question *q)
{
	if (q->draws_cut) {
		struct reason why = { .code = REASON_BUDGET };

		(void)snprintf(why.message, sizeof(why.message), "more than %d ledgers match this call",
			       PAWL_MAX_LEDGERS);
		law_found(q, VERDICT_DENY, &why);
	}
	for (size_t i = 0; i < q->j->n_draws; i++)
		must_fit(q, &q->j->draws[i], q->budget_of[i] < 0 ? NULL : &q->pol->budgets[q->budget_of[i]]);
}
