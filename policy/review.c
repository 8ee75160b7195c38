/* policy/review.c - cards as the judge sees them: what an approval answers, who may spend it, when a new one opens; and
 * what a resume grants. Cards themselves are the state's, who waits for them is the hall's business. Pure. */
#include "policy/laws.h"

#include "policy/condition.h"
#include "policy/money.h"

#include <stdio.h>

static void no(struct question *q, enum verdict v, enum reason_code code, const char *what)
{
	struct reason why = { .code = code };

	(void)snprintf(why.message, sizeof(why.message), "review r_%llu of this exact call %s",
		       (unsigned long long)q->card->id, what);
	if (v == VERDICT_REVIEW)
		law_found_firm(q, v, &why);
	else
		law_found(q, v, &why);
}

/* An approval in force says nothing here: what it answers, law_found() leaves out. */
void review_law(struct question *q)
{
	bool claim = q->j->claim != 0;

	if (claim && !q->card) {
		struct reason why = { .code = REASON_REVIEW_REQUIRED, .message = "there is no such review" };

		law_found(q, VERDICT_DENY, &why);
	}
	/* a later no to this exact call stops an older yes */
	if (claim && q->card && q->newest && q->newest->id > q->card->id && (q->newest->mode == CARD_SKIPPED || q->newest->mode == CARD_ABORTED)) {
		struct reason why = { .code = q->newest->mode == CARD_SKIPPED ? REASON_REVIEW_SKIPPED : REASON_REVIEW_ABORTED };

		(void)snprintf(why.message, sizeof(why.message), "review r_%llu of this exact call was answered no after this one",
			       (unsigned long long)q->newest->id);
		law_found(q, VERDICT_DENY, &why);
		return;
	}
	if (!q->card || q->approved)
		return;
	if (claim && q->larger && q->card->until > q->now) {
		no(q, VERDICT_REVIEW, REASON_REVIEW_REQUIRED, "was approved for smaller amounts");
		return;
	}
	switch (q->card->mode) {
	case CARD_SKIPPED:
		no(q, VERDICT_DENY, REASON_REVIEW_SKIPPED, "was skipped by a person");
		return;
	case CARD_ABORTED:
		no(q, VERDICT_DENY, REASON_REVIEW_ABORTED, "was aborted by a person");
		return;
	case CARD_PENDING:
		if (claim)
			no(q, VERDICT_REVIEW, REASON_REVIEW_REQUIRED, "is not answered yet");
		return;
	case CARD_RESUMED: /* its deadline passed, and the entry that says so is not written yet */
	case CARD_TIMED_OUT:
		if (claim)
			no(q, VERDICT_DENY, REASON_REVIEW_TIMEOUT, "is past its deadline: ask again");
		return;
	case CARD_CLOSED:
		if (claim)
			no(q, VERDICT_DENY, REASON_POLICY_CHANGED, "was closed when the policy changed: ask again");
		return;
	case CARD_SPENT: /* a claim of it never comes here */
	case CARD_MODE_COUNT:
		break;
	}
	if (claim)
		no(q, VERDICT_DENY, REASON_REVIEW_REQUIRED, "is used up");
}

/* ---- the last step: who looks at a review? ---- */

static void refuse(struct judgement *j, const char *rule, int64_t counter, int64_t limit, const char *unit)
{
	j->answer = VERDICT_DENY;
	j->why = (struct reason){ .code = REASON_REVIEW_REQUIRED,
				  .rule = str_of(rule),
				  .has_numbers = true,
				  .unit = UNIT_CALLS,
				  .counter = counter,
				  .limit = limit };
	(void)snprintf(j->why.message, sizeof(j->why.message),
		       "this call needs a review, and %lld %s; the limit is %lld", (long long)counter, unit,
		       (long long)limit);
}

static void ask_person(struct question *q)
{
	struct judgement *j = q->j;
	size_t n = strlen(j->why.message);

	if (!q->pol->attended) {
		j->answer = VERDICT_DENY;
		(void)snprintf(j->why.message + n, sizeof(j->why.message) - n,
			       "; nobody attends, so a review is a denial");
	} else if (q->asks_cut) {
		refuse(j, "asks", PAWL_MAX_ASKS + 1, PAWL_MAX_ASKS, "reasons to ask a person were found");
	} else if (q->newest && q->newest->mode == CARD_PENDING) {
		j->card = q->newest->id;
		j->card_until = q->newest->until;
	} else if (q->who->pending_cards >= q->pol->reviews.pending) {
		refuse(j, "pending", q->who->pending_cards, q->pol->reviews.pending,
		       "of the session's calls wait for one already");
	}
}

static void spend(struct question *q)
{
	struct judgement *j = q->j;

	j->spends = q->approved->id;
	if (j->why.code != REASON_OK || j->why.message[0])
		return;
	(void)snprintf(j->why.message, sizeof(j->why.message), "review r_%llu was resumed by %.*s",
		       (unsigned long long)q->approved->id, q->approved->operator.n > 64 ? 64 : (int)q->approved->operator.n,
		       q->approved->operator.n ? q->approved->operator.p : "");
}

void review_settle(struct question *q)
{
	if (q->j->answer == VERDICT_REVIEW)
		ask_person(q);
	else if (q->j->answer == VERDICT_ALLOW && q->approved)
		spend(q);
	if (q->j->answer != VERDICT_REVIEW) /* kept as they are where shadow mode will not open the card: a reload compares them */
		q->j->n_asks = 0;
}

/* ---- for the spine ---- */

int claim_prepare(const struct state *st, uint64_t card, struct facts *f, struct pawl_error *err)
{
	const struct card_state *c = card ? state_card_by_id(st, card) : NULL;

	if (!c || c->session != f->session)
		return pawl_fail_field(err, "review", "not a review of this session");
	if (memcmp(c->token, f->card, sizeof(f->card)) != 0)
		return pawl_fail_field(err, "review", "a review of another tool or of other arguments");
	if (c->money > 0 && (!f->cost_known || c->money > f->money)) {
		f->cost_known = true;
		f->money = c->money;
	}
	if (c->tokens > 0 && (!f->tokens_known || c->tokens > f->tokens)) {
		f->tokens_known = true;
		f->tokens = c->tokens;
	}
	return 0;
}

static bool asks_budget(const struct card_state *card, struct str budget)
{
	for (size_t i = 0; i < card->n_asks; i++)
		if (card->asks[i].code == REASON_BUDGET && str_eq(card->asks[i].rule, budget))
			return true;
	return false;
}

static void no_rule(void *arg, uint32_t rule)
{
	(void)arg;
	(void)rule;
}

static int grants_of(const struct question *q, const struct card_state *card, struct grant *rows, size_t *ret_n,
		     struct pawl_error *err)
{
	char lacks[MONEY_TEXT], may[MONEY_TEXT];
	size_t n = 0;

	for (size_t i = 0; i < q->j->n_draws; i++) {
		const struct draw *d = &q->j->draws[i];
		const struct budget *b = q->budget_of[i] < 0 ? NULL : &q->pol->budgets[q->budget_of[i]];
		int64_t need = add_sat(d->used, d->amount), short_of = add_sat(need, -add_sat(d->limit, d->granted));

		if (!b || d->unit == UNIT_TIME || d->amount == 0 || short_of <= 0 || !asks_budget(card, b->id))
			continue;
		if (short_of > b->grant_max || need == INT64_MAX) {
			(void)money_text(short_of, lacks);
			(void)money_text(b->grant_max, may);
			if (d->unit == UNIT_MONEY)
				return pawl_fail(err, PAWL_E_LIMIT,
						 "%.*s lacks %s %.*s for this call; its grant_max is %s",
						 STR_ARG(b->id), lacks, STR_ARG(q->pol->currency), may);
			return pawl_fail(err, PAWL_E_LIMIT, "%.*s lacks %lld for this call; its grant_max is %lld",
					 STR_ARG(b->id), (long long)short_of, (long long)b->grant_max);
		}
		if (n == PAWL_MAX_ASKS)
			return pawl_fail(err, PAWL_E_LIMIT, "more than %d ledgers lack something for this call",
					 PAWL_MAX_ASKS);
		rows[n++] = (struct grant){ d->key, short_of };
	}
	*ret_n = n;
	return 0;
}

int review_grants(const struct policy *pol, const struct state *st, const struct card_state *card, int64_t now,
		  struct grant *rows, size_t *ret_n, struct pawl_error *err)
{
	const struct session_state *who = state_session(st, card->session);
	struct judgement j;
	struct facts f = { .tool = card->tool,
			   .session = card->session,
			   .cost_known = true,
			   .money = card->money,
			   .tokens_known = true,
			   .tokens = card->tokens };
	struct question q = { .pol = pol, .st = st, .f = &f, .who = who, .now = now, .j = &j };

	if (!who)
		return pawl_fail(err, PAWL_E_CONFLICT, "the session of r_%llu is gone", (unsigned long long)card->id);
	(void)tool_canonical(pol, card->tool, &f.def);
	f.root = who->root;
	f.agent = who->agent;
	f.budgets = name_index_find(pol->index, f.tool, f.def, no_rule, NULL).budgets;
	j.n_draws = 0;
	budget_draws(&q); /* without a caller's own limits: nothing that a person adds to */
	return grants_of(&q, card, rows, ret_n, err);
}
