/* policy/condition.c - does a condition hold for this call? Three answers: no, yes, failed.
 * Pure but for the resolver that `under` asks. Owns nothing, changes nothing but the call's scratch buffer and path
 * facts.
 *
 * FAILED is what the rule takes to its stricter side: a missing attribute, a value of another type than the test is
 * about (text, list or null where a number is due; a number where text is due), a regular expression that ran into a
 * limit, an unresolved path. `is`, `in` and `not` compare with the values of the argument's own type; when the rule
 * lists none of that type they fail, so that {not: rm} is not satisfied by the number 7. A definite no of one test
 * decides against a failure of another. */
#include "policy/canon.h"
#include "policy/under.h"

#define NANO 1000000000

enum value_kind { VALUE_NONE, VALUE_TEXT, VALUE_BOOL, VALUE_NUMBER, VALUE_OTHER };

struct value { /* a subject's */
	enum value_kind kind;
	struct str text;
	bool truth;
	fixed9 number;           /* nine decimals, rounded towards zero … */
	int rest;                /* … and the sign of what lies beyond them: 0 when exact */
	const struct json *json; /* of args only */
};

/* ---- numbers ---- */

static const fixed9 fixed9_huge = (fixed9)INT64_MAX * INT64_MAX; /* beyond every bound that a policy can state */

/* A double means what its canonical text says: 0.1 is 0.1, not 0.1000000000000000055. */
static void number_text(const char *t, struct value *v)
{
	bool minus = *t == '-', point = false;
	int scale = 9, exp = 0, exp_sign = 1;
	fixed9 n = 0;
	int rest = 0;

	for (t += minus; (*t >= '0' && *t <= '9') || *t == '.'; t++) {
		if (*t == '.') {
			point = true;
			continue;
		}
		n = n * 10 + (*t - '0'); /* at most 21 digits: ECMAScript's fixed form ends there */
		scale -= point;
	}
	if (*t == 'e') {
		exp_sign = t[1] == '-' ? -1 : 1;
		for (t += 2; *t >= '0' && *t <= '9'; t++)
			exp = exp * 10 + (*t - '0');
	}
	for (scale += exp_sign * exp; scale > 0 && n < fixed9_huge / 10; scale--)
		n *= 10;
	if (scale > 0)
		n = fixed9_huge;
	for (; scale < 0 && n; scale++) {
		rest |= n % 10 != 0;
		n /= 10;
	}
	v->number = minus ? -n : n;
	v->rest = minus ? -rest : rest;
}

static void number_real(double d, struct value *v)
{
	double scaled = d * NANO;
	char t[32];

	v->kind = VALUE_NUMBER;
	if (scaled > -1e15 && scaled < 1e15) {
		int64_t n = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);

		/* at most 15 digits that give d back are its shortest text, so the text need not be made */
		if ((double)n / NANO == d) {
			v->number = n;
			return;
		}
	}
	t[canon_double(d, t)] = '\0';
	number_text(t, v);
}

/* <0, 0, >0 */
static int number_order(const struct value *v, fixed9 bound)
{
	if (v->number != bound)
		return v->number < bound ? -1 : 1;
	return v->rest;
}

/* ---- subjects ---- */

static bool step_index(struct str step, size_t *ret)
{
	size_t n = 0;

	if (step.n == 0 || step.n > 9 || (step.n > 1 && step.p[0] == '0'))
		return false;
	for (size_t i = 0; i < step.n; i++) {
		if (step.p[i] < '0' || step.p[i] > '9')
			return false;
		n = n * 10 + (size_t)(step.p[i] - '0');
	}
	*ret = n;
	return true;
}

static const struct json *walk(const struct json *j, struct str path)
{
	while (j && path.n) {
		const char *dot = memchr(path.p, '.', path.n);
		struct str step = { path.p, dot ? (size_t)(dot - path.p) : path.n };
		size_t i, used = step.n + (dot != NULL);

		if (json_kind(j) == JSON_KIND_ARRAY)
			j = step_index(step, &i) && i < json_size(j) ? json_at(j, i) : NULL;
		else
			j = json_get_str(j, step);
		path.p += used;
		path.n -= used;
	}
	return j;
}

static void json_value(const struct json *j, struct value *v)
{
	v->json = j;
	switch (json_kind(j)) {
	case JSON_KIND_STRING:
		v->kind = VALUE_TEXT;
		v->text = json_string(j);
		break;
	case JSON_KIND_BOOL:
		v->kind = VALUE_BOOL;
		v->truth = json_true(j);
		break;
	case JSON_KIND_INT:
		v->kind = VALUE_NUMBER;
		v->number = (fixed9)json_int(j) * NANO;
		break;
	case JSON_KIND_REAL:
		number_real(json_real(j), v);
		break;
	case JSON_KIND_NULL:
	case JSON_KIND_ARRAY:
	case JSON_KIND_OBJECT:
		v->kind = VALUE_OTHER;
		break;
	}
}

static struct value text_value(struct str text)
{
	return (struct value){ .kind = text.p ? VALUE_TEXT : VALUE_NONE, .text = text };
}

static struct value subject_value(const struct cond_field *f, const struct subjects *s)
{
	static const char *const kinds[] = { [CALL_TOOL] = "tool",
					     [CALL_LLM] = "llm",
					     [CALL_DELEGATE] = "delegate",
					     [CALL_HTTP] = "http",
					     [CALL_CODE] = "code" };
	struct value v = { .kind = VALUE_NONE };
	const struct json *j = NULL;

	_Static_assert(PAWL_LEN(kinds) == CALL_KIND_COUNT, "a kind without a word");
	switch (f->subject) {
	case SUBJECT_ARGS:
		j = walk(s->rq->args, f->path);
		break;
	case SUBJECT_LABEL: /* a label's name may hold dots */
		j = s->who->labels ? json_get_str(s->who->labels, f->path) : NULL;
		break;
	case SUBJECT_AGENT:
		return text_value(s->who->agent);
	case SUBJECT_TOOL:
		return text_value(s->tool);
	case SUBJECT_KIND:
		if ((unsigned)s->rq->kind < CALL_KIND_COUNT)
			v = text_value(str_of(kinds[s->rq->kind]));
		break;
	case SUBJECT_MONEY: /* nano-units are nine decimals */
		if (s->rq->has_money)
			v = (struct value){ .kind = VALUE_NUMBER, .number = s->rq->money };
		break;
	}
	if (j)
		json_value(j, &v);
	return v;
}

/* ---- tests ---- */

static enum truth truth_of(bool yes)
{
	return yes ? TRUTH_YES : TRUTH_NO;
}

static enum truth equal_one(const struct scalar *want, const struct value *v)
{
	switch (want->kind) {
	case SCALAR_TEXT:
		return v->kind == VALUE_TEXT ? truth_of(str_eq(want->text, v->text)) : TRUTH_FAILED;
	case SCALAR_BOOL:
		return v->kind == VALUE_BOOL ? truth_of(want->truth == v->truth) : TRUTH_FAILED;
	case SCALAR_NUMBER:
		return v->kind == VALUE_NUMBER ? truth_of(number_order(v, want->number) == 0) : TRUTH_FAILED;
	}
	return TRUTH_FAILED;
}

/* YES one equals; NO one is of the same type and none equals; FAILED nothing to compare with. */
static enum truth equal_any(const struct cond_test *t, const struct value *v)
{
	enum truth best = TRUTH_FAILED;

	for (size_t i = 0; i < t->n_values; i++) {
		enum truth got = equal_one(&t->values[i], v);

		if (got == TRUTH_YES)
			return TRUTH_YES;
		if (got == TRUTH_NO)
			best = TRUTH_NO;
	}
	return best;
}

static enum truth equal_none(const struct cond_test *t, const struct value *v)
{
	enum truth any = equal_any(t, v);

	return any == TRUTH_FAILED ? TRUTH_FAILED : truth_of(any == TRUTH_NO);
}

static enum truth regex_test(const struct cond_test *t, struct str text)
{
	int r = regex_match(t->regex, text);

	return r < 0 ? TRUTH_FAILED : truth_of(r);
}

/* UTF-8 bytes of a text, bytes of the canonical JSON of anything else that args hold; negative = no such thing. */
static int64_t value_bytes(const struct value *v, struct buf *scratch)
{
	int64_t n = -1;
	size_t at;

	if (v->kind == VALUE_TEXT)
		return (int64_t)v->text.n;
	if (!v->json || !scratch)
		return -1;
	at = scratch->n;
	canon_json(v->json, NULL, 0, scratch);
	if (buf_ok(scratch)) {
		n = (int64_t)(scratch->n - at);
		scratch->n = at;
	}
	return n;
}

static enum truth bytes_test(const struct cond_test *t, const struct value *v, struct buf *scratch)
{
	int64_t n = value_bytes(v, scratch);

	if (n < 0)
		return TRUTH_FAILED;
	return truth_of(t->op == COND_BYTES_OVER ? n > t->bytes : n < t->bytes);
}

static enum truth test_eval(const struct cond_test *t, const struct cond_field *f, const struct value *v,
			    const struct subjects *s)
{
	if (v->kind == VALUE_NONE)
		return TRUTH_FAILED;
	switch (t->op) {
	case COND_IS:
	case COND_IN:
		return equal_any(t, v);
	case COND_NOT:
		return equal_none(t, v);
	case COND_GLOB:
		return v->kind == VALUE_TEXT ? truth_of(pattern_match(&t->glob, v->text)) : TRUTH_FAILED;
	case COND_REGEX:
		return v->kind == VALUE_TEXT ? regex_test(t, v->text) : TRUTH_FAILED;
	case COND_OVER:
		return v->kind == VALUE_NUMBER ? truth_of(number_order(v, t->bound) > 0) : TRUTH_FAILED;
	case COND_BELOW:
		return v->kind == VALUE_NUMBER ? truth_of(number_order(v, t->bound) < 0) : TRUTH_FAILED;
	case COND_BYTES_OVER:
	case COND_BYTES_BELOW:
		return bytes_test(t, v, s->scratch);
	case COND_UNDER:
		return v->kind == VALUE_TEXT ? under_eval(s, f->name, t->dir, v->text) : TRUTH_FAILED;
	}
	return TRUTH_FAILED;
}

enum truth condition_eval(const struct condition *c, const struct subjects *s)
{
	enum truth all = TRUTH_YES;
	size_t asked = 0;

	for (size_t i = 0; i < c->n_fields; i++) {
		const struct cond_field *f = &c->fields[i];
		struct value v = subject_value(f, s);

		for (size_t k = 0; k < f->n_tests; k++, asked++) {
			enum truth got = test_eval(&f->tests[k], f, &v, s);

			if (got == TRUTH_NO)
				return TRUTH_NO;
			if (got == TRUTH_FAILED)
				all = TRUTH_FAILED;
		}
	}
	return asked ? all : TRUTH_FAILED; /* nothing asked is no match-all: the loader refuses it, and so do we */
}
