/* daemon/watched.c - see watched.h: each tree on its way from being asked for to being forgotten, and what is sent to the watcher on that way.
 * Sends are flags that stay until the channel has taken them, entries are steps that stay until they are durable: a full socket or a closed
 * log costs time, never a kill or an end. Single events are watched_event.c's. */
#include "daemon/watched_int.h"

#include "daemon/base/oplog.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AGAIN_NS (NS_PER_SEC / 10)   /* a full socket, or a closed log */
#define RENEW_NS NS_PER_SEC	     /* a lease, while somebody waits for its tree */

int watched_new(const struct watched_config *cfg, struct watched **ret, struct pawl_error *err)
{
	struct watched *w = calloc(1, sizeof(*w));

	if (!w)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	w->cfg = *cfg;
	*ret = w;
	return 0;
}

static void hand_on(struct tree *t)
{
	if (t->pidfd >= 0)
		(void)close(t->pidfd);
	if (t->asker >= 0)
		(void)close(t->asker);
	t->pidfd = t->asker = -1;
}

static void tree_free(struct tree *t)
{
	hand_on(t);
	events_free(t);
	free(t);
}

void watched_free(struct watched *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		tree_free(w->tree[i]);
	free(w);
}

struct tree *tree_find(const struct watched *w, uint64_t session)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->tree[i]->session == session)
			return w->tree[i];
	return NULL;
}

static mediate_done told;

struct tree *tree_add(struct watched *w, uint64_t session)
{
	struct tree *t = w->n < PAWL_MAX_TREES ? calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	t->done = told;
	t->w = w;
	t->session = session;
	t->pidfd = t->asker = -1;
	w->tree[w->n++] = t;
	return t;
}

static void tree_drop(struct watched *w, struct tree *t)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->tree[i] == t)
			w->tree[i] = w->tree[--w->n];
	tree_free(t);
}

bool tree_lives(const struct tree *t)
{
	return t->step == STEP_ATTACH || t->step == STEP_ATTACH_TOLD || t->step == STEP_RUNS;
}

void tree_view(const struct tree *t, struct watched_view *ret)
{
	*ret = (struct watched_view){ .session = t->session, .live = tree_lives(t), .run = t->flags & ATTACH_RUN, .held = t->att.held,
				       .first = t->att.pid, .launcher = t->launcher, .now = t->now };
}

bool tree_in_log(const struct watched *w, const struct tree *t, enum tree_mode mode)
{
	return state_tree(w->cfg.m->state, t->session).mode == mode;
}

/* ---- to the watcher ---- */

static void limits_now(const struct watched *w, struct watch_limits *limits, uint32_t *flags)
{
	const struct policy *pol = w->cfg.m->policy;

	*limits = pol->watch.limits;
	*flags = (*flags & ATTACH_RUN) | (pol->mode == MODE_SHADOW ? ATTACH_LOG_ONLY : 0) | (pol->watch.exec != WATCH_EXEC_NONE ? ATTACH_EVENTS : 0);
}

/* The denied programs, each with its NUL. */
static bool denied(const struct watched *w, struct buf *out)
{
	const struct watch_policy *p = &w->cfg.m->policy->watch;

	for (size_t i = 0; i < p->n_deny_exec; i++) {
		buf_str_add(out, p->deny_exec[i]);
		buf_putc(out, '\0');
	}
	return buf_ok(out);
}

#define MAX_DENIED (60u << 10) /* with a header it fits one message */

static int send_attach(struct watched *w, struct tree *t, struct pawl_error *err)
{
	struct watch_attach a = { .request = t->request, .session = t->session, .need = t->need,
				  .n_deny = (uint32_t)w->cfg.m->policy->watch.n_deny_exec };
	struct buf paths = BUF_MAX(MAX_DENIED);
	int r;

	limits_now(w, &a.limits, &t->flags);
	a.flags = t->flags;
	t->now.limits = a.limits;
	if (!denied(w, &paths)) {
		buf_done(&paths);
		return pawl_fail(err, PAWL_E_LIMIT, "the names of watch.deny_exec are longer than %u bytes together, or memory ran out", MAX_DENIED);
	}
	a.deny_bytes = (uint32_t)paths.n;
	r = w->cfg.channel.attach(w->cfg.channel.arg, &a, buf_str(&paths), (const int[]){ t->pidfd, t->asker }, err);
	buf_done(&paths);
	return r;
}

static int send_renew(struct watched *w, struct tree *t, struct pawl_error *err)
{
	struct watch_renew n = { .session = t->session, .n_deny = (uint32_t)w->cfg.m->policy->watch.n_deny_exec };
	struct buf paths = BUF_MAX(MAX_DENIED);
	int r;

	limits_now(w, &n.limits, &t->flags);
	n.flags = t->flags;
	if (!denied(w, &paths)) {
		buf_done(&paths);
		return pawl_fail(err, PAWL_E_LIMIT, "the names of watch.deny_exec do not fit, or memory ran out");
	}
	n.deny_bytes = (uint32_t)paths.n;
	r = w->cfg.channel.renew(w->cfg.channel.arg, &n, buf_str(&paths), err);
	buf_done(&paths);
	return r;
}

static void tell_attached(struct watched *w, struct tree *t, enum reason_code no, const char *message)
{
	struct watched_view v;

	tree_view(t, &v);
	if (t->owner && w->cfg.news.attached)
		w->cfg.news.attached(w->cfg.news.arg, t->owner, &v, no, message);
}

/* Its owner hears at once; the session of a run, of which nobody has the token, is closed when the log takes it. */
void tree_fail(struct tree *t, enum reason_code no, const char *message)
{
	t->step = STEP_FAILED;
	t->w->refused++;
	t->w->more = true;
	tell_attached(t->w, t, no, message);
	t->owner = 0;
}

static void ask(struct watched *w, struct tree *t, int64_t now)
{
	struct pawl_error err = { .code = PAWL_OK };
	int r = t->sent ? 0 : w->gone ? pawl_fail(&err, PAWL_E_SYS, "nothing watches here: there is no watcher") : send_attach(w, t, &err);

	if (r < 0 && r != PAWL_E_FULL) {
		tree_fail(t, REASON_WATCH_REQUIRED, err.msg);
	} else if (r == 0 && !t->sent) {
		t->sent = true;
		hand_on(t);
	}
	if (t->step == STEP_ASKED && now >= t->deadline) {
		t->kill_due = t->sent; /* should it attach after all */
		t->kill_why = WHY_LAUNCHER;
		tree_fail(t, REASON_UNAVAILABLE, "the watcher did not answer in 10 s");
	}
}

/* What is due to be sent; false: the socket is full. */
static bool flush(struct watched *w, struct tree *t)
{
	struct watch_kill k = { .session = t->session, .why = t->kill_why };
	struct pawl_error err = { .code = PAWL_OK };
	int r = 0;

	if (w->gone)
		return true;
	if (t->kill_due) {
		r = w->cfg.channel.kill(w->cfg.channel.arg, &k, &err);
		t->kill_due = r < 0;
	}
	if (r == 0 && t->renew_due) {
		r = send_renew(w, t, &err);
		t->renew_due = r == PAWL_E_FULL;
		if (r < 0 && r != PAWL_E_FULL) { /* it must not run on under limits that are no longer the policy's */
			oplog_error("a tree cannot be told its new limits and is ended", &err);
			t->kill_due = true;
			t->kill_why = WHY_ABORT;
		}
	}
	return r == 0;
}

void tree_end(struct tree *t, enum watch_why why)
{
	if (t->killed_by != WHY_NONE)
		return;
	t->killed_by = t->kill_why = why;
	t->kill_due = t->w->more = true;
}

/* ---- steps with entries ---- */

static void attach_entry(const struct watched *w, const struct tree *t, char tier[static 2], struct watch_args *ret)
{
	const struct watch_attached *a = &t->att;
	const struct watch_limits *l = &t->now.limits;
	struct entry_watch *e = &ret->told;

	*ret = (struct watch_args){ .told = { .action = WATCHED_ATTACH, .session = t->session, .pid = a->pid, .uid = a->uid, .start_ns = bounded(a->start_boot_ns),
					      .run = t->flags & ATTACH_RUN, .log_only = t->flags & ATTACH_LOG_ONLY } };
	tier[0] = w->cfg.probes ? w->cfg.probes->tier : '?';
	tier[1] = '\0';
	e->tier = str_of(tier);
	if (a->message[0])
		e->message = (struct str){ a->message, strnlen(a->message, sizeof(a->message)) };
	for (unsigned bit = 0; bit < WATCHED_HOLD_COUNT; bit++)
		if (a->held >> bit & 1)
			e->held[e->n_held++] = (enum watched_hold)bit;
	e->limits = (struct watched_limits){ bounded(l->processes), bounded(l->fork_rate), bounded(l->exec_rate), bounded(l->cpu_ns), bounded(l->memory),
					     bounded(l->wall_ns) };
}

static void end_entry(const struct tree *t, struct watched_dead dead[static PAWL_MAX_ENDED], struct watch_args *ret)
{
	const struct watch_ended *end = &t->end;
	const struct watch_now *last = &end->last;
	struct entry_watch *e = &ret->told;

	*ret = (struct watch_args){ .told = { .action = WATCHED_END, .session = t->session, .why = (enum watch_why)last->killed, .peak = bounded(last->peak),
					      .forks = bounded(last->forks), .execs = bounded(last->execs), .cpu_ns = bounded(last->cpu_ns),
					      .memory_peak = bounded(last->memory_peak), .wall_ns = bounded(last->wall_ns), .lost = bounded(last->lost),
					      .killed = end->n_killed, .has_measured = end->limit != 0, .measured = bounded(end->measured),
					      .limit = bounded(end->limit), .dead = dead } };
	for (; e->n_dead < end->n_dead && e->n_dead < PAWL_MAX_ENDED; e->n_dead++) {
		const struct watch_dead *d = &end->dead[e->n_dead];

		dead[e->n_dead] = (struct watched_dead){ d->pid, { d->comm, strnlen(d->comm, sizeof(d->comm)) } };
	}
}

static bool submit(struct watched *w, struct tree *t, const struct watch_args *a, enum tree_step next)
{
	enum tree_step was = t->step;
	struct refusal no;

	t->step = next;
	if (mediate_watch(w->cfg.m, a, t, &no) == 0)
		return true;
	t->step = was;
	return false;
}

static bool close_session(struct watched *w, struct tree *t, enum tree_step told_step, enum tree_step over)
{
	enum tree_step was = t->step;
	struct refusal no;
	bool ended;

	t->step = told_step;
	if (mediate_watch_over(w->cfg.m, t->session, &ended, t, &no) < 0) {
		t->step = was;
		return false;
	}
	if (ended) {
		t->step = over;
		w->more = true;
	}
	return true;
}

/* Answers of the spine. */
static void told(void *cookie, const struct answer *ans)
{
	struct tree *t = cookie;
	bool ok = ans->e != NULL;

	t->w->more = true;
	switch (t->step) {
	case STEP_ATTACH_TOLD:
		if (ok) {
			t->step = STEP_RUNS;
			tell_attached(t->w, t, REASON_OK, t->att.message);
			return;
		}
		tree_end(t, WHY_ABORT); /* nothing in the log speaks of it: it must not run */
		tree_fail(t, REASON_LOG_UNAVAILABLE, ans->message ? ans->message : "the log cannot be written");
		return;
	case STEP_FAILED_TOLD:
		t->step = ok ? STEP_FORGET : STEP_FAILED;
		return;
	case STEP_OVER_TOLD:
		t->step = ok ? STEP_CLOSE : STEP_OVER;
		return;
	case STEP_CLOSE_TOLD:
		t->step = ok ? STEP_FORGET : STEP_CLOSE;
		return;
	case STEP_ASKED:
	case STEP_ATTACH:
	case STEP_RUNS:
	case STEP_FAILED:
	case STEP_OVER:
	case STEP_CLOSE:
	case STEP_FORGET:
		abort(); /* no entry of this tree was on its way: our bug */
	}
}

/* ---- all that is due ---- */

/* Sessions whose trees nobody knows any more: the kernel was started again, or a pawld without a watcher was. What became of them cannot be known. */
static bool end_orphans(struct watched *w)
{
	const struct session_state *who;
	struct tree *t;

	for (uint64_t after = 0; (who = state_session_after(w->cfg.m->state, after)); after = who->id) {
		if (state_tree(w->cfg.m->state, who->id).mode != TREE_LIVE || tree_find(w, who->id))
			continue;
		t = tree_add(w, who->id);
		if (!t)
			return false;
		t->step = STEP_OVER;
		t->end.last.session = who->id;
	}
	return true;
}

static void run(struct watched *w, struct tree *t, int64_t now)
{
	if (t->orphan_at && now >= t->orphan_at) {
		t->orphan_at = 0;
		tree_end(t, WHY_LAUNCHER);
	}
	if (t->owner && (t->flags & ATTACH_RUN))
		mediate_watch_renew(w->cfg.m, t->session);
	if (events_tell(w, t, now, t->end_seen) && t->end_seen) {
		t->step = STEP_OVER;
		w->more = true;
	}
}

/* true: the row is gone. */
static bool forget(struct watched *w, struct tree *t)
{
	if (t->kill_due && !w->gone)
		return false;
	if (t->end_seen && !w->gone && w->cfg.channel.forget(w->cfg.channel.arg, t->session, NULL) == PAWL_E_FULL)
		return false;
	if (t->end_seen && t->owner && w->cfg.news.ended)
		w->cfg.news.ended(w->cfg.news.arg, t->owner, &t->end);
	tree_drop(w, t);
	return true;
}

/* One step as far as it goes without waiting; true: the row is gone. */
static bool step(struct watched *w, struct tree *t, int64_t now)
{
	struct watched_dead dead[PAWL_MAX_ENDED];
	struct watch_args a;
	char tier[2];

	if (!flush(w, t))
		return false;
	switch (t->step) {
	case STEP_ASKED:
		ask(w, t, now);
		break;
	case STEP_ATTACH:
		attach_entry(w, t, tier, &a);
		(void)submit(w, t, &a, STEP_ATTACH_TOLD);
		break;
	case STEP_RUNS:
		run(w, t, now);
		break;
	case STEP_FAILED:
		if (t->flags & ATTACH_RUN) {
			(void)close_session(w, t, STEP_FAILED_TOLD, STEP_FORGET);
		} else { /* the session is the agent's, which was one before it asked */
			t->step = STEP_FORGET;
			w->more = true;
		}
		break;
	case STEP_OVER:
		if (!w->cfg.m->open)
			break;
		end_entry(t, dead, &a);
		if (tree_in_log(w, t, TREE_LIVE)) {
			(void)submit(w, t, &a, STEP_OVER_TOLD);
		} else {
			t->step = STEP_CLOSE;
			w->more = true;
		}
		break;
	case STEP_CLOSE:
		(void)close_session(w, t, STEP_CLOSE_TOLD, STEP_FORGET);
		break;
	case STEP_FORGET:
		return forget(w, t);
	case STEP_ATTACH_TOLD:
	case STEP_FAILED_TOLD:
	case STEP_OVER_TOLD:
	case STEP_CLOSE_TOLD:
		break;
	}
	return false;
}

static int64_t next_of(const struct watched *w, const struct tree *t, int64_t now)
{
	int64_t next = INT64_MAX, events;

	switch (t->step) {
	case STEP_ATTACH_TOLD: /* the spine's answer comes by itself */
	case STEP_FAILED_TOLD:
	case STEP_OVER_TOLD:
	case STEP_CLOSE_TOLD:
		return INT64_MAX;
	case STEP_ASKED:
		return t->sent ? t->deadline : add_sat(now, AGAIN_NS);
	case STEP_RUNS:
		events = events_next(t);
		next = events <= now ? add_sat(now, AGAIN_NS) : events; /* it was tried just now */
		if (t->orphan_at && t->orphan_at < next)
			next = t->orphan_at;
		if (t->owner && (t->flags & ATTACH_RUN) && add_sat(now, RENEW_NS) < next)
			next = add_sat(now, RENEW_NS);
		if ((t->kill_due || t->renew_due || t->end_seen) && !w->gone)
			next = add_sat(now, AGAIN_NS);
		return next;
	case STEP_ATTACH:
	case STEP_FAILED:
	case STEP_OVER:
	case STEP_CLOSE:
	case STEP_FORGET:
		break;
	}
	return add_sat(now, AGAIN_NS);
}

int64_t watched_tick(struct watched *w, int64_t now)
{
	int64_t next = INT64_MAX;

	if (w->orphans && w->cfg.m->open && !w->cfg.m->ahead)
		w->orphans = !end_orphans(w);
	for (int again = 0; again < 4; again++) { /* a tree goes a few steps at once; a step that waits for the disk says so */
		w->more = false;
		for (size_t i = 0; i < w->n;)
			i += !step(w, w->tree[i], now);
		if (!w->more)
			break;
	}
	for (size_t i = 0; i < w->n; i++) {
		int64_t at = next_of(w, w->tree[i], now);

		next = at < next ? at : next;
	}
	return w->orphans && add_sat(now, AGAIN_NS) < next ? add_sat(now, AGAIN_NS) : next;
}
