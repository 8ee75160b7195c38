/* daemon/cli/top.c - see top.h. Owns nothing. */
#include "daemon/cli/top.h"

#include "daemon/cli/watch_line.h"
#include "policy/money.h"

/* ---- cells ---- */

/* Bytes of the escaped text that fit into width columns; *ret_columns: what they take. */
static size_t fitting(struct str text, size_t width, size_t *ret_columns)
{
	size_t at = 0, columns = 0, wide = 0;

	while (at < text.n) {
		size_t piece = escape_piece((struct str){ text.p + at, text.n - at }, &wide);

		if (columns + wide > width)
			break;
		columns += wide;
		at += piece;
	}
	*ret_columns = columns;
	return at;
}

/* text is escaped. A cut is seen: the last column is ~ then. Blanks up to width, but not behind the last cell of a line. */
static void cell(struct buf *out, struct str text, size_t width, bool right, bool last)
{
	size_t columns = 0, n = fitting(text, width, &columns);
	bool cut = n < text.n && width;

	if (cut) {
		n = fitting(text, width - 1, &columns);
		columns++;
	}
	for (size_t i = columns; right && i < width; i++)
		buf_putc(out, ' ');
	buf_add(out, text.p, n);
	if (cut)
		buf_putc(out, '~');
	for (size_t i = columns; !right && !last && i < width; i++)
		buf_putc(out, ' ');
}

static void amount(const struct json *v, bool bytes, enum escape_mode mode, struct buf *out)
{
	static const char units[] = "BKMGTP";
	uint64_t n;
	size_t unit = 0;

	if (!v || json_kind(v) == JSON_KIND_NULL) {
		buf_putc(out, '-');
	} else if (json_kind(v) == JSON_KIND_STRING) {
		escape_text(out, json_string(v), mode, 0, NULL);
	} else if (json_kind(v) == JSON_KIND_INT && bytes && json_int(v) >= 1024) {
		for (n = (uint64_t)json_int(v); (n >= 10240 || (n >= 1024 && n % 1024 == 0)) && unit < sizeof(units) - 2; unit++)
			n /= 1024;
		buf_u64(out, n);
		if (unit)
			buf_putc(out, units[unit]);
	} else if (json_kind(v) == JSON_KIND_INT) {
		buf_i64(out, json_int(v));
	} else {
		buf_putc(out, '?');
	}
}

/* Decimal text of seconds: to the hundredth below a minute, then minutes, then hours. */
static void seconds(const struct json *v, enum escape_mode mode, struct buf *out)
{
	struct pawl_error err;
	int64_t ns = 0, s;

	if (!v || json_kind(v) != JSON_KIND_STRING || money_parse(json_string(v), MONEY_UP, &ns, &err) < 0 || ns < 0) {
		amount(v, false, mode, out);
		return;
	}
	s = ns / NS_PER_SEC;
	if (s < 60 && ns % NS_PER_SEC == 0)
		buf_printf(out, "%llds", (long long)s);
	else if (s < 60)
		buf_printf(out, "%lld.%02llds", (long long)s, (long long)(ns % NS_PER_SEC / (NS_PER_SEC / 100)));
	else if (s < 3600)
		buf_printf(out, "%lldm%02lld", (long long)(s / 60), (long long)(s % 60));
	else
		buf_printf(out, "%lldh%02lld", (long long)(s / 3600), (long long)(s / 60 % 60));
}

static void one(const struct json *v, enum top_kind kind, enum escape_mode mode, struct buf *out)
{
	if (kind == TOP_SECONDS)
		seconds(v, mode, out);
	else
		amount(v, kind == TOP_BYTES, mode, out);
}

void top_number(const struct json *v, enum top_kind kind, enum escape_mode mode, struct buf *out)
{
	const struct json *limit = json_get(v, "limit");

	if (!v || json_kind(v) != JSON_KIND_OBJECT) {
		one(v, kind, mode, out);
		return;
	}
	one(json_get(v, "used"), kind, mode, out);
	if (!limit || json_kind(limit) == JSON_KIND_NULL)
		return;
	buf_putc(out, '/');
	one(limit, kind, mode, out);
}

bool top_stopped(const struct json *watch)
{
	struct str why = json_string(json_get(json_get(watch, "killed"), "why"));

	return why.n && !str_is(why, "ended"); /* by its first process: that is how runs end */
}

void top_killed(const struct json *killed, enum escape_mode mode, struct buf *out)
{
	struct str why = json_string(json_get(killed, "why"));
	int64_t limit = json_int(json_get(killed, "limit"));

	escape_text(out, why, mode, 0, NULL);
	if (why.n == 0 || limit == 0)
		return;
	buf_putc(out, ' ');
	watch_measure(out, why, json_int(json_get(killed, "measured")));
	buf_puts(out, ", limit ");
	watch_measure(out, why, limit);
}

/* ---- the table ---- */

enum column { C_SESSION, C_AGENT, C_SPENT, C_LEFT, C_PROC, C_CPU, C_MEM, C_WALL, C_EXECS, C_KILLS, C_CALLS, C_REVIEWS, C_STATE, C_COUNT };
static const struct {
	const char *head;
	size_t width;
	bool right;
	int keep; /* the lowest goes first where the terminal is narrow */
} columns[C_COUNT] = {
	[C_SESSION] = { "SESSION", 8, false, 99 }, [C_AGENT] = { "AGENT", 12, false, 8 }, [C_SPENT] = { "SPENT", 9, true, 5 },
	[C_LEFT] = { "LEFT", 9, true, 9 },	   [C_PROC] = { "PROC", 9, true, 11 },	  [C_CPU] = { "CPU", 11, true, 10 },
	[C_MEM] = { "MEM", 11, true, 7 },	   [C_WALL] = { "WALL", 11, true, 4 },	  [C_EXECS] = { "EXECS", 6, true, 3 },
	[C_KILLS] = { "KILLS", 5, true, 6 },	   [C_CALLS] = { "CALLS", 6, true, 2 },	  [C_REVIEWS] = { "REV", 3, true, 12 },
	[C_STATE] = { "STATE", 24, false, 98 },
};

static void value(const struct top_view *v, const struct json *row, enum column c, struct buf *out)
{
	const struct json *watch = json_get(row, "watch"), *money = json_get(row, "money");

	switch (c) {
	case C_SESSION:
		amount(json_get(row, "session"), false, v->mode, out);
		return;
	case C_AGENT:
		amount(json_get(row, "agent"), false, v->mode, out);
		return;
	case C_SPENT:
		amount(json_get(money, "used"), false, v->mode, out);
		return;
	case C_LEFT:
		amount(json_get(money, "remaining"), false, v->mode, out);
		return;
	case C_PROC:
		top_number(json_get(watch, "processes"), TOP_COUNT, v->mode, out);
		return;
	case C_CPU:
		top_number(json_get(watch, "cpu"), TOP_SECONDS, v->mode, out);
		return;
	case C_MEM:
		top_number(json_get(watch, "memory"), TOP_BYTES, v->mode, out);
		return;
	case C_WALL:
		top_number(json_get(watch, "wall"), TOP_SECONDS, v->mode, out);
		return;
	case C_EXECS:
		top_number(json_get(watch, "execs"), TOP_COUNT, v->mode, out);
		return;
	case C_KILLS:
		top_number(json_get(watch, "kills"), TOP_COUNT, v->mode, out);
		return;
	case C_CALLS:
		amount(json_get(row, "decisions"), false, v->mode, out);
		return;
	case C_REVIEWS:
		amount(json_get(row, "reviews"), false, v->mode, out);
		return;
	case C_STATE:
	case C_COUNT:
		break;
	}
	if (json_string(json_get(row, "ended")).n)
		amount(json_get(row, "ended"), false, v->mode, out);
	else
		buf_puts(out, "live");
	if (top_stopped(watch)) {
		buf_puts(out, ": ");
		top_killed(json_get(watch, "killed"), v->mode, out);
	}
}

/* Which columns fit; the last one takes what is left. */
static void choose(size_t width, bool shown[static C_COUNT], size_t *ret_last)
{
	size_t sum = 0;

	for (size_t c = 0; c < C_COUNT; c++) {
		shown[c] = true;
		sum += columns[c].width + (c > 0);
	}
	while (sum > width) {
		size_t least = 0;

		for (size_t c = 0; c < C_COUNT; c++)
			if (shown[c] && (!shown[least] || columns[c].keep < columns[least].keep))
				least = c;
		if (columns[least].keep >= 98)
			break;
		shown[least] = false;
		sum -= columns[least].width + 1;
	}
	*ret_last = sum < width ? columns[C_STATE].width + (width - sum) : columns[C_STATE].width;
}

/* A whole line, cut to the width. */
static void line(const struct top_view *v, struct buf *text, struct buf *out)
{
	cell(out, buf_str(text), v->width, false, true);
	buf_putc(out, '\n');
	out->failed |= text->failed;
	buf_reset(text);
}

static void table_row(const struct top_view *v, const struct json *row, const bool shown[static C_COUNT], size_t wide, struct buf *out)
{
	struct buf text = BUF_MAX(8192), whole = BUF_MAX(64u << 10);

	for (size_t c = 0; c < C_COUNT; c++) {
		if (!shown[c])
			continue;
		if (row)
			value(v, row, (enum column)c, &text);
		else
			buf_puts(&text, columns[c].head);
		if (whole.n)
			buf_putc(&whole, ' ');
		cell(&whole, buf_str(&text), c == C_STATE ? wide : columns[c].width, columns[c].right, c == C_STATE);
		buf_reset(&text);
	}
	line(v, &whole, out);
	buf_done(&whole);
	buf_done(&text);
}

/* ---- the head ---- */

static void word(const struct top_view *v, const struct json *doc, const char *key, const char *before, struct buf *out)
{
	if (!json_get(doc, key))
		return;
	buf_puts(out, before);
	amount(json_get(doc, key), false, v->mode, out);
}

static void head(const struct top_view *v, const struct json *status, int64_t reviews, struct buf *out)
{
	const struct json *watch = json_get(status, "watch"), *log = json_get(status, "log");
	struct buf text = BUF_MAX(8192);

	word(v, status, "server", "", &text);
	word(v, status, "mode", "  mode ", &text);
	word(v, json_get(status, "policy"), "name", "  policy ", &text);
	word(v, status, "now", "  ", &text);
	line(v, &text, out);
	word(v, json_get(status, "sessions"), "live", "live sessions ", &text);
	buf_puts(&text, "  reviews waiting ");
	buf_i64(&text, reviews);
	word(v, log, "seq", "  log ", &text);
	word(v, log, "state", " ", &text);
	word(v, watch, "state", "  watch ", &text);
	word(v, watch, "tier", ", tier ", &text);
	word(v, watch, "trees", ", trees ", &text);
	word(v, watch, "lost", ", events lost ", &text);
	line(v, &text, out);
	buf_done(&text);
}

static bool wanted(const struct top_view *v, const struct json *row)
{
	return v->all || json_string(json_get(row, "ended")).n == 0;
}

/* Watched ones first: they are what uses the machine. */
static size_t rows(const struct top_view *v, const struct json *list, const bool shown[static C_COUNT], size_t wide, size_t room, struct buf *out)
{
	size_t n = 0;

	for (int watched = 1; watched >= 0; watched--)
		for (size_t i = 0; i < json_size(list); i++) {
			const struct json *row = json_at(list, i), *watch = json_get(row, "watch");

			if (!wanted(v, row) || (watch && json_kind(watch) == JSON_KIND_OBJECT) != (watched == 1))
				continue;
			if (n++ < room)
				table_row(v, row, shown, wide, out);
		}
	return n;
}

void top_frame(const struct top_view *v, const struct json *status, const struct json *list, struct buf *out)
{
	const struct json *sessions = json_get(list, "sessions");
	size_t wide, n, room = v->height ? v->height < 5 ? 1 : v->height - 4 : SIZE_MAX;
	struct buf text = BUF_MAX(256);
	bool shown[C_COUNT];
	int64_t reviews = 0;

	for (size_t i = 0; i < json_size(sessions); i++)
		reviews += json_int(json_get(json_at(sessions, i), "reviews"));
	choose(v->width, shown, &wide);
	head(v, status, reviews, out);
	table_row(v, NULL, shown, wide, out);
	n = rows(v, sessions, shown, wide, room, out);
	if (n > room || json_true(json_get(list, "more"))) {
		buf_printf(&text, n > room ? "... %zu more" : "... more than %zu", n > room ? n - room : n);
		line(v, &text, out);
	} else if (n == 0) {
		buf_puts(&text, "no session");
		line(v, &text, out);
	}
	buf_done(&text);
}
