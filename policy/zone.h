/* policy/zone.h - a time zone: by how much its clock is ahead of UTC, for every moment that int64 ns can name. Read
 * once, from the bytes of a TZif file (RFC 9636, version 2 and later), and frozen: a log stays true when the zone's
 * file changes. Pure: who reads the file is the loader's caller. */
#ifndef PAWL_ZONE_H
#define PAWL_ZONE_H
#include "policy/arena.h"
#include "pawl/error.h"

#define ZONE_FOLDER    "/usr/share/zoneinfo/"
#define ZONE_MAX_NAME  64
#define ZONE_MAX_BYTES (64u << 10)
#define ZONE_LAST_YEAR 2262 /* int64 ns end in its April */

struct zone_step {
	int64_t at;     /* seconds since 1970 UTC: from here on */
	int64_t offset; /* local = UTC + offset */
};
struct zone {
	struct str name;
	int64_t before; /* offset before the first step */
	struct zone_step *steps;
	size_t n;
};

/* Europe/Berlin: a name that stays below the folder. */
bool zone_name_good(struct str name);
/* *ret lives in mem. PAWL_E_MALFORMED: not such a file, one that contradicts itself, or one with leap seconds. */
PAWL_MUST_USE int zone_parse(struct str bytes, struct str name, struct arena *mem, const struct zone **ret,
			     struct pawl_error *err);
/* Steps at or before the second; the offset then is zone_offset(z, that). */
size_t zone_at(const struct zone *z, int64_t sec);
int64_t zone_offset(const struct zone *z, size_t at);

/* ---- zone_rule.c: the text at a file's end that tells the years after its last step ---- */
struct zone_day { /* of a year */
	enum { ZONE_DAY_PLAIN /* 0..365 */, ZONE_DAY_JULIAN /* 1..365, never 29 February */, ZONE_DAY_WEEK } kind;
	int64_t day, month, week; /* ZONE_DAY_WEEK: day 0..6 from Sunday, week 1..5, 5 = the last one */
	int64_t time;             /* seconds after its midnight */
};
struct zone_rule {
	bool summer;
	int64_t offset, summer_offset;
	struct zone_day start, end; /* of summer time */
};
bool zone_rule_parse(struct str text, struct zone_rule *ret);
/* Both steps of a year, the earlier one first; summer only. */
void zone_rule_year(const struct zone_rule *rule, int64_t year, struct zone_step out[static 2]);

#endif
