/* daemon/watched_event.c - from single events to entries: at most one of program starts a second and tree, a few single kills and one sum.
 * What an attacker does a thousand times a second must not become a thousand signed entries. Borrows its tree. */
#include "daemon/watched_int.h"

#include <stdlib.h>

#define WINDOW_NS NS_PER_SEC

static struct str bytes_of(const char *p, size_t n)
{
	return (struct str){ p, n };
}

static bool same_start(const struct start_row *row, const struct watch_event *ev)
{
	const struct watch_started *s = &row->told;

	return s->dev == ev->dev && s->ino == ev->ino && str_eq(s->path, bytes_of(ev->path, ev->path_len)) && str_eq(s->argv, bytes_of(ev->argv, ev->argv_len));
}

static void row_fill(struct start_row *row, const struct watch_event *ev, bool comm)
{
	memcpy(row->path, ev->path, ev->path_len);
	memcpy(row->argv, ev->argv, ev->argv_len);
	memcpy(row->comm, ev->comm, sizeof(row->comm));
	row->told = (struct watch_started){ .path = bytes_of(row->path, ev->path_len), .argv = bytes_of(row->argv, ev->argv_len),
					    .comm = comm ? bytes_of(row->comm, strnlen(row->comm, sizeof(row->comm))) : STR_NONE,
					    .path_cut = ev->flags & WATCH_F_PATH_CUT, .dev = ev->dev, .ino = ev->ino, .pid = ev->pid, .count = 1 };
}

/* Out of memory or out of rows it is counted all the same; the list itself is small enough to be asked for again at the next event. */
static bool list_add(struct start_list **list, const struct watch_event *ev, bool comm)
{
	struct start_list *l = *list;

	if (!l)
		l = *list = calloc(1, sizeof(*l));
	if (!l)
		return false;
	l->total = add_sat(l->total, 1);
	for (size_t i = 0; i < l->n; i++)
		if (same_start(&l->row[i], ev)) {
			l->row[i].told.count = add_sat(l->row[i].told.count, 1);
			return true;
		}
	if (l->n < PAWL_MAX_PROGRAMS)
		row_fill(&l->row[l->n++], ev, comm);
	else
		l->unlisted = add_sat(l->unlisted, 1);
	return true;
}

static void take_breach(struct tree *t, const struct watch_event *ev)
{
	struct told_breach *b = &t->breach[ev->why];

	if (b->due) /* the rest of its deaths are in the entry of its end */
		return;
	*b = (struct told_breach){ .due = true, .log_only = ev->flags & WATCH_F_LOG_ONLY, .measured = bounded(ev->measured), .limit = bounded(ev->limit),
				   .pid = ev->pid };
	memcpy(b->comm, ev->comm, sizeof(b->comm));
}

/* ---- entries ---- */

/* Not before its attach is in the log. true also where nobody can be told: the session is forgotten. */
static bool tell(struct watched *w, const struct tree *t, const struct watch_args *a)
{
	struct refusal no;

	if (t->step != STEP_RUNS)
		return false;
	if (w->cfg.m->open && state_tree(w->cfg.m->state, a->told.session).mode != TREE_LIVE)
		return true;
	return mediate_watch(w->cfg.m, a, NULL, &no) == 0;
}

static bool tell_list(struct watched *w, struct tree *t, struct start_list **list, enum watched_action action, enum watch_why why)
{
	struct watch_started rows[PAWL_MAX_PROGRAMS];
	struct start_list *l = *list;
	struct watch_args a = { .told = { .action = action, .session = t->session, .why = why } };

	if (!l)
		return true;
	for (size_t i = 0; i < l->n; i++) {
		rows[i] = l->row[i].told;
		if (action == WATCHED_KILL && rows[i].argv.n == 0)
			rows[i].argv = STR_NONE;
	}
	a.told.log_only = l->log_only;
	a.told.unlisted = l->unlisted;
	a.told.total = l->total;
	a.started = rows;
	a.n_started = l->n;
	if (!tell(w, t, &a))
		return false;
	free(l);
	*list = NULL;
	if (action == WATCHED_KILL)
		t->kills_in_window++;
	return true;
}

static void take_kill(struct watched *w, struct tree *t, const struct watch_event *ev)
{
	struct start_list **list = &t->kills[ev->why];
	bool first = !*list;

	if (!list_add(list, ev, true))
		return;
	if (first)
		(*list)->log_only = ev->flags & WATCH_F_LOG_ONLY;
	if (t->kills_in_window < KILLS_EACH)
		(void)tell_list(w, t, list, WATCHED_KILL, (enum watch_why)ev->why);
}

static bool tell_breach(struct watched *w, struct tree *t, enum watch_why why)
{
	struct told_breach *b = &t->breach[why];
	struct watch_args a = { .told = { .action = WATCHED_BREACH, .session = t->session, .why = why, .measured = b->measured, .limit = b->limit,
					  .pid = b->pid, .log_only = b->log_only, .comm = bytes_of(b->comm, strnlen(b->comm, sizeof(b->comm))) } };

	if (!b->due)
		return true;
	if (!tell(w, t, &a))
		return false;
	b->due = false;
	return true;
}

static bool tell_left(struct watched *w, struct tree *t)
{
	struct watch_args a = { .told = { .action = WATCHED_LEFT, .session = t->session, .pid = t->left_pid, .total = t->left,
					  .comm = bytes_of(t->left_comm, strnlen(t->left_comm, sizeof(t->left_comm))) } };

	if (t->left == 0)
		return true;
	if (!tell(w, t, &a))
		return false;
	t->left = 0;
	return true;
}

static bool tell_lost(struct watched *w, struct tree *t, int64_t now)
{
	int64_t lost = bounded(t->now.lost);
	struct watch_args a = { .told = { .action = WATCHED_LOST, .session = t->session, .events = lost - t->lost_told } };

	if (lost <= t->lost_told)
		return true;
	if (!tell(w, t, &a))
		return false;
	t->lost_told = lost;
	t->lost_at = add_sat(now, WINDOW_NS);
	return true;
}

bool events_tell(struct watched *w, struct tree *t, int64_t now, bool all)
{
	bool over = all || now >= t->window_end;

	for (unsigned why = 0; why < WHY_COUNT; why++)
		if (((over || t->kills_in_window < KILLS_EACH) && !tell_list(w, t, &t->kills[why], WATCHED_KILL, (enum watch_why)why)) ||
		    !tell_breach(w, t, (enum watch_why)why))
			return false;
	if (over && (!tell_list(w, t, &t->starts, WATCHED_EXECS, WHY_NONE) || !tell_left(w, t)))
		return false;
	return (!all && now < t->lost_at) || tell_lost(w, t, now);
}

void event_take(struct watched *w, struct tree *t, const struct watch_event *ev, int64_t now)
{
	if (now >= t->window_end) {
		(void)events_tell(w, t, now, false); /* what it could not tell goes into the next one */
		t->window_end = add_sat(now, WINDOW_NS);
		t->kills_in_window = 0;
	}
	switch (ev->kind) {
	case WATCH_EXEC:
		(void)list_add(&t->starts, ev, false);
		break;
	case WATCH_KILL:
		take_kill(w, t, ev);
		break;
	case WATCH_BREACH:
		take_breach(t, ev);
		break;
	case WATCH_LEFT:
		t->left = add_sat(t->left, 1);
		t->left_pid = ev->pid;
		memcpy(t->left_comm, ev->comm, sizeof(t->left_comm));
		break;
	default: /* WATCH_EMPTY: the watcher says it itself, when nobody is left */
		break;
	}
}

int64_t events_next(const struct tree *t)
{
	bool kills = false, breach = false;
	int64_t next = INT64_MAX;

	for (unsigned why = 0; why < WHY_COUNT; why++) {
		kills |= t->kills[why] != NULL;
		breach |= t->breach[why].due;
	}
	if (breach || (kills && t->kills_in_window < KILLS_EACH))
		return 0;
	if (t->starts || kills || t->left)
		next = t->window_end;
	if (bounded(t->now.lost) > t->lost_told && t->lost_at < next)
		next = t->lost_at;
	return next;
}

void events_free(struct tree *t)
{
	free(t->starts);
	t->starts = NULL;
	for (unsigned why = 0; why < WHY_COUNT; why++) {
		free(t->kills[why]);
		t->kills[why] = NULL;
	}
}
