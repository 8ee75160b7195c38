/* daemon/mediate.c - see mediate.h: the order of steps around the log. Owns the queue of entries on their way and the judge's state.
 * Must not look at arguments, sockets or SQL. */
#include "daemon/mediate_int.h"

#include "daemon/base/oplog.h"
#include "daemon/log/entry.h"
#include "policy/laws.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RETRY_NS NS_PER_SEC	   /* a closed log is tried again each second */
#define SUMMARY_NS NS_PER_SEC	   /* one throttle entry a second */
#define SWEEP_NS (10 * NS_PER_SEC)
#define FOLLOW_NS (10 * 1000000) /* the projector is nearly there */
#define FOLLOW_TRIES 500

int refuse(struct refusal *no, enum reason_code code, const char *fmt, ...)
{
	va_list ap;

	*no = (struct refusal){ .code = code };
	no->err.code = PAWL_E_LIMIT;
	va_start(ap, fmt);
	(void)vsnprintf(no->err.msg, sizeof(no->err.msg), fmt, ap);
	va_end(ap);
	return no->err.code;
}

int refuse_err(struct refusal *no, const struct pawl_error *err)
{
	*no = (struct refusal){ .code = REASON_UNAVAILABLE, .err = *err };
	if (err->code == PAWL_E_MALFORMED)
		no->code = REASON_MALFORMED;
	else if (err->code == PAWL_E_FULL)
		no->code = REASON_LOG_UNAVAILABLE;
	return err->code < 0 ? (int)err->code : PAWL_E_SYS;
}

void mediate_init(struct mediator *m)
{
	m->open = true;
	m->durable = state_next_seq(m->state);
	pending_queue_init(&m->pending);
	buf_init(&m->body, PAWL_MAX_BODY);
	buf_init(&m->args, PAWL_MAX_MESSAGE * 16); /* canonical text may be longer than what arrived: 1e20 has 21 digits; facts keep a copy */
	buf_init(&m->record, PAWL_MAX_MESSAGE * 16);
}

static void answer_no(struct mediator *m, void *cookie, enum reason_code code, const char *message)
{
	struct answer ans = { .no = code, .message = message };

	if (cookie)
		m->done(cookie, &ans);
}

void mediate_end(struct mediator *m)
{
	struct pending *p;

	while ((p = pending_queue_pop(&m->pending))) {
		answer_no(m, p->cookie, REASON_UNAVAILABLE, "pawld is stopping");
		free(p);
	}
	policy_free(m->policy);
	state_free(m->state);
	buf_done(&m->body);
	buf_done(&m->args);
	buf_done(&m->record);
}

size_t mediate_owed(const struct mediator *m)
{
	return m->pending.n;
}

struct entry mediate_entry(const struct mediator *m, enum entry_kind kind, int64_t now)
{
	int64_t last = state_now(m->state);

	return (struct entry){ .kind = kind, .seq = state_next_seq(m->state), .now = now > last ? now : last, .wall = clock_wall(m->clock) };
}

/* What a full disk must still take: the room of the spare segment is for refusals and for endings. */
static bool fits_when_full(const struct entry *e)
{
	return e->kind == ENTRY_STOP || e->kind == ENTRY_LOSS || e->kind == ENTRY_RESOLVE || (e->kind == ENTRY_WATCH && e->watch.action == WATCHED_END) ||
	       (e->kind == ENTRY_DECISION && e->decision.answer == VERDICT_DENY);
}

int mediate_submit(struct mediator *m, const struct submission *s, struct refusal *no)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct commit_slot slot;
	struct pending *p;

	if (!m->open) {
		m->count.unavailable++;
		return refuse(no, REASON_LOG_UNAVAILABLE, "the log cannot be written: %s", m->closed_why);
	}
	buf_reset(&m->body);
	entry_render(s->e, &m->body);
	if (!buf_ok(&m->body))
		return refuse(no, REASON_UNAVAILABLE, "the entry does not fit (%u bytes), or memory ran out", PAWL_MAX_BODY);
	p = pending_entry(s->e, s->cookie);
	if (!p)
		return refuse(no, REASON_UNAVAILABLE, "out of memory");
	if (committer_reserve(m->committer, m->body.n, &slot, &err) < 0) {
		free(p);
		return refuse_err(no, &err);
	}
	/* from here on the copy alone: what s->e borrows from the state may move while the state makes room */
	if ((s->value.p && committer_attach(m->committer, &slot, s->tree, s->value, false, &err) < 0) ||
	    (s->record.p && committer_attach(m->committer, &slot, s->tree, s->record, true, &err) < 0) || state_room(m->state, &p->e, &err) < 0) {
		committer_cancel(m->committer, &slot);
		free(p);
		return refuse_err(no, &err);
	}
	state_apply(m->state, &p->e);
	slot.last_resort = fits_when_full(&p->e);
	committer_push(m->committer, &slot, p->seq, buf_str(&m->body), s->tree, s->secret, p);
	pending_queue_push(&m->pending, p);
	return 0;
}

static const char too_many[] = "too many answers wait for the disk";

int mediate_again(struct mediator *m, uint64_t seq, void *cookie, struct refusal *no)
{
	struct pending *p = m->pending.waits < PAWL_MAX_HELD ? pending_wait(seq, cookie) : NULL;

	if (!p)
		return refuse(no, REASON_UNAVAILABLE, "%s", m->pending.waits < PAWL_MAX_HELD ? "out of memory" : too_many);
	pending_queue_push(&m->pending, p);
	return 0;
}

bool mediate_shown(struct mediator *m, void *cookie, bool agent)
{
	bool full = agent && m->pending.waits >= PAWL_MAX_HELD;
	struct pending *p;

	if (m->pending.n == 0 && !m->ahead)
		return false;
	p = m->ahead || full ? NULL : pending_shown(cookie);
	if (p)
		pending_queue_push(&m->pending, p);
	else if (full && !m->ahead)
		answer_no(m, cookie, REASON_UNAVAILABLE, too_many);
	else
		answer_no(m, cookie, REASON_LOG_UNAVAILABLE, m->ahead ? m->closed_why : "out of memory");
	return true;
}

/* An old entry answered again: its bytes come from the journal, so the reply is the same, also after a restart. */
static void answer_again(struct mediator *m, uint64_t seq, void *cookie)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	struct entry_parsed old;
	struct entry_view view;

	if (journal_read(m->journal, seq, &note, &err) < 0 || entry_view_parse(buf_str(&note), &view, &err) < 0 ||
	    entry_parse(view.body, seq, &old, &err) < 0) {
		oplog_error("answering an earlier entry again", &err);
		answer_no(m, cookie, REASON_UNAVAILABLE, "the earlier entry could not be read");
	} else {
		struct answer ans = { .e = &old.e, .note = buf_str(&note) };

		m->done(cookie, &ans);
		entry_parsed_done(&old);
	}
	buf_done(&note);
}

/* Waiters at the head of the queue whose entry is durable: those behind an entry wait their turn. */
static void flush_waiters(struct mediator *m)
{
	while (m->pending.head && m->pending.head->waits) {
		struct pending *p = pending_queue_pop(&m->pending);

		if (p->shows && !m->ahead)
			m->done(p->cookie, &(struct answer){ .no = REASON_OK });
		else if (!p->shows && p->seq < m->durable)
			answer_again(m, p->seq, p->cookie);
		else /* its entry was in a batch that failed */
			answer_no(m, p->cookie, REASON_LOG_UNAVAILABLE, m->closed_why);
		free(p);
	}
}

static void close_log(struct mediator *m, const struct pawl_error *err)
{
	if (!m->open)
		return;
	m->open = false;
	m->ahead = true;
	m->retry_at = add_sat(clock_now(m->clock), RETRY_NS);
	(void)snprintf(m->closed_why, sizeof(m->closed_why), "%s", err->msg);
	oplog(OPLOG_ERROR, "the log cannot be written: %s; every call is denied until it can", err->msg);
}

static void count_answer(struct mediator *m, const struct entry *e)
{
	if (e->kind == ENTRY_DECISION || e->kind == ENTRY_CLAIM) {
		m->count.answers[e->decision.answer & 3]++;
		m->count.would[e->decision.would & 3]++;
	} else if (e->kind == ENTRY_SETTLE) {
		m->count.settles++;
	}
}

static void tell_over(const struct mediator *m, const struct entry *e)
{
	uint64_t session = e->kind == ENTRY_SESSION && e->session.action != SESSION_OPEN ? e->session.session
			   : e->kind == ENTRY_RESOLVE					  ? e->resolve.ends
											  : 0;

	if (session && m->over)
		m->over(m->over_arg, session);
}

static void take_result(struct mediator *m, struct commit_result *r)
{
	struct pending *p;

	flush_waiters(m);
	p = pending_queue_pop(&m->pending);
	if (!p || p != r->cookie)
		abort(); /* the committer answers in the order it was asked: our bug, and no safe way on */
	if (!r->durable) {
		close_log(m, &r->err);
		answer_no(m, p->cookie, REASON_LOG_UNAVAILABLE, m->closed_why);
		free(p);
	} else {
		struct answer ans = { .e = &p->e, .note = { r->note, r->note_n } };

		m->durable = r->seq + 1;
		count_answer(m, &p->e);
		if (p->cookie)
			m->done(p->cookie, &ans);
		tell_over(m, &p->e);
		projector_push(m->projector, p);
	}
	free(r->note);
}

void mediate_reap(struct mediator *m)
{
	struct commit_result got[64];
	size_t n;

	while ((n = committer_reap(m->committer, got, PAWL_LEN(got))) > 0)
		for (size_t i = 0; i < n; i++)
			take_result(m, &got[i]);
	flush_waiters(m);
}

static int write_stale(struct mediator *m, uint64_t session, int64_t now, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_SESSION, now);

	e.session = (struct entry_session){ .action = SESSION_STALE, .session = session };
	return mediate_submit(m, &(struct submission){ .e = &e }, no);
}

static int write_deadline(struct mediator *m, const struct deadline *d, int64_t now, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_TIMEOUT, now);
	struct breaker_row rows[PAWL_MAX_BREAKERS];
	const struct call_state *call;

	if (d->kind == DEADLINE_RESERVATION) {
		call = state_decision(m->state, d->id);
		e.kind = ENTRY_LOSS;
		e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = d->session, .decision = d->id, .breakers = rows };
		if (call)
			e.loss.n_breakers = breaker_report(m->policy, m->state, call, OUTCOME_EXPIRED, now, rows);
	} else {
		e.timeout = (struct entry_timeout){ .session = d->session, .card = d->id };
	}
	return mediate_submit(m, &(struct submission){ .e = &e }, no);
}

/* The entry of a switch may have been in a batch that failed. Nothing is judged or falls due in a mode that the log does not say. */
static int say_mode(struct mediator *m, struct refusal *no)
{
	return state_mode(m->state) == m->policy->mode ? 0 : mediate_policy(m, NULL, STR_NONE, NULL, NULL, no);
}

int mediate_due(struct mediator *m, int64_t now, struct refusal *no)
{
	struct deadline d;
	uint64_t stale;
	int r = say_mode(m, no);

	while (r == 0) {
		bool due = state_next_deadline(m->state, &d) && d.at <= now;

		if (sessions_next_stale(m->sessions, m->state, due ? d.at : now, &stale))
			r = write_stale(m, stale, now, no);
		else if (due)
			r = write_deadline(m, &d, now, no);
		else
			break;
	}
	return r;
}

/* The state as the disk has it: a copy of the projector's, once that has followed to the end. */
static int put_back(struct mediator *m, struct pawl_error *err)
{
	struct state *fresh = NULL;
	int r = m->ahead ? projector_copy(m->projector, m->durable, &fresh, err) : 0;

	if (r < 0 || !m->ahead)
		return r;
	state_free(m->state);
	m->state = fresh;
	m->ahead = false;
	sessions_sweep(m->sessions, m->state);
	return 0;
}

/* last_resort: only for what fits_when_full(). */
static int try_again(struct mediator *m, int64_t now, bool last_resort)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct refusal no;
	uint64_t next = 0;
	int r = put_back(m, &err);

	if (r == PAWL_E_BUSY) {
		m->retry_at = add_sat(now, FOLLOW_NS);
		return r;
	}
	if (r == 0)
		r = committer_recover(m->committer, last_resort, &next, &err);
	if (r == 0 && next != m->durable)
		r = pawl_fail(&err, PAWL_E_TAMPERED, "the log ends at %llu, not at %llu", (unsigned long long)next, (unsigned long long)m->durable);
	if (r < 0) {
		(void)snprintf(m->closed_why, sizeof(m->closed_why), "%s", err.msg);
		m->retry_at = add_sat(now, RETRY_NS);
		return r;
	}
	m->open = true;
	if (last_resort)
		return 0;
	oplog(OPLOG_INFO, "the log can be written again");
	/* the entry of a reload may have been in the failed batch: say which policy judges from here on */
	return mediate_policy(m, NULL, STR_NONE, NULL, NULL, &no);
}

void mediate_last_resort(struct mediator *m)
{
	const struct timespec nap = { .tv_nsec = FOLLOW_NS };

	for (int i = 0; i < FOLLOW_TRIES && !m->open && m->pending.n == 0; i++)
		if (try_again(m, clock_now(m->clock), true) == PAWL_E_BUSY)
			(void)nanosleep(&nap, NULL);
		else
			break;
}

/* ---- the projector's news ---- */

static void log_snapshot(struct mediator *m)
{
	struct entry e = mediate_entry(m, ENTRY_SNAPSHOT, clock_now(m->clock));
	struct refusal no;

	if (!projector_stored(m->projector, &e.snapshot))
		return;
	if (m->open && mediate_submit(m, &(struct submission){ .e = &e }, &no) < 0)
		oplog(OPLOG_WARN, "a snapshot is not in the log and so will not be used: %s", no.err.msg);
}

int mediate_follow(struct mediator *m, struct pawl_error *err)
{
	log_snapshot(m);
	return projector_damage(m->projector, err) ? (int)err->code : 0;
}

void mediate_snapshot(struct mediator *m, int wait_ms)
{
	if (!m->open)
		return;
	projector_finish(m->projector, wait_ms);
	log_snapshot(m);
}

static void summarise_throttle(struct mediator *m, int64_t now)
{
	struct entry e = mediate_entry(m, ENTRY_THROTTLE, now);
	struct refusal no;

	e.throttle = (struct entry_throttle){ .agent = STR("local"), .count = m->throttled };
	if (mediate_submit(m, &(struct submission){ .e = &e }, &no) == 0) {
		m->throttled = 0;
		m->throttle_at = 0;
	} else {
		m->throttle_at = add_sat(now, SUMMARY_NS);
	}
}

/* What no card shows any more leaves the private store too, once the entries that ended these cards are durable. */
static void sweep_cards(struct mediator *m)
{
	uint64_t gone[256];
	size_t n;

	while ((n = reviews_sweep(m->reviews, m->state, gone, PAWL_LEN(gone))) > 0)
		committer_drop(m->committer, gone, n, state_next_seq(m->state));
}

int64_t mediate_tick(struct mediator *m, int64_t now)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct deadline d;
	struct refusal no;
	int64_t next;

	flush_waiters(m);
	if (m->ahead && m->pending.n == 0 && put_back(m, &err) == PAWL_E_BUSY)
		return add_sat(now, FOLLOW_NS);
	if (!m->open && now >= m->retry_at && m->pending.n == 0)
		(void)try_again(m, now, false);
	if (!m->open)
		return m->retry_at > now ? m->retry_at : add_sat(now, RETRY_NS);
	if (mediate_due(m, now, &no) < 0)
		return add_sat(now, RETRY_NS / 10);
	if (m->throttle_at && now >= m->throttle_at)
		summarise_throttle(m, now);
	if (now >= m->sweep_at) {
		sessions_sweep(m->sessions, m->state);
		sweep_cards(m);
		m->sweep_at = add_sat(now, SWEEP_NS);
	}
	next = m->sweep_at;
	if (m->throttle_at && m->throttle_at < next)
		next = m->throttle_at;
	if (sessions_next_lease(m->sessions) < next)
		next = sessions_next_lease(m->sessions);
	if (state_next_deadline(m->state, &d) && d.at < next)
		next = d.at;
	return next;
}
