/* policy/state_row.c - the fields of every row of a state, in their order and with their bounds, once for both directions
 * (state_bytes.h). Bounds that need other rows are the reader's business. A field that is added to a row is added here, and the
 * version in BYTES_HEAD moves. */
#include "policy/state_bytes.h"

/* Words are written as their numbers: they may be added to at their end, never moved. */
_Static_assert(VERDICT_DENY == 3 && OUTCOME_EXPIRED == 5 && CALL_CODE == 4, "answers, outcomes and kinds of calls are numbers in the bytes");
_Static_assert(SCOPE_GLOBAL == 3 && SCOPE_COUNT == 4 && UNIT_TIME == 3 && UNIT_COUNT == 4, "scopes and units are two bits each");
_Static_assert(STICK_AGENT == 3 && CARD_CLOSED == 6 && BREAKER_HALF_OPEN == 2 && SESSION_ENDED_ABORT == 3, "modes are numbers in the bytes");
_Static_assert(TREE_ENDED == 2 && TREE_MODE_COUNT == 3 && WHY_STALE == 15 && WATCHED_HOLD_COUNT == 9, "so are what became of a tree and why");
_Static_assert(REASON_OK == 0 && REASON_BUDGET == 5 && REASON_WATCH_REQUIRED == 32, "reasons are numbers in the bytes");

void row_head(struct bytes *b, uint64_t *next_seq, int64_t *now, bool *shadow, uint64_t *sessions, uint64_t *calls)
{
	*next_seq = bytes_n(b, *next_seq, SEQ_MAX + 1);
	*now = bytes_amount(b, *now);
	*shadow = bytes_n(b, *shadow, 1);
	*sessions = bytes_n(b, *sessions, UINT32_MAX);
	*calls = bytes_n(b, *calls, UINT32_MAX);
}

void row_life(struct bytes *b, int64_t life[static LIFE_UNITS])
{
	for (int u = 0; u < LIFE_UNITS; u++)
		life[u] = bytes_amount(b, life[u]);
}

void row_budget(struct bytes *b, struct budget_memo *m)
{
	uint64_t kind = (uint64_t)m->unit | (uint64_t)m->scope << 2 | (uint64_t)m->per_tool << 4 | (uint64_t)m->windowed << 5;

	m->id = bytes_text(b, m->id, true);
	kind = bytes_n(b, kind, 63);
	m->unit = kind & 3;
	m->scope = kind >> 2 & 3;
	m->per_tool = kind >> 4 & 1;
	m->windowed = kind >> 5 & 1;
	m->limit = bytes_amount(b, m->limit);
	bytes_raw(b, m->like, sizeof(m->like));
}

/* How many of its sessions are open is counted again. */
void row_agent(struct bytes *b, struct agent_row *a)
{
	a->name = bytes_str(b, a->name, true);
	a->pub.fresh = bytes_amount(b, a->pub.fresh);
	a->pub.fresh_end = bytes_time(b, a->pub.fresh_end);
	a->pub.hold_until = bytes_time(b, a->pub.hold_until);
	row_life(b, a->life);
}

/* What shadow mode remembers is there while it is in force, and only then. */
static bool of_shadow(struct bytes *b, bool shadow)
{
	shadow = bytes_n(b, shadow, 1);
	if (shadow && !b->st->shadow)
		bytes_fault(b, "shadow mode made it, and is not in force");
	return shadow;
}

void row_stick(struct bytes *b, struct stick_row *k)
{
	k->seq = bytes_n(b, k->seq, SEQ_MAX);
	k->how = (uint8_t)bytes_n(b, k->how, STICK_COUNT - 1);
	k->shadow = of_shadow(b, k->shadow);
	k->at = (uint8_t)bytes_n(b, k->at, PAWL_MAX_STICKS - 1);
	k->tool = bytes_text(b, k->tool, true);
	k->rule = bytes_text(b, k->rule, true);
}

static uint64_t scope_and_unit(struct bytes *b, uint8_t *scope, uint8_t *unit)
{
	uint64_t kind = bytes_n(b, (uint64_t)*scope | (uint64_t)*unit << 2, 15);

	*scope = kind & 3;
	*unit = (uint8_t)(kind >> 2);
	return kind;
}

void row_ledger(struct bytes *b, struct ledger_row *l)
{
	l->budget = bytes_text(b, l->budget, true);
	(void)scope_and_unit(b, &l->scope, &l->unit);
	l->owner = bytes_text(b, l->owner, false);
	l->tool = bytes_text(b, l->tool, false);
	l->sum.spent = bytes_amount(b, l->sum.spent);
	l->sum.reserved = bytes_amount(b, l->sum.reserved);
	l->sum.granted = bytes_amount(b, l->sum.granted);
	l->sum.window_end = bytes_time(b, l->sum.window_end);
}

static void session_limits(struct bytes *b, struct session_state *p)
{
	uint64_t which = 0;

	for (int u = 0; u < UNIT_COUNT; u++)
		which |= (uint64_t)p->has_limit[u] << u;
	which = bytes_n(b, which, (1u << UNIT_COUNT) - 1);
	for (int u = 0; u < UNIT_COUNT; u++) {
		p->has_limit[u] = which >> u & 1;
		if (p->has_limit[u])
			p->limit[u] = bytes_amount(b, p->limit[u]);
	}
}

/* Its processes: nothing is said of a session that was never watched. */
void row_tree(struct bytes *b, struct tree_state *t)
{
	uint64_t bits = bytes_n(b, (uint64_t)t->mode | (uint64_t)t->run << 2, 7);

	t->mode = (enum tree_mode)(bits & 3);
	t->run = bits >> 2;
	if (t->mode == TREE_NONE || t->mode == TREE_MODE_COUNT) {
		if (bits)
			bytes_fault(b, "processes that nobody watches, or in a mode that there is not");
		return;
	}
	t->held = (uint32_t)bytes_n(b, t->held, (UINT64_C(1) << WATCHED_HOLD_COUNT) - 1);
	t->execs = bytes_amount(b, t->execs);
	t->kills = bytes_amount(b, t->kills);
	t->lost = bytes_amount(b, t->lost);
	t->why = (enum watch_why)bytes_n(b, t->why, WHY_COUNT - 1);
	t->measured = bytes_amount(b, t->measured);
	t->limit = bytes_amount(b, t->limit);
}

/* The root is the parent's, or itself. Sums over its calls and cards are counted again. */
void row_session(struct bytes *b, struct session_row *s, uint64_t *last)
{
	struct session_state *p = &s->pub;
	uint64_t up;

	p->id = *last + bytes_n(b, p->id - *last, SEQ_MAX - *last);
	if (p->id == *last)
		bytes_fault(b, "it is not younger than the one before it");
	up = bytes_n(b, p->parent ? p->id - p->parent : 0, p->id ? p->id - 1 : 0);
	p->parent = up ? p->id - up : 0;
	p->agent = bytes_str(b, p->agent, true);
	p->root_dir = bytes_str(b, p->root_dir, false);
	p->labels_text = bytes_str(b, p->labels_text, false);
	bytes_raw(b, p->token_hash, sizeof(p->token_hash));
	p->opened_ns = bytes_time(b, p->opened_ns);
	p->lease_ns = bytes_amount(b, p->lease_ns);
	p->end = (enum session_end)bytes_n(b, p->end, SESSION_ENDED_ABORT);
	if (p->end != SESSION_LIVE)
		p->ended_ns = bytes_time(b, p->ended_ns);
	session_limits(b, p);
	row_life(b, s->life);
	*last = p->id;
}

static void card_asks(struct bytes *b, struct card_state *p)
{
	p->n_asks = bytes_n(b, p->n_asks, PAWL_MAX_ASKS);
	for (size_t i = 0; i < p->n_asks; i++) {
		p->asks[i].code = (enum reason_code)bytes_n(b, p->asks[i].code, REASON_COUNT - 1);
		p->asks[i].rule = bytes_str(b, p->asks[i].rule, false);
		p->asks[i].refers = bytes_n(b, p->asks[i].refers, SEQ_MAX);
	}
}

void row_card(struct bytes *b, struct card_row *c, uint64_t *last)
{
	struct card_state *p = &c->pub;
	uint64_t mode, later;

	p->id = bytes_below(b, p->id, last);
	mode = bytes_n(b, (uint64_t)p->mode | (uint64_t)p->claim_only << 3, 15);
	p->mode = (enum card_mode)(mode & 7);
	p->claim_only = mode >> 3;
	p->opened_ns = bytes_time(b, p->opened_ns);
	p->until = bytes_time(b, p->until);
	p->tool = bytes_str(b, p->tool, true);
	bytes_raw(b, p->token, sizeof(p->token));
	card_asks(b, p);
	p->money = bytes_amount(b, p->money);
	p->tokens = bytes_amount(b, p->tokens);
	if (p->mode == CARD_SPENT || p->mode == CARD_CLOSED) {
		later = bytes_n(b, p->spent_by ? p->spent_by - p->id : 0, SEQ_MAX - p->id);
		p->spent_by = later ? p->id + later : 0;
	}
	p->operator = bytes_str(b, p->operator, false);
	p->reason = bytes_str(b, p->reason, false);
}

void row_guard(struct bytes *b, struct guard_row *g)
{
	g->tool = bytes_str(b, g->tool, true);
	g->pub.has_money = bytes_n(b, g->pub.has_money, 1);
	if (g->pub.has_money)
		g->pub.money = bytes_amount(b, g->pub.money);
	g->pub.repeat = bytes_amount(b, g->pub.repeat);
}

/* What most calls have comes first, so that it is one byte. That an approval was used up is found again by its card. The
 * last one says of a call that is reported that its row lives on, and of any other that it is a probe, for which that will be so. */
static void call_bits(struct bytes *b, struct call_row *c, struct call_more *m)
{
	uint64_t v = c->answer | (uint64_t)c->outcome << 2 | (uint64_t)c->keyed << 5 | (uint64_t)c->reported << 6 |
		     (uint64_t)c->polling << 7 | (uint64_t)c->claim << 8 | (uint64_t)c->kind << 9 | (uint64_t)c->priced << 12 | (uint64_t)c->refund << 13 |
		     (uint64_t)(c->reported ? m->lives : m->live.probe) << 14;

	v = bytes_n(b, v, 0x7fff);
	c->answer = v & 3;
	c->outcome = v >> 2 & 7;
	c->keyed = v >> 5 & 1;
	c->reported = v >> 6 & 1;
	c->polling = v >> 7 & 1;
	c->claim = v >> 8 & 1;
	c->kind = v >> 9 & 7;
	c->priced = v >> 12 & 1;
	c->refund = v >> 13 & 1;
	m->lives = v >> 14 || !c->reported;
	m->live.probe = v >> 14 && !c->reported;
}

static void call_ran(struct bytes *b, struct call_row *c)
{
	uint64_t later;

	c->same = bytes_token(b, c->same);
	c->count = bytes_n(b, c->count, COUNT_MAX) & COUNT_MAX;
	later = bytes_n(b, c->settled ? c->settled - c->seq : 0, SEQ_MAX - c->seq);
	c->settled = (later ? c->seq + later : 0) & SEQ_MAX;
}

/* One that may be absent, which is 0. */
static uint32_t maybe_token(struct bytes *b, bool there, uint32_t v)
{
	if (!there)
		return 0;
	v = bytes_token4(b, v);
	if (!v)
		bytes_fault(b, "a token that is there is never 0");
	return v;
}

/* Its result (1), its error (2) or both. */
static void call_told_row(struct bytes *b, struct call_row *c, struct live_row *l)
{
	uint64_t which = c->told_error ? 2 : (uint64_t)(c->told != 0) | (uint64_t)(l->error != 0) << 1;

	which = bytes_n(b, which, 3);
	c->told_error = which == 2;
	c->told = maybe_token(b, which != 0, c->told);
	l->error = maybe_token(b, which == 3, l->error);
	c->told_same = bytes_token4(b, c->told_same);
}

/* Whoever may still ask for the call is known by the client's id. */
static void call_lives(struct bytes *b, const struct call_row *c, struct call_more *m)
{
	if (c->answer == VERDICT_ALLOW)
		m->live.lease_until = bytes_time(b, m->live.lease_until);
	if (c->reported)
		return;
	m->live.decided_ns = bytes_time(b, m->live.decided_ns);
	if (!c->settled)
		m->live.client = bytes_text(b, m->live.client, true);
	if (c->answer == VERDICT_REVIEW)
		m->card = c->seq - bytes_n(b, c->seq - m->card, c->seq);
}

void row_call(struct bytes *b, struct call_row *c, struct call_more *m, uint64_t *last)
{
	c->seq = bytes_below(b, c->seq, last) & SEQ_MAX;
	call_bits(b, c, m);
	c->tool = bytes_text(b, c->tool, true);
	c->call_hash = bytes_token4(b, c->call_hash);
	c->key = bytes_token(b, c->key);
	if (c->answer == VERDICT_ALLOW)
		call_ran(b, c);
	if (c->reported)
		call_told_row(b, c, &m->live);
	if (m->lives)
		call_lives(b, c, m);
}

/* What the life totals count for a call that nobody reported yet: money and tokens; and its fixed cost. */
void row_hold_life(struct bytes *b, struct hold_row *o)
{
	o->amount = bytes_amount(b, o->amount);
	o->window_end = bytes_amount(b, o->window_end);
	o->price = bytes_amount(b, o->price);
}

void row_hold(struct bytes *b, struct hold_row *o, struct hold_key *key)
{
	key->budget = bytes_text(b, key->budget, true);
	(void)scope_and_unit(b, &key->scope, &key->unit);
	key->up = bytes_n(b, key->up, PAWL_MAX_DEPTH_TREE);
	key->owner = bytes_text(b, key->owner, false);
	key->tool = bytes_text(b, key->tool, false);
	o->amount = bytes_amount(b, o->amount);
	o->window_end = bytes_time(b, o->window_end);
	key->behind = (uint16_t)bytes_n(b, key->behind, UINT16_MAX);
}

void row_exec(struct bytes *b, uint64_t *seq, uint32_t *repeat, uint64_t *last)
{
	*seq = bytes_below(b, *seq, last);
	*repeat = maybe_token(b, bytes_n(b, *repeat != 0, 1), *repeat);
}

void row_trip(struct bytes *b, struct trip_row *t)
{
	t->token = bytes_token(b, t->token);
	t->shadow = of_shadow(b, t->shadow);
}

static void break_times(struct bytes *b, int64_t t[static PAWL_MAX_STREAK], uint32_t *n)
{
	*n = (uint32_t)bytes_n(b, *n, PAWL_MAX_STREAK);
	for (uint32_t i = 0; i < *n; i++)
		t[i] = bytes_time(b, t[i]);
}

void row_break(struct bytes *b, struct breaker_row *k)
{
	uint64_t mode;

	k->would = of_shadow(b, k->would);
	k->id = bytes_str(b, k->id, true);
	k->owner = bytes_str(b, k->owner, false);
	k->tool = bytes_str(b, k->tool, false);
	k->scope = (enum scope)bytes_n(b, k->scope, SCOPE_COUNT);
	if (k->scope == SCOPE_SESSION)
		k->session = bytes_n(b, k->session, SEQ_MAX);
	mode = bytes_n(b, (uint64_t)k->mode | (uint64_t)k->sticky << 2, 7);
	k->mode = (enum breaker_mode)(mode & 3);
	k->sticky = mode >> 2;
	k->generation = bytes_amount(b, k->generation);
	k->until = bytes_time(b, k->until);
	if (k->mode == BREAKER_HALF_OPEN)
		k->probe = bytes_n(b, k->probe, SEQ_MAX);
	break_times(b, k->fails, &k->n_fails);
	break_times(b, k->denies, &k->n_denies);
	if (!b->v5)
		break_times(b, k->breaches, &k->n_breaches);
}
