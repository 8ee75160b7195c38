/* policy/state_write.c - the whole state as bytes: the one form of what the entries made of it. The digest is taken of these
 * bytes (state_digest.c), snapshots hold them, and state_read.c makes a state of them that goes on as this one would.
 *
 *	"pawl/state/v6\n"
 *	next sequence, time of the newest entry, how many sessions and calls follow
 *	life totals of all; whether budgets were told, and those of the policy in force
 *	agents, in the order in which they were first named, each with its denials
 *	ledgers of no session
 *	sessions by id, each: its fields, ledgers, cards, guards, denials, a root's tripped tokens, calls with what is held for them
 *	of every root: the tree's last executions with their loop tokens
 *	breakers, in the order in which they were first named
 *
 * A list is its length and its rows, the newest first unless said otherwise. The fields of a row are those of its function in
 * state_row.c, in that order, as
 *	number	7 bits a byte, the lowest first, never longer than it must be; an id is its distance from the one before it
 *	time	0; else its distance d from the time of the newest entry, as 2d + 1 or, before it, 2d
 *	token	8 bytes, the lowest first; 4 where the state keeps 32 bits of one
 *	text	0 for none; 1 to 16, its place among the last 16 texts, from which it moves to the first; else 16 + length and bytes
 * What follows from other rows is not written: the trees, who is open or waits, which call holds a key, places in queues, sums over
 * calls. Nothing of memory is: no handle, no table, no order but the entries'. So equal entries make equal bytes, on any machine
 * and however often the state was copied or read in between; and no other bytes are read as the same state.
 * It asks for no memory and changes nothing, not even what getters remember. */
#include "policy/state_bytes.h"

#define COUNT(b, kind, first, link, n)                                             \
	do {                                                                       \
		n = 0;                                                             \
		for (uint32_t i_ = first; i_; i_ = kind##_at((b)->st, i_)->link) \
			n++;                                                       \
		(void)bytes_n(b, n, UINT32_MAX);                                   \
	} while (0)

static void write_head(struct bytes *b)
{
	const struct state *st = b->st;
	char head[] = BYTES_HEAD, head5[] = BYTES_HEAD5;
	uint64_t next_seq = st->next_seq, sessions = st->sessions.used - st->sessions.n_free, calls = st->calls.used - st->calls.n_free;
	int64_t now = st->now;
	bool shadow = st->shadow;

	bytes_raw(b, b->v5 ? head5 : head, sizeof(head) - 1);
	row_head(b, &next_seq, &now, &shadow, &sessions, &calls);
}

static void write_money(struct bytes *b)
{
	struct state_money m = b->st->money;

	row_life(b, m.life);
	(void)bytes_n(b, m.known, 1);
	(void)bytes_n(b, m.n_budgets, PAWL_MAX_BUDGETS);
	for (uint32_t i = 0; i < m.n_budgets; i++)
		row_budget(b, &m.budgets[i]);
}

static void write_sticks(struct bytes *b, uint32_t first)
{
	uint32_t n;

	COUNT(b, stick, first, next, n);
	for (uint32_t h = first; h; h = stick_at(b->st, h)->next) {
		struct stick_row k = *stick_at(b->st, h);

		row_stick(b, &k);
	}
}

static void write_agents(struct bytes *b)
{
	uint32_t n;

	COUNT(b, agent, b->st->list.agents_first, next, n);
	for (uint32_t h = b->st->list.agents_first; h; h = agent_at(b->st, h)->next) {
		struct agent_row a = *agent_at(b->st, h);

		row_agent(b, &a);
		write_sticks(b, a.sticks);
	}
}

static void write_ledgers(struct bytes *b, uint32_t first)
{
	uint32_t n;

	COUNT(b, ledger, first, next, n);
	for (uint32_t h = first; h; h = ledger_at(b->st, h)->next) {
		struct ledger_row l = *ledger_at(b->st, h);

		row_ledger(b, &l);
	}
}

/* ---- sessions ---- */

static void write_cards(struct bytes *b, const struct session_row *s)
{
	uint64_t last = b->st->next_seq;
	uint32_t n;

	COUNT(b, card, s->cards, next, n);
	for (uint32_t h = s->cards; h; h = card_at(b->st, h)->next) {
		struct card_row c = *card_at(b->st, h);

		row_card(b, &c, &last);
	}
}

static void write_guards(struct bytes *b, const struct session_row *s)
{
	uint32_t n;

	COUNT(b, guard, s->guards, next, n);
	for (uint32_t h = s->guards; h; h = guard_at(b->st, h)->next) {
		struct guard_row g = *guard_at(b->st, h);

		row_guard(b, &g);
	}
}

static void write_trips(struct bytes *b, const struct session_row *s)
{
	uint32_t n;

	COUNT(b, trip, s->trips, next, n);
	for (uint32_t h = s->trips; h; h = trip_at(b->st, h)->next) {
		struct trip_row t = *trip_at(b->st, h);

		row_trip(b, &t);
	}
}

static void write_hold(struct bytes *b, const struct call_row *c, const struct hold_row *o)
{
	const struct ledger_row *l = ledger_at(b->st, o->ledger);
	struct hold_key key = { .budget = l->budget, .owner = l->owner, .tool = l->tool, .scope = l->scope, .unit = l->unit,
				.behind = (uint16_t)(l->epoch - o->epoch) };
	struct hold_row hold = *o;

	if (l->session_row) {
		key.up = 1;
		for (uint32_t s = c->session_row; s != l->session_row; s = session_at(b->st, s)->parent_row)
			key.up++;
	}
	row_hold(b, &hold, &key);
}

static void write_holds(struct bytes *b, const struct call_row *c)
{
	uint32_t all = call_live(b->st, c)->holds, first = ledger_holds(b->st, c), n;

	(void)bytes_n(b, first != all, 1);
	if (first != all) {
		struct hold_row o = *hold_at(b->st, all);

		row_hold_life(b, &o);
	}
	COUNT(b, hold, first, next, n);
	for (uint32_t h = first; h; h = hold_at(b->st, h)->next)
		write_hold(b, c, hold_at(b->st, h));
}

static struct call_more beside(const struct state *st, const struct call_row *c)
{
	struct call_more m = { .lives = c->live != 0 };

	if (m.lives)
		m.live = *call_live(st, c);
	if (m.live.card)
		m.card = card_at(st, m.live.card)->pub.id;
	return m;
}

static void write_calls(struct bytes *b, const struct session_row *s)
{
	uint64_t last = b->st->next_seq;
	uint32_t n;

	COUNT(b, call, s->calls, next, n);
	for (uint32_t h = s->calls; h; h = call_at(b->st, h)->next) {
		struct call_row c = *call_at(b->st, h);
		struct call_more m = beside(b->st, &c);

		row_call(b, &c, &m, &last);
		if (c.answer == VERDICT_ALLOW && !c.reported)
			write_holds(b, &c);
	}
}

static void write_sessions(struct bytes *b)
{
	uint64_t last = 0;

	for (uint32_t h = b->st->list.sessions_first; h; h = session_at(b->st, h)->next) {
		struct session_row s = *session_at(b->st, h);

		struct tree_state tree = state_tree_of(b->st, &s);

		row_session(b, &s, &last);
		if (!b->v5)
			row_tree(b, &tree);
		write_ledgers(b, s.ledgers);
		write_cards(b, &s);
		write_guards(b, &s);
		write_sticks(b, s.sticks);
		if (s.root_row == h)
			write_trips(b, &s);
		write_calls(b, &s);
	}
}

/* ---- what leads across sessions ---- */

static void write_execs(struct bytes *b, const struct session_row *root)
{
	uint64_t last = b->st->next_seq;

	(void)bytes_n(b, root->ring_n, PAWL_MAX_WINDOW);
	for (uint32_t back = 0; back < root->ring_n; back++) {
		uint32_t at = ring_place(root, back);
		uint64_t seq = call_at(b->st, ring_calls(root)[at])->seq;
		uint32_t repeat = root->ring[at];

		row_exec(b, &seq, &repeat, &last);
	}
}

static void write_roots(struct bytes *b)
{
	for (uint32_t h = b->st->list.sessions_first; h; h = session_at(b->st, h)->next)
		if (session_at(b->st, h)->root_row == h)
			write_execs(b, session_at(b->st, h));
}

static void write_breakers(struct bytes *b)
{
	uint32_t n;

	COUNT(b, break, b->st->list.breaks_first, next, n);
	for (uint32_t h = b->st->list.breaks_first; h; h = break_at(b->st, h)->next) {
		struct breaker_row k = break_at(b->st, h)->pub;

		row_break(b, &k);
	}
}

int state_write_form(const struct state *st, bool v5, state_sink *sink, void *arg, struct pawl_error *err)
{
	uint8_t buf[BYTES_OUT];
	struct bytes b = { .st = st, .v5 = v5, .buf = buf, .size = sizeof(buf), .row = "", .err = err, .sink = sink, .arg = arg };

	write_head(&b);
	write_money(&b);
	write_agents(&b);
	write_ledgers(&b, st->list.shared);
	write_sessions(&b);
	write_roots(&b);
	write_breakers(&b);
	bytes_flush(&b);
	return b.r;
}

int state_write(const struct state *st, state_sink *sink, void *arg, struct pawl_error *err)
{
	return state_write_form(st, false, sink, arg, err);
}
