/* policy/compile_tools.c - `tools`: canonical names, their aliases, what a call costs; and the list entries of rules,
 * budgets and breakers that speak of them. Owns the sorted table of names while loading. */
#include "policy/compile.h"
#include "policy/money.h"

#define PRICE_ABSURD                                                                                    \
	(10000 * MONEY_PER_UNIT) /* a call: a price a million tokens in the wrong place looks like this \
				  */
#define PRICE_ODD (100 * MONEY_PER_UNIT)

struct tool_draft {
	struct tool tool; /* first: the schema stores by offset */
	const struct ynode *aliases, *uses;
};

bool compile_name(struct loader *ld, const struct ynode *node, struct str *ret)
{
	char folded[PAWL_MAX_TOOL + 1];
	struct pawl_error err;

	if (node->kind != YNODE_TEXT || value_missing(node)) {
		ld_error(ld, node, "a tool's name is due here (if it is the word itself, quote it)");
		return false;
	}
	if (tool_name_fold(node->text, folded, &err)) {
		ld_error(ld, node, "%s: %s", QUOTED(node->text), err.msg);
		return false;
	}
	*ret = ld_text(ld, str_of(folded));
	return ret->p != NULL;
}

void set_aliases(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct tool_draft *d = obj;

	(void)ld;
	d->aliases = v->node;
}

void set_uses(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct tool_draft *d = obj;

	(void)ld;
	d->uses = v->node;
}

void set_cost(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct tool *t = &((struct tool_draft *)obj)->tool;
	int64_t cost;

	if (!value_money(ld, v->node, &cost))
		return;
	if (cost > PRICE_ABSURD)
		ld_error(ld, v->node, "%s of more than 10,000 a call is absurd: is it a price a million?", v->row->key);
	else if (cost > PRICE_ODD)
		ld_warn(ld, v->node, "%s of more than 100 a call: is it a price a thousand or a million?", v->row->key);
	if (v->row->number == 0) {
		t->has_cost = true;
		t->cost = cost;
	} else {
		t->has_default_cost = true;
		t->default_cost = cost;
	}
}

void set_tool_paths(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct tool *t = &((struct tool_draft *)obj)->tool;

	if (v->row->number == 0)
		value_arg_paths(ld, v->node, v->row->key, &t->volatile_paths, &t->n_volatile);
	else
		value_arg_paths(ld, v->node, v->row->key, &t->fold_paths, &t->n_fold);
}

static int by_name(const void *va, const void *vb)
{
	const struct named_tool *a = va, *b = vb;
	int c = memcmp(a->name.p, b->name.p, a->name.n < b->name.n ? a->name.n : b->name.n);

	if (c)
		return c;
	if (a->name.n != b->name.n)
		return a->name.n < b->name.n ? -1 : 1;
	if (a->alias != b->alias)
		return a->alias ? 1 : -1;
	if (a->node->line != b->node->line)
		return a->node->line < b->node->line ? -1 : 1;
	return a->node->column < b->node->column ? -1 : a->node->column > b->node->column;
}

static void add_name(struct loader *ld, const struct ynode *node, uint32_t tool, bool alias)
{
	struct str name;

	if (!compile_name(ld, node, &name))
		return;
	if (!alias)
		ld->pol->tools[tool].name = name;
	ld->names[ld->n_names++] = (struct named_tool){ name, tool, alias, node };
}

/* Two tools behind one name would let the weaker one's rules decide. Twice in one tool is only untidy. */
static void refuse_shared(struct loader *ld)
{
	struct named_tool *names = ld->names;
	size_t kept = 0;

	for (size_t i = 0; i < ld->n_names; i++) {
		const struct named_tool *n = &names[i], *before = kept ? &names[kept - 1] : NULL;

		if (!before || !str_eq(before->name, n->name)) {
			names[kept++] = *n;
			continue;
		}
		if (n->tool != before->tool)
			ld_error(ld, n->node, "%s is %s in line %u already: one name, one tool", QUOTED(n->name),
				 before->alias ? "another tool's alias" : "a tool", before->node->line);
		else
			ld_warn(ld, n->node, "%s is in line %u already (names are compared in lower case)",
				QUOTED(n->name), before->node->line);
	}
	ld->n_names = kept;
}

static void compile_tool(struct loader *ld, const struct ynode *key, uint32_t index)
{
	struct tool_draft d = { .tool = { .lease_ns = 15 * 60 * NS_PER_SEC, .denied_use = -1 } };

	add_name(ld, key, index, false);
	if (value_missing(key->value) || key->value->kind != YNODE_MAP) {
		ld_error(ld, value_missing(key->value) ? key : key->value,
			 "tool %s wants a map; {} when there is nothing to say", QUOTED(key->text));
		return;
	}
	schema_walk(ld, "tools.*", key->value, &d);
	if (d.tool.has_cost && d.tool.has_default_cost)
		ld_warn(ld, key, "tool %s has a cost, so its default_cost is never used", QUOTED(key->text));
	for (const struct ynode *e = d.aliases ? d.aliases->first : NULL; e; e = e->next)
		add_name(ld, e, index, true);
	d.tool.name = ld->pol->tools[index].name;
	ynode_print(key, d.tool.print);
	ld->pol->tools[index] = d.tool;
	ld->use_nodes[index] = d.uses;
}

void compile_tools(struct loader *ld)
{
	const struct ynode *map = ld->part[PART_TOOLS];
	size_t rows = 0;
	uint32_t i = 0;

	if (!map)
		return;
	for (const struct ynode *key = map->first; key; key = key->next) {
		rows++;
		for (const struct ynode *k = key->value->first; key->value->kind == YNODE_MAP && k; k = k->next)
			rows += str_is(k->text, "aliases") ? k->value->n : 0;
	}
	ld->pol->tools = ld_array(ld, map->n, sizeof(*ld->pol->tools));
	ld->names = arena_array(&ld->tmp, rows, sizeof(*ld->names));
	ld->use_nodes = arena_array(&ld->tmp, map->n, sizeof(const struct ynode *));
	if (!ld->pol->tools || !ld->names || !ld->use_nodes)
		return;
	ld->pol->n_tools = map->n;
	for (const struct ynode *key = map->first; key; key = key->next)
		compile_tool(ld, key, i++);
	qsort(ld->names, ld->n_names, sizeof(*ld->names), by_name);
	refuse_shared(ld);
}

const struct named_tool *tool_named(const struct loader *ld, struct str folded)
{
	size_t lo = 0, hi = ld->n_names;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		struct str name = ld->names[mid].name;
		int c = memcmp(folded.p, name.p, folded.n < name.n ? folded.n : name.n);

		if (c == 0 && folded.n == name.n)
			return &ld->names[mid];
		if (c < 0 || (c == 0 && folded.n < name.n))
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

/* A glob is folded like a name; only its stars and question marks are not a name's bytes. */
static bool fold_glob(struct loader *ld, const struct ynode *node, struct str *ret)
{
	char name[PAWL_MAX_TOOL + 1], folded[PAWL_MAX_TOOL + 1];
	struct str s = node->text;
	struct pawl_error err;

	if (s.n > PAWL_MAX_TOOL) {
		ld_error(ld, node, "%s is longer than a tool's name can be (%d)", QUOTED(s), PAWL_MAX_TOOL);
		return false;
	}
	for (size_t i = 0; i < s.n; i++)
		name[i] = s.p[i] == '*' || s.p[i] == '?' ? '_' : s.p[i];
	if (tool_name_fold((struct str){ name, s.n }, folded, &err)) {
		ld_error(ld, node, "%s: %s; in a pattern also * and ?", QUOTED(s), err.msg);
		return false;
	}
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '*' || s.p[i] == '?')
			folded[i] = s.p[i];
	*ret = ld_text(ld, (struct str){ folded, s.n });
	return ret->p != NULL;
}

static bool entry_room(struct loader *ld)
{
	size_t cap = ld->cap_entries ? ld->cap_entries * 2 : 64;
	struct list_entry *grown;

	if (ld->n_entries < ld->cap_entries)
		return true;
	grown = realloc(ld->entries, cap * sizeof(*grown));
	if (!grown) {
		ld->nomem = true;
		return false;
	}
	ld->entries = grown;
	ld->cap_entries = cap;
	return true;
}

void compile_entry(struct loader *ld, const struct ynode *node, struct index_entry proto)
{
	const struct named_tool *known;
	struct pawl_error err;
	struct str text;
	bool glob;
	int r;

	glob = node->kind == YNODE_TEXT &&
	       (memchr(node->text.p, '*', node->text.n) || memchr(node->text.p, '?', node->text.n));
	if (!(glob ? fold_glob(ld, node, &text) : compile_name(ld, node, &text)) || !entry_room(ld))
		return;
	known = glob ? NULL : tool_named(ld, text);
	if (known && ld->pol->tools[known->tool].name.p)
		text = ld->pol->tools[known->tool].name;
	r = pattern_compile(text, &proto.pattern, &err);
	if (r)
		ld_failed(ld, node, r, &err);
	else
		ld->entries[ld->n_entries++] = (struct list_entry){ proto, node };
}

void compile_match(struct loader *ld, const struct ynode *match, const struct ynode *key, struct index_entry proto)
{
	const struct ynode star = { .kind = YNODE_TEXT, .text = STR("*"), .line = key->line, .column = key->column };

	if (!match) { /* in the index like the others, so that nobody has to ask twice */
		compile_entry(ld, &star, proto);
		if (ld->n_entries && ld->entries[ld->n_entries - 1].node == &star)
			ld->entries[ld->n_entries - 1].node = key;
	} else if (match->kind == YNODE_TEXT) {
		compile_entry(ld, match, proto);
	} else if (match->kind == YNODE_MAP || match->n == 0) {
		ld_error(ld, match, "match is a tool's name, a pattern, or a list of them");
	} else {
		for (const struct ynode *e = match->first; e; e = e->next)
			compile_entry(ld, e, proto);
	}
}
