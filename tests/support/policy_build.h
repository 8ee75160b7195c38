/* tests/support/policy_build.h - a struct policy made by hand, for tests of the rooms below the loader.
 * All in a header: a test that does not need it must not have to link policy/. Never frees but as a whole. */
#ifndef TEST_POLICY_BUILD_H
#define TEST_POLICY_BUILD_H
#include "policy/condition.h"

#include <stdlib.h>

struct pb {
	struct policy pol;
	struct tool tools[64];
	struct rule rules[2048];
	struct index_entry entries[4096];
	size_t n_entries;
	struct alias_row aliases[256];
	size_t n_aliases;
	void *heap[8192];
	size_t n_heap;
	struct regex *regexes[64];
	size_t n_regexes;
};

static inline void *pb_mem(struct pb *b, size_t n)
{
	void *p = calloc(1, n);

	if (!p || b->n_heap == PAWL_LEN(b->heap))
		abort();
	return b->heap[b->n_heap++] = p;
}

static inline struct str pb_text(struct pb *b, const char *z)
{
	char *p = pb_mem(b, strlen(z) + 1);

	memcpy(p, z, strlen(z) + 1);
	return str_of(p);
}

static inline struct pb *pb_new(void)
{
	struct pb *b = calloc(1, sizeof(*b));

	if (!b)
		abort();
	b->pol.tools = b->tools;
	b->pol.rules = b->rules;
	b->pol.fallback = VERDICT_DENY;
	b->pol.attended = true;
	b->pol.reviews =
	    (struct review_rules){ .timeout_ns = 600 * NS_PER_SEC, .pending = 20, .abort_hold_ns = 60 * NS_PER_SEC };
	return b;
}

static inline void pb_free(struct pb *b)
{
	name_index_free(b->pol.index);
	for (size_t i = 0; i < b->n_regexes; i++)
		regex_free(b->regexes[i]);
	for (size_t i = 0; i < b->n_heap; i++)
		free(b->heap[i]);
	free(b);
}

/* "a|b|c" -> texts; returns how many */
static inline size_t pb_split(struct pb *b, const char *list, struct str **ret)
{
	struct str *v = pb_mem(b, (strlen(list) + 1) * sizeof(*v));
	size_t n = 0;

	for (const char *p = list; *p; p += *p == '|') {
		size_t len = strcspn(p, "|");
		char *t = pb_mem(b, len + 1);

		memcpy(t, p, len);
		v[n++] = (struct str){ t, len };
		p += len;
	}
	*ret = v;
	return n;
}

static inline struct tool *pb_tool(struct pb *b, const char *name, const char *aliases)
{
	struct tool *t = &b->tools[b->pol.n_tools];
	struct str *v;
	size_t n = pb_split(b, aliases, &v);

	t->name = pb_text(b, name);
	t->lease_ns = 900 * NS_PER_SEC;
	t->denied_use = -1;
	for (size_t i = 0; i < n; i++)
		b->aliases[b->n_aliases++] = (struct alias_row){ v[i], (uint32_t)b->pol.n_tools };
	b->pol.n_tools++;
	return t;
}

static inline void pb_entry(struct pb *b, const char *glob, uint32_t target, enum index_kind kind, bool aliases_too)
{
	struct index_entry *e = &b->entries[b->n_entries++];

	if (pattern_compile(pb_text(b, glob), &e->pattern, NULL) < 0)
		abort();
	e->target = target;
	e->kind = kind;
	e->aliases_too = aliases_too;
}

/* globs: "a|b*"; conditions may be NULL */
static inline struct rule *pb_rule(struct pb *b, enum verdict answer, const char *globs, struct condition *when,
				   struct condition *unless)
{
	uint32_t i = (uint32_t)b->pol.n_rules++;
	struct rule *r = &b->rules[i];
	struct str *v;
	size_t n = pb_split(b, globs, &v);

	*r = (struct rule){ .id = pb_text(b, "r"), .answer = answer, .when = when, .unless = unless };
	for (size_t k = 0; k < n; k++)
		pb_entry(b, v[k].p, i, INDEX_RULE, answer != VERDICT_ALLOW);
	return r;
}

/* "1.5", "-3" -> nine decimals */
static inline fixed9 pb_number(const char *p)
{
	bool minus = *p == '-';
	int scale = 9, point = 0;
	fixed9 n = 0;

	for (p += minus; *p; p++) {
		if (*p == '.') {
			point = 1;
			continue;
		}
		n = n * 10 + (*p - '0');
		scale -= point;
	}
	while (scale-- > 0)
		n *= 10;
	return minus ? -n : n;
}

/* "text", "#1.5" a number, "!true" a bool */
static inline struct scalar pb_scalar(struct str s)
{
	if (s.p[0] == '#')
		return (struct scalar){ .kind = SCALAR_NUMBER, .number = pb_number(s.p + 1) };
	if (s.p[0] == '!')
		return (struct scalar){ .kind = SCALAR_BOOL, .truth = str_is(s, "!true") };
	return (struct scalar){ .kind = SCALAR_TEXT, .text = s };
}

/* One more test of field `name` ("args.a.b", "labels.x", "agent" …) in c; c NULL = a new condition. what: as the
 * operator needs it. */
static inline struct condition *pb_when(struct pb *b, struct condition *c, const char *name, enum cond_op op,
					const char *what)
{
	struct cond_field *f;
	struct cond_test *t;
	struct str *v;
	size_t n;

	if (!c) {
		c = pb_mem(b, sizeof(*c));
		c->fields = pb_mem(b, 8 * sizeof(*c->fields));
	}
	f = &c->fields[c->n_fields++];
	f->name = pb_text(b, name);
	f->subject = strncmp(name, "args", 4) == 0      ? SUBJECT_ARGS
		     : strncmp(name, "labels.", 7) == 0 ? SUBJECT_LABEL
		     : strcmp(name, "agent") == 0       ? SUBJECT_AGENT
		     : strcmp(name, "kind") == 0        ? SUBJECT_KIND
		     : strcmp(name, "tool") == 0        ? SUBJECT_TOOL
							: SUBJECT_MONEY;
	f->path = strchr(name, '.') ? pb_text(b, strchr(name, '.') + 1) : STR("");
	f->tests = t = pb_mem(b, sizeof(*t));
	f->n_tests = 1;
	t->op = op;
	n = pb_split(b, what, &v);
	t->values = pb_mem(b, (n + 1) * sizeof(*t->values));
	t->n_values = n;
	for (size_t i = 0; i < n; i++)
		t->values[i] = pb_scalar(v[i]);
	if (op == COND_GLOB && pattern_compile(pb_text(b, what), &t->glob, NULL) < 0)
		abort();
	if (op == COND_REGEX) {
		if (regex_compile(str_of(what), &t->regex, NULL) < 0)
			abort();
		b->regexes[b->n_regexes++] = t->regex;
	}
	if (op == COND_OVER || op == COND_BELOW)
		t->bound = pb_number(what);
	if (op == COND_BYTES_OVER || op == COND_BYTES_BELOW)
		t->bytes = strtoll(what, NULL, 10);
	if (op == COND_UNDER)
		t->dir = pb_text(b, what);
	return c;
}

static inline const struct policy *pb_done(struct pb *b)
{
	struct pawl_error err;

	if (name_index_new(&b->pol, b->entries, b->n_entries, &b->pol.index, &err) < 0 ||
	    name_index_aliases(b->pol.index, b->aliases, b->n_aliases, &err) < 0)
		abort();
	return &b->pol;
}
#endif
