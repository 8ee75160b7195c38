/* policy/match.c - the index of names: which rules, budgets and breakers speak of a tool, and which tool a name stands
 * for. Owns its tables and copies of the aliases. Borrows, for as long as the policy lives, the patterns' text and the
 * names of pol->tools. Must not look at conditions or arguments.
 *
 * Patterns lie in slots by what they say literally: whole names in one kind of slot, globs by their prefix in another.
 * A lookup hashes the name once, byte by byte, and asks at each prefix length that occurs; so it costs the same beside
 * 50 and 1,000 rules, but for those that match. For the tools that the policy lists, aliases included, that is done
 * once, at build. */
#include "policy/condition.h"

#include <stdlib.h>

#define INDEX_MAX_PAIRS (UINT32_C(4) << 20) /* tool x rule: 16 MiB; a policy beyond it is refused, not slow */
#define NO_ROW          UINT32_MAX

struct slot { /* entries with one literal prefix; those of budgets and breakers lie before rules, ascending */
	uint64_t hash;
	struct str prefix;
	bool whole;
	uint32_t first, n_bits, n; /* n 0 = free; n_bits: not of rules */
};

struct alias_slot {
	struct str name;
	uint32_t tool; /* NO_ROW = free */
};

struct known { /* what a listed tool's rules are: ix->pairs[first .. first + n) */
	uint32_t first, n;
	struct index_hits hits;
};

struct name_index {
	struct index_entry *entries;
	size_t n_entries;
	struct slot *slots;
	size_t slot_mask;
	uint64_t lengths[3]; /* bit i: a glob prefix of i bytes exists */
	const struct tool *tools;
	size_t n_tools;
	struct alias_slot *names;
	size_t name_mask;
	struct alias_row *aliases; /* sorted by tool; text in alias_text */
	size_t n_aliases;
	char *alias_text;
	struct known *known;
	uint32_t *pairs;
	size_t n_pairs, cap_pairs;
	uint64_t *seen; /* build only: one bit a rule */
	size_t seen_words;
};

#define HASH_START UINT64_C(0xcbf29ce484222325)

static uint64_t hash_byte(uint64_t h, char c)
{
	return (h ^ (unsigned char)c) * UINT64_C(0x100000001b3);
}

static uint64_t hash_text(struct str s)
{
	uint64_t h = HASH_START;

	for (size_t i = 0; i < s.n; i++)
		h = hash_byte(h, s.p[i]);
	return h;
}

/* FNV's low bits alone are weak. The kind is part of the place, so that `a` and `a*` do not meet. */
static size_t place(uint64_t h, bool whole)
{
	h = (h + whole) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(h >> 32);
}

static size_t table_size(size_t rows)
{
	size_t n = 8;

	while (n < rows * 2)
		n *= 2;
	return n;
}

/* The slot of this prefix, or the free one where it would be. */
static struct slot *slot_find(const struct name_index *ix, uint64_t h, struct str prefix, bool whole)
{
	size_t i = place(h, whole) & ix->slot_mask;

	while (ix->slots[i].n &&
	       (ix->slots[i].hash != h || ix->slots[i].whole != whole || !str_eq(ix->slots[i].prefix, prefix)))
		i = (i + 1) & ix->slot_mask;
	return &ix->slots[i];
}

static bool entry_whole(const struct index_entry *e)
{
	return e->pattern.prefix_n == e->pattern.text.n;
}

static int entry_order(const void *va, const void *vb)
{
	const struct index_entry *a = va, *b = vb;
	int by;

	if (entry_whole(a) != entry_whole(b))
		return entry_whole(a) ? -1 : 1;
	if (a->pattern.prefix_n != b->pattern.prefix_n)
		return a->pattern.prefix_n < b->pattern.prefix_n ? -1 : 1;
	by = a->pattern.prefix_n ? memcmp(a->pattern.text.p, b->pattern.text.p, a->pattern.prefix_n) : 0;
	if (by != 0)
		return by;
	if (a->kind != b->kind)
		return a->kind > b->kind ? -1 : 1;
	return a->target < b->target ? -1 : a->target > b->target;
}

static void slots_fill(struct name_index *ix)
{
	for (size_t i = 0; i < ix->n_entries; i++) {
		const struct index_entry *e = &ix->entries[i];
		struct str prefix = { e->pattern.text.p, e->pattern.prefix_n };
		uint64_t h = hash_text(prefix);
		struct slot *s;

		if (prefix.n > PAWL_MAX_TOOL)
			continue; /* no name is that long */
		s = slot_find(ix, h, prefix, entry_whole(e));
		if (s->n == 0)
			*s = (struct slot){ h, prefix, .whole = entry_whole(e), .first = (uint32_t)i };
		s->n++;
		s->n_bits += e->kind != INDEX_RULE;
		if (!s->whole)
			ix->lengths[prefix.n / 64] |= UINT64_C(1) << prefix.n % 64;
	}
}

/* ---- a name that `tools` does not list: the slots of its prefixes, merged in order of rules ---- */

struct walk {
	const struct index_entry *at, *end;
};
struct found {
	struct walk walks[PAWL_MAX_TOOL + 2];
	size_t n;
	struct index_hits hits;
};

static void found_add(const struct name_index *ix, const struct slot *s, struct str name, struct found *f)
{
	const struct index_entry *e = &ix->entries[s->first];

	for (uint32_t i = 0; i < s->n_bits; i++)
		if (pattern_match(&e[i].pattern, name))
			*(e[i].kind == INDEX_BUDGET ? &f->hits.budgets : &f->hits.breakers) |= UINT32_C(1)
											       << (e[i].target & 31);
	if (s->n > s->n_bits)
		f->walks[f->n++] = (struct walk){ e + s->n_bits, e + s->n };
}

static void find_slots(const struct name_index *ix, struct str name, struct found *f)
{
	uint64_t h = HASH_START;

	f->n = 0;
	f->hits = (struct index_hits){ 0, 0 };
	if (name.n > PAWL_MAX_TOOL)
		return;
	for (size_t len = 0;; len++) {
		if (ix->lengths[len / 64] >> len % 64 & 1) {
			const struct slot *s = slot_find(ix, h, (struct str){ name.p, len }, false);

			if (s->n)
				found_add(ix, s, name, f);
		}
		if (len == name.n)
			break;
		h = hash_byte(h, name.p[len]);
	}
	if (slot_find(ix, h, name, true)->n)
		found_add(ix, slot_find(ix, h, name, true), name, f);
}

/* by_alias: only rules that look at aliases; budgets and breakers are then not the caller's business. */
static struct index_hits find_name(const struct name_index *ix, struct str name, bool by_alias,
				   void (*each)(void *, uint32_t), void *arg)
{
	uint64_t next = 0; /* lowest rule that has not been reported */
	struct found f;

	find_slots(ix, name, &f);
	while (f.n) {
		struct walk *w = f.walks;
		const struct index_entry *e;

		for (size_t i = 1; i < f.n; i++)
			if (f.walks[i].at->target < w->at->target)
				w = &f.walks[i];
		e = w->at++;
		if (w->at == w->end)
			*w = f.walks[--f.n];
		if (e->target < next || (by_alias && !e->aliases_too) || !pattern_match(&e->pattern, name))
			continue;
		next = (uint64_t)e->target + 1;
		each(arg, e->target);
	}
	return f.hits;
}

/* ---- listed tools ---- */

static void mark(void *arg, uint32_t rule)
{
	struct name_index *ix = arg;

	ix->seen[rule / 64] |= UINT64_C(1) << rule % 64;
}

static int pairs_add(struct name_index *ix, uint32_t rule, struct pawl_error *err)
{
	if (ix->n_pairs == ix->cap_pairs) {
		size_t cap = ix->cap_pairs ? ix->cap_pairs * 2 : 256;
		uint32_t *p;

		if (ix->n_pairs >= INDEX_MAX_PAIRS)
			return pawl_fail(err, PAWL_E_LIMIT, "rules and tools match in more than %u ways",
					 INDEX_MAX_PAIRS);
		p = realloc(ix->pairs, cap * sizeof(*p));
		if (!p)
			return pawl_fail(err, PAWL_E_NOMEM, "no memory for the index of rules");
		ix->pairs = p;
		ix->cap_pairs = cap;
	}
	ix->pairs[ix->n_pairs++] = rule;
	return 0;
}

/* Takes the marked rules, ascending, and clears the marks. */
static int known_close(struct name_index *ix, struct known *k, struct pawl_error *err)
{
	k->first = (uint32_t)ix->n_pairs;
	for (size_t w = 0; w < ix->seen_words; w++)
		for (; ix->seen[w]; ix->seen[w] &= ix->seen[w] - 1) {
			int r = pairs_add(ix, (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(ix->seen[w]), err);

			if (r < 0)
				return r;
		}
	k->n = (uint32_t)ix->n_pairs - k->first;
	return 0;
}

static int known_build(struct name_index *ix, struct pawl_error *err)
{
	size_t a = 0;
	int r = 0;

	ix->n_pairs = 0;
	if (ix->seen_words)
		memset(ix->seen, 0, ix->seen_words * sizeof(*ix->seen));
	for (size_t t = 0; r == 0 && t < ix->n_tools; t++) {
		ix->known[t].hits = find_name(ix, ix->tools[t].name, false, mark, ix);
		for (; a < ix->n_aliases && ix->aliases[a].tool == t; a++)
			(void)find_name(ix, ix->aliases[a].alias, true, mark, ix);
		r = known_close(ix, &ix->known[t], err);
	}
	return r;
}

/* ---- names and aliases ---- */

static struct alias_slot *name_slot(const struct name_index *ix, struct str name)
{
	size_t i = place(hash_text(name), false) & ix->name_mask;

	while (ix->names[i].tool != NO_ROW && !str_eq(ix->names[i].name, name))
		i = (i + 1) & ix->name_mask;
	return &ix->names[i];
}

static int name_add(struct name_index *ix, struct str name, uint32_t tool, struct pawl_error *err)
{
	struct alias_slot *s = name_slot(ix, name);

	if (s->tool != NO_ROW && s->tool != tool)
		return pawl_fail(err, PAWL_E_POLICY, "the name \"%.*s\" stands for two tools", STR_ARG(name));
	*s = (struct alias_slot){ name, tool };
	return 0;
}

/* A fresh table of canonical names and the aliases that ix holds. */
static int names_build(struct name_index *ix, struct pawl_error *err)
{
	size_t size = table_size(ix->n_tools + ix->n_aliases);
	int r = 0;

	free(ix->names);
	ix->names = calloc(size, sizeof(*ix->names));
	if (!ix->names)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the index of tools");
	ix->name_mask = size - 1;
	for (size_t i = 0; i < size; i++)
		ix->names[i].tool = NO_ROW;
	for (size_t t = 0; r == 0 && t < ix->n_tools; t++)
		r = name_add(ix, ix->tools[t].name, (uint32_t)t, err);
	for (size_t i = 0; r == 0 && i < ix->n_aliases; i++)
		r = name_add(ix, ix->aliases[i].alias, ix->aliases[i].tool, err);
	return r;
}

static int alias_order(const void *va, const void *vb)
{
	const struct alias_row *a = va, *b = vb;

	return a->tool < b->tool ? -1 : a->tool > b->tool;
}

static int aliases_copy(struct name_index *ix, const struct alias_row *rows, size_t n, struct pawl_error *err)
{
	size_t bytes = 1;
	char *p;

	for (size_t i = 0; i < n; i++) {
		if (rows[i].tool >= ix->n_tools)
			return pawl_fail(err, PAWL_E_POLICY, "alias \"%.*s\" of a tool that is not listed",
					 STR_ARG(rows[i].alias));
		bytes += rows[i].alias.n;
	}
	ix->alias_text = p = malloc(bytes);
	ix->aliases = calloc(n + 1, sizeof(*ix->aliases));
	if (!p || !ix->aliases)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for aliases");
	for (size_t i = 0; i < n; i++) {
		if (rows[i].alias.n)
			memcpy(p, rows[i].alias.p, rows[i].alias.n);
		ix->aliases[i] = (struct alias_row){ { p, rows[i].alias.n }, rows[i].tool };
		p += rows[i].alias.n;
	}
	qsort(ix->aliases, n, sizeof(*ix->aliases), alias_order);
	ix->n_aliases = n;
	return 0;
}

int name_index_aliases(struct name_index *ix, const struct alias_row *rows, size_t n, struct pawl_error *err)
{
	int r;

	free(ix->alias_text);
	free(ix->aliases);
	ix->alias_text = NULL;
	ix->aliases = NULL;
	ix->n_aliases = 0;
	r = aliases_copy(ix, rows, n, err);
	if (r == 0)
		r = names_build(ix, err);
	return r == 0 ? known_build(ix, err) : r;
}

/* ---- the whole ---- */

static int index_alloc(struct name_index *ix, const struct index_entry *rows, size_t n, struct pawl_error *err)
{
	size_t size = table_size(n);
	uint32_t top = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i].kind == INDEX_RULE && rows[i].target > top)
			top = rows[i].target;
	ix->slot_mask = size - 1;
	ix->seen_words = n ? top / 64 + (size_t)1 : 0;
	ix->entries = calloc(n + 1, sizeof(*ix->entries));
	ix->slots = calloc(size, sizeof(*ix->slots));
	ix->known = calloc(ix->n_tools + 1, sizeof(*ix->known));
	ix->seen = calloc(ix->seen_words + 1, sizeof(*ix->seen));
	if (!ix->entries || !ix->slots || !ix->known || !ix->seen)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the index of rules");
	if (n)
		memcpy(ix->entries, rows, n * sizeof(*rows));
	ix->n_entries = n;
	return 0;
}

int name_index_new(const struct policy *pol, const struct index_entry *rows, size_t n, struct name_index **ret,
		   struct pawl_error *err)
{
	struct name_index *ix;
	int r;

	if (n > UINT32_MAX / 4 || pol->n_tools >= NO_ROW)
		return pawl_fail(err, PAWL_E_LIMIT, "too many rules or tools");
	ix = calloc(1, sizeof(*ix));
	if (!ix)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the index of rules");
	ix->tools = pol->tools;
	ix->n_tools = pol->n_tools;
	r = index_alloc(ix, rows, n, err);
	if (r == 0) {
		if (n)
			qsort(ix->entries, n, sizeof(*ix->entries), entry_order);
		slots_fill(ix);
		r = names_build(ix, err);
	}
	if (r == 0)
		r = known_build(ix, err);
	if (r < 0) {
		name_index_free(ix);
		return r;
	}
	*ret = ix;
	return 0;
}

void name_index_free(struct name_index *ix)
{
	if (!ix)
		return;
	free(ix->entries);
	free(ix->slots);
	free(ix->names);
	free(ix->aliases);
	free(ix->alias_text);
	free(ix->known);
	free(ix->pairs);
	free(ix->seen);
	free(ix);
}

struct index_hits name_index_find(const struct name_index *ix, struct str canonical, const struct tool *def,
				  void (*each)(void *arg, uint32_t rule), void *arg)
{
	const struct known *k;

	if (!def)
		return find_name(ix, canonical, false, each, arg);
	k = &ix->known[def - ix->tools];
	for (uint32_t i = 0; i < k->n; i++)
		each(arg, ix->pairs[k->first + i]);
	return k->hits;
}

bool name_index_spells(const struct name_index *ix, struct str name)
{
	return name.n <= PAWL_MAX_TOOL && slot_find(ix, hash_text(name), name, true)->n > 0;
}

struct str tool_canonical(const struct policy *pol, struct str folded, const struct tool **ret_tool)
{
	const struct alias_slot *s = name_slot(pol->index, folded);

	*ret_tool = s->tool == NO_ROW ? NULL : &pol->tools[s->tool];
	return *ret_tool ? (*ret_tool)->name : folded;
}
