/* policy/compile_limits.c - what bounds a run: loop rules, an agent's sessions, the rate of questions. */
#include "policy/compile.h"

struct repeat_draft {
	struct loop_repeat repeat; /* first: the schema stores by offset */
	const struct ynode *window, *ignore;
};

void set_same(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct repeat_draft *d = obj;
	size_t tool = 0, args = 0;

	for (const struct ynode *e = v->node->first; e; e = e->next) {
		tool += e->kind == YNODE_TEXT && str_is(e->text, "tool");
		args += e->kind == YNODE_TEXT && str_is(e->text, "args");
	}
	d->repeat.same_args = args == 1;
	if (tool != 1 || args > 1 || tool + args != v->node->n)
		ld_error(ld, v->node, "repeat compares same: [tool, args] or same: [tool]");
}

void set_window(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct repeat_draft *d = obj;
	struct str s = v->node->kind == YNODE_TEXT ? v->node->text : STR("");
	const size_t tail = sizeof(" calls") - 1;

	d->window = v->node;
	if (s.n > tail && memcmp(s.p + s.n - tail, " calls", tail) == 0)
		s.n -= tail;
	if (!value_digits(s, &d->repeat.window) || d->repeat.window < 1 || d->repeat.window > PAWL_MAX_WINDOW) {
		ld_error(ld, v->node, "window is written like 50 calls, at most %d", PAWL_MAX_WINDOW);
		d->repeat.window = PAWL_MAX_WINDOW;
	}
}

void set_ignore(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct repeat_draft *d = obj;

	d->ignore = v->node;
	value_arg_paths(ld, v->node, v->row->key, &d->repeat.ignore, &d->repeat.n_ignore);
}

void set_repeat(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct repeat_draft d = { .repeat = { .on = true, .same_args = true, .window = 50, .then = VERDICT_DENY } };
	bool limited = false;

	(void)obj;
	schema_walk(ld, "loops.repeat", v->node, &d);
	for (const struct ynode *k = v->node->first; k; k = k->next)
		limited = limited || str_is(k->text, "limit");
	if (!limited)
		ld_error(ld, v->key, "repeat needs limit: how many equal calls may run");
	if (d.repeat.limit > d.repeat.window)
		ld_error(ld, d.window ? d.window : v->key, "limit %lld in a window of %lld calls can never fire",
			 (long long)d.repeat.limit, (long long)d.repeat.window);
	if (d.ignore && !d.repeat.same_args)
		ld_warn(ld, d.ignore, "ignore says nothing where arguments are not compared");
	ld->pol->repeat = d.repeat;
}

void compile_loops(struct loader *ld)
{
	if (ld->part[PART_LOOPS])
		schema_walk(ld, "loops", ld->part[PART_LOOPS], NULL);
}

void set_new(struct loader *ld, void *obj, const struct schema_value *v)
{
	static const char *const periods[] = { "hour", "day", "week" };
	static const int64_t hours[] = { 1, 24, 7 * 24 };
	struct session_caps *s = obj;
	size_t period = 0;

	if (v->row->number == 1) /* on_stale: there is one answer, so the word is only checked */
		return;
	if (v->node->kind != YNODE_TEXT ||
	    !value_count_per(v->node->text, periods, PAWL_LEN(periods), " per ", &s->fresh, &period) || s->fresh < 1)
		ld_error(ld, v->node, "new is written like 50 per day (hour, day or week)");
	s->fresh_every_ns = hours[period] * 3600 * NS_PER_SEC;
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
	if (!ld->part[PART_LIMITS])
		return;
	pol->limits.burst = 0;
	schema_walk(ld, "limits", ld->part[PART_LIMITS], &pol->limits);
	if (pol->limits.burst == 0) /* two seconds' worth, so that a tight rate has a tight burst */
		pol->limits.burst = pol->limits.per_second * 2;
}
