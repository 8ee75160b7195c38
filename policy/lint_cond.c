/* policy/lint_cond.c - tests that no call can pass, so that a rule would never fire: errors, with their place. Certain
 * ones only: what a pattern might yet match is left alone. Names of tools are folded and mapped through `aliases`
 * before anything looks at them, which is what most of these tests have not thought of. Owns nothing. */
#include "policy/compile.h"

#define OF_TEXT   1u
#define OF_NUMBER 2u
#define OF_BOOL   4u
#define OF_ANY    15u /* lists, maps and null too: they have a size and nothing else */

static const struct cond_test *test_of(const struct cond_field *f, enum cond_op op)
{
	for (size_t i = 0; i < f->n_tests; i++)
		if (f->tests[i].op == op)
			return &f->tests[i];
	return NULL;
}

/* ---- one value against the tests ---- */

static bool equal(const struct scalar *a, const struct scalar *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == SCALAR_TEXT     ? str_eq(a->text, b->text)
	       : a->kind == SCALAR_NUMBER ? a->number == b->number
					  : a->truth == b->truth;
}

static bool among(const struct cond_test *t, const struct scalar *v, bool by_kind)
{
	for (size_t i = 0; i < t->n_values; i++)
		if (by_kind ? t->values[i].kind == v->kind : equal(&t->values[i], v))
			return true;
	return false;
}

/* Sizes of numbers are those of their canonical text, which nobody counts here. */
static bool size_fits(const struct cond_test *t, const struct scalar *v)
{
	int64_t n = v->kind == SCALAR_TEXT ? (int64_t)v->text.n : v->truth ? 4 : 5;

	return v->kind == SCALAR_NUMBER || (t->op == COND_BYTES_OVER ? n > t->bytes : n < t->bytes);
}

/* A small file can hold many values against many patterns: beyond MAX_TRIES nothing more is looked for. */
#define MAX_TRIES 20000

static bool passes(struct loader *ld, const struct cond_test *t, const struct scalar *v)
{
	if (ld->tries >= MAX_TRIES)
		return true;
	ld->tries += t->op == COND_REGEX ? 50 : 1;
	switch (t->op) {
	case COND_IS:
	case COND_IN:
		return among(t, v, false);
	case COND_NOT: /* a value of a type that it does not list fails it */
		return among(t, v, true) && !among(t, v, false);
	case COND_GLOB:
		return v->kind == SCALAR_TEXT && pattern_match(&t->glob, v->text);
	case COND_REGEX: /* what runs into a limit here may do so in a call */
		return v->kind == SCALAR_TEXT && regex_match(t->regex, v->text) != 0;
	case COND_OVER:
		return v->kind == SCALAR_NUMBER && v->number > t->bound;
	case COND_BELOW:
		return v->kind == SCALAR_NUMBER && v->number < t->bound;
	case COND_BYTES_OVER:
	case COND_BYTES_BELOW:
		return size_fits(t, v);
	case COND_UNDER:
		return v->kind == SCALAR_TEXT;
	}
	return true;
}

static bool passes_all(struct loader *ld, const struct cond_field *f, const struct scalar *v)
{
	if (f->subject == SUBJECT_MONEY && v->number < 0)
		return false;
	for (size_t i = 0; i < f->n_tests; i++)
		if (!passes(ld, &f->tests[i], v))
			return false;
	return true;
}

static bool passes_any(struct loader *ld, const struct cond_field *f, const struct scalar *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (passes_all(ld, f, &values[i]))
			return true;
	return false;
}

static bool some_kind_passes(struct loader *ld, const struct cond_field *f)
{
	static const char *const kinds[] = { "tool", "llm", "delegate", "http", "code" };

	for (size_t i = 0; i < PAWL_LEN(kinds); i++)
		if (passes_all(ld, f, &(struct scalar){ .kind = SCALAR_TEXT, .text = str_of(kinds[i]) }))
			return true;
	return false;
}

/* ---- tests against one another, where no list of values is given ---- */

static unsigned types_of(const struct cond_test *t)
{
	static const unsigned bit[] = { [SCALAR_TEXT] = OF_TEXT, [SCALAR_NUMBER] = OF_NUMBER, [SCALAR_BOOL] = OF_BOOL };
	bool said[2] = { false, false };
	unsigned types = 0;

	switch (t->op) {
	case COND_GLOB:
	case COND_REGEX:
	case COND_UNDER:
		return OF_TEXT;
	case COND_OVER:
	case COND_BELOW:
		return OF_NUMBER;
	case COND_BYTES_OVER:
	case COND_BYTES_BELOW:
		return OF_ANY;
	case COND_IS:
	case COND_IN:
	case COND_NOT:
		break;
	}
	for (size_t i = 0; i < t->n_values; i++) {
		types |= bit[t->values[i].kind];
		if (t->values[i].kind == SCALAR_BOOL)
			said[t->values[i].truth] = true;
	}
	return t->op == COND_NOT && said[0] && said[1] ? types & ~OF_BOOL : types; /* neither true nor false */
}

/* Bytes that whatever matches the glob has at least. */
static int64_t least_bytes(const struct pattern *p)
{
	int64_t n = 0;

	for (size_t i = 0; i < p->text.n; i++)
		n += p->text.p[i] != '*';
	return n;
}

static const char *bounds_fault(const struct cond_field *f)
{
	const struct cond_test *over = test_of(f, COND_OVER), *below = test_of(f, COND_BELOW), *glob = test_of(f, COND_GLOB);
	const struct cond_test *longer = test_of(f, COND_BYTES_OVER), *shorter = test_of(f, COND_BYTES_BELOW);

	if (over && below && over->bound >= below->bound)
		return "nothing is over the one and below the other bound";
	if (below && f->subject == SUBJECT_MONEY && below->bound <= 0)
		return "no amount is below zero";
	if (shorter && (shorter->bytes == 0 || (longer && longer->bytes >= shorter->bytes - 1)))
		return "nothing has a size between these bounds";
	if (shorter && glob && least_bytes(&glob->glob) >= shorter->bytes)
		return "whatever matches this glob has more bytes than that";
	return NULL;
}

static const char *types_fault(const struct cond_field *f)
{
	unsigned types = OF_ANY;

	for (size_t i = 0; i < f->n_tests; i++)
		types &= types_of(&f->tests[i]);
	return types ? NULL : "no value is of a type that all of these tests are about";
}

void refuse_impossible(struct loader *ld, const struct ynode *at, const struct cond_field *f)
{
	const struct cond_test *list = test_of(f, COND_IS);
	const char *why = bounds_fault(f);

	if (!list)
		list = test_of(f, COND_IN);
	if (!why && f->subject == SUBJECT_KIND && f->n_tests && !some_kind_passes(ld, f))
		why = "no kind of call (tool, llm, delegate, http, code) passes these tests";
	if (!why && list && !passes_any(ld, f, list->values, list->n_values))
		why = "no value passes all of these tests";
	if (!why && f->n_tests)
		why = types_fault(f);
	if (why)
		ld_error(ld, at, "%s, so this can never fire", why);
}

/* ---- names of tools ---- */

static bool in_a_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("_.:/-", c));
}

/* The one text that "^text$" matches, or that whatever "text" matches contains; false: it is more than a text. */
static bool literal_of(struct str regex, char out[static PAWL_MAX_TOOL + 1], bool *ret_whole)
{
	bool from = regex.n && regex.p[0] == '^', to = regex.n > from && regex.p[regex.n - 1] == '$';
	size_t n = 0;

	for (size_t i = from; i < regex.n - to; i++) {
		char c = regex.p[i];

		if (c == '\\' && i + 1 < regex.n - to && strchr("./-:_", regex.p[i + 1]))
			c = regex.p[++i];
		else if (strchr("\\.[](){}*+?|^$#", c))
			return false;
		if (n == PAWL_MAX_TOOL)
			return false;
		out[n++] = c;
	}
	out[n] = '\0';
	*ret_whole = from && to;
	return n > 0;
}

/* What is wrong with a text that a tool's name must be, or have in it. */
static bool refuse_text(struct loader *ld, const struct ynode *at, struct str text, bool whole)
{
	const struct named_tool *known = whole ? tool_named(ld, text) : NULL;

	for (size_t i = 0; i < text.n; i++)
		if (!in_a_name(text.p[i])) {
			ld_error(ld, at, "names of tools are folded to a-z 0-9 _ . : / - before anything looks, so %s can never fire", QUOTED(text));
			return true;
		}
	if (!known || !known->alias)
		return false;
	ld_error(ld, at, "%s is an alias of %s, and tools are compared by that name, so this can never fire", QUOTED(text),
		 QUOTED(ld->pol->tools[known->tool].name));
	return true;
}

/* It fits names in the file, and all of them are aliases. */
static void warn_aliases(struct loader *ld, const struct ynode *at, const struct cond_test *t)
{
	const struct named_tool *alias = NULL;

	for (size_t i = 0; i < ld->n_names && ld->tries < MAX_TRIES; i++) {
		struct scalar v = { .kind = SCALAR_TEXT, .text = ld->names[i].name };

		if (!passes(ld, t, &v))
			continue;
		if (!ld->names[i].alias)
			return;
		alias = &ld->names[i];
	}
	if (alias && ld->tries < MAX_TRIES)
		ld_warn(ld, at, "of the names under tools this fits aliases alone, such as %s; tools are compared as %s", QUOTED(alias->name),
			QUOTED(ld->pol->tools[alias->tool].name));
}

void refuse_glob_of_tool(struct loader *ld, const struct ynode *at, const struct cond_test *t)
{
	char plain[PAWL_MAX_TOOL + 1];
	size_t n = 0;

	if (least_bytes(&t->glob) > PAWL_MAX_TOOL) {
		ld_error(ld, at, "no tool's name is that long, so this can never fire");
		return;
	}
	for (size_t i = 0; i < t->glob.text.n; i++)
		if (t->glob.text.p[i] != '*' && t->glob.text.p[i] != '?')
			plain[n++] = t->glob.text.p[i];
	if (!refuse_text(ld, at, (struct str){ plain, n }, t->glob.prefix_n == t->glob.text.n))
		warn_aliases(ld, at, t);
}

void refuse_regex_of_tool(struct loader *ld, const struct ynode *at, const struct cond_test *t)
{
	char text[PAWL_MAX_TOOL + 1];
	bool whole;

	if (!literal_of(at->text, text, &whole) || !refuse_text(ld, at, str_of(text), whole))
		warn_aliases(ld, at, t);
}

/* A rule that lists whole names is asked about these alone: its tests on `tool` must fit one of them. entries: the rule's. */
void refuse_no_name(struct loader *ld, const struct ynode *cond, const struct condition *c, const struct list_entry *entries, size_t n)
{
	for (size_t i = 0; c && n && i < c->n_fields; i++) {
		const struct cond_field *f = &c->fields[i];
		const struct ynode *at = value_at(cond, "tool");
		bool fits = f->subject != SUBJECT_TOOL || !f->n_tests || !at;

		for (size_t k = 0; k < n && !fits; k++) {
			struct scalar v = { .kind = SCALAR_TEXT, .text = entries[k].ix.pattern.text };

			fits = entries[k].ix.pattern.prefix_n < v.text.n || passes_all(ld, f, &v);
		}
		if (!fits)
			ld_error(ld, at, "none of the tools that this rule lists passes these tests, so this can never fire");
	}
}
