/* policy/compile_uses.c - `uses`: what each tool reaches through the tools it needs, and which denial stops it there.
 * A name that `tools` does not list is a capability such as net: it can be denied and never called.
 * Owns the graph while loading; the names in a tool's closure live in the policy. */
#include "policy/compile.h"

#include <stdio.h>

#define MAX_REACH  256 /* names that one tool reaches: a small file must not ask for gigabytes */
#define ROUND_TEXT 192

struct use_edge {
	uint32_t to; /* a tool's row, or n_tools + a capability's */
	struct str name;
	const struct ynode *node;
};
struct reach {
	uint32_t *to;
	size_t n;
};
struct use_graph {
	struct use_edge *edges;
	uint32_t *first; /* a tool's edges are first[tool] .. first[tool + 1] */
	size_t n_tools, n_edges;
	struct str *names; /* of capabilities */
	uint32_t *named;   /* how many tools use it */
	const struct ynode **said;
	size_t n_names;
	struct reach *reach; /* of tools */
};

struct visit {
	uint32_t tool, at;
};
struct walk {
	struct loader *ld;
	struct use_graph *g;
	enum { FRESH, OPEN, DONE } * state;
	struct visit *stack;
	size_t depth;
	uint32_t *seen; /* tool + 1 that met the name last */
};

/* ---- the graph ---- */

static void collect(struct loader *ld, struct use_graph *g)
{
	for (uint32_t t = 0; t < g->n_tools; t++) {
		const struct ynode *list = ld->use_nodes[t];

		g->first[t] = (uint32_t)g->n_edges;
		for (const struct ynode *e = list ? list->first : NULL; e; e = e->next) {
			struct use_edge *edge = &g->edges[g->n_edges];
			const struct named_tool *known;

			if (!compile_name(ld, e, &edge->name))
				continue;
			known = tool_named(ld, edge->name);
			edge->to = known ? known->tool : UINT32_MAX;
			if (known)
				edge->name = ld->pol->tools[known->tool].name;
			edge->node = e;
			g->n_edges += edge->name.p != NULL;
		}
	}
	g->first[g->n_tools] = (uint32_t)g->n_edges;
}

static int by_name(const void *va, const void *vb)
{
	const struct use_edge *a = *(struct use_edge *const *)va, *b = *(struct use_edge *const *)vb;
	int c = strcmp(a->name.p, b->name.p);

	return c ? c : a < b ? -1 : a > b;
}

/* Equal names get one row. */
static void number_capabilities(struct loader *ld, struct use_graph *g)
{
	struct use_edge **rows = arena_array(&ld->tmp, g->n_edges, sizeof(*rows));
	size_t n = 0;

	g->names = arena_array(&ld->tmp, g->n_edges, sizeof(*g->names));
	g->named = arena_array(&ld->tmp, g->n_edges, sizeof(*g->named));
	g->said = arena_array(&ld->tmp, g->n_edges, sizeof(const struct ynode *));
	if (!rows || !g->names || !g->named || !g->said)
		return;
	for (size_t i = 0; i < g->n_edges; i++)
		if (g->edges[i].to == UINT32_MAX)
			rows[n++] = &g->edges[i];
	if (n)
		qsort(rows, n, sizeof(struct use_edge *), by_name);
	for (size_t i = 0; i < n; i++) {
		if (g->n_names == 0 || !str_eq(g->names[g->n_names - 1], rows[i]->name)) {
			g->names[g->n_names] = rows[i]->name;
			g->said[g->n_names++] = rows[i]->node;
		}
		g->named[g->n_names - 1]++;
		rows[i]->to = (uint32_t)(g->n_tools + g->n_names - 1);
	}
}

static struct str name_of(const struct loader *ld, const struct use_graph *g, uint32_t to)
{
	return to < g->n_tools ? ld->pol->tools[to].name : g->names[to - g->n_tools];
}

/* ---- closures: each tool once, after those that it uses ---- */

static void tell_round(struct walk *w, const struct use_edge *e)
{
	char text[ROUND_TEXT];
	size_t n = 0, at = w->depth;

	while (w->stack[at - 1].tool != e->to)
		at--;
	for (text[0] = '\0'; at <= w->depth && n < sizeof(text); at++) {
		struct str name = w->ld->pol->tools[w->stack[at - 1].tool].name;

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s -> ", STR_ARG(name));
	}
	if (n < sizeof(text))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s", STR_ARG(e->name));
	ld_error(w->ld, e->node, "uses goes round in a circle: %s%s", text, n < sizeof(text) ? "" : "...");
}

static bool reach_add(struct walk *w, uint32_t tool, uint32_t to, uint32_t *out, size_t *n)
{
	if (w->seen[to] == tool + 1 || *n > MAX_REACH)
		return false;
	w->seen[to] = tool + 1;
	if (*n < MAX_REACH)
		out[*n] = to;
	++*n;
	return true;
}

static void close_tool(struct walk *w, uint32_t tool)
{
	struct use_graph *g = w->g;
	struct tool *t = &w->ld->pol->tools[tool];
	uint32_t out[MAX_REACH];
	size_t n = 0;

	for (uint32_t i = g->first[tool]; i < g->first[tool + 1]; i++)
		if (!reach_add(w, tool, g->edges[i].to, out, &n) && n <= MAX_REACH)
			ld_warn(w->ld, g->edges[i].node, "%s is in this list already", QUOTED(g->edges[i].name));
	for (uint32_t i = g->first[tool]; i < g->first[tool + 1]; i++) {
		uint32_t to = g->edges[i].to;

		for (size_t k = 0; to < g->n_tools && k < g->reach[to].n; k++)
			(void)reach_add(w, tool, g->reach[to].to[k], out, &n);
	}
	if (n > MAX_REACH) {
		ld_error(w->ld, w->ld->use_nodes[tool], "uses of %s reaches more than %d names", QUOTED(t->name),
			 MAX_REACH);
		return;
	}
	g->reach[tool].to = arena_array(&w->ld->tmp, n, sizeof(*out));
	t->closure = ld_array(w->ld, n, sizeof(*t->closure));
	if (!g->reach[tool].to || !t->closure)
		return;
	for (size_t i = 0; i < n; i++) {
		g->reach[tool].to[i] = out[i];
		t->closure[i] = name_of(w->ld, g, out[i]);
	}
	g->reach[tool].n = t->n_closure = n;
}

static void visit(struct walk *w, uint32_t tool)
{
	w->state[tool] = OPEN;
	w->stack[w->depth++] = (struct visit){ tool, w->g->first[tool] };
}

static void walk_from(struct walk *w, uint32_t root)
{
	visit(w, root);
	while (w->depth) {
		struct visit *v = &w->stack[w->depth - 1];
		const struct use_edge *e = &w->g->edges[v->at];

		if (v->at == w->g->first[v->tool + 1]) {
			close_tool(w, v->tool);
			w->state[v->tool] = DONE;
			w->depth--;
			continue;
		}
		v->at++;
		if (e->to >= w->g->n_tools || w->state[e->to] == DONE)
			continue;
		if (w->state[e->to] == OPEN)
			tell_round(w, e);
		else
			visit(w, e->to);
	}
}

void compile_uses(struct loader *ld)
{
	struct use_graph *g = arena_array(&ld->tmp, 1, sizeof(*g));
	struct walk w = { .ld = ld, .g = g };
	size_t n = 0;

	if (!g || !ld->use_nodes)
		return;
	g->n_tools = ld->pol->n_tools;
	for (size_t t = 0; t < g->n_tools; t++)
		n += ld->use_nodes[t] ? ld->use_nodes[t]->n : 0;
	g->edges = arena_array(&ld->tmp, n + 1, sizeof(*g->edges));
	g->first = arena_array(&ld->tmp, g->n_tools + 1, sizeof(*g->first));
	g->reach = arena_array(&ld->tmp, g->n_tools, sizeof(*g->reach));
	w.state = arena_array(&ld->tmp, g->n_tools, sizeof(*w.state));
	w.stack = arena_array(&ld->tmp, g->n_tools, sizeof(*w.stack));
	w.seen = arena_array(&ld->tmp, g->n_tools + n, sizeof(*w.seen));
	if (!g->edges || !g->first || !g->reach || !w.state || !w.stack || !w.seen)
		return;
	collect(ld, g);
	number_capabilities(ld, g);
	if (ld->nomem || ld->tmp.failed)
		return;
	ld->uses = g;
	for (uint32_t t = 0; t < g->n_tools; t++)
		if (w.state[t] == FRESH)
			walk_from(&w, t);
}

/* ---- denials that reach a tool through what it uses ---- */

struct look {
	const struct policy *pol;
	int32_t denied; /* the first unconditional deny rule */
	bool asked;     /* an allow or review rule names it */
};

static void look_at(void *arg, uint32_t rule)
{
	struct look *l = arg;
	const struct rule *r = &l->pol->rules[rule];

	if (r->answer != VERDICT_DENY)
		l->asked = true;
	else if (!r->when && !r->unless && l->denied < 0)
		l->denied = (int32_t)rule;
}

static struct look look_up(const struct policy *pol, struct str name, const struct tool *def)
{
	struct look l = { pol, -1, false };

	(void)name_index_find(pol->index, name, def, look_at, &l);
	return l;
}

void uses_denied(struct loader *ld)
{
	const struct use_graph *g = ld->uses;
	struct policy *pol = ld->pol;
	int32_t *denied = g ? arena_array(&ld->tmp, g->n_tools + g->n_names, sizeof(*denied)) : NULL;

	if (!denied || g->n_edges == 0)
		return;
	for (uint32_t i = 0; i < g->n_tools + g->n_names; i++)
		denied[i] = look_up(pol, name_of(ld, g, i), i < g->n_tools ? &pol->tools[i] : NULL).denied;
	for (uint32_t t = 0; t < g->n_tools; t++)
		for (size_t k = 0; k < g->reach[t].n; k++) {
			int32_t by = denied[g->reach[t].to[k]];

			if (by < 0 || (pol->tools[t].denied_use >= 0 && pol->tools[t].denied_use <= by))
				continue;
			pol->tools[t].denied_use = by;
			pol->tools[t].denied_name = pol->tools[t].closure[k];
		}
}

/* A capability that only one place knows is a misspelt one, or one that nobody can deny. */
static void lint_once(struct loader *ld, const struct use_graph *g)
{
	bool *star = arena_array(&ld->tmp, ld->pol->n_rules, sizeof(*star));
	const struct list_entry *e = ld->entries;

	if (!star)
		return;
	for (size_t i = 0; i < ld->n_entries && e[i].ix.kind == INDEX_RULE; i++)
		star[e[i].ix.target] = star[e[i].ix.target] || str_is(e[i].ix.pattern.text, "*");
	for (size_t i = 0; i < g->n_names; i++) {
		struct look l = look_up(ld->pol, g->names[i], NULL);

		if (g->named[i] == 1 && !l.asked && (l.denied < 0 || star[l.denied]))
			ld_warn(ld, g->said[i], "%s is named once only: is it misspelt?", QUOTED(g->names[i]));
	}
}

void lint_uses(struct loader *ld)
{
	const struct use_graph *g = ld->uses;

	if (!g || g->n_edges == 0)
		return;
	lint_once(ld, g);
	for (size_t t = 0; t < g->n_tools; t++) {
		const struct tool *tool = &ld->pol->tools[t];
		struct look l = look_up(ld->pol, tool->name, tool);

		if (tool->denied_use >= 0 && l.asked && l.denied < 0)
			ld_warn(ld, ld->use_nodes[t],
				"tool %s can never run: it uses %s, which rule %s (line %u) denies", QUOTED(tool->name),
				QUOTED(tool->denied_name), QUOTED(ld->pol->rules[tool->denied_use].id),
				ld->pol->rules[tool->denied_use].line);
	}
}
