/* daemon/log/entry_fields_daemon.c - the rows of entries that pawld writes about itself: that it started or stopped, which policy is in force,
 * who may sign, whom it did not hear, where its state is kept. As in entry_fields.c. Owns constant tables only. */
#include "daemon/log/entry_rows.h"

/* ---- start, stop, policy ---- */
#define R(member) offsetof(struct budget_row, member)
static const struct field budget_rows[] = {
	{ FIELD("from", TEXT, WHEN_SET, R(from)) },
	{ FIELD("id", TEXT, ALWAYS, R(id)) },
	{ FIELD("life", BOOL, WHEN_SET, R(life)) },
	{ FIELD("like", HEX, ALWAYS, R(like)), .arg = 16 },
	{ FIELD("limit", AMOUNT, ALWAYS, R(limit)), .unit = R(unit) },
	{ FIELD("per_tool", BOOL, WHEN_SET, R(per_tool)) },
	{ FIELD("scope", NAME, ALWAYS, R(scope)), .more = &entry_scope_names },
	{ FIELD("unit", UNIT, ALWAYS, R(unit)) },
	{ FIELD("windowed", BOOL, WHEN_SET, R(windowed)) },
};
static const struct field change_item = { FIELD("", TEXT, ALWAYS, 0) };
/* o: the struct entry_budgets */
#define BUDGETS(o)                                                                                           \
	{                                                                                                    \
		FIELD("budgets", LIST, WHEN_SET, E(o.rows)), .more = &(const struct list)                    \
		{                                                                                            \
			.fields = { budget_rows, PAWL_LEN(budget_rows) }, .size = sizeof(struct budget_row), \
			.max = PAWL_MAX_BUDGETS, .count = E(o.n)                                             \
		}                                                                                            \
	}
#define CHANGES(o)                                                                                 \
	{                                                                                          \
		FIELD("changes", LIST, WHEN_SET, E(o.changes)), .more = &(const struct list)       \
		{                                                                                  \
			.item = &change_item, .size = sizeof(struct str), .max = PAWL_MAX_CHANGES, \
			.count = E(o.n_changes), .block = 1                                        \
		}                                                                                  \
	}
#define NO_BUDGETS(o)                                          \
	{                                                      \
		FIELD("no_budgets", BOOL, WHEN_SET, E(o.none)) \
	}
static const struct field start_policy_rows[] = {
	{ FIELD("hash", TEXT, ALWAYS, E(start.policy_hash)) },
	{ FIELD("name", TEXT, ALWAYS, E(start.policy_name)) },
};
static const struct field start_rows[] = {
	BUDGETS(start.budgets),
	CHANGES(start.budgets),
	{ FIELD("default", TEXT, ALWAYS, E(start.fallback)) },
	{ FIELD("judge", INT, ALWAYS, E(start.judge)) },
	ENDS_KIND,
	{ FIELD("mode", TEXT, ALWAYS, E(start.mode)) },
	NO_BUDGETS(start.budgets),
	ENDS_NOW,
	{ FIELD("policy", OBJECT, ALWAYS, 0), .more = FIELDS(start_policy_rows) },
	{ FIELD("probes", JSON, ALWAYS, E(start.probes_text)) },
	{ FIELD("version", TEXT, ALWAYS, E(start.version)) },
	ENDS_WALL,
};
static const struct field stop_rows[] = {
	ENDS_KIND, ENDS_NOW, ENDS_WALL, { FIELD("why", TEXT, ALWAYS, E(stop.why)) },
};
static const struct field policy_rows[] = {
	BUDGETS(policy.budgets), CHANGES(policy.budgets),
	{ FIELD("hash", TEXT, WHEN_SET, E(policy.hash)) },
	{ FIELD("key", TEXT, WHEN_SET, E(policy.key)) }, ENDS_KIND,
	{ FIELD("loaded", BOOL, ALWAYS, E(policy.loaded)) },
	{ FIELD("message", TEXT, WHEN_SET, E(policy.message)) },
	{ FIELD("mode", TEXT, WHEN_SET, E(policy.mode)) },
	{ FIELD("name", TEXT, WHEN_SET, E(policy.name)) },
	NO_BUDGETS(policy.budgets), ENDS_NOW,
	{ FIELD("operator", TEXT, WHEN_SET, E(policy.operator)) },
	{ FIELD("reason", TEXT, WHEN_SET, E(policy.reason)) },
	{ FIELD("signature", HEX, WHEN_FLAG, E(policy.signature)), .flag = E(policy.ordered), .arg = 64 },
	{ FIELD("signed", HEX, WHEN_FLAG, E(policy.signed_hash)), .flag = E(policy.ordered), .arg = 32 },
	ENDS_WALL,
};

/* ---- keys, throttling, snapshots ---- */
static const struct field key_rows[] = {
	{ FIELD("enrolled", BOOL, ALWAYS, E(key.enrolled)) },
	{ FIELD("key", TEXT, ALWAYS, E(key.key)) },
	ENDS_KIND, ENDS_NOW,
	{ FIELD("operator", TEXT, ALWAYS, E(key.operator)) },
	ENDS_WALL,
};
static const struct field throttle_rows[] = {
	{ FIELD("agent", TEXT, ALWAYS, E(throttle.agent)) },
	{ FIELD("count", INT, ALWAYS, E(throttle.count)) }, ENDS_KIND, ENDS_NOW,
	{ FIELD("session", ID, WHEN_SET, E(throttle.session)), .arg = 's' },
	ENDS_WALL,
};
static const struct field snapshot_rows[] = {
	{ FIELD("at", INT, ALWAYS, E(snapshot.at)) },
	{ FIELD("bytes", INT, ALWAYS, E(snapshot.bytes)) },
	ENDS_KIND,
	ENDS_NOW,
	{ FIELD("sha256", HEX, ALWAYS, E(snapshot.sha256)), .arg = 32 },
	ENDS_WALL,
};

const struct fields entry_start_fields = { start_rows, PAWL_LEN(start_rows) };
const struct fields entry_stop_fields = { stop_rows, PAWL_LEN(stop_rows) };
const struct fields entry_policy_fields = { policy_rows, PAWL_LEN(policy_rows) };
const struct fields entry_key_fields = { key_rows, PAWL_LEN(key_rows) };
const struct fields entry_throttle_fields = { throttle_rows, PAWL_LEN(throttle_rows) };
const struct fields entry_snapshot_fields = { snapshot_rows, PAWL_LEN(snapshot_rows) };
