/* policy/compile_limits.c - what bounds a run: loop rules, an agent's sessions, questions to people, the rate of
 * questions to pawld. */
#include "policy/compile.h"

/* ---- loops ---- */

void set_same(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct loop_repeat *repeat = obj;
	size_t tool = 0, args = 0;

	for (const struct ynode *e = v->node->first; e; e = e->next) {
		tool += e->kind == YNODE_TEXT && str_is(e->text, "tool");
		args += e->kind == YNODE_TEXT && str_is(e->text, "args");
	}
	repeat->same_args = args == 1;
	if (tool != 1 || args > 1 || tool + args != v->node->n)
		ld_error(ld, v->node, "repeat compares same: [tool, args] or same: [tool]");
}

/* errors and stuck compare one thing each; the list is there to be read. */
void set_same_as(struct loader *ld, void *obj, const struct schema_value *v)
{
	size_t tool = 0, other = 0;

	(void)obj;
	for (const struct ynode *e = v->node->first; e; e = e->next) {
		tool += e->kind == YNODE_TEXT && str_is(e->text, "tool");
		other += e->kind == YNODE_TEXT && str_is(e->text, v->row->words);
	}
	if (tool != 1 || other != 1 || v->node->n != 2)
		ld_error(ld, v->node, "%s compares same: [tool, %s]", strrchr(v->row->section, '.') + 1, v->row->words);
}

void set_window(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct str s = v->node->kind == YNODE_TEXT ? v->node->text : STR("");
	const size_t tail = sizeof(" calls") - 1;
	int64_t window;

	if (s.n > tail && memcmp(s.p + s.n - tail, " calls", tail) == 0)
		s.n -= tail;
	if (!value_digits(s, &window) || window < 1 || window > PAWL_MAX_WINDOW) {
		ld_error(ld, v->node, "window is written like 50 calls, at most %d", PAWL_MAX_WINDOW);
		window = PAWL_MAX_WINDOW;
	}
	memcpy((char *)obj + v->row->offset, &window, sizeof(window));
}

void set_ignore(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct loop_repeat *repeat = obj;

	value_arg_paths(ld, v->node, v->row->key, &repeat->ignore, &repeat->n_ignore);
}

/* "2..8" or "3" */
void set_period(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct loop_rule *rule = obj;
	struct str least = v->node->text, most = least;
	const char *dots = memmem(least.p, least.n, "..", 2);

	if (dots) {
		least.n = (size_t)(dots - least.p);
		most = (struct str){ dots + 2, most.n - least.n - 2 };
	}
	if (value_digits(least, &rule->period_min) && value_digits(most, &rule->period_max) && rule->period_min >= 2 &&
	    rule->period_max <= PAWL_MAX_PERIOD && rule->period_min <= rule->period_max)
		return;
	ld_error(ld, v->node, "period is written like 2..8 or 3: how many calls a round has, from 2 to %d",
		 PAWL_MAX_PERIOD);
	rule->period_min = 2;
	rule->period_max = PAWL_MAX_PERIOD;
}

/* What a limit needs of the past must fit into the window: limit times `each` calls. */
static void check_window(struct loader *ld, const struct schema_value *v, int64_t limit, int64_t each, int64_t window)
{
	const struct ynode *at = value_at(v->node, "window");

	if (!value_at(v->node, "limit"))
		ld_error(ld, v->key, "%s needs limit: how many %s may run", v->row->key,
			 strcmp(v->row->key, "repeat") == 0  ? "equal calls"
			 : strcmp(v->row->key, "cycle") == 0 ? "rounds"
							     : "such calls");
	else if (limit * each > window && each > 1)
		ld_error(ld, at ? at : v->key, "%lld rounds of %lld calls in a window of %lld calls can never fire",
			 (long long)limit, (long long)each, (long long)window);
	else if (limit > window)
		ld_error(ld, at ? at : v->key, "limit %lld in a window of %lld calls can never fire", (long long)limit,
			 (long long)window);
}

void set_repeat(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct loop_repeat r = { .on = true, .same_args = true, .window = 50, .then = VERDICT_DENY };

	(void)obj;
	schema_walk(ld, "loops.repeat", v->node, &r);
	check_window(ld, v, r.limit, 1, r.window);
	if (value_at(v->node, "ignore") && !r.same_args)
		ld_warn(ld, value_at(v->node, "ignore"), "ignore says nothing where arguments are not compared");
	ld->pol->repeat = r;
}

void set_loop(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct loop_rule r = {
		.on = true, .window = 50, .period_min = 2, .period_max = PAWL_MAX_PERIOD, .then = VERDICT_DENY
	};
	bool cycle = v->row->number == offsetof(struct policy, cycle);
	char section[64];

	(void)obj;
	(void)schema_below(v->row, section);
	schema_walk(ld, section, v->node, &r);
	check_window(ld, v, r.limit, cycle ? r.period_min : 1, r.window);
	if (cycle && r.limit * r.period_min <= r.window && r.limit * r.period_max > r.window)
		ld_warn(ld, v->key, "%lld rounds of %lld calls are more than the window of %lld calls can show",
			(long long)r.limit, (long long)r.period_max, (long long)r.window);
	memcpy((char *)ld->pol + v->row->number, &r, sizeof(r));
}

void compile_loops(struct loader *ld)
{
	if (ld->part[PART_LOOPS])
		schema_walk(ld, "loops", ld->part[PART_LOOPS], NULL);
}

/* ---- sessions, reviews, rates ---- */

/* There is one answer, so the word is only checked. */
void set_checked(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)ld;
	(void)obj;
	(void)v;
}

void set_new(struct loader *ld, void *obj, const struct schema_value *v)
{
	static const char *const periods[] = { "hour", "day", "week" };
	static const int64_t hours[] = { 1, 24, 7 * 24 };
	struct session_caps *s = obj;
	size_t period = 0;

	if (v->node->kind != YNODE_TEXT ||
	    !value_count_per(v->node->text, periods, PAWL_LEN(periods), " per ", &s->fresh, &period) || s->fresh < 1)
		ld_error(ld, v->node, "new is written like 50 per day (hour, day or week)");
	s->fresh_every_ns = hours[period] * 3600 * NS_PER_SEC;
}

void set_abort_hold(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)obj;
	ld->pol->reviews.abort_hold_ns = v->number;
}

void set_rate(struct loader *ld, void *obj, const struct schema_value *v)
{
	static const char *const periods[] = { "s" };
	struct rate_limit *l = obj;
	size_t period;

	if (v->node->kind != YNODE_TEXT || !value_count_per(v->node->text, periods, 1, "/", &l->per_second, &period) ||
	    l->per_second < 1 || l->per_second > 1000000)
		ld_error(ld, v->node, "decide is written like 200/s, at most 1000000/s");
}

void compile_sessions(struct loader *ld)
{
	struct policy *pol = ld->pol;

	if (ld->part[PART_SESSIONS])
		schema_walk(ld, "sessions", ld->part[PART_SESSIONS], &pol->sessions);
	if (ld->part[PART_REVIEWS])
		schema_walk(ld, "reviews", ld->part[PART_REVIEWS], &pol->reviews);
	if (!ld->part[PART_LIMITS])
		return;
	pol->limits.burst = 0;
	schema_walk(ld, "limits", ld->part[PART_LIMITS], &pol->limits);
	if (pol->limits.burst == 0) /* two seconds' worth, so that a tight rate has a tight burst */
		pol->limits.burst = pol->limits.per_second * 2;
}
