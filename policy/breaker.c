/* policy/breaker.c - circuit breakers: open after failures, denials or breaches of the watch, one probe after the cool-down. Rows are
 * the state's; every change is a whole row in an entry, as it is afterwards. Pure.
 *
 * Between an opening and `until` nothing is allowed through, so a call that was decided before `until` belongs to an
 * older generation, and its report is ignored. A row that closes keeps its `until` for that reason. Every row of a
 * session is its tree's: a child is no way round. */
#include "policy/laws.h"

#include "policy/condition.h"

#include <stdio.h>

struct breaker_row breaker_key(const struct breaker *b, uint64_t root, struct str agent, struct str tool)
{
	struct breaker_row key;

	memset(&key, 0, sizeof(key));
	key.id = b->id;
	key.scope = b->has_scope ? b->scope : SCOPE_COUNT;
	key.tool = b->per_tool ? tool : STR_NONE;
	if (key.scope == SCOPE_SESSION)
		key.session = root;
	else if (key.scope == SCOPE_AGENT)
		key.owner = agent;
	else if (key.scope == SCOPE_TENANT)
		key.owner = STR("local");
	return key;
}

/* In shadow mode the row that binds is the beginning of one that does not, and is left as it is. */
static const struct breaker_row *row_of(const struct state *st, const struct breaker_row *key, enum policy_mode mode)
{
	const struct breaker_row *row = NULL;
	struct breaker_row would;

	if (mode == MODE_SHADOW) {
		would = *key;
		would.would = true;
		row = state_breaker(st, &would);
	}
	return row ? row : state_breaker(st, key);
}

/* With the key's text: that of the state's row may go when the entry is applied, before the entry is written. */
static bool row_now(const struct state *st, const struct breaker_row *key, enum policy_mode mode, struct breaker_row *ret)
{
	const struct breaker_row *row = row_of(st, key, mode);

	*ret = row ? *row : *key;
	ret->id = key->id;
	ret->owner = key->owner;
	ret->tool = key->tool;
	ret->would = mode == MODE_SHADOW;
	return row != NULL;
}

/* ---- counting ---- */

static void open_row(const struct breaker *b, struct breaker_row *row, int64_t from)
{
	row->mode = BREAKER_OPEN;
	row->sticky = b->sticky;
	row->generation++;
	row->until = add_sat(from, b->cool_down_ns);
	row->probe = 0;
	row->n_fails = row->n_denies = row->n_breaches = 0;
}

static void close_row(struct breaker_row *row)
{
	row->mode = BREAKER_CLOSED;
	row->sticky = false;
	row->probe = 0;
	row->n_fails = row->n_denies = row->n_breaches = 0;
}

/* One more in the row; true: that makes `limit` of them within the time. Only the newest `limit` are kept. */
static bool one_more(int64_t *times, uint32_t *n, int64_t limit, int64_t within, int64_t now)
{
	uint32_t keep = limit < PAWL_MAX_STREAK ? (uint32_t)limit : PAWL_MAX_STREAK, drop = 0;

	while (drop < *n && (*n - drop >= keep || times[drop] < now - within))
		drop++;
	memmove(times, times + drop, (*n - drop) * sizeof(*times));
	*n -= drop;
	times[(*n)++] = now;
	return *n >= keep;
}

/* ---- the law ---- */

/* When the next probe may go; INT64_MIN: at once. A probe whose session ended before it reported is waited for all the
 * same: closing sessions is no way to get more of them. */
static int64_t probe_ends(const struct question *q, const struct breaker *b, const struct breaker_row *row)
{
	const struct call_state *probe = state_decision(q->st, row->probe);

	if (!probe)
		return INT64_MIN;
	return probe->settled ? add_sat(probe->lease_until, b->cool_down_ns) : probe->lease_until;
}

/* May this call go through, as the probe or otherwise? *ret_from: when to ask again, 0 = nobody knows. */
static bool passes(const struct question *q, const struct breaker *b, const struct breaker_row *row, int64_t *ret_from)
{
	const struct call_state *probe;

	*ret_from = 0;
	switch (row->mode) {
	case BREAKER_CLOSED:
		return true;
	case BREAKER_OPEN:
		*ret_from = row->sticky ? 0 : row->until;
		return !row->sticky && q->now >= row->until;
	case BREAKER_HALF_OPEN:
		probe = state_decision(q->st, row->probe);
		*ret_from = probe_ends(q, b, row);
		return (!probe || probe->settled) && q->now >= *ret_from;
	case BREAKER_MODE_COUNT:
		break;
	}
	return false;
}

void breaker_law(struct question *q)
{
	for (uint32_t left = q->f->breakers; left; left &= left - 1) {
		const struct breaker *b = &q->pol->breakers[__builtin_ctz(left)];
		struct breaker_row key = breaker_key(b, q->f->root, q->f->agent, q->f->tool);
		const struct breaker_row *row = row_of(q->st, &key, q->pol->mode);
		struct reason why;
		int64_t from;

		if (!row || passes(q, b, row, &from))
			continue;
		why = (struct reason){ .code = REASON_BREAKER_OPEN, .rule = b->id };
		if (from > q->now)
			why.retry_after_ns = from - q->now;
		(void)snprintf(why.message, sizeof(why.message), "breaker %.*s is open%s", STR_ARG(b->id),
			       row->mode == BREAKER_HALF_OPEN
				   ? ": one call tries whether it works again, the others wait"
			       : row->sticky ? " until an operator resets it"
					     : ": too many calls went wrong; wait for retry_after");
		law_found(q, VERDICT_DENY, &why);
	}
}

static bool allowed(const struct breaker *b, struct breaker_row *row)
{
	bool reset = b->denials > 0 && row->n_denies > 0;

	row->n_denies = 0;
	if (row->mode == BREAKER_CLOSED)
		return reset;
	row->mode = BREAKER_HALF_OPEN; /* the law let it pass: this is the probe */
	row->probe = UINT64_MAX;
	return true;
}

static bool denied(const struct breaker *b, struct breaker_row *row, int64_t now)
{
	if (b->denials == 0 || row->mode != BREAKER_CLOSED)
		return false;
	if (one_more(row->denies, &row->n_denies, b->denials, b->within_ns, now))
		open_row(b, row, now);
	return true;
}

/* Answers that no law was asked for (the session is over, the call was answered before) never come here. */
void breaker_effects(struct question *q)
{
	struct judgement *j = q->j;

	if (j->answer == VERDICT_REVIEW || (j->answer == VERDICT_DENY && j->why.code == REASON_BREAKER_OPEN))
		return;
	for (uint32_t left = q->f->breakers; left && j->n_breakers < PAWL_MAX_BREAKERS; left &= left - 1) {
		const struct breaker *b = &q->pol->breakers[__builtin_ctz(left)];
		struct breaker_row key = breaker_key(b, q->f->root, q->f->agent, q->f->tool);
		struct breaker_row *row = &j->breakers[j->n_breakers];

		if (j->answer == VERDICT_ALLOW && !row_of(q->st, &key, q->pol->mode)) /* the usual case costs no copy */
			continue;
		(void)row_now(q->st, &key, q->pol->mode, row);
		if (j->answer == VERDICT_ALLOW ? allowed(b, row) : denied(b, row, q->now))
			j->n_breakers++;
	}
}

/* ---- reports ---- */

static bool probe_report(const struct breaker *b, const struct call_state *call, enum outcome outcome, int64_t now,
			 struct breaker_row *row)
{
	switch (outcome) {
	case OUTCOME_OK:
		close_row(row);
		return true;
	case OUTCOME_ERROR:
		open_row(b, row, now);
		return true;
	case OUTCOME_EXPIRED: /* the cool-down starts at its deadline, however late that is noticed */
		open_row(b, row, call->lease_until);
		return true;
	case OUTCOME_CANCELLED:
	case OUTCOME_NOT_RUN: /* it has shown nothing: the next one may try */
		row->mode = BREAKER_OPEN;
		row->probe = 0;
		return true;
	case OUTCOME_NONE:
	case OUTCOME_COUNT:
		break;
	}
	return false;
}

static bool report_row(const struct breaker *b, const struct call_state *call, enum outcome outcome, int64_t now,
		       struct breaker_row *row)
{
	if (row->mode == BREAKER_HALF_OPEN && row->probe == call->seq)
		return probe_report(b, call, outcome, now, row);
	if (row->mode != BREAKER_CLOSED || call->decided_ns < row->until || b->failures == 0)
		return false;
	if (outcome == OUTCOME_OK && row->n_fails > 0) {
		row->n_fails = 0;
		return true;
	}
	if (outcome != OUTCOME_ERROR)
		return false;
	if (one_more(row->fails, &row->n_fails, b->failures, b->within_ns, now))
		open_row(b, row, now);
	return true;
}

static void no_rule(void *arg, uint32_t rule)
{
	(void)arg;
	(void)rule;
}

/* Bit i: pol->breakers[i] is asked about calls of this tool. */
static uint32_t breakers_of(const struct policy *pol, struct str tool)
{
	const struct tool *def;

	(void)tool_canonical(pol, tool, &def);
	return name_index_find(pol->index, tool, def, no_rule, NULL).breakers;
}

size_t breaker_report(const struct policy *pol, const struct state *st, const struct call_state *call,
		      enum outcome outcome, int64_t now, struct breaker_row *rows)
{
	const struct session_state *who = state_session(st, call->session);
	size_t n = 0;

	if (!who || call->settled || call->answer != VERDICT_ALLOW || pol->n_breakers == 0)
		return 0;
	for (uint32_t left = breakers_of(pol, call->tool); left && n < PAWL_MAX_BREAKERS; left &= left - 1) {
		const struct breaker *b = &pol->breakers[__builtin_ctz(left)];
		struct breaker_row key = breaker_key(b, who->root, who->agent, call->tool);

		(void)row_now(st, &key, pol->mode, &rows[n]);
		if (report_row(b, call, outcome, now, &rows[n]))
			n++;
	}
	return n;
}

/* A breach has no tool: rows of single tools count none, and `match` says only which calls the open breaker denies. */
size_t breaker_breach(const struct policy *pol, const struct state *st, const struct session_state *who, int64_t now, struct breaker_row *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < pol->n_breakers && n < PAWL_MAX_BREAKERS; i++) {
		const struct breaker *b = &pol->breakers[i];
		struct breaker_row key = breaker_key(b, who->root, who->agent, STR_NONE);

		if (b->breaches == 0 || b->per_tool)
			continue;
		(void)row_now(st, &key, pol->mode, &rows[n]);
		if (rows[n].mode != BREAKER_CLOSED)
			continue;
		if (one_more(rows[n].breaches, &rows[n].n_breaches, b->breaches, b->within_ns, now))
			open_row(b, &rows[n], now);
		n++;
	}
	return n;
}

size_t breaker_force(const struct policy *pol, const struct state *st, const struct session_state *who, struct str tool,
		     int64_t now, struct breaker_row *rows)
{
	size_t n = 0;

	for (uint32_t left = pol->n_breakers ? breakers_of(pol, tool) : 0; left && n < PAWL_MAX_BREAKERS;
	     left &= left - 1) {
		const struct breaker *b = &pol->breakers[__builtin_ctz(left)];
		struct breaker_row key = breaker_key(b, who->root, who->agent, tool);

		(void)row_now(st, &key, MODE_ENFORCE, &rows[n]); /* a person's word binds in any mode */
		open_row(b, &rows[n++], now);
	}
	return n;
}

bool breaker_reset(const struct state *st, const struct breaker_row *key, int64_t now, struct breaker_row *ret)
{
	struct breaker_row row;

	if (!row_now(st, key, MODE_ENFORCE, &row) && !row_now(st, key, state_mode(st), &row))
		return false;
	*ret = row;
	close_row(ret);
	ret->until = now;
	return true;
}
