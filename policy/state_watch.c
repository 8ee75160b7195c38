/* policy/state_watch.c - what a session remembers of its watched processes: entries of the watch, checked and applied. Processes are the
 * kernel's and the watcher's; this is what the log says of them. */
#include "policy/state_int.h"

static enum tree_mode tree_mode(const struct state *st, const struct session_row *s)
{
	return s->tree ? tree_at(st, s->tree)->pub.mode : TREE_NONE;
}

struct tree_state state_tree_of(const struct state *st, const struct session_row *s)
{
	return s->tree ? tree_at(st, s->tree)->pub : (struct tree_state){ .mode = TREE_NONE };
}

struct tree_state state_tree(const struct state *st, uint64_t session)
{
	uint32_t h = find_session(st, session);

	return h ? state_tree_of(st, session_at(st, h)) : (struct tree_state){ .mode = TREE_NONE };
}

bool state_watched(const struct state *st, const struct session_state *who)
{
	uint32_t h = find_session(st, who->id);

	while (h && tree_mode(st, session_at(st, h)) != TREE_LIVE)
		h = session_at(st, h)->parent_row;
	return h != 0;
}

static bool held_are_sane(const struct entry_watch *w)
{
	if (w->n_held > WATCHED_HOLD_COUNT)
		return false;
	for (size_t i = 0; i < w->n_held; i++)
		if ((unsigned)w->held[i] >= WATCHED_HOLD_COUNT || (i && w->held[i] <= w->held[i - 1]))
			return false;
	return true;
}

/* No row without a start, and all of them together no more than there were. */
static bool counts_are_sane(const struct entry_watch *w)
{
	int64_t sum = w->unlisted;

	if (w->n_programs > PAWL_MAX_PROGRAMS || w->unlisted < 0)
		return false;
	for (size_t i = 0; i < w->n_programs; i++)
		if (w->programs[i].count <= 0 || w->programs[i].pid < 0 || add_over(sum, w->programs[i].count, &sum))
			return false;
	return sum == w->total && sum > 0;
}

static bool breach_is_sane(const struct entry_watch *w)
{
	return w->why != WHY_NONE && w->measured >= 0 && w->limit >= 0 && w->pid >= 0;
}

static bool end_is_sane(const struct entry_watch *w)
{
	const int64_t all[] = { w->peak, w->forks, w->execs, w->cpu_ns, w->memory_peak, w->wall_ns, w->lost, w->killed, w->measured, w->limit };

	for (size_t i = 0; i < PAWL_LEN(all); i++)
		if (all[i] < 0)
			return false;
	if (w->n_dead > PAWL_MAX_ENDED || (int64_t)w->n_dead > w->killed)
		return false;
	for (size_t i = 0; i < w->n_dead; i++)
		if (w->dead[i].pid < 0)
			return false;
	return true;
}

static bool body_is_sane(const struct entry_watch *w)
{
	switch (w->action) {
	case WATCHED_ATTACH:
		return held_are_sane(w) && w->pid > 0 && w->uid >= 0 && w->start_ns >= 0;
	case WATCHED_EXECS:
		return counts_are_sane(w);
	case WATCHED_KILL:
		return counts_are_sane(w) && w->why != WHY_NONE;
	case WATCHED_BREACH:
		return breach_is_sane(w);
	case WATCHED_LOST:
		return w->events > 0;
	case WATCHED_LEFT:
		return w->pid > 0 && w->total > 0;
	case WATCHED_END:
		return end_is_sane(w);
	case WATCHED_ACTION_COUNT:
		break;
	}
	return false;
}

int room_watch(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_watch *w = &e->watch;
	uint32_t h = find_session(st, w->session);
	const struct session_row *s = h ? session_at(st, h) : NULL;
	bool first = w->action == WATCHED_ATTACH, counts = w->action == WATCHED_KILL || w->action == WATCHED_BREACH || w->action == WATCHED_LOST;

	if (!s || tree_mode(st, s) != (first ? TREE_NONE : TREE_LIVE) || (first && s->pub.end != SESSION_LIVE))
		return contradiction(e, err, first ? "it watches a session that is not live, or is watched" : "the watch tells of a session that is not watched");
	if ((unsigned)w->why >= WHY_COUNT || !body_is_sane(w))
		return contradiction(e, err, "a tree of processes that no kernel could have");
	if (!counts && w->n_breakers)
		return contradiction(e, err, "a breaker that counts what is no breach");
	return !first || pool_reserve(&st->trees, 1) ? 0 : no_memory(err);
}

void watch_apply(struct state *st, const struct entry *e)
{
	const struct entry_watch *w = &e->watch;
	struct session_row *s = session_at(st, find_session(st, w->session));
	struct tree_state *t;

	if (!s->tree)
		s->tree = pool_take(&st->trees);
	t = &tree_at(st, s->tree)->pub;
	switch (w->action) {
	case WATCHED_ATTACH:
		*t = (struct tree_state){ .mode = TREE_LIVE, .run = w->run };
		for (size_t i = 0; i < w->n_held; i++)
			t->held |= UINT32_C(1) << w->held[i];
		return;
	case WATCHED_EXECS:
		t->execs = add_sat(t->execs, w->total);
		return;
	case WATCHED_KILL:
		t->kills = add_sat(t->kills, w->total);
		return;
	case WATCHED_LOST:
		t->lost = add_sat(t->lost, w->events);
		return;
	case WATCHED_BREACH:
		t->why = w->why;
		t->measured = w->measured;
		t->limit = w->limit;
		return;
	case WATCHED_END:
		t->mode = TREE_ENDED;
		if (t->why != WHY_NONE)
			return;
		t->why = w->why;
		t->measured = w->has_measured ? w->measured : 0;
		t->limit = w->has_measured ? w->limit : 0;
		return;
	case WATCHED_LEFT:
	case WATCHED_ACTION_COUNT:
		return;
	}
}
