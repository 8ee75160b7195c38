/* policy/settle.c - see settle.h. Who is believed (docs/policy.md, "Settling"): an estimate can only raise a
 * reservation, a fixed price is charged whatever is reported, a report can lower only the charge of a tool without a
 * price. Prices are those that were in force when the call was allowed. */
#include "pawl/settle.h"

#include "policy/laws.h"

#include <stdio.h>

static int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool never_ran(enum outcome o)
{
	return o == OUTCOME_CANCELLED || o == OUTCOME_NOT_RUN;
}

static int64_t money_charge(const struct call_state *call, const struct report *rep, int64_t held)
{
	int64_t reported = rep->has_money ? rep->money : 0;

	if (never_ran(rep->outcome))
		return call->refund ? reported : max64(held, reported);
	if (call->priced)
		return max64(call->price, reported);
	return rep->has_money ? reported : held;
}

static int64_t token_charge(const struct call_state *call, const struct report *rep, int64_t held)
{
	int64_t reported = rep->has_tokens ? rep->tokens : 0;

	if (never_ran(rep->outcome))
		return call->refund ? reported : max64(held, reported);
	return rep->has_tokens ? reported : held;
}

static int64_t charge_of(const struct call_state *call, const struct report *rep, enum unit unit, int64_t held)
{
	switch (unit) {
	case UNIT_MONEY:
		return money_charge(call, rep, held);
	case UNIT_TOKENS:
		return token_charge(call, rep, held);
	case UNIT_CALLS: /* never given back */
	case UNIT_TIME:
	case UNIT_COUNT:
		break;
	}
	return held;
}

static const struct budget *budget_named(const struct policy *pol, struct str id)
{
	for (size_t i = 0; i < pol->n_budgets; i++)
		if (str_eq(pol->budgets[i].id, id))
			return &pol->budgets[i];
	return NULL;
}

int64_t ledger_limit(const struct policy *pol, const struct state *st, const struct ledger_key *key, enum unit unit)
{
	const struct budget *b = budget_named(pol, key->budget);
	const struct session_state *who;
	struct guard_state guard;

	if (b)
		return b->limit;
	if (str_eq(key->budget, own_ledger_name(unit))) {
		who = state_session(st, key->session);
		return who && who->has_limit[unit] ? who->limit[unit] : INT64_MAX;
	}
	if (str_is(key->budget, "@guard")) {
		guard = state_guard(st, key->session, key->tool);
		return guard.has_money ? guard.money : INT64_MAX;
	}
	return INT64_MAX;
}

/* d: what the call holds, or, late, what it was charged. */
static struct charge charge_row(const struct policy *pol, const struct state *st, struct draw d, int64_t charged,
				bool late, int64_t now)
{
	struct ledger_state led = state_ledger(st, &d.key, now);
	const struct budget *b = budget_named(pol, d.key.budget);
	int64_t from = d.window_end, excess = charged > d.amount ? charged - d.amount : 0;
	int64_t used = add_sat(led.spent, led.reserved), release = late ? 0 : d.amount;

	d.window_end = b ? budget_window(b, &led, now) : led.window_end;
	if (late) /* what was charged stands; only the excess is new */
		charged = excess;
	if (from == d.window_end)
		d.used = add_sat(max64(used - release, 0), charged);
	else /* its window is over: the reservation went with it */
		d.used = add_sat(used, excess);
	d.amount = 0;
	d.limit = ledger_limit(pol, st, &d.key, d.unit);
	d.granted = led.granted;
	return (struct charge){ .draw = d, .reserved = release, .charged = charged };
}

int settle_charges(const struct policy *pol, const struct state *st, const struct call_state *call,
		   const struct report *rep, int64_t now, struct charge *charges, struct breaker_row *rows,
		   struct entry_settle *ret, struct pawl_error *err)
{
	struct draw holds[PAWL_MAX_LEDGERS];
	size_t n = state_holds(st, call->seq, holds, PAWL_LEN(holds));
	bool late = call->settled != 0;
	int64_t held_money = 0, held_tokens = 0, new_money, new_tokens;

	if (n > PAWL_LEN(holds))
		n = PAWL_LEN(holds);
	for (size_t i = 0; i < n; i++) {
		if (holds[i].unit == UNIT_MONEY)
			held_money = max64(held_money, holds[i].amount);
		if (holds[i].unit == UNIT_TOKENS)
			held_tokens = max64(held_tokens, holds[i].amount);
	}
	if (rep->has_money && rep->money == 0 && rep->has_tokens && rep->tokens > 0 && held_money > 0)
		return pawl_fail_field(err, "cost.money",
				       "zero cost with tokens, where money was reserved; the reservation stays");

	for (size_t i = 0; i < n; i++)
		charges[i] =
		    charge_row(pol, st, holds[i], charge_of(call, rep, holds[i].unit, holds[i].amount), late, now);
	new_money = money_charge(call, rep, held_money);
	new_tokens = token_charge(call, rep, held_tokens);
	ret->charges = charges;
	ret->n_charges = n;
	ret->charged_money = late ? max64(new_money - held_money, 0) : new_money;
	ret->charged_tokens = late ? max64(new_tokens - held_tokens, 0) : new_tokens;
	ret->returned = late ? 0 : max64(held_money - new_money, 0);
	ret->breakers = rows;
	ret->n_breakers = breaker_report(pol, st, call, rep->outcome, now, rows);
	return 0;
}

/* ---- may a session open? ---- */

static bool full(struct reason *why, const char *rule, int64_t counter, int64_t limit)
{
	why->code = REASON_SESSION_LIMIT;
	why->rule = str_of(rule);
	why->has_numbers = true;
	why->unit = UNIT_CALLS;
	why->counter = counter;
	why->limit = limit;
	return false;
}

static bool parent_lets(const struct policy *pol, const struct state *st, const struct session_state *parent,
			struct reason *why)
{
	int64_t depth = 2; /* a root's child; the root is 1 */

	if (parent->end != SESSION_LIVE) {
		why->code = parent->end == SESSION_ENDED_ABORT   ? REASON_SESSION_ABORTED
			    : parent->end == SESSION_ENDED_STALE ? REASON_STALE_SESSION
								 : REASON_SESSION_CLOSED;
		(void)snprintf(why->message, sizeof(why->message), "the parent s_%llu is over",
			       (unsigned long long)parent->id);
		return false;
	}
	for (const struct session_state *s = parent; s->parent && depth <= PAWL_MAX_DEPTH_TREE; depth++) {
		s = state_session(st, s->parent);
		if (!s)
			break;
	}
	if (depth <= pol->sessions.depth && depth <= PAWL_MAX_DEPTH_TREE)
		return true;
	(void)snprintf(why->message, sizeof(why->message),
		       "a child of s_%llu would be session %lld below one another; sessions.depth is %lld",
		       (unsigned long long)parent->id, (long long)depth, (long long)pol->sessions.depth);
	return full(why, "depth", depth, pol->sessions.depth);
}

bool session_may_open(const struct policy *pol, const struct state *st, const struct session_state *parent,
		      struct str agent, int64_t now, int64_t *ret_fresh_end, struct reason *why)
{
	const struct session_caps *caps = &pol->sessions;
	struct agent_state a = state_agent(st, agent);

	*why = (struct reason){ .code = REASON_OK };
	*ret_fresh_end = 0;
	if (a.hold_until > now) {
		why->code = REASON_SESSION_ABORTED;
		why->rule = STR("abort_hold");
		why->retry_after_ns = a.hold_until - now;
		(void)snprintf(why->message, sizeof(why->message),
			       "a person aborted a session of agent %.*s: no new one yet (sessions.abort_hold)",
			       STR_ARG(agent));
		return false;
	}
	if (parent && !parent_lets(pol, st, parent, why))
		return false;
	if (a.open >= caps->open) {
		(void)snprintf(
		    why->message, sizeof(why->message),
		    "agent %.*s has %lld live sessions; sessions.open is %lld. Close one, or let its lease run out",
		    STR_ARG(agent), (long long)a.open, (long long)caps->open);
		return full(why, "open", a.open, caps->open);
	}
	if (caps->fresh == 0)
		return true;
	/* an unexpired window counts even when a reload changed its length: it ends when it said it would */
	*ret_fresh_end = a.fresh_end > now ? a.fresh_end : (now / caps->fresh_every_ns + 1) * caps->fresh_every_ns;
	if (a.fresh_end <= now || a.fresh < caps->fresh)
		return true;
	why->retry_after_ns = a.fresh_end - now;
	(void)snprintf(why->message, sizeof(why->message),
		       "agent %.*s opened %lld sessions in this window; sessions.new is %lld", STR_ARG(agent),
		       (long long)a.fresh, (long long)caps->fresh);
	return full(why, "new", a.fresh, caps->fresh);
}

/* ---- "25%" of a child ---- */

static int64_t rest_of(const struct state *st, const struct ledger_key *key, int64_t limit, int64_t now)
{
	struct ledger_state led = state_ledger(st, key, now);
	int64_t left = add_sat(add_sat(limit, led.granted), -add_sat(led.spent, led.reserved));

	return left > 0 ? left : 0;
}

/* Of one session: its own limit, and the session budgets of the policy. */
static int64_t rest_in(const struct policy *pol, const struct state *st, const struct session_state *s, int64_t now,
		       int64_t least)
{
	struct ledger_key key = {
		.budget = own_ledger_name(UNIT_MONEY), .scope = SCOPE_SESSION, .unit = UNIT_MONEY, .session = s->id
	};

	if (s->has_limit[UNIT_MONEY])
		least = min64(least, rest_of(st, &key, s->limit[UNIT_MONEY], now));
	for (size_t i = 0; i < pol->n_budgets; i++) {
		const struct budget *b = &pol->budgets[i];

		if (b->unit != UNIT_MONEY || b->has_match || b->per_tool || b->scope != SCOPE_SESSION)
			continue;
		key.budget = b->id;
		least = min64(least, rest_of(st, &key, b->limit, now));
	}
	return least;
}

int64_t share_of_rest(const struct policy *pol, const struct state *st, const struct session_state *parent, int64_t now,
		      int percent)
{
	int64_t least = INT64_MAX;

	if (!parent || percent < 0 || percent > 100)
		return -1;
	for (const struct session_state *s = parent; s; s = s->parent ? state_session(st, s->parent) : NULL)
		least = rest_in(pol, st, s, now, least);
	for (size_t i = 0; i < pol->n_budgets;
	     i++) { /* what others draw from too; budgets of some tools only say nothing here */
		const struct budget *b = &pol->budgets[i];
		struct ledger_key key = { .budget = b->id, .scope = b->scope, .unit = UNIT_MONEY };

		if (b->unit != UNIT_MONEY || b->has_match || b->per_tool || b->scope == SCOPE_SESSION)
			continue;
		if (b->scope == SCOPE_AGENT)
			key.owner = parent->agent;
		else if (b->scope == SCOPE_TENANT)
			key.owner = STR("local");
		least = min64(least, rest_of(st, &key, b->limit, now));
	}
	if (least == INT64_MAX)
		return -1;
	return least / 100 * percent + least % 100 * percent / 100;
}
