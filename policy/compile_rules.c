/* policy/compile_rules.c - `rules`: one verdict, the names it is about, and when. Conditions are compile_cond.c's
 * business. */
#include "policy/compile.h"

struct rule_draft {
	struct rule *rule;
	const struct ynode *node;   /* the map */
	const struct ynode *names;  /* the verdict key's list */
	const struct ynode *second; /* a second verdict key */
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

	if (v->row->number == 0)
		d->rule->when = c;
	else
		d->rule->unless = c;
}

static bool has_key(const struct ynode *map, const char *key)
{
	for (const struct ynode *k = map->first; k; k = k->next)
		if (str_is(k->text, key))
			return true;
	return false;
}

/* An unknown key is told already, and is likely the verdict. */
static bool misspelt(const struct ynode *map)
{
	for (const struct ynode *k = map->first; k; k = k->next)
		if (!schema_find("rules[]", k->text))
			return true;
	return false;
}

static void compile_rule(struct loader *ld, const struct ynode *node, uint32_t index)
{
	struct rule_draft d = { .rule = &ld->pol->rules[index], .node = node };
	struct index_entry proto = { .target = index };

	d.rule->line = node->line;
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
	if (d.names->n == 0)
		ld_error(ld, d.names, "a rule without tools can never fire");
	proto.aliases_too = d.rule->answer != VERDICT_ALLOW;
	for (const struct ynode *e = d.names->first; e; e = e->next)
		compile_entry(ld, e, proto);
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
