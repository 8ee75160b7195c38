/* policy/pattern.c - globs: `*` is any run of bytes, `?` one byte, the rest is literal.
 * Pure; borrows its text. The text it is matched against may be a megabyte that an agent chose, so matching is linear
 * in it: the runs between stars are looked for from left to right, and a run once found is never given up. */
#include "policy/condition.h"

#define PATTERN_MAX     1024
#define PATTERN_MAX_RUN 64 /* bytes of a run that holds a `?`: one bit each in a machine word */

static size_t run_length(const char *p, const char *end)
{
	const char *star = p == end ? NULL : memchr(p, '*', (size_t)(end - p));

	return (size_t)((star ? star : end) - p);
}

int pattern_compile(struct str text, struct pattern *ret, struct pawl_error *err)
{
	const char *p = text.p, *end;
	size_t prefix = 0;

	if (text.n == 0)
		return pawl_fail(err, PAWL_E_POLICY, "empty pattern");
	if (text.n > PATTERN_MAX)
		return pawl_fail(err, PAWL_E_POLICY, "pattern of %zu bytes, at most %d", text.n, PATTERN_MAX);
	end = text.p + text.n;
	while (prefix < text.n && text.p[prefix] != '*' && text.p[prefix] != '?')
		prefix++;
	while (p < end) {
		size_t n = run_length(p, end);

		if (n > PATTERN_MAX_RUN && memchr(p, '?', n))
			return pawl_fail(err, PAWL_E_POLICY,
					 "pattern has %zu bytes with a `?` between two `*`, at most %d", n,
					 PATTERN_MAX_RUN);
		p += n + (p + n < end);
	}
	*ret = (struct pattern){ .text = text, .prefix_n = prefix };
	return 0;
}

static bool run_at(const char *run, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (run[i] != '?' && run[i] != s[i])
			return false;
	return true;
}

/* Shift-and: bit i of `seen` says that run[0..i] ends here, so each byte of s is looked at once. */
static const char *run_search(const char *run, size_t n, const char *s, size_t sn)
{
	uint64_t mask[256], any = 0, seen = 0, last = UINT64_C(1) << (n - 1);

	for (size_t i = 0; i < n; i++)
		if (run[i] == '?')
			any |= UINT64_C(1) << i;
	for (size_t c = 0; c < 256; c++)
		mask[c] = any;
	for (size_t i = 0; i < n; i++)
		mask[(unsigned char)run[i]] |= UINT64_C(1) << i;
	for (size_t i = 0; i < sn; i++) {
		seen = (seen << 1 | 1) & mask[(unsigned char)s[i]];
		if (seen & last)
			return s + i + 1 - n;
	}
	return NULL;
}

static const char *run_find(const char *run, size_t n, const char *s, size_t sn)
{
	if (n == 0)
		return s;
	if (n > sn)
		return NULL;
	return memchr(run, '?', n) ? run_search(run, n, s, sn) : memmem(s, sn, run, n);
}

bool pattern_match(const struct pattern *p, struct str s)
{
	const char *run = p->text.p, *end = run + p->text.n, *at = s.p ? s.p : "", *stop = at + s.n;
	size_t n;

	if (p->prefix_n == p->text.n)
		return str_eq(p->text, s);
	if (s.n < p->prefix_n || (p->prefix_n && memcmp(run, at, p->prefix_n) != 0))
		return false;
	run += p->prefix_n;
	at += p->prefix_n;
	n = run_length(run, end);
	if (n > (size_t)(stop - at) || !run_at(run, at, n))
		return false;
	run += n;
	at += n;
	if (run == end) /* `?` only */
		return at == stop;
	for (;;) { /* run points at a star */
		run++;
		n = run_length(run, end);
		if (run + n == end) /* the last run is tied to the end */
			return n <= (size_t)(stop - at) && run_at(run, stop - n, n);
		at = run_find(run, n, at, (size_t)(stop - at));
		if (!at)
			return false;
		run += n;
		at += n;
	}
}
