/* daemon/cli/watch_line.c - see watch_line.h. Owns nothing. */
#include "daemon/cli/watch_line.h"

#include "policy/money.h"

#define NS_PER_MS 1000000
#define NAMED 5 /* programs and processes in one line; the rest are counted */

static int64_t number(const struct json *j, const char *key)
{
	return json_int(json_get(j, key));
}

static void text(struct buf *out, const struct json *j, const char *key, enum escape_mode mode)
{
	escape_text(out, json_string(json_get(j, key)), mode, 0, NULL);
}

static void counted(struct buf *out, int64_t n, const char *one, const char *many)
{
	buf_i64(out, n);
	buf_putc(out, ' ');
	buf_puts(out, n == 1 ? one : many);
}

static void bytes(struct buf *out, int64_t n)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;

	while (unit + 1 < PAWL_LEN(units) && (n >= 10240 || (n >= 1024 && n % 1024 == 0))) {
		n /= 1024;
		unit++;
	}
	buf_i64(out, n);
	buf_putc(out, ' ');
	buf_puts(out, units[unit]);
}

/* A span as entries have it, with at most three decimals. */
static void short_span(struct buf *out, const struct json *j, const char *key, enum escape_mode mode)
{
	struct str s = json_string(json_get(j, key));
	const char *dot = s.n ? memchr(s.p, '.', s.n) : NULL;
	size_t whole = dot ? (size_t)(dot - s.p) + 4 : s.n;

	if (!dot || whole + 1 >= s.n || s.p[s.n - 1] != 's') {
		escape_text(out, s, mode, 0, NULL);
		return;
	}
	escape_text(out, (struct str){ s.p, whole }, mode, 0, NULL);
	buf_putc(out, 's');
}

/* Below a second as it is, else to the millisecond: nobody reads the rest. */
static void span(struct buf *out, int64_t ns)
{
	char word[MONEY_TEXT];

	if (ns < NS_PER_SEC || ns % NS_PER_SEC == 0) {
		buf_add(out, word, span_text(ns < 0 ? 0 : ns, word));
		return;
	}
	buf_add(out, word, money_text(ns - ns % NS_PER_MS, word)); /* nano-units of a second */
	buf_putc(out, 's');
}

void watch_measure(struct buf *out, struct str why, int64_t n)
{
	if (str_is(why, "memory"))
		bytes(out, n);
	else if (str_is(why, "cpu") || str_is(why, "wall"))
		span(out, n);
	else
		buf_i64(out, n);
	if (str_is(why, "fork_rate") || str_is(why, "exec_rate"))
		buf_puts(out, "/s");
}

/* "processes 51, limit 50" */
static void over(struct buf *out, const struct json *j, enum escape_mode mode)
{
	struct str why = json_string(json_get(j, "why"));

	escape_text(out, why, mode, 0, NULL);
	if (!json_get(j, "limit"))
		return;
	buf_putc(out, ' ');
	watch_measure(out, why, number(j, "measured"));
	buf_puts(out, ", limit ");
	watch_measure(out, why, number(j, "limit"));
}

static void who(struct buf *out, const struct json *j, enum escape_mode mode)
{
	if (!json_get(j, "pid"))
		return;
	buf_puts(out, " (");
	text(out, j, "comm", mode);
	buf_puts(out, json_string(json_get(j, "comm")).n ? " " : "pid ");
	buf_i64(out, number(j, "pid"));
	buf_putc(out, ')');
}

static void attach(struct buf *out, const struct json *j, enum escape_mode mode)
{
	const struct json *held = json_get(j, "held"), *limits = json_get(j, "limits");
	const char *between = "";

	buf_puts(out, json_true(json_get(j, "run")) ? " runs under watch: pid " : " put itself under watch: pid ");
	buf_i64(out, number(j, "pid"));
	buf_puts(out, json_true(json_get(j, "run")) ? ", started by uid " : ", uid "); /* it may take another user after it was tagged */
	buf_i64(out, number(j, "uid"));
	buf_puts(out, ", tier ");
	text(out, j, "tier", mode);
	buf_puts(out, json_size(held) ? ", held " : ", nothing is held");
	for (size_t i = 0; i < json_size(held); i++) {
		buf_puts(out, i ? " " : "");
		escape_text(out, json_string(json_at(held, i)), mode, 0, NULL);
	}
	if (json_size(limits))
		buf_puts(out, "; ");
	for (void *it = json_iter(limits); it; it = json_iter_next(limits, it), between = ", ") {
		const struct json *v = json_iter_value(it);

		buf_puts(out, between);
		escape_text(out, json_iter_key(it), mode, 0, NULL);
		buf_putc(out, ' ');
		if (json_kind(v) == JSON_KIND_STRING)
			escape_text(out, json_string(v), mode, 0, NULL);
		else
			watch_measure(out, json_iter_key(it), json_int(v));
	}
	buf_puts(out, json_true(json_get(j, "log_only")) ? "; shadow mode: nothing is stopped" : "");
	if (json_string(json_get(j, "message")).n) {
		buf_puts(out, "; ");
		text(out, j, "message", mode);
	}
}

static struct str program(const struct json *row)
{
	struct str path = json_string(json_get(row, "path"));

	return path.n ? path : json_string(json_get(row, "comm"));
}

/* Rows differ by their arguments too; here a name is said once. Returns 0 for one that was said. */
static int64_t all_of(const struct json *rows, size_t at)
{
	int64_t sum = 0;

	for (size_t i = 0; i < json_size(rows); i++) {
		if (!str_eq(program(json_at(rows, i)), program(json_at(rows, at))))
			continue;
		if (i < at)
			return 0;
		sum += number(json_at(rows, i), "count");
	}
	return sum;
}

/* "/bin/ls 10 times, /usr/bin/git, and 3 more" */
static void programs(struct buf *out, const struct json *j, enum escape_mode mode)
{
	const struct json *rows = json_get(j, "programs");
	int64_t others = number(j, "unlisted");
	size_t said = 0;

	for (size_t i = 0; i < json_size(rows); i++) {
		int64_t count = all_of(rows, i);

		if (count == 0)
			continue;
		if (said == NAMED) {
			others += count;
			continue;
		}
		buf_puts(out, said++ ? ", " : ": ");
		escape_text(out, program(json_at(rows, i)), mode, 0, NULL);
		buf_puts(out, json_true(json_get(json_at(rows, i), "path_cut")) ? "..." : "");
		if (count > 1)
			buf_printf(out, " %lld times", (long long)count);
	}
	if (others)
		buf_printf(out, "%s%lld more", said ? ", and " : ": ", (long long)others);
}

static void killed(struct buf *out, const struct json *j, enum escape_mode mode)
{
	struct str why = json_string(json_get(j, "why"));
	bool would = json_true(json_get(j, "log_only")), starts = str_is(why, "deny_exec") || str_is(why, "fileless");
	int64_t n = number(j, "total");

	buf_puts(out, ": ");
	if (starts)
		counted(out, n, "program", "programs");
	else
		counted(out, n, "process", "processes");
	if (would)
		buf_puts(out, " would have been");
	buf_puts(out, starts ? " stopped before the first instruction" : " killed");
	buf_puts(out, ", ");
	escape_text(out, why, mode, 0, NULL);
	programs(out, j, mode);
}

static void breach(struct buf *out, const struct json *j, enum escape_mode mode)
{
	buf_puts(out, " went over its limit: ");
	over(out, j, mode);
	who(out, j, mode);
	buf_puts(out, json_true(json_get(j, "log_only")) ? "; it would have been ended" : "; all of it is ended");
}

/* Why it ended, as far as somebody ended it. */
static void reason(struct buf *out, const struct json *j, enum escape_mode mode)
{
	static const struct {
		const char *why, *says;
	} words[] = { { "none", " is over, and nobody knows how it ended" },
		      { "ended", " has ended" },
		      { "abort", " was stopped: a person aborted it" },
		      { "launcher", " was stopped: its `pawl run` is gone" },
		      { "stale", " was stopped: nobody renewed its session" } };
	struct str why = json_string(json_get(j, "why"));

	for (size_t i = 0; i < PAWL_LEN(words); i++)
		if (str_is(why, words[i].why)) {
			buf_puts(out, words[i].says);
			return;
		}
	buf_puts(out, " stopped: ");
	over(out, j, mode);
}

static void end(struct buf *out, const struct json *j, enum escape_mode mode)
{
	const struct json *dead = json_get(j, "ended");
	int64_t n = number(j, "killed");

	reason(out, j, mode);
	if (n) {
		buf_puts(out, "; ");
		counted(out, n, "process", "processes");
		buf_puts(out, " ended");
	}
	for (size_t i = 0; i < json_size(dead) && i < NAMED; i++) {
		buf_puts(out, i ? ", " : " (");
		text(out, json_at(dead, i), "comm", mode);
		buf_putc(out, ' ');
		buf_i64(out, number(json_at(dead, i), "pid"));
	}
	if (json_size(dead))
		buf_puts(out, n > NAMED || json_size(dead) > NAMED ? ", ...)" : ")");
	buf_puts(out, "; peak ");
	counted(out, number(j, "peak"), "process", "processes");
	buf_puts(out, ", ");
	counted(out, number(j, "execs"), "start", "starts");
	buf_puts(out, ", cpu ");
	short_span(out, j, "cpu", mode);
	buf_puts(out, ", memory ");
	bytes(out, number(j, "memory_peak"));
	buf_puts(out, ", time ");
	short_span(out, j, "time", mode);
	if (number(j, "lost")) {
		buf_puts(out, "; ");
		counted(out, number(j, "lost"), "event was lost", "events were lost");
	}
}

void watch_line(struct buf *out, const struct json *body, enum escape_mode mode)
{
	struct str action = json_string(json_get(body, "action"));

	text(out, body, "session", mode);
	if (str_is(action, "attach")) {
		attach(out, body, mode);
	} else if (str_is(action, "execs")) {
		buf_puts(out, " started ");
		counted(out, number(body, "total"), "program", "programs");
		programs(out, body, mode);
	} else if (str_is(action, "kill")) {
		killed(out, body, mode);
	} else if (str_is(action, "breach")) {
		breach(out, body, mode);
	} else if (str_is(action, "lost")) {
		buf_puts(out, ": ");
		counted(out, number(body, "events"), "event is", "events are");
		buf_puts(out, " lost; kills and limits do not depend on them");
	} else if (str_is(action, "left")) {
		buf_puts(out, ": ");
		counted(out, number(body, "total"), "process", "processes");
		buf_puts(out, " moved out of the tree's cgroup from outside");
		who(out, body, mode);
		buf_puts(out, "; still the tree's");
	} else if (str_is(action, "end")) {
		end(out, body, mode);
	} else {
		buf_putc(out, ' ');
		escape_text(out, action, mode, 0, NULL);
	}
}
