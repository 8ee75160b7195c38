/* policy/loop.c - the laws of loops: the same again, round in circles, the same error, the same result. They count
 * executions (allowed calls) of the session tree, never refused ones, and never look at words: only at keyed tokens.
 * Pure. */
#include "policy/laws.h"

#include <stdio.h>

static enum verdict then(enum verdict v)
{
	return v == VERDICT_REVIEW ? VERDICT_REVIEW : VERDICT_DENY;
}

static struct reason counted(enum reason_code code, struct str rule, int64_t counter, int64_t limit)
{
	return (struct reason){
		.code = code, .rule = rule, .has_numbers = true, .unit = UNIT_CALLS, .counter = counter, .limit = limit
	};
}

static uint64_t first8(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* What an execution came to. An absent result is a value; what is not settled yet compares as the same. */
static bool result_differs(const struct exec_state *a, const struct exec_state *b)
{
	return a->settled && b->settled && (a->failed != b->failed || a->result != b->result || a->error != b->error);
}

/* ---- cycle ---- */

/* The newest n executions are whole rounds of a block of p with two distinct members. */
static bool goes_round(const struct question *q, uint32_t p, uint32_t n)
{
	struct exec_state first, e, before;
	bool distinct = false;

	if (!state_exec(q->st, q->f->root, 0, &first))
		return false;
	for (uint32_t i = 1; i < p && !distinct; i++) {
		if (!state_exec(q->st, q->f->root, i, &e))
			return false;
		distinct = e.same != first.same;
	}
	if (!distinct)
		return false;
	for (uint32_t i = 0; i + p < n; i++) {
		if (!state_exec(q->st, q->f->root, i, &e) || !state_exec(q->st, q->f->root, i + p, &before) ||
		    e.same != before.same)
			return false;
		if (e.polling && result_differs(&e, &before))
			return false;
	}
	return true;
}

static uint32_t period_now(const struct question *q, const struct loop_rule *r)
{
	int64_t most = r->period_max < PAWL_MAX_PERIOD ? r->period_max : PAWL_MAX_PERIOD;

	for (int64_t p = r->period_min > 2 ? r->period_min : 2; p <= most; p++) {
		if (r->limit > r->window / p || r->limit > PAWL_MAX_WINDOW / p)
			return 0;
		if (goes_round(q, (uint32_t)p, (uint32_t)(p * r->limit)))
			return (uint32_t)p;
	}
	return 0;
}

/* All members of the circle are refused from now on, whoever asks. The state compares the first 64 bits of these
 * tokens. */
static bool trip(struct question *q, uint32_t period)
{
	uint64_t own = first8(q->f->same), seen[PAWL_MAX_PERIOD];
	struct judgement *j = q->j;
	bool member = false;
	size_t n = 0;

	for (uint32_t i = 0; i < period; i++) {
		uint8_t token[16] = { 0 };
		struct exec_state e;
		size_t k = 0;

		if (!state_exec(q->st, q->f->root, i, &e))
			break;
		while (k < n && seen[k] != e.same)
			k++;
		if (k < n)
			continue;
		seen[n++] = e.same;
		member = member || e.same == own;
		memcpy(token, &e.same, sizeof(e.same));
		if (!state_tripped(q->st, q->f->root, token))
			memcpy(j->trips[j->n_trips++], token, sizeof(token));
	}
	return member;
}

static void cycle(struct question *q)
{
	const struct loop_rule *r = &q->pol->cycle;
	struct reason why;
	uint32_t period;

	if (!r->on)
		return;
	period = period_now(q, r);
	if (period && trip(q, period)) {
		why = counted(REASON_LOOP_CYCLE, STR("cycle"), r->limit, r->limit);
		(void)snprintf(
		    why.message, sizeof(why.message),
		    "this call is one of a cycle of period %u that ran %lld times; the limit is %lld (loop rule cycle)",
		    period, (long long)r->limit, (long long)r->limit);
	} else if (state_tripped(q->st, q->f->root, q->f->same)) {
		why = counted(REASON_LOOP_CYCLE, STR("cycle"), r->limit, r->limit);
		(void)snprintf(why.message, sizeof(why.message),
			       "this call was one of a cycle that ran %lld times, and stays refused in this tree (loop "
			       "rule cycle)",
			       (long long)r->limit);
	} else {
		return;
	}
	law_found(q, then(r->then), &why);
}

/* ---- errors, stuck, and repeats of polling calls: one walk back over the window ---- */

#define ERROR_SLOTS 2048 /* twice PAWL_MAX_WINDOW and more: a table that never fills */
_Static_assert(ERROR_SLOTS >= 2 * PAWL_MAX_WINDOW, "the table of errors could fill up");

struct errors { /* how often each error was seen; slots is what is in use of the table */
	uint64_t token[ERROR_SLOTS];
	uint16_t count[ERROR_SLOTS];
	uint32_t slots;
};

static void error_seen(struct errors *t, int64_t window, uint64_t token, int64_t *most)
{
	uint64_t at;

	if (!t->slots) { /* most calls have no error behind them */
		for (t->slots = 16; t->slots < ERROR_SLOTS && t->slots < 2 * (uint64_t)window;)
			t->slots *= 2;
		memset(t->count, 0, t->slots * sizeof(t->count[0]));
	}
	at = (token ^ token >> 32) & (t->slots - 1);
	while (t->count[at] && t->token[at] != token)
		at = (at + 1) & (t->slots - 1);
	t->token[at] = token;
	if (++t->count[at] > *most)
		*most = t->count[at];
}

struct streak {                   /* equal results, newest first */
	int64_t window, limit, n; /* window 0: not looked for */
	bool has, over;           /* has: a settled one is in `first` */
	struct exec_state first;
};

static void streak_add(struct streak *s, const struct exec_state *e)
{
	if (s->over)
		return;
	s->over = s->has && result_differs(&s->first, e);
	if (s->over)
		return;
	if (!s->has && e->settled) {
		s->has = true;
		s->first = *e;
	}
	if (++s->n >= s->limit)
		s->over = true; /* enough is known */
}

struct walk {
	int64_t errors_window, errors;
	struct streak stuck, poll;
};

static int64_t window_of(int64_t window)
{
	return window < PAWL_MAX_WINDOW ? window : PAWL_MAX_WINDOW;
}

static void walk_back(const struct question *q, struct walk *w)
{
	uint32_t repeat = exec_repeat(q->f->repeat);
	struct errors table;
	struct exec_state e;

	table.slots = 0;
	for (int64_t i = 0;; i++) {
		bool stuck = i < w->stuck.window && !w->stuck.over, poll = i < w->poll.window && !w->poll.over;

		if ((!stuck && !poll && i >= w->errors_window) || !state_exec(q->st, q->f->root, (uint32_t)i, &e))
			return;
		if (poll && e.repeat == repeat)
			streak_add(&w->poll, &e);
		if (!str_eq(e.tool, q->f->tool))
			continue;
		if (stuck)
			streak_add(&w->stuck, &e);
		if (i < w->errors_window && e.settled && e.failed)
			error_seen(&table, w->errors_window, e.error, &w->errors);
	}
}

static void errors(struct question *q, const struct walk *w)
{
	const struct loop_rule *r = &q->pol->errors;
	struct reason why;

	if (!r->on || w->errors < r->limit)
		return;
	why = counted(REASON_LOOP_ERROR, STR("errors"), w->errors, r->limit);
	(void)snprintf(why.message, sizeof(why.message),
		       "one error came back %lld times from this tool in the last %lld calls; the limit is %lld (loop "
		       "rule errors)",
		       (long long)w->errors, (long long)r->window, (long long)r->limit);
	law_found(q, then(r->then), &why);
}

static void stuck(struct question *q, const struct walk *w)
{
	const struct loop_rule *r = &q->pol->stuck;
	struct reason why;

	if (!r->on || w->stuck.n < r->limit)
		return;
	why = counted(REASON_LOOP_RESULT, STR("stuck"), w->stuck.n, r->limit);
	(void)snprintf(
	    why.message, sizeof(why.message),
	    "the last %lld calls of this tool had one and the same result; the limit is %lld (loop rule stuck)",
	    (long long)w->stuck.n, (long long)r->limit);
	law_found(q, then(r->then), &why);
}

/* ---- repeat ---- */

static bool polls(const struct question *q)
{
	return q->f->def && q->f->def->polling;
}

/* limit: n of them run, among the last `window` executions of the tree; the next one gets `then`. */
static void repeat(struct question *q, const struct walk *w)
{
	const struct loop_repeat *r = &q->pol->repeat;
	struct reason why;
	int64_t n;

	if (!r->on)
		return;
	n = polls(q) ? w->poll.n : state_count_repeat(q->st, q->f->root, q->f->repeat, r->window);
	if (n < r->limit)
		return;
	why = counted(REASON_LOOP_REPEAT, STR("repeat"), n, r->limit);
	(void)snprintf(why.message, sizeof(why.message),
		       "this %s ran %lld times in the last %lld%s; the limit is %lld (loop rule repeat)",
		       r->same_args ? "exact call" : "tool", (long long)n, (long long)r->window,
		       polls(q) ? " with nothing new" : "", (long long)r->limit);
	law_found(q, then(r->then), &why);
}

/* The caller's own limit looks back on the whole life of the tree. */
static void own_repeat(struct question *q)
{
	int64_t n, limit = q->guard.repeat;
	struct reason why;

	if (limit == 0)
		return;
	n = state_count_same(q->st, q->f->root, q->f->same);
	if (n < limit)
		return;
	why = counted(REASON_LOOP_REPEAT, STR("@guard"), n, limit);
	(void)snprintf(why.message, sizeof(why.message),
		       "this exact call ran %lld times; the caller's own limit for %.*s is %lld", (long long)n,
		       STR_ARG(q->f->tool), (long long)limit);
	law_found(q, VERDICT_DENY, &why);
}

void loop_law(struct question *q)
{
	const struct policy *pol = q->pol;
	struct walk w;

	w.errors = 0;
	w.errors_window = pol->errors.on ? window_of(pol->errors.window) : 0;
	w.stuck.n = w.poll.n = 0;
	w.stuck.has = w.stuck.over = w.poll.has = w.poll.over = false;
	w.stuck.window = pol->stuck.on ? window_of(pol->stuck.window) : 0;
	w.stuck.limit = pol->stuck.limit;
	w.poll.window = pol->repeat.on && polls(q) ? window_of(pol->repeat.window) : 0;
	w.poll.limit = pol->repeat.limit;
	cycle(q);
	if (w.errors_window || w.stuck.window || w.poll.window)
		walk_back(q, &w);
	errors(q, &w);
	stuck(q, &w);
	repeat(q, &w);
	own_repeat(q);
}
