/* policy/state_ledger.c - ledgers, their windows, and what open calls hold of them.
 *
 * A ledger has one window at a time, known by where it ends. A draw or a charge that names a later end, or any after its
 * end, rolls it: what was spent, reserved and granted is gone. What is held stays the call's, but of the window that it was
 * made in: reported later, it gives nothing back to the new window and only what it cost beyond its hold is added there.
 * A grant where no window is open counts in the one that the next draw opens: a person may add to a limit nobody has
 * touched yet. */
#include "policy/state_int.h"

struct ledger_key ledger_key_of(const struct state *st, const struct ledger_row *l)
{
	return (struct ledger_key){ .budget = text_str(st, l->budget),
				    .scope = (enum scope)l->scope,
				    .unit = (enum unit)l->unit,
				    .session = l->session_row ? session_at(st, l->session_row)->pub.id : 0,
				    .owner = text_str(st, l->owner),
				    .tool = text_str(st, l->tool) };
}

static uint64_t ledger_hash(const struct state *st, const struct ledger_key *key)
{
	uint64_t h = short_hash(key->budget) + 3 * short_hash(key->owner) +
		     5 * mix64(key->session * 16 + (uint64_t)key->scope * 4 + (uint64_t)key->unit);

	return mix64(key->tool.n ? h + text_hash(st, key->tool) : h);
}

uint64_t ledger_row_hash(const struct state *st, uint32_t h)
{
	struct ledger_key key = ledger_key_of(st, ledger_at(st, h));

	return ledger_hash(st, &key);
}

bool ledger_is(const struct state *st, uint32_t h, const struct ledger_key *key)
{
	const struct ledger_row *l = ledger_at(st, h);

	return l->scope == (unsigned)key->scope && l->unit == (unsigned)key->unit &&
	       (l->session_row ? session_at(st, l->session_row)->pub.id : 0) == key->session &&
	       str_eq(text_str(st, l->budget), key->budget) && str_eq(text_str(st, l->owner), key->owner) &&
	       str_eq(text_str(st, l->tool), key->tool);
}

bool ledger_is_same(const struct ledger_key *a, const struct ledger_key *b)
{
	return a->scope == b->scope && a->unit == b->unit && a->session == b->session && str_eq(a->budget, b->budget) &&
	       str_eq(a->owner, b->owner) && str_eq(a->tool, b->tool);
}

uint32_t find_ledger(const struct state *st, const struct ledger_key *key)
{
	uint32_t h;

	if (!st->by_ledger.n)
		return 0;
	for (uint32_t at = index_start(&st->by_ledger, ledger_hash(st, key)); (h = index_next(&st->by_ledger, &at)) != 0;)
		if (ledger_is(st, h, key))
			return h;
	return 0;
}

/* ---- questions ---- */

static bool is_over(const struct ledger_state *l, int64_t now)
{
	return l->window_end != 0 && l->window_end <= now;
}

struct ledger_state state_ledger(const struct state *st, const struct ledger_key *key, int64_t now)
{
	uint32_t h = find_ledger(st, key);

	return h && !is_over(&ledger_at(st, h)->sum, now) ? ledger_at(st, h)->sum : (struct ledger_state){ 0 };
}

bool state_ledger_next(const struct state *st, uint32_t *at, struct ledger_key *ret_key, struct ledger_state *ret_sum)
{
	uint32_t h = 0;

	while (!h && *at < st->by_ledger.cap)
		h = st->by_ledger.slot[(*at)++];
	if (!h)
		return false;
	*ret_key = ledger_key_of(st, ledger_at(st, h));
	*ret_sum = ledger_at(st, h)->sum;
	return true;
}

bool state_ledger_fits(const struct state *st, const struct ledger_key *key)
{
	size_t n = 0;

	if (find_ledger(st, key))
		return true;
	for (uint32_t h = st->list.shared; h && n < PAWL_MAX_NAMES; h = ledger_at(st, h)->next) {
		struct ledger_key other = ledger_key_of(st, ledger_at(st, h));

		other.tool = key->tool;
		n += ledger_at(st, h)->tool && ledger_is_same(&other, key);
	}
	return n < PAWL_MAX_NAMES;
}

uint32_t ledger_holds(const struct state *st, const struct call_row *c)
{
	uint32_t h = call_live(st, c)->holds;

	return h && !hold_at(st, h)->ledger ? hold_at(st, h)->next : h;
}

size_t state_holds(const struct state *st, uint64_t seq, struct draw *out, size_t max)
{
	uint32_t c = find_seq(st, seq);
	size_t n = 0;

	for (uint32_t h = c && !call_at(st, c)->reported ? ledger_holds(st, call_at(st, c)) : 0; h; h = hold_at(st, h)->next, n++) {
		const struct ledger_row *l = ledger_at(st, hold_at(st, h)->ledger);

		if (n < max)
			out[n] = (struct draw){ .key = ledger_key_of(st, l),
						.unit = (enum unit)l->unit,
						.amount = hold_at(st, h)->amount,
						.used = add_sat(l->sum.spent, l->sum.reserved),
						.window_end = hold_at(st, h)->window_end };
	}
	return n;
}

/* ---- windows ---- */

static bool rolls(const struct ledger_row *l, int64_t end, int64_t now)
{
	return end > l->sum.window_end || is_over(&l->sum, now);
}

static void touch(struct ledger_row *l, int64_t end, int64_t now)
{
	bool unused = l->sum.window_end == 0 && l->sum.spent == 0 && l->sum.reserved == 0;

	if (!rolls(l, end, now))
		return;
	l->sum = (struct ledger_state){ .granted = unused ? l->sum.granted : 0, .window_end = end };
	l->epoch++;
}

bool hold_is_current(const struct ledger_row *l, const struct hold_row *o, int64_t end, int64_t now)
{
	return o->epoch == l->epoch && !rolls(l, end, now);
}

/* Never below 0: sums of absurd amounts have saturated, and what saturated must not come back as credit. */
static void release(struct ledger_state *l, int64_t amount)
{
	l->reserved = amount < l->reserved ? l->reserved - amount : 0;
}

/* ---- changes ---- */

bool ledger_reserve(struct state *st, const struct ledger_key *key, size_t more)
{
	if (find_ledger(st, key)) /* nearly always, and then nothing is to be made */
		return true;
	return text_reserve(st, key->budget) && text_reserve(st, key->owner) && text_reserve(st, key->tool) &&
	       pool_reserve(&st->ledgers, more + 1) && index_reserve(st, &st->by_ledger, more + 1, ledger_row_hash);
}

uint32_t ledger_get(struct state *st, const struct ledger_key *key)
{
	uint32_t h = find_ledger(st, key), *list = &st->list.shared;
	struct ledger_row *l;

	if (h)
		return h;
	h = pool_take(&st->ledgers);
	l = ledger_at(st, h);
	l->scope = (uint8_t)key->scope;
	l->unit = (uint8_t)key->unit;
	l->budget = text_hold(st, key->budget);
	l->owner = text_hold(st, key->owner);
	l->tool = text_hold(st, key->tool);
	if (key->session) {
		l->session_row = find_session(st, key->session);
		list = &session_at(st, l->session_row)->ledgers;
	}
	l->next = *list;
	*list = h;
	index_put(&st->by_ledger, ledger_row_hash(st, h), h);
	return h;
}

void ledger_free(struct state *st, uint32_t h)
{
	struct ledger_row *l = ledger_at(st, h);

	(void)index_remove(st, &st->by_ledger, ledger_row_hash, h);
	text_let(st, l->budget);
	text_let(st, l->owner);
	text_let(st, l->tool);
	pool_give(&st->ledgers, h);
}

void ledger_grant(struct state *st, const struct grant *g, int64_t now)
{
	struct ledger_row *l = ledger_at(st, ledger_get(st, &g->key));

	touch(l, 0, now); /* over: from here on it has no window, until the next draw opens one */
	l->sum.granted = add_sat(l->sum.granted, g->amount);
}

/* What open calls hold is part of the life total, so that it is not counted twice. */
void ledger_to_life(struct ledger_row *l, int64_t life, int64_t now)
{
	touch(l, 0, now);
	l->sum.window_end = 0;
	if (life > add_sat(l->sum.spent, l->sum.reserved))
		l->sum.spent = life - l->sum.reserved;
}

void holds_take(struct state *st, uint32_t call, const struct entry_decision *d, int64_t now)
{
	struct live_row *c = call_live(st, call_at(st, call));
	uint32_t last = life_take(st, call, d);

	c->holds = last;

	for (size_t i = 0; i < d->n_draws; i++) {
		const struct draw *w = &d->draws[i];
		struct ledger_row *l;
		uint32_t h;

		if (w->unit == UNIT_TIME) /* passes by itself: nothing is held */
			continue;
		h = pool_take(&st->holds);
		hold_at(st, h)->ledger = ledger_get(st, &w->key);
		l = ledger_at(st, hold_at(st, h)->ledger);
		touch(l, w->window_end, now);
		hold_at(st, h)->amount = w->amount;
		hold_at(st, h)->window_end = l->sum.window_end;
		hold_at(st, h)->epoch = l->epoch;
		l->sum.reserved = add_sat(l->sum.reserved, w->amount);
		APPEND(st, hold, c->holds, last, next, h);
	}
}

void holds_settle(struct state *st, uint32_t call, const struct entry_settle *s, bool late, int64_t now)
{
	size_t i = 0;

	life_settle(st, call, s, late);
	for (uint32_t h = ledger_holds(st, call_at(st, call)); h; h = hold_at(st, h)->next, i++) {
		const struct hold_row *o = hold_at(st, h);
		const struct charge *g = &s->charges[i];
		struct ledger_row *l = ledger_at(st, o->ledger);
		bool current = hold_is_current(l, o, g->draw.window_end, now);
		int64_t charged = g->charged;

		touch(l, g->draw.window_end, now);
		if (current)
			release(&l->sum, g->reserved);
		else if (!late && g->reserved) /* the hold's own window has paid for it */
			charged = charged > o->amount ? charged - o->amount : 0;
		l->sum.spent = add_sat(l->sum.spent, charged);
	}
}

void holds_charge(struct state *st, uint32_t call)
{
	for (uint32_t h = ledger_holds(st, call_at(st, call)); h; h = hold_at(st, h)->next) {
		const struct hold_row *o = hold_at(st, h);
		struct ledger_row *l = ledger_at(st, o->ledger);

		if (o->epoch != l->epoch)
			continue;
		release(&l->sum, o->amount);
		l->sum.spent = add_sat(l->sum.spent, o->amount);
	}
}

void holds_free(struct state *st, uint32_t call)
{
	struct live_row *c = call_live(st, call_at(st, call));

	for (uint32_t h = c->holds, next; h; h = next) {
		next = hold_at(st, h)->next;
		pool_give(&st->holds, h);
	}
	c->holds = 0;
}
