/* daemon/door/agent.c - the agent door's operations: request -> spine -> reply. Owns nothing; see job.h. */
#include "daemon/door/job.h"
#include "daemon/door/peer_tree.h"

#include <sodium.h>
#include <stdlib.h>

/* A refusal of the spine: no entry, nothing changed. A decide always gets a verdict when the log is the reason. */
static int refused(struct job *job, const struct refusal *no, struct buf *out)
{
	if (no->code == REASON_LOG_UNAVAILABLE && job->rq.op == OP_DECIDE)
		reply_unavailable_decide(job->rq.call.call, no->err.msg, out);
	else
		reply_error(job->rq.op, no->code, no->err.field, no->err.msg, no->retry_after_ns, out);
	return 0;
}

static void opened_text(struct job *job, const struct entry *e, struct buf *out)
{
	const struct live *lv = sessions_get(job->d->m.sessions, e->seq);
	struct reply_open o = { .session = e->seq, .seq = e->seq, .lease_ns = e->session.lease_ns,
				.mode = policy_mode_word(job->d->m.policy->mode) };

	o.expires = lv ? lv->lease_until : e->now;
	memcpy(o.token, job->token, sizeof(o.token));
	reply_open(&o, out);
	sodium_memzero(&o, sizeof(o));
}

static enum card_mode resolved_mode(enum resolve_action a)
{
	return a == RESOLVE_RESUME ? CARD_RESUMED : a == RESOLVE_SKIP ? CARD_SKIPPED : a == RESOLVE_ABORT ? CARD_ABORTED : CARD_CLOSED;
}

void answer_text(struct job *job, const struct answer *ans, struct buf *out)
{
	const struct entry *e = ans->e;

	if (job->waiter && (e || ans->no == REASON_OK)) /* its review was in the log before; e says that it gave up */
		waited_text(job, job->waiter, out);
	else if (!e && ans->no == REASON_LOG_UNAVAILABLE && job->rq.op == OP_DECIDE)
		reply_unavailable_decide(job->rq.call.call, ans->message, out);
	else if (!e && ans->no == REASON_LOG_UNAVAILABLE && job->rq.op == OP_CLAIM)
		reply_unavailable_claim(job->rq.call.call, ans->message, out);
	else if (!e)
		reply_error(job->rq.op, ans->no, NULL, ans->message, 0, out);
	else if (e->kind == ENTRY_DECISION || e->kind == ENTRY_CLAIM)
		reply_decide(e, ans->note, out);
	else if (e->kind == ENTRY_SETTLE || e->kind == ENTRY_LOSS)
		reply_settle(e, ans->note, out);
	else if (e->kind == ENTRY_SESSION && e->session.action == SESSION_OPEN)
		opened_text(job, e, out);
	else if (e->kind == ENTRY_RESOLVE)
		reply_review_resolve(e->resolve.card, resolved_mode(e->resolve.action), e->seq, out);
	else if (e->kind == ENTRY_POLICY)
		reply_policy_reload(e->policy.loaded, &job->problems, e->seq, out);
	else if (e->kind == ENTRY_BREAKER)
		reply_breaker_reset(e->breaker.row.id, e->seq, out);
	else if (e->kind == ENTRY_SESSION && e->session.action == SESSION_ABORT)
		reply_session_abort(e->session.session, e->seq, out);
	else if (e->kind == ENTRY_SESSION)
		reply_close(e->session.session, e->seq, out);
	else
		reply_error(job->rq.op, REASON_UNAVAILABLE, NULL, "no answer for this entry", 0, out);
}

int handle_hello(struct job *job, struct buf *out)
{
	const struct policy *pol = job->d->m.policy;
	struct reply_fact promises[JOB_PROMISES];
	struct buf key = BUF_MAX(512);
	struct reply_fact watch = job_watch(job->d);
	struct reply_hello h = { .policy_name = pol->name, .currency = pol->currency, .mode = policy_mode_word(pol->mode), .fallback = pol->fallback,
				 .attended = pol->attended, .watch_state = watch.state, .watch_why = watch.why };
	char hex[65];

	(void)sodium_bin2hex(hex, sizeof(hex), pol->hash, 32);
	h.policy_hash = (struct str){ hex, 64 };
	h.promises = promises;
	h.n_promises = job_promises(job->d, promises);
	job_log(job->d, &h.log, &key);
	reply_hello(&h, out);
	buf_done(&key);
	return 0;
}

int handle_open(struct job *job, struct buf *out)
{
	const struct request_open *rq = &job->rq.open;
	struct open_args a = { .agent = rq->agent, .root_dir = rq->root, .labels = rq->labels, .parent = rq->parent,
			       .parent_token = rq->parent_token, .share_percent = rq->share_percent };
	const char *why = rq->parent ? NULL : peer_tree_refuses(job->d, &(struct peer){ job->msg.pid, job->msg.born });
	struct refusal no;

	if (why) {
		job->d->m.count.unauthenticated++;
		reply_error(OP_SESSION_OPEN, REASON_UNAUTHENTICATED, "parent", why, 0, out);
		return 0;
	}
	if (rq->agent_token.p) {
		reply_error(OP_SESSION_OPEN, REASON_UNAUTHENTICATED, "agent_token", "no agents are enrolled", 0, out);
		return 0;
	}
	memcpy(a.has_limit, rq->has_limit, sizeof(a.has_limit));
	memcpy(a.limit, rq->limit, sizeof(a.limit));
	randombytes_buf(job->token, sizeof(job->token));
	memcpy(a.token, job->token, sizeof(a.token));
	return mediate_open(&job->d->m, &a, job, &no) < 0 ? refused(job, &no, out) : 1;
}

int handle_close(struct job *job, struct buf *out)
{
	struct refusal no;

	return mediate_close(&job->d->m, job->rq.session, job->rq.token, job, &no) < 0 ? refused(job, &no, out) : 1;
}

int handle_decide(struct job *job, struct buf *out)
{
	struct decide_args a = { job->rq.session, job->rq.token, &job->rq.call };
	struct refusal no;

	return mediate_decide(&job->d->m, &a, job, &no) < 0 ? refused(job, &no, out) : 1;
}

int handle_settle(struct job *job, struct buf *out)
{
	const struct request_settle *rq = &job->rq.settle;
	struct settle_args a = { .session = job->rq.session, .decision = rq->decision, .token = job->rq.token, .has_result = rq->has_result,
				 .has_error = rq->has_error, .has_error_sha256 = rq->has_error_sha256, .result_bytes = rq->result_bytes,
				 .duration_ns = rq->duration_ns, .error_kind = rq->error_kind };
	struct refusal no;

	a.report = (struct report){ rq->outcome, rq->has_money, rq->has_tokens, rq->money, rq->tokens };
	memcpy(a.result_sha256, rq->result_sha256, 32);
	memcpy(a.error_sha256, rq->error_sha256, 32);
	return mediate_settle(&job->d->m, &a, job, &no) < 0 ? refused(job, &no, out) : 1;
}

static const struct session_state *who_asks(struct job *job, struct live **lv, struct buf *out)
{
	const struct session_state *who = mediate_session(&job->d->m, job->rq.session, job->rq.token, lv);

	if (!who)
		reply_error(job->rq.op, REASON_UNAUTHENTICATED, NULL, "unknown session, or not its token", 0, out);
	return who;
}

int handle_heartbeat(struct job *job, struct buf *out)
{
	struct live *lv;
	const struct session_state *who = who_asks(job, &lv, out);

	if (!who)
		return 0;
	if (who->end == SESSION_LIVE)
		reply_heartbeat(who->id, lv->lease_until, out);
	else
		reply_error(OP_HEARTBEAT, session_end_reason(who->end), NULL,
			    "the session has ended", 0, out);
	return 0;
}

/* Every ledger in reach of the session but those of single tools, whose names only calls bring. */
static size_t ledgers(const struct mediator *m, const struct session_state *who, int64_t now, struct draw *out)
{
	const struct policy *pol = m->policy;
	size_t n = 0;

	for (size_t i = 0; i < pol->n_budgets; i++) {
		const struct budget *b = &pol->budgets[i];
		struct draw d = { .key = { .budget = b->id, .scope = b->scope, .unit = b->unit }, .unit = b->unit, .limit = b->limit };

		if (b->per_tool)
			continue;
		if (b->scope == SCOPE_SESSION)
			d.key.session = who->id;
		else if (b->scope == SCOPE_AGENT)
			d.key.owner = who->agent;
		else if (b->scope == SCOPE_TENANT)
			d.key.owner = STR("local");
		out[n++] = d;
	}
	for (int u = 0; u < UNIT_COUNT; u++)
		if (who->has_limit[u])
			out[n++] = (struct draw){ .key = { .budget = own_ledger_name((enum unit)u), .scope = SCOPE_SESSION, .unit = (enum unit)u, .session = who->id }, .unit = (enum unit)u,
						  .limit = who->limit[u] };
	for (size_t i = 0; i < n; i++) {
		struct ledger_state led = state_ledger(m->state, &out[i].key, now);

		out[i].used = out[i].unit == UNIT_TIME ? now - who->opened_ns : add_sat(led.spent, led.reserved);
		out[i].granted = led.granted;
		out[i].window_end = led.window_end;
	}
	return n;
}

void job_money(const struct mediator *m, const struct session_state *who, int64_t now, struct reply_money *ret)
{
	struct draw rows[PAWL_MAX_BUDGETS + UNIT_COUNT];
	size_t n = ledgers(m, who, now, rows);

	*ret = (struct reply_money){ .budget = STR_NONE };
	for (size_t i = 0; i < n; i++) {
		int64_t left = add_sat(add_sat(rows[i].limit, rows[i].granted), rows[i].used == INT64_MIN ? INT64_MAX : -rows[i].used);

		if (rows[i].unit == UNIT_MONEY && (!ret->budget.p || left < ret->left))
			*ret = (struct reply_money){ rows[i].key.budget, rows[i].used, left };
	}
}

int handle_state(struct job *job, struct buf *out)
{
	enum { MAX_ROWS = 256 };
	const struct mediator *m = &job->d->m;
	struct draw rows[PAWL_MAX_BUDGETS + UNIT_COUNT];
	struct reply_review reviews[MAX_ROWS];
	struct stick_fact denials[MAX_ROWS];
	struct breaker_row breakers[PAWL_MAX_BREAKERS];
	const struct breaker_row *row;
	uint32_t at = 0;
	uint64_t open[MAX_ROWS];
	const struct call_state *call;
	const struct card_state *card;
	struct reply_watch watch;
	struct reply_state s;
	struct live *lv;
	const struct session_state *who = who_asks(job, &lv, out);

	if (!who)
		return 0;
	s = (struct reply_state){ .session = who->id, .agent = who->agent, .opened = who->opened_ns, .decisions = who->decisions,
				  .executions = who->executions, .ledgers = rows, .currency = m->policy->currency, .open = open, .reviews = reviews };
	s.expires = who->end == SESSION_LIVE ? lv->lease_until : who->ended_ns;
	s.ended = who->end == SESSION_ENDED_CLOSE ? STR("closed") : who->end == SESSION_ENDED_STALE ? STR("stale") : who->end == SESSION_ENDED_ABORT ? STR("aborted") : STR_NONE;
	s.n_ledgers = ledgers(m, who, clock_now(m->clock), rows);
	for (uint64_t after = 0; s.n_open < MAX_ROWS && (call = state_open_after(m->state, who->id, after)); after = call->seq)
		open[s.n_open++] = call->seq;
	for (uint64_t after = 0; s.n_reviews < MAX_ROWS && (card = state_card_after(m->state, who->id, after)); after = card->id)
		reviews[s.n_reviews++] = (struct reply_review){ card->id, card->until, card->mode };
	s.denials = denials;
	while (s.n_denials < MAX_ROWS && state_denial_next(m->state, who, &at, &denials[s.n_denials]))
		s.n_denials++;
	s.breakers = breakers;
	for (at = 0; s.n_breakers < PAWL_MAX_BREAKERS && (row = state_breaker_next(m->state, &at));)
		if (row->scope != SCOPE_SESSION || row->session == who->root)
			breakers[s.n_breakers++] = *row;
	job_tree(job->d, who, true, &watch);
	s.watch = &watch;
	reply_state(&s, out);
	return 0;
}
