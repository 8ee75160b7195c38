/* policy/schema.c - the whole policy language in one table, and the walk that holds a file against it.
 * A row without `built` is a key whose room does not exist yet. Knows types and places, not meanings: those are the
 * setters'. */
#include "policy/schema.h"

#include "policy/compile.h"

#include <stdio.h>

#define LATER(s, k, t)                                         \
	{                                                      \
		.section = (s), .key = (k), .type = SCHEMA_##t \
	}
#define KEY(s, k, t, ...)                                                                  \
	{                                                                                  \
		.section = (s), .key = (k), .type = SCHEMA_##t, .built = true, __VA_ARGS__ \
	}
#define IN(type, field) .offset = offsetof(struct type, field)
#define DAY             (86400 * NS_PER_SEC)
#define MANY            INT64_C(1000000000000)

static const struct schema_key rows[] = {
	KEY("", "pawl", ANY, .set = set_version),
	KEY("", "name", TEXT, .set = set_name),
	KEY("", "currency", TEXT, .set = set_part, .number = PART_CURRENCY),
	KEY("", "default", WORD, .set = set_default, .words = "allow review deny"),
	KEY("", "mode", WORD, .set = set_mode, .words = "enforce shadow"),
	KEY("", "attended", BOOL, IN(policy, attended)),
	KEY("", "tools", NAMED, .set = set_part, .number = PART_TOOLS),
	KEY("", "rules", ITEMS, .set = set_part, .number = PART_RULES),
	KEY("", "budgets", NAMED, .set = set_part, .number = PART_BUDGETS),
	KEY("", "loops", SECTION, .set = set_part, .number = PART_LOOPS),
	KEY("", "breakers", NAMED, .set = set_part, .number = PART_BREAKERS),
	KEY("", "reviews", SECTION, .set = set_part, .number = PART_REVIEWS),
	LATER("", "results", SECTION),
	KEY("", "sessions", SECTION, .set = set_part, .number = PART_SESSIONS),
	KEY("", "limits", SECTION, .set = set_part, .number = PART_LIMITS),
	LATER("", "prices", NAMED),
	KEY("", "watch", SECTION, .set = set_part, .number = PART_WATCH),
	KEY("", "log", SECTION, .set = set_part, .number = PART_LOG),

	KEY("tools.*", "aliases", LIST, .set = set_aliases),
	KEY("tools.*", "uses", LIST, .set = set_uses),
	KEY("tools.*", "cost", ANY, .set = set_cost, .number = 0),
	KEY("tools.*", "default_cost", ANY, .set = set_cost, .number = 1),
	KEY("tools.*", "lease", SPAN, IN(tool, lease_ns), .min = NS_PER_SEC, .max = 30 * DAY),
	KEY("tools.*", "refund", BOOL, IN(tool, refund)),
	KEY("tools.*", "volatile", LIST, .set = set_tool_paths, .number = 0),
	KEY("tools.*", "fold_space", LIST, .set = set_tool_paths, .number = 1),
	KEY("tools.*", "polling", BOOL, IN(tool, polling)),
	LATER("tools.*", "command", TEXT),
	LATER("tools.*", "on_loss", TEXT),

	KEY("rules[]", "id", TEXT, .set = set_rule_id),
	KEY("rules[]", "allow", LIST, .set = set_rule_names, .number = VERDICT_ALLOW),
	KEY("rules[]", "review", LIST, .set = set_rule_names, .number = VERDICT_REVIEW),
	KEY("rules[]", "deny", LIST, .set = set_rule_names, .number = VERDICT_DENY),
	KEY("rules[]", "when", FIELDS, .set = set_rule_when, .number = 0),
	KEY("rules[]", "unless", FIELDS, .set = set_rule_when, .number = 1),
	KEY("rules[]", "sticky", WORD, .set = set_rule_sticky, .words = "never session tree agent"),
	KEY("rules[]", "headless", TEXT, .set = set_rule_headless),
	LATER("rules[]", "approvers", LIST),
	LATER("rules[]", "two_person", BOOL),

	KEY("condition", "args.", TESTS, .set = set_field, .number = SUBJECT_ARGS),
	KEY("condition", "agent", TESTS, .set = set_field, .number = SUBJECT_AGENT),
	KEY("condition", "kind", TESTS, .set = set_field, .number = SUBJECT_KIND),
	KEY("condition", "tool", TESTS, .set = set_field, .number = SUBJECT_TOOL),
	KEY("condition", "labels.", TESTS, .set = set_field, .number = SUBJECT_LABEL),
	KEY("condition", "estimate.money", TESTS, .set = set_field, .number = SUBJECT_MONEY),

	KEY("test", "is", ANY, .set = set_is),
	KEY("test", "in", LIST, .set = set_in),
	KEY("test", "not", ANY, .set = set_not),
	KEY("test", "glob", TEXT, .set = set_glob),
	KEY("test", "regex", TEXT, .set = set_regex),
	KEY("test", "under", TEXT, .set = set_under),
	LATER("test", "host", TEXT),
	KEY("test", "over", ANY, .set = set_bound, .number = COND_OVER),
	KEY("test", "below", ANY, .set = set_bound, .number = COND_BELOW),
	KEY("test", "bytes", ANY, .set = set_bytes),
	LATER("test", "runs", LIST),
	KEY("test.bytes", "over", ANY, .set = set_bytes_bound, .number = COND_BYTES_OVER),
	KEY("test.bytes", "below", ANY, .set = set_bytes_bound, .number = COND_BYTES_BELOW),

	KEY("budgets.*", "per", ANY, .set = set_budget_node, .number = BUDGET_PER),
	KEY("budgets.*", "limit", ANY, .set = set_budget_node, .number = BUDGET_LIMIT),
	KEY("budgets.*", "match", ANY, .set = set_budget_node, .number = BUDGET_MATCH),
	KEY("budgets.*", "floor", ANY, .set = set_budget_node, .number = BUDGET_FLOOR),
	KEY("budgets.*", "zero_cost", WORD, .set = set_budget_node, .words = "allow deny", .number = BUDGET_ZERO_COST),
	KEY("budgets.*", "then", WORD, .set = set_then, .words = "deny review", IN(budget, then)),
	KEY("budgets.*", "every", TEXT, .set = set_budget_node, .number = BUDGET_EVERY),
	KEY("budgets.*", "zone", TEXT, .set = set_budget_node, .number = BUDGET_ZONE),
	KEY("budgets.*", "grant_max", ANY, .set = set_budget_node, .number = BUDGET_GRANT_MAX),

	KEY("loops", "repeat", SECTION, .set = set_repeat),
	KEY("loops", "cycle", SECTION, .set = set_loop, .number = offsetof(struct policy, cycle)),
	KEY("loops", "errors", SECTION, .set = set_loop, .number = offsetof(struct policy, errors)),
	KEY("loops", "stuck", SECTION, .set = set_loop, .number = offsetof(struct policy, stuck)),
	LATER("loops", "similar", SECTION),
	KEY("loops.repeat", "same", LIST, .set = set_same),
	KEY("loops.repeat", "limit", COUNT, IN(loop_repeat, limit), .min = 1, .max = PAWL_MAX_WINDOW),
	KEY("loops.repeat", "window", ANY, .set = set_window, IN(loop_repeat, window)),
	KEY("loops.repeat", "ignore", LIST, .set = set_ignore),
	KEY("loops.repeat", "then", WORD, .set = set_then, .words = "deny review", IN(loop_repeat, then)),
	KEY("loops.cycle", "period", TEXT, .set = set_period),
	KEY("loops.cycle", "limit", COUNT, IN(loop_rule, limit), .min = 2, .max = PAWL_MAX_WINDOW / 2),
	KEY("loops.cycle", "window", ANY, .set = set_window, IN(loop_rule, window)),
	KEY("loops.cycle", "then", WORD, .set = set_then, .words = "deny review", IN(loop_rule, then)),
	LATER("loops.cycle", "ignore", LIST),
	KEY("loops.errors", "same", LIST, .set = set_same_as, .words = "error"),
	KEY("loops.errors", "limit", COUNT, IN(loop_rule, limit), .min = 1, .max = PAWL_MAX_WINDOW),
	KEY("loops.errors", "window", ANY, .set = set_window, IN(loop_rule, window)),
	KEY("loops.errors", "then", WORD, .set = set_then, .words = "deny review", IN(loop_rule, then)),
	KEY("loops.stuck", "same", LIST, .set = set_same_as, .words = "result"),
	KEY("loops.stuck", "limit", COUNT, IN(loop_rule, limit), .min = 1, .max = PAWL_MAX_WINDOW),
	KEY("loops.stuck", "window", ANY, .set = set_window, IN(loop_rule, window)),
	KEY("loops.stuck", "then", WORD, .set = set_then, .words = "deny review", IN(loop_rule, then)),
	LATER("loops.similar", "same", LIST),
	LATER("loops.similar", "limit", COUNT),
	LATER("loops.similar", "window", ANY),
	LATER("loops.similar", "ignore", LIST),
	LATER("loops.similar", "then", WORD),

	KEY("breakers.*", "match", ANY, .set = set_breaker_node, .number = BREAKER_MATCH),
	KEY("breakers.*", "per", ANY, .set = set_breaker_node, .number = BREAKER_PER),
	KEY("breakers.*", "open", SECTION, .set = set_breaker_node, .number = BREAKER_OPENS),
	KEY("breakers.*", "cool_down", SPAN, IN(breaker, cool_down_ns), .min = NS_PER_SEC, .max = 30 * DAY),
	KEY("breakers.*", "probes", ANY, .set = set_breaker_node, .number = BREAKER_PROBES),
	KEY("breakers.*", "sticky", BOOL, IN(breaker, sticky)),
	KEY("breakers.*.open", "failures", COUNT, IN(breaker, failures), .min = 1, .max = PAWL_MAX_STREAK),
	KEY("breakers.*.open", "denials", COUNT, IN(breaker, denials), .min = 1, .max = PAWL_MAX_STREAK),
	KEY("breakers.*.open", "breaches", COUNT, IN(breaker, breaches), .min = 1, .max = PAWL_MAX_STREAK),
	KEY("breakers.*.open", "within", SPAN, IN(breaker, within_ns), .min = NS_PER_SEC, .max = 30 * DAY),
	LATER("breakers.*.open", "cost", ANY),

	KEY("reviews", "timeout", SPAN, IN(review_rules, timeout_ns), .min = NS_PER_SEC, .max = 30 * DAY),
	KEY("reviews", "on_timeout", WORD, .set = set_checked, .words = "deny"),
	KEY("reviews", "show_args", WORD, .set = set_checked, .words = "redacted"),
	KEY("reviews", "pending", COUNT, IN(review_rules, pending), .min = 1, .max = 1000),

	LATER("results", "max", ANY),
	LATER("results", "secrets", WORD),

	KEY("sessions", "open", COUNT, IN(session_caps, open), .min = 1, .max = 1000000),
	KEY("sessions", "new", ANY, .set = set_new),
	KEY("sessions", "depth", COUNT, IN(session_caps, depth), .min = 1, .max = PAWL_MAX_DEPTH_TREE),
	KEY("sessions", "calls", COUNT, IN(session_caps, calls), .min = 1, .max = MANY),
	KEY("sessions", "lease", SPAN, IN(session_caps, lease_ns), .min = NS_PER_SEC, .max = 30 * DAY),
	KEY("sessions", "on_stale", WORD, .set = set_checked, .words = "abort"),
	KEY("sessions", "abort_hold", SPAN, .set = set_abort_hold, .min = NS_PER_SEC, .max = 30 * DAY),

	KEY("limits", "decide", ANY, .set = set_rate),
	KEY("limits", "burst", COUNT, IN(rate_limit, burst), .min = 1, .max = 1000000),

	LATER("prices.*", "input", ANY),
	LATER("prices.*", "cached_input", ANY),
	LATER("prices.*", "output", ANY),
	LATER("prices.*", "per", ANY),

	KEY("watch", "exec", WORD, .words = "none log required", IN(watch_policy, exec)),
	KEY("watch", "deny_exec", LIST, .set = set_deny_exec, .max = PAWL_MAX_DENY_EXEC),
	KEY("watch", "processes", COUNT, IN(watch_policy, limits.processes), .min = 1, .max = 32768),
	KEY("watch", "fork_rate", ANY, .set = set_watch_rate, IN(watch_policy, limits.fork_rate), .min = 1, .max = 1000000),
	KEY("watch", "exec_rate", ANY, .set = set_watch_rate, IN(watch_policy, limits.exec_rate), .min = 1, .max = 1000000),
	KEY("watch", "cpu", SPAN, IN(watch_policy, limits.cpu_ns), .min = NS_PER_SEC / 10, .max = 30 * DAY),
	KEY("watch", "memory", ANY, .set = set_watch_memory, .min = 1 << 20, .max = INT64_C(1) << 40),
	KEY("watch", "wall", SPAN, IN(watch_policy, limits.wall_ns), .min = NS_PER_SEC / 10, .max = 30 * DAY),
	LATER("watch", "egress", SECTION),
	KEY("watch", "writes_under", LIST, .set = set_writes_under, .max = PAWL_MAX_WRITES_UNDER),
	LATER("watch", "unpermitted_exec", WORD),
	LATER("watch.egress", "allow", LIST),

	KEY("log", "record_args", WORD, .words = "digest redacted full", IN(log_policy, record_args)),
	KEY("log", "redact", LIST, .set = set_redact),
	LATER("log", "checkpoint", SPAN),
};

const struct schema_key *schema_rows(size_t *ret_n)
{
	*ret_n = PAWL_LEN(rows);
	return rows;
}

static bool names(const char *pattern, struct str key)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '.')
		return key.n > n && memcmp(key.p, pattern, n) == 0;
	return str_is(key, pattern);
}

const struct schema_key *schema_find(const char *section, struct str key)
{
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (strcmp(rows[i].section, section) == 0 && names(rows[i].key, key))
			return &rows[i];
	return NULL;
}

bool schema_below(const struct schema_key *row, char out[static 64])
{
	const char *dot = *row->section ? "." : "", *tail = "";

	if (row->type == SCHEMA_NAMED)
		tail = ".*";
	else if (row->type == SCHEMA_ITEMS)
		tail = "[]";
	else if (row->type != SCHEMA_SECTION)
		return false;
	(void)snprintf(out, 64, "%s%s%s%s", row->section, dot, row->key, tail);
	return true;
}

static void unknown_key(struct loader *ld, const char *section, const struct ynode *key)
{
	char hint[128];

	ld_error(ld, key, "unknown key %s%s", QUOTED(key->text), schema_hint(section, key->text, hint));
}

/* Inside a section that is not built yet only the keys' names are looked at, so that a misspelling shows now and not
 * later. */
static void names_only(struct loader *ld, const char *section, const struct ynode *map)
{
	if (map->kind != YNODE_MAP)
		return;
	for (const struct ynode *key = map->first; key; key = key->next) {
		const struct schema_key *row = schema_find(section, key->text);
		char below[64];

		if (!row)
			unknown_key(ld, section, key);
		else if (row->type == SCHEMA_SECTION && schema_below(row, below))
			names_only(ld, below, key->value);
	}
}

static void not_built(struct loader *ld, const struct schema_key *row, const struct ynode *key)
{
	char below[64];

	if (*row->section)
		ld_error(ld, key, "not built yet: %s, a key of %s", row->key, schema_section(row->section));
	else
		ld_error(ld, key, "not built yet: %s", row->key);
	if (!schema_below(row, below))
		return;
	if (row->type == SCHEMA_SECTION)
		names_only(ld, below, key->value);
	else if (key->value->kind != YNODE_TEXT)
		for (const struct ynode *n = key->value->first; n; n = n->next)
			names_only(ld, below, row->type == SCHEMA_NAMED && n->value ? n->value : n);
}

static void store(void *obj, const struct schema_value *v)
{
	char *at = (char *)obj + v->row->offset;
	int word = (int)v->number;

	if (v->row->type == SCHEMA_BOOL)
		memcpy(at, &v->truth, sizeof(v->truth));
	else if (v->row->type == SCHEMA_WORD)
		memcpy(at, &word, sizeof(word));
	else
		memcpy(at, &v->number, sizeof(v->number));
}

void schema_walk(struct loader *ld, const char *section, const struct ynode *map, void *obj)
{
	for (const struct ynode *key = map->first; key; key = key->next) {
		struct schema_value v = { .row = schema_find(section, key->text), .key = key, .node = key->value };

		if (!v.row)
			unknown_key(ld, section, key);
		else if (!v.row->built)
			not_built(ld, v.row, key);
		else if (value_typed(ld, &v)) {
			if (v.row->set)
				v.row->set(ld, obj, &v);
			else
				store(obj, &v);
		}
	}
}
