/* tests/unit/test_window.c - budget windows across the days that have 23 or 25 hours, and the TZif reader behind them:
 * by a table, by properties that hold for every moment, against the C library, and with damaged files. */
#include "daemon/base/files.h"
#include "daemon/base/owner.h"
#include "policy/civil.h"
#include "policy/zone.h"

#include "tests/support/fail_malloc.h"
#include "tests/support/skip.h"
#include "tests/support/zone_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* "2026-03-29T01:00:00" UTC -> seconds */
static int64_t utc(const char *text)
{
	int y, mon, d, h, min, s;

	assert_int_equal(sscanf(text, "%d-%d-%dT%d:%d:%d", &y, &mon, &d, &h, &min, &s), 6);
	return (civil_month_start(y, mon - 1) + d - 1) * DAY_S + h * HOUR_S + min * 60 + s;
}

static const char *text_of(int64_t sec, char out[static 32])
{
	time_t t = (time_t)sec;
	struct tm tm;

	(void)strftime(out, 32, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t, &tm));
	return out;
}

/* A file of one kind of time whose rule tells all: offset seconds in the table's place. */
static const struct zone *rule_zone(struct arena *mem, const char *rule, int32_t offset)
{
	char bytes[sizeof(TZIF_V1 TZIF_PLUS_1) + 80];
	size_t n = sizeof(TZIF_V1 TZIF_PLUS_1) - 1;
	uint32_t u = (uint32_t)offset;
	const struct zone *z = NULL;
	struct pawl_error err;

	memcpy(bytes, TZIF_V1 TZIF_PLUS_1, n);
	for (size_t i = 0; i < 4; i++)
		bytes[n - 10 + i] = (char)(u >> (24 - 8 * i));
	n += (size_t)snprintf(bytes + n, sizeof(bytes) - n, "\n%s\n", rule);
	if (zone_parse((struct str){ bytes, n }, STR("test"), mem, &z, &err))
		fail_msg("%s: %s", rule, err.msg);
	return z;
}

static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3", new_york[] = "EST5EDT,M3.2.0,M11.1.0",
		  lord_howe[] = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", kathmandu[] = "<+0545>-5:45",
		  havana[] = "CST5CDT,M3.2.0/0,M11.1.0/1", st_johns[] = "NST3:30NDT,M4.1.0/0:01,M10.5.0/0:01";

/* ---- the table ---- */

static const struct {
	const char *zone; /* NULL = UTC */
	enum window_kind kind;
	const char *now, *end;
} rows[] = {
	{ NULL, WINDOW_HOUR, "2026-11-29T18:41:10", "2026-11-29T19:00:00" },
	{ NULL, WINDOW_HOUR, "2026-11-29T19:00:00", "2026-11-29T20:00:00" },
	{ NULL, WINDOW_DAY, "2026-11-29T00:00:00", "2026-11-30T00:00:00" },
	{ NULL, WINDOW_DAY, "2026-11-29T23:59:59", "2026-11-30T00:00:00" },
	{ NULL, WINDOW_WEEK, "2026-11-29T23:59:59", "2026-11-30T00:00:00" }, /* a Sunday */
	{ NULL, WINDOW_WEEK, "2026-11-30T00:00:00", "2026-12-07T00:00:00" }, /* Monday */
	{ NULL, WINDOW_MONTH, "2026-11-30T23:59:59", "2026-12-01T00:00:00" },
	{ NULL, WINDOW_MONTH, "2026-12-01T00:00:00", "2027-01-01T00:00:00" },
	{ NULL, WINDOW_MONTH, "2028-02-01T00:00:00", "2028-03-01T00:00:00" },
	{ NULL, WINDOW_DAY, "2028-02-28T12:00:00", "2028-02-29T00:00:00" },
	{ NULL, WINDOW_MONTH, "2100-02-28T12:00:00", "2100-03-01T00:00:00" },
	{ NULL, WINDOW_DAY, "1970-01-01T00:00:00", "1970-01-02T00:00:00" },
	/* Berlin: 29 March 2026 has 23 hours, 25 October 25 */
	{ berlin, WINDOW_DAY, "2026-03-28T22:59:59", "2026-03-28T23:00:00" },
	{ berlin, WINDOW_DAY, "2026-03-28T23:00:00", "2026-03-29T22:00:00" },
	{ berlin, WINDOW_DAY, "2026-03-29T21:59:59", "2026-03-29T22:00:00" },
	{ berlin, WINDOW_DAY, "2026-10-24T22:00:00", "2026-10-25T23:00:00" },
	{ berlin, WINDOW_DAY, "2026-10-25T22:59:59", "2026-10-25T23:00:00" },
	{ berlin, WINDOW_DAY, "2026-07-01T00:00:00", "2026-07-01T22:00:00" },
	{ berlin, WINDOW_WEEK, "2026-03-29T21:00:00", "2026-03-29T22:00:00" },
	{ berlin, WINDOW_WEEK, "2026-10-19T00:00:00", "2026-10-25T23:00:00" },
	{ berlin, WINDOW_MONTH, "2026-03-01T00:00:00", "2026-03-31T22:00:00" },
	{ berlin, WINDOW_MONTH, "2026-10-31T22:59:59", "2026-10-31T23:00:00" },
	/* the hour from 2 to 3 is lived twice: two windows; the one that is left out is none */
	{ berlin, WINDOW_HOUR, "2026-10-25T00:30:00", "2026-10-25T01:00:00" },
	{ berlin, WINDOW_HOUR, "2026-10-25T01:00:00", "2026-10-25T02:00:00" },
	{ berlin, WINDOW_HOUR, "2026-03-29T00:59:59", "2026-03-29T01:00:00" },
	{ berlin, WINDOW_HOUR, "2026-03-29T01:00:00", "2026-03-29T02:00:00" },
	/* far behind every table: the rule at the file's end */
	{ berlin, WINDOW_DAY, "2199-03-31T12:00:00", "2199-03-31T22:00:00" },
	{ berlin, WINDOW_DAY, "2261-12-31T12:00:00", "2261-12-31T23:00:00" },
	{ new_york, WINDOW_DAY, "2026-03-08T05:00:00", "2026-03-09T04:00:00" },
	{ new_york, WINDOW_DAY, "2026-11-01T04:00:00", "2026-11-02T05:00:00" },
	{ kathmandu, WINDOW_HOUR, "2026-11-29T18:41:10", "2026-11-29T19:15:00" },
	{ kathmandu, WINDOW_DAY, "2026-11-29T18:15:00", "2026-11-30T18:15:00" },
	/* half an hour of summer time: that hour has 90 minutes in autumn; in spring the full hour of 2 is left out */
	{ lord_howe, WINDOW_HOUR, "2026-04-04T14:00:00", "2026-04-04T15:30:00" },
	{ lord_howe, WINDOW_HOUR, "2026-04-04T15:29:59", "2026-04-04T15:30:00" },
	{ lord_howe, WINDOW_HOUR, "2026-10-03T14:30:00", "2026-10-03T16:00:00" },
	{ lord_howe, WINDOW_DAY, "2026-04-04T14:00:00", "2026-04-05T13:30:00" },
	/* Havana: the clock jumps from midnight to one: the day starts at the jump */
	{ havana, WINDOW_DAY, "2026-03-07T12:00:00", "2026-03-08T05:00:00" },
	{ havana, WINDOW_DAY, "2026-03-08T05:00:00", "2026-03-09T04:00:00" },
	/* St. John's, as it was: one minute after midnight back to yesterday, which stays in today's window */
	{ st_johns, WINDOW_DAY, "2006-10-29T02:29:59", "2006-10-29T02:30:00" },
	{ st_johns, WINDOW_DAY, "2006-10-29T02:30:00", "2006-10-30T03:30:00" },
	{ st_johns, WINDOW_DAY, "2006-10-29T02:31:00", "2006-10-30T03:30:00" },
	{ st_johns, WINDOW_DAY, "2006-10-29T03:29:59", "2006-10-30T03:30:00" },
	{ st_johns, WINDOW_DAY, "2006-10-29T03:30:00", "2006-10-30T03:30:00" },
};

static int32_t offset_of(const char *rule)
{
	return rule == berlin                       ? 3600
	       : rule == new_york || rule == havana ? -5 * 3600
	       : rule == lord_howe                  ? 37800
	       : rule == kathmandu                  ? 20700
						    : -12600;
}

static void test_table(void **state)
{
	struct arena mem = { 0 };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct window w = { .kind = rows[i].kind };
		int64_t now = utc(rows[i].now) * NS_PER_SEC, end;
		char is[32];

		w.zone = rows[i].zone ? rule_zone(&mem, rows[i].zone, offset_of(rows[i].zone)) : NULL;
		end = window_end(&w, now);
		if (end != utc(rows[i].end) * NS_PER_SEC)
			fail_msg("row %zu, %s at %s: %s, not %s", i, rows[i].zone ? rows[i].zone : "UTC", rows[i].now,
				 text_of(end / NS_PER_SEC, is), rows[i].end);
		assert_true(window_end(&w, now + NS_PER_SEC - 1) == end);
	}
	arena_done(&mem);
}

/* Spans are counted from 1970 UTC, and the last one ends where int64 does. */
static void test_spans(void **state)
{
	static const struct {
		int64_t span, now, end;
	} spans[] = {
		{ NS_PER_SEC, 0, NS_PER_SEC },
		{ NS_PER_SEC, NS_PER_SEC - 1, NS_PER_SEC },
		{ NS_PER_SEC, NS_PER_SEC, 2 * NS_PER_SEC },
		{ 90 * NS_PER_SEC, 90 * NS_PER_SEC - 1, 90 * NS_PER_SEC },
		{ 5400 * NS_PER_SEC, 1796000000 * NS_PER_SEC, 1796002200 * NS_PER_SEC },
		{ 1500000000, 1500000000, 3000000000 },
		{ NS_PER_SEC, -1, 0 },
		{ NS_PER_SEC, -NS_PER_SEC, 0 },
		{ 366 * DAY_S * NS_PER_SEC, INT64_MAX, INT64_MAX },
	};
	struct window none = { .kind = WINDOW_NONE };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(spans); i++) {
		struct window w = { .kind = WINDOW_SPAN, .span_ns = spans[i].span };

		if (window_end(&w, spans[i].now) != spans[i].end)
			fail_msg("span %zu: %lld", i, (long long)window_end(&w, spans[i].now));
	}
	assert_int_equal(window_end(&none, 5), 0);
	for (enum window_kind k = WINDOW_HOUR; k <= WINDOW_MONTH; k++)
		assert_true(window_end(&(struct window){ .kind = k }, INT64_MAX) == INT64_MAX);
}

/* ---- properties: windows cover all of time, one after the other ---- */

static uint64_t dice(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void check_walls(const struct window *w, const char *name, uint64_t *seed)
{
	int64_t now = (int64_t)(dice(seed) % 7000000000) * NS_PER_SEC, end = window_end(w, now);
	int64_t longest = (w->kind == WINDOW_HOUR   ? 2 * HOUR_S
			   : w->kind == WINDOW_DAY  ? 2 * DAY_S
			   : w->kind == WINDOW_WEEK ? 8 * DAY_S
						    : 32 * DAY_S) *
			  NS_PER_SEC;

	for (int i = 0; i < 40; i++) {
		int64_t inside = now + (int64_t)(dice(seed) % (uint64_t)(end - now));

		if (end <= now || end - now > longest)
			fail_msg("%s: the window at %lld ends at %lld", name, (long long)now, (long long)end);
		if (window_end(w, inside) != end || window_end(w, end - 1) != end)
			fail_msg("%s: two ends for one window, at %lld and %lld", name, (long long)now,
				 (long long)inside);
		now = end;
		end = window_end(w, now);
	}
}

static void test_walls(void **state)
{
	static const char *const rules[] = { berlin, new_york, lord_howe, kathmandu, havana, st_johns };
	uint64_t seed = 42;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rules); i++) {
		struct arena mem = { 0 };
		struct window w = { .zone = rule_zone(&mem, rules[i], offset_of(rules[i])) };

		for (int k = 0; k < 200; k++) {
			w.kind = (enum window_kind)(WINDOW_HOUR + k % 4);
			check_walls(&w, rules[i], &seed);
		}
		arena_done(&mem);
	}
}

/* ---- this machine's zones against the C library ---- */

static const char *const system_zones[] = {
	"Europe/Berlin",    "America/New_York",  "America/St_Johns", "America/Havana", "Australia/Lord_Howe",
	"Asia/Kathmandu",   "Africa/Casablanca", "America/Nuuk",     "Asia/Tehran",    "Pacific/Apia",
	"Antarctica/Troll", "America/Sao_Paulo", "Europe/Dublin",    "Asia/Gaza",      "Pacific/Kwajalein",
	"Etc/GMT+12",       "Africa/Cairo",
};

static void test_system_zones(void **state)
{
	struct policy_files files = policy_files_system(OWNER_NO_GROUP);
	uint64_t seed = 7;

	(void)state;
	if (access("/usr/share/zoneinfo/Europe/Berlin", R_OK) != 0)
		skip_aloud("tzdata");
	for (size_t i = 0; i < PAWL_LEN(system_zones); i++) {
		struct arena mem = { 0 };
		const struct zone *z = NULL;
		struct pawl_error err = { 0 };
		char path[128], *bytes = NULL;
		size_t n = 0;

		(void)snprintf(path, sizeof(path), ZONE_FOLDER "%s", system_zones[i]);
		if (access(path, R_OK) != 0)
			continue; /* an older or newer tzdata */
		if (files.read(files.arg, path, &bytes, &n, &err) ||
		    zone_parse((struct str){ bytes, n }, str_of(system_zones[i]), &mem, &z, &err))
			fail_msg("%s: %s", path, err.msg);
		(void)setenv("TZ", system_zones[i], 1);
		tzset();
		for (int k = 0; k < 3000; k++) {
			int64_t sec = (int64_t)(dice(&seed) % 7000000000); /* to 2191 */
			struct window w = { .kind = WINDOW_DAY, .zone = z };
			time_t t;
			struct tm tm;

			if (k % 3 == 0 && z->n) /* beside a step */
				sec = z->steps[dice(&seed) % z->n].at - (int64_t)(dice(&seed) % 3);
			t = (time_t)sec;
			if (sec < 0 || sec > 7000000000 || !localtime_r(&t, &tm))
				continue;
			if (zone_offset(z, zone_at(z, sec)) != tm.tm_gmtoff)
				fail_msg("%s at %lld: %lld, not %ld", system_zones[i], (long long)sec,
					 (long long)zone_offset(z, zone_at(z, sec)), tm.tm_gmtoff);
			if (k < 40)
				check_walls(&w, system_zones[i], &seed);
		}
		arena_done(&mem);
		free(bytes);
	}
	(void)unsetenv("TZ");
}

/* ---- files that are not what they should be ---- */

#define TWO_STEPS                                                                            \
	TZIF_V1 TZIF_HEADER TZIF_NONE TZIF_NONE TZIF_NONE "\0\0\0\2\0\0\0\2\0\0\0\4"         \
							  "\0\0\0\0\0\0\0\12"                \
							  "\0\0\0\0\0\0\0\24"                \
							  "\1\0"                             \
							  "\0\0\x0e\x10\0\0\0\0\x1c\x20\1\0" \
							  "CET\0"

static const struct {
	const char *what, *bytes;
	size_t n, at; /* the byte at `at` becomes `to`; 0 = none */
	char to;
	const char *says; /* NULL: good */
} files[] = {
#define FILE_OF(b) b, sizeof(b) - 1
	{ "as it should be", FILE_OF(TZIF_BERLIN), 0, 0, NULL },
	{ "two steps, no rule", FILE_OF(TWO_STEPS "\n\n"), 0, 0, NULL },
	{ "two steps and their rule", FILE_OF(TWO_STEPS "\nCET-1\n"), 0, 0, NULL },
	{ "empty", "", 0, 0, 0, "not a TZif file" },
	{ "version 1", FILE_OF(TZIF_BERLIN), 4, '\0', "not a TZif file" },
	{ "version 5", FILE_OF(TZIF_BERLIN), 4, '5', "not a TZif file" },
	{ "another magic", FILE_OF(TZIF_BERLIN), 1, 'z', "not a TZif file" },
	{ "a count of 4 billion", FILE_OF(TZIF_BERLIN), 32, '\xff', "not a TZif file" },
	{ "the second header cut", TZIF_BERLIN, sizeof(TZIF_V1) + 20, 0, 0, "not a TZif file" },
	{ "no footer", FILE_OF(TZIF_V1 TZIF_PLUS_1), 0, 0, "its tables are damaged" },
	{ "footer without its end", FILE_OF(TZIF_V1 TZIF_PLUS_1 "\nCET-1"), 0, 0, "its tables are damaged" },
	{ "bytes after the end", FILE_OF(TZIF_BERLIN "x"), 0, 0, "its tables are damaged" },
	{ "a line after the end", FILE_OF(TZIF_BERLIN "x\n"), 0, 0, "its tables are damaged" },
	{ "an offset of days", FILE_OF(TZIF_BERLIN), sizeof(TZIF_V1) - 1 + 44, 1, "its tables are damaged" },
	{ "a leap second",
	  FILE_OF(TZIF_V1 TZIF_HEADER TZIF_NONE TZIF_NONE "\0\0\0\1" TZIF_NONE "\0\0\0\1\0\0\0\4"
							  "\0\0\x0e\x10\0\0CET\0"
							  "\0\0\0\0\0\0\0\1\0\0\0\1"
							  "\nCET-1\n"),
	  0, 0, "it counts leap seconds" },
	{ "no kind of time",
	  FILE_OF(TZIF_V1 TZIF_HEADER TZIF_NONE TZIF_NONE TZIF_NONE TZIF_NONE TZIF_NONE TZIF_NONE "\n\n"), 0, 0,
	  "its counts cannot be" },
	{ "steps in the wrong order", FILE_OF(TWO_STEPS "\n\n"), sizeof(TZIF_V1) - 1 + 44 + 7, 'x',
	  "its tables are damaged" },
	{ "a step to a kind that is not there", FILE_OF(TWO_STEPS "\n\n"), sizeof(TZIF_V1) - 1 + 44 + 16, 2,
	  "its tables are damaged" },
	{ "the rule contradicts the last step", FILE_OF(TWO_STEPS "\nEET-2\n"), 0, 0, "its table and the rule" },
	{ "no rule at all", FILE_OF(TZIF_V1 TZIF_PLUS_1 "\n?\n"), 0, 0, "the rule at its end cannot be read" },
};

static void test_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(files); i++) {
		struct arena mem = { 0 };
		char *bytes = malloc(files[i].n + 1); /* its own, so that a read beyond it shows */
		const struct zone *z = NULL;
		struct pawl_error err = { .msg = "" };
		int r;

		assert_non_null(bytes);
		bytes = realloc(bytes, files[i].n ? files[i].n : 1);
		assert_non_null(bytes);
		memcpy(bytes, files[i].bytes, files[i].n);
		if (files[i].at)
			bytes[files[i].at] = files[i].to;
		r = zone_parse((struct str){ bytes, files[i].n }, STR("t"), &mem, &z, &err);
		if (r != (files[i].says ? PAWL_E_MALFORMED : 0) || (r == 0) != (z != NULL) ||
		    (files[i].says && strncmp(err.msg, files[i].says, strlen(files[i].says)) != 0))
			fail_msg("%s: %d, %s", files[i].what, r, err.msg);
		free(bytes);
		arena_done(&mem);
	}
}

/* Every cut is refused, and no changed byte makes it read beyond its end (the sanitizers look). */
static void test_cuts(void **state)
{
	(void)state;
	for (size_t n = 0; n < TZIF_BERLIN_N; n++)
		for (int flip = -1; flip < 8; flip++) {
			struct arena mem = { 0 };
			size_t size = flip < 0 ? n : TZIF_BERLIN_N;
			char *bytes = malloc(size ? size : 1);
			const struct zone *z = NULL;
			int r;

			assert_non_null(bytes);
			memcpy(bytes, TZIF_BERLIN, size);
			if (flip >= 0)
				bytes[n] = (char)(bytes[n] ^ (1 << flip));
			r = zone_parse((struct str){ bytes, size }, STR("t"), &mem, &z, NULL);
			if (flip < 0 && r != PAWL_E_MALFORMED)
				fail_msg("the first %zu bytes are read", n);
			if (r == 0)
				(void)window_end(&(struct window){ .kind = WINDOW_MONTH, .zone = z }, INT64_MAX / 2);
			free(bytes);
			arena_done(&mem);
		}
}

static void test_rules(void **state)
{
	static const char *const bad[] = {
		"",
		"CE-1",
		"CET",
		"CET-25",
		"CET-1CEST",
		"CET-1CEST,M3.5.0",
		"CET-1CEST,M13.5.0,M10.5.0",
		"CET-1CEST,M0.5.0,M10.5.0",
		"CET-1CEST,M3.6.0,M10.5.0",
		"CET-1CEST,M3.5.7,M10.5.0",
		"CET-1CEST,M3.5.0,M10.5.0/168",
		"CET-1CEST,M3.5.0,M10.5.0/3x",
		"CET-1CEST,J0,J5",
		"CET-1CEST,J366,J5",
		"CET-1CEST,366,5",
		"<CET-1",
		"<+1>-1",
		"CET-1:60",
		"CET-1CEST,M3.5.0,M10.5.0,",
		" CET-1",
		"CET--1",
		":Europe/Berlin",
	};
	static const char *const good[] = { "CET-1",
					    "<-03>3",
					    "EST5EDT,0/0,J365/25",
					    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
					    "IST-1GMT0,M10.5.0,M3.5.0/1",
					    "XXX-26:00:00",
					    "EET-2EEST,M3.5.0/0,M10.5.0/0:30:15",
					    "<+01>-1<+00>0,J1,300/-167" };
	struct zone_rule r;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bad); i++)
		if (zone_rule_parse(str_of(bad[i]), &r))
			fail_msg("\"%s\" is read", bad[i]);
	for (size_t i = 0; i < PAWL_LEN(good); i++)
		if (zone_rule_parse(str_of(good[i]), &r) != (strcmp(good[i], "XXX-26:00:00") != 0))
			fail_msg("\"%s\"", good[i]);
}

static void test_days(void **state)
{
	static const struct {
		const char *rule, *year_start, *first, *second;
	} days[] = {
		{ "AAA0BBB,M3.5.0,M10.5.0", "2026", "2026-03-29T02:00:00", "2026-10-25T01:00:00" },
		{ "AAA0BBB,M2.5.1/0,M10.1.6/0", "2026", "2026-02-23T00:00:00", "2026-10-02T23:00:00" },
		{ "AAA0BBB,J59/0,J60/0", "2028", "2028-02-28T00:00:00",
		  "2028-02-29T23:00:00" }, /* J60 is 1 March, always */
		{ "AAA0BBB,58/0,59/0", "2028", "2028-02-28T00:00:00", "2028-02-28T23:00:00" }, /* 59 is 29 February */
		{ "AAA0BBB,M10.5.0,M3.5.0", "2026", "2026-03-29T01:00:00", "2026-10-25T02:00:00" }, /* the south */
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(days); i++) {
		struct zone_step s[2];
		struct zone_rule r;
		char a[32], b[32];

		assert_true(zone_rule_parse(str_of(days[i].rule), &r));
		zone_rule_year(&r, strtol(days[i].year_start, NULL, 10), s);
		if (s[0].at != utc(days[i].first) || s[1].at != utc(days[i].second))
			fail_msg("%s: %s, %s", days[i].rule, text_of(s[0].at, a), text_of(s[1].at, b));
	}
}

static void test_calendar(void **state)
{
	int64_t year, month, day = civil_month_start(1677, 8);

	(void)state;
	assert_int_equal(civil_month_start(1970, 0), 0);
	assert_int_equal(civil_month_start(2000, 2), 11017);
	assert_int_equal(civil_month_start(1999, 14), 11017);
	for (int64_t y = 1677, m = 8; y < 2263; m++) { /* all that int64 ns can name, day by day */
		int64_t next = civil_month_start(y, m % 12 + 1);

		for (; day < next; day++) {
			civil_of_day(day, &year, &month);
			if (year != y || month != m % 12)
				fail_msg("day %lld is %lld-%lld", (long long)day, (long long)year,
					 (long long)month + 1);
		}
		y += m % 12 == 11;
	}
	assert_true(floor_div(-1, 7) == -1 && floor_div(-7, 7) == -1 && floor_div(6, 7) == 0 && floor_div(-8, 7) == -2);
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool good;
	} names[] = { { "Europe/Berlin", true },
		      { "America/Argentina/Buenos_Aires", true },
		      { "Etc/GMT+12", true },
		      { "UTC", true },
		      { "", false },
		      { "/UTC", false },
		      { "UTC/", false },
		      { "a//b", false },
		      { "..", false },
		      { "a/../b", false },
		      { "a.b", false },
		      { "a b", false },
		      { "a\nb", false },
		      { "\xc3\xa9", false },
		      { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(names); i++)
		if (zone_name_good(str_of(names[i].name)) != names[i].good)
			fail_msg("\"%s\"", names[i].name);
}

static void test_no_memory(void **state)
{
	bool failed = true;
	long refused = 0;

	(void)state;
	for (long n = 1; failed; n++) {
		struct arena mem = { 0 };
		const struct zone *z = NULL;
		int r;

		fail_malloc_after(n);
		r = zone_parse((struct str){ TZIF_BERLIN, TZIF_BERLIN_N }, STR("t"), &mem, &z, NULL);
		failed = fail_malloc_stop();
		refused += r == PAWL_E_NOMEM;
		assert_true(r == (failed ? PAWL_E_NOMEM : 0) && (r == 0) == (z != NULL));
		arena_done(&mem);
	}
	assert_true(refused >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),        cmocka_unit_test(test_spans),     cmocka_unit_test(test_walls),
		cmocka_unit_test(test_system_zones), cmocka_unit_test(test_files),     cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_rules),        cmocka_unit_test(test_days),      cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_names),        cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
