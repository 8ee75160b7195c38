/* policy/state_read_call.c - the calls of one session of a state's bytes, and what is held for them. See state_read.c.
 * Most of a large state is these rows: they are read the newest first, into rows that lie one after the other, and then linked from
 * the oldest on as call_add() and the rest would have done it. */
#include "policy/state_bytes.h"

/* ---- what a call holds ---- */

static uint32_t held_ledger(const struct bytes *b, const struct call_row *c, const struct hold_key *k)
{
	struct ledger_key key = { .budget = text_str(b->st, k->budget), .owner = text_str(b->st, k->owner),
				  .tool = text_str(b->st, k->tool), .scope = (enum scope)k->scope, .unit = (enum unit)k->unit };
	uint32_t s = k->up ? c->session_row : 0;

	for (uint64_t up = k->up; s && up > 1; up--)
		s = session_at(b->st, s)->parent_row;
	if ((k->up != 0) != (s != 0))
		return 0;
	key.session = s ? session_at(b->st, s)->pub.id : 0;
	return find_ledger(b->st, &key);
}

static void read_hold(struct bytes *b, const struct call_row *c, struct hold_row *o)
{
	struct hold_key key = { 0 };

	row_hold(b, o, &key);
	o->ledger = b->r == 0 ? held_ledger(b, c, &key) : 0;
	if (!o->ledger)
		bytes_fault(b, "held of a ledger that is not there");
	else
		o->epoch = (uint16_t)(ledger_at(b->st, o->ledger)->epoch - key.behind);
	text_let(b->to, key.budget); /* the ledger has them */
	text_let(b->to, key.owner);
	text_let(b->to, key.tool);
}

static void read_holds(struct bytes *b, const struct call_row *c)
{
	uint32_t *list = &call_live(b->st, c)->holds;
	uint64_t n;

	if (bytes_get(b, 1)) {
		uint32_t h = read_row(b, &b->to->holds);

		if (!h)
			return;
		row_hold_life(b, hold_at(b->st, h));
		if (!hold_at(b->st, h)->amount && !hold_at(b->st, h)->window_end)
			bytes_fault(b, "nothing is held");
		*list = h;
		list = &hold_at(b->st, h)->next;
	}
	n = bytes_get(b, PAWL_MAX_LEDGERS);
	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->holds);

		if (!h)
			return;
		read_hold(b, c, hold_at(b->st, h));
		*list = h;
		list = &hold_at(b->st, h)->next;
	}
}

/* ---- its fields ---- */

/* A probe is an execution. What more is known of a call is kept where state_apply() keeps it. */
static const char *live_fault(const struct bytes *b, const struct call_row *c, const struct call_more *m)
{
	if (m->live.probe && c->answer != VERDICT_ALLOW)
		return "it probes, and never ran";
	if (c->reported)
		return m->live.error && !m->lives ? "less is kept of it than may be asked for" : NULL;
	if (m->live.decided_ns > b->st->now)
		return "it was decided later than now";
	if (!c->settled && text_str(b->st, m->live.client).n != sizeof(((struct call_state *)0)->client))
		return "its client's id has another length";
	return NULL;
}

static const char *ran_fault(const struct bytes *b, const struct session_row *s, const struct call_row *c)
{
	bool told = c->outcome > OUTCOME_NONE && c->outcome < OUTCOME_EXPIRED;

	if (!c->count || c->settled >= b->st->next_seq)
		return "it ended later than now, or is not even its own first execution";
	if (!c->settled && s->pub.end != SESSION_LIVE)
		return "it is open, and its session is over";
	if (c->reported ? !c->settled || !told : c->outcome != (c->settled ? OUTCOME_EXPIRED : OUTCOME_NONE))
		return "an outcome that it cannot have";
	return NULL;
}

static const char *call_fault(const struct bytes *b, const struct session_row *s, const struct call_row *c, const struct call_more *m)
{
	const char *fault = live_fault(b, c, m);

	if (c->seq <= s->pub.id)
		return "it is older than its session";
	if (c->answer == VERDICT_UNSET || c->kind >= CALL_KIND_COUNT)
		return "it has no answer, or is of no known kind";
	if (fault)
		return fault;
	if (c->answer == VERDICT_ALLOW)
		return ran_fault(b, s, c);
	return c->reported || c->outcome != OUTCOME_NONE ? "it never ran, and has an outcome" : NULL;
}

/* Cards of a session lie one after the other, the newest first. */
static uint32_t card_with(const struct state *st, const struct session_row *s, uint64_t id)
{
	uint32_t low = s->cards ? s->cards : 1, high = s->cards ? st->cards.used + 1 : 1;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (card_at(st, mid)->pub.id > id)
			low = mid + 1;
		else
			high = mid;
	}
	return s->cards && low <= st->cards.used && card_at(st, low)->pub.id == id ? low : 0;
}

static void read_live(struct bytes *b, uint32_t call, const struct call_more *m)
{
	uint32_t h = read_row(b, &b->to->lives);

	if (!h)
		return;
	*live_at(b->st, h) = m->live;
	live_at(b->st, h)->call = call;
	call_at(b->st, call)->live = h;
}

static void read_call(struct bytes *b, uint32_t session, uint64_t *last)
{
	const struct session_row *s = session_at(b->st, session);
	uint32_t h = read_row(b, &b->to->calls);
	struct call_row *c = h ? call_at(b->st, h) : NULL;
	struct call_more m = { .lives = false };
	const char *fault;

	if (!c)
		return;
	c->session_row = session;
	row_call(b, c, &m, last);
	fault = b->r == 0 ? call_fault(b, s, c, &m) : NULL;
	if (fault)
		bytes_fault(b, fault);
	if (m.lives)
		read_live(b, h, &m);
	if (b->r == 0 && c->answer == VERDICT_REVIEW) {
		call_live(b->st, c)->card = card_with(b->st, s, m.card);
		if (!call_live(b->st, c)->card)
			bytes_fault(b, "its card is not there");
	}
	if (b->r == 0 && c->answer == VERDICT_ALLOW && !c->reported)
		read_holds(b, c);
}

/* ---- what leads from row to row ---- */

/* find_call_chain() and find_same(), among the rows from `from` on: no others can be meant, and most of the time goes into looking at
 * rows that lie elsewhere. */
static uint32_t older_of_call(const struct state *st, uint32_t of, uint32_t from)
{
	const struct call_row *c = call_at(st, of);
	uint32_t h;

	for (uint32_t at = index_start(&st->by_call, call_row_hash(st, of)); (h = index_next(&st->by_call, &at)) != 0;)
		if (h >= from && call_at(st, h)->call_hash == c->call_hash && call_at(st, h)->session_row == c->session_row)
			return h;
	return 0;
}

static uint32_t same_in_tree(const struct state *st, uint32_t of, uint32_t root, uint32_t from)
{
	uint32_t h;

	for (uint32_t at = index_start(&st->by_same, same_row_hash(st, of)); (h = index_next(&st->by_same, &at)) != 0;)
		if (h >= from && call_at(st, h)->same == call_at(st, of)->same && session_at(st, call_at(st, h)->session_row)->root_row == root)
			return h;
	return 0;
}

/* Sessions of a tree interleave: the newest execution of a token may be in one that was read before. */
static void link_execution(struct state *st, uint32_t h)
{
	struct call_row *c = call_at(st, h);
	struct session_row *s = session_at(st, c->session_row), *root = session_at(st, s->root_row);
	uint32_t other = same_in_tree(st, h, s->root_row, root->calls);

	s->pub.executions++;
	if (root->ring_n < PAWL_MAX_WINDOW)
		root->ring_n++;
	if (!other)
		index_put(&st->by_same, same_row_hash(st, h), h);
	else if (call_at(st, other)->seq < c->seq)
		index_swap(&st->by_same, same_row_hash(st, h), other, h);
}

static void link_call(struct bytes *b, uint32_t h, uint64_t calls)
{
	struct state *st = b->to;
	struct call_row *c = call_at(st, h);

	if (!read_place(b, &st->by_seq, calls - st->by_seq.n, seq_row_hash) || !read_place(b, &st->by_call, calls - st->by_call.n, call_row_hash) ||
	    !read_place(b, &st->by_same, calls - st->by_same.n, same_row_hash))
		return;
	if (find_seq(st, c->seq)) {
		bytes_fault(b, "another session has a call of this number");
		return;
	}
	index_put(&st->by_seq, seq_row_hash(st, h), h);
	c->chain = older_of_call(st, h, session_at(st, c->session_row)->calls);
	if (c->chain)
		index_swap(&st->by_call, call_row_hash(st, h), c->chain, h);
	else
		index_put(&st->by_call, call_row_hash(st, h), h);
	if (c->answer != VERDICT_ALLOW)
		return;
	link_execution(st, h);
	if (c->settled)
		return;
	if (heap_reserve(st, 1))
		call_open(st, h);
	else
		bytes_no_memory(b);
}

/* Where the next few rows will be put, fetched all at once: waiting for memory one place after the other was half of the time. */
#define AHEAD 32u

static void fetch(const struct index *ix, uint64_t hash)
{
	if (ix->cap)
		__builtin_prefetch(&ix->slot[index_start(ix, hash)]);
}

static void look_ahead(const struct state *st, uint32_t h, uint32_t before)
{
	uint32_t end = h - before > AHEAD ? h - AHEAD : before;

	for (uint32_t i = h; i > end; i--) {
		fetch(&st->by_seq, seq_row_hash(st, i));
		fetch(&st->by_call, call_row_hash(st, i));
		fetch(&st->by_same, same_row_hash(st, i));
	}
	for (uint32_t i = h; i > end && st->by_seq.cap; i--) {
		uint32_t there = st->by_seq.slot[index_start(&st->by_seq, seq_row_hash(st, i))];

		if (there)
			__builtin_prefetch(call_at(st, there));
	}
}

void read_calls(struct bytes *b, uint32_t session, uint64_t calls)
{
	struct session_row *s = session_at(b->st, session);
	uint64_t n = bytes_get(b, UINT32_MAX), last = b->st->next_seq;
	uint32_t before = b->st->calls.used;

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		bytes_at(b, "call", i + 1);
		if (b->st->calls.used == calls)
			bytes_fault(b, "more calls than there should be");
		read_call(b, session, &last);
	}
	if (b->r < 0 || n == 0)
		return;
	s->pub.decisions = (uint32_t)n;
	s->calls = before + 1;
	for (uint32_t h = b->st->calls.used; h > before && b->r == 0; h--) {
		bytes_at(b, "call", h - before);
		if ((b->st->calls.used - h) % AHEAD == 0)
			look_ahead(b->st, h, before);
		call_at(b->st, h)->next = h < before + n ? h + 1 : 0;
		link_call(b, h, calls);
	}
}
