/* policy/state_read_session.c - one session of a state's bytes, with its ledgers, cards, guards and denials. See state_read.c. */
#include "policy/state_bytes.h"

/* ---- the tree ---- */

/* Below a session that is over nothing lives, and a tree that has lingered is gone. */
static const char *session_fault(const struct state *st, const struct session_row *s)
{
	const struct session_row *up = s->parent_row ? session_at(st, s->parent_row) : NULL;
	const struct session_state *p = &s->pub;
	int depth = 1;

	if (p->id >= st->next_seq || p->opened_ns > st->now)
		return "it was opened later than now";
	if (p->end != SESSION_LIVE && (p->ended_ns < p->opened_ns || p->ended_ns > st->now))
		return "it ended before it was opened, or later than now";
	if (!up && p->end != SESSION_LIVE && st->now - p->ended_ns > PAWL_SESSION_LINGER_NS)
		return "it should be forgotten";
	if (up && up->pub.end != SESSION_LIVE && (p->end == SESSION_LIVE || p->ended_ns > up->pub.ended_ns))
		return "it outlives its parent";
	for (; up; up = up->parent_row ? session_at(st, up->parent_row) : NULL)
		depth++;
	return depth > PAWL_MAX_DEPTH_TREE ? "too deep in its tree" : NULL;
}

static uint32_t open_row(struct bytes *b, uint64_t left, uint64_t *last)
{
	struct state *st = b->to;
	uint32_t h = read_row(b, &st->sessions), agent;
	struct session_row *s = h ? session_at(st, h) : NULL;
	const char *fault;

	if (!s || !read_place(b, &st->by_session, left, session_row_hash))
		return 0;
	row_session(b, s, last);
	agent = b->r == 0 ? find_agent(st, s->pub.agent) : 0;
	if (!agent || (s->pub.parent && !find_session(st, s->pub.parent)))
		bytes_fault(b, "an agent or a parent that is not there");
	if (b->r < 0)
		return 0;
	tree_link(st, h, s->pub.parent);
	s->pub.root = s->root_row == h ? s->pub.id : session_at(st, s->root_row)->pub.id;
	fault = session_fault(st, s);
	if (fault)
		bytes_fault(b, fault);
	agent_at(st, agent)->pub.open += s->pub.end == SESSION_LIVE;
	s->prev = st->list.sessions_last;
	APPEND(st, session, st->list.sessions_first, st->list.sessions_last, next, h);
	index_put(&st->by_session, session_row_hash(st, h), h);
	return h;
}

/* A session without processes has no row for them. */
static void read_tree(struct bytes *b, uint32_t session)
{
	struct tree_state tree = { .mode = TREE_NONE };
	uint32_t h;

	row_tree(b, &tree);
	h = tree.mode == TREE_NONE ? 0 : read_row(b, &b->to->trees);
	if (!h)
		return;
	tree_at(b->st, h)->pub = tree;
	session_at(b->st, session)->tree = h;
}

/* ---- cards ---- */

static bool card_fits(const struct bytes *b, const struct session_row *s, const struct card_row *c)
{
	const struct card_state *p = &c->pub;

	if (p->id <= s->pub.id || p->mode >= CARD_MODE_COUNT || p->opened_ns > b->st->now || p->until < p->opened_ns)
		return false;
	if (p->mode == CARD_CLOSED && p->spent_by >= b->st->next_seq)
		return false;
	return !card_waits(c) || s->pub.end == SESSION_LIVE;
}

static void card_link(struct bytes *b, uint32_t session, uint32_t h)
{
	struct card_row *c = card_at(b->st, h);
	struct session_row *s = session_at(b->st, session);

	if (!find_card(b->st, s->pub.id, c->pub.token)) /* else that one is newer */
		index_put(&b->to->by_card, card_row_hash(b->st, h), h);
	if (!card_waits(c))
		return;
	if (!heap_reserve(b->to, 1)) {
		bytes_no_memory(b);
		return;
	}
	heap_add(b->to, (struct heap_node){ c->pub.until, c->pub.id, h, DEADLINE_CARD });
	s->pub.pending_cards += c->pub.mode == CARD_PENDING;
}

static void read_cards(struct bytes *b, uint32_t session)
{
	struct session_row *s = session_at(b->st, session);
	uint64_t n = bytes_get(b, UINT32_MAX), last = b->st->next_seq;
	uint32_t *list = &s->cards;

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->cards);
		struct card_row *c = h ? card_at(b->st, h) : NULL;

		bytes_at(b, "card", i + 1);
		if (!c || !read_place(b, &b->to->by_card, n - i, card_row_hash))
			return;
		row_card(b, c, &last);
		c->session_row = session;
		c->pub.session = s->pub.id;
		if (b->r == 0 && !card_fits(b, s, c))
			bytes_fault(b, "it cannot be in this session");
		if (b->r < 0)
			return;
		card_link(b, session, h);
		*list = h;
		list = &c->next;
	}
}

/* Each was opened by a review of this session, and spent by a call of it. */
static bool card_calls_fit(const struct state *st, uint32_t session, uint32_t card)
{
	const struct card_state *p = &card_at(st, card)->pub;
	uint32_t opener = find_seq(st, p->id), spender = p->mode == CARD_SPENT ? find_seq(st, p->spent_by) : 0;
	struct call_row *c = opener ? call_at(st, opener) : NULL;

	if (!c || c->session_row != session || c->answer != VERDICT_REVIEW || call_live(st, c)->card != card)
		return false;
	if (p->mode != CARD_SPENT)
		return true;
	c = spender ? call_at(st, spender) : NULL;
	if (!c || c->session_row != session || c->answer != VERDICT_ALLOW || c->spent)
		return false;
	c->spent = true;
	if (c->live)
		call_live(st, c)->card = card;
	return true;
}

static void check_cards(struct bytes *b, uint32_t session)
{
	uint64_t i = 0;

	for (uint32_t h = session_at(b->st, session)->cards; h && b->r == 0; h = card_at(b->st, h)->next) {
		bytes_at(b, "card", ++i);
		if (!card_calls_fit(b->st, session, h))
			bytes_fault(b, "no call of the session opened it, or spent it");
	}
}

/* ---- the rest ---- */

static void read_guards(struct bytes *b, uint32_t session)
{
	struct session_row *s = session_at(b->st, session);
	uint64_t n = bytes_get(b, UINT32_MAX);
	uint32_t *list = &s->guards;

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->guards);
		struct guard_row *g = h ? guard_at(b->st, h) : NULL;

		bytes_at(b, "guard", i + 1);
		if (!g || !read_place(b, &b->to->by_guard, n - i, guard_row_hash))
			return;
		g->session_row = session;
		row_guard(b, g);
		if (b->r == 0 && ((!g->pub.has_money && !g->pub.repeat) || find_guard(b->st, s->pub.id, g->tool)))
			bytes_fault(b, "it limits nothing, or was there before");
		if (b->r < 0)
			return;
		index_put(&b->to->by_guard, guard_row_hash(b->st, h), h);
		*list = h;
		list = &g->next;
	}
}

static void read_trips(struct bytes *b, uint32_t root)
{
	uint64_t n = bytes_get(b, UINT32_MAX);
	uint32_t *list = &session_at(b->st, root)->trips;

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->trips);
		struct trip_row *t = h ? trip_at(b->st, h) : NULL;

		bytes_at(b, "tripped token", i + 1);
		if (!t || !read_place(b, &b->to->by_trip, n - i, trip_row_hash))
			return;
		t->root_row = root;
		row_trip(b, t);
		if (b->r == 0 && find_trip(b->st, root, t->token))
			bytes_fault(b, "it was there before");
		if (b->r < 0)
			return;
		index_put(&b->to->by_trip, trip_row_hash(b->st, h), h);
		*list = h;
		list = &t->next;
	}
}

void read_session(struct bytes *b, uint64_t left, uint64_t *last, uint64_t calls)
{
	struct session_row *s;
	uint32_t h;

	bytes_at(b, "session after", *last);
	h = open_row(b, left, last);
	if (!h)
		return;
	s = session_at(b->st, h);
	read_tree(b, h);
	read_ledgers(b, h, &s->ledgers);
	read_cards(b, h);
	read_guards(b, h);
	read_sticks(b, h, &s->sticks, false);
	if (s->root_row == h)
		read_trips(b, h);
	read_calls(b, h, calls);
	check_cards(b, h);
}
