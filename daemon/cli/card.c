/* daemon/cli/card.c - see card.h. A reply is input: a field that is missing or of another type is shown as missing. */
#include "daemon/cli/card.h"

#include "policy/canon.h"

#include <sodium.h>
#include <stdio.h>

#define LABEL    9 /* columns left of the bar */
#define MAX_LINE (16u << 20)

struct page {
	const struct card_view *view;
	struct buf *out;
	struct escape_seen seen;
	size_t lines, left_out; /* of arguments */
	bool cut;
};

/* ---- small readers ---- */

static enum json_kind kind(const struct json *j)
{
	return j ? json_kind(j) : JSON_KIND_NULL;
}

uint64_t card_id_parse(struct str s, char letter, bool by_hand)
{
	uint64_t id = 0;

	if (s.n > 2 && s.p[0] == letter && s.p[1] == '_')
		s = (struct str){ s.p + 2, s.n - 2 };
	else if (!by_hand)
		return 0;
	if (s.n == 0 || s.n > 18 || s.p[0] == '0')
		return 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return 0;
		id = id * 10 + (uint64_t)(s.p[i] - '0');
	}
	return id;
}

uint64_t card_id(const struct json *card)
{
	return card_id_parse(json_string(json_get(card, "review")), 'r', false);
}

static bool digits(const char *p, int n, int64_t *ret)
{
	int64_t v = 0;

	for (int i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (p[i] - '0');
	}
	*ret = v;
	return true;
}

int64_t card_time(struct str s)
{
	int64_t y, mo, d, h, mi, sec, era, yoe, doe;

	if (s.n < 20 || s.p[4] != '-' || s.p[7] != '-' || s.p[10] != 'T' || s.p[13] != ':' || s.p[16] != ':' ||
	    s.p[s.n - 1] != 'Z' || !digits(s.p, 4, &y) || !digits(s.p + 5, 2, &mo) || !digits(s.p + 8, 2, &d) ||
	    !digits(s.p + 11, 2, &h) || !digits(s.p + 14, 2, &mi) || !digits(s.p + 17, 2, &sec) || mo < 1 || mo > 12 ||
	    d < 1 || d > 31)
		return 0;
	y -= mo <= 2; /* years begin in March, so that the leap day is the last */
	era = y / 400;
	yoe = y - era * 400;
	doe = yoe * 365 + yoe / 4 - yoe / 100 + (153 * (mo + (mo > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return ((era * 146097 + doe - 719468) * 24 + h) * 3600 + mi * 60 + sec;
}

static void time_left(const struct card_view *view, const struct json *card, struct buf *out)
{
	int64_t until = card_time(json_string(json_get(card, "expires"))), left = until - view->now_s;

	if (!until || !view->now_s)
		buf_puts(out, "time left not known");
	else if (left <= 0)
		buf_puts(out, "out of time");
	else if (left >= 3600)
		buf_printf(out, "%lldh %02lldm left", (long long)(left / 3600), (long long)(left / 60 % 60));
	else
		buf_printf(out, "%lldm %02llds left", (long long)(left / 60), (long long)(left % 60));
}

/* ---- lines ---- */

void card_line(const struct card_view *view, const char *label, struct str text, struct buf *out)
{
	size_t width = view->width < 40 ? 40 : view->width, column = LABEL + 2;

	buf_printf(out, "%-*.*s| ", LABEL, LABEL, label);
	while (text.n) {
		size_t columns, n = escape_piece(text, &columns);

		if (column + columns > width - 1 &&
		    column > LABEL + 2) { /* the last column is left free: some terminals wrap at it */
			buf_printf(out, "\n%*s| ", LABEL, "");
			column = LABEL + 2;
		}
		buf_add(out, text.p, n);
		column += columns;
		text = (struct str){ text.p + n, text.n - n };
	}
	buf_putc(out, '\n');
}

static void emit(struct page *pg, const char *label, struct buf *line)
{
	if (line->n || *label)
		card_line(pg->view, label, buf_str(line), pg->out);
	if (!buf_ok(line))
		pg->out->failed = true;
	buf_done(line);
}

static void text_of(struct page *pg, const struct json *j, struct buf *out)
{
	char t[32];

	switch (kind(j)) {
	case JSON_KIND_STRING:
		pg->cut |= escape_cut(out, json_string(j), pg->view->max_text, pg->view->mode, &pg->seen);
		break;
	case JSON_KIND_INT:
		buf_i64(out, json_int(j));
		break;
	case JSON_KIND_REAL:
		buf_add(out, t, canon_double(json_real(j), t));
		break;
	case JSON_KIND_BOOL:
		buf_puts(out, json_true(j) ? "true" : "false");
		break;
	case JSON_KIND_NULL:
		buf_puts(out, "null");
		break;
	case JSON_KIND_ARRAY:
	case JSON_KIND_OBJECT:
		buf_printf(out, "(%zu)", json_size(j));
		break;
	}
}

/* A name or number without quotes; empty when it is not there. */
static bool bare(struct page *pg, const struct json *obj, const char *key, const char *before, struct buf *out)
{
	const struct json *j = json_get(obj, key);
	struct str s = json_string(j);

	if (!j || kind(j) == JSON_KIND_NULL || (kind(j) == JSON_KIND_STRING && s.n == 0))
		return false;
	buf_puts(out, before);
	if (card_time(s)) /* to the second: people */
		buf_printf(out, "%.19sZ", s.p);
	else if (kind(j) == JSON_KIND_STRING && s.n <= pg->view->max_text)
		escape_text(out, s, pg->view->mode, 0, &pg->seen);
	else
		text_of(pg, j, out);
	return true;
}

/* ---- arguments ---- */

static void arg_line(struct page *pg, const char *label, struct buf *line)
{
	if (pg->lines++ < pg->view->max_lines) {
		emit(pg, label, line);
		return;
	}
	pg->left_out++;
	buf_done(line);
}

static void start(struct page *pg, unsigned depth, const struct str *key, struct buf *line)
{
	buf_printf(line, "%*s", (int)(2 * (depth < 12 ? depth : 12)), "");
	if (key) {
		pg->cut |= escape_cut(line, *key, pg->view->max_text, pg->view->mode, &pg->seen);
		buf_puts(line, ": ");
	}
}

/* Depth is bounded by the parser. */
static void pretty(struct page *pg, const char *label, const struct json *j, unsigned depth, const struct str *key)
{
	bool object = kind(j) == JSON_KIND_OBJECT, array = kind(j) == JSON_KIND_ARRAY;
	struct buf line = BUF_MAX(MAX_LINE);

	start(pg, depth, key, &line);
	if (json_size(j) == 0 || !(object || array)) {
		if (object || array)
			buf_puts(&line, object ? "{}" : "[]");
		else
			text_of(pg, j, &line);
		arg_line(pg, label, &line);
		return;
	}
	buf_putc(&line, object ? '{' : '[');
	arg_line(pg, label, &line);
	for (void *it = object ? json_iter(j) : NULL; it; it = json_iter_next(j, it)) {
		struct str name = json_iter_key(it);

		pretty(pg, "", json_iter_value(it), depth + 1, &name);
	}
	for (size_t i = 0; array && i < json_size(j); i++)
		pretty(pg, "", json_at(j, i), depth + 1, NULL);
	line = BUF_MAX(MAX_LINE);
	start(pg, depth, NULL, &line);
	buf_putc(&line, object ? '}' : ']');
	arg_line(pg, "", &line);
}

static void args_size(struct page *pg, const struct json *card, struct str args, bool is_json)
{
	struct buf line = BUF_MAX(MAX_LINE);
	uint8_t hash[crypto_hash_sha256_BYTES];
	int64_t whole = json_int(json_get(card, "args_bytes"));

	(void)crypto_hash_sha256(hash, (const uint8_t *)args.p, args.n);
	buf_printf(&line, "(%zu bytes, SHA-256 ", args.n);
	buf_hex(&line, hash, sizeof(hash));
	buf_putc(&line, ')');
	emit(pg, "", &line);
	if (!is_json || (whole > 0 && (uint64_t)whole > args.n)) {
		line = BUF_MAX(MAX_LINE);
		buf_printf(&line, "pawld kept the first %zu bytes of ", args.n);
		if (whole > 0)
			buf_printf(&line, "%lld", (long long)whole);
		else
			buf_puts(&line, "more");
		buf_puts(&line, ": what follows them is shown nowhere");
		emit(pg, "! CUT", &line);
	}
	if (pg->left_out || pg->cut) {
		line = BUF_MAX(MAX_LINE);
		buf_printf(&line, "not all is shown: ");
		if (pg->left_out)
			buf_printf(&line, "%zu lines are left out; ", pg->left_out);
		buf_printf(&line, "`pawl review show r_%llu` shows all", (unsigned long long)card_id(card));
		emit(pg, "!", &line);
	}
}

static void show_args(struct page *pg, const struct json *card)
{
	struct buf line = BUF_MAX(MAX_LINE);
	struct str args = json_string(json_get(card, "args"));
	struct json *doc = NULL;
	bool is_json;

	if (kind(json_get(card, "args")) != JSON_KIND_STRING) {
		buf_puts(&line, "not kept here (redacted, or the private store is gone)");
		(void)bare(pg, card, "args_mac", "; keyed digest ", &line);
		emit(pg, "args", &line);
		return;
	}
	is_json = json_parse(args, PAWL_MAX_DEPTH + 2, &doc, NULL) == 0;
	if (is_json) {
		pretty(pg, "args", doc, 0, NULL);
		json_free(doc);
	} else {
		/* cut by pawld: its members cannot be told apart, so more of the text is shown than of one member */
		pg->cut |= escape_cut(&line, args, 8 * pg->view->max_text, pg->view->mode, &pg->seen);
		emit(pg, "args", &line);
	}
	args_size(pg, card, args, is_json);
}

/* ---- the rest of a card ---- */

static void show_why(struct page *pg, const struct json *card)
{
	const struct json *asks = json_get(card, "asks"), *why = json_get(card, "reason");
	struct buf line = BUF_MAX(MAX_LINE);

	if (!bare(pg, why, "message", "", &line))
		buf_puts(&line, "held for a person");
	emit(pg, "why", &line);
	line = BUF_MAX(MAX_LINE);
	if (bare(pg, why, "counter", "counter ", &line))
		buf_puts(&line, ", ");
	if (bare(pg, why, "limit", "limit ", &line))
		(void)bare(pg, why, "unit", " ", &line);
	emit(pg, "", &line);
	for (size_t i = 0; i < json_size(asks); i++) {
		const struct json *ask = json_at(asks, i);

		line = BUF_MAX(MAX_LINE);
		buf_puts(&line, i ? "and " : "");
		/* code "rule" says no more than the rule's name does */
		if (str_is(json_string(json_get(ask, "code")), "rule") || !bare(pg, ask, "code", "", &line))
			(void)bare(pg, ask, "rule", "rule ", &line);
		else
			(void)bare(pg, ask, "rule", ", rule ", &line);
		(void)bare(pg, ask, "decision", ", of ", &line);
		emit(pg, "", &line);
	}
}

static void show_before(struct page *pg, const struct json *card)
{
	static const char *const columns[] = { "now", "decision", "tool", "verdict", "outcome" };
	const struct json *before = json_get(card, "before");

	for (size_t i = 0; i < json_size(before); i++) {
		const struct json *row = json_at(before, i);
		struct buf line = BUF_MAX(MAX_LINE);
		const char *gap = "";

		for (size_t c = 0; c < PAWL_LEN(columns); c++)
			if (bare(pg, row, columns[c], gap, &line))
				gap = "  ";
		emit(pg, i ? "" : "before", &line);
	}
	if (json_size(before) == 0)
		card_line(pg->view, "before", STR("nothing: the session's first call"), pg->out);
}

struct card_amounts card_amounts(const struct json *card)
{
	struct card_amounts a = { .known = false };
	struct str money = json_string(json_get(card, "money"));

	if (!money.n || money.n >= sizeof(a.money) || json_kind(json_get(card, "tokens")) != JSON_KIND_INT)
		return a;
	memcpy(a.money, money.p, money.n);
	a.tokens = json_int(json_get(card, "tokens"));
	a.known = true;
	return a;
}

static void show_who(struct page *pg, const struct json *card)
{
	struct buf line = BUF_MAX(MAX_LINE);

	buf_puts(&line, "agent ");
	text_of(pg, json_get(card, "agent"), &line);
	(void)bare(pg, card, "session", ", session ", &line);
	(void)bare(pg, card, "opened", ", asked at ", &line);
	emit(pg, "who", &line);
	line = BUF_MAX(MAX_LINE);
	(void)bare(pg, card, "tool", "", &line);
	emit(pg, "tool", &line);
	line = BUF_MAX(MAX_LINE);
	if (!bare(pg, card, "money", "money ", &line))
		buf_puts(&line, "money not said");
	(void)bare(pg, card, "tokens", ", tokens ", &line);
	(void)bare(pg, card, "joined", ", calls that ask ", &line);
	emit(pg, "amount", &line);
}

void card_show(const struct card_view *view, const struct json *card, struct buf *out)
{
	struct page pg = { .view = view, .out = out };
	struct buf line = BUF_MAX(MAX_LINE);
	uint64_t id = card_id(card);

	if (!id) {
		buf_puts(out, "pawld sent something that is no card\n");
		return;
	}
	buf_printf(out, "\n== r_%llu ==\n", (unsigned long long)id);
	(void)bare(&pg, card, "state", "", &line);
	if (str_is(json_string(json_get(card, "state")), "pending")) {
		buf_puts(&line, ", ");
		time_left(view, card, &line);
		(void)bare(&pg, card, "expires", ", until ", &line);
	} else {
		buf_puts(&line, ": ");
		card_outcome(view, card, &line);
		while (line.n && line.p[line.n - 1] == '\n')
			line.n--;
	}
	emit(&pg, "state", &line);
	show_who(&pg, card);
	show_args(&pg, card);
	show_why(&pg, card);
	show_before(&pg, card);
	if (escape_any(&pg.seen)) {
		line = BUF_MAX(MAX_LINE);
		buf_puts(&line, "characters shown as \\u{...}: ");
		escape_summary(&pg.seen, &line);
		emit(&pg, "! MARKED", &line);
	}
}

void card_row(const struct card_view *view, const struct json *card, struct buf *out)
{
	static const char *const columns[] = { "review", "state", "tool", "agent", "session" };
	struct page pg = { .view = view, .out = out };

	for (size_t c = 0; c < PAWL_LEN(columns); c++) {
		if (!bare(&pg, card, columns[c], c ? "  " : "", out))
			buf_puts(out, c ? "  -" : "-");
	}
	buf_puts(out, "  ");
	if (str_is(json_string(json_get(card, "state")), "pending"))
		time_left(view, card, out);
	else if (!bare(&pg, card, "operator", "by ", out))
		buf_putc(out, '-');
	(void)bare(&pg, json_at(json_get(card, "asks"), 0), "code", "  ", out);
	(void)bare(&pg, json_at(json_get(card, "asks"), 0), "rule", " ", out);
	if (escape_any(&pg.seen)) {
		buf_puts(out, "  ! ");
		escape_summary(&pg.seen, out);
	}
	buf_putc(out, '\n');
}

void card_outcome(const struct card_view *view, const struct json *card, struct buf *out)
{
	struct page pg = { .view = view, .out = out };

	buf_printf(out, "r_%llu", (unsigned long long)card_id(card));
	if (!bare(&pg, card, "state", " is ", out))
		buf_puts(out, " is not waiting");
	(void)bare(&pg, card, "operator", " by ", out);
	(void)bare(&pg, card, "operator_reason", ": ", out);
	buf_putc(out, '\n');
}
