/* policy/compile_budgets.c - `budgets`: whose, how much of what, and which tools draw from it. */
#include "policy/compile.h"

struct budget_draft {
	struct budget budget; /* first: the schema stores by offset */
	const struct ynode *per, *limit, *floor, *match, *zero_cost;
};

/* Also of the loop rules: the row says where the verdict lies. */
void set_then(struct loader *ld, void *obj, const struct schema_value *v)
{
	enum verdict then = v->number == 0 ? VERDICT_DENY : VERDICT_REVIEW;

	(void)ld;
	memcpy((char *)obj + v->row->offset, &then, sizeof(then));
}

void set_per(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)ld;
	((struct budget_draft *)obj)->per = v->node;
}

void set_match(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)ld;
	((struct budget_draft *)obj)->match = v->node;
}

void set_amount(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct budget_draft *d = obj;

	(void)ld;
	if (v->row->number == 0) {
		d->limit = v->node;
	} else if (v->row->number == 1) {
		d->floor = v->node;
	} else {
		d->zero_cost = v->node;
		d->budget.zero_cost_deny = v->number == 1;
	}
}

static bool scope_word(struct str s, enum scope *ret)
{
	static const char *const words[] = { [SCOPE_SESSION] = "session",
					     [SCOPE_AGENT] = "agent",
					     [SCOPE_TENANT] = "tenant",
					     [SCOPE_GLOBAL] = "global" };

	for (size_t i = 0; i < PAWL_LEN(words); i++)
		if (str_is(s, words[i])) {
			*ret = (enum scope)i;
			return true;
		}
	return false;
}

static void compile_per(struct loader *ld, struct budget_draft *d)
{
	const struct ynode *per = d->per, *e = per->kind == YNODE_LIST ? per->first : per;
	size_t scopes = 0, tools = 0, n = per->kind == YNODE_LIST ? per->n : 1;

	for (size_t i = 0; i < n; i++, e = e->next) {
		struct str word = e->kind == YNODE_TEXT ? e->text : STR("");

		if (scope_word(word, &d->budget.scope))
			scopes++;
		else if (per->kind == YNODE_LIST && str_is(word, "tool"))
			tools++;
	}
	d->budget.per_tool = tools == 1;
	if (scopes != 1 || tools > 1 || scopes + tools != n)
		ld_error(ld, per, "per is session, agent, tenant or global; or a list of one of them and tool");
}

static void compile_limit(struct loader *ld, struct budget_draft *d, const struct ynode *key)
{
	struct amount limit, floor;

	if (!d->limit || !value_amount(ld, d->limit, &limit))
		return;
	d->budget.unit = limit.unit;
	d->budget.limit = limit.n;
	if (limit.n <= 0)
		ld_error(ld, d->limit, "a limit is more than 0: to refuse everything write a deny rule");
	if (limit.unit == UNIT_TIME && d->per && (d->budget.scope != SCOPE_SESSION || d->budget.per_tool))
		ld_error(ld, key, "a limit in time is the age of a session: write per: session");
	if (d->zero_cost && (limit.unit == UNIT_TIME || limit.unit == UNIT_CALLS))
		ld_warn(ld, d->zero_cost, "zero_cost says nothing about a budget in %s",
			limit.unit == UNIT_TIME ? "time" : "calls");
	if (!d->floor || !value_amount(ld, d->floor, &floor))
		return;
	d->budget.floor = floor.n;
	if (floor.unit != limit.unit)
		ld_error(ld, d->floor, "floor and limit are of different units");
	else if (floor.n >= limit.n)
		ld_error(ld, d->floor, "a floor is below its limit: with this one every call would be a review");
}

/* Without `match` every tool draws from it. It is in the index like the others, so that nobody has to ask twice. */
static void compile_everything(struct loader *ld, const struct ynode *key, struct index_entry proto)
{
	const struct ynode star = { .kind = YNODE_TEXT, .text = STR("*"), .line = key->line, .column = key->column };

	compile_entry(ld, &star, proto);
	if (ld->n_entries && ld->entries[ld->n_entries - 1].node == &star)
		ld->entries[ld->n_entries - 1].node = key;
}

static void compile_budget(struct loader *ld, const struct ynode *key, uint32_t index)
{
	struct budget_draft d = { .budget = { .then = VERDICT_DENY } };
	struct index_entry proto = { .target = index, .budget = true };

	ld->budget_nodes[index] = key;
	(void)value_id(ld, key, "budget name", &d.budget.id);
	if (key->value->kind != YNODE_MAP) {
		ld_error(ld, key->value, "budget %s wants a map: {per: session, limit: 5 %.*s}", QUOTED(key->text),
			 STR_ARG(ld->pol->currency));
		return;
	}
	schema_walk(ld, "budgets.*", key->value, &d);
	if (d.per)
		compile_per(ld, &d);
	else
		ld_error(ld, key, "budget %s needs per:", QUOTED(key->text));
	if (!d.limit)
		ld_error(ld, key, "budget %s needs limit:", QUOTED(key->text));
	compile_limit(ld, &d, key);
	d.budget.has_match = d.match != NULL;
	ld->pol->budgets[index] = d.budget;
	if (!d.match)
		compile_everything(ld, key, proto);
	else if (d.match->kind == YNODE_TEXT)
		compile_entry(ld, d.match, proto);
	else if (d.match->kind == YNODE_MAP || d.match->n == 0)
		ld_error(ld, d.match, "match is a tool's name, a pattern, or a list of them");
	else
		for (const struct ynode *e = d.match->first; e; e = e->next)
			compile_entry(ld, e, proto);
}

void compile_budgets(struct loader *ld)
{
	const struct ynode *map = ld->part[PART_BUDGETS];
	uint32_t i = 0;

	if (!map)
		return;
	if (map->n > PAWL_MAX_BUDGETS) {
		ld_error(ld, map, "%zu budgets, at most %d", map->n, PAWL_MAX_BUDGETS);
		return;
	}
	ld->pol->budgets = ld_array(ld, map->n, sizeof(*ld->pol->budgets));
	ld->budget_nodes = arena_array(&ld->tmp, map->n, sizeof(*ld->budget_nodes));
	if (!ld->pol->budgets || !ld->budget_nodes)
		return;
	ld->pol->n_budgets = map->n;
	for (const struct ynode *key = map->first; key; key = key->next)
		compile_budget(ld, key, i++);
}
