/* policy/loop.c - the law of loops: the same again, too often. Counts executions (allowed calls), never refused ones.
 * Pure. */
#include "policy/laws.h"

#include <stdio.h>

static void count(struct reason *why, struct str rule, int64_t counter, int64_t limit)
{
	why->code = REASON_LOOP_REPEAT;
	why->rule = rule;
	why->has_numbers = true;
	why->unit = UNIT_CALLS;
	why->counter = counter;
	why->limit = limit;
}

/* limit: n of them run, among the last `window` executions of the tree; the next one gets `then`. */
static enum verdict repeat(const struct question *q, struct reason *why)
{
	const struct loop_repeat *r = &q->pol->repeat;
	int64_t n;

	if (!r->on)
		return VERDICT_ALLOW;
	n = state_count_repeat(q->st, q->f->root, q->f->repeat, r->window);
	if (n < r->limit)
		return VERDICT_ALLOW;
	count(why, STR("repeat"), n, r->limit);
	(void)snprintf(why->message, sizeof(why->message),
		       "this %s ran %lld times in the last %lld; the limit is %lld (loop rule repeat)",
		       r->same_args ? "exact call" : "tool", (long long)n, (long long)r->window, (long long)r->limit);
	return r->then == VERDICT_REVIEW ? VERDICT_REVIEW : VERDICT_DENY;
}

/* The caller's own limit looks back on the whole life of the tree. */
static enum verdict own_repeat(const struct question *q, struct reason *why)
{
	int64_t n, limit = q->guard.repeat;

	if (limit == 0)
		return VERDICT_ALLOW;
	n = state_count_same(q->st, q->f->root, q->f->same);
	if (n < limit)
		return VERDICT_ALLOW;
	count(why, STR("@guard"), n, limit);
	(void)snprintf(why->message, sizeof(why->message),
		       "this exact call ran %lld times; the caller's own limit for %.*s is %lld", (long long)n,
		       STR_ARG(q->f->tool), (long long)limit);
	return VERDICT_DENY;
}

enum verdict loop_law(const struct question *q, struct reason *why)
{
	struct reason own = { .code = REASON_OK };
	enum verdict by_policy = repeat(q, why), by_caller = own_repeat(q, &own);

	if (by_caller <= by_policy)
		return by_policy;
	*why = own;
	return by_caller;
}
