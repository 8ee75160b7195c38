/* daemon/mediate_review.c - questions to people and their answers, as entries: claim, resolve, abort, breaker reset, operators' keys.
 * Signatures were checked by the door; the order of steps is mediate.c's. Must not touch sockets, files or SQL. */
#include "daemon/mediate_int.h"

#include "policy/laws.h"

int mediate_claim(struct mediator *m, const struct claim_args *a, void *cookie, struct refusal *no)
{
	int64_t now = clock_now(m->clock);
	struct pawl_error err = { .code = PAWL_OK };
	const struct session_state *who;
	struct judgement j;
	struct facts facts;
	struct live *lv;
	int r = mediate_asked(m, &(struct asking){ a->session, a->token, a->call, now }, &who, &lv, &facts, no);

	if (r != 0)
		return r;
	if (claim_prepare(m->state, a->card, &facts, &err) < 0) {
		m->count.malformed++;
		return refuse_err(no, &err);
	}
	judge_claim(m->policy, m->state, &facts, a->card, now, &j);
	if (j.replay)
		return mediate_again(m, j.why.refers, cookie, no);
	return mediate_judged(m, who, lv, a->call, &facts, &j, now, cookie, no);
}

static struct str mode_word(enum card_mode mode)
{
	static const struct str words[CARD_MODE_COUNT] = {
		[CARD_PENDING] = { "pending", 7 }, [CARD_RESUMED] = { "resumed", 7 },	[CARD_SPENT] = { "spent", 5 },	  [CARD_SKIPPED] = { "skipped", 7 },
		[CARD_ABORTED] = { "aborted", 7 }, [CARD_TIMED_OUT] = { "timed out", 9 }, [CARD_CLOSED] = { "closed", 6 },
	};

	return (unsigned)mode < CARD_MODE_COUNT ? words[mode] : STR("unknown");
}

/* The card while it can still be answered. The first answer stands: every other one is told what it was. */
static const struct card_state *open_card(struct mediator *m, uint64_t id, struct refusal *no)
{
	const struct card_state *card = state_card_by_id(m->state, id);
	struct pawl_error err = { .code = PAWL_OK };

	if (!card) {
		(void)pawl_fail_field(&err, "review", "there is no such review");
		(void)refuse_err(no, &err);
		return NULL;
	}
	if (card->mode != CARD_PENDING) {
		(void)refuse(no, REASON_REPLAY_CONFLICT, "r_%llu is %.*s already%s%.*s", (unsigned long long)id, STR_ARG(mode_word(card->mode)),
			     card->operator.n ? ", by " : "", STR_ARG(card->operator));
		return NULL;
	}
	return card;
}

static uint64_t what_ends(const struct session_state *who, bool tree)
{
	return tree ? who->root : who->id;
}

int mediate_resolve(struct mediator *m, const struct resolve_args *a, void *cookie, struct refusal *no)
{
	struct breaker_row rows[PAWL_MAX_BREAKERS];
	int64_t now = clock_now(m->clock);
	struct pawl_error err = { .code = PAWL_OK };
	const struct session_state *who;
	const struct card_state *card;
	struct entry_resolve *res;
	struct entry e;
	int r = mediate_ready(m, now, no);

	card = r == 0 ? open_card(m, a->card, no) : NULL;
	if (!card)
		return (int)no->err.code;
	who = state_session(m->state, card->session);
	if (!who || who->end != SESSION_LIVE)
		return refuse(no, REASON_SESSION_CLOSED, "the session of r_%llu has ended", (unsigned long long)a->card);
	if (a->action == RESOLVE_RESUME && a->has_shown && (card->money > a->shown_money || card->tokens > a->shown_tokens))
		return refuse(no, REASON_REVIEW_REQUIRED, "r_%llu asks for more by now than was shown: look at it again", (unsigned long long)a->card);
	e = mediate_entry(m, ENTRY_RESOLVE, now);
	res = &e.resolve;
	*res = (struct entry_resolve){ .session = card->session, .card = a->card, .action = a->action, .operator = a->by->operator, .key = a->by->key,
				       .reason = a->reason, .money_unit = m->policy->currency };
	memcpy(res->signed_hash, a->by->text_hash, sizeof(res->signed_hash));
	memcpy(res->signature, a->by->signature, sizeof(res->signature));
	if (a->action == RESOLVE_RESUME && review_grants(m->policy, m->state, card, now, res->grants, &res->n_grants, &err) < 0)
		return refuse(no, REASON_BUDGET, "%s", err.msg);
	if (a->action == RESOLVE_ABORT) {
		res->ends = what_ends(who, a->tree);
		res->hold_until = add_sat(now, m->policy->reviews.abort_hold_ns);
		res->n_breakers = breaker_force(m->policy, m->state, who, card->tool, now, rows);
		res->breakers = rows;
	}
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
}

int mediate_abort(struct mediator *m, uint64_t session, bool tree, struct str reason, const struct signed_by *by, void *cookie, struct refusal *no)
{
	int64_t now = clock_now(m->clock);
	const struct session_state *who;
	struct pawl_error err = { .code = PAWL_OK };
	struct entry e;
	int r = mediate_ready(m, now, no);

	if (r < 0)
		return r;
	who = state_session(m->state, session);
	if (!who) {
		(void)pawl_fail_field(&err, "session", "no such session");
		return refuse_err(no, &err);
	}
	if (tree)
		who = state_session(m->state, who->root);
	if (!who || who->end != SESSION_LIVE)
		return refuse(no, REASON_SESSION_CLOSED, "the session has ended already");
	e = mediate_entry(m, ENTRY_SESSION, now);
	e.session = (struct entry_session){ .action = SESSION_ABORT, .session = who->id, .operator = by->operator, .key = by->key, .reason = reason,
					    .hold_until = add_sat(now, m->policy->reviews.abort_hold_ns) };
	memcpy(e.session.signed_hash, by->text_hash, sizeof(e.session.signed_hash));
	memcpy(e.session.signature, by->signature, sizeof(e.session.signature));
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
}

int mediate_breaker_reset(struct mediator *m, const struct breaker_row *row, struct str reason, const struct signed_by *by, void *cookie,
			  struct refusal *no)
{
	int64_t now = clock_now(m->clock);
	struct pawl_error err = { .code = PAWL_OK };
	struct entry e;
	int r = mediate_ready(m, now, no);

	if (r < 0)
		return r;
	e = mediate_entry(m, ENTRY_BREAKER, now);
	e.breaker = (struct entry_breaker){ .operator = by->operator, .key = by->key, .reason = reason };
	memcpy(e.breaker.signed_hash, by->text_hash, sizeof(e.breaker.signed_hash));
	memcpy(e.breaker.signature, by->signature, sizeof(e.breaker.signature));
	if (!breaker_reset(m->state, row, now, &e.breaker.row)) {
		(void)pawl_fail_field(&err, "breaker", "no breaker of this name has counted anything there");
		return refuse_err(no, &err);
	}
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
}

int mediate_key(struct mediator *m, bool enrolled, struct str operator, struct str key, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_KEY, clock_now(m->clock));

	e.key = (struct entry_key){ .enrolled = enrolled, .operator = operator, .key = key };
	return mediate_submit(m, &(struct submission){ .e = &e }, no);
}

bool mediate_gave_up(struct mediator *m, uint64_t card, void *cookie)
{
	const struct card_state *c = m->open ? state_card_by_id(m->state, card) : NULL;
	struct refusal no;
	struct entry e;

	if (!c || c->mode != CARD_PENDING || c->claim_only)
		return false;
	e = mediate_entry(m, ENTRY_TIMEOUT, clock_now(m->clock));
	e.timeout = (struct entry_timeout){ .session = c->session, .card = card, .waiter = true };
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, &no) == 0;
}
