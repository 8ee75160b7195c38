/* daemon/store/projection_entry.c - one entry's rows. The entry is durable and was checked by the state; what it refers to may still be
 * missing here, when somebody edited the tables: then fewer rows change, and nothing worse. */
#include "daemon/store/projection_int.h"

#include "daemon/log/entry.h"

/* ---- runs and policies ---- */

static void put_changes(struct put *u, const struct entry_budgets *b)
{
	struct buf *text = &u->p->text;

	buf_reset(text);
	buf_putc(text, '[');
	for (size_t i = 0; i < b->n_changes; i++) {
		if (i)
			buf_putc(text, ',');
		buf_text(text, b->changes[i]);
	}
	buf_putc(text, ']');
	put_json(u, text);
}

static int put_budgets(struct projection *p, const struct entry_budgets *b, struct pawl_error *err)
{
	struct put u;
	int r;

	p->marks->all = true; /* ledgers are renamed, begun anew, dropped */
	if (!b->n && !b->none)
		return 0;
	u = put_begin(p, SQL_BUDGETS_CLEAR);
	r = put_end(&u, err);
	for (size_t i = 0; r == 0 && i < b->n; i++) {
		const struct budget_row *row = &b->rows[i];

		u = put_begin(p, SQL_BUDGET);
		put_text(&u, row->id);
		put_word(&u, projection_units[row->unit]);
		put_word(&u, scope_name(row->scope));
		put_int(&u, row->per_tool);
		put_int(&u, row->windowed);
		put_int(&u, row->limit);
		r = put_end(&u, err);
	}
	return r;
}

/* What shadow mode remembered is over. */
static int end_shadow(struct projection *p, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_END_WOULD_DENIALS);
	int r = put_end(&u, err);

	if (r < 0)
		return r;
	u = put_begin(p, SQL_END_WOULD_BREAKERS);
	return put_end(&u, err);
}

struct policy_told {
	const char *how;
	struct str name, hash, message, mode, operator, reason;
	const struct entry_budgets *budgets; /* NULL: the old ones stay */
};

static int put_policy(struct projection *p, const struct entry *e, const struct policy_told *t, struct pawl_error *err)
{
	static const struct entry_budgets none;
	struct put u = put_begin(p, SQL_POLICY);
	int r;

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_word(&u, t->how);
	put_str(&u, t->name);
	put_str(&u, t->hash);
	put_str(&u, t->message);
	put_changes(&u, t->budgets ? t->budgets : &none);
	put_str(&u, t->mode);
	put_str(&u, t->operator);
	put_str(&u, t->reason);
	r = put_end(&u, err);
	if (r == 0 && str_eq(t->mode, policy_mode_word(MODE_ENFORCE)))
		r = end_shadow(p, err);
	return r == 0 && t->budgets ? put_budgets(p, t->budgets, err) : r;
}

static int take_start(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_start *s = &e->start;
	const struct policy_told told = { .how = "start", .name = s->policy_name, .hash = s->policy_hash, .mode = s->mode,
					  .budgets = &s->budgets };
	struct put u = put_begin(p, SQL_RUN);
	int r;

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_int(&u, e->wall);
	put_text(&u, s->version);
	put_int(&u, s->judge);
	put_text(&u, s->mode);
	put_text(&u, s->probes_text);
	r = put_end(&u, err);
	return r < 0 ? r : put_policy(p, e, &told, err);
}

static int take_stop(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_RUN_STOP);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_text(&u, e->stop.why);
	return put_end(&u, err);
}

/* ---- what people did ---- */

struct act {
	const char *action;
	struct str operator, key, reason, breaker;
	uint64_t review, session;
};

static int put_act(struct projection *p, const struct entry *e, const struct act *a, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_ANSWER);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_word(&u, a->action);
	put_text(&u, a->operator);
	put_text(&u, a->key);
	put_text(&u, a->reason);
	put_id(&u, a->review);
	put_id(&u, a->session);
	put_str(&u, a->breaker);
	return put_end(&u, err);
}

static int take_policy(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_policy *l = &e->policy;
	const struct policy_told told = { .how = l->loaded ? "loaded" : "refused", .name = l->name, .hash = l->hash, .message = l->message,
					  .mode = l->mode, .operator = l->operator, .reason = l->reason, .budgets = l->loaded ? &l->budgets : NULL };
	int r = put_policy(p, e, &told, err);

	if (r < 0 || !l->ordered)
		return r;
	return put_act(p, e, &(struct act){ .action = "reload", .operator = l->operator, .key = l->key, .reason = l->reason }, err);
}

static int put_grant(struct projection *p, const struct entry *e, size_t at, struct pawl_error *err)
{
	const struct grant *g = &e->resolve.grants[at];
	struct put u = put_begin(p, SQL_GRANT);

	put_u64(&u, e->seq);
	put_u64(&u, at);
	put_u64(&u, e->resolve.card);
	put_text(&u, g->key.budget);
	put_word(&u, projection_units[g->key.unit]);
	put_word(&u, scope_name(g->key.scope));
	put_id(&u, g->key.session);
	put_str(&u, g->key.owner);
	put_str(&u, g->key.tool);
	put_int(&u, g->amount);
	mark_ledger(p, &g->key);
	return put_end(&u, err);
}

/* ---- sessions ---- */

static int open_session(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_session *s = &e->session;
	struct put u = put_begin(p, SQL_SESSION);

	put_u64(&u, s->session);
	put_id(&u, s->parent);
	put_u64(&u, s->root);
	put_text(&u, s->agent);
	put_str(&u, s->root_dir);
	put_text(&u, s->labels_text);
	put_int(&u, s->lease_ns);
	for (int unit = 0; unit < UNIT_COUNT; unit++)
		put_opt(&u, s->has_limit[unit], s->limit[unit]);
	put_int(&u, e->now);
	return put_end(&u, err);
}

static struct put end_begin(struct projection *p, enum projection_sql what, uint64_t session)
{
	struct put u = put_begin(p, what);

	put_u64(&u, session);
	return u;
}

/* With all that it opened: calls nobody reported are charged what they hold, cards that wait are closed, the breakers go. The sessions'
 * own rows come last: the others find the tree by them. */
static int end_session(struct projection *p, const struct entry *e, uint64_t session, const char *how, struct pawl_error *err)
{
	static const enum projection_sql drops[] = { SQL_END_BREAKERS, SQL_END_LEDGERS };
	struct put u = end_begin(p, SQL_END_CALLS, session);
	int r;

	put_int(&u, e->now);
	put_u64(&u, e->seq);
	r = put_each(&u, mark_expired, err);
	if (r < 0)
		return r;
	u = end_begin(p, SQL_END_REVIEWS, session);
	put_int(&u, e->now);
	put_u64(&u, e->seq);
	r = put_end(&u, err);
	for (size_t i = 0; r == 0 && i < PAWL_LEN(drops); i++) {
		u = end_begin(p, drops[i], session);
		r = put_end(&u, err);
	}
	if (r < 0)
		return r;
	u = end_begin(p, SQL_END_SESSIONS, session);
	put_int(&u, e->now);
	put_u64(&u, e->seq);
	put_word(&u, how);
	return put_end(&u, err);
}

static int take_session(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	static const char *const how[SESSION_ACTION_COUNT] = { [SESSION_CLOSE] = "close", [SESSION_STALE] = "stale", [SESSION_ABORT] = "abort" };
	const struct entry_session *s = &e->session;
	struct act act = { .action = "abort_session", .operator = s->operator, .key = s->key, .reason = s->reason, .session = s->session };
	int r = 0;

	if (s->action == SESSION_OPEN)
		return open_session(p, e, err);
	if (s->action == SESSION_ABORT)
		r = put_act(p, e, &act, err);
	return r < 0 ? r : end_session(p, e, s->session, how[s->action], err);
}

/* ---- answers ---- */

static int take_resolve(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	static const char *const states[RESOLVE_ACTION_COUNT] = { [RESOLVE_RESUME] = "resumed", [RESOLVE_SKIP] = "skipped",
								  [RESOLVE_ABORT] = "aborted", [RESOLVE_CLOSE] = "closed" };
	const struct entry_resolve *a = &e->resolve;
	const struct act act = { .action = resolve_action_name(a->action), .operator = a->operator, .key = a->key, .reason = a->reason,
				 .review = a->card, .session = a->session };
	struct put u = put_begin(p, SQL_REVIEW_ANSWER);
	int r;

	put_u64(&u, a->card);
	put_word(&u, states[a->action]);
	put_int(&u, e->now);
	put_u64(&u, e->seq);
	put_str(&u, a->operator);
	put_str(&u, a->reason);
	r = put_end(&u, err);
	if (r == 0 && a->action != RESOLVE_CLOSE) /* a reload's own doing is nobody's answer */
		r = put_act(p, e, &act, err);
	for (size_t i = 0; r == 0 && i < a->n_grants; i++)
		r = put_grant(p, e, i, err);
	return r == 0 && a->ends ? end_session(p, e, a->ends, "abort", err) : r;
}

/* ---- losses ---- */

static int put_loss(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	static const char *const whats[LOSS_WHAT_COUNT] = { "reservation_expired", "late_settle", "torn_tail" };
	bool torn = e->loss.what == LOSS_TORN_TAIL;
	struct put u = put_begin(p, SQL_LOSS);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_word(&u, whats[e->loss.what]);
	put_id(&u, torn ? 0 : e->loss.session);
	put_id(&u, torn ? 0 : e->loss.decision);
	put_opt(&u, torn, e->loss.bytes);
	return put_end(&u, err);
}

static int take_loss(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	int r = put_loss(p, e, err);
	struct put u;

	if (r < 0 || e->loss.what == LOSS_TORN_TAIL)
		return r;
	if (e->loss.what == LOSS_LATE_SETTLE)
		return rows_of_settle(p, e, &e->loss.late, true, err);
	mark_expired(p, e->loss.decision);
	u = put_begin(p, SQL_CALL_EXPIRE);
	put_u64(&u, e->loss.decision);
	put_int(&u, e->now);
	put_u64(&u, e->seq);
	return put_end(&u, err);
}

/* ---- breakers: an entry brings changed rows whole ---- */

static struct put breaker_begin(struct projection *p, enum projection_sql what, const struct breaker_row *b, bool would)
{
	struct put u = put_begin(p, what);

	put_text(&u, b->id);
	put_word(&u, b->scope == SCOPE_COUNT ? "all" : scope_name(b->scope));
	put_u64(&u, b->session);
	put_text(&u, b->owner);
	put_text(&u, b->tool);
	put_int(&u, would);
	return u;
}

static int drop_breaker(struct projection *p, const struct breaker_row *b, bool would, struct pawl_error *err)
{
	struct put u = breaker_begin(p, SQL_BREAKER_DROP, b, would);

	return put_end(&u, err);
}

static int write_breaker(struct projection *p, const struct entry *e, const struct breaker_row *b, bool empty, struct pawl_error *err)
{
	struct put u = breaker_begin(p, SQL_BREAKER, b, b->would);

	put_word(&u, breaker_mode_name(b->mode));
	put_int(&u, b->sticky);
	put_int(&u, b->generation);
	put_opt(&u, b->until != 0, b->until);
	put_id(&u, b->probe == UINT64_MAX ? e->seq : b->probe);
	put_int(&u, b->n_fails);
	put_int(&u, b->n_denies);
	put_int(&u, b->n_breaches);
	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_int(&u, empty);
	return put_end(&u, err);
}

/* As the state keeps and drops them: one that binds voids what shadow mode had made of it, and is its beginning. */
static int put_breaker(struct projection *p, const struct entry *e, const struct breaker_row *b, struct pawl_error *err)
{
	bool empty = b->mode == BREAKER_CLOSED && !b->generation && !b->until && !b->n_fails && !b->n_denies && !b->n_breaches;
	int r = b->would ? 0 : drop_breaker(p, b, true, err);

	if (r == 0 && empty)
		r = drop_breaker(p, b, b->would, err);
	return r < 0 || (empty && !b->would) ? r : write_breaker(p, e, b, empty, err);
}

static int take_breaker(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_breaker *b = &e->breaker;

	return put_act(p, e, &(struct act){ .action = "reset", .operator = b->operator, .key = b->key, .reason = b->reason, .breaker = b->row.id },
		       err);
}

static int take_key(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	return put_act(p, e, &(struct act){ .action = e->key.enrolled ? "enroll" : "revoke", .operator = e->key.operator, .key = e->key.key }, err);
}

static int take_throttle(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_THROTTLE);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_text(&u, e->throttle.agent);
	put_id(&u, e->throttle.session);
	put_int(&u, e->throttle.count);
	return put_end(&u, err);
}

/* ---- the watch ---- */

/* What was started, or whom it ended: names and how often, or numbers. */
static void put_programs(struct put *u, const struct entry_watch *w)
{
	struct buf *text = &u->p->text;

	buf_reset(text);
	buf_putc(text, '[');
	for (size_t i = 0; i < w->n_programs; i++) {
		buf_puts(text, i ? ",{\"path\":" : "{\"path\":");
		buf_text(text, w->programs[i].path);
		buf_puts(text, ",\"count\":");
		buf_i64(text, w->programs[i].count);
		buf_putc(text, '}');
	}
	for (size_t i = 0; i < w->n_dead; i++) {
		buf_puts(text, i ? ",{\"comm\":" : "{\"comm\":");
		buf_text(text, w->dead[i].comm);
		buf_puts(text, ",\"pid\":");
		buf_i64(text, w->dead[i].pid);
		buf_putc(text, '}');
	}
	buf_putc(text, ']');
	put_json(u, text);
}

static int take_watch(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	const struct entry_watch *w = &e->watch;
	bool end = w->action == WATCHED_END, counts = w->action == WATCHED_EXECS || w->action == WATCHED_KILL || w->action == WATCHED_LEFT;
	bool measured = w->action == WATCHED_BREACH || (end && w->has_measured);
	bool one = w->action == WATCHED_ATTACH || w->action == WATCHED_BREACH || w->action == WATCHED_LEFT;
	struct put u = put_begin(p, SQL_WATCH);

	put_u64(&u, e->seq);
	put_int(&u, e->now);
	put_u64(&u, w->session);
	put_word(&u, watched_action_name(w->action));
	put_word(&u, w->action == WATCHED_KILL || w->action == WATCHED_BREACH || end ? watch_why_name(w->why) : NULL);
	put_int(&u, w->log_only);
	put_opt(&u, one && w->pid, w->pid);
	put_programs(&u, w);
	put_opt(&u, counts || end || w->action == WATCHED_LOST, counts ? w->total : end ? w->killed : w->events);
	put_opt(&u, measured, w->measured);
	put_opt(&u, measured, w->limit);
	put_opt(&u, end, w->peak);
	put_opt(&u, end, w->cpu_ns);
	put_opt(&u, end, w->memory_peak);
	return put_end(&u, err);
}

/* The bytes of an old one are gone. */
static int take_snapshot(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	int r = projection_snapshot_logged(p, (uint64_t)e->snapshot.at, e->seq, err);

	return r == PAWL_E_LIMIT ? 0 : r;
}

static int take(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	switch (e->kind) {
	case ENTRY_START:
		return take_start(p, e, err);
	case ENTRY_STOP:
		return take_stop(p, e, err);
	case ENTRY_POLICY:
		return take_policy(p, e, err);
	case ENTRY_SESSION:
		return take_session(p, e, err);
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		return rows_of_decision(p, e, err);
	case ENTRY_SETTLE:
		return rows_of_settle(p, e, &e->settle, false, err);
	case ENTRY_RESOLVE:
		return take_resolve(p, e, err);
	case ENTRY_BREAKER:
		return take_breaker(p, e, err);
	case ENTRY_KEY:
		return take_key(p, e, err);
	case ENTRY_TIMEOUT:
		return rows_of_timeout(p, e, err);
	case ENTRY_THROTTLE:
		return take_throttle(p, e, err);
	case ENTRY_LOSS:
		return take_loss(p, e, err);
	case ENTRY_SNAPSHOT:
		return take_snapshot(p, e, err);
	case ENTRY_WATCH:
		return take_watch(p, e, err);
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	return pawl_fail(err, PAWL_E_MALFORMED, "%s: entry %llu is of no kind", p->file, (unsigned long long)e->seq);
}

int projection_entry(struct projection *p, const struct entry *e, struct pawl_error *err)
{
	size_t n;
	const struct breaker_row *rows = entry_breakers(e, &n);
	int r = projection_begun(p, err);

	if (r < 0)
		return r;
	if (e->seq != p->next)
		return pawl_fail(err, PAWL_E_CONFLICT, "%s: entry %llu, where %llu is the next", p->file, (unsigned long long)e->seq,
				 (unsigned long long)p->next);
	for (size_t i = 0; r == 0 && i < n; i++) /* before the rest: those of a session that ends here are to die with it */
		r = put_breaker(p, e, &rows[i], err);
	if (r == 0)
		r = take(p, e, err);
	if (r == 0)
		p->next = e->seq + 1;
	return r;
}
