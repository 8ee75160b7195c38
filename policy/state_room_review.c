/* policy/state_room_review.c - may this answer of a person, or this breaker, stand in the log here, and is there memory for
 * it? See state_room.c. */
#include "policy/state_int.h"

/* ---- a person's answer ---- */

static int check_grants(const struct state *st, const struct entry *e, const struct card_row *card, struct pawl_error *err)
{
	const struct entry_resolve *r = &e->resolve;

	if (r->n_grants > PAWL_MAX_ASKS || (r->n_grants && r->action != RESOLVE_RESUME))
		return contradiction(e, err, "it adds to more ledgers than a card asks about, or without resuming the call");
	for (size_t i = 0; i < r->n_grants; i++) {
		const struct grant *g = &r->grants[i];

		if (g->amount < 0 || !ledger_key_is_sane(&g->key) || !draw_in_reach(st, session_at(st, card->session_row), &g->key))
			return contradiction(e, err, "it adds to a ledger that the call cannot draw from");
		for (size_t k = 0; k < i; k++)
			if (ledger_is_same(&g->key, &r->grants[k].key))
				return contradiction(e, err, "it adds twice to one ledger");
	}
	return 0;
}

static int check_abort(const struct state *st, const struct entry *e, const struct card_row *card, struct pawl_error *err)
{
	const struct entry_resolve *r = &e->resolve;
	uint32_t ends = r->ends ? find_session(st, r->ends) : 0;

	if (r->action != RESOLVE_ABORT)
		return r->ends || r->hold_until || r->n_breakers
			   ? contradiction(e, err, "an answer that does what only an abort does") : 0;
	if (!ends || session_at(st, ends)->pub.end != SESSION_LIVE || !descends(st, card->session_row, ends))
		return contradiction(e, err, "an abort that ends neither the card's session nor one above it");
	return 0;
}

int room_resolve(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_resolve *r = &e->resolve;
	uint32_t h = find_card_id(st, r->card);
	const struct card_row *card = h ? card_at(st, h) : NULL;
	int bad;

	if (!card || card->pub.session != r->session)
		return contradiction(e, err, "it answers a card that is not known in that session");
	if (card->pub.mode != CARD_PENDING || (unsigned)r->action >= RESOLVE_ACTION_COUNT)
		return contradiction(e, err, "it answers a card that is not pending");
	bad = check_grants(st, e, card, err);
	if (bad == 0)
		bad = check_abort(st, e, card, err);
	if (bad < 0)
		return bad;
	if (!text_reserve(st, r->operator) || !text_reserve(st, r->reason))
		return no_memory(err);
	for (size_t i = 0; i < r->n_grants; i++)
		if (!ledger_reserve(st, &r->grants[i].key, r->n_grants))
			return no_memory(err);
	return 0;
}

/* ---- breakers ---- */

/* Log times. */
static bool times_are_sane(const struct breaker_row *row)
{
	for (uint32_t i = 0; i < row->n_fails; i++)
		if (row->fails[i] < 0)
			return false;
	for (uint32_t i = 0; i < row->n_denies; i++)
		if (row->denies[i] < 0)
			return false;
	for (uint32_t i = 0; i < row->n_breaches; i++)
		if (row->breaches[i] < 0)
			return false;
	return row->until >= 0;
}

static bool row_is_sane(const struct entry *e, const struct breaker_row *row)
{
	/* read back from the log, "this entry's own" is its number */
	bool probes = row->probe == UINT64_MAX || row->probe == e->seq ? (e->kind == ENTRY_DECISION || e->kind == ENTRY_CLAIM) &&
						     e->decision.answer == VERDICT_ALLOW
					       : row->probe < e->seq;

	return row->id.n > 0 && (unsigned)row->scope <= SCOPE_COUNT && (unsigned)row->mode < BREAKER_MODE_COUNT &&
	       (row->scope == SCOPE_SESSION) == (row->session != 0) && row->session < e->seq && row->generation >= 0 &&
	       row->n_fails <= PAWL_MAX_STREAK && row->n_denies <= PAWL_MAX_STREAK && row->n_breaches <= PAWL_MAX_STREAK && times_are_sane(row) && probes &&
	       (row->probe != 0) == (row->mode == BREAKER_HALF_OPEN);
}

int room_breakers(struct state *st, const struct entry *e, struct pawl_error *err)
{
	size_t n;
	const struct breaker_row *rows = entry_breakers(e, &n);

	if (n > PAWL_MAX_BREAKERS)
		return contradiction(e, err, "more breakers than a policy can have");
	for (size_t i = 0; i < n; i++) {
		if (!row_is_sane(e, &rows[i]) || (rows[i].would && !st->shadow))
			return contradiction(e, err, "a breaker that no pawld would have set");
		for (size_t k = 0; k < i; k++)
			if (break_key_eq(&rows[i], &rows[k]))
				return contradiction(e, err, "it sets one breaker twice");
	}
	return break_reserve(st, rows, n) ? 0 : no_memory(err);
}
