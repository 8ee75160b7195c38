/* policy/settle.c - see settle.h. Who is believed (docs/policy.md, "Settling"): an estimate can only raise a reservation, a fixed
 * price is charged whatever is reported, a report can lower only the charge of a tool without a price. */
#include "pawl/settle.h"

#include <stdio.h>

static int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static bool never_ran(enum outcome o)
{
	return o == OUTCOME_CANCELLED || o == OUTCOME_NOT_RUN;
}

static int64_t money_charge(const struct tool *def, const struct report *rep, int64_t held)
{
	int64_t reported = rep->has_money ? rep->money : 0;

	if (never_ran(rep->outcome))
		return def && def->refund ? reported : max64(held, reported);
	if (def && def->has_cost)
		return max64(def->cost, reported);
	return rep->has_money ? reported : held;
}

static int64_t token_charge(const struct tool *def, const struct report *rep, int64_t held)
{
	int64_t reported = rep->has_tokens ? rep->tokens : 0;

	if (never_ran(rep->outcome))
		return def && def->refund ? reported : max64(held, reported);
	return rep->has_tokens ? reported : held;
}

static int64_t charge_of(const struct tool *def, const struct report *rep, enum unit unit, int64_t held)
{
	switch (unit) {
	case UNIT_MONEY:
		return money_charge(def, rep, held);
	case UNIT_TOKENS:
		return token_charge(def, rep, held);
	case UNIT_CALLS: /* never given back */
	case UNIT_TIME:
	case UNIT_COUNT:
		break;
	}
	return held;
}

int64_t ledger_limit(const struct policy *pol, const struct state *st, const struct ledger_key *key, enum unit unit)
{
	const struct session_state *who;
	struct guard_state guard;

	for (size_t i = 0; i < pol->n_budgets; i++)
		if (str_eq(pol->budgets[i].id, key->budget))
			return pol->budgets[i].limit;
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

int settle_charges(const struct policy *pol, const struct state *st, const struct call_state *call, const struct report *rep,
		   struct charge *charges, struct entry_settle *ret, struct pawl_error *err)
{
	struct draw holds[PAWL_MAX_LEDGERS];
	size_t n = state_holds(st, call->seq, holds, PAWL_LEN(holds));
	bool late = call->settled != 0;
	const struct tool *def;
	int64_t held_money = 0, held_tokens = 0, new_money, new_tokens;

	(void)tool_canonical(pol, call->tool, &def);
	if (n > PAWL_LEN(holds))
		n = PAWL_LEN(holds);
	for (size_t i = 0; i < n; i++) {
		if (holds[i].unit == UNIT_MONEY)
			held_money = max64(held_money, holds[i].amount);
		if (holds[i].unit == UNIT_TOKENS)
			held_tokens = max64(held_tokens, holds[i].amount);
	}
	if (rep->has_money && rep->money == 0 && rep->has_tokens && rep->tokens > 0 && held_money > 0)
		return pawl_fail_field(err, "cost.money", "zero cost with tokens, where money was reserved; the reservation stays");

	for (size_t i = 0; i < n; i++) {
		struct draw d = holds[i];
		struct ledger_state led = state_ledger(st, &d.key);
		int64_t charged = charge_of(def, rep, d.unit, d.amount), release = late ? 0 : d.amount;

		if (late) /* what was charged stands; only the excess is new */
			charged = charged > d.amount ? charged - d.amount : 0;
		d.used = add_sat(add_sat(led.spent, led.reserved) - release, charged);
		d.amount = 0;
		d.limit = ledger_limit(pol, st, &d.key, d.unit);
		d.granted = led.granted;
		charges[i] = (struct charge){ .draw = d, .reserved = release, .charged = charged };
	}
	new_money = money_charge(def, rep, held_money);
	new_tokens = token_charge(def, rep, held_tokens);
	ret->charges = charges;
	ret->n_charges = n;
	ret->charged_money = late ? max64(new_money - held_money, 0) : new_money;
	ret->charged_tokens = late ? max64(new_tokens - held_tokens, 0) : new_tokens;
	ret->returned = late ? 0 : max64(held_money - new_money, 0);
	return 0;
}

bool session_may_open(const struct policy *pol, const struct state *st, struct str agent, int64_t now, int64_t *ret_fresh_end, struct reason *why)
{
	const struct session_caps *caps = &pol->sessions;
	struct agent_state a = state_agent(st, agent);

	*why = (struct reason){ .code = REASON_SESSION_LIMIT, .has_numbers = true, .unit = UNIT_CALLS };
	*ret_fresh_end = 0;
	if (a.open >= caps->open) {
		why->rule = STR("open");
		why->counter = a.open;
		why->limit = caps->open;
		(void)snprintf(why->message, sizeof(why->message),
			       "agent %.*s has %lld live sessions; sessions.open is %lld. Close one, or let its lease run out",
			       STR_ARG(agent), (long long)a.open, (long long)caps->open);
		return false;
	}
	if (caps->fresh == 0)
		return true;
	/* an unexpired window counts even when a reload changed its length: it ends when it said it would */
	*ret_fresh_end = a.fresh_end > now ? a.fresh_end : (now / caps->fresh_every_ns + 1) * caps->fresh_every_ns;
	if (a.fresh_end > now && a.fresh >= caps->fresh) {
		why->rule = STR("new");
		why->counter = a.fresh;
		why->limit = caps->fresh;
		why->retry_after_ns = a.fresh_end - now;
		(void)snprintf(why->message, sizeof(why->message), "agent %.*s opened %lld sessions in this window; sessions.new is %lld",
			       STR_ARG(agent), (long long)a.fresh, (long long)caps->fresh);
		return false;
	}
	return true;
}
