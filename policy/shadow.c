/* policy/shadow.c - shadow mode: the laws have judged as ever, and the call runs all the same. What they found becomes `would`; what
 * is no policy (has this very call run already?) keeps its say. Pure. */
#include "policy/laws.h"

#include <stdio.h>

/* A claim asks for what a person has approved: without that there is nothing to hand out, in any mode. */
static bool is_no_permit(const struct question *q)
{
	return q->j->claim && !q->approved;
}

static void nothing_follows(struct judgement *j)
{
	j->n_sticks = j->n_trips = j->n_breakers = 0;
}

/* What the other laws found is no reason here: the card's own is. */
static void refuse_claim(struct question *q)
{
	struct judgement *j = q->j;

	j->answer = VERDICT_ALLOW;
	j->why = (struct reason){ .code = REASON_OK };
	j->n_asks = 0;
	review_law(q);
	if (j->answer == VERDICT_ALLOW) { /* cannot be: without an approval that law has something to say */
		j->answer = VERDICT_DENY;
		j->why.code = REASON_REVIEW_REQUIRED;
	}
	review_settle(q);
	nothing_follows(j);
}

/* Nobody is asked anything new, not even whether it may run once more. */
static void refuse_doubt(struct question *q)
{
	struct judgement *j = q->j;

	j->answer = VERDICT_DENY;
	j->why = (struct reason){ .code = REASON_IN_DOUBT };
	doubt_reason(q, &j->why);
	j->card = 0;
	nothing_follows(j);
}

/* A sum that saturates would come back as credit when the call is settled: of an amount beyond all money what still adds up is held. */
static void hold_what_adds_up(struct judgement *j)
{
	for (size_t i = 0; i < j->n_draws; i++) {
		struct draw *d = &j->draws[i];

		if (add_sat(d->used, d->amount) == INT64_MAX)
			d->amount = d->used < INT64_MAX - 1 ? INT64_MAX - 1 - d->used : 0;
	}
}

void shadow_answer(struct question *q)
{
	struct judgement *j = q->j;

	if (q->pol->mode != MODE_SHADOW)
		return;
	if (q->in_doubt) {
		refuse_doubt(q);
		return;
	}
	if (is_no_permit(q)) {
		refuse_claim(q);
		return;
	}
	if (j->answer == VERDICT_ALLOW)
		return;
	j->would = j->answer;
	j->would_why = j->why;
	j->answer = VERDICT_ALLOW;
	j->why = (struct reason){ .code = REASON_OK };
	(void)snprintf(j->why.message, sizeof(j->why.message), "shadow mode: nothing is refused; enforced, this call %s",
		       j->would == VERDICT_REVIEW ? "would wait for a person" : "would be denied");
	j->card = 0;
	hold_what_adds_up(j);
	if (q->approved) /* it runs: the approval was for one run */
		j->spends = q->approved->id;
}
