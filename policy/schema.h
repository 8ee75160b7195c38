/* policy/schema.h - the policy language as one table: section, key, type, where its value goes. Keys whose room is not
 * built yet are rows too, so that they are refused by name instead of ignored. */
#ifndef PAWL_SCHEMA_H
#define PAWL_SCHEMA_H
#include "policy/yaml.h"

struct loader;
struct schema_value;
typedef void schema_set(struct loader *ld, void *obj, const struct schema_value *v);

enum schema_type {
	SCHEMA_ANY,     /* the setter looks for itself */
	SCHEMA_TEXT,    /* one text */
	SCHEMA_WORD,    /* one of `words`; the value is its index */
	SCHEMA_BOOL,    /* plain true or false */
	SCHEMA_COUNT,   /* a whole number, min..max */
	SCHEMA_SPAN,    /* 30s, 5m; min..max in ns */
	SCHEMA_LIST,    /* a list */
	SCHEMA_SECTION, /* a map of known keys: section "a.b" */
	SCHEMA_NAMED,   /* a map of names that the file chooses, each a section: "a.*" */
	SCHEMA_ITEMS,   /* a list of sections: "a[]" */
	SCHEMA_FIELDS,  /* when, unless: subjects, section "condition" */
	SCHEMA_TESTS,   /* of one subject: section "test" */
};

struct schema_key {
	const char *section, *key; /* a key that ends with a point is a prefix: "args." */
	enum schema_type type;
	bool built;
	schema_set *set;   /* NULL: store the value at `offset` */
	const char *words; /* SCHEMA_WORD, separated by blanks */
	size_t offset;
	int64_t min, max, number; /* number: what a setter shared by several rows goes by */
};

struct schema_value {
	const struct schema_key *row;
	const struct ynode *key, *node; /* node: the value */
	bool truth;
	int64_t number; /* COUNT, SPAN, WORD */
};

const struct schema_key *schema_rows(size_t *ret_n);
const struct schema_key *schema_find(const char *section, struct str key);
/* Every key of map: unknown, not built and wrongly typed ones are reported, the rest goes to its setter with obj. */
void schema_walk(struct loader *ld, const char *section, const struct ynode *map, void *obj);
/* The section below a SECTION, NAMED or ITEMS row; false for other rows. */
bool schema_below(const struct schema_key *row, char out[static 64]);
/* The section's name for people. */
const char *schema_section(const char *section);
/* `did you mean …` for an unknown key, looked for at all levels; "" when nothing is near. Returns out. */
const char *schema_hint(const char *section, struct str key, char out[static 128]);

#endif
