/* policy/state_room_decision.c - may this decision or claim stand in the log here, and is there memory for it?
 * See state_room.c. */
#include "policy/state_int.h"

/* ---- what it draws from ---- */

bool ledger_key_is_sane(const struct ledger_key *key)
{
	return (unsigned)key->unit < UNIT_COUNT && (unsigned)key->scope < SCOPE_COUNT && key->budget.n > 0 &&
	       (key->scope == SCOPE_SESSION) == (key->session != 0);
}

/* Only ancestors and the session itself can be drawn from: a ledger must not outlive, or die before, what draws from
 * it. */
bool draw_in_reach(const struct state *st, const struct session_row *who, const struct ledger_key *key)
{
	while (key->session && who && who->pub.id != key->session)
		who = who->parent_row ? session_at(st, who->parent_row) : NULL;
	return who != NULL;
}

bool window_is_sane(const struct entry *e, int64_t end)
{
	return end == 0 || end > e->now;
}

static int check_draws(const struct state *st, const struct entry *e, const struct session_row *who, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;

	if (d->n_draws > PAWL_MAX_LEDGERS)
		return contradiction(e, err, "more ledgers than a call can draw from");
	for (size_t i = 0; i < d->n_draws; i++) {
		const struct draw *w = &d->draws[i];

		if (!ledger_key_is_sane(&w->key) || w->unit != w->key.unit || w->amount < 0 || !window_is_sane(e, w->window_end) ||
		    !draw_in_reach(st, who, &w->key))
			return contradiction(e, err, "it draws from a ledger that is not in reach");
		for (size_t k = 0; k < i; k++)
			if (ledger_is_same(&d->draws[i].key, &d->draws[k].key))
				return contradiction(e, err, "it draws twice from one ledger");
	}
	return 0;
}

/* ---- cards ---- */

static int check_spend(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	uint32_t h = find_card_id(st, d->spends);
	const struct card_row *c = h ? card_at(st, h) : NULL;

	if (!c || c->pub.session != d->session || memcmp(c->pub.token, d->card_token, sizeof(c->pub.token)) != 0)
		return contradiction(e, err, "it uses the approval of another call");
	if (c->pub.mode != CARD_RESUMED || c->pub.until < e->now)
		return contradiction(e, err, "it uses an approval that was not given, is used up or over");
	return 0;
}

static int check_review(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	uint32_t h = find_card(st, d->session, d->card_token);
	const struct card_state *c = h ? &card_at(st, h)->pub : NULL;

	if (d->card_until < e->now || d->n_asks > PAWL_MAX_ASKS)
		return contradiction(e, err, "a card whose deadline is over, or with more than it can ask");
	for (size_t i = 0; i < d->n_asks; i++)
		if ((unsigned)d->asks[i].code >= REASON_COUNT)
			return contradiction(e, err, "a card that asks for no known reason");
	if (c && c->mode == CARD_PENDING ? c->id != d->card || c->until != d->card_until : d->card != e->seq)
		return contradiction(e, err, "the review card is not the one that this call belongs to");
	return 0;
}

/* ---- the answer ---- */

static bool guard_is_tighter(const struct state *st, const struct entry_decision *d)
{
	struct guard_state g = state_guard(st, d->session, d->tool);

	if (d->guard_repeat < 0 || d->guard_money < 0)
		return false;
	return (!g.has_money || (d->has_guard_money && d->guard_money <= g.money)) &&
	       (!g.repeat || (d->guard_repeat && d->guard_repeat <= g.repeat));
}

static int check_denials(const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;

	if (d->n_sticks > PAWL_MAX_STICKS || d->n_trips > PAWL_MAX_PERIOD)
		return contradiction(e, err, "more denials to remember than one call can make");
	if (d->n_sticks && d->answer != VERDICT_DENY && d->would != VERDICT_DENY)
		return contradiction(e, err, "a denial to remember of a call that was not denied");
	for (size_t i = 0; i < d->n_sticks; i++)
		if (d->sticks[i].how <= STICK_NEVER || d->sticks[i].how >= STICK_COUNT || !d->sticks[i].tool.n || !d->sticks[i].rule.n)
			return contradiction(e, err, "a denial to remember for nobody, of no tool or by no rule");
	return 0;
}

static int check_answer(const struct state *st, const struct entry *e, const struct session_row *who, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	int r;

	switch (d->answer) {
	case VERDICT_ALLOW:
		if (d->lease_until < e->now || (d->card && d->card != d->spends))
			return contradiction(e, err, "an allowed call with a card, or with a lease that is over");
		if (d->has_price && (d->price < 0 || (d->price > 0 && (!d->cost_known || d->money < d->price))))
			return contradiction(e, err, "an allowed call whose fixed cost is not among what it may cost");
		r = check_draws(st, e, who, err);
		return r < 0 || !d->spends ? r : check_spend(st, e, err);
	case VERDICT_REVIEW:
		return d->spends ? contradiction(e, err, "a review that uses an approval") : check_review(st, e, err);
	case VERDICT_DENY:
		return d->card || d->spends ? contradiction(e, err, "a denial with a review card") : 0;
	case VERDICT_UNSET:
		break;
	}
	return contradiction(e, err, "a decision without a verdict");
}

/* In shadow mode nobody is asked anything new, and what would have been answered is told of calls that may run. */
static int check_mode(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;

	if (d->shadow != st->shadow)
		return contradiction(e, err, "it was judged in another mode than the one in force");
	if (d->shadow && d->answer == VERDICT_REVIEW && d->card == e->seq)
		return contradiction(e, err, "a review card that was opened in shadow mode");
	if (d->would && (!d->shadow || d->answer != VERDICT_ALLOW || d->would == VERDICT_ALLOW || d->would > VERDICT_DENY))
		return contradiction(e, err, "it tells of another answer than shadow mode can");
	return 0;
}

static int check_decision(const struct state *st, const struct entry *e, const struct session_row *who,
			  struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	int r;

	if (d->root != who->pub.root || d->tool.n == 0 || (unsigned)d->kind >= CALL_KIND_COUNT)
		return contradiction(e, err, "a decision in another tree, or about no tool");
	if (d->money < 0 || d->tokens < 0)
		return contradiction(e, err, "a call that costs less than nothing");
	if (!guard_is_tighter(st, d))
		return contradiction(e, err, "the caller's own limits for this tool became looser");
	if (!decision_is_kept(who, d) && d->answer != VERDICT_DENY)
		return contradiction(e, err, "an allowed call, or a review, in a session that is over or used up");
	r = check_mode(st, e, err);
	if (r == 0)
		r = check_denials(e, err);
	return r < 0 ? r : check_answer(st, e, who, err);
}

/* ---- memory ---- */

static bool reserve_draws(struct state *st, const struct entry_decision *d)
{
	for (size_t i = 0; i < d->n_draws; i++)
		if (!ledger_reserve(st, &d->draws[i].key, d->n_draws))
			return false;
	return pool_reserve(&st->holds, d->n_draws + 1); /* and what its life counts */
}

int room_decision(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	uint32_t h = find_session(st, d->session);
	bool fits;
	int r;

	if (!h)
		return contradiction(e, err, "a decision in a session that is not known");
	r = check_decision(st, e, session_at(st, h), err);
	if (r < 0 || !decision_is_kept(session_at(st, h), d))
		return r;
	fits = text_reserve(st, d->tool) && text_reserve(st, (struct str){ (const char *)d->client, sizeof(d->client) }) &&
	       pool_reserve(&st->calls, 1) && pool_reserve(&st->lives, 1) && index_reserve(st, &st->by_seq, 1, seq_row_hash) &&
	       index_reserve(st, &st->by_call, 1, call_row_hash) && denial_reserve(st, d);
	if (d->has_guard_money || d->guard_repeat)
		fits = fits && pool_reserve(&st->guards, 1) && index_reserve(st, &st->by_guard, 1, guard_row_hash);
	if (d->answer == VERDICT_REVIEW && d->card == e->seq)
		fits = fits && card_reserve(st, d);
	if (d->answer == VERDICT_ALLOW)
		fits = fits && reserve_draws(st, d) && heap_reserve(st, 1) &&
		       exec_reserve(st, session_at(st, session_at(st, h)->root_row));
	return fits ? 0 : no_memory(err);
}
