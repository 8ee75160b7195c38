/* daemon/door/operator.c - the operator door's operations that change nothing, and what hello and status share. Owns nothing; see job.h. */
#include "daemon/door/job.h"

#include <sodium.h>
#include <unistd.h>

struct reply_fact job_watch(const struct daemon *d)
{
	static const struct str words[] = { [WATCH_OFF] = { "off", 3 }, [WATCH_PARTIAL] = { "partial", 7 }, [WATCH_ON] = { "on", 2 } };
	const struct watch_probes *p = d->watch_probes;
	bool kernel = p && p->row[WP_TRACING].state == WATCH_ON && p->row[WP_CGROUP].state == WATCH_ON;

	if (!p)
		return (struct reply_fact){ STR(""), words[WATCH_OFF], STR("there is no watcher (--no-watch)") };
	return (struct reply_fact){ { &p->tier, 1 }, words[kernel ? WATCH_ON : WATCH_PARTIAL], str_of(p->says) };
}

/* Enforcement outlives the daemon: what the kernel holds by itself, and only where its programs are pinned also without the watcher. What a policy
 * needs and this machine lacks is said before anything runs, so that P11 holds. */
static size_t watch_promises(const struct daemon *d, struct reply_fact *out, size_t n)
{
	const struct watch_probes *p = d->watch_probes;
	struct reply_fact watch = job_watch(d);

	if (!str_is(watch.state, "on"))
		out[n++] = (struct reply_fact){ STR("P10"), STR("off"), watch.why };
	else if (p->row[WP_PINS].state != WATCH_ON || p->row[WP_SAMPLER].state != WATCH_ON)
		out[n++] = (struct reply_fact){ STR("P10"), STR("partial"), str_of(p->row[WP_PINS].state != WATCH_ON ? p->row[WP_PINS].why : p->row[WP_SAMPLER].why) };
	return n;
}

size_t job_promises(const struct daemon *d, struct reply_fact out[static JOB_PROMISES])
{
	const struct str same = STR("agents and operator share one uid: code that attacks pawld's own files is not held");
	size_t n = 0;

	if (d->m.policy->mode == MODE_SHADOW) {
		out[n++] = (struct reply_fact){ STR("P2"), STR("off"), STR("shadow mode: what is spent is counted, and a limit that is reached stops nothing") };
		out[n++] = (struct reply_fact){ STR("P3"), STR("off"), STR("shadow mode: denials are told as `would` and bind nothing") };
	}
	if (d->same_uid) {
		out[n++] = (struct reply_fact){ STR("P4"), STR("partial"), same };
		out[n++] = (struct reply_fact){ STR("P6"), STR("partial"), same };
		out[n++] = (struct reply_fact){ STR("P7"), STR("partial"), same };
	}
	return watch_promises(d, out, n);
}

void job_tree(const struct daemon *d, const struct session_state *who, bool above, struct reply_watch *ret)
{
	struct watched_view v;

	*ret = (struct reply_watch){ .session = 0 };
	while (who && ret->tree.mode == TREE_NONE) {
		ret->session = who->id;
		ret->tree = state_tree(d->m.state, who->id);
		who = above && who->parent ? state_session(d->m.state, who->parent) : NULL;
	}
	ret->has_now = watched_look(d->watched, ret->session, &v) && v.now.session != 0;
	if (ret->has_now)
		ret->now = v.now;
}

void job_log(const struct daemon *d, struct reply_log *ret, struct buf *key)
{
	vkey_text(sign_key_vkey(d->key), key);
	*ret = (struct reply_log){ .origin = str_of(d->origin), .key = buf_str(key), .seq = d->m.durable, .unavailable = !d->m.open,
				   .why = str_of(d->m.closed_why) };
}

int handle_status(struct job *job, struct buf *out)
{
	const struct daemon *d = job->d;
	const struct mediator *m = &d->m;
	const struct session_state *who;
	struct reply_fact promises[JOB_PROMISES], probes[DAEMON_PROBES], watch = job_watch(d);
	struct watched_totals trees;
	struct buf key = BUF_MAX(512);
	struct projector_status store;
	char hex[65];
	struct reply_status s = { .watcher_pid = d->watcher, .rest_pid = getpid(), .started = d->started_ns, .now = clock_now(&d->clock),
				  .wall = clock_wall(&d->clock), .policy_loaded = d->policy_loaded_ns, .policy_name = m->policy->name,
				  .mode = policy_mode_word(m->policy->mode), .would_review = m->count.would[VERDICT_REVIEW],
				  .would_deny = m->count.would[VERDICT_DENY], .fallback = m->policy->fallback, .allow = m->count.answers[VERDICT_ALLOW],
				  .review = m->count.answers[VERDICT_REVIEW], .deny = m->count.answers[VERDICT_DENY], .settles = m->count.settles,
				  .malformed = m->count.malformed, .unauthenticated = m->count.unauthenticated, .throttled = m->count.throttled,
				  .oversized = m->count.oversized + ipc_oversized(d->agent_door) + ipc_oversized(d->operator_door), .probes = probes, .n_probes = d->n_probes, .promises = promises };

	(void)sodium_bin2hex(hex, sizeof(hex), m->policy->hash, 32);
	s.policy_hash = (struct str){ hex, 64 };
	for (size_t i = 0; i < d->n_probes; i++)
		probes[i] = (struct reply_fact){ str_of(d->probes[i].name), str_of(probe_state_name(d->probes[i].state)), str_of(d->probes[i].why) };
	s.n_promises = job_promises(d, promises);
	watched_count(d->watched, &trees);
	s.watch_state = watch.state;
	s.watch_why = watch.why;
	s.tier[0] = watch.name.n ? watch.name.p[0] : '\0';
	s.trees = trees.live;
	s.trees_asked = trees.asked;
	s.trees_over = trees.over;
	s.trees_refused = trees.refused;
	s.watch_lost = trees.lost;
	s.watch_nonsense = trees.nonsense;
	projector_status(d->projector, &store);
	s.rows = store.rows;
	s.snapshot = store.snapshot_at;
	s.unread = store.unread;
	s.rows_problem = store.problem[0] ? str_of(store.problem) : STR_NONE;
	job_log(d, &s.log, &key);
	for (uint64_t after = 0; (who = state_session_after(m->state, after)); after = who->id) {
		s.kept++;
		s.live += who->end == SESSION_LIVE;
	}
	reply_status(&s, out);
	buf_done(&key);
	return 0;
}

int handle_session_list(struct job *job, struct buf *out)
{
	enum { MAX_ROWS = 1000 };
	const struct daemon *d = job->d;
	const struct mediator *m = &d->m;
	struct reply_session rows[MAX_ROWS];
	const struct session_state *who;
	uint64_t after = job->rq.after;
	int64_t now = clock_now(m->clock);
	size_t n = 0;

	for (; (int64_t)n < job->rq.list_limit && n < MAX_ROWS && (who = state_session_after(m->state, after)); after = who->id) {
		const struct live *lv = sessions_get(m->sessions, who->id);

		rows[n] = (struct reply_session){ .session = who->id, .agent = who->agent, .opened = who->opened_ns, .decisions = who->decisions,
						  .executions = who->executions, .reservations = who->open_reservations, .reviews = who->pending_cards };
		rows[n].expires = who->end != SESSION_LIVE ? who->ended_ns : lv ? lv->lease_until : 0;
		rows[n].ended = who->end == SESSION_ENDED_CLOSE ? STR("closed") : who->end == SESSION_ENDED_STALE ? STR("stale") : who->end == SESSION_ENDED_ABORT ? STR("aborted") : STR_NONE;
		job_money(m, who, now, &rows[n].money);
		job_tree(d, who, false, &rows[n].watch);
		n++;
	}
	reply_session_list(rows, n, state_session_after(m->state, after) != NULL, m->policy->currency, out);
	return 0;
}

int handle_policy_show(struct job *job, struct buf *out)
{
	const struct daemon *d = job->d;
	char hex[65];
	struct reply_policy p = { d->m.policy->name, { hex, 64 }, str_of(d->opt->policy), { d->policy_text, d->policy_text_n } };

	(void)sodium_bin2hex(hex, sizeof(hex), d->m.policy->hash, 32);
	reply_policy_show(&p, out);
	return 0;
}
