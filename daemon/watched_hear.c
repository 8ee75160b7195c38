/* daemon/watched_hear.c - what the watcher tells about trees, and what hall and door tell and ask about them: changes a row's step or flags, which
 * watched_tick() then goes by. What the watcher says is input here: it is ours, and yet. */
#include "daemon/watched_int.h"

#include "daemon/base/oplog.h"
#include "daemon/mediate_int.h"

#include <unistd.h>

#define ANSWER_NS (10 * NS_PER_SEC) /* the watcher's, to an attach */
#define ORPHAN_NS (5 * NS_PER_SEC)  /* a launcher's, to come back */

/* ---- from the watcher ---- */

static struct tree *nonsense(struct watched *w, const char *what)
{
	if (w->nonsense++ == 0)
		oplog(OPLOG_ERROR, "the watcher said what cannot be: %s", what);
	return NULL;
}

#define HOLD_ALL ((1u << WATCHED_HOLD_COUNT) - 1)

void watched_attached(struct watched *w, const struct watch_attached *a)
{
	struct tree *t = tree_find(w, a->session);

	if (a->held & ~HOLD_ALL || !memchr(a->message, '\0', sizeof(a->message)) || (a->result == 0 && a->pid == 0)) {
		(void)nonsense(w, "an attach");
		return;
	}
	if (!t || t->step != STEP_ASKED || a->request != t->request)
		return; /* too late: a kill is on its way */
	t->att = *a;
	if (a->result != 0) {
		tree_fail(t, REASON_WATCH_REQUIRED, a->message[0] ? a->message : "the process could not be watched");
		t->sent = false;
		return;
	}
	t->step = STEP_ATTACH;
	w->more = true;
}

static bool event_is_sane(const struct watch_event *ev)
{
	bool because = ev->kind == WATCH_KILL || ev->kind == WATCH_BREACH;

	return ev->kind > WATCH_NONE && ev->kind < WATCH_KIND_COUNT && ev->why < WHY_COUNT && (!because || ev->why != WHY_NONE) &&
	       ev->path_len <= WATCH_PATH && ev->argv_len <= WATCH_ARGV &&
	       (ev->kind == WATCH_EMPTY || ev->kind == WATCH_BREACH || ev->pid != 0); /* after a restart nobody may know a tree's first process */
}

void watched_events(struct watched *w, const struct watch_event *ev, size_t n)
{
	int64_t now = clock_now(w->cfg.m->clock);
	struct tree *t = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!event_is_sane(&ev[i])) {
			(void)nonsense(w, "an event");
			continue;
		}
		if (!t || t->session != ev[i].tree)
			t = tree_find(w, ev[i].tree);
		if (t && !t->end_seen)
			event_take(w, t, &ev[i], now);
	}
	w->more = true;
}

/* Ends a tree whose session is over, if it is to end with it. */
static void tree_check_session(const struct watched *w, struct tree *t)
{
	const struct session_state *who = state_session(w->cfg.m->state, t->session);
	bool run = t->flags & ATTACH_RUN;

	if (who && who->end == SESSION_LIVE)
		return;
	if (t->step == STEP_ASKED || t->step == STEP_ATTACH) { /* no entry will tell of it any more */
		t->kill_due = t->sent; /* should it attach after all */
		t->kill_why = who && who->end == SESSION_ENDED_ABORT ? WHY_ABORT : WHY_ENDED;
		tree_fail(t, who ? session_end_reason(who->end) : REASON_SESSION_CLOSED, "the session has ended");
		return;
	}
	if (who && who->end == SESSION_ENDED_ABORT)
		tree_end(t, WHY_ABORT);
	else if (run)
		tree_end(t, who && who->end == SESSION_ENDED_STALE ? WHY_STALE : WHY_ENDED);
}

/* A tree from before this process, or one whose attach nobody has waited for. */
static struct tree *adopt(struct watched *w, const struct watch_now *row)
{
	uint64_t session = row->session;
	int64_t now = clock_now(w->cfg.m->clock);
	struct tree *t = tree_add(w, session);

	if (!t) /* it is told again */
		return nonsense(w, "more trees than there may be, or memory ran out");
	t->flags = row->flags;
	t->att.pid = row->first;
	t->launcher = row->launcher;
	t->sent = true;
	t->step = STEP_RUNS;
	t->renew_due = true; /* the policy may be another than the one it was attached under */
	t->att.held = state_tree(w->cfg.m->state, session).held;
	t->lost_told = state_tree(w->cfg.m->state, session).lost; /* what was lost before this process and is not told yet, is told now */
	if (row->flags & ATTACH_RUN)
		t->orphan_at = add_sat(now, ORPHAN_NS);
	if (tree_in_log(w, t, TREE_LIVE))
		tree_check_session(w, t);
	else /* its launcher was never told: nobody waits for it, and nothing may run that the log does not know */
		tree_end(t, WHY_LAUNCHER);
	return t;
}

void watched_now(struct watched *w, const struct watch_now *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct tree *t = rows[i].killed < WHY_COUNT && rows[i].session ? tree_find(w, rows[i].session) : nonsense(w, "a tree");

		if (!t && rows[i].killed < WHY_COUNT && rows[i].session)
			t = adopt(w, &rows[i]);
		if (t && !t->end_seen)
			t->now = rows[i];
	}
	w->more = true;
}

void watched_ended(struct watched *w, const struct watch_ended *end)
{
	struct tree *t = NULL;

	if (end->n_dead > PAWL_MAX_ENDED || end->n_dead > end->n_killed || end->last.killed >= WHY_COUNT || end->last.session == 0) {
		(void)nonsense(w, "an end");
		return;
	}
	t = tree_find(w, end->last.session);
	if (!t)
		t = adopt(w, &end->last);
	if (!t || t->end_seen)
		return;
	t->end = *end;
	t->now = end->last;
	t->end_seen = true;
	t->kill_due = t->renew_due = false;
	if (t->step == STEP_ASKED)
		tree_fail(t, REASON_WATCH_REQUIRED, "the process ended before it was watched");
	w->more = true;
}

void watched_all(struct watched *w)
{
	w->named = w->orphans = w->more = true;
}

void watched_lost(struct watched *w)
{
	w->gone = true;
	watched_all(w);
}

/* ---- from the hall and the door ---- */

int watched_attach(struct watched *w, const struct watched_ask *ask_for, struct refusal *no)
{
	const char *why = w->gone ? "nothing watches here: there is no watcher" : ask_for->asker < 0 ? "pawld has no descriptor left" : NULL;
	struct tree *t = why || tree_find(w, ask_for->session) ? NULL : tree_add(w, ask_for->session);

	if (!t) {
		if (!why)
			why = "its processes are watched already, too many are, or memory ran out";
		(void)close(ask_for->pidfd);
		if (ask_for->asker >= 0)
			(void)close(ask_for->asker);
		w->refused++;
		return refuse(no, REASON_WATCH_REQUIRED, "%s", why);
	}
	t->owner = ask_for->owner;
	t->pidfd = ask_for->pidfd;
	t->asker = ask_for->asker;
	t->flags = ask_for->flags & ATTACH_RUN;
	t->need = ask_for->need;
	t->launcher = ask_for->launcher;
	t->request = ++w->requests;
	t->deadline = add_sat(clock_now(w->cfg.m->clock), ANSWER_NS);
	w->more = true;
	return 0;
}

void watched_over(void *arg, uint64_t session)
{
	struct watched *w = arg;

	for (size_t i = 0; i < w->n; i++) {
		const struct session_state *who = state_session(w->cfg.m->state, w->tree[i]->session);

		if (!tree_lives(w->tree[i]) && w->tree[i]->step != STEP_ASKED)
			continue;
		while (who && who->id != session)
			who = who->parent ? state_session(w->cfg.m->state, who->parent) : NULL;
		if (who)
			tree_check_session(w, w->tree[i]);
	}
}

void watched_renew(struct watched *w)
{
	for (size_t i = 0; i < w->n; i++)
		w->tree[i]->renew_due |= tree_lives(w->tree[i]) && !w->tree[i]->end_seen;
	w->more = true;
}

bool watched_exited(struct watched *w, uint64_t session)
{
	struct tree *t = tree_find(w, session);

	if (t)
		tree_end(t, WHY_ENDED);
	return t != NULL;
}

void watched_owner_gone(struct watched *w, uint64_t owner)
{
	int64_t now = clock_now(w->cfg.m->clock);

	for (size_t i = 0; owner && i < w->n; i++) {
		struct tree *t = w->tree[i];

		if (t->owner != owner)
			continue;
		t->owner = 0;
		if (t->flags & ATTACH_RUN)
			t->orphan_at = add_sat(now, ORPHAN_NS);
		w->more = true;
	}
}

enum reason_code watched_rejoin(struct watched *w, uint64_t session, uint64_t owner, uint32_t launcher)
{
	struct tree *t = tree_find(w, session);

	if (!t && !w->named)
		return REASON_UNAVAILABLE;
	if (!t || t->step == STEP_FAILED || t->step == STEP_FAILED_TOLD)
		return REASON_SESSION_CLOSED;
	if (t->step == STEP_ASKED || t->step == STEP_ATTACH || t->step == STEP_ATTACH_TOLD)
		return REASON_UNAVAILABLE; /* another connection waits for the answer */
	t->owner = owner;
	t->launcher = launcher;
	t->orphan_at = 0;
	return REASON_OK;
}

bool watched_owned(const struct watched *w, uint64_t owner)
{
	for (size_t i = 0; w && i < w->n; i++)
		if (w->tree[i]->owner == owner)
			return true;
	return false;
}

bool watched_next(const struct watched *w, size_t *at, struct watched_view *ret)
{
	if (!w || *at >= w->n)
		return false;
	tree_view(w->tree[(*at)++], ret);
	return true;
}

bool watched_look(const struct watched *w, uint64_t session, struct watched_view *ret)
{
	const struct tree *t = w ? tree_find(w, session) : NULL;

	if (t)
		tree_view(t, ret);
	return t != NULL;
}

void watched_count(const struct watched *w, struct watched_totals *ret)
{
	*ret = (struct watched_totals){ .refused = w->refused, .nonsense = w->nonsense, .unnamed = !w->named };
	for (size_t i = 0; i < w->n; i++) {
		const struct tree *t = w->tree[i];

		ret->live += tree_lives(t) && !t->end_seen;
		ret->asked += t->step == STEP_ASKED;
		ret->over += t->step != STEP_ASKED && (!tree_lives(t) || t->end_seen);
		ret->lost += t->now.lost;
	}
}
