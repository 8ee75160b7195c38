/* daemon/door/agent_review.c - what an agent may do about a review: wait for it, and claim what a person approved. Owns nothing; see job.h. */
#include "daemon/door/job.h"

#include <stdlib.h>

#define MAX_WAITERS 1024 /* beyond it the caller is answered at once, and asks again */

static struct waiter *waiter_new(struct job *job, uint64_t card)
{
	struct waiter *w = reviews_waiting(job->d->reviews) < MAX_WAITERS ? calloc(1, sizeof(*w)) : NULL;

	if (w)
		*w = (struct waiter){ .card = card, .until = add_sat(clock_now(&job->d->clock), job->rq.wait_ns), .cookie = job };
	return w;
}

bool job_waits(struct job *job, const struct answer *ans)
{
	const struct entry *e = ans->e;
	struct waiter *w;

	if (!e || job->waiter || (e->kind != ENTRY_DECISION && e->kind != ENTRY_CLAIM) || e->decision.answer != VERDICT_REVIEW || job->rq.wait_ns == 0)
		return false;
	w = waiter_new(job, e->decision.card);
	if (w) {
		w->held = pending_entry(e, NULL);
		w->note = malloc(ans->note.n + 1);
	}
	if (!w || !w->held || !w->note) { /* answered at once instead: the caller may wait with review.wait */
		waiter_free(w);
		return false;
	}
	memcpy(w->note, ans->note.p, ans->note.n);
	w->note_n = ans->note.n;
	reviews_wait(job->d->reviews, w);
	return true;
}

static void wait_text(const struct card_state *card, uint64_t id, struct buf *out)
{
	struct reply_wait r = { .review = id, .mode = CARD_CLOSED };

	if (card) {
		r.mode = card->mode;
		r.expires = card->mode == CARD_PENDING || card->mode == CARD_RESUMED ? card->until : 0;
		if (card->mode != CARD_PENDING) {
			r.operator = card->operator;
			r.reason = card->reason;
		}
	}
	reply_review_wait(&r, out);
}

void waited_text(struct job *job, const struct waiter *w, struct buf *out)
{
	const struct card_state *card = state_card_by_id(job->d->m.state, w->card);

	if (w->held)
		reply_reviewed(&w->held->e, (struct str){ w->note, w->note_n }, card ? card->mode : CARD_CLOSED, out);
	else
		wait_text(card, w->card, out);
}

int handle_review_wait(struct job *job, struct buf *out)
{
	struct mediator *m = &job->d->m;
	const struct session_state *who;
	const struct card_state *card;
	struct waiter *w;
	struct live *lv;

	who = mediate_session(m, job->rq.session, job->rq.token, &lv);
	if (!who) {
		reply_error(OP_REVIEW_WAIT, REASON_UNAUTHENTICATED, NULL, "unknown session, or not its token", 0, out);
		return 0;
	}
	card = state_card_by_id(m->state, job->rq.review);
	if (!card || card->session != who->id) {
		reply_error(OP_REVIEW_WAIT, REASON_MALFORMED, "review", "not a review of this session", 0, out);
		return 0;
	}
	w = card->mode == CARD_PENDING && job->rq.wait_ns > 0 ? waiter_new(job, card->id) : NULL;
	if (!w) {
		wait_text(card, card->id, out);
		return 0;
	}
	reviews_wait(job->d->reviews, w);
	return 1;
}

int handle_claim(struct job *job, struct buf *out)
{
	struct claim_args a = { job->rq.session, job->rq.review, job->rq.token, &job->rq.call };
	struct refusal no;

	if (mediate_claim(&job->d->m, &a, job, &no) == 0)
		return 1;
	if (no.code == REASON_LOG_UNAVAILABLE)
		reply_unavailable_claim(job->rq.call.call, no.err.msg, out);
	else
		reply_error(OP_CLAIM, no.code, no.err.field, no.err.msg, no.retry_after_ns, out);
	return 0;
}
