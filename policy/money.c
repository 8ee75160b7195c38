/* policy/money.c - see money.h. Digits are multiplied and added as int64 with overflow checked at each step. Pure. */
#include "policy/money.h"

#include <stdio.h>

#define NANO_DIGITS 9

static const struct {
	const char *name;
	int64_t ns;
} span_units[] = {
	/* largest first: span_text() takes the first that divides */
	{ "w", 7 * 86400 * NS_PER_SEC }, { "d", 86400 * NS_PER_SEC }, { "h", 3600 * NS_PER_SEC },
	{ "m", 60 * NS_PER_SEC },        { "s", NS_PER_SEC },         { "ms", 1000000 },
};

/* The text in quotes, cut and with anything but plain ASCII escaped: it is a peer's. */
static int refuse(struct pawl_error *err, const char *what, struct str text)
{
	char shown[64];
	size_t w = 0, i = 0;

	for (; i < text.n && w < 48; i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
			shown[w++] = (char)c;
		else
			w += (size_t)snprintf(shown + w, sizeof(shown) - w, c == '"' || c == '\\' ? "\\%c" : "\\x%02x",
					      c);
	}
	shown[w] = '\0';
	return pawl_fail(err, PAWL_E_MALFORMED, "%s: \"%s%s\"", what, shown, i < text.n ? "..." : "");
}

static bool digit(struct str t, size_t i)
{
	return i < t.n && t.p[i] >= '0' && t.p[i] <= '9';
}

/* One more decimal digit; false when it does not fit. */
static bool push_digit(int64_t *v, int d)
{
	return !__builtin_mul_overflow(*v, 10, v) && !__builtin_add_overflow(*v, d, v);
}

int money_parse(struct str text, enum money_round round, int64_t *ret, struct pawl_error *err)
{
	size_t i = 0, decimals = 0;
	bool fits = true, rest = false;
	int64_t v = 0;

	if (!digit(text, 0))
		return refuse(err, "not a decimal number", text);
	for (; digit(text, i); i++)
		fits = fits && push_digit(&v, text.p[i] - '0');
	if (i < text.n && text.p[i] == '.') {
		if (!digit(text, ++i))
			return refuse(err, "not a decimal number", text);
		for (; digit(text, i); i++, decimals++)
			if (decimals < NANO_DIGITS)
				fits = fits && push_digit(&v, text.p[i] - '0');
			else
				rest = rest || text.p[i] != '0';
	}
	if (i < text.n)
		return refuse(err, "not a decimal number", text);
	if (decimals > NANO_DIGITS && round == MONEY_EXACT)
		return refuse(err, "more than 9 decimals", text);
	for (; decimals < NANO_DIGITS; decimals++)
		fits = fits && push_digit(&v, 0);
	if (!fits || (rest && add_over(v, 1, &v))) /* up: a price is never rounded away */
		return refuse(err, "an amount above 9223372036.854775807", text);
	*ret = v;
	return 0;
}

size_t money_text(int64_t nano, char out[static MONEY_TEXT])
{
	uint64_t v = nano < 0 ? 0 - (uint64_t)nano : (uint64_t)nano;
	int n = snprintf(out, MONEY_TEXT, "%s%llu.%09llu", nano < 0 ? "-" : "", (unsigned long long)(v / 1000000000),
			 (unsigned long long)(v % 1000000000));

	while (out[n - 1] == '0')
		n--;
	if (out[n - 1] == '.')
		n--;
	out[n] = '\0';
	return (size_t)n;
}

static int64_t span_unit(struct str name)
{
	for (size_t i = 0; i < PAWL_LEN(span_units); i++)
		if (str_is(name, span_units[i].name))
			return span_units[i].ns;
	return 0;
}

int span_parse(struct str text, int64_t *ret_ns, struct pawl_error *err)
{
	int64_t v = 0, unit, part;
	struct str decimals;
	bool fits = true;
	size_t i = 0;

	if (!digit(text, 0))
		return refuse(err, "not a span such as 30s, 250ms, 5m, 1h or 7d", text);
	for (; digit(text, i); i++)
		fits = fits && push_digit(&v, text.p[i] - '0');
	decimals = (struct str){ text.p + i, 0 };
	if (i < text.n && text.p[i] == '.') {
		decimals.p = text.p + ++i;
		for (; digit(text, i); i++)
			decimals.n++;
		if (decimals.n == 0)
			return refuse(err, "not a span such as 30s, 250ms, 5m, 1h or 7d", text);
	}
	unit = span_unit((struct str){ text.p + i, text.n - i });
	if (unit == 0)
		return refuse(err, "not a span such as 30s, 250ms, 5m, 1h or 7d", text);
	fits = fits && !__builtin_mul_overflow(v, unit, &v);
	for (i = 0, part = unit; i < decimals.n; i++) {
		part =
		    part % 10 == 0 ? part / 10 : 0; /* 0: below what the unit can be cut into, only zeros may follow */
		if (part == 0 && decimals.p[i] != '0')
			return refuse(err, "a span finer than a nanosecond", text);
		fits = fits && !add_over(v, part * (decimals.p[i] - '0'), &v);
	}
	if (!fits)
		return refuse(err, "a span above 292 years", text);
	*ret_ns = v;
	return 0;
}

size_t span_text(int64_t ns, char out[static MONEY_TEXT])
{
	size_t n;

	for (size_t i = 0; ns != 0 && i < PAWL_LEN(span_units); i++)
		if (ns % span_units[i].ns == 0)
			return (size_t)snprintf(out, MONEY_TEXT, "%lld%s", (long long)(ns / span_units[i].ns),
						span_units[i].name);
	n = money_text(ns, out); /* nano-units of a second */
	out[n] = 's';
	out[n + 1] = '\0';
	return n + 1;
}
