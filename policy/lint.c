/* policy/lint.c - warnings: a policy that loads, and will not do what its author thinks. Never an error: a deny rule
 * that makes allow rules moot is how one stops everything in a hurry, and must load. */
#include "policy/compile.h"

static const char *const unit_names[UNIT_COUNT] = { "money", "calls", "tokens", "time" };
static const char *const verdict_names[] = { "", "allow", "review", "deny" };

/* "a fresh session buys more": budgets of a session alone can be had again by opening another one. */
static void lint_budgets(struct loader *ld)
{
	bool wider[UNIT_COUNT] = { [UNIT_TIME] = true }; /* time has no wider scope */

	for (size_t i = 0; i < ld->pol->n_budgets; i++)
		if (ld->pol->budgets[i].scope != SCOPE_SESSION)
			wider[ld->pol->budgets[i].unit] = true;
	for (size_t i = 0; i < ld->pol->n_budgets; i++) {
		enum unit unit = ld->pol->budgets[i].unit;

		if (wider[unit])
			continue;
		wider[unit] = true; /* told once a unit */
		ld_warn(ld, ld->budget_nodes[i],
			"a fresh session buys more: no budget in %s is per agent, tenant or global", unit_names[unit]);
	}
}

static bool bare(const struct rule *r)
{
	return !r->when && !r->unless;
}

static int by_pattern(const void *va, const void *vb)
{
	const struct list_entry *a = *(const struct list_entry *const *)va, *b = *(const struct list_entry *const *)vb;
	int c = strcmp(a->ix.pattern.text.p, b->ix.pattern.text.p);

	return c ? c : a->ix.target < b->ix.target ? -1 : a->ix.target > b->ix.target;
}

struct cover {
	const struct loader *ld;
	const struct list_entry **rows; /* unconditional; sorted by text, of equal texts the strictest rule's alone */
	size_t n;
};

/* The strictest unconditional rule that has exactly this text in its list, or NULL. */
static const struct rule *cover_exact(const struct cover *c, struct str text, char tail)
{
	size_t lo = 0, hi = c->n, want = text.n + (tail ? 1 : 0);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		struct str row = c->rows[mid]->ix.pattern.text;
		int by = memcmp(row.p, text.p, text.n < row.n ? text.n : row.n);

		if (by == 0 && row.n > text.n && tail)
			by = (row.p[text.n] > tail) - (row.p[text.n] < tail);
		if (by == 0)
			by = (row.n > want) - (row.n < want);
		if (by == 0)
			return &c->ld->pol->rules[c->rows[mid]->ix.target];
		if (by < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* An unconditional stricter rule that certainly matches all that this entry matches: the same text, or a prefix with a
 * star. */
static const struct rule *covered_by(const struct cover *c, const struct list_entry *e)
{
	const struct rule *own = &c->ld->pol->rules[e->ix.target], *r = cover_exact(c, e->ix.pattern.text, '\0');

	if (r && r->answer > own->answer)
		return r;
	for (size_t n = 0; n <= e->ix.pattern.prefix_n; n++) {
		r = cover_exact(c, (struct str){ e->ix.pattern.text.p, n }, '*');
		if (r && r->answer > own->answer)
			return r;
	}
	return NULL;
}

static void cover_build(struct cover *c)
{
	const struct loader *ld = c->ld;
	size_t kept = 0;

	for (size_t i = 0; i < ld->n_entries; i++)
		if (ld->entries[i].ix.kind == INDEX_RULE && bare(&ld->pol->rules[ld->entries[i].ix.target]))
			c->rows[c->n++] = &ld->entries[i];
	if (c->n)
		qsort(c->rows, c->n, sizeof(*c->rows), by_pattern);
	for (size_t i = 0; i < c->n; i++) {
		const struct list_entry *e = c->rows[i], **last = kept ? &c->rows[kept - 1] : NULL;

		if (!last || !str_eq((*last)->ix.pattern.text, e->ix.pattern.text))
			c->rows[kept++] = e;
		else if (ld->pol->rules[e->ix.target].answer > ld->pol->rules[(*last)->ix.target].answer)
			*last = e;
	}
	c->n = kept;
}

static void lint_shadowed(struct loader *ld)
{
	struct cover c = { .ld = ld, .rows = arena_array(&ld->tmp, ld->n_entries, sizeof(*c.rows)) };
	const struct rule *by = NULL;

	if (!c.rows)
		return;
	cover_build(&c);
	for (size_t i = 0; i < ld->n_entries; i++) { /* a rule's entries lie side by side */
		const struct list_entry *e = &ld->entries[i];
		const struct rule *own;
		bool first = i == 0 || ld->entries[i - 1].ix.target != e->ix.target;
		bool last = i + 1 == ld->n_entries || ld->entries[i + 1].ix.target != e->ix.target ||
			    ld->entries[i + 1].ix.kind != INDEX_RULE;

		if (e->ix.kind != INDEX_RULE)
			break; /* those of budgets and breakers come after all rules' */
		own = &ld->pol->rules[e->ix.target];
		if (first || by)
			by = covered_by(&c, e);
		if (last && by)
			ld_warn(ld, ld->rule_nodes[e->ix.target],
				"rule %s can never fire: %s rule %s (line %u) comes before it on all its tools",
				QUOTED(own->id), verdict_names[by->answer], QUOTED(by->id), by->line);
	}
}

static int by_entry(const void *va, const void *vb)
{
	const struct list_entry *a = *(const struct list_entry *const *)va, *b = *(const struct list_entry *const *)vb;
	int c;

	if (a->ix.kind != b->ix.kind)
		return a->ix.kind < b->ix.kind ? -1 : 1;
	if (a->ix.target != b->ix.target)
		return a->ix.target < b->ix.target ? -1 : 1;
	c = strcmp(a->ix.pattern.text.p, b->ix.pattern.text.p);
	if (c)
		return c;
	if (a->node->line != b->node->line)
		return a->node->line < b->node->line ? -1 : 1;
	return a->node->column < b->node->column ? -1 : a->node->column > b->node->column;
}

/* One name twice in one list, after folding and aliases. */
static void lint_twice(struct loader *ld)
{
	const struct list_entry **rows = arena_array(&ld->tmp, ld->n_entries, sizeof(*rows));

	if (!rows || ld->n_entries < 2)
		return;
	for (size_t i = 0; i < ld->n_entries; i++)
		rows[i] = &ld->entries[i];
	qsort(rows, ld->n_entries, sizeof(*rows), by_entry);
	for (size_t i = 1; i < ld->n_entries; i++) {
		const struct list_entry *a = rows[i - 1], *b = rows[i];

		if (a->ix.kind == b->ix.kind && a->ix.target == b->ix.target &&
		    str_eq(a->ix.pattern.text, b->ix.pattern.text))
			ld_warn(ld, b->node,
				"%s is in this list already (names are compared in lower case, aliases count as their "
				"tool)",
				QUOTED(b->node->text));
	}
}

/* ---- limits that nothing can run into ---- */

static bool overlap(const struct pattern *a, const struct pattern *b)
{
	size_t n = a->prefix_n < b->prefix_n ? a->prefix_n : b->prefix_n;

	if (a->prefix_n == a->text.n) /* a name */
		return pattern_match(b, a->text);
	if (b->prefix_n == b->text.n)
		return pattern_match(a, b->text);
	return memcmp(a->text.p, b->text.p, n) == 0; /* two globs: perhaps */
}

/* Does any tool that this policy speaks of fall under the entry? */
static bool known_tool(const struct loader *ld, const struct pattern *p)
{
	for (size_t i = 0; i < ld->pol->n_tools; i++)
		if (pattern_match(p, ld->pol->tools[i].name))
			return true;
	for (size_t i = 0; i < ld->n_entries && ld->entries[i].ix.kind == INDEX_RULE; i++)
		if (overlap(p, &ld->entries[i].ix.pattern))
			return true;
	return false;
}

/* A misspelt `match` is a limit that never holds. Looked for in files of a usual size only: each entry is held against
 * all others. */
static void lint_matches_nothing(struct loader *ld)
{
	static const char *const kinds[] = { "rule", "budget", "breaker" };
	bool hit = false;

	if (ld->pol->fallback != VERDICT_DENY || (ld->n_entries + ld->pol->n_tools) > 4000)
		return;
	for (size_t i = 0; i < ld->n_entries; i++) {
		const struct list_entry *e = &ld->entries[i], *next = i + 1 < ld->n_entries ? e + 1 : NULL;
		bool budget = e->ix.kind == INDEX_BUDGET;

		if (e->ix.kind == INDEX_RULE)
			continue;
		hit = hit || known_tool(ld, &e->ix.pattern) ||
		      !(budget ? ld->pol->budgets[e->ix.target].has_match : ld->pol->breakers[e->ix.target].has_match);
		if (next && next->ix.kind == e->ix.kind && next->ix.target == e->ix.target)
			continue;
		if (!hit)
			ld_warn(
			    ld, e->node, "%s %s matches no tool that this policy names", kinds[e->ix.kind],
			    QUOTED(budget ? ld->pol->budgets[e->ix.target].id : ld->pol->breakers[e->ix.target].id));
		hit = false;
	}
}

void lint_policy(struct loader *ld)
{
	lint_budgets(ld);
	lint_shadowed(ld);
	lint_twice(ld);
	lint_matches_nothing(ld);
}

static void count_rule(void *arg, uint32_t rule)
{
	(void)rule;
	++*(size_t *)arg;
}

/* Needs the finished index. */
void lint_index(struct loader *ld)
{
	lint_uses(ld);
	lint_costs(ld);
	if (ld->pol->fallback != VERDICT_DENY)
		return;
	for (size_t i = 0; i < ld->n_names; i++) {
		const struct named_tool *n = &ld->names[i];
		const struct tool *tool = &ld->pol->tools[n->tool];
		size_t rules = 0;

		if (n->alias)
			continue;
		(void)name_index_find(ld->pol->index, tool->name, tool, count_rule, &rules);
		if (rules == 0)
			ld_warn(ld, n->node, "no rule names tool %s, so the default denies it", QUOTED(n->name));
	}
}
