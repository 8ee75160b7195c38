/* daemon/log/entry_fields.h - every kind of entry as a table of its fields, in the order of canonical JSON. The writer
 * and the reader walk the same rows, so what one writes the other takes and nothing else. Private to entry*.c. */
#ifndef PAWL_ENTRY_FIELDS_H
#define PAWL_ENTRY_FIELDS_H
#include "pawl/entry.h"

enum field_type {
	FIELD_TEXT,     /* struct str */
	FIELD_MESSAGE,  /* char[arg], ends in NUL */
	FIELD_JSON,     /* struct str that holds a canonical JSON object */
	FIELD_CURRENCY, /* struct str; also the unit of money in the lists behind it */
	FIELD_TIME,     /* int64_t ns: RFC 3339 */
	FIELD_SPAN,     /* int64_t ns: "30s" */
	FIELD_INT,      /* int64_t */
	FIELD_BOOL,
	FIELD_HEX,       /* uint8_t[arg] */
	FIELD_HEX64,     /* uint64_t, 16 digits */
	FIELD_ID,        /* uint64_t; arg is the letter */
	FIELD_ID_OR_OWN, /* the same, and UINT64_MAX is the entry's own sequence */
	FIELD_NAME,      /* an enum, by its names */
	FIELD_UNIT,      /* enum unit; money is spelled as the currency */
	FIELD_AMOUNT,    /* int64_t in the enum unit at `unit`: decimal text */
	FIELD_MONEY,     /* int64_t nano-units: decimal text */
	FIELD_COUNT,     /* int64_t: decimal text without decimals */
	FIELD_OBJECT,    /* rows one level down; their offsets count from off */
	FIELD_LIST,      /* an array of structs or of bare values */
};

enum field_when {
	ALWAYS,
	WHEN_SET,          /* not zero, not NULL; an object: one of its own optional rows is there */
	WHEN_FLAG,         /* the bool at `flag` */
	WHEN_NOT_NEGATIVE, /* -1 = not said */
};

struct field {
	const char *key; /* with quotes and colon */
	uint8_t key_n;
	uint8_t type, when; /* enum field_type, enum field_when */
	uint8_t arg;
	uint16_t off, flag, unit; /* unit: FIELD_AMOUNT, where its enum unit is */
	const void *more;         /* struct names, struct fields or struct list */
};
struct names {
	const struct str *names; /* by value of the enum; {NULL, 0} has no name */
	size_t n;
};
struct fields {
	const struct field *rows;
	size_t n;
};
struct list {
	struct fields fields;     /* of an element; or */
	const struct field *item; /* the element is this one value, at off 0 */
	size_t size, max;         /* of an element; elements */
	uint16_t count;           /* offset of the count beside: a size_t */
	bool count32;             /* or a uint32_t */
	bool in_place;            /* an array in the struct, else a pointer, and */
	uint8_t block;            /* which block of struct entry_parsed holds it */
};
static inline size_t list_count(const struct list *list, const char *base)
{
	const void *at = base + list->count;

	return list->count32 ? *(const uint32_t *)at : *(const size_t *)at;
}

extern const struct names entry_kind_names, entry_action_names, entry_call_kind_names, entry_scope_names;
extern const struct names entry_reach_names; /* a breaker's scopes: one more, for all */
extern const struct names entry_what_names, entry_verdict_names, entry_outcome_names, entry_stick_names;
extern const struct names entry_mode_names, entry_answer_names, entry_reason_names;
extern const struct names entry_watched_names, entry_hold_names, entry_why_names;

/* One layout of an entry: a kind, and for three kinds what `action` or `what` says. */
struct shape {
	const struct fields *fields;
	enum entry_kind kind;
	unsigned sub;     /* the action, answer or loss, else 0 */
	const char *mark; /* `"what":"late_settle"`: how a body shows it; NULL = the kind alone tells */
};
extern const struct shape entry_shapes[];
extern const size_t entry_n_shapes;
const struct shape *entry_shape_of(const struct entry *e); /* NULL: no such kind, action or loss */

static inline bool field_flag(const struct field *f, const char *base)
{
	return *(const bool *)(base + f->flag);
}
static inline int64_t field_i64(const struct field *f, const char *base)
{
	return *(const int64_t *)(base + f->off);
}
bool field_present(const struct field *f, const char *base);

#endif
