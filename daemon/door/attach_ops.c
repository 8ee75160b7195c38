/* daemon/door/attach_ops.c - what is asked at the watch door: run, attach, exited, rejoin. A session first, durable; then the watcher is asked; then
 * its entry, durable; then the answer, and only then the child goes on. Who is asked for is the watcher's to check: it sees the process, we see
 * the peer. Borrows connections by number, since they may be gone by the time of an answer. */
#include "daemon/door/attach_int.h"

#include "daemon/base/files.h"
#include "daemon/base/oplog.h"
#include "daemon/door/peer_tree.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void answer(struct watch_job *job, struct buf *out)
{
	struct attach_door *door = job->d->watch_door;
	struct watch_conn *c = door ? conn_find(door, job->conn) : NULL;

	if (c) {
		c->job = NULL;
		conn_send(door, c, out);
		conn_idle(door, c);
	}
	job_end(job);
}

static void answer_no(struct watch_job *job, enum reason_code code, const char *message)
{
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);

	reply_error(job->rq.op, code, NULL, message, 0, &out);
	answer(job, &out);
	buf_done(&out);
}

/* ---- launch rules ---- */

static uint32_t needs(const struct daemon *d)
{
	return watch_policy_needs(&d->m.policy->watch);
}

/* Landlock is the launcher's: it holds where this kernel has it. */
static bool writes_hold(const struct daemon *d)
{
	return d->watch_probes && d->watch_probes->row[WP_LANDLOCK].state != WATCH_OFF;
}

/* What the kernel's programs do not hold is left to rlimits, which a process has for itself alone. */
static struct reply_rlimits rlimits(const struct policy *pol, uint32_t held)
{
	const struct watch_limits *l = &pol->watch.limits;
	struct reply_rlimits r = { .cpu_ns = 0 };

	if (!(held & HOLD_CPU))
		r.cpu_ns = (int64_t)l->cpu_ns;
	if (!(held & HOLD_MEMORY))
		r.memory = (int64_t)l->memory;
	if (!(held & HOLD_PROCESSES))
		r.processes = (int64_t)l->processes;
	return r;
}

/* Paths of writes_under, relative ones below the session's root. false: there is no root for them, or no memory. */
static bool writes(const struct policy *pol, struct str root, struct buf *text, struct str *rows)
{
	size_t at[PAWL_MAX_WRITES_UNDER + 1];

	for (size_t i = 0; i < pol->watch.n_writes_under; i++) {
		struct str p = pol->watch.writes_under[i];

		at[i] = text->n;
		if (p.n && p.p[0] != '/') {
			if (!root.n)
				return false;
			buf_str_add(text, root);
			buf_putc(text, '/');
		}
		buf_str_add(text, p);
	}
	at[pol->watch.n_writes_under] = text->n;
	for (size_t i = 0; buf_ok(text) && i < pol->watch.n_writes_under; i++)
		rows[i] = (struct str){ text->p + at[i], at[i + 1] - at[i] };
	return buf_ok(text);
}

static void run_text(const struct watch_job *job, uint32_t held, const char *message, struct buf *out)
{
	const struct daemon *d = job->d;
	struct str hide[WATCH_MAX_HIDE], under[PAWL_MAX_WRITES_UNDER];
	struct buf paths = BUF_MAX(WATCH_MAX_PACKET);
	struct reply_run r = { .op = job->rq.op, .session = job->session, .need = needs(d), .hide = hide, .n_hide = d->watch_door->n_hide,
			       .writes = under, .message = str_of(message), .agent_socket = str_of(d->watch_door->agent_socket),
			       .tier = d->watch_probes && d->watch_probes->tier ? d->watch_probes->tier : 'D' };

	r.unwatched = !d->watch_probes;
	r.held = held | (job->rq.op == OP_RUN && writes_hold(d) ? r.need & HOLD_WRITES : 0);
	memcpy(r.token, job->token, sizeof(r.token));
	for (size_t i = 0; i < r.n_hide; i++)
		hide[i] = str_of(d->watch_door->hide[i]);
	r.has_writes = d->m.policy->watch.has_writes && writes(d->m.policy, job->rq.open.root, &paths, under);
	r.n_writes = r.has_writes ? d->m.policy->watch.n_writes_under : 0;
	if (d->m.policy->watch.has_writes && !r.has_writes)
		out->failed = true; /* rules that would say less than the policy: no answer at all */
	r.rlimits = rlimits(d->m.policy, held);
	reply_run(&r, out);
	sodium_memzero(&r, sizeof(r));
	buf_done(&paths);
}

/* The connection itself, for the watcher to ask the kernel who it is. -1: no descriptor is left. */
static int lend(const struct watch_conn *c)
{
	return fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
}

/* ---- run ---- */

/* Nobody has its token: it ends, or goes stale when even that cannot be written. */
static void close_session(struct daemon *d, uint64_t session)
{
	struct refusal no;
	bool over;

	if (mediate_watch_over(&d->m, session, &over, NULL, &no) < 0)
		oplog(OPLOG_WARN, "session s_%llu of a run that failed stays open until its lease is over", (unsigned long long)session);
}

static void opened(void *cookie, const struct answer *ans)
{
	struct watch_job *job = cookie;
	struct daemon *d = job->d;
	struct watched_ask ask = { .owner = job->conn, .flags = ATTACH_RUN };
	struct watch_conn *c = d->watch_door ? conn_find(d->watch_door, job->conn) : NULL;
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);
	struct refusal no;

	job->in_spine = false;
	if (!ans->e) {
		answer_no(job, ans->no, ans->message ? ans->message : "the log cannot be written");
		return;
	}
	job->session = ask.session = ans->e->seq;
	if (!c) { /* it hung up */
		close_session(d, job->session);
		job_end(job);
		return;
	}
	if (!d->watch_probes && job->rq.allow_degraded) { /* without a watcher the launcher's own rules are all there is */
		run_text(job, 0, "there is no watcher: only the launcher's own rules hold", &out);
		answer(job, &out);
		buf_done(&out);
		return;
	}
	ask.need = job->rq.allow_degraded ? 0 : needs(d) & ~(uint32_t)HOLD_WRITES;
	ask.launcher = c->pid;
	ask.pidfd = job->pidfd;
	ask.asker = lend(c);
	job->pidfd = -1;
	if (watched_attach(d->watched, &ask, &no) == 0)
		return;
	close_session(d, job->session);
	answer_no(job, no.code, no.err.msg);
}

/* Folders below the session's root are known only now. Those that this process may not look at hold nothing that it can open. */
static bool writes_hold_policy(const struct watch_job *job)
{
	const struct watch_policy *w = &job->d->m.policy->watch;
	const struct policy_files files = policy_files_system(job->d->opt->own_group);
	char folder[4096];

	for (size_t i = 0; i < w->n_writes_under; i++) {
		if (!w->writes_under[i].n || w->writes_under[i].p[0] == '/')
			continue;
		if ((size_t)snprintf(folder, sizeof(folder), "%.*s/%.*s", STR_ARG(job->rq.open.root), STR_ARG(w->writes_under[i])) >= sizeof(folder) ||
		    files.holds(files.arg, folder, job->d->opt->policy, NULL) == 1) /* what cannot be named whole cannot be looked at */
			return true;
	}
	return false;
}

/* Its longest form: nothing is held, and all of that is named. What cannot be said whole would be an end right after the start. */
static bool can_be_answered(const struct watch_job *job)
{
	struct watch_job longest = *job;
	struct buf text = BUF_MAX(WATCH_MAX_PACKET - 1024); /* a message besides */
	bool ok;

	longest.session = UINT64_MAX;
	run_text(&longest, 0, "", &text);
	ok = buf_ok(&text);
	buf_done(&text);
	return ok;
}

static bool may_run(const struct watch_job *job, struct buf *out)
{
	const struct daemon *d = job->d;
	const struct watch_policy *w = &d->m.policy->watch;
	char message[192];
	uint32_t need = needs(d);

	if (need & HOLD_WRITES && !writes_hold(d) && !job->rq.allow_degraded) {
		(void)snprintf(message, sizeof(message), "cannot hold writes_under: %s", d->watch_probes ? d->watch_probes->row[WP_LANDLOCK].why : "there is no watcher");
		reply_error(OP_RUN, REASON_WATCH_REQUIRED, NULL, message, 0, out);
		return false;
	}
	for (size_t i = 0; !job->rq.open.root.n && i < w->n_writes_under; i++)
		if (w->writes_under[i].n && w->writes_under[i].p[0] != '/') {
			reply_error(OP_RUN, REASON_MALFORMED, "root", "missing: writes_under of the policy has paths below it", 0, out);
			return false;
		}
	if (writes_hold_policy(job)) {
		reply_error(OP_RUN, REASON_MALFORMED, "root", "a folder of writes_under below it holds the policy file, which what is watched could change: take another root (--root DIR) or state folder", 0, out);
		return false;
	}
	if (!can_be_answered(job)) {
		reply_error(OP_RUN, REASON_MALFORMED, "root", "with it the folders of writes_under do not fit into an answer: take a shorter one", 0, out);
		return false;
	}
	if (!d->watch_probes && !job->rq.allow_degraded) {
		reply_error(OP_RUN, REASON_WATCH_REQUIRED, NULL, "nothing watches here: pawld runs without a watcher (--no-watch)", 0, out);
		return false;
	}
	return true;
}

static bool handle_run(struct watch_job *job, const struct watch_conn *c, struct buf *out)
{
	const char *why = peer_tree_refuses(job->d, &(struct peer){ c->pid, c->born });
	const struct request_open *rq = &job->rq.open;
	struct open_args a = { .agent = rq->agent, .root_dir = rq->root, .labels = rq->labels };
	struct refusal no;

	if (why) { /* a tree of its own would be a way out of the one that it is in */
		job->d->m.count.unauthenticated++;
		reply_error(OP_RUN, REASON_UNAUTHENTICATED, NULL, why, 0, out);
		return false;
	}
	if (!may_run(job, out))
		return false;
	memcpy(a.has_limit, rq->has_limit, sizeof(a.has_limit));
	memcpy(a.limit, rq->limit, sizeof(a.limit));
	randombytes_buf(job->token, sizeof(job->token));
	memcpy(a.token, job->token, sizeof(a.token));
	job->in_spine = true;
	if (mediate_open(&job->d->m, &a, job, &no) == 0)
		return true;
	reply_error(OP_RUN, no.code, no.err.field, no.err.msg, no.retry_after_ns, out);
	return false;
}

/* ---- the others ---- */

static const struct session_state *who_asks(const struct watch_job *job, struct buf *out)
{
	struct live *lv;
	const struct session_state *who = mediate_session(&job->d->m, job->rq.session, job->rq.token, &lv);

	if (!who)
		reply_error(job->rq.op, REASON_UNAUTHENTICATED, NULL, "unknown session, or not its token", 0, out);
	return who;
}

/* The life line of what `pawl run` started is its launcher's: held from inside, the tree would outlive it. Who attached itself holds its own. */
static bool is_inside(const struct watch_job *job, const struct watch_conn *c, struct buf *out)
{
	struct watched_view v;
	uint64_t session = peer_tree(job->d, &(struct peer){ c->pid, c->born });

	if (!watched_look(job->d->watched, job->rq.session, &v) || !v.run || (session != v.session && session != PEER_UNKNOWN))
		return false;
	job->d->m.count.unauthenticated++;
	reply_error(job->rq.op, REASON_UNAUTHENTICATED, NULL, "only a launcher outside of the tree may say this", 0, out);
	return true;
}

/* An agent that runs already. What only a launcher can hold cannot be held for it any more. */
static bool handle_attach(struct watch_job *job, struct watch_conn *c, struct buf *out)
{
	const struct session_state *who = who_asks(job, out);
	struct watched_ask ask = { .owner = c->id, .need = needs(job->d), .launcher = c->pid };
	uint64_t inside = peer_tree(job->d, &(struct peer){ c->pid, c->born });
	struct refusal no;

	if (!who)
		return false;
	if (inside) { /* it would have limits of its own, from the beginning */
		job->d->m.count.unauthenticated++;
		reply_error(OP_ATTACH, REASON_UNAUTHENTICATED, NULL,
			    inside == PEER_UNKNOWN ? "this process cannot be looked at, and others run under watch" : "this process runs under watch already", 0, out);
		return false;
	}
	if (who->end != SESSION_LIVE || state_tree(job->d->m.state, who->id).mode != TREE_NONE) {
		reply_error(OP_ATTACH, who->end != SESSION_LIVE ? session_end_reason(who->end) : REASON_REPLAY_CONFLICT, NULL,
			    who->end != SESSION_LIVE ? "the session has ended" : "the session is watched already", 0, out);
		return false;
	}
	if (ask.need & HOLD_WRITES) {
		reply_error(OP_ATTACH, REASON_WATCH_REQUIRED, NULL, "cannot hold writes_under for a process that runs already: start it with pawl run", 0, out);
		return false;
	}
	job->session = ask.session = who->id;
	ask.pidfd = job->pidfd;
	ask.asker = lend(c);
	job->pidfd = -1;
	if (watched_attach(job->d->watched, &ask, &no) < 0) {
		reply_error(OP_ATTACH, no.code, NULL, no.err.msg, 0, out);
		return false;
	}
	return true;
}

static void closed(void *cookie, const struct answer *ans)
{
	struct watch_job *job = cookie;
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);

	job->in_spine = false;
	if (ans->e)
		reply_watch_done(OP_EXITED, job->rq.session, &out);
	else
		reply_error(OP_EXITED, ans->no, NULL, ans->message, 0, &out);
	answer(job, &out);
	buf_done(&out);
}

static bool handle_exited(struct watch_job *job, const struct watch_conn *c, struct buf *out)
{
	const struct session_state *who = who_asks(job, out);
	struct refusal no;

	if (!who || is_inside(job, c, out))
		return false;
	if (who->end == SESSION_LIVE && state_tree(job->d->m.state, who->id).mode == TREE_NONE) { /* run without a watcher */
		job->done = closed;
		job->in_spine = true;
		if (mediate_close(&job->d->m, who->id, job->rq.token, job, &no) == 0)
			return true;
		reply_error(OP_EXITED, no.code, NULL, no.err.msg, 0, out);
		return false;
	}
	(void)watched_exited(job->d->watched, who->id); /* gone already: that is what was wanted */
	reply_watch_done(OP_EXITED, who->id, out);
	return false;
}

static bool handle_rejoin(struct watch_job *job, struct watch_conn *c, struct buf *out)
{
	const struct session_state *who = who_asks(job, out);
	enum reason_code no;

	if (!who || is_inside(job, c, out))
		return false;
	no = watched_rejoin(job->d->watched, who->id, c->id, c->pid);
	if (no == REASON_OK) {
		reply_watch_done(OP_REJOIN, who->id, out);
	} else {
		reply_error(OP_REJOIN, no, NULL,
			    no == REASON_UNAVAILABLE ? "pawld has just begun and does not know its trees yet" : "its processes are not watched any more", 0, out);
	}
	return false;
}

static bool handle(struct watch_job *job, struct watch_conn *c, struct buf *out)
{
	bool wants = job->rq.op == OP_RUN || job->rq.op == OP_ATTACH;

	if (wants != (job->pidfd >= 0)) {
		job->d->m.count.malformed++;
		reply_error(job->rq.op, REASON_MALFORMED, "", wants ? "the pidfd of the process must come with it" : "no descriptor belongs to this op", 0, out);
		return false;
	}
	if (job->rq.op == OP_RUN)
		return handle_run(job, c, out);
	if (job->rq.op == OP_ATTACH)
		return handle_attach(job, c, out);
	return job->rq.op == OP_EXITED ? handle_exited(job, c, out) : handle_rejoin(job, c, out);
}

bool attach_request(struct attach_door *door, struct watch_conn *c, struct str body, int pidfd, struct buf *out)
{
	struct watch_job *job = calloc(1, sizeof(*job));
	struct pawl_error err = { .code = PAWL_OK };
	enum wire_op op = OP_NONE;

	if (!job) {
		if (pidfd >= 0)
			(void)close(pidfd);
		reply_error(OP_NONE, REASON_UNAVAILABLE, NULL, "out of memory", 0, out);
		return false;
	}
	*job = (struct watch_job){ .done = opened, .d = door->d, .conn = c->id, .pidfd = pidfd };
	if (wire_parse(body, DOOR_WATCH, door->d->m.policy->currency, &job->rq, &op, &err) < 0) {
		door->d->m.count.malformed += err.code == PAWL_E_MALFORMED;
		reply_error(op, err.code == PAWL_E_MALFORMED ? REASON_MALFORMED : REASON_UNAVAILABLE, err.field, err.msg, 0, out);
	} else if (!door->d->m_up) {
		reply_error(op, REASON_UNAVAILABLE, NULL, door->d->reading, NS_PER_SEC, out);
	} else if (handle(job, c, out)) {
		c->job = job;
		return true;
	}
	job_end(job);
	return false;
}

/* ---- news of trees ---- */

void attach_told(void *arg, uint64_t owner, const struct watched_view *tree, enum reason_code no, const char *message)
{
	struct daemon *d = arg;
	struct watch_conn *c = d->watch_door ? conn_find(d->watch_door, owner) : NULL;
	struct watch_job *job = c ? c->job : NULL;
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);

	if (!job || job->session != tree->session)
		return;
	if (no != REASON_OK) {
		answer_no(job, no, message);
		return;
	}
	run_text(job, tree->held, message, &out);
	answer(job, &out);
	buf_done(&out);
}

void attach_ended(void *arg, uint64_t owner, const struct watch_ended *end)
{
	struct daemon *d = arg;
	struct watch_conn *c = d->watch_door ? conn_find(d->watch_door, owner) : NULL;
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);

	if (!c)
		return;
	reply_ended(end, &out);
	conn_send(d->watch_door, c, &out);
	buf_done(&out);
}
