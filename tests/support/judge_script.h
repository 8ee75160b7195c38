/* tests/support/judge_script.h - scripts for the judge: a policy, what is asked, reported and answered as time passes,
 * and each answer with its reason. All in headers, so that only tests that want it link policy/. */
#ifndef PAWL_TESTS_JUDGE_SCRIPT_H
#define PAWL_TESTS_JUDGE_SCRIPT_H
#include "tests/support/judge_world.h"

static inline uint64_t allowed_back(const struct world *w, int back)
{
	assert_true((size_t)back < w->n_allowed);
	return w->allowed[w->n_allowed - 1 - (size_t)back];
}

/* As the spine does with keyed digests: equal text, equal token. */
static inline bool token_of(const char *text, uint8_t out[static 16])
{
	uint64_t h = UINT64_C(1469598103934665603);

	for (const char *p = text; p && *p; p++)
		h = (h ^ (uint8_t)*p) * UINT64_C(1099511628211);
	memset(out, 0, 16);
	if (text)
		memcpy(out, &h, sizeof(h));
	return text != NULL;
}

static inline void settle_one(struct world *w, const struct step *s, uint64_t seq)
{
	static struct charge charges[PAWL_MAX_LEDGERS];
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct report rep = { .outcome = s->outcome ? s->outcome : OUTCOME_OK,
			      .has_money = s->money != NULL,
			      .has_tokens = s->tokens != 0,
			      .tokens = s->tokens };
	const struct call_state *call = state_decision(w->a, seq);
	struct entry_settle body = {
		.session = call->session, .decision = seq, .outcome = rep.outcome, .duration_ns = -1, .money_unit = w->pol->currency
	};
	struct pawl_error err = { .code = PAWL_OK };
	struct entry e = blank(w, call->settled ? ENTRY_LOSS : ENTRY_SETTLE);

	if (s->money && money_parse(str_of(s->money), MONEY_UP, &rep.money, &err) != 0)
		fail_msg("%s", err.msg);
	if (settle_charges(w->pol, w->a, call, &rep, w->now, charges, rows, &body, &err) != 0)
		fail_msg("%s, step %zu: %s", w->script->name, w->step, err.msg);
	body.has_money = rep.has_money;
	body.money = rep.money;
	body.has_tokens = rep.has_tokens;
	body.tokens = rep.tokens;
	body.same[0] = 1;
	body.has_result_token = token_of(s->result, body.result_token);
	body.has_error = body.has_error_token = token_of(s->error, body.error_token);
	body.has_result = body.has_result_token;
	if (call->settled)
		e.loss = (struct entry_loss){
			.what = LOSS_LATE_SETTLE, .session = call->session, .decision = seq, .late = body
		};
	else
		e.settle = body;
	put(w, &e);
	for (size_t i = 0; i < body.n_charges;
	     i++) { /* what the entry says of a ledger is what the state makes of it */
		struct ledger_state led = state_ledger(w->a, &charges[i].draw.key, w->now);

		if (led.spent + led.reserved != charges[i].draw.used || led.window_end != charges[i].draw.window_end)
			fail_msg("%s, step %zu: %lld used", w->script->name, w->step, (long long)charges[i].draw.used);
	}
}

static inline void end_session(struct world *w, enum session_action how)
{
	struct entry e = blank(w, ENTRY_SESSION);

	e.session = (struct entry_session){ .action = how, .session = w->session };
	put(w, &e);
}

static inline void abort_session(struct world *w, bool tree)
{
	struct entry e = blank(w, ENTRY_SESSION);

	e.session = (struct entry_session){ .action = SESSION_ABORT,
					    .session = tree ? here(w)->root : w->session,
					    .operator= STR("ann"),
					    .hold_until = w->now + w->pol->reviews.abort_hold_ns };
	put(w, &e);
}

static inline void answer(struct world *w, const struct step *s)
{
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	const struct card_state *card = state_card_by_id(w->a, card_of(w, s->card));
	struct entry e = blank(w, ENTRY_RESOLVE);
	struct entry_resolve *r = &e.resolve;
	struct pawl_error err = { .code = PAWL_OK };

	assert_non_null(card);
	*r = (struct entry_resolve){ .session = card->session,
				     .card = card->id,
				     .action = s->action,
				     .operator= STR("ann"),
				     .money_unit = w->pol->currency };
	if (s->action == RESOLVE_RESUME &&
	    (review_grants(w->pol, w->a, card, w->now, r->grants, &r->n_grants, &err) != 0) != s->refused)
		fail_msg("%s, step %zu: %s", w->script->name, w->step, err.msg);
	if (s->refused) {
		if (s->says && strcmp(s->says, err.msg) != 0)
			fail_msg("%s, step %zu: %s", w->script->name, w->step, err.msg);
		return;
	}
	if (s->action == RESOLVE_ABORT) {
		const struct session_state *who = state_session(w->a, card->session);

		r->ends = s->tree ? who->root : who->id;
		r->hold_until = w->now + w->pol->reviews.abort_hold_ns;
		r->breakers = rows;
		r->n_breakers = breaker_force(w->pol, w->a, who, card->tool, w->now, rows);
	}
	put(w, &e);
}

static inline void reset(struct world *w, const struct step *s)
{
	for (size_t i = 0; i < w->pol->n_breakers; i++) {
		const struct breaker *b = &w->pol->breakers[i];
		struct breaker_row key = breaker_key(b, here(w)->root, STR("local"), str_of(s->tool));
		struct entry e = blank(w, ENTRY_BREAKER);

		if (!str_is(b->id, s->rule))
			continue;
		e.breaker.operator= STR("ann");
		assert_true(breaker_reset(w->a, &key, w->now, &e.breaker.row));
		put(w, &e);
		return;
	}
	fail_msg("%s, step %zu: no breaker %s", w->script->name, w->step, s->rule);
}

static inline void watched(struct world *w, enum watched_action action)
{
	static const struct watched_program one = { .path = { "/bin/nc", 7 }, .pid = 9, .count = 1 };
	struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct entry e = blank(w, ENTRY_WATCH);

	e.watch = (struct entry_watch){ .action = action, .session = w->session, .why = WHY_MEMORY, .pid = 9, .total = 1, .events = 1, .tier = STR("B"),
					.breakers = rows };
	if (action == WATCHED_EXECS || action == WATCHED_KILL) {
		e.watch.programs = &one;
		e.watch.n_programs = 1;
	}
	if (action == WATCHED_KILL || action == WATCHED_BREACH || action == WATCHED_LOST)
		e.watch.n_breakers = breaker_breach(w->pol, w->a, here(w), w->now, rows);
	put(w, &e);
}

static inline void may_open(struct world *w, const struct step *s)
{
	struct reason why;
	int64_t end;
	bool may = session_may_open(w->pol, w->a, s->child ? state_session(w->a, w->session) : NULL, STR("local"),
				    w->now, &end, &why);

	if (may != (s->want == VERDICT_ALLOW) || why.code != s->code || (s->rule && !str_is(why.rule, s->rule)) ||
	    (s->says && strcmp(why.message, s->says) != 0))
		fail_msg("%s, step %zu: %d %s by \"%.*s\": %s", w->script->name, w->step, may, reason_name(why.code),
			 STR_ARG(why.rule), why.message);
}

static inline void reload(struct world *w, const char *text)
{
	struct entry e = blank(w, ENTRY_POLICY);

	policy_free(w->pol);
	w->pol = load(text);
	e.policy = (struct entry_policy){ .loaded = true, .mode = policy_mode_word(w->pol->mode) };
	put(w, &e);
}

static inline void do_step(struct world *w, const struct step *s)
{
	switch (s->op) {
	case ASK:
	case CLAIM:
		for (int i = 0; i < (s->times ? s->times : 1); i++)
			ask(w, s, i + 1);
		break;
	case SETTLE:
		if (!s->settle_all)
			settle_one(w, s, allowed_back(w, s->back));
		for (size_t i = w->n_open; s->settle_all && i > 0; i--)
			settle_one(w, s, allowed_back(w, (int)i - 1));
		w->n_open = 0;
		break;
	case EXPIRE:
		w->now = state_decision(w->a, allowed_back(w, s->back))->lease_until;
		write_due(w);
		break;
	case PASS:
		w->now += s->seconds * SEC;
		write_due(w);
		break;
	case OPEN:
		open_session(w, s);
		break;
	case CLOSE:
		end_session(w, SESSION_CLOSE);
		break;
	case STALE:
		end_session(w, SESSION_STALE);
		break;
	case RELOAD:
		reload(w, s->policy);
		break;
	case USE:
		assert_true(s->at > 0 && (size_t)s->at <= w->n_sessions);
		w->session = w->sessions[s->at - 1];
		break;
	case ANSWER:
		answer(w, s);
		break;
	case KILL:
		abort_session(w, s->tree);
		break;
	case RESET:
		reset(w, s);
		break;
	case WATCHED:
		watched(w, s->watched);
		break;
	case MAY_OPEN:
		may_open(w, s);
		break;
	case END:
		break;
	}
}

static inline struct world world_new(const struct script *script)
{
	struct world w = {
		.script = script, .pol = load(script->policy), .now = 1000000 * SEC, .scratch = BUF_MAX(4 << 20)
	};
	struct entry e;

	assert_int_equal(state_new(&w.a, NULL), 0);
	assert_int_equal(state_new(&w.b, NULL), 0);
	e = blank(&w, ENTRY_START);
	e.start.mode = policy_mode_word(w.pol->mode);
	put(&w, &e);
	if (script->steps[0].op != OPEN || script->steps[0].child)
		open_session(&w, NULL);
	return w;
}

static inline void world_done(struct world *w)
{
	uint8_t x[32], y[32];

	state_digest(w->a, x);
	state_digest(w->b, y);
	assert_memory_equal(x, y, sizeof(x));
	state_free(w->a);
	state_free(w->b);
	policy_free(w->pol);
	buf_done(&w->scratch);
}

static inline void run(const struct script *scripts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct world w = world_new(&scripts[i]);

		for (w.step = 0; w.step < PAWL_LEN(scripts[i].steps) && scripts[i].steps[w.step].op != END; w.step++)
			do_step(&w, &scripts[i].steps[w.step]);
		world_done(&w);
	}
}

#endif
