/* policy/compile_breakers.c - `breakers`: what opens a circuit, for whom, and how it closes again. */
#include "policy/compile.h"

struct breaker_draft {
	struct breaker breaker; /* first: the schema stores by offset */
	const struct ynode *node[BREAKER_NODES];
};

void set_breaker_node(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct breaker_draft *d = obj;

	d->node[v->row->number] = v->node;
	if (v->row->number == BREAKER_OPENS)
		schema_walk(ld, "breakers.*.open", v->node, obj);
	else if (v->row->number == BREAKER_PROBES && (v->node->kind != YNODE_TEXT || !str_is(v->node->text, "1")))
		ld_error(ld, v->node, "probes is 1: one call at a time tries whether it is over");
}

static void compile_breaker(struct loader *ld, const struct ynode *key, uint32_t index)
{
	struct breaker_draft d = { .breaker = { .within_ns = 60 * NS_PER_SEC, .cool_down_ns = 30 * NS_PER_SEC } };
	struct index_entry proto = { .target = index, .kind = INDEX_BREAKER };
	struct per per = { .has_scope = false };

	ld->breaker_nodes[index] = key;
	(void)value_id(ld, key, "breaker name", &d.breaker.id);
	if (key->value->kind != YNODE_MAP) {
		ld_error(ld, key->value, "breaker %s wants a map: {match: TOOL, open: {failures: 5, within: 1m}}",
			 QUOTED(key->text));
		return;
	}
	schema_walk(ld, "breakers.*", key->value, &d);
	if (!value_at(key->value, "open"))
		ld_error(ld, key, "breaker %s needs open: {failures: 5, within: 1m}", QUOTED(key->text));
	else if (d.node[BREAKER_OPENS] && !value_at(d.node[BREAKER_OPENS], "failures") &&
		 !value_at(d.node[BREAKER_OPENS], "denials") && !value_at(d.node[BREAKER_OPENS], "breaches") &&
		 !value_at(d.node[BREAKER_OPENS], "cost"))
		ld_error(ld, d.node[BREAKER_OPENS],
			 "a breaker is opened by failures, by denials or by breaches of the watch: this one by none of them");
	if (d.node[BREAKER_PER] && !value_per(d.node[BREAKER_PER], &per))
		ld_error(ld, d.node[BREAKER_PER],
			 "per is session, agent, tenant, global or tool; or a list of one of them and tool");
	if (per.tool && d.breaker.breaches)
		ld_error(ld, d.node[BREAKER_PER], "what the watch stops is of no tool: a breaker per tool cannot count breaches");
	d.breaker.has_scope = per.has_scope;
	d.breaker.scope = per.scope;
	d.breaker.per_tool = per.tool;
	d.breaker.has_match = d.node[BREAKER_MATCH] != NULL;
	ld->pol->breakers[index] = d.breaker;
	compile_match(ld, d.node[BREAKER_MATCH], key, proto);
	match_print(ld, INDEX_BREAKER, index, ld->pol->breakers[index].match);
}

void compile_breakers(struct loader *ld)
{
	const struct ynode *map = ld->part[PART_BREAKERS];
	uint32_t i = 0;

	if (!map)
		return;
	if (map->n > PAWL_MAX_BREAKERS) {
		ld_error(ld, map, "%zu breakers, at most %d", map->n, PAWL_MAX_BREAKERS);
		return;
	}
	ld->pol->breakers = ld_array(ld, map->n, sizeof(*ld->pol->breakers));
	ld->breaker_nodes = arena_array(&ld->tmp, map->n, sizeof(*ld->breaker_nodes));
	if (!ld->pol->breakers || !ld->breaker_nodes)
		return;
	ld->pol->n_breakers = map->n;
	for (const struct ynode *key = map->first; key; key = key->next)
		compile_breaker(ld, key, i++);
}
