/* policy/compile_budgets.c - `budgets`: whose, how much of what in which window, and which tools draw from it. */
#include "policy/compile.h"
#include "policy/money.h"
#include "policy/zone.h"

#define SPAN_LEAST NS_PER_SEC
#define SPAN_MOST  (366 * 86400 * NS_PER_SEC)

struct budget_draft {
	struct budget budget; /* first: the schema stores by offset */
	const struct ynode *node[BUDGET_NODES];
};

/* Also of the loop rules: the row says where the verdict lies. */
void set_then(struct loader *ld, void *obj, const struct schema_value *v)
{
	enum verdict then = v->number == 0 ? VERDICT_DENY : VERDICT_REVIEW;

	(void)ld;
	memcpy((char *)obj + v->row->offset, &then, sizeof(then));
}

void set_budget_node(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct budget_draft *d = obj;

	(void)ld;
	d->node[v->row->number] = v->node;
	if (v->row->number == BUDGET_ZERO_COST)
		d->budget.zero_cost_deny = v->number == 1;
}

static void compile_per(struct loader *ld, struct budget_draft *d, const struct ynode *key)
{
	const struct ynode *node = d->node[BUDGET_PER];
	struct per per;

	if (!node) {
		ld_error(ld, key, "budget %s needs per:", QUOTED(key->text));
		return;
	}
	if (!value_per(node, &per) || !per.has_scope)
		ld_error(ld, node, "per is session, agent, tenant or global; or a list of one of them and tool");
	d->budget.scope = per.scope;
	d->budget.per_tool = per.tool;
}

static void compile_time(struct loader *ld, const struct budget_draft *d, const struct ynode *key)
{
	const struct ynode *every = d->node[BUDGET_EVERY], *grant = d->node[BUDGET_GRANT_MAX];

	if (d->node[BUDGET_PER] && (d->budget.scope != SCOPE_SESSION || d->budget.per_tool))
		ld_error(ld, key, "a limit in time is the age of a session: write per: session");
	if (every)
		ld_error(ld, every, "a limit in time is the age of a session: it has no window");
	if (grant)
		ld_error(ld, grant, "a limit in time is the age of a session: nobody can grant more of it");
}

static void compile_limit(struct loader *ld, struct budget_draft *d, const struct ynode *key)
{
	const struct ynode *floor_node = d->node[BUDGET_FLOOR], *grant_node = d->node[BUDGET_GRANT_MAX];
	struct amount limit, floor, grant;

	if (!d->node[BUDGET_LIMIT]) {
		ld_error(ld, key, "budget %s needs limit:", QUOTED(key->text));
		return;
	}
	if (!value_amount(ld, d->node[BUDGET_LIMIT], &limit))
		return;
	d->budget.unit = limit.unit;
	d->budget.limit = limit.n;
	if (limit.n <= 0)
		ld_error(ld, d->node[BUDGET_LIMIT], "a limit is more than 0: to refuse everything write a deny rule");
	if (limit.unit == UNIT_TIME)
		compile_time(ld, d, key);
	if (d->node[BUDGET_ZERO_COST] && (limit.unit == UNIT_TIME || limit.unit == UNIT_CALLS))
		ld_warn(ld, d->node[BUDGET_ZERO_COST], "zero_cost says nothing about a budget in %s",
			limit.unit == UNIT_TIME ? "time" : "calls");
	if (floor_node && value_amount(ld, floor_node, &floor)) {
		d->budget.floor = floor.n;
		if (floor.unit != limit.unit)
			ld_error(ld, floor_node, "floor and limit are of different units");
		else if (floor.n >= limit.n)
			ld_error(ld, floor_node,
				 "a floor is below its limit: with this one every call would be a review");
	}
	if (grant_node && limit.unit != UNIT_TIME && value_amount(ld, grant_node, &grant)) {
		d->budget.grant_max = grant.n;
		if (grant.unit != limit.unit)
			ld_error(ld, grant_node, "grant_max and limit are of different units");
	}
}

/* ---- windows ---- */

static const struct zone *zone_known(const struct loader *ld, struct str name)
{
	for (const struct zone_link *l = ld->zones; l; l = l->next)
		if (str_eq(l->zone->name, name))
			return l->zone;
	return NULL;
}

static void zone_read(struct loader *ld, const struct ynode *node, const struct zone **ret)
{
	char path[sizeof(ZONE_FOLDER) + ZONE_MAX_NAME], *bytes = NULL;
	struct zone_link *link = arena_array(&ld->tmp, 1, sizeof(*link));
	struct pawl_error err = { 0 };
	size_t n = 0;
	int r;

	memcpy(path, ZONE_FOLDER, sizeof(ZONE_FOLDER));
	memcpy(path + sizeof(ZONE_FOLDER) - 1, node->text.p, node->text.n + 1);
	r = ld->files->read(ld->files->arg, path, &bytes, &n, &err);
	if (r < 0) {
		if (r == PAWL_E_NOMEM)
			ld->nomem = true;
		else
			ld_error(ld, node, "zone %s cannot be read: %s", QUOTED(node->text), err.msg);
		return;
	}
	r = zone_parse((struct str){ bytes, n }, node->text, &ld->box->arena, ret, &err);
	free(bytes);
	if (r == PAWL_E_NOMEM)
		ld->nomem = true;
	else if (r < 0)
		ld_error(ld, node, "zone %s: %s", QUOTED(node->text), err.msg);
	if (r < 0 || !link)
		return;
	*link = (struct zone_link){ ld->zones, *ret };
	ld->zones = link;
}

static void compile_zone(struct loader *ld, const struct ynode *node, const struct zone **ret)
{
	if (str_is(node->text, "UTC"))
		return;
	if (!zone_name_good(node->text)) {
		ld_error(ld, node, "%s: a time zone is named like Europe/Berlin or UTC", QUOTED(node->text));
		return;
	}
	*ret = zone_known(ld, node->text);
	if (*ret)
		return;
	if (ld->files)
		zone_read(ld, node, ret);
	else
		ld_error(ld, node, "zone %s: no time zones can be read here, only UTC is known", QUOTED(node->text));
}

void compile_window(struct loader *ld, const struct ynode *every, const struct ynode *zone, struct window *ret)
{
	static const char *const words[] = {
		[WINDOW_HOUR] = "hour", [WINDOW_DAY] = "day", [WINDOW_WEEK] = "week", [WINDOW_MONTH] = "month"
	};

	for (size_t i = WINDOW_HOUR; every && i < PAWL_LEN(words); i++)
		if (str_is(every->text, words[i]))
			ret->kind = (enum window_kind)i;
	if (every && ret->kind == WINDOW_NONE) {
		ret->kind = WINDOW_SPAN;
		if (span_parse(every->text, &ret->span_ns, NULL) || ret->span_ns < SPAN_LEAST ||
		    ret->span_ns > SPAN_MOST)
			ld_error(ld, every, "every is hour, day, week, month, or a span from 1s to 366d such as 12h");
	}
	if (!zone)
		return;
	if (ret->kind < WINDOW_HOUR)
		ld_error(ld, zone, "a zone says where an hour, day, week or month starts: write every: day");
	compile_zone(ld, zone, &ret->zone);
}

/* ---- the whole ---- */

static void compile_budget(struct loader *ld, const struct ynode *key, uint32_t index)
{
	struct budget_draft d = { .budget = { .then = VERDICT_DENY } };
	struct index_entry proto = { .target = index, .kind = INDEX_BUDGET };

	ld->budget_nodes[index] = key;
	(void)value_id(ld, key, "budget name", &d.budget.id);
	if (key->value->kind != YNODE_MAP) {
		ld_error(ld, key->value, "budget %s wants a map: {per: session, limit: 5 %.*s}", QUOTED(key->text),
			 STR_ARG(ld->pol->currency));
		return;
	}
	schema_walk(ld, "budgets.*", key->value, &d);
	compile_per(ld, &d, key);
	compile_limit(ld, &d, key);
	compile_window(ld, d.node[BUDGET_EVERY], d.node[BUDGET_ZONE], &d.budget.every);
	d.budget.has_match = d.node[BUDGET_MATCH] != NULL;
	ld->pol->budgets[index] = d.budget;
	compile_match(ld, d.node[BUDGET_MATCH], key, proto);
	match_print(ld, INDEX_BUDGET, index, ld->pol->budgets[index].match);
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
