/* daemon/door/operator_review.c - what an operator sees of reviews, and the signed operations. A signature is checked here, before the spine
 * is asked: whoever can open this door may look, only an enrolled key can change anything. Owns nothing; see job.h. */
#include "daemon/door/job.h"

#include "daemon/base/oplog.h"
#include "daemon/log/entry.h"
#include "daemon/operator_key.h"
#include "policy/redact.h"

#include <sodium.h>

int handle_nonce(struct job *job, struct buf *out)
{
	uint8_t nonce[32];
	int64_t expires;

	operators_nonce(job->d->operators, clock_now(&job->d->clock), nonce, &expires);
	reply_nonce(nonce, expires, out);
	return 0;
}

/* ---- looking ---- */

struct card_text { /* what a card's row borrows */
	struct buf note;
	struct entry_parsed old;
	bool parsed;
	struct reply_before before[10];
};

static void card_text_done(struct card_text *t)
{
	if (t->parsed)
		entry_parsed_done(&t->old);
	buf_done(&t->note);
}

/* Why it was asked is in the entry that opened it. */
static void card_reason(const struct mediator *m, struct reply_card *row, struct card_text *t)
{
	const struct entry_decision *d;
	struct entry_view view;

	buf_init(&t->note, PAWL_MAX_NOTE);
	if (journal_read(m->journal, row->review, &t->note, NULL) < 0 || entry_view_parse(buf_str(&t->note), &view, NULL) < 0 ||
	    entry_parse(view.body, row->review, &t->old, NULL) < 0)
		return;
	t->parsed = true;
	if (t->old.e.kind != ENTRY_DECISION && t->old.e.kind != ENTRY_CLAIM)
		return;
	d = &t->old.e.decision;
	row->message = str_of(d->why.message);
	row->has_numbers = d->why.has_numbers;
	row->unit = d->why.unit;
	row->counter = d->why.counter;
	row->limit = d->why.limit;
	memcpy(row->args_mac, d->args_mac, sizeof(row->args_mac));
}

static void card_row(const struct mediator *m, const struct card_state *card, bool whole, struct reply_card *row, struct card_text *t)
{
	const struct session_state *who = state_session(m->state, card->session);

	*row = (struct reply_card){ .review = card->id, .session = card->session, .agent = who ? who->agent : STR_NONE, .tool = card->tool,
				    .mode = card->mode, .opened = card->opened_ns, .asks = card->asks, .n_asks = card->n_asks, .currency = m->policy->currency,
				    .money = card->money, .tokens = card->tokens, .joined = 1, .before = t->before };
	if (card->mode == CARD_PENDING || card->mode == CARD_RESUMED)
		row->expires = card->until;
	if (card->operator.n) {
		row->operator = card->operator;
		row->reason = card->reason;
	}
	card_reason(m, row, t);
	if (whole) {
		row->args = reviews_args(m->reviews, card->id);
		row->args_bytes = row->args.n + 4 <= PAWL_MAX_VALUE ? (int64_t)row->args.n : 0; /* 0: cut, and nobody knows how long it was */
	}
	if (whole && who) {
		struct exec_state x;

		for (uint32_t back = 0; row->n_before < PAWL_LEN(t->before) && state_exec(m->state, who->root, back, &x); back++) {
			const struct call_state *call = state_decision(m->state, x.seq);

			t->before[row->n_before++] = (struct reply_before){ .decision = x.seq, .tool = x.tool, .answer = VERDICT_ALLOW,
									    .outcome = call ? call->outcome : OUTCOME_NONE, .now = call ? call->decided_ns : 0 };
		}
	}
}

int handle_review_list(struct job *job, struct buf *out)
{
	enum { MAX_ROWS = 50 }; /* each needs a look into the log */
	const struct mediator *m = &job->d->m;
	struct reply_card rows[MAX_ROWS];
	static const struct card_text nothing;
	struct card_text text[MAX_ROWS];
	const struct card_state *card;
	uint64_t after = job->rq.after;
	size_t n = 0;

	while ((int64_t)n < job->rq.list_limit && n < MAX_ROWS) {
		card = job->rq.by.all ? state_card_any_after(m->state, job->rq.session, after) : state_card_after(m->state, job->rq.session, after);
		if (!card)
			break;
		after = card->id;
		text[n] = nothing;
		card_row(m, card, false, &rows[n], &text[n]);
		n++;
	}
	card = job->rq.by.all ? state_card_any_after(m->state, job->rq.session, after) : state_card_after(m->state, job->rq.session, after);
	reply_review_list(rows, n, card != NULL, policy_mode_word(m->policy->mode), out);
	for (size_t i = 0; i < n; i++)
		card_text_done(&text[i]);
	return 0;
}

/* `show_args: redacted`. What was cut, and what is JSON only for our own writer (1e20 in digits), is gone over as a text. */
static void redact_card(const struct mediator *m, struct reply_card *row, struct buf *text)
{
	struct json *args;

	if (!row->args.p)
		return;
	if (json_parse(row->args, PAWL_MAX_DEPTH, &args, NULL) == 0) {
		redact_json(m->policy->log.redact, args, text);
		json_free(args);
	} else {
		redact_text(m->policy->log.redact, row->args, true, text);
	}
	row->args = buf_ok(text) ? redact_fit(buf_str(text)) : STR_NONE; /* not known is better than not redacted */
	if (row->args_bytes)
		row->args_bytes = row->args.n == text->n ? (int64_t)text->n : 0;
}

int handle_review_show(struct job *job, struct buf *out)
{
	PAWL_CLEANUP(buf_done) struct buf args = BUF_MAX(PAWL_MAX_VALUE * 12);
	const struct mediator *m = &job->d->m;
	const struct card_state *card = state_card_by_id(m->state, job->rq.review);
	struct card_text text = { .parsed = false };
	struct reply_card row;

	if (!card) {
		reply_error(OP_REVIEW_SHOW, REASON_MALFORMED, "review", "no such review", 0, out);
		return 0;
	}
	card_row(m, card, true, &row, &text);
	redact_card(m, &row, &args);
	reply_review_show(&row, out);
	card_text_done(&text);
	return 0;
}

/* ---- answering ---- */

static int refused(struct job *job, const struct refusal *no, struct buf *out)
{
	reply_error(job->rq.op, no->code, no->err.field, no->err.msg, no->retry_after_ns, out);
	return 0;
}

/* false: answered with unauthenticated, in one wording whatever was wrong; the operational log has the reason. */
static bool signed_by(struct job *job, struct signed_by *ret, struct buf *out)
{
	const struct request_operator *by = &job->rq.by;
	struct buf text = BUF_MAX(PAWL_MAX_MESSAGE * 2);
	struct pawl_error err = { .code = PAWL_OK };
	bool ok = false;

	wire_signed_bytes(&job->rq, &text);
	*ret = (struct signed_by){ .operator = by->operator };
	if (!buf_ok(&text)) {
		reply_error(job->rq.op, REASON_UNAVAILABLE, NULL, "out of memory", 0, out);
	} else if (operators_check(job->d->operators, by->operator, by->nonce, buf_str(&text), by->signature, clock_now(&job->d->clock), &ret->key,
				   &err) < 0) {
		job->d->m.count.unauthenticated++;
		oplog_error("operator", &err);
		reply_error(job->rq.op, REASON_UNAUTHENTICATED, "signature", "not the signature of an enrolled operator over a fresh nonce", 0, out);
	} else {
		(void)crypto_hash_sha256(ret->text_hash, (const uint8_t *)text.p, text.n);
		memcpy(ret->signature, by->signature, sizeof(ret->signature));
		ok = true;
	}
	buf_done(&text);
	return ok;
}

int handle_resolve(struct job *job, struct buf *out)
{
	struct signed_by by;
	struct resolve_args a = { .card = job->rq.review, .action = job->rq.by.action, .reason = job->rq.by.reason, .tree = job->rq.by.tree,
				  .has_shown = job->rq.by.has_shown, .shown_money = job->rq.by.shown_money, .shown_tokens = job->rq.by.shown_tokens, .by = &by };
	struct refusal no;

	if (!signed_by(job, &by, out))
		return 0;
	return mediate_resolve(&job->d->m, &a, job, &no) < 0 ? refused(job, &no, out) : 1;
}

int handle_abort(struct job *job, struct buf *out)
{
	struct signed_by by;
	struct refusal no;

	if (!signed_by(job, &by, out))
		return 0;
	return mediate_abort(&job->d->m, job->rq.session, job->rq.by.tree, job->rq.by.reason, &by, job, &no) < 0 ? refused(job, &no, out) : 1;
}

int handle_breaker_reset(struct job *job, struct buf *out)
{
	const struct request_operator *rq = &job->rq.by;
	const struct breaker *b = NULL;
	struct breaker_row row;
	struct signed_by by;
	struct refusal no;

	const struct session_state *who = state_session(job->d->m.state, job->rq.session);

	if (!signed_by(job, &by, out))
		return 0;
	for (size_t i = 0; i < job->d->m.policy->n_breakers; i++)
		if (str_eq(job->d->m.policy->breakers[i].id, rq->breaker))
			b = &job->d->m.policy->breakers[i];
	row = (struct breaker_row){ .id = rq->breaker, .owner = rq->owner, .tool = rq->tool, .scope = SCOPE_COUNT, .session = who ? who->root : job->rq.session }; /* one row a tree */
	if (b && b->has_scope)
		row.scope = b->scope;
	return mediate_breaker_reset(&job->d->m, &row, rq->reason, &by, job, &no) < 0 ? refused(job, &no, out) : 1;
}

int handle_reload(struct job *job, struct buf *out)
{
	struct signed_by by;
	struct refusal no;

	if (!signed_by(job, &by, out))
		return 0;
	oplog(OPLOG_INFO, "reload asked for by %.*s", STR_ARG(by.operator));
	return daemon_reload(job->d, &job->problems, &(struct reload_order){ &by, job->rq.by.reason }, job, &no) < 0 ? refused(job, &no, out) : 1;
}
