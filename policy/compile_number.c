/* policy/compile_number.c - numbers of conditions: exact decimals, and what only looks like a number. Pure. */
#include "policy/compile.h"

#define WHOLE_DIGITS 28 /* with 9 decimals well inside 127 bits */
#define DECIMALS     9

static size_t digits(struct str s, size_t from)
{
	size_t i = from;

	while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	return i - from;
}

bool number_parse(struct str s, fixed9 *ret)
{
	bool negative = s.n > 0 && s.p[0] == '-';
	size_t at = negative, whole = digits(s, at), decimals = 0;
	fixed9 v = 0;

	if (whole == 0 || whole > WHOLE_DIGITS || (whole > 1 && s.p[at] == '0'))
		return false;
	for (; whole > 0; whole--)
		v = v * 10 + (s.p[at++] - '0');
	if (at < s.n) {
		if (s.p[at++] != '.')
			return false;
		decimals = digits(s, at);
		if (decimals == 0 || decimals > DECIMALS || at + decimals != s.n)
			return false;
	}
	for (size_t i = 0; i < DECIMALS; i++)
		v = v * 10 + (i < decimals ? s.p[at + i] - '0' : 0);
	*ret = negative ? -v : v;
	return true;
}

/* What one YAML reader or another takes for a number: 1e5, 0x10, 0o17, 007, +3, .5, 1_000, .inf, .nan, and decimals too
 * long for number_parse(). Text that merely starts with digits (1.2.3, 2026-01-01, 5m) is not. */
bool number_like(struct str s)
{
	static const char *const words[] = { ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN" };
	size_t at = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0, points = 0, exponents = 0, seen = 0;
	struct str rest = { s.p + at, s.n - at };
	bool hex;

	for (size_t i = 0; i < PAWL_LEN(words); i++)
		if (str_is(rest, words[i]))
			return true;
	hex = rest.n > 2 && rest.p[0] == '0' &&
	      (rest.p[1] == 'x' || rest.p[1] == 'X' || rest.p[1] == 'o' || rest.p[1] == 'b');
	for (size_t i = hex ? 2 : 0; i < rest.n; i++) {
		char c = rest.p[i];

		if (c >= '0' && c <= '9')
			seen++;
		else if (hex && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
			seen++;
		else if (c == '.' && !hex && !exponents)
			points++;
		else if ((c == 'e' || c == 'E') && seen && !exponents)
			exponents++;
		else if ((c == '+' || c == '-') && i && (rest.p[i - 1] == 'e' || rest.p[i - 1] == 'E'))
			continue;
		else if (c != '_' || !seen)
			return false;
	}
	return seen > 0 && points <= 1;
}
