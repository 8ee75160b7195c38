/* policy/zone_rule.c - a TZ text such as CET-1CEST,M3.5.0,M10.5.0/3 (POSIX, with the hours up to 167 of RFC 9636). Read
 * whole or not at all: a part that is left out is never guessed. */
#include "policy/civil.h"
#include "policy/zone.h"

struct cursor {
	const char *p, *end;
	bool bad;
};

static bool take(struct cursor *c, char want)
{
	if (c->p == c->end || *c->p != want)
		return false;
	c->p++;
	return true;
}

static void need(struct cursor *c, char want)
{
	if (!take(c, want))
		c->bad = true;
}

static int64_t number(struct cursor *c, int64_t most)
{
	const char *from = c->p;
	int64_t v = 0;

	for (; c->p < c->end && c->p - from < 4 && *c->p >= '0' && *c->p <= '9'; c->p++)
		v = v * 10 + (*c->p - '0');
	if (c->p == from || v > most)
		c->bad = true;
	return v;
}

/* The abbreviation says nothing about time: at least three letters, or more than letters between < and >. */
static void skip_name(struct cursor *c)
{
	bool quoted = take(c, '<');
	const char *from = c->p;

	for (; c->p < c->end; c->p++) {
		char ch = *c->p;
		bool letter = (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z');

		if (!letter && !(quoted && ((ch >= '0' && ch <= '9') || ch == '+' || ch == '-')))
			break;
	}
	if (c->p - from < 3)
		c->bad = true;
	if (quoted)
		need(c, '>');
}

static int64_t clock_time(struct cursor *c, int64_t most_hours)
{
	bool negative = take(c, '-');
	int64_t s;

	if (!negative)
		(void)take(c, '+');
	s = number(c, most_hours) * HOUR_S;
	if (take(c, ':')) {
		s += number(c, 59) * 60;
		if (take(c, ':'))
			s += number(c, 59);
	}
	return negative ? -s : s;
}

static struct zone_day year_day(struct cursor *c)
{
	struct zone_day d = { .kind = ZONE_DAY_PLAIN, .time = 2 * HOUR_S };

	need(c, ',');
	if (take(c, 'M')) {
		d.kind = ZONE_DAY_WEEK;
		d.month = number(c, 12);
		need(c, '.');
		d.week = number(c, 5);
		need(c, '.');
		d.day = number(c, 6);
		c->bad = c->bad || d.month == 0 || d.week == 0;
	} else if (take(c, 'J')) {
		d.kind = ZONE_DAY_JULIAN;
		d.day = number(c, 365);
		c->bad = c->bad || d.day == 0;
	} else {
		d.day = number(c, 365);
	}
	if (take(c, '/'))
		d.time = clock_time(c, 167);
	return d;
}

bool zone_rule_parse(struct str text, struct zone_rule *ret)
{
	struct cursor c = { text.p, text.p + text.n, false };
	struct zone_rule r = { .summer = false };

	skip_name(&c);
	r.offset = -clock_time(&c, 24); /* west is positive there */
	if (!c.bad && c.p < c.end) {
		r.summer = true;
		r.summer_offset = r.offset + HOUR_S;
		skip_name(&c);
		if (c.p < c.end && *c.p != ',')
			r.summer_offset = -clock_time(&c, 24);
		r.start = year_day(&c);
		r.end = year_day(&c);
	}
	if (c.bad || c.p != c.end)
		return false;
	*ret = r;
	return true;
}

static int64_t midnight(const struct zone_day *d, int64_t year)
{
	int64_t first = civil_month_start(year, 0), day;

	if (d->kind == ZONE_DAY_PLAIN)
		return (first + d->day) * DAY_S;
	if (d->kind == ZONE_DAY_JULIAN) {
		bool leap = civil_month_start(year, 2) - first == 60;

		return (first + d->day - 1 + (leap && d->day >= 60)) * DAY_S;
	}
	first = civil_month_start(year, d->month - 1);
	day = first + (d->day - (first + 4) % 7 + 7) % 7 + (d->week - 1) * 7; /* 1970-01-01 was a Thursday */
	while (day >= civil_month_start(year, d->month))
		day -= 7;
	return day * DAY_S;
}

void zone_rule_year(const struct zone_rule *rule, int64_t year, struct zone_step out[static 2])
{
	struct zone_step start = { midnight(&rule->start, year) + rule->start.time - rule->offset,
				   rule->summer_offset };
	struct zone_step end = { midnight(&rule->end, year) + rule->end.time - rule->summer_offset, rule->offset };

	out[0] = start.at <= end.at ? start : end;
	out[1] = start.at <= end.at ? end : start;
}
