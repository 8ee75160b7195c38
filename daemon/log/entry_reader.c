/* daemon/log/entry_reader.c - see entry_reader.h. */
#include "daemon/log/entry_reader.h"

#include "daemon/base/swar.h"
#include "policy/canon.h"
#include "policy/money.h"

int reader_bad(struct reader *r, const char *what)
{
	return pawl_fail(r->err, PAWL_E_TAMPERED, "entry %llu, byte %zu, %.*s: %s", (unsigned long long)r->seq,
			 (size_t)(r->at - r->from), (int)strcspn(r->where, ":"), r->where, what);
}

bool reader_take(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

bool reader_take_str(struct reader *r, const char *p, size_t n)
{
	if ((size_t)(r->end - r->at) < n || memcmp(r->at, p, n) != 0)
		return false;
	r->at += n;
	return true;
}

/* ---- texts ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The one byte behind a backslash, or -1. Only what buf_json() writes. */
static int read_escape(struct reader *r)
{
	static const char names[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
	const char *hit;
	int v;

	if (r->at == r->end || *r->at == '\0')
		return -1;
	hit = strchr(names, *r->at);
	if (hit) {
		r->at++;
		return bytes[hit - names];
	}
	if (r->end - r->at < 5 || memcmp(r->at, "u00", 3) != 0 || hex_digit(r->at[3]) > 1 || hex_digit(r->at[3]) < 0 ||
	    hex_digit(r->at[4]) < 0)
		return -1;
	v = hex_digit(r->at[3]) * 16 + hex_digit(r->at[4]);
	if (v == 0 || strchr("\b\t\n\f\r", v))
		return -1;
	r->at += 5;
	return v;
}

/* Goes over what is its own spelling, and tells whether all of it is ASCII. */
static bool skip_plain(struct reader *r)
{
	uint64_t high = 0;

	while (r->end - r->at >= 8) {
		uint64_t w = swar_load(r->at), special = swar_json_special(w);
		size_t n = special ? swar_before(special) : 8;

		high |= n == 8 ? swar_not_ascii(w) : swar_not_ascii(w) & ((UINT64_C(1) << 8 * n) - 1);
		r->at += n;
		if (special)
			break;
	}
	return !high;
}

int reader_text(struct reader *r, struct str *ret)
{
	char *from, *to;
	bool ascii;

	if (!reader_take(r, '"'))
		return reader_bad(r, "a text is due");
	from = r->at;
	ascii = skip_plain(r);
	for (to = r->at; r->at < r->end && *r->at != '"'; to++) {
		unsigned char c = (unsigned char)*r->at++;

		if (c == '\\') {
			int v = read_escape(r);

			if (v < 0)
				return reader_bad(r, "an escape that is not canonical");
			c = (unsigned char)v;
		} else if (c < 0x20) {
			return reader_bad(r, "a control byte");
		}
		ascii &= c < 0x80;
		*to = (char)c;
	}
	if (!reader_take(r, '"'))
		return reader_bad(r, "a text without end");
	*ret = (struct str){ from, (size_t)(to - from) };
	return ascii || utf8_valid(*ret) ? 0 : reader_bad(r, "not UTF-8");
}

/* A text that cannot need escapes: only its bytes, where they are. */
int reader_word(struct reader *r, struct str *ret)
{
	char *from;

	if (!reader_take(r, '"'))
		return reader_bad(r, "a text is due");
	for (from = r->at; r->at < r->end && *r->at != '"'; r->at++)
		if (*r->at == '\\')
			return reader_bad(r, "an unknown word");
	*ret = (struct str){ from, (size_t)(r->at - from) };
	return reader_take(r, '"') ? 0 : reader_bad(r, "a text without end");
}

int reader_message(struct reader *r, char *out, size_t size)
{
	struct str t;
	int got = reader_text(r, &t);

	if (got < 0)
		return got;
	if (t.n >= size)
		return reader_bad(r, "too long");
	memcpy(out, t.p, t.n);
	out[t.n] = '\0';
	return 0;
}

/* An entry has some 300 of them: by a table, 16 and what the digit is worth. */
int reader_hex(struct reader *r, uint8_t *out, size_t n)
{
	static const uint8_t worth[256] = { ['0'] = 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, ['a'] = 26, 27, 28, 29, 30, 31 };
	unsigned all = 16;

	if (!reader_take(r, '"') || (size_t)(r->end - r->at) < 2 * n + 1)
		return reader_bad(r, "hexadecimal digits are due");
	for (size_t i = 0; i < n; i++) {
		unsigned hi = worth[(uint8_t)r->at[2 * i]], lo = worth[(uint8_t)r->at[2 * i + 1]];

		all &= hi & lo;
		out[i] = (uint8_t)(hi << 4 | (lo & 15));
	}
	if (!all)
		return reader_bad(r, "not lower-case hexadecimal");
	r->at += 2 * n;
	return reader_take(r, '"') ? 0 : reader_bad(r, "too many hexadecimal digits");
}

/* The bytes of an object that is kept as it is; they must be canonical too. */
int reader_json(struct reader *r, struct str *ret)
{
	PAWL_CLEANUP(buf_done) struct buf again = BUF_MAX(PAWL_MAX_BODY);
	struct str text = { r->at, 0 };
	bool quotes = false;
	int depth = 0, got;

	for (; r->at < r->end; r->at++) {
		if (quotes && *r->at == '\\' && r->at + 1 < r->end)
			r->at++;
		else if (*r->at == '"')
			quotes = !quotes;
		else if (!quotes)
			depth += (*r->at == '{') - (*r->at == '}');
		if (depth <= 0)
			break;
	}
	if (r->at == r->end)
		return reader_bad(r, "an object is due");
	text.n = (size_t)(++r->at - text.p);
	if (r->ret->doc) /* no kind has two */
		return reader_bad(r, "a second object");
	got = json_parse(text, PAWL_MAX_DEPTH, &r->ret->doc, NULL);
	if (got == PAWL_E_NOMEM)
		return pawl_fail(r->err, got, "out of memory");
	if (got < 0 || json_kind(r->ret->doc) != JSON_KIND_OBJECT)
		return reader_bad(r, "not a JSON object");
	canon_json(r->ret->doc, NULL, 0, &again);
	if (!buf_ok(&again))
		return pawl_fail(r->err, PAWL_E_NOMEM, "out of memory");
	if (!str_eq(buf_str(&again), text))
		return reader_bad(r, "not canonical JSON");
	*ret = text;
	return 0;
}

/* ---- numbers ---- */

static bool digit(const struct reader *r)
{
	return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

int reader_int(struct reader *r, int64_t *ret)
{
	const char *from = r->at;
	int64_t v = 0;

	for (; digit(r); r->at++)
		if (__builtin_mul_overflow(v, 10, &v) || add_over(v, *r->at - '0', &v))
			return reader_bad(r, "out of range");
	if (r->at == from || (*from == '0' && r->at - from > 1))
		return reader_bad(r, "a number is due");
	*ret = v;
	return 0;
}

int reader_decimal(struct reader *r, struct amount *a)
{
	int64_t scale = MONEY_PER_UNIT;
	int got;

	a->nano = 0;
	if (!reader_take(r, '"'))
		return reader_bad(r, "an amount is due");
	got = reader_int(r, &a->whole);
	if (got < 0)
		return got;
	a->decimals = reader_take(r, '.');
	if (a->decimals) {
		for (; digit(r) && scale > 1; r->at++) {
			scale /= 10;
			a->nano += scale * (*r->at - '0');
		}
		if (r->at[-1] == '.' || r->at[-1] == '0')
			return reader_bad(r, "an amount that is not canonical");
	}
	return reader_take(r, '"') ? 0 : reader_bad(r, "not an amount");
}

int reader_amount_value(struct reader *r, const struct amount *a, enum unit unit, int64_t *ret)
{
	int64_t v = a->whole;

	if (unit != UNIT_MONEY && unit != UNIT_TIME) {
		if (a->decimals)
			return reader_bad(r, "decimals in a count");
	} else if (__builtin_mul_overflow(v, MONEY_PER_UNIT, &v) || add_over(v, a->nano, &v)) {
		return reader_bad(r, "out of range");
	}
	*ret = v;
	return 0;
}

int reader_amount(struct reader *r, enum unit unit, int64_t *ret)
{
	struct amount a;
	int got = reader_decimal(r, &a);

	return got < 0 ? got : reader_amount_value(r, &a, unit, ret);
}

int reader_span(struct reader *r, int64_t *ret)
{
	char again[MONEY_TEXT];
	struct str t;
	int64_t v;
	int got = reader_word(r, &t);

	if (got < 0)
		return got;
	if (span_parse(t, &v, NULL) < 0 || !str_eq(t, (struct str){ again, span_text(v, again) }))
		return reader_bad(r, "not a canonical span");
	*ret = v;
	return 0;
}

int reader_id(struct reader *r, char letter, uint64_t *ret)
{
	struct str t;
	int got = reader_word(r, &t);

	if (got < 0)
		return got;
	return id_parse(t, letter, ret) == 0 ? 0 : reader_bad(r, "not an id");
}

/* n digits at p as a number; the caller has seen that they are digits. */
static int64_t fixed_digits(const char *p, size_t n)
{
	int64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v * 10 + (p[i] - '0');
	return v;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar: years begin in March, so that the leap day is the last one.
 */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = year - (month <= 2), era = y / 400, of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int64_t month_days(int64_t year, int64_t month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
}

int reader_time(struct reader *r, int64_t *ret)
{
	static const char form[] = "\"0000-00-00T00:00:00.000000000Z\"";
	int64_t year, month, day, hour, minute, second, v;
	const char *p = r->at;

	if ((size_t)(r->end - p) < sizeof(form) - 1)
		return reader_bad(r, "a time is due");
	for (size_t i = 0; i < sizeof(form) - 1; i++)
		if (form[i] == '0' ? p[i] < '0' || p[i] > '9' : p[i] != form[i])
			return reader_bad(r, "not an RFC 3339 time with nanoseconds");
	year = fixed_digits(p + 1, 4);
	month = fixed_digits(p + 6, 2);
	day = fixed_digits(p + 9, 2);
	hour = fixed_digits(p + 12, 2);
	minute = fixed_digits(p + 15, 2);
	second = fixed_digits(p + 18, 2);
	if (month < 1 || month > 12 || day < 1 || day > month_days(year, month) || hour > 23 || minute > 59 ||
	    second > 59)
		return reader_bad(r, "no such time");
	v = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
	if (v <
	    0) { /* up to the second above, so that the first representable nanosecond does not overflow on the way */
		if (__builtin_mul_overflow(v + 1, NS_PER_SEC, &v) ||
		    add_over(v, fixed_digits(p + 21, 9) - NS_PER_SEC, &v))
			return reader_bad(r, "out of range");
	} else if (__builtin_mul_overflow(v, NS_PER_SEC, &v) || add_over(v, fixed_digits(p + 21, 9), &v)) {
		return reader_bad(r, "out of range");
	}
	r->at += sizeof(form) - 1;
	*ret = v;
	return 0;
}
