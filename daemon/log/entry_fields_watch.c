/* daemon/log/entry_fields_watch.c - the rows of entries about trees of watched processes, one table an action. Texts in them are the kernel's
 * copies of what a program chose: any bytes, which the writer makes UTF-8. As in entry_fields.c. Owns constant tables only. */
#include "daemon/log/entry_rows.h"

#define ENDS_ACTION                                                                           \
	{                                                                                     \
		FIELD("action", NAME, ALWAYS, E(watch.action)), .more = &entry_watched_names  \
	}
#define ENDS_SESSION                                                            \
	{                                                                       \
		FIELD("session", ID, ALWAYS, E(watch.session)), .arg = 's'      \
	}
#define ENDS_WHY                                                                \
	{                                                                       \
		FIELD("why", NAME, ALWAYS, E(watch.why)), .more = &entry_why_names \
	}

/* ---- programs ---- */
#define P(member) offsetof(struct watched_program, member)
static const struct field program_rows[] = {
	{ FIELD("argv_mac", HEX, WHEN_FLAG, P(argv_mac)), .flag = P(has_argv), .arg = 32 },
	{ FIELD("comm", TEXT, WHEN_SET, P(comm)) },
	{ FIELD("count", INT, ALWAYS, P(count)) },
	{ FIELD("dev", HEX64, ALWAYS, P(dev)) },
	{ FIELD("ino", HEX64, ALWAYS, P(ino)) },
	{ FIELD("path", TEXT, ALWAYS, P(path)) },
	{ FIELD("path_cut", BOOL, WHEN_SET, P(path_cut)) },
	{ FIELD("pid", INT, ALWAYS, P(pid)) },
};
#define PROGRAMS                                                                                                    \
	{                                                                                                           \
		FIELD("programs", LIST, WHEN_SET, E(watch.programs)), .more = &(const struct list)                  \
		{                                                                                                   \
			.fields = { program_rows, PAWL_LEN(program_rows) }, .size = sizeof(struct watched_program), \
			.max = PAWL_MAX_PROGRAMS, .count = E(watch.n_programs)                                      \
		}                                                                                                   \
	}
#define COUNTS                                                                                       \
	{ FIELD("total", INT, ALWAYS, E(watch.total)) },                                             \
	{                                                                                            \
		FIELD("unlisted", INT, WHEN_SET, E(watch.unlisted))                                  \
	}

static const struct field execs_rows[] = { ENDS_ACTION, ENDS_KIND, ENDS_NOW, PROGRAMS, ENDS_SESSION, COUNTS, ENDS_WALL };
static const struct field kill_rows[] = {
	ENDS_ACTION, BREAKERS(watch), ENDS_KIND, { FIELD("log_only", BOOL, WHEN_SET, E(watch.log_only)) },
	ENDS_NOW,    PROGRAMS,	      ENDS_SESSION, COUNTS,
	ENDS_WALL,   ENDS_WHY,
};

/* ---- a tree, from its beginning to its end ---- */
#define L(member) E(watch.limits.member)
static const struct field limit_rows[] = {
	{ FIELD("cpu", SPAN, WHEN_SET, L(cpu_ns)) },	     { FIELD("exec_rate", INT, WHEN_SET, L(exec_rate)) },
	{ FIELD("fork_rate", INT, WHEN_SET, L(fork_rate)) }, { FIELD("memory", INT, WHEN_SET, L(memory)) },
	{ FIELD("processes", INT, WHEN_SET, L(processes)) }, { FIELD("wall", SPAN, WHEN_SET, L(wall_ns)) },
};
static const struct field hold_item = { FIELD("", NAME, ALWAYS, 0), .more = &entry_hold_names };
static const struct list held_list = {
	.item = &hold_item, .size = sizeof(enum watched_hold), .max = WATCHED_HOLD_COUNT, .count = E(watch.n_held), .in_place = true
};
_Static_assert(sizeof(enum watched_hold) == sizeof(unsigned) && sizeof(enum watch_why) == sizeof(unsigned), "the tables read enums as unsigned");
static const struct field attach_rows[] = {
	ENDS_ACTION,
	{ FIELD("held", LIST, WHEN_SET, E(watch.held)), .more = &held_list },
	ENDS_KIND,
	{ FIELD("limits", OBJECT, WHEN_SET, 0), .more = FIELDS(limit_rows) },
	{ FIELD("log_only", BOOL, WHEN_SET, E(watch.log_only)) },
	{ FIELD("message", TEXT, WHEN_SET, E(watch.message)) },
	ENDS_NOW,
	{ FIELD("pid", INT, ALWAYS, E(watch.pid)) },
	{ FIELD("run", BOOL, WHEN_SET, E(watch.run)) },
	ENDS_SESSION,
	{ FIELD("start", INT, ALWAYS, E(watch.start_ns)) },
	{ FIELD("tier", TEXT, ALWAYS, E(watch.tier)) },
	{ FIELD("uid", INT, ALWAYS, E(watch.uid)) },
	ENDS_WALL,
};
static const struct field breach_rows[] = {
	ENDS_ACTION,
	BREAKERS(watch),
	{ FIELD("comm", TEXT, WHEN_SET, E(watch.comm)) },
	ENDS_KIND,
	{ FIELD("limit", INT, ALWAYS, E(watch.limit)) },
	{ FIELD("log_only", BOOL, WHEN_SET, E(watch.log_only)) },
	{ FIELD("measured", INT, ALWAYS, E(watch.measured)) },
	ENDS_NOW,
	{ FIELD("pid", INT, WHEN_SET, E(watch.pid)) },
	ENDS_SESSION,
	ENDS_WALL,
	ENDS_WHY,
};
static const struct field lost_rows[] = {
	ENDS_ACTION, BREAKERS(watch), { FIELD("events", INT, ALWAYS, E(watch.events)) }, ENDS_KIND, ENDS_NOW, ENDS_SESSION, ENDS_WALL,
};
static const struct field left_rows[] = {
	ENDS_ACTION, { FIELD("comm", TEXT, WHEN_SET, E(watch.comm)) }, ENDS_KIND, ENDS_NOW, { FIELD("pid", INT, ALWAYS, E(watch.pid)) },
	ENDS_SESSION, { FIELD("total", INT, ALWAYS, E(watch.total)) }, ENDS_WALL,
};
static const struct field dead_rows[] = {
	{ FIELD("comm", TEXT, ALWAYS, offsetof(struct watched_dead, comm)) },
	{ FIELD("pid", INT, ALWAYS, offsetof(struct watched_dead, pid)) },
};
static const struct list dead_list = { .fields = { dead_rows, PAWL_LEN(dead_rows) }, .size = sizeof(struct watched_dead),
				       .max = PAWL_MAX_ENDED, .count = E(watch.n_dead) };
static const struct field end_rows[] = {
	ENDS_ACTION,
	{ FIELD("cpu", SPAN, ALWAYS, E(watch.cpu_ns)) },
	{ FIELD("ended", LIST, WHEN_SET, E(watch.dead)), .more = &dead_list },
	{ FIELD("execs", INT, ALWAYS, E(watch.execs)) },
	{ FIELD("forks", INT, ALWAYS, E(watch.forks)) },
	{ FIELD("killed", INT, ALWAYS, E(watch.killed)) },
	ENDS_KIND,
	{ FIELD("limit", INT, WHEN_FLAG, E(watch.limit)), .flag = E(watch.has_measured) },
	{ FIELD("lost", INT, ALWAYS, E(watch.lost)) },
	{ FIELD("measured", INT, WHEN_FLAG, E(watch.measured)), .flag = E(watch.has_measured) },
	{ FIELD("memory_peak", INT, ALWAYS, E(watch.memory_peak)) },
	ENDS_NOW,
	{ FIELD("peak", INT, ALWAYS, E(watch.peak)) },
	ENDS_SESSION,
	{ FIELD("time", SPAN, ALWAYS, E(watch.wall_ns)) },
	ENDS_WALL,
	ENDS_WHY,
};

#define ROWS(list)                 \
	{                          \
		(list), PAWL_LEN(list) \
	}
const struct fields entry_watch_fields[WATCHED_ACTION_COUNT] = {
	[WATCHED_ATTACH] = ROWS(attach_rows), [WATCHED_EXECS] = ROWS(execs_rows), [WATCHED_KILL] = ROWS(kill_rows),
	[WATCHED_BREACH] = ROWS(breach_rows), [WATCHED_LOST] = ROWS(lost_rows),	  [WATCHED_LEFT] = ROWS(left_rows),
	[WATCHED_END] = ROWS(end_rows),
};
