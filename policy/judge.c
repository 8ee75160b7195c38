/* policy/judge.c - facts x state x now -> verdict. Pure: no I/O, no clock, no memory but the caller's.
 * All laws are asked and the strictest answer wins; one table ranks the reasons among equals. */
#include "policy/laws.h"

#include <stdio.h>

static enum verdict say(struct reason *why, enum verdict answer, enum reason_code code)
{
	why->code = code;
	return answer;
}

static bool same_client(const struct question *q)
{
	return memcmp(q->call->client, q->f->client, sizeof(q->f->client)) == 0;
}

/* ---- what laws find ---- */

/* Which reason is named among equal verdicts: the lowest. 0 is for codes that no law uses. */
static const uint8_t rank[REASON_COUNT] = {
	[REASON_WATCH_REQUIRED] = 1, /* whatever the call is: nothing that this session asks is answered otherwise */
	[REASON_RULE] = 2,
	[REASON_STICKY_DENIAL] = 3,
	[REASON_TRANSITIVE] = 4,
	[REASON_BREAKER_OPEN] = 5,
	[REASON_LOOP_CYCLE] = 6,
	[REASON_LOOP_ERROR] = 7,
	[REASON_LOOP_RESULT] = 8,
	[REASON_LOOP_SIMILAR] = 9,
	[REASON_LOOP_REPEAT] = 10,
	[REASON_BUDGET] = 11,
	[REASON_FLOOR] = 12,
	[REASON_IN_DOUBT] = 13,
	[REASON_REVIEW_SKIPPED] = 14,
	[REASON_REVIEW_ABORTED] = 15,
	[REASON_REVIEW_TIMEOUT] = 16,
	[REASON_POLICY_CHANGED] = 17,
	[REASON_REVIEW_REQUIRED] = 18,
	[REASON_DEFAULT] = 19,
};

static void found(struct question *q, enum verdict v, const struct reason *why)
{
	struct judgement *j = q->j;

	if (v == VERDICT_UNSET)
		v = VERDICT_DENY; /* a law that forgot to answer is a no */
	if (v > j->answer || (v == j->answer && (j->why.code == REASON_OK || rank[why->code] < rank[j->why.code]))) {
		j->answer = v;
		j->why = *why;
	}
}

static bool in_asks(const struct ask *asks, size_t n, const struct reason *why)
{
	for (size_t i = 0; i < n; i++)
		if (asks[i].code == why->code && str_eq(asks[i].rule, why->rule) && asks[i].refers == why->refers)
			return true;
	return false;
}

static void add_ask(struct question *q, const struct reason *why)
{
	struct judgement *j = q->j;

	if (in_asks(j->asks, j->n_asks, why))
		return;
	if (j->n_asks == PAWL_MAX_ASKS) {
		q->asks_cut = true;
		return;
	}
	j->asks[j->n_asks++] = (struct ask){ why->code, why->rule, why->refers };
}

void law_found(struct question *q, enum verdict v, const struct reason *why)
{
	if (v == VERDICT_REVIEW) {
		/* kept among the asks also when answered: if another reason remains, the next card asks for the whole
		 */
		add_ask(q, why);
		if (q->approved && in_asks(q->approved->asks, q->approved->n_asks, why))
			return;
	}
	found(q, v, why);
}

void law_found_firm(struct question *q, enum verdict v, const struct reason *why)
{
	if (v == VERDICT_REVIEW)
		add_ask(q, why);
	found(q, v, why);
}

/* ---- replay: has this very call been answered before? ---- */

void doubt_reason(const struct question *q, struct reason *why)
{
	why->refers = q->call->seq;
	(void)snprintf(why->message, sizeof(why->message),
		       "another process was allowed this call (d_%llu) and has not reported: it may have run",
		       (unsigned long long)q->call->seq);
}

void doubt_law(struct question *q)
{
	struct reason why = { .code = REASON_IN_DOUBT };

	if (!q->call || q->call->answer != VERDICT_ALLOW || same_client(q))
		return;
	doubt_reason(q, &why);
	q->in_doubt = !(q->approved && in_asks(q->approved->asks, q->approved->n_asks, &why));
	law_found(q, VERDICT_REVIEW, &why);
}

/* A claim that was refused may be tried again: nothing ran, and its approval is kept. */
static bool is_replay(const struct question *q)
{
	const struct call_state *c = q->call;

	if (!c || c->settled || !same_client(q) || c->claim != (q->j->claim != 0))
		return false;
	return c->claim ? c->answer == VERDICT_ALLOW && c->card == q->j->claim : c->answer != VERDICT_REVIEW;
}

static const char *outcome_word(enum outcome o)
{
	static const char *const words[OUTCOME_COUNT] = { "is open",       "ended ok",    "ended in an error",
							  "was cancelled", "did not run", "was never reported" };

	return (unsigned)o < OUTCOME_COUNT ? words[o] : "ended";
}

/* The decision by which a claim has taken what this question asks for; 0 = none has. */
static uint64_t claimed_by(const struct question *q)
{
	const struct call_state *c = q->call, *by;
	const struct card_state *joined;

	if (q->j->claim) {
		if (q->card && q->card->spent_by)
			return q->card->spent_by;
		/* allowed to the very process that asks, and not by this claim: it must not run twice */
		return c && c->answer == VERDICT_ALLOW && same_client(q) ? c->seq : 0;
	}
	if (!c)
		return 0;
	if (c->answer == VERDICT_ALLOW)
		return c->claim ? c->seq : 0;
	joined = c->card ? state_card_by_id(q->st, c->card) : NULL;
	by = joined && joined->spent_by ? state_decision(q->st, joined->spent_by) : NULL;
	return by && by->claim ? by->seq : 0;
}

/* ---- what no other law can change: the session is over or used up, the call is answered. UNSET = go on ---- */

static enum verdict over(const struct question *q, struct reason *why)
{
	static const enum reason_code code[] = { [SESSION_LIVE] = REASON_SESSION_CLOSED,
						 [SESSION_ENDED_CLOSE] = REASON_SESSION_CLOSED,
						 [SESSION_ENDED_STALE] = REASON_STALE_SESSION,
						 [SESSION_ENDED_ABORT] = REASON_SESSION_ABORTED };
	bool aborted = q->who && q->who->end == SESSION_ENDED_ABORT;

	(void)snprintf(why->message, sizeof(why->message), "session s_%llu %s", (unsigned long long)q->f->session,
		       aborted ? "was aborted by a person" : "is over: open a new one");
	return say(why, VERDICT_DENY,
		   q->who && (unsigned)q->who->end < PAWL_LEN(code) ? code[q->who->end] : REASON_SESSION_CLOSED);
}

static enum verdict used_up(const struct question *q, struct reason *why)
{
	int64_t calls = q->pol->sessions.calls;

	why->has_numbers = true;
	why->unit = UNIT_CALLS;
	why->counter = q->who->decisions;
	why->limit = calls;
	why->rule = STR("calls");
	(void)snprintf(why->message, sizeof(why->message),
		       "session s_%llu has had %lld decisions; sessions.calls is %lld", (unsigned long long)q->who->id,
		       (long long)q->who->decisions, (long long)calls);
	return say(why, VERDICT_DENY, REASON_SESSION_LIMIT);
}

static enum verdict closed_question(const struct question *q, struct reason *why)
{
	if (!q->who || q->who->end != SESSION_LIVE)
		return over(q, why);
	if (is_replay(q)) {
		why->refers = q->call->seq;
		q->j->replay = true;
		return say(why, q->call->answer, REASON_OK);
	}
	if (q->who->decisions >=
	    q->pol->sessions.calls) /* before already_settled: nothing may grow in such a session */
		return used_up(q, why);
	if (q->call && q->call->answer == VERDICT_ALLOW && q->call->settled) {
		why->refers = q->call->seq;
		q->j->settled = q->call->outcome;
		(void)snprintf(why->message, sizeof(why->message),
			       "this call was allowed before (d_%llu) and %s: a new call needs a new id",
			       (unsigned long long)q->call->seq, outcome_word(q->call->outcome));
		return say(why, VERDICT_DENY, REASON_ALREADY_SETTLED);
	}
	why->refers = claimed_by(q);
	if (!why->refers)
		return names_full(q, why) ? VERDICT_DENY : VERDICT_UNSET;
	(void)snprintf(why->message, sizeof(why->message),
		       "the permit for this call was handed out already (d_%llu): a new call needs a new id",
		       (unsigned long long)why->refers);
	return say(why, VERDICT_DENY, REASON_ALREADY_CLAIMED);
}

/* ---- rules and the default ---- */

void rule_law(struct question *q)
{
	for (enum verdict v = VERDICT_DENY; v >= VERDICT_ALLOW; v--) {
		const struct rule_hit *hit = &q->f->hit[v];
		struct reason why = { .code = v == VERDICT_ALLOW ? REASON_OK : REASON_RULE };

		if (hit->rule < 0)
			continue;
		why.rule = q->pol->rules[hit->rule].id;
		if (v != VERDICT_ALLOW)
			(void)snprintf(why.message, sizeof(why.message), "rule %.*s %s %.*s%s", STR_ARG(why.rule),
				       v == VERDICT_DENY ? "denies" : "asks a person about", STR_ARG(q->f->tool),
				       hit->by_failure
					   ? ": one of its conditions could not be decided, which counts as a match"
					   : "");
		law_found(q, v, &why);
		return;
	}
}

void default_law(struct question *q)
{
	struct reason why = { .code = REASON_DEFAULT };
	enum verdict fallback = q->pol->fallback;

	for (enum verdict v = VERDICT_ALLOW; v <= VERDICT_DENY; v++)
		if (q->f->hit[v].rule >= 0)
			return;
	if (fallback == VERDICT_UNSET)
		fallback = VERDICT_DENY; /* silence is no */
	(void)snprintf(why.message, sizeof(why.message), "no rule fits this call of %.*s; the policy's default is %s",
		       STR_ARG(q->f->tool),
		       fallback == VERDICT_ALLOW    ? "allow"
		       : fallback == VERDICT_REVIEW ? "review"
						    : "deny");
	law_found(q, fallback, &why);
}

/* ---- the watch ---- */

/* A tree that has ended watches nobody: its session is about to be closed. */
void watch_law(struct question *q)
{
	struct reason why = { .code = REASON_WATCH_REQUIRED, .rule = STR("watch") };

	if (q->pol->watch.exec != WATCH_EXEC_REQUIRED || state_watched(q->st, q->who))
		return;
	(void)snprintf(why.message, sizeof(why.message),
		       "session s_%llu does not run under watch, and watch.exec is required: start it with `pawl run`",
		       (unsigned long long)q->who->id);
	law_found(q, VERDICT_DENY, &why);
}

/* ---- all of it ---- */

static law_check *const laws[] = { rule_law,   watch_law, denial_law, breaker_law, loop_law,
				   budget_law, doubt_law, review_law, default_law };

/* Every deny rule that truly matched is remembered, whichever reason is named. */
static void take_sticks(const struct question *q)
{
	struct judgement *j = q->j;

	if (j->answer != VERDICT_DENY)
		return;
	for (size_t i = 0; i < q->f->n_sticks && i < PAWL_MAX_STICKS; i++) {
		const struct rule *r = &q->pol->rules[q->f->sticks[i]];

		if (r->sticky != STICK_NEVER)
			j->sticks[j->n_sticks++] = (struct stick_fact){ .how = r->sticky, .tool = q->f->tool, .rule = r->id };
	}
}

/* The first call fixes the caller's own limits for this tool; later ones can only be tighter. */
static void take_guard(struct question *q)
{
	const struct call_limits *l = &q->f->limits;
	struct guard_state *g = &q->guard;
	struct judgement *j = q->j;

	*g = state_guard(q->st, q->f->session, q->f->tool);
	j->limits_ignored =
	    (l->has_money && g->has_money && l->money > g->money) || (l->repeat && g->repeat && l->repeat > g->repeat);
	if (l->has_money && (!g->has_money || l->money < g->money)) {
		g->has_money = true;
		g->money = l->money;
	}
	if (l->repeat && (!g->repeat || l->repeat < g->repeat))
		g->repeat = l->repeat;
	j->has_guard_money = g->has_money;
	j->guard_money = g->money;
	j->guard_repeat = g->repeat;
}

/* The amounts that the person was shown. */
static bool within(const struct facts *f, const struct card_state *card)
{
	return (!f->cost_known || f->money <= card->money) && (!f->tokens_known || f->tokens <= card->tokens);
}

static void take_card(struct question *q)
{
	bool approved;

	q->newest = state_card(q->st, q->f->session, q->f->card);
	q->card = q->j->claim ? state_card_by_id(q->st, q->j->claim) : q->newest;
	approved = q->card && q->card->mode == CARD_RESUMED;
	q->larger = approved && !within(q->f, q->card);
	/* A13: its waiter gave up before the answer came. The late approval is kept for a claim; whoever asks now is asked about anew. So is
	 * who wants more than was shown. */
	if (!q->j->claim && approved && (q->card->claim_only || q->larger))
		q->card = NULL;
	q->approved = q->card && approved && !q->larger && q->card->until > q->now ? q->card : NULL;
}

static void judge_any(struct question *q)
{
	struct judgement *j = q->j;

	q->who = state_session(q->st, q->f->session);
	q->call = state_call(q->st, q->f->session, q->f->call_hash, q->f->key, &j->call_reused);
	take_guard(q);
	take_card(q);
	j->answer = closed_question(q, &j->why);
	if (j->replay)
		return;
	budget_draws(q);
	if (j->answer != VERDICT_UNSET)
		return;
	j->answer = VERDICT_ALLOW;
	for (size_t i = 0; i < PAWL_LEN(laws); i++)
		laws[i](q);
	review_settle(q);
	take_sticks(q);
	breaker_effects(q);
	shadow_answer(q);
}

/* The big arrays of both structs are written only as far as they are read. */
static void start(struct question *q, const struct policy *pol, const struct state *st, const struct facts *f,
		  uint64_t claim, int64_t now, struct judgement *ret)
{
	memset(ret, 0, offsetof(struct judgement, draws));
	ret->n_draws = ret->n_sticks = ret->n_trips = ret->n_asks = ret->n_breakers = 0;
	ret->spends = 0;
	ret->claim = claim;
	q->pol = pol;
	q->st = st;
	q->f = f;
	q->now = now;
	q->j = ret;
	q->in_doubt = q->asks_cut = q->draws_cut = false;
}

void judge(const struct policy *pol, const struct state *st, const struct facts *f, int64_t now, struct judgement *ret)
{
	struct question q;

	start(&q, pol, st, f, 0, now, ret);
	judge_any(&q);
}

void judge_claim(const struct policy *pol, const struct state *st, const struct facts *f, uint64_t card, int64_t now,
		 struct judgement *ret)
{
	struct question q;

	start(&q, pol, st, f, card, now, ret);
	judge_any(&q);
}
