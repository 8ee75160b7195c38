/* daemon/mediate_watch.c - what the watch tells, as entries: from the hall's numbers and a program's own bytes to a body that anybody may read.
 * The order of steps is mediate.c's; who is watched, and who is told, is watched.c's. Must not touch sockets, files or SQL. */
#include "daemon/mediate_int.h"

#include "policy/laws.h"
#include "policy/redact.h"

#define MAX_PATH_TEXT WATCH_PATH
#define MAX_COMM_TEXT 16

/* Texts of one entry, cleaned. */
struct texts {
	char bytes[PAWL_MAX_PROGRAMS * (MAX_PATH_TEXT + MAX_COMM_TEXT) + (PAWL_MAX_ENDED + 1) * MAX_COMM_TEXT];
	size_t n;
};

/* Whoever reads the entry from the log, or from SQLite before it was rendered, must see the same: what is not UTF-8 becomes '?' here. */
static struct str clean(struct texts *t, struct str s, size_t max)
{
	struct str out = { t->bytes + t->n, s.n < max ? s.n : max };

	if (!s.p)
		return STR_NONE;
	memcpy(t->bytes + t->n, s.p, out.n);
	t->n += out.n;
	if (utf8_valid(out) && !memchr(out.p, '\0', out.n))
		return out;
	for (size_t i = 0; i < out.n; i++)
		if (out.p[i] == '\0' || (unsigned char)out.p[i] >= 0x80)
			t->bytes[(size_t)(out.p - t->bytes) + i] = '?';
	return out;
}

static void take_programs(const struct watch_args *a, const struct live *lv, uint64_t seq, struct texts *t, struct watched_program *rows)
{
	for (size_t i = 0; i < a->n_started; i++) {
		const struct watch_started *s = &a->started[i];

		rows[i] = (struct watched_program){ .path = clean(t, s->path.p ? s->path : STR(""), MAX_PATH_TEXT), .comm = clean(t, s->comm, MAX_COMM_TEXT),
						    .path_cut = s->path_cut, .dev = s->dev, .ino = s->ino, .pid = s->pid, .count = s->count };
		if (!s->argv.p || !lv) /* without the secret nothing private can be said */
			continue;
		rows[i].has_argv = true;
		mediate_private_mac(lv->secret, seq, "argv", s->argv, rows[i].argv_mac);
	}
}

/* What the policy keeps of the programs' arguments (`log: record_args`): for the private store, never in an entry. */
static int keep_argv(struct mediator *m, const struct watch_args *a, struct str *ret)
{
	struct str argv[PAWL_MAX_PROGRAMS];
	bool known = false;

	for (size_t i = 0; i < a->n_started; i++) {
		argv[i] = a->started[i].argv;
		known = known || argv[i].p;
	}
	return known ? record_argv(&m->policy->log, argv, a->n_started, &m->record, ret) : 0;
}

static void take_dead(const struct entry_watch *told, struct texts *t, struct watched_dead *rows)
{
	for (size_t i = 0; i < told->n_dead; i++) {
		rows[i] = told->dead[i];
		rows[i].comm = clean(t, rows[i].comm.p ? rows[i].comm : STR(""), MAX_COMM_TEXT);
	}
}

int mediate_watch(struct mediator *m, const struct watch_args *a, void *cookie, struct refusal *no)
{
	struct watched_program programs[PAWL_MAX_PROGRAMS];
	struct watched_dead dead[PAWL_MAX_ENDED];
	struct breaker_row rows[PAWL_MAX_BREAKERS];
	int64_t now = clock_now(m->clock);
	const struct session_state *who;
	struct texts texts = { .n = 0 };
	struct submission s = { .cookie = cookie };
	struct entry_watch *w;
	const struct live *lv;
	struct entry e;
	int r = mediate_ready(m, now, no);

	if (r < 0)
		return r;
	who = state_session(m->state, a->told.session);
	if (!who || a->n_started > PAWL_MAX_PROGRAMS || a->told.n_dead > PAWL_MAX_ENDED)
		return refuse(no, REASON_SESSION_CLOSED, "there is no session s_%llu any more", (unsigned long long)a->told.session);
	e = mediate_entry(m, ENTRY_WATCH, now);
	w = &e.watch;
	*w = a->told;
	w->comm = clean(&texts, w->comm, MAX_COMM_TEXT);
	lv = sessions_get(m->sessions, who->id);
	take_programs(a, lv, e.seq, &texts, programs);
	if (lv && keep_argv(m, a, &s.record) < 0)
		return refuse(no, REASON_UNAVAILABLE, "the arguments cannot be recorded: out of memory");
	w->programs = programs;
	w->n_programs = a->n_started;
	take_dead(&a->told, &texts, dead);
	w->dead = dead;
	w->breakers = rows;
	if (w->action == WATCHED_KILL || w->action == WATCHED_BREACH || w->action == WATCHED_LOST)
		w->n_breakers = breaker_breach(m->policy, m->state, who, e.now, rows);
	s.e = &e;
	s.tree = who->root;
	return mediate_submit(m, &s, no);
}

int mediate_watch_over(struct mediator *m, uint64_t session, bool *ret_over, void *cookie, struct refusal *no)
{
	int64_t now = clock_now(m->clock);
	const struct session_state *who;
	struct entry e;
	int r = mediate_ready(m, now, no);

	if (r < 0)
		return r;
	who = state_session(m->state, session);
	*ret_over = !who || who->end != SESSION_LIVE;
	if (*ret_over)
		return 0;
	e = mediate_entry(m, ENTRY_SESSION, now);
	e.session = (struct entry_session){ .action = SESSION_CLOSE, .session = session };
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
}

void mediate_watch_renew(struct mediator *m, uint64_t session)
{
	const struct session_state *who = state_session(m->state, session);
	struct live *lv = who && who->end == SESSION_LIVE ? sessions_get(m->sessions, session) : NULL;

	if (lv)
		sessions_renew(lv, who->lease_ns, clock_now(m->clock));
}
