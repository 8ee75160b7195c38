/* policy/window.c - when the window of a budget ends. Windows tumble: each moment lies in exactly one, and all moments
 * of one get the same answer, also across the days that have 23 or 25 hours. Pure. */
#include "pawl/policy.h"

#include "policy/civil.h"
#include "policy/zone.h"

#define LOOK_BACK (3 * DAY_S) /* longer than any clock was ever put back */

static int64_t to_ns(int64_t sec)
{
	int64_t ns;

	return __builtin_mul_overflow(sec, NS_PER_SEC, &ns) ? INT64_MAX : ns;
}

/* The latest local time that the clock has shown. An hour that is lived twice stays in the window it was first in: a
 * clock put back over midnight must not open yesterday's window again. */
static int64_t shown(const struct zone *z, int64_t now)
{
	size_t at = zone_at(z, now);
	int64_t high = now + zone_offset(z, at);

	for (; at > 0 && z->steps[at - 1].at > now - LOOK_BACK; at--) {
		int64_t before = z->steps[at - 1].at - 1 + zone_offset(z, at - 1);

		high = before > high ? before : high;
	}
	return high;
}

/* The first second behind now at which the clock shows `local` or, where it jumps over that, more. */
static int64_t reached(const struct zone *z, int64_t now, int64_t local)
{
	for (size_t at = zone_at(z, now);; at++) {
		int64_t sec = local - zone_offset(z, at);

		if (at > 0 && sec < z->steps[at - 1].at)
			sec = z->steps[at - 1].at;
		if (at == z->n || sec < z->steps[at].at)
			return sec;
	}
}

/* Hours go by the minutes of the clock alone, so that one lived twice is two windows. */
static int64_t full_hour(const struct zone *z, int64_t now)
{
	int64_t from = now + 1;

	for (size_t at = zone_at(z, now);; from = z->steps[at++].at) {
		int64_t local = from + zone_offset(z, at);
		int64_t sec = from - local - HOUR_S * floor_div(-local, HOUR_S);

		if (at == z->n || sec < z->steps[at].at)
			return sec;
	}
}

/* The local second at which the day, week or month after the one of `local` starts. */
static int64_t next_start(enum window_kind kind, int64_t local)
{
	int64_t day = floor_div(local, DAY_S), year, month;

	if (kind == WINDOW_DAY)
		return (day + 1) * DAY_S;
	if (kind == WINDOW_WEEK)
		return (floor_div(day + 3, 7) * 7 + 4) * DAY_S; /* 1970-01-01 was a Thursday */
	civil_of_day(day, &year, &month);
	return civil_month_start(year, month + 1) * DAY_S;
}

int64_t window_end(const struct window *w, int64_t now)
{
	struct zone_step none = { 0, 0 };
	const struct zone utc = { .steps = &none }, *z = w->zone ? w->zone : &utc;
	int64_t sec = floor_div(now, NS_PER_SEC), end;

	if (w->kind == WINDOW_NONE)
		return 0;
	if (w->kind == WINDOW_SPAN)
		return __builtin_mul_overflow(floor_div(now, w->span_ns) + 1, w->span_ns, &end) ? INT64_MAX : end;
	if (w->kind == WINDOW_HOUR)
		return to_ns(full_hour(z, sec));
	return to_ns(reached(z, sec, next_start(w->kind, shown(z, sec))));
}
