/* policy/zone.c - see zone.h. Reads TZif bytes strictly: every count is checked against the bytes that are there, and
 * nothing may follow the end. Owns nothing but what it puts into the arena. */
#include "policy/zone.h"

#include "policy/civil.h"

#define MAX_STEPS 4096
#define MAX_KINDS 256
#define HEADER    44

struct counts { /* in the header's order */
	uint32_t isut, isstd, leap, time, kind, chars;
};

struct reader {
	const unsigned char *p, *end;
};

static size_t left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}

static uint64_t big_endian(struct reader *r, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | *r->p++;
	return v;
}

static bool header(struct reader *r, struct counts *c)
{
	if (left(r) < HEADER || memcmp(r->p, "TZif", 4) != 0 || r->p[4] < '2' || r->p[4] > '4')
		return false;
	r->p += 20;
	c->isut = (uint32_t)big_endian(r, 4);
	c->isstd = (uint32_t)big_endian(r, 4);
	c->leap = (uint32_t)big_endian(r, 4);
	c->time = (uint32_t)big_endian(r, 4);
	c->kind = (uint32_t)big_endian(r, 4);
	c->chars = (uint32_t)big_endian(r, 4);
	return true;
}

/* Bytes of the block behind a header; 32-bit counts cannot overflow it. */
static uint64_t block(const struct counts *c, uint64_t time_size)
{
	return c->time * (time_size + 1) + c->kind * UINT64_C(6) + c->chars + c->leap * (time_size + 4) + c->isstd +
	       c->isut;
}

static bool sane(const struct counts *c)
{
	return c->time <= MAX_STEPS && c->kind >= 1 && c->kind <= MAX_KINDS && c->chars >= 1 && c->leap == 0 &&
	       (c->isut == 0 || c->isut == c->kind) && (c->isstd == 0 || c->isstd == c->kind);
}

/* Equal offsets side by side are no step; of two at one second the later one holds. */
static void add_step(struct zone *z, struct zone_step s)
{
	if (z->n && z->steps[z->n - 1].at == s.at)
		z->n--;
	if (s.offset != (z->n ? z->steps[z->n - 1].offset : z->before))
		z->steps[z->n++] = s;
}

/* The table of steps; *ret_last is the second of the last one, also where its offset is the one before. */
static bool read_steps(struct reader *r, const struct counts *c, struct zone *z, int64_t *ret_last)
{
	const unsigned char *of = r->p + (size_t)c->time * 8;
	struct reader kinds = { of + c->time, r->end };
	int64_t offset[MAX_KINDS], last = INT64_MIN;

	for (uint32_t i = 0; i < c->kind; i++) {
		offset[i] = (int32_t)(uint32_t)big_endian(&kinds, 4);
		if (offset[i] < -25 * HOUR_S + 1 || offset[i] > 26 * HOUR_S - 1 || big_endian(&kinds, 1) > 1 ||
		    big_endian(&kinds, 1) >= c->chars)
			return false;
	}
	z->before = offset[0];
	for (uint32_t i = 0; i < c->time; i++) {
		int64_t at = (int64_t)big_endian(r, 8);

		if (of[i] >= c->kind || (i > 0 && at <= last))
			return false;
		add_step(z, (struct zone_step){ at, offset[of[i]] });
		last = at;
	}
	r->p += block(c, 8) - (size_t)c->time * 8;
	*ret_last = last;
	return true;
}

static bool footer(struct reader *r, struct str *ret)
{
	if (left(r) < 2 || r->p[0] != '\n' || r->end[-1] != '\n')
		return false;
	*ret = (struct str){ (const char *)r->p + 1, left(r) - 2 };
	return memchr(ret->p, '\n', ret->n) == NULL && memchr(ret->p, 0, ret->n) == NULL;
}

/* The years behind the last step, up to the end of int64 ns. Where the table ends, both must say the same time. */
static bool add_years(struct zone *z, const struct zone_rule *rule, int64_t last)
{
	int64_t held = z->n ? z->steps[z->n - 1].offset : z->before, year = 1970, month, at_last = rule->offset;
	int64_t before = INT64_MIN;
	bool table = last != INT64_MIN;

	if (table && last > ZONE_LAST_YEAR * 366 * DAY_S)
		return false;
	if (table && last > 0)
		civil_of_day(floor_div(last, DAY_S), &year, &month);
	if (!rule->summer && !table)
		z->before = rule->offset;
	for (year--; rule->summer && year <= ZONE_LAST_YEAR; year++) {
		struct zone_step steps[2];

		zone_rule_year(rule, year, steps);
		for (size_t i = 0; i < 2; before = steps[i++].at) {
			if (steps[i].at < before)
				return false;
			if (table && steps[i].at <= last)
				at_last = steps[i].offset;
			else
				add_step(z, steps[i]);
		}
	}
	return !table || at_last == held;
}

static const char *parse(struct str bytes, struct zone *z, struct arena *mem)
{
	struct reader r = { (const unsigned char *)bytes.p, (const unsigned char *)bytes.p + bytes.n };
	struct zone_rule rule;
	struct counts c;
	struct str text;
	int64_t last;

	if (bytes.n > ZONE_MAX_BYTES || !header(&r, &c) || block(&c, 4) > left(&r))
		return "not a TZif file of version 2 or later";
	r.p += block(&c, 4); /* 32-bit times, for readers of version 1 */
	if (!header(&r, &c) || block(&c, 8) > left(&r))
		return "not a TZif file of version 2 or later";
	if (c.leap)
		return "it counts leap seconds, which log time does not";
	if (!sane(&c))
		return "its counts cannot be";
	z->steps = arena_array(mem, c.time + (size_t)2 * (ZONE_LAST_YEAR - 1968), sizeof(*z->steps));
	if (!z->steps)
		return NULL;
	if (!read_steps(&r, &c, z, &last) || !footer(&r, &text))
		return "its tables are damaged";
	if (text.n && !zone_rule_parse(text, &rule))
		return "the rule at its end cannot be read";
	if (text.n && !add_years(z, &rule, last))
		return "its table and the rule at its end contradict each other";
	return NULL;
}

int zone_parse(struct str bytes, struct str name, struct arena *mem, const struct zone **ret, struct pawl_error *err)
{
	struct zone *z = arena_array(mem, 1, sizeof(*z));
	const char *wrong = NULL;

	if (z) {
		z->name = arena_text(mem, name);
		wrong = parse(bytes, z, mem);
	}
	if (mem->failed)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	if (wrong)
		return pawl_fail(err, PAWL_E_MALFORMED, "%s", wrong);
	*ret = z;
	return 0;
}

bool zone_name_good(struct str name)
{
	char before = '/';

	for (size_t i = 0; i < name.n; before = name.p[i++]) {
		char c = name.p[i];
		bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

		if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '+' && c != '-' && c != '/')
			return false;
		if (c == '/' && before == '/')
			return false;
	}
	return name.n > 0 && name.n <= ZONE_MAX_NAME && before != '/';
}

size_t zone_at(const struct zone *z, int64_t sec)
{
	size_t lo = 0, hi = z->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (z->steps[mid].at <= sec)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int64_t zone_offset(const struct zone *z, size_t at)
{
	return at ? z->steps[at - 1].offset : z->before;
}
