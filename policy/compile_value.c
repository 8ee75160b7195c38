/* policy/compile_value.c - one value at a time: is it of the kind that its key wants, and what does it say?
 * Nothing is guessed: a number without a unit, a boolean word of YAML 1.1 or an empty value is a problem with a place.
 */
#include "policy/compile.h"
#include "policy/money.h"

#include <stdarg.h>
#include <stdio.h>

PAWL_PRINTF(4, 0) static void tell(struct loader *ld, bool warning, const struct ynode *at, const char *fmt, va_list ap)
{
	char msg[sizeof(((struct policy_problem *)0)->msg)];

	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	if (report_add(ld->rep, warning, at->line, at->column, "%s", msg))
		ld->nomem = true;
}

void ld_error(struct loader *ld, const struct ynode *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(ld, false, at, fmt, ap);
	va_end(ap);
}

void ld_warn(struct loader *ld, const struct ynode *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(ld, true, at, fmt, ap);
	va_end(ap);
}

void ld_failed(struct loader *ld, const struct ynode *at, int code, const struct pawl_error *err)
{
	if (code == PAWL_E_NOMEM)
		ld->nomem = true;
	else
		ld_error(ld, at, "%s", err->msg);
}

void *ld_array(struct loader *ld, size_t n, size_t size)
{
	void *p = arena_array(&ld->box->arena, n, size);

	ld->nomem = ld->nomem || !p;
	return p;
}

struct str ld_text(struct loader *ld, struct str s)
{
	struct str copy = arena_text(&ld->box->arena, s);

	ld->nomem = ld->nomem || !copy.p;
	return copy;
}

bool value_missing(const struct ynode *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };

	for (size_t i = 0; node->kind == YNODE_TEXT && node->plain && i < PAWL_LEN(words); i++)
		if (str_is(node->text, words[i]))
			return true;
	return false;
}

/* ---- checks by the schema's type ---- */

static bool word_of(struct loader *ld, struct schema_value *v)
{
	const char *word = v->row->words, *end = word + strlen(word);
	struct str text = v->node->text;
	char known[64];
	size_t n, k = 0;

	for (v->number = 0; word < end; v->number++, word += n + 1) {
		n = strcspn(word, " ");
		if (str_eq(text, (struct str){ word, n }))
			return true;
		if (n && word[n - 1] == '!' && str_eq(text, (struct str){ word, n - 1 })) {
			ld_error(ld, v->node, "not built yet: %s: %.*s", v->row->key, (int)(n - 1), word);
			return false;
		}
	}
	for (word = v->row->words; *word && k < sizeof(known) - 5; word++) {
		const char *piece = *word == ' ' ? " or " : *word == '!' ? "" : (char[]){ *word, '\0' };

		k += (size_t)snprintf(known + k, sizeof(known) - k, "%s", piece);
	}
	known[k] = '\0';
	ld_error(ld, v->node, "%s is %s, not %s", v->row->key, known, QUOTED(text));
	return false;
}

static bool span_of(struct loader *ld, struct schema_value *v)
{
	char least[MONEY_TEXT], most[MONEY_TEXT];
	struct pawl_error err;

	if (span_parse(v->node->text, &v->number, &err)) {
		ld_error(ld, v->node, "%s: %s", v->row->key, err.msg);
		return false;
	}
	if (v->number >= v->row->min && v->number <= v->row->max)
		return true;
	(void)span_text(v->row->min, least);
	(void)span_text(v->row->max, most);
	ld_error(ld, v->node, "%s is between %s and %s, not %s", v->row->key, least, most, QUOTED(v->node->text));
	return false;
}

static bool count_of(struct loader *ld, struct schema_value *v)
{
	if (v->node->plain && value_digits(v->node->text, &v->number) && v->number >= v->row->min &&
	    v->number <= v->row->max)
		return true;
	ld_error(ld, v->node, "%s is a whole number from %lld to %lld, not %s", v->row->key, (long long)v->row->min,
		 (long long)v->row->max, QUOTED(v->node->text));
	return false;
}

static bool bool_of(struct loader *ld, struct schema_value *v)
{
	v->truth = str_is(v->node->text, "true");
	if (v->node->plain && (v->truth || str_is(v->node->text, "false")))
		return true;
	ld_error(ld, v->node, "%s is true or false without quotes, not %s", v->row->key, QUOTED(v->node->text));
	return false;
}

static const char *const kind_names[] = {
	[YNODE_TEXT] = "one value", [YNODE_LIST] = "a list [..]", [YNODE_MAP] = "a map {key: value}"
};

static bool kind_is(struct loader *ld, const struct schema_value *v, enum ynode_kind want)
{
	if (v->node->kind == want)
		return true;
	ld_error(ld, v->node, "%s is %s, not %s", QUOTED(v->key->text), kind_names[want], kind_names[v->node->kind]);
	return false;
}

static bool filled_map(struct loader *ld, const struct schema_value *v)
{
	if (!kind_is(ld, v, YNODE_MAP))
		return false;
	if (v->node->n)
		return true;
	ld_error(ld, v->node, "%s is empty: an empty map says nothing; leave the key out", QUOTED(v->key->text));
	return false;
}

/* A shorthand is refused, because `args.x: [a]` could mean in, is or has. */
static bool tests_of(struct loader *ld, const struct schema_value *v)
{
	if (v->node->kind == YNODE_TEXT) {
		ld_error(ld, v->node, "%s wants a test: write {is: value}", QUOTED(v->key->text));
		return false;
	}
	if (v->node->kind == YNODE_LIST) {
		ld_error(ld, v->node, "%s wants a test: write {in: [..]}", QUOTED(v->key->text));
		return false;
	}
	return filled_map(ld, v);
}

bool value_typed(struct loader *ld, struct schema_value *v)
{
	if (value_missing(v->node)) {
		ld_error(ld, v->key, "%s has no value", QUOTED(v->key->text));
		return false;
	}
	switch (v->row->type) {
	case SCHEMA_ANY:
		return true;
	case SCHEMA_LIST:
	case SCHEMA_ITEMS:
		return kind_is(ld, v, YNODE_LIST);
	case SCHEMA_NAMED:
		return kind_is(ld, v, YNODE_MAP);
	case SCHEMA_SECTION:
	case SCHEMA_FIELDS:
		return filled_map(ld, v);
	case SCHEMA_TESTS:
		return tests_of(ld, v);
	case SCHEMA_TEXT:
	case SCHEMA_WORD:
	case SCHEMA_BOOL:
	case SCHEMA_COUNT:
	case SCHEMA_SPAN:
		break;
	}
	if (!kind_is(ld, v, YNODE_TEXT))
		return false;
	if (v->node->text.n == 0) {
		ld_error(ld, v->node, "%s is empty", QUOTED(v->key->text));
		return false;
	}
	if (v->row->type == SCHEMA_TEXT)
		return true;
	if (v->row->type == SCHEMA_WORD)
		return word_of(ld, v);
	if (v->row->type == SCHEMA_BOOL)
		return bool_of(ld, v);
	return v->row->type == SCHEMA_COUNT ? count_of(ld, v) : span_of(ld, v);
}
