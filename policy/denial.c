/* policy/denial.c - the law of denials that stay. A name that is denied is denied in every tool whose `uses` reaches
 * it, never the other way round. What is remembered is the state's; an unconditional deny rule on a used name needs no
 * memory. Pure. */
#include "policy/laws.h"

#include <stdio.h>

static void transitive(struct question *q, struct str name, struct str rule, const char *how)
{
	struct reason why = { .code = REASON_TRANSITIVE, .rule = rule };

	(void)snprintf(why.message, sizeof(why.message), "%.*s needs %.*s, which rule %.*s %s", STR_ARG(q->f->tool),
		       STR_ARG(name), STR_ARG(rule), how);
	law_found(q, VERDICT_DENY, &why);
}

void denial_law(struct question *q)
{
	struct reason why = { .code = REASON_STICKY_DENIAL };
	const struct tool *def = q->f->def;

	why.rule = state_denied(q->st, q->who, q->f->tool);
	if (why.rule.n) {
		(void)snprintf(why.message, sizeof(why.message), "rule %.*s denied %.*s before, and that stays",
			       STR_ARG(why.rule), STR_ARG(q->f->tool));
		law_found(q, VERDICT_DENY, &why);
	}
	if (!def)
		return;
	if (def->denied_use >= 0 && (size_t)def->denied_use < q->pol->n_rules)
		transitive(q, def->denied_name, q->pol->rules[def->denied_use].id, "denies");
	for (size_t i = 0; i < def->n_closure; i++) {
		struct str rule = state_denied(q->st, q->who, def->closure[i]);

		if (!rule.n)
			continue;
		transitive(q, def->closure[i], rule, "denied before; that stays");
		return; /* one is enough to say no and to name */
	}
}
