/* daemon/log/entry_rows.h - how a row of entry_fields*.c is spelled, and the rows that one of these files has for the other. */
#ifndef PAWL_ENTRY_ROWS_H
#define PAWL_ENTRY_ROWS_H
#include "daemon/log/entry_fields.h"

#define FIELD(name, type_, when_, off_)                                                                       \
	.key = "\"" name "\":", .key_n = sizeof("\"" name "\":") - 1, .type = FIELD_##type_, .when = (when_), \
	.off = (off_)
#define E(member) offsetof(struct entry, member)
#define FIELDS(list)                   \
	&(const struct fields)         \
	{                              \
		(list), PAWL_LEN(list) \
	}

#define ENDS_KIND                                                               \
	{                                                                       \
		FIELD("kind", NAME, ALWAYS, E(kind)), .more = &entry_kind_names \
	}
#define ENDS_NOW                                   \
	{                                          \
		FIELD("now", TIME, ALWAYS, E(now)) \
	}
#define ENDS_WALL                                    \
	{                                            \
		FIELD("wall", TIME, ALWAYS, E(wall)) \
	}

/* ---- breakers, in whatever changes them; entry_fields.c has the rows. o: the body that they are in ---- */
extern const struct field entry_breaker_rows[];
#define BREAKER_ROWS 14
#define BREAKERS(o)                                                                                         \
	{                                                                                                   \
		FIELD("breakers", LIST, WHEN_SET, E(o.breakers)), .more = &(const struct list)              \
		{                                                                                           \
			.fields = { entry_breaker_rows, BREAKER_ROWS }, .size = sizeof(struct breaker_row), \
			.max = PAWL_MAX_BREAKERS, .count = E(o.n_breakers), .block = 1                      \
		}                                                                                           \
	}

/* entry_fields_watch.c, by action */
extern const struct fields entry_watch_fields[WATCHED_ACTION_COUNT];
/* entry_fields_daemon.c */
extern const struct fields entry_start_fields, entry_stop_fields, entry_policy_fields, entry_key_fields, entry_throttle_fields, entry_snapshot_fields;

#endif
