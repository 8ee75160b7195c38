/* policy/state_life.c - what each session, each agent and all of them together have taken in their life, in money, calls and
 * tokens, whichever budgets there were: a budget that is new tomorrow starts there. Reservations count from the moment they
 * are made; a report corrects them, and where nobody reports they stand. */
#include "policy/state_int.h"

static void add(int64_t *total, int64_t amount)
{
	*total = add_sat(*total, amount);
	if (*total < 0) /* sums that had saturated must not come back as credit */
		*total = 0;
}

/* A session counts what all below it take. */
static void life_add(struct state *st, uint32_t session, enum unit unit, int64_t amount)
{
	uint32_t agent = find_agent(st, session_at(st, session)->pub.agent);

	if (!amount)
		return;
	for (uint32_t s = session; s; s = session_at(st, s)->parent_row)
		add(&session_at(st, s)->life[unit], amount);
	if (agent)
		add(&agent_at(st, agent)->life[unit], amount);
	add(&st->money.life[unit], amount);
}

/* No total is larger than that of all, and none saturates here: a report that takes this back must leave the rest of it. */
static int64_t what_adds_up(const struct state *st, enum unit unit, int64_t amount)
{
	int64_t room = INT64_MAX - st->money.life[unit];

	return amount < room ? amount : room;
}

uint32_t life_take(struct state *st, uint32_t call, const struct entry_decision *d)
{
	int64_t money = what_adds_up(st, UNIT_MONEY, d->cost_known ? d->money : 0);
	int64_t tokens = what_adds_up(st, UNIT_TOKENS, d->tokens_known ? d->tokens : 0);
	uint32_t session = call_at(st, call)->session_row, h;

	life_add(st, session, UNIT_CALLS, 1);
	if (!money && !tokens)
		return 0;
	life_add(st, session, UNIT_MONEY, money);
	life_add(st, session, UNIT_TOKENS, tokens);
	h = pool_take(&st->holds);
	hold_at(st, h)->amount = money;
	hold_at(st, h)->window_end = tokens;
	hold_at(st, h)->price = d->has_price ? d->price : 0;
	return h;
}

struct told { /* of one unit */
	bool reported;
	int64_t charged;
};

/* What the call cost beyond what was counted for it. Ledgers tell exactly what it was charged; a call that draws from none
 * of this unit is charged nothing there, and then only a report can say that it was less than its estimate. */
static int64_t correction(const struct state *st, uint32_t call, enum unit unit, int64_t counted, struct told t, bool late)
{
	int64_t held = -1, cost = t.charged;

	for (uint32_t h = ledger_holds(st, call_at(st, call)); h; h = hold_at(st, h)->next)
		if (ledger_at(st, hold_at(st, h)->ledger)->unit == (unsigned)unit && hold_at(st, h)->amount > held)
			held = hold_at(st, h)->amount;
	if (late && held > 0)
		cost = add_sat(cost, held);
	if (cost < counted && (late || (held < 0 && !t.reported)))
		return 0;
	return cost - counted;
}

void life_settle(struct state *st, uint32_t call, const struct entry_settle *s, bool late)
{
	const struct call_row *c = call_at(st, call);
	uint32_t first = call_live(st, c)->holds, session = c->session_row;
	bool counted = first && !hold_at(st, first)->ledger;
	int64_t money = counted ? hold_at(st, first)->amount : 0, tokens = counted ? hold_at(st, first)->window_end : 0;

	life_add(st, session, UNIT_MONEY,
		 correction(st, call, UNIT_MONEY, money, (struct told){ s->has_money, s->charged_money }, late));
	life_add(st, session, UNIT_TOKENS,
		 correction(st, call, UNIT_TOKENS, tokens, (struct told){ s->has_tokens, s->charged_tokens }, late));
}

int64_t state_life(const struct state *st, enum scope scope, uint64_t session, struct str owner, enum unit unit)
{
	uint32_t h;

	if ((unsigned)unit >= LIFE_UNITS)
		return 0;
	switch (scope) {
	case SCOPE_SESSION:
		h = find_session(st, session);
		return h ? session_at(st, h)->life[unit] : 0;
	case SCOPE_AGENT:
		h = find_agent(st, owner);
		return h ? agent_at(st, h)->life[unit] : 0;
	case SCOPE_TENANT: /* there is one */
	case SCOPE_GLOBAL:
	case SCOPE_COUNT:
		break;
	}
	return st->money.life[unit];
}
