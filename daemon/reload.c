/* daemon/reload.c - see reload.h. A pending card is judged again as if its call were asked now. It stays when the answer asks
 * for the same reasons, or when the old policy would answer the same today (a breaker is open: not the policy's doing). A card
 * whose arguments are gone or were cut cannot be judged and stays: whoever uses its approval is judged again anyway. */
#include "daemon/reload.h"

#include "daemon/base/json.h"
#include "daemon/base/oplog.h"

void reload_tell(const struct reload *r)
{
	for (size_t i = 0; i < r->budgets.n_changes; i++)
		oplog(change_loosens(r->changes[i]) ? OPLOG_WARN : OPLOG_INFO, "policy: %.*s", STR_ARG(r->changes[i]));
}

/* What the laws said, in shadow mode too: a card that it would still ask for stays, whatever else runs meanwhile. */
static enum verdict said(const struct judgement *j)
{
	return j->would ? j->would : j->answer;
}

static const struct reason *said_why(const struct judgement *j)
{
	return j->would ? &j->would_why : &j->why;
}

static bool asks_the_same(const struct judgement *j, const struct card_state *card)
{
	if (said(j) != VERDICT_REVIEW || j->n_asks != card->n_asks)
		return false;
	for (size_t i = 0; i < j->n_asks; i++)
		if (j->asks[i].code != card->asks[i].code || !str_eq(j->asks[i].rule, card->asks[i].rule) ||
		    j->asks[i].refers != card->asks[i].refers)
			return false;
	return true;
}

/* false: it cannot be judged. */
static bool judge_card(struct mediator *m, const struct card_state *card, const struct json *args, int64_t now, struct judgement *ret)
{
	const struct session_state *who = state_session(m->state, card->session);
	const struct live *lv = sessions_get(m->sessions, card->session);
	const struct call_state *call = state_decision(m->state, card->id);
	/* an amount that nobody said counts as 0: the card was asked about all the same, and its use is judged again */
	struct request_call rq = { .call = STR("reload"), .tool = card->tool, .args = args, .has_money = true, .has_tokens = true,
				   .money = card->money, .tokens = card->tokens };
	uint64_t malformed = m->count.malformed;
	struct refusal no;
	struct facts f;
	int r;

	if (!who || !lv || !call)
		return false;
	rq.kind = call->kind;
	r = mediate_facts(m, who, lv, &rq, &f, &no);
	m->count.malformed = malformed; /* nobody has asked */
	if (r < 0 || memcmp(f.card, card->token, sizeof(f.card)) != 0)
		return false;
	judge(m->policy, m->state, &f, now, ret);
	return true;
}

static bool is_stale(struct mediator *m, const struct policy *old, const struct card_state *card, int64_t now)
{
	struct policy *pol = m->policy;
	struct judgement a, b;
	struct json *args;
	bool stale = false;

	if (json_parse(reviews_args(m->reviews, card->id), PAWL_MAX_DEPTH, &args, NULL) < 0)
		return false;
	if (judge_card(m, card, args, now, &b) && !asks_the_same(&b, card)) {
		m->policy = (struct policy *)(uintptr_t)old; /* lent for one question; judge() changes nothing */
		stale = !judge_card(m, card, args, now, &a) || said(&a) != said(&b) || said_why(&a)->code != said_why(&b)->code ||
			!str_eq(said_why(&a)->rule, said_why(&b)->rule);
		m->policy = pol;
	}
	json_free(args);
	return stale;
}

void reload_cards(struct mediator *m, const struct policy *old, int64_t now)
{
	const struct card_state *card;
	struct refusal no;

	for (uint64_t after = 0; (card = state_card_after(m->state, 0, after));) {
		uint64_t id = after = card->id;
		struct entry e;

		if (!is_stale(m, old, card, now))
			continue;
		e = mediate_entry(m, ENTRY_RESOLVE, now);
		e.resolve = (struct entry_resolve){ .session = card->session, .card = id, .action = RESOLVE_CLOSE, .reason = STR("policy_changed") };
		if (mediate_submit(m, &(struct submission){ .e = &e }, &no) < 0)
			oplog(OPLOG_WARN, "r_%llu stays open under the new policy: %s", (unsigned long long)id, no.err.msg);
		else
			oplog(OPLOG_INFO, "r_%llu is closed: the policy has changed", (unsigned long long)id);
	}
}
