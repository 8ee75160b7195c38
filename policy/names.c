/* policy/names.c - how many names of tools an agent can have remembered for good. Any text that is a tool's name may be
 * asked for, and some rows are kept for each name beyond the session: ledgers of `per: [agent, tool]`, breakers' rows of
 * `per: tool`, denials of `sticky: agent`. Each kind keeps PAWL_MAX_NAMES of them; then a call of one more name is refused
 * before anything is looked at, so that nothing about it is left to remember. Names that the policy spells out, in `tools`
 * or without a wildcard elsewhere, are no agent's choice and always fit. Pure. */
#include "policy/laws.h"

#include "policy/condition.h"

#include <stdio.h>

static bool budget_is_full(const struct question *q, struct str *ret_what)
{
	for (uint32_t left = q->f->budgets; left; left &= left - 1) {
		const struct budget *b = &q->pol->budgets[__builtin_ctz(left)];
		struct ledger_key key = { .budget = b->id, .scope = b->scope, .unit = b->unit, .tool = q->f->tool };

		if (!b->per_tool || b->scope == SCOPE_SESSION || b->unit == UNIT_TIME)
			continue;
		key.owner = scope_owner(b->scope, q->f->agent);
		*ret_what = b->id;
		if (!state_ledger_fits(q->st, &key))
			return true;
	}
	return false;
}

static bool breaker_is_full(const struct question *q, struct str *ret_what)
{
	for (uint32_t left = q->f->breakers; left; left &= left - 1) {
		const struct breaker *b = &q->pol->breakers[__builtin_ctz(left)];
		struct breaker_row key;

		if (!b->per_tool || (b->has_scope && b->scope == SCOPE_SESSION))
			continue;
		key = breaker_key(b, q->f->root, q->f->agent, q->f->tool);
		*ret_what = b->id;
		if (!state_breaker_fits(q->st, &key))
			return true;
	}
	return false;
}

struct sticky { /* the first deny rule of this name that binds the agent */
	const struct policy *pol;
	struct str rule;
};

static void look_for_sticky(void *arg, uint32_t rule)
{
	struct sticky *s = arg;
	const struct rule *r = &s->pol->rules[rule];

	if (!s->rule.n && r->answer == VERDICT_DENY && r->sticky == STICK_AGENT)
		s->rule = r->id;
}

static bool denials_are_full(const struct question *q, struct str *ret_what)
{
	struct sticky s = { .pol = q->pol };

	if (!q->pol->agent_sticks)
		return false;
	(void)name_index_find(q->pol->index, q->f->tool, q->f->def, look_for_sticky, &s);
	*ret_what = s.rule;
	return s.rule.n && !state_stick_fits(q->st, q->f->agent, q->f->tool);
}

bool names_full(const struct question *q, struct reason *why)
{
	struct str what = STR_NONE;

	if (q->f->def || (!q->f->budgets && !q->f->breakers && !q->pol->agent_sticks) || name_index_spells(q->pol->index, q->f->tool))
		return false;
	if (!budget_is_full(q, &what) && !breaker_is_full(q, &what) && !denials_are_full(q, &what))
		return false;
	why->code = REASON_SESSION_LIMIT;
	why->rule = STR("names");
	why->has_numbers = true;
	why->unit = UNIT_CALLS;
	why->counter = why->limit = PAWL_MAX_NAMES;
	(void)snprintf(why->message, sizeof(why->message),
		       "%.*s keeps %d names of tools and takes no more: the policy must list %.*s under tools", STR_ARG(what), PAWL_MAX_NAMES,
		       q->f->tool.n > 60 ? 60 : (int)q->f->tool.n, q->f->tool.p);
	return true;
}
