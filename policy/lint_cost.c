/* policy/lint_cost.c - the warning that a tool which may run has no cost that is known, under a budget in money: whoever calls it without
 * an estimate is denied, "cost unknown", and that is seldom what its author wants. Needs the finished index. */
#include "policy/compile.h"

#define USUAL 4000 /* rows: each name is held against the others; larger files are made by programs */

struct naming { /* what the rules that name a tool say */
	const struct policy *pol;
	bool may_run, never;
};

static void note_rule(void *arg, uint32_t rule)
{
	struct naming *n = arg;
	const struct rule *r = &n->pol->rules[rule];

	if (r->answer != VERDICT_DENY)
		n->may_run = true;
	else if (!r->when && !r->unless)
		n->never = true;
}

/* The first budget in money that the tool draws from. */
static const struct budget *money_budget(const struct policy *pol, uint32_t bits)
{
	for (size_t i = 0; i < pol->n_budgets; i++)
		if (bits >> i & 1 && pol->budgets[i].unit == UNIT_MONEY)
			return &pol->budgets[i];
	return NULL;
}

static void check_name(struct loader *ld, const struct ynode *at, struct str name, const struct tool *tool)
{
	struct naming n = { .pol = ld->pol, .may_run = ld->pol->fallback != VERDICT_DENY };
	struct index_hits hits = name_index_find(ld->pol->index, name, tool, note_rule, &n);
	const struct budget *b = money_budget(ld->pol, hits.budgets);

	if (tool && (tool->has_cost || tool->has_default_cost || tool->denied_use >= 0))
		return;
	if (b && n.may_run && !n.never)
		ld_warn(ld, at, "calls of %s without an estimate will be denied: cost unknown, and budget %s is in money", QUOTED(name), QUOTED(b->id));
}

static bool whole(const struct pattern *p)
{
	return p->prefix_n == p->text.n;
}

/* A glob: tools that it fits and that are listed are looked at by name; where it fits none of them, it stands for all. */
static void check_glob(struct loader *ld, const struct list_entry *e)
{
	const struct budget *all = NULL;

	for (size_t i = 0; i < ld->pol->n_tools; i++)
		if (pattern_match(&e->ix.pattern, ld->pol->tools[i].name))
			return;
	for (size_t i = 0; i < ld->pol->n_budgets && !all; i++)
		if (ld->pol->budgets[i].unit == UNIT_MONEY && !ld->pol->budgets[i].has_match)
			all = &ld->pol->budgets[i];
	for (size_t i = 0; i < ld->n_entries && all; i++) {
		const struct list_entry *d = &ld->entries[i];
		const struct rule *r;

		if (d->ix.kind != INDEX_RULE)
			break;
		r = &ld->pol->rules[d->ix.target];
		if (r->answer == VERDICT_DENY && !r->when && !r->unless && pattern_match(&d->ix.pattern, e->ix.pattern.text))
			all = NULL; /* the glob's own text fits: so does whatever it fits */
	}
	if (all)
		ld_warn(ld, e->node, "calls of %s without an estimate will be denied: cost unknown, and budget %s is in money", QUOTED(e->ix.pattern.text),
			QUOTED(all->id));
}

static bool seen_before(const struct loader *ld, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (ld->pol->rules[ld->entries[k].ix.target].answer != VERDICT_DENY &&
		    str_eq(ld->entries[k].ix.pattern.text, ld->entries[i].ix.pattern.text))
			return true;
	return false;
}

void lint_costs(struct loader *ld)
{
	if (ld->n_entries + ld->pol->n_tools > USUAL)
		return;
	for (size_t i = 0; i < ld->n_names; i++)
		if (!ld->names[i].alias)
			check_name(ld, ld->names[i].node, ld->names[i].name, &ld->pol->tools[ld->names[i].tool]);
	for (size_t i = 0; i < ld->n_entries && ld->entries[i].ix.kind == INDEX_RULE; i++) {
		const struct list_entry *e = &ld->entries[i];

		if (ld->pol->rules[e->ix.target].answer == VERDICT_DENY || seen_before(ld, i))
			continue;
		if (!whole(&e->ix.pattern))
			check_glob(ld, e);
		else if (!tool_named(ld, e->ix.pattern.text))
			check_name(ld, e->node, e->ix.pattern.text, NULL);
	}
}
