/* policy/compile_rules.c - `rules`: one verdict, the names it is about, and when. Conditions are compile_cond.c's
 * business. */
#include "policy/compile.h"

struct rule_draft {
	struct rule *rule;
	const struct ynode *node;   /* the map */
	const struct ynode *names;  /* the verdict key's list */
	const struct ynode *second; /* a second verdict key */
	const struct ynode *sticky, *headless;
	const struct ynode *cond[2]; /* when, unless */
};

void set_rule_id(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct rule_draft *d = obj;

	(void)value_id(ld, v->node, "rule id", &d->rule->id);
}

void set_rule_names(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct rule_draft *d = obj;

	(void)ld;
	if (d->names && !d->second)
		d->second = v->key;
	d->names = v->node;
	d->rule->answer = (enum verdict)v->row->number;
}

void set_rule_when(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct rule_draft *d = obj;
	struct condition *c = compile_condition(ld, v->node);

	d->cond[v->row->number != 0] = v->node;
	if (v->row->number == 0)
		d->rule->when = c;
	else
		d->rule->unless = c;
}

void set_rule_sticky(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct rule_draft *d = obj;

	(void)ld;
	d->sticky = v->node;
	d->rule->sticky = (enum stick)v->number; /* the words stand in its order */
}

void set_rule_headless(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct rule_draft *d = obj;

	d->headless = v->node;
	if (str_is(v->node->text, "allow"))
		ld_error(ld, v->node, "headless is deny: attended: false turns a review into deny, never into allow");
	else if (!str_is(v->node->text, "deny"))
		ld_error(ld, v->node, "headless is deny, not %s", QUOTED(v->node->text));
}

static bool has_key(const struct ynode *map, const char *key)
{
	return value_at(map, key) != NULL;
}

/* An unknown key is told already, and is likely the verdict. */
static bool misspelt(const struct ynode *map)
{
	for (const struct ynode *k = map->first; k; k = k->next)
		if (!schema_find("rules[]", k->text))
			return true;
	return false;
}

/* How far a denial is remembered: one without condition is about the tool, one with a condition about that call. */
static void compile_sticky(struct loader *ld, const struct rule_draft *d)
{
	struct rule *r = d->rule;

	if (d->sticky && r->answer != VERDICT_DENY)
		ld_error(ld, d->sticky, "sticky is how far a denial is remembered: this is no deny rule");
	else if (!d->sticky && r->answer == VERDICT_DENY && !r->when && !r->unless)
		r->sticky = STICK_SESSION;
	ld->pol->agent_sticks |= r->sticky == STICK_AGENT;
	if (d->headless && r->answer != VERDICT_REVIEW)
		ld_warn(ld, d->headless, "headless says nothing about a rule that asks nobody");
}

static void compile_rule(struct loader *ld, const struct ynode *node, uint32_t index)
{
	struct rule_draft d = { .rule = &ld->pol->rules[index], .node = node };
	struct index_entry proto = { .target = index };
	size_t first = ld->n_entries;

	d.rule->line = node->line;
	ynode_print(node, d.rule->print);
	ld->rule_nodes[index] = node;
	if (node->kind != YNODE_MAP || node->n == 0) {
		ld_error(ld, node, "a rule is a map: {id: NAME, allow: [TOOLS]}");
		return;
	}
	schema_walk(ld, "rules[]", node, &d);
	if (!has_key(node, "id"))
		ld_error(ld, node, "a rule needs an id");
	if (d.second)
		ld_error(ld, d.second, "a rule has one of allow, review and deny");
	else if (!has_key(node, "allow") && !has_key(node, "review") && !has_key(node, "deny") && !misspelt(node))
		ld_error(ld, node, "a rule needs allow, review or deny");
	if (!d.names)
		return;
	compile_sticky(ld, &d);
	if (d.names->n == 0)
		ld_error(ld, d.names, "a rule without tools can never fire");
	proto.aliases_too = d.rule->answer != VERDICT_ALLOW;
	for (const struct ynode *e = d.names->first; e; e = e->next)
		compile_entry(ld, e, proto);
	if (ld->n_entries == first || ld->n_entries - first < d.names->n)
		return; /* some name is told already, and could be the one */
	refuse_no_name(ld, d.cond[0], d.rule->when, ld->entries + first, ld->n_entries - first);
	refuse_no_name(ld, d.cond[1], d.rule->unless, ld->entries + first, ld->n_entries - first);
}

struct id_row {
	struct str id;
	const struct ynode *node;
};

static int by_id(const void *va, const void *vb)
{
	const struct id_row *a = va, *b = vb;
	int c = strcmp(a->id.p, b->id.p);

	if (c)
		return c;
	if (a->node->line != b->node->line)
		return a->node->line < b->node->line ? -1 : 1;
	return a->node->column < b->node->column ? -1 : a->node->column > b->node->column;
}

static void refuse_equal_ids(struct loader *ld)
{
	struct id_row *ids = arena_array(&ld->tmp, ld->pol->n_rules, sizeof(*ids));
	size_t n = 0, first = 0;

	for (size_t i = 0; ids && i < ld->pol->n_rules; i++)
		if (ld->pol->rules[i].id.p)
			ids[n++] = (struct id_row){ ld->pol->rules[i].id, ld->rule_nodes[i] };
	if (n < 2)
		return;
	qsort(ids, n, sizeof(*ids), by_id);
	for (size_t i = 1; i < n; i++) {
		if (str_eq(ids[i].id, ids[first].id))
			ld_error(ld, ids[i].node, "the id %s is the rule's in line %u already", QUOTED(ids[i].id),
				 ids[first].node->line);
		else
			first = i;
	}
}

void compile_rules(struct loader *ld)
{
	const struct ynode *list = ld->part[PART_RULES];
	uint32_t i = 0;

	if (!list)
		return;
	ld->pol->rules = ld_array(ld, list->n, sizeof(*ld->pol->rules));
	ld->rule_nodes = arena_array(&ld->tmp, list->n, sizeof(*ld->rule_nodes));
	if (!ld->pol->rules || !ld->rule_nodes)
		return;
	ld->pol->n_rules = list->n;
	for (const struct ynode *e = list->first; e; e = e->next)
		compile_rule(ld, e, i++);
	refuse_equal_ids(ld);
}
