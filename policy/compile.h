/* policy/compile.h - what the files of the loader share; nobody else includes it.
 * struct loader lives for one policy_load(): it borrows the nodes and builds into a policy that it hands out or throws
 * away. */
#ifndef PAWL_COMPILE_H
#define PAWL_COMPILE_H
#include "policy/condition.h"
#include "policy/schema.h"

#include <stdlib.h>

struct regex_link {
	struct regex_link *next;
	struct regex *regex;
};
struct policy_box { /* the policy and all that dies with it */
	struct policy pol;
	struct arena arena;
	struct regex_link *regexes;
};

struct list_entry { /* a name or glob of a rule's list, or of a budget's or breaker's match */
	struct index_entry ix;
	const struct ynode *node;
};
struct named_tool { /* a canonical name or an alias */
	struct str name;
	uint32_t tool;
	bool alias;
	const struct ynode *node;
};

enum part {
	PART_CURRENCY,
	PART_TOOLS,
	PART_RULES,
	PART_BUDGETS,
	PART_LOOPS,
	PART_BREAKERS,
	PART_REVIEWS,
	PART_SESSIONS,
	PART_LIMITS,
	PART_WATCH,
	PART_LOG,
	PART_COUNT
};
/* Values of a section that are looked at once all of them are there. */
enum budget_node {
	BUDGET_PER,
	BUDGET_LIMIT,
	BUDGET_MATCH,
	BUDGET_FLOOR,
	BUDGET_ZERO_COST,
	BUDGET_EVERY,
	BUDGET_ZONE,
	BUDGET_GRANT_MAX,
	BUDGET_NODES
};
enum breaker_node { BREAKER_MATCH, BREAKER_PER, BREAKER_OPENS, BREAKER_PROBES, BREAKER_NODES };

struct use_graph; /* compile_uses.c: who uses whom */
struct zone_link {
	struct zone_link *next;
	const struct zone *zone;
};

struct loader {
	struct policy_box *box;
	struct policy *pol; /* = &box->pol */
	struct arena tmp;   /* nodes and what is needed only while loading */
	struct policy_report *rep;
	bool nomem;
	const struct ynode *part[PART_COUNT]; /* read in this order, whatever the file's */
	bool has_version;
	struct named_tool *names; /* sorted by name once compile_tools() is through */
	size_t n_names;
	struct list_entry *entries;
	size_t n_entries, cap_entries;
	const struct ynode **rule_nodes, **budget_nodes, **breaker_nodes; /* beside the policy's rows, for messages */
	const struct ynode **use_nodes;                                   /* beside pol->tools: its list, or NULL */
	struct use_graph *uses;
	const struct policy_files *files; /* NULL: nothing can be read */
	const char *file;                 /* the policy's own, as the caller named it */
	struct zone_link *zones;
	struct str under[SUBJECT_PATHS];
	size_t n_under;
	size_t tries; /* lint_cond.c: values that were held against tests */
};

/* ---- compile_value.c: text to values, and how problems are told ---- */
PAWL_PRINTF(3, 4) void ld_error(struct loader *ld, const struct ynode *at, const char *fmt, ...);
PAWL_PRINTF(3, 4) void ld_warn(struct loader *ld, const struct ynode *at, const char *fmt, ...);
/* A failed pattern_compile() and its like: out of memory, or a problem at this place. */
void ld_failed(struct loader *ld, const struct ynode *at, int code, const struct pawl_error *err);
/* In the policy's arena, zeroed; NULL when memory is short (ld->nomem is set). */
void *ld_array(struct loader *ld, size_t n, size_t size);
struct str ld_text(struct loader *ld, struct str s);
bool value_missing(const struct ynode *node);                /* nothing, ~ or null, without quotes */
bool value_typed(struct loader *ld, struct schema_value *v); /* checks against v->row and fills truth, number */
bool value_id(struct loader *ld, const struct ynode *node, const char *what, struct str *ret);
bool value_money(struct loader *ld, const struct ynode *node, int64_t *ret); /* "5 USD" */
struct amount {
	enum unit unit;
	int64_t n;
};
bool value_amount(struct loader *ld, const struct ynode *node,
		  struct amount *ret); /* "5 USD", "400k tokens", "30 calls", "15m" */
bool value_count_per(struct str text, const char *const *periods, size_t n_periods, const char *between, int64_t *ret,
		     size_t *ret_period);
bool value_digits(struct str text, int64_t *ret); /* a whole number without sign and leading zeros */
bool value_bytes(struct loader *ld, const struct ynode *node, int64_t *ret); /* 300, 64KiB */
/* A list of args.… paths, kept without "args."; what names the key. */
void value_arg_paths(struct loader *ld, const struct ynode *list, const char *what, struct str **ret, size_t *ret_n);
bool value_path(struct str dotted);                                     /* a.b.c: no empty part */
const struct ynode *value_at(const struct ynode *map, const char *key); /* NULL: the map has no such key */

bool number_parse(struct str s, fixed9 *ret); /* -12.5: whole part without leading zeros, at most 9 decimals */
bool number_like(struct str s);               /* what some YAML reader takes for a number */

/* ---- the sections ---- */
void compile_tools(struct loader *ld);
/* A tool's name, folded, into the policy's arena. */
bool compile_name(struct loader *ld, const struct ynode *node, struct str *ret);
const struct named_tool *tool_named(const struct loader *ld, struct str folded);
/* A name (folded; an alias becomes its tool) or a glob (folded) into ld->entries. */
void compile_entry(struct loader *ld, const struct ynode *node, struct index_entry proto);
/* A whole `match`; NULL = every tool, told at key. */
void compile_match(struct loader *ld, const struct ynode *match, const struct ynode *key, struct index_entry proto);
void compile_uses(struct loader *ld);
void uses_denied(struct loader *ld); /* both need the finished index */
void lint_uses(struct loader *ld);
void compile_rules(struct loader *ld);
struct condition *compile_condition(struct loader *ld, const struct ynode *fields);
/* Tests that no value, kind of call or tool's name can pass: errors (lint_cond.c). */
void refuse_impossible(struct loader *ld, const struct ynode *at, const struct cond_field *f);
void refuse_glob_of_tool(struct loader *ld, const struct ynode *at, const struct cond_test *t);
void refuse_regex_of_tool(struct loader *ld, const struct ynode *at, const struct cond_test *t);
void refuse_no_name(struct loader *ld, const struct ynode *cond, const struct condition *c, const struct list_entry *entries, size_t n);
struct per { /* `per`: session, agent, tenant, global, tool, or a list of a scope and tool */
	bool has_scope, tool;
	enum scope scope;
};
bool value_per(const struct ynode *node, struct per *ret);
void compile_budgets(struct loader *ld);
/* A digest of the tree below a node, in the file's order; of names and patterns in no order. */
void ynode_print(const struct ynode *node, uint8_t out[static 16]);
void match_print(const struct loader *ld, enum index_kind kind, uint32_t target, uint8_t out[static 16]);
void compile_window(struct loader *ld, const struct ynode *every, const struct ynode *zone, struct window *ret);
void compile_breakers(struct loader *ld);
void compile_loops(struct loader *ld);
void compile_sessions(struct loader *ld);
void compile_watch(struct loader *ld);
void compile_log(struct loader *ld);
/* Warnings about a policy that loads but will surprise; lint_index() needs the finished index. */
void lint_policy(struct loader *ld);
void lint_index(struct loader *ld);
void lint_costs(struct loader *ld);

/* ---- setters named in the schema's table ---- */
schema_set set_version, set_name, set_currency, set_default, set_mode, set_part;
schema_set set_aliases, set_uses, set_cost, set_tool_paths;
schema_set set_rule_id, set_rule_names, set_rule_when, set_rule_sticky, set_rule_headless;
schema_set set_field, set_is, set_in, set_not, set_glob, set_regex, set_bound, set_bytes, set_bytes_bound, set_under;
schema_set set_budget_node, set_breaker_node, set_then;
schema_set set_repeat, set_same, set_window, set_ignore, set_loop, set_same_as, set_period;
schema_set set_new, set_abort_hold, set_rate, set_checked;
schema_set set_watch_rate, set_watch_memory, set_deny_exec, set_writes_under, set_redact;

#endif
