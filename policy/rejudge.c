/* policy/rejudge.c - see rejudge.h. Each kind of entry is made as the hall makes it (daemon/mediate*.c), by the same laws; only what
 * comes from outside is copied from the old one. Owns nothing. */
#include "pawl/rejudge.h"

#include "pawl/settle.h"
#include "policy/laws.h"

#include <stdarg.h>
#include <stdio.h>

struct again { /* what every kind is made from */
	const struct policy *pol, *before;
	const struct state *st;
	const struct entry *was;
	struct rejudged *ret;
};

PAWL_PRINTF(3, 4) static enum rejudged_as say(const struct again *a, enum rejudged_as as, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(a->ret->why, sizeof(a->ret->why), fmt, ap);
	va_end(ap);
	return as;
}

/* Before anything is judged, all deadlines up to now are entries. */
static bool overdue(const struct again *a)
{
	struct deadline due;

	if (!state_next_deadline(a->st, &due) || due.at > a->was->now)
		return false;
	(void)say(a, REJUDGED_NEVER, "the deadline of %c_%llu had passed, and the entry that says so was not written first",
		  due.kind == DEADLINE_CARD ? 'r' : 'd', (unsigned long long)due.id);
	return true;
}

/* ---- decisions and claims ---- */

/* Entries of older logs do not have `asked`: nothing that was asked has left a mark, or it cannot be told what it was. */
static bool asked_is_known(const struct again *a, const struct facts *f)
{
	const struct entry_decision *d = &a->was->decision;
	struct guard_state g = state_guard(a->st, d->session, d->tool);

	if (d->asked.has_money || d->asked.repeat || d->asked.lease_ns)
		return true;
	return !d->limits_ignored && d->has_guard_money == g.has_money && (!g.has_money || d->guard_money == g.money) &&
	       d->guard_repeat == g.repeat && d->lease_until <= add_sat(a->was->now, f->tool_lease_ns);
}

static enum rejudged_as again_decision(const struct again *a)
{
	const struct entry_decision *d = &a->was->decision;
	const struct session_state *who = state_session(a->st, d->session);
	struct judgement *j = &a->ret->judgement;
	bool claim = a->was->kind == ENTRY_CLAIM;
	uint64_t card = d->claims ? d->claims : d->spends; /* what a claim may use up is the card that it names */
	struct pawl_error err = { .msg = "" };
	struct entry_decision *now;
	struct request_call rq;
	struct facts f;

	if (!who)
		return say(a, REJUDGED_NEVER, "there is no session s_%llu", (unsigned long long)d->session);
	facts_again(a->pol, d, who->agent, &rq, &f);
	f.root = who->root;
	if (!asked_is_known(a, &f))
		return say(a, REJUDGED_LACKS, "it does not say which limits the caller asked for");
	if (claim && !card)
		return say(a, REJUDGED_LACKS, "it does not say which review was presented");
	if (claim && claim_prepare(a->st, card, &f, &err) < 0)
		return say(a, REJUDGED_NEVER, "a claim of r_%llu: %s", (unsigned long long)card, err.msg);
	if (claim)
		judge_claim(a->pol, a->st, &f, card, a->was->now, j);
	else
		judge(a->pol, a->st, &f, a->was->now, j);
	if (j->replay)
		return say(a, REJUDGED_NEVER, "the same call was answered before: d_%llu is sent again", (unsigned long long)j->why.refers);
	entry_from_judgement(a->pol, &rq, &f, j, a->was->now, a->was->wall, a->was->seq, &a->ret->e);
	now = &a->ret->e.decision;
	memcpy(now->args_mac, d->args_mac, sizeof(now->args_mac));
	if (claim && !d->claims) /* as old logs have it */
		now->claims = 0;
	if (j->why.code == REASON_ALREADY_SETTLED) { /* copied from the report when that was on disk already */
		now->has_settled_result = d->has_settled_result;
		memcpy(now->settled_result, d->settled_result, sizeof(now->settled_result));
	}
	return REJUDGED_MADE;
}

/* ---- reports and expiries ---- */

static enum rejudged_as again_settle(const struct again *a, const struct entry_settle *s, bool late)
{
	uint64_t session = late ? a->was->loss.session : s->session, decision = late ? a->was->loss.decision : s->decision;
	const struct call_state *call = state_decision(a->st, decision);
	const struct report rep = { .outcome = s->outcome, .has_money = s->has_money, .has_tokens = s->has_tokens, .money = s->money, .tokens = s->tokens };
	struct pawl_error err = { .msg = "" };
	struct entry_settle body = *s;

	if (s->outcome == OUTCOME_NONE || s->outcome >= OUTCOME_EXPIRED)
		return say(a, REJUDGED_NEVER, "nobody reports this outcome");
	if (!call || call->session != session || call->answer != VERDICT_ALLOW)
		return say(a, REJUDGED_NEVER, "d_%llu is no allowed decision of s_%llu", (unsigned long long)decision, (unsigned long long)session);
	if ((call->settled != 0) != late || (late && call->reported))
		return say(a, REJUDGED_NEVER, "d_%llu was %s", (unsigned long long)decision, late && !call->settled ? "still open" : "reported before");
	if (settle_charges(a->pol, a->st, call, &rep, a->was->now, a->ret->charges, a->ret->rows, &body, &err) < 0)
		return say(a, REJUDGED_NEVER, "%s", err.msg);
	body.money_unit = a->pol->currency;
	if (late)
		a->ret->e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = session, .decision = decision, .late = body };
	else
		a->ret->e.settle = body;
	return REJUDGED_MADE;
}

/* The deadline that an expiry or a card's time-out speaks of must be the next one, and have passed. */
static bool is_next(const struct again *a, enum deadline_kind kind, uint64_t id, struct deadline *due)
{
	if (state_next_deadline(a->st, due) && due->kind == kind && due->id == id && due->at <= a->was->now)
		return true;
	(void)say(a, REJUDGED_NEVER, "%c_%llu is not the next deadline, or it had not passed", kind == DEADLINE_CARD ? 'r' : 'd', (unsigned long long)id);
	return false;
}

static enum rejudged_as again_loss(const struct again *a)
{
	const struct entry_loss *l = &a->was->loss;
	const struct call_state *call;
	struct deadline due;

	if (l->what == LOSS_TORN_TAIL)
		return REJUDGED_GIVEN;
	if (l->what == LOSS_LATE_SETTLE)
		return overdue(a) ? REJUDGED_NEVER : again_settle(a, &l->late, true);
	if (!is_next(a, DEADLINE_RESERVATION, l->decision, &due))
		return REJUDGED_NEVER;
	call = state_decision(a->st, due.id);
	a->ret->e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = due.session, .decision = due.id, .breakers = a->ret->rows };
	if (call)
		a->ret->e.loss.n_breakers = breaker_report(a->pol, a->st, call, OUTCOME_EXPIRED, a->was->now, a->ret->rows);
	return REJUDGED_MADE;
}

static enum rejudged_as again_timeout(const struct again *a)
{
	struct deadline due;

	if (a->was->timeout.waiter) /* somebody hung up */
		return REJUDGED_GIVEN;
	if (!is_next(a, DEADLINE_CARD, a->was->timeout.card, &due))
		return REJUDGED_NEVER;
	a->ret->e.timeout = (struct entry_timeout){ .session = due.session, .card = due.id };
	return REJUDGED_MADE;
}

/* ---- sessions ---- */

/* The numbers of `limits` are the client's own: that "25%" was the parent's share then is not said. */
static enum rejudged_as again_open(const struct again *a)
{
	const struct entry_session *was = &a->was->session;
	const struct session_state *parent = was->parent ? state_session(a->st, was->parent) : NULL;
	struct entry_session *now = &a->ret->e.session;
	struct reason why;

	if (was->parent && !parent)
		return say(a, REJUDGED_NEVER, "there is no session s_%llu", (unsigned long long)was->parent);
	if (!session_may_open(a->pol, a->st, parent, was->agent, a->was->now, &now->fresh_end, &why))
		return say(a, REJUDGED_NEVER, "it may not open: %s", why.message);
	now->root = parent ? parent->root : a->was->seq;
	now->lease_ns = a->pol->sessions.lease_ns;
	if (parent && !was->root_dir.p)
		now->root_dir = parent->root_dir;
	return REJUDGED_MADE;
}

static enum rejudged_as again_session(const struct again *a)
{
	const struct entry_session *was = &a->was->session;
	const struct session_state *who;

	if (was->action == SESSION_STALE) /* leases are not in the log; what a stale session leaves is the state's */
		return REJUDGED_GIVEN;
	if (overdue(a))
		return REJUDGED_NEVER;
	if (was->action == SESSION_OPEN)
		return again_open(a);
	who = state_session(a->st, was->session);
	if (!who || who->end != SESSION_LIVE)
		return say(a, REJUDGED_NEVER, "s_%llu is not live", (unsigned long long)was->session);
	if (was->action == SESSION_CLOSE)
		return REJUDGED_GIVEN;
	a->ret->e.session.hold_until = add_sat(a->was->now, a->pol->reviews.abort_hold_ns);
	a->ret->e.session.n_breakers = 0;
	return REJUDGED_MADE;
}

/* ---- the watch: what the kernel saw is given, what breakers make of it is judged ---- */

static enum rejudged_as again_watch(const struct again *a)
{
	struct entry_watch *now = &a->ret->e.watch;
	const struct session_state *who = state_session(a->st, now->session);
	bool first = now->action == WATCHED_ATTACH;

	if (!who || state_tree(a->st, now->session).mode != (first ? TREE_NONE : TREE_LIVE))
		return say(a, REJUDGED_NEVER, "s_%llu is %s", (unsigned long long)now->session, first ? "watched already, or not there" : "not watched");
	if (now->action != WATCHED_KILL && now->action != WATCHED_BREACH && now->action != WATCHED_LOST)
		return REJUDGED_GIVEN;
	if (overdue(a))
		return REJUDGED_NEVER;
	now->n_breakers = breaker_breach(a->pol, a->st, who, a->was->now, a->ret->rows);
	now->breakers = a->ret->rows;
	return REJUDGED_MADE;
}

/* ---- people ---- */

static enum rejudged_as again_resolve(const struct again *a)
{
	const struct card_state *card = state_card_by_id(a->st, a->was->resolve.card);
	const struct session_state *who = card ? state_session(a->st, card->session) : NULL;
	struct entry_resolve *now = &a->ret->e.resolve;
	struct pawl_error err = { .msg = "" };

	if (!who || card->mode != CARD_PENDING || who->end != SESSION_LIVE)
		return say(a, REJUDGED_NEVER, "r_%llu does not wait for an answer", (unsigned long long)a->was->resolve.card);
	if (now->action == RESOLVE_CLOSE) /* a reload looked at the arguments, which are not in the log */
		return REJUDGED_GIVEN;
	if (overdue(a))
		return REJUDGED_NEVER;
	now->session = card->session;
	now->money_unit = a->pol->currency;
	now->n_grants = now->n_breakers = 0;
	if (now->action == RESOLVE_RESUME && review_grants(a->pol, a->st, card, a->was->now, now->grants, &now->n_grants, &err) < 0)
		return say(a, REJUDGED_NEVER, "%s", err.msg);
	if (now->action != RESOLVE_ABORT)
		return REJUDGED_MADE;
	if (now->ends != who->root)
		now->ends = who->id;
	now->hold_until = add_sat(a->was->now, a->pol->reviews.abort_hold_ns);
	now->n_breakers = breaker_force(a->pol, a->st, who, card->tool, a->was->now, a->ret->rows);
	now->breakers = a->ret->rows;
	return REJUDGED_MADE;
}

static enum rejudged_as again_breaker(const struct again *a)
{
	struct breaker_row key = a->was->breaker.row;

	key.would = false; /* a person names a breaker; which mode's row is found says the state */
	if (overdue(a))
		return REJUDGED_NEVER;
	if (!breaker_reset(a->st, &key, a->was->now, &a->ret->e.breaker.row))
		return say(a, REJUDGED_NEVER, "no breaker of this name has counted anything there");
	return REJUDGED_MADE;
}

/* ---- policies ---- */

static const char *verdict_word(enum verdict v)
{
	return v == VERDICT_ALLOW ? "allow" : v == VERDICT_REVIEW ? "review" : "deny";
}

/* Policy entries from before there was shadow mode say no mode: enforce was in force and stays so. Of anything else that has to be said. */
static struct str mode_again(const struct policy *pol, const struct state *st, const struct entry_policy *was)
{
	bool older = was->mode.n == 0 && pol->mode == MODE_ENFORCE && state_mode(st) == MODE_ENFORCE;

	return older ? STR_NONE : policy_mode_word(pol->mode);
}

static enum rejudged_as again_start(const struct again *a)
{
	struct entry_start *now = &a->ret->e.start;

	if (now->budgets.n == 0 && !now->budgets.none)
		return say(a, REJUDGED_LACKS, "it does not say which budgets the policy has");
	policy_diff(NULL, a->st, a->pol, &a->ret->diff);
	now->policy_name = a->pol->name;
	now->mode = policy_mode_word(a->pol->mode);
	now->fallback = str_of(verdict_word(a->pol->fallback));
	now->budgets = a->ret->diff.budgets;
	return REJUDGED_MADE;
}

static enum rejudged_as again_policy(const struct again *a)
{
	struct entry_policy *now = &a->ret->e.policy;

	now->name = a->pol->name;
	if (!now->loaded) { /* a refused file: why it was is not known here, that nothing changes is */
		now->mode = STR_NONE;
		now->budgets = (struct entry_budgets){ .none = false };
		return REJUDGED_MADE;
	}
	if (now->budgets.n == 0 && !now->budgets.none)
		return say(a, REJUDGED_LACKS, "it does not say which budgets the policy has");
	if (!a->before)
		return say(a, REJUDGED_LACKS, "the policy before it was not given");
	policy_diff(a->before, a->st, a->pol, &a->ret->diff);
	now->mode = mode_again(a->pol, a->st, &a->was->policy);
	now->budgets = a->ret->diff.budgets;
	return REJUDGED_MADE;
}

void rejudge_policy_told(const struct policy *pol, const struct state *st, const struct entry *logged, struct rejudged *ret)
{
	ret->e = *logged;
	policy_diff(NULL, st, pol, &ret->diff);
	ret->e.policy.name = pol->name;
	ret->e.policy.mode = mode_again(pol, st, &logged->policy);
	ret->e.policy.budgets = ret->diff.budgets;
}

/* ---- snapshots ---- */

/* The one at an orderly end stands where the state is; of one that was stored while others were answered that state has gone by. */
static enum rejudged_as again_snapshot(const struct again *a)
{
	uint8_t v5[32];

	if ((uint64_t)a->was->snapshot.at > a->was->seq)
		return say(a, REJUDGED_NEVER, "a snapshot of what is still to come");
	if ((uint64_t)a->was->snapshot.at != state_next_seq(a->st))
		return REJUDGED_GIVEN;
	state_digest(a->st, a->ret->e.snapshot.sha256);
	if (memcmp(a->ret->e.snapshot.sha256, a->was->snapshot.sha256, sizeof(v5)) != 0 && state_digest_v5(a->st, v5) &&
	    memcmp(v5, a->was->snapshot.sha256, sizeof(v5)) == 0) /* by a pawld of before the watch */
		memcpy(a->ret->e.snapshot.sha256, v5, sizeof(v5));
	return REJUDGED_MADE;
}

/* ---- all of it ---- */

enum rejudged_as rejudge(const struct policy *pol, const struct policy *before, const struct state *st, const struct entry *logged,
			 struct rejudged *ret)
{
	const struct again a = { pol, before, st, logged, ret };

	ret->e = *logged;
	ret->why[0] = '\0';
	switch (logged->kind) {
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		return overdue(&a) ? REJUDGED_NEVER : again_decision(&a);
	case ENTRY_SETTLE:
		return overdue(&a) ? REJUDGED_NEVER : again_settle(&a, &logged->settle, false);
	case ENTRY_SESSION:
		return again_session(&a);
	case ENTRY_RESOLVE:
		return again_resolve(&a);
	case ENTRY_BREAKER:
		return again_breaker(&a);
	case ENTRY_LOSS:
		return again_loss(&a);
	case ENTRY_TIMEOUT:
		return again_timeout(&a);
	case ENTRY_START:
		return again_start(&a);
	case ENTRY_POLICY:
		return again_policy(&a);
	case ENTRY_SNAPSHOT:
		return again_snapshot(&a);
	case ENTRY_WATCH:
		return again_watch(&a);
	case ENTRY_NONE:
	case ENTRY_STOP:
	case ENTRY_KEY:
	case ENTRY_THROTTLE:
	case ENTRY_KIND_COUNT:
		break;
	}
	return REJUDGED_GIVEN;
}
