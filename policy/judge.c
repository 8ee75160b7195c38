/* policy/judge.c - facts x state x now -> verdict. Pure: no I/O, no clock, no memory but the caller's.
 * All laws are asked and the strictest answer wins; the order of the table is the rank of the reason that is named
 * among equals. */
#include "policy/laws.h"

#include <stdio.h>

static enum verdict say(struct reason *why, enum verdict answer, enum reason_code code)
{
	why->code = code;
	return answer;
}

/* ---- replay: has this very call been answered before? ---- */

static enum verdict doubt_law(const struct question *q, struct reason *why)
{
	if (!q->call || q->call->answer != VERDICT_ALLOW ||
	    memcmp(q->call->client, q->f->client, sizeof(q->f->client)) == 0)
		return VERDICT_ALLOW;
	why->refers = q->call->seq;
	(void)snprintf(why->message, sizeof(why->message),
		       "another process was allowed this call (d_%llu) and has not reported: it may have run",
		       (unsigned long long)q->call->seq);
	return say(why, VERDICT_REVIEW, REASON_IN_DOUBT);
}

static bool is_replay(const struct question *q)
{
	return q->call && !q->call->settled && q->call->answer != VERDICT_REVIEW &&
	       memcmp(q->call->client, q->f->client, sizeof(q->f->client)) == 0;
}

static const char *outcome_word(enum outcome o)
{
	static const char *const words[OUTCOME_COUNT] = { "is open",       "ended ok",    "ended in an error",
							  "was cancelled", "did not run", "was never reported" };

	return (unsigned)o < OUTCOME_COUNT ? words[o] : "ended";
}

/* ---- what no other law can change: the session is over or used up, the call is answered. UNSET = go on ---- */

static enum verdict closed_question(const struct question *q, struct reason *why)
{
	const struct session_state *who = q->who;
	int64_t calls = q->pol->sessions.calls;

	if (!who || who->end != SESSION_LIVE) {
		(void)snprintf(why->message, sizeof(why->message), "session s_%llu is over: open a new one",
			       (unsigned long long)q->f->session);
		return say(why, VERDICT_DENY,
			   who && who->end == SESSION_ENDED_STALE ? REASON_STALE_SESSION : REASON_SESSION_CLOSED);
	}
	if (is_replay(q)) {
		why->refers = q->call->seq;
		q->j->replay = true;
		return say(why, q->call->answer, REASON_OK);
	}
	if (who->decisions >= calls) { /* before already_settled: nothing may grow in such a session */
		why->has_numbers = true;
		why->unit = UNIT_CALLS;
		why->counter = who->decisions;
		why->limit = calls;
		why->rule = STR("calls");
		(void)snprintf(why->message, sizeof(why->message),
			       "session s_%llu has had %lld decisions; sessions.calls is %lld",
			       (unsigned long long)who->id, (long long)who->decisions, (long long)calls);
		return say(why, VERDICT_DENY, REASON_SESSION_LIMIT);
	}
	if (q->call && q->call->answer == VERDICT_ALLOW && q->call->settled) {
		why->refers = q->call->seq;
		q->j->settled = q->call->outcome;
		(void)snprintf(why->message, sizeof(why->message),
			       "this call was allowed before (d_%llu) and %s: a new call needs a new id",
			       (unsigned long long)q->call->seq, outcome_word(q->call->outcome));
		return say(why, VERDICT_DENY, REASON_ALREADY_SETTLED);
	}
	return VERDICT_UNSET;
}

/* ---- rules and the default ---- */

enum verdict rule_law(const struct question *q, struct reason *why)
{
	for (enum verdict v = VERDICT_DENY; v >= VERDICT_ALLOW; v--) {
		const struct rule_hit *hit = &q->f->hit[v];

		if (hit->rule < 0)
			continue;
		why->rule = q->pol->rules[hit->rule].id;
		if (v == VERDICT_ALLOW)
			return say(why, v, REASON_OK);
		(void)snprintf(why->message, sizeof(why->message), "rule %.*s %s %.*s%s", STR_ARG(why->rule),
			       v == VERDICT_DENY ? "denies" : "asks a person about", STR_ARG(q->f->tool),
			       hit->by_failure ? ": one of its conditions could not be decided, which counts as a match"
					       : "");
		return say(why, v, REASON_RULE);
	}
	return VERDICT_ALLOW;
}

enum verdict default_law(const struct question *q, struct reason *why)
{
	enum verdict fallback = q->pol->fallback;

	for (enum verdict v = VERDICT_ALLOW; v <= VERDICT_DENY; v++)
		if (q->f->hit[v].rule >= 0)
			return VERDICT_ALLOW;
	if (fallback == VERDICT_UNSET)
		fallback = VERDICT_DENY; /* silence is no */
	(void)snprintf(why->message, sizeof(why->message), "no rule fits this call of %.*s; the policy's default is %s",
		       STR_ARG(q->f->tool),
		       fallback == VERDICT_ALLOW    ? "allow"
		       : fallback == VERDICT_REVIEW ? "review"
						    : "deny");
	return say(why, fallback, REASON_DEFAULT);
}

/* ---- the table ---- */

static law_check *const laws[] = { rule_law, loop_law, budget_law, doubt_law, default_law };

static void ask_all(const struct question *q, struct judgement *ret)
{
	struct reason why;

	for (size_t i = 0; i < PAWL_LEN(laws); i++) {
		enum verdict got;

		why = (struct reason){ .code = REASON_OK };
		got = laws[i](q, &why);
		if (got == VERDICT_UNSET)
			got = VERDICT_DENY; /* a law that forgot to answer is a no */
		if (got > ret->answer ||
		    (ret->answer == VERDICT_ALLOW && (why.rule.p || why.message[0]))) { /* who allows is named too */
			ret->answer = got;
			ret->why = why;
		}
	}
}

/* The last step: who looks at a review? */
static void settle_review(const struct question *q, struct judgement *ret)
{
	const struct card_state *card = state_card(q->st, q->f->session, q->f->card);
	size_t n = strlen(ret->why.message);

	if (!q->pol->attended) {
		ret->answer = VERDICT_DENY;
		(void)snprintf(ret->why.message + n, sizeof(ret->why.message) - n,
			       "; nobody attends, so a review is a denial");
		return;
	}
	if (card) {
		ret->card = card->id;
		ret->card_until = card->until;
		return;
	}
	if (q->who->pending_cards < LAW_PENDING_CARDS)
		return;
	ret->answer = VERDICT_DENY;
	ret->why = (struct reason){ .code = REASON_REVIEW_REQUIRED,
				    .rule = STR("pending"),
				    .has_numbers = true,
				    .unit = UNIT_CALLS,
				    .counter = q->who->pending_cards,
				    .limit = LAW_PENDING_CARDS };
	(void)snprintf(
	    ret->why.message, sizeof(ret->why.message),
	    "this call needs a review, and %lld of the session's calls wait for one already; the limit is %d",
	    (long long)q->who->pending_cards, LAW_PENDING_CARDS);
}

/* The first call fixes the caller's own limits for this tool; later ones can only be tighter. */
static void take_guard(struct question *q, struct judgement *ret)
{
	const struct call_limits *l = &q->f->limits;
	struct guard_state *g = &q->guard;

	*g = state_guard(q->st, q->f->session, q->f->tool);
	ret->limits_ignored =
	    (l->has_money && g->has_money && l->money > g->money) || (l->repeat && g->repeat && l->repeat > g->repeat);
	if (l->has_money && (!g->has_money || l->money < g->money)) {
		g->has_money = true;
		g->money = l->money;
	}
	if (l->repeat && (!g->repeat || l->repeat < g->repeat))
		g->repeat = l->repeat;
	ret->has_guard_money = g->has_money;
	ret->guard_money = g->money;
	ret->guard_repeat = g->repeat;
}

void judge(const struct policy *pol, const struct state *st, const struct facts *f, int64_t now, struct judgement *ret)
{
	struct question q; /* budget_of[] is written by budget_draws() as far as it is read */

	q.pol = pol;
	q.st = st;
	q.f = f;
	q.who = state_session(st, f->session);
	q.now = now;
	q.j = ret;
	q.draws_cut = false;
	memset(ret, 0, offsetof(struct judgement, draws));
	ret->n_draws = 0;
	q.call = state_call(st, f->session, f->call_hash, f->key, &ret->call_reused);
	take_guard(&q, ret);
	ret->answer = closed_question(&q, &ret->why);
	if (ret->replay)
		return;
	budget_draws(&q);
	if (ret->answer != VERDICT_UNSET)
		return;
	ret->answer = VERDICT_ALLOW;
	ask_all(&q, ret);
	if (ret->answer == VERDICT_REVIEW)
		settle_review(&q, ret);
}
