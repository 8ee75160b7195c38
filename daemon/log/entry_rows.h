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

/* entry_fields_daemon.c */
extern const struct fields entry_start_fields, entry_stop_fields, entry_policy_fields, entry_key_fields, entry_throttle_fields, entry_snapshot_fields;

#endif
