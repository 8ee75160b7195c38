/* daemon/cli/spend.c - see spend.h. What a call holds is in its decision's draws, what it cost in its report, or, where none came, what it
 * held: the same sums as pawld's ledgers. Owns the rows and the calls; sums saturate. */
#include "daemon/cli/spend.h"

#include "daemon/cli/lines.h"
#include "daemon/cli/replay.h"
#include "daemon/log/entry.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum by { BY_TOOL, BY_AGENT, BY_DAY, BY_SESSION, BY_COUNT };
static const char *const by_words[BY_COUNT] = { "tool", "agent", "day", "session" };

struct row {
	char key[PAWL_MAX_TOOL + 1], unit[4];
	int64_t calls, open, refused;
	int64_t would, would_money; /* of the calls: what shadow mode let through, and what it cost */
	int64_t settled, reserved, tokens, tokens_reserved;
};
struct held { /* an allowed call, in order of seq */
	uint64_t seq;
	uint32_t row;
	bool open, would;
	int64_t money, tokens;
};
struct spend {
	enum by by;
	struct row *rows;
	uint32_t *order; /* of rows, by key: rows themselves stay where they are */
	size_t n_rows, cap_rows;
	struct held *calls;
	size_t n_calls, cap_calls;
};

static int order_str(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int by = n ? memcmp(a.p, b.p, n) : 0;

	return by ? by : (a.n > b.n) - (a.n < b.n);
}

/* Names by their letters; sessions by their numbers, so that s_9 comes before s_10. */
static int order_of(enum by what, struct str key, struct str unit, const struct row *r)
{
	struct str own = str_of(r->key);
	int by = what == BY_SESSION && key.n != own.n ? (key.n < own.n ? -1 : 1) : order_str(key, own);

	return by ? by : order_str(unit, str_of(r->unit));
}

/* Twice as much room; what was there stays when it fails. */
static bool grow(void **p, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : 64;
	void *q = more > SIZE_MAX / size ? NULL : realloc(*p, more * size);

	if (!q)
		return false;
	*p = q;
	*cap = more;
	return true;
}

static int add_row(struct spend *sp, struct str key, struct str unit, size_t at, uint32_t *ret, struct pawl_error *err)
{
	size_t cap = sp->cap_rows;
	void *rows = sp->rows, *order = sp->order;
	struct row *r;

	if (key.n >= sizeof(r->key) || unit.n >= sizeof(r->unit))
		return pawl_fail(err, PAWL_E_TAMPERED, "a name in the log is longer than any");
	if (!sp->rows || sp->n_rows == cap) {
		bool ok = grow(&rows, &cap, sizeof(*sp->rows));

		sp->rows = rows;
		cap = sp->cap_rows;
		ok = ok && grow(&order, &cap, sizeof(*sp->order));
		sp->order = order;
		if (!ok || sp->n_rows >= UINT32_MAX / 2)
			return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
		sp->cap_rows = cap;
	}
	r = &sp->rows[sp->n_rows];
	*r = (struct row){ .calls = 0 };
	memcpy(r->key, key.p, key.n);
	if (unit.n)
		memcpy(r->unit, unit.p, unit.n);
	memmove(sp->order + at + 1, sp->order + at, (sp->n_rows - at) * sizeof(*sp->order));
	sp->order[at] = (uint32_t)sp->n_rows;
	*ret = (uint32_t)sp->n_rows++;
	return 0;
}

static int find_row(struct spend *sp, struct str key, struct str unit, uint32_t *ret, struct pawl_error *err)
{
	size_t low = 0, high = sp->rows ? sp->n_rows : 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int by = order_of(sp->by, key, unit, &sp->rows[sp->order[mid]]);

		if (by == 0) {
			*ret = sp->order[mid];
			return 0;
		}
		if (by < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return add_row(sp, key, unit, low, ret, err);
}

static struct held *find_call(struct spend *sp, uint64_t seq)
{
	size_t low = 0, high = sp->n_calls;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sp->calls[mid].seq == seq)
			return &sp->calls[mid];
		if (seq < sp->calls[mid].seq)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

static void add(int64_t *sum, int64_t v)
{
	*sum = add_sat(*sum, v);
}

static struct str key_of(const struct spend *sp, const struct entry *e, const struct state *st, struct buf *day)
{
	const struct entry_decision *d = &e->decision;
	const struct session_state *who;

	switch (sp->by) {
	case BY_TOOL:
		return d->tool;
	case BY_AGENT:
		who = state_session(st, d->session);
		return who ? who->agent : STR("?");
	case BY_DAY:
		buf_time(day, e->now);
		return buf_ok(day) && day->n > 11 ? (struct str){ day->p + 1, 10 } : STR("?");
	case BY_SESSION:
	case BY_COUNT:
		break;
	}
	buf_printf(day, "s_%llu", (unsigned long long)d->session);
	return buf_str(day);
}

static int take_decision(struct spend *sp, const struct entry *e, const struct state *st, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	struct held h = { .seq = e->seq, .open = true, .would = d->would != VERDICT_UNSET };
	struct buf text = BUF_MAX(64);
	void *calls = sp->calls;
	bool ok = true;
	int r = find_row(sp, key_of(sp, e, st, &text), d->money_unit, &h.row, err);

	buf_done(&text);
	if (r < 0)
		return r;
	if (d->answer != VERDICT_ALLOW) {
		add(&sp->rows[h.row].refused, 1);
		return 0;
	}
	add(&sp->rows[h.row].calls, 1);
	add(&sp->rows[h.row].would, h.would);
	for (size_t i = 0; i < d->n_draws; i++) {
		int64_t *most = d->draws[i].unit == UNIT_MONEY ? &h.money : d->draws[i].unit == UNIT_TOKENS ? &h.tokens : NULL;

		if (most && d->draws[i].amount > *most)
			*most = d->draws[i].amount;
	}
	if (sp->n_calls == sp->cap_calls)
		ok = grow(&calls, &sp->cap_calls, sizeof(*sp->calls));
	sp->calls = calls;
	if (!ok)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	sp->calls[sp->n_calls++] = h;
	return 0;
}

static void end(struct spend *sp, struct held *h, int64_t money, int64_t tokens)
{
	if (!h)
		return;
	h->open = false;
	add(&sp->rows[h->row].settled, money);
	if (h->would)
		add(&sp->rows[h->row].would_money, money);
	add(&sp->rows[h->row].tokens, tokens);
}

static int each(void *arg, const struct entry *e, const struct state *st, struct pawl_error *err)
{
	struct spend *sp = arg;
	struct held *h;

	if (e->kind == ENTRY_DECISION || e->kind == ENTRY_CLAIM)
		return take_decision(sp, e, st, err);
	if (e->kind == ENTRY_SETTLE) {
		end(sp, find_call(sp, e->settle.decision), e->settle.charged_money, e->settle.charged_tokens);
	} else if (e->kind == ENTRY_LOSS && e->loss.what != LOSS_TORN_TAIL) {
		h = find_call(sp, e->loss.decision);
		if (h && h->open) /* its lease ran out, or its session ended: what it held is what it cost */
			end(sp, h, h->money, h->tokens);
		if (e->loss.what == LOSS_LATE_SETTLE)
			end(sp, h, e->loss.late.charged_money, e->loss.late.charged_tokens);
	}
	return 0;
}

/* What is open now holds its reservation; what has no report and is not open was charged it when its session ended. */
static void close_books(struct spend *sp, const struct state *st)
{
	for (size_t i = 0; i < sp->n_calls; i++) {
		struct held *h = &sp->calls[i];
		const struct call_state *c = h->open ? state_decision(st, h->seq) : NULL;

		if (!h->open)
			continue;
		if (!c || c->settled) {
			end(sp, h, h->money, h->tokens);
			continue;
		}
		add(&sp->rows[h->row].open, 1);
		add(&sp->rows[h->row].reserved, h->money);
		add(&sp->rows[h->row].tokens_reserved, h->tokens);
	}
}

/* ---- out ---- */

static void key_int(struct buf *b, const char *key, int64_t v)
{
	buf_key(b, key);
	buf_i64(b, v);
}

static void key_money(struct buf *b, const char *key, int64_t v)
{
	char text[32];

	(void)amount_text(UNIT_MONEY, v, text);
	buf_key(b, key);
	buf_text(b, str_of(text));
}

static void put(const struct spend *sp, struct buf *b)
{
	buf_printf(b, "{\"by\":\"%s\",\"rows\":[", by_words[sp->by]);
	for (size_t i = 0; i < sp->n_rows; i++) {
		const struct row *r = &sp->rows[sp->order[i]];

		buf_puts(b, i ? ",{" : "{");
		buf_key(b, by_words[sp->by]);
		buf_text(b, str_of(r->key));
		key_int(b, "calls", r->calls);
		key_int(b, "open", r->open);
		key_int(b, "refused", r->refused);
		key_int(b, "would", r->would);
		key_money(b, "settled", r->settled);
		key_money(b, "would_settled", r->would_money);
		key_money(b, "reserved", r->reserved);
		buf_key(b, "currency");
		buf_text(b, str_of(r->unit));
		key_int(b, "tokens", r->tokens);
		key_int(b, "tokens_reserved", r->tokens_reserved);
		buf_putc(b, '}');
	}
	buf_puts(b, "]}");
}

/* Columns of what may be long stand last, so that no name pushes the numbers around. */
static void show(struct lines *l, const struct json *doc)
{
	static const char *const columns[] = { "calls", "open", "refused", "would", "settled", "(would)", "reserved", "currency", "tokens", "(reserved)" };
	static const char *const keys[] = { "calls", "open", "refused", "would", "settled", "would_settled", "reserved", "currency", "tokens",
					    "tokens_reserved" };
	const struct json *rows = json_get(doc, "rows");
	struct str by = json_string(json_get(doc, "by"));

	for (size_t c = 0; c < PAWL_LEN(columns); c++)
		buf_printf(l->out, "%-12s", columns[c]);
	escape_text(l->out, by, l->mode, 0, NULL);
	line_end(l);
	for (size_t i = 0; i < json_size(rows); i++) {
		for (size_t c = 0; c < PAWL_LEN(columns); c++) {
			size_t at = l->out->n;

			if (!line_value(l, "", json_at(rows, i), keys[c], ""))
				buf_putc(l->out, '-');
			do
				buf_putc(l->out, ' ');
			while (buf_ok(l->out) && l->out->n - at < 12);
		}
		(void)line_value(l, "", json_at(rows, i), by.p, "");
		line_end(l);
	}
}

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl spend [--by tool|agent|day|session] [--dir DIR] [--json]\n"
		    "Adds up, from entry 0 of the log on, what calls cost: settled is what was charged (a call that nobody reported is charged\n"
		    "what it had reserved), reserved what calls that are still open hold in money budgets. would counts the calls that shadow mode\n"
		    "let through and enforce would not have, (would) what of settled they cost. A day is the UTC day of the decision.\n"
		    "Reads the log's files; pawld may be running. Signatures are not checked: `pawl log verify`.\n\n"
		    "  --by WHAT   one row for each tool (default), agent, day or session; each currency has rows of its own\n"
		    "  --dir DIR   the log's folder, or the folder that `pawl init` made (default: $PAWL_DIR,\n"
		    "              /var/lib/pawl for root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --json      one JSON object\n"
		    "Exit status: 0 shown, 1 no readable log, 2 usage.\n",
		    out);
	return status;
}

static int answer(struct spend *sp, const char *dir, bool json)
{
	struct buf doc = BUF_MAX(64u << 20);
	struct pawl_error err = { .code = PAWL_OK };
	struct state *st = NULL;
	int r = replay_log("spend", dir, each, sp, &st, &err);

	if (r < 0)
		return lines_fail("spend", &err);
	close_books(sp, st);
	state_free(st);
	put(sp, &doc);
	r = lines_answer("spend", &doc, json, show);
	buf_done(&doc);
	return r;
}

static bool by_parse(const char *word, enum by *ret)
{
	for (int i = 0; i < BY_COUNT; i++)
		if (str_is(str_of(word), by_words[i])) {
			*ret = (enum by)i;
			return true;
		}
	return false;
}

int cli_spend(int argc, char **argv)
{
	static const struct option longs[] = { { "by", required_argument, NULL, 'b' }, { "dir", required_argument, NULL, 'd' },
					       { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	struct spend sp = { .by = BY_TOOL };
	const char *dir = NULL;
	bool json = false;
	int c, status;

	optind = 0;
	while ((c = getopt_long(argc, argv, "d:h", longs, NULL)) != -1) {
		if (c == 'd')
			dir = optarg;
		else if (c == 'j')
			json = true;
		else if (c != 'b' || !by_parse(optarg, &sp.by))
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	}
	if (optind < argc)
		return usage(stderr, 2);
	status = answer(&sp, dir, json);
	free(sp.rows);
	free(sp.order);
	free(sp.calls);
	return status;
}
