/* policy/compile_cond.c - `when` and `unless`: subjects and the tests on them. What cannot hold, and what cannot be
 * compared, is found here and not at three in the morning. */
#include "policy/compile.h"

struct field_draft {
	struct cond_field field;
	const struct ynode *name;
};
struct cond_draft {
	struct condition *cond;
};

static bool is_text_subject(const struct field_draft *f)
{
	return f->field.subject != SUBJECT_ARGS && f->field.subject != SUBJECT_MONEY;
}

static bool suits(struct loader *ld, const struct field_draft *f, const struct schema_value *v, bool good)
{
	if (!good)
		ld_error(ld, v->key, "%s cannot be asked of %s, which is %s", v->row->key, QUOTED(f->field.name),
			 f->field.subject == SUBJECT_MONEY ? "an amount" : "text");
	return good;
}

static struct cond_test *add_test(struct field_draft *f, enum cond_op op)
{
	struct cond_test *t = &f->field.tests[f->field.n_tests++];

	t->op = op;
	return t;
}

static bool is_word(struct str s, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_is(s, words[i]))
			return true;
	return false;
}

/* ---- values ---- */

static bool call_kind_known(struct str s)
{
	static const char *const kinds[] = { "tool", "llm", "delegate", "http", "code" };

	return is_word(s, kinds, PAWL_LEN(kinds));
}

/* A tool is compared by its canonical name, so an alias here would never match. */
static bool tool_value(struct loader *ld, const struct ynode *node, struct scalar *ret)
{
	char folded[PAWL_MAX_TOOL + 1];
	const struct named_tool *known;
	struct pawl_error err;

	if (tool_name_fold(node->text, folded, &err)) {
		ld_error(ld, node, "%s: %s", QUOTED(node->text), err.msg);
		return false;
	}
	known = tool_named(ld, str_of(folded));
	ret->text = known && ld->pol->tools[known->tool].name.p ? ld->pol->tools[known->tool].name
								: ld_text(ld, str_of(folded));
	return true;
}

static bool text_value(struct loader *ld, const struct field_draft *f, const struct ynode *node, struct scalar *ret)
{
	ret->kind = SCALAR_TEXT;
	if (f->field.subject == SUBJECT_TOOL)
		return tool_value(ld, node, ret);
	if (f->field.subject == SUBJECT_KIND && !call_kind_known(node->text)) {
		ld_error(ld, node, "%s is no kind of call (tool, llm, delegate, http, code), so this can never fire",
			 QUOTED(node->text));
		return false;
	}
	ret->text = ld_text(ld, node->text);
	return true;
}

static bool scalar_value(struct loader *ld, const struct field_draft *f, const struct ynode *node, struct scalar *ret)
{
	static const char *const odd[] = { "yes", "Yes", "YES", "no",  "No",   "NO",   "on",    "On",
					   "ON",  "off", "Off", "OFF", "True", "TRUE", "False", "FALSE" };

	if (node->kind != YNODE_TEXT || value_missing(node)) {
		ld_error(ld, node, "a value is due here (quote it if it is a word such as null)");
		return false;
	}
	if (is_text_subject(f))
		return text_value(ld, f, node, ret);
	if (node->plain && number_parse(node->text, &ret->number)) {
		ret->kind = SCALAR_NUMBER;
		return true;
	}
	if (f->field.subject == SUBJECT_MONEY) {
		ld_error(ld, node, "an amount is a number such as 0.5, not %s", QUOTED(node->text));
		return false;
	}
	if (node->plain && number_like(node->text)) {
		ld_error(ld, node,
			 "%s: quote it if it is text; a number has digits, at most 28 before the point and 9 after it",
			 QUOTED(node->text));
		return false;
	}
	ret->truth = str_is(node->text, "true");
	if (node->plain && (ret->truth || str_is(node->text, "false"))) {
		ret->kind = SCALAR_BOOL;
		return true;
	}
	if (node->plain && is_word(node->text, odd, PAWL_LEN(odd)))
		ld_warn(ld, node, "%s is text here: booleans are true and false; quote it to say that text is meant",
			QUOTED(node->text));
	return text_value(ld, f, node, ret);
}

static void set_values(struct loader *ld, struct field_draft *f, const struct ynode *node, enum cond_op op)
{
	size_t n = node->kind == YNODE_LIST ? node->n : 1;
	struct scalar *values = ld_array(ld, n, sizeof(*values));
	const struct ynode *e = node->kind == YNODE_LIST ? node->first : node;
	struct cond_test *t;

	if (!values)
		return;
	for (size_t i = 0; i < n; i++, e = e->next)
		if (!scalar_value(ld, f, e, &values[i]))
			return;
	t = add_test(f, op);
	t->values = values;
	t->n_values = n;
}

void set_is(struct loader *ld, void *obj, const struct schema_value *v)
{
	if (v->node->kind != YNODE_TEXT)
		ld_error(ld, v->node, "is wants one value; several are written in: [..]");
	else
		set_values(ld, obj, v->node, COND_IS);
}

void set_in(struct loader *ld, void *obj, const struct schema_value *v)
{
	if (v->node->n == 0)
		ld_error(ld, v->node, "nothing is in an empty list, so this can never fire");
	else
		set_values(ld, obj, v->node, COND_IN);
}

void set_not(struct loader *ld, void *obj, const struct schema_value *v)
{
	if (v->node->kind == YNODE_MAP || (v->node->kind == YNODE_LIST && v->node->n == 0))
		ld_error(ld, v->node, "not wants a value or a list of them");
	else
		set_values(ld, obj, v->node, COND_NOT);
}

/* ---- patterns ---- */

void set_glob(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct field_draft *f = obj;
	struct cond_test *t = NULL;
	struct pawl_error err;
	struct pattern glob;
	struct str text;
	char *p;
	int r;

	if (!suits(ld, f, v, f->field.subject != SUBJECT_MONEY))
		return;
	text = ld_text(ld, v->node->text);
	p = text.p && f->field.subject == SUBJECT_TOOL ? ld_array(ld, text.n + 1, 1) : NULL;
	for (size_t i = 0; p && i < text.n; i++) /* names are lower case when they are compared */
		p[i] = text.p[i] >= 'A' && text.p[i] <= 'Z' ? (char)(text.p[i] + 32) : text.p[i];
	text.p = p ? p : text.p;
	if (!text.p)
		return;
	r = pattern_compile(text, &glob, &err);
	if (r)
		ld_failed(ld, v->node, r, &err);
	else
		(t = add_test(f, COND_GLOB))->glob = glob;
	if (t && f->field.subject == SUBJECT_TOOL)
		refuse_glob_of_tool(ld, v->node, t);
}

void set_regex(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct field_draft *f = obj;
	struct regex_link *link;
	struct pawl_error err;
	struct cond_test *t;
	int r;

	if (!suits(ld, f, v, f->field.subject != SUBJECT_MONEY))
		return;
	link = ld_array(ld, 1, sizeof(*link));
	if (!link)
		return;
	r = regex_compile(v->node->text, &link->regex, &err);
	if (r) {
		ld_failed(ld, v->node, r, &err);
		return;
	}
	link->next = ld->box->regexes;
	ld->box->regexes = link;
	t = add_test(f, COND_REGEX);
	t->regex = link->regex;
	if (f->field.subject == SUBJECT_TOOL)
		refuse_regex_of_tool(ld, v->node, t);
}

/* Each subject's resolved path is a fact in the log entry, and an entry has room for so many. */
static bool note_under(struct loader *ld, struct str name, const struct ynode *at)
{
	for (size_t i = 0; i < ld->n_under; i++)
		if (str_eq(ld->under[i], name))
			return true;
	if (ld->n_under == PAWL_LEN(ld->under)) {
		ld_error(ld, at, "more than %d different arguments are compared with under", SUBJECT_PATHS);
		return false;
	}
	ld->under[ld->n_under++] = name;
	return true;
}

void set_under(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct field_draft *f = obj;
	struct str dir;

	if (!suits(ld, f, v, f->field.subject == SUBJECT_ARGS || f->field.subject == SUBJECT_LABEL))
		return;
	if (!note_under(ld, f->field.name, v->key))
		return;
	dir = ld_text(ld, v->node->text);
	if (dir.p)
		add_test(f, COND_UNDER)->dir = dir;
}

/* ---- bounds ---- */

void set_bound(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct field_draft *f = obj;
	fixed9 n;

	if (!suits(ld, f, v, !is_text_subject(f)))
		return;
	if (v->node->kind != YNODE_TEXT || !v->node->plain || !number_parse(v->node->text, &n))
		ld_error(ld, v->node,
			 "%s wants a number without quotes and unit, at most 9 decimals, such as 20 or 0.5",
			 v->row->key);
	else
		add_test(f, (enum cond_op)v->row->number)->bound = n;
}

void set_bytes(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct field_draft *f = obj;

	if (!suits(ld, f, v, f->field.subject != SUBJECT_MONEY))
		return;
	if (v->node->kind != YNODE_MAP || v->node->n == 0)
		ld_error(ld, v->node, "bytes wants a bound: write {over: 64KiB} or {below: 64KiB}");
	else
		schema_walk(ld, "test.bytes", v->node, f);
}

void set_bytes_bound(struct loader *ld, void *obj, const struct schema_value *v)
{
	int64_t n;

	if (value_bytes(ld, v->node, &n))
		add_test(obj, (enum cond_op)v->row->number)->bytes = n;
}

/* ---- fields ---- */

void set_field(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct condition *c = ((struct cond_draft *)obj)->cond;
	struct field_draft f = { .name = v->key };
	size_t head = strlen(v->row->key), room = v->node->n + 1; /* `bytes` can be two tests */

	f.field.subject = (enum subject_kind)v->row->number;
	f.field.name = ld_text(ld, v->key->text);
	f.field.tests = ld_array(ld, room, sizeof(*f.field.tests));
	if (!f.field.name.p || !f.field.tests)
		return;
	if (f.field.subject == SUBJECT_ARGS || f.field.subject == SUBJECT_LABEL)
		f.field.path = (struct str){ f.field.name.p + head, f.field.name.n - head };
	if (f.field.subject == SUBJECT_ARGS && !value_path(f.field.path))
		ld_error(ld, v->key, "%s: an argument is args.NAME or args.NAME.NAME", QUOTED(v->key->text));
	schema_walk(ld, "test", v->node, &f);
	refuse_impossible(ld, v->key, &f.field);
	c->fields[c->n_fields++] = f.field;
}

struct condition *compile_condition(struct loader *ld, const struct ynode *fields)
{
	struct condition *c = ld_array(ld, 1, sizeof(*c));
	struct cond_draft d = { c };

	if (!c)
		return NULL;
	c->fields = ld_array(ld, fields->n, sizeof(*c->fields));
	if (c->fields)
		schema_walk(ld, "condition", fields, &d);
	return c;
}
