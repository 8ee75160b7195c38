/* policy/condition.h - what compile.c builds and match.c evaluates; nobody else includes it.
 * All text is NUL-terminated and lives in the policy's arena. */
#ifndef PAWL_CONDITION_H
#define PAWL_CONDITION_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "pawl/policy.h"

struct under_memo;

/* ---- globs and regular expressions (pattern.c, regex.c) ---- */
struct pattern { /* `*` any run (also of / and .), `?` one byte; everything else literal. Compiled = checked and measured */
	struct str text;
	size_t prefix_n; /* literal bytes before the first wildcard; == text.n: no wildcard */
};
PAWL_MUST_USE int pattern_compile(struct str text, struct pattern *ret, struct pawl_error *err);
bool pattern_match(const struct pattern *p, struct str s); /* linear time: no exponential backtracking */

struct regex; /* PCRE2, UTF, match and depth limits set; regex.c is the only file with <pcre2.h> */
PAWL_MUST_USE int regex_compile(struct str text, struct regex **ret, struct pawl_error *err);
void regex_free(struct regex *r);
int regex_match(const struct regex *r, struct str s); /* 1 match, 0 none, negative: limit hit or error = a failed condition */

/* ---- conditions ---- */
enum cond_op { COND_IS, COND_IN, COND_NOT, COND_GLOB, COND_REGEX, COND_OVER, COND_BELOW, COND_BYTES_OVER, COND_BYTES_BELOW, COND_UNDER };
enum subject_kind { SUBJECT_ARGS, SUBJECT_AGENT, SUBJECT_KIND, SUBJECT_TOOL, SUBJECT_LABEL, SUBJECT_MONEY };

/* A decimal number scaled by 10^9, exact: bounds and is/in/not values of arguments. */
typedef __int128 fixed9;
struct scalar {
	enum { SCALAR_TEXT, SCALAR_NUMBER, SCALAR_BOOL } kind;
	struct str text;
	fixed9 number;
	bool truth;
};
struct cond_test {
	enum cond_op op;
	struct scalar *values; /* is: 1; in, not: 1 or more (`not` = none of them) */
	size_t n_values;
	struct pattern glob;
	struct regex *regex;
	fixed9 bound;	 /* over, below */
	int64_t bytes;	 /* of a text: its UTF-8 bytes; of anything else: of its canonical JSON */
	struct str dir;	 /* under: relative to the session's root or absolute; trailing / optional */
};
struct cond_field { /* all tests of all fields must hold (three-valued: a definite false decides, else any failure fails) */
	struct str name; /* "args.path", as written: also the subject of struct fact_path */
	enum subject_kind subject;
	struct str path; /* "path" of args.path, "run" of labels.run */
	struct cond_test *tests;
	size_t n_tests;
};
struct condition {
	struct cond_field *fields;
	size_t n_fields;
};
enum truth { TRUTH_NO, TRUTH_YES, TRUTH_FAILED };

struct subjects { /* the call, as conditions see it */
	const struct request_call *rq;
	const struct caller *who;
	struct str tool; /* canonical */
	const struct resolver *res; /* NULL: every `under` fails */
	struct fact_path *paths; /* room for SUBJECT_PATHS */
	size_t *n_paths;
	struct buf *scratch;	  /* appended to; real paths and canonical text live here during the call */
	struct under_memo *memo;  /* policy/under.h; zeroed at the start of a call */
};
#define SUBJECT_PATHS 8
enum truth condition_eval(const struct condition *c, const struct subjects *s);

/* ---- the index: which rules, budgets and breakers name a tool (match.c) ---- */
/* A list entry of a rule, or of a budget's or breaker's match. Deny and review globs match the canonical name or any alias; the
 * others match the canonical name only. Names are folded and resolved through aliases by compile.c beforehand. */
enum index_kind { INDEX_RULE, INDEX_BUDGET, INDEX_BREAKER };
struct index_entry {
	struct pattern pattern;
	uint32_t target; /* row of the policy's rules, budgets or breakers */
	enum index_kind kind;
	bool aliases_too; /* deny and review */
};
struct index_hits { /* bit i: row i of the policy's budgets, breakers */
	uint32_t budgets, breakers;
};
PAWL_MUST_USE int name_index_new(const struct policy *pol, const struct index_entry *rows, size_t n, struct name_index **ret, struct pawl_error *err);
void name_index_free(struct name_index *ix);
/* Calls each() once a rule (ascending) that names the tool; returns the bits of budgets and breakers. def may be NULL. aliases come
 * from the index itself (it copies the policy's alias table at build). */
struct index_hits name_index_find(const struct name_index *ix, struct str canonical, const struct tool *def,
				  void (*each)(void *arg, uint32_t rule), void *arg);
/* Some rule, budget or breaker has this very name, not only a glob that fits it. */
bool name_index_spells(const struct name_index *ix, struct str name);
/* aliases: folded alias -> row of pol->tools; canonical names may be among them and are known anyway. Once, after name_index_new(); the
 * text is copied. PAWL_E_POLICY: one name for two tools. After a failure ix can only be freed. Of ix, pol->tools and the patterns' text
 * are borrowed until name_index_free(). */
struct alias_row {
	struct str alias; /* folded */
	uint32_t tool;
};
PAWL_MUST_USE int name_index_aliases(struct name_index *ix, const struct alias_row *rows, size_t n, struct pawl_error *err);
#endif
