/* tests/support/judge_script.h - scripts for the judge: a policy, what is asked and reported as time passes, and each
 * answer with its reason. Every question is judged twice, in a second state and on a copy; every entry is fed to both
 * states; at the end they must be equal. All in a header, so that only tests that want it link policy/. */
#ifndef PAWL_TESTS_JUDGE_SCRIPT_H
#define PAWL_TESTS_JUDGE_SCRIPT_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "pawl/settle.h"
#include "policy/laws.h"
#include "policy/money.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define SEC         NS_PER_SEC
#define RULES(text) "pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\n" text "...\n"
#define A           VERDICT_ALLOW
#define R           VERDICT_REVIEW
#define D           VERDICT_DENY

enum op { END, ASK, SETTLE, PASS, OPEN, CLOSE, STALE, RELOAD };
struct step {
	enum op op;
	/* ask */
	const char *tool, *args, *call; /* call NULL: a new id */
	int times;                      /* 0 = once */
	uint8_t client;
	enum call_kind kind;
	const char *money; /* estimate; settle: the report */
	int64_t tokens;    /* 0 = not said, -1 = said to be 0 */
	const char *limit_money;
	int64_t limit_repeat;
	enum verdict want;
	enum reason_code code;
	const char *rule, *says; /* NULL = not looked at */
	bool replay, ignored, reused;
	/* settle: of the newest allowed call; outcome */
	enum outcome outcome;
	bool settle_all;
	int64_t seconds;         /* pass */
	int64_t own[UNIT_COUNT]; /* open: limits, 0 = none; money in nano-units, time in ns */
	const char *policy;      /* reload */
};

struct script {
	const char *name, *policy;
	struct step steps[24];
};

/* ---- a world in which scripts run ---- */

struct world {
	const struct script *script;
	size_t step;
	struct policy *pol;
	struct state *a, *b;
	int64_t now;
	uint64_t session, last_allowed;
	uint64_t open[64];
	size_t n_open;
	int calls;
	struct buf scratch;
};

static const uint8_t secret[32] = { 5, 4, 3 };

static inline struct policy *load(const char *text)
{
	struct policy_report rep = { .rows = NULL };
	struct pawl_error err = { .code = PAWL_OK };
	struct policy *pol = NULL;

	if (policy_load(str_of(text), "test.yaml", &pol, &rep, &err) != 0)
		fail_msg("%s\n%u:%u: %s", text, err.line, err.column, err.msg);
	policy_report_done(&rep);
	return pol;
}

static inline void put(struct world *w, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (state_room(w->a, e, &err) != 0 || state_room(w->b, e, &err) != 0)
		fail_msg("%s, step %zu: %s", w->script->name, w->step, err.msg);
	state_apply(w->a, e);
	state_apply(w->b, e);
}

static inline struct entry blank(const struct world *w, enum entry_kind kind)
{
	return (struct entry){ .kind = kind, .seq = state_next_seq(w->a), .now = w->now };
}

static inline void open_session(struct world *w, const struct step *s)
{
	struct entry e = blank(w, ENTRY_SESSION);

	e.session = (struct entry_session){
		.session = e.seq, .root = e.seq, .agent = STR("local"), .labels_text = STR("{}"), .lease_ns = 60 * SEC
	};
	for (int u = 0; s && u < UNIT_COUNT; u++) {
		e.session.has_limit[u] = s->own[u] != 0;
		e.session.limit[u] = s->own[u];
	}
	put(w, &e);
	w->session = e.seq;
}

/* As the spine does: what is due at now is written first, in order. */
static inline void write_due(struct world *w)
{
	struct deadline due;

	while (state_next_deadline(w->a, &due) && due.at <= w->now) {
		struct entry e = blank(w, due.kind == DEADLINE_CARD ? ENTRY_TIMEOUT : ENTRY_LOSS);

		if (due.kind == DEADLINE_CARD)
			e.timeout = (struct entry_timeout){ due.session, due.id };
		else
			e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED,
						      .session = due.session,
						      .decision = due.id };
		put(w, &e);
	}
}

static inline void text_of_judgement(const struct judgement *j, struct buf *b)
{
	buf_reset(b);
	buf_printf(b, "%d %s %.*s|%s|%d %d %lld %lld %llu|%d %d %llu %lld|%d %lld %lld %d %d|", j->answer,
		   reason_name(j->why.code), STR_ARG(j->why.rule), j->why.message, j->why.has_numbers, j->why.unit,
		   (long long)j->why.counter, (long long)j->why.limit, (unsigned long long)j->why.refers, j->replay,
		   j->call_reused, (unsigned long long)j->card, (long long)j->card_until, j->has_guard_money,
		   (long long)j->guard_money, (long long)j->guard_repeat, j->limits_ignored, j->settled);
	for (size_t i = 0; i < j->n_draws; i++) {
		const struct draw *d = &j->draws[i];

		buf_printf(b, "%.*s/%d/%llu/%.*s/%.*s/%d %lld %lld %lld|", STR_ARG(d->key.budget), d->key.scope,
			   (unsigned long long)d->key.session, STR_ARG(d->key.owner), STR_ARG(d->key.tool), d->unit,
			   (long long)d->amount, (long long)d->used, (long long)d->limit);
	}
	assert_true(buf_ok(b));
}

/* P5: the same policy, state and facts, the same answer: again, in the second state, and in a copy. */
static inline void judge_thrice(struct world *w, const struct facts *f, struct judgement *ret)
{
	static struct judgement again;
	struct buf one = BUF_MAX(1 << 20), two = BUF_MAX(1 << 20);
	struct state *copy;

	judge(w->pol, w->a, f, w->now, ret);
	text_of_judgement(ret, &one);
	judge(w->pol, w->a, f, w->now, &again);
	text_of_judgement(&again, &two);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	judge(w->pol, w->b, f, w->now, &again);
	text_of_judgement(&again, &two);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	assert_int_equal(state_clone(w->a, &copy, NULL), 0);
	judge(w->pol, copy, f, w->now, &again);
	text_of_judgement(&again, &two);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	state_free(copy);
	buf_done(&one);
	buf_done(&two);
}

static inline void check_answer(const struct world *w, const struct step *s, const struct judgement *j, int time)
{
	if (j->answer != s->want || (!s->replay && j->why.code != s->code) || j->replay != s->replay ||
	    j->limits_ignored != s->ignored || j->call_reused != s->reused ||
	    (s->rule && !str_is(j->why.rule, s->rule)) || (s->says && strcmp(j->why.message, s->says) != 0))
		fail_msg("%s, step %zu, time %d: %d %s by \"%.*s\": %s", w->script->name, w->step, time, j->answer,
			 reason_name(j->why.code), STR_ARG(j->why.rule), j->why.message);
}

static inline void facts_for(struct world *w, const struct step *s, struct request_call *rq, struct facts *f)
{
	struct caller who = { .session = w->session, .root = w->session, .agent = STR("local"), .secret = secret };
	struct pawl_error err = { .code = PAWL_OK };
	struct json *args;

	if (json_parse(str_of(s->args ? s->args : "{}"), PAWL_MAX_DEPTH, &args, &err) != 0)
		fail_msg("%s: %s", s->args, err.msg);
	rq->client[0] = s->client;
	rq->kind = s->kind;
	rq->tool = str_of(s->tool);
	rq->args = args;
	rq->has_money = s->money != NULL;
	if (s->money && money_parse(str_of(s->money), MONEY_UP, &rq->money, &err) != 0)
		fail_msg("%s", err.msg);
	rq->has_tokens = s->tokens != 0;
	rq->tokens = s->tokens > 0 ? s->tokens : 0;
	rq->limits.has_money = s->limit_money != NULL;
	if (s->limit_money && money_parse(str_of(s->limit_money), MONEY_EXACT, &rq->limits.money, &err) != 0)
		fail_msg("%s", err.msg);
	rq->limits.repeat = s->limit_repeat;
	if (facts_of(w->pol, rq, &who, NULL, &w->scratch, f, &err) != 0)
		fail_msg("%s, step %zu: %s: %s", w->script->name, w->step, err.field, err.msg);
	json_free(args);
	rq->args = NULL;
}

static inline void ask(struct world *w, const struct step *s, int time)
{
	static struct judgement j;
	struct request_call rq = { .client = { 0 } };
	char call[32];
	struct facts f;
	struct entry e;

	(void)snprintf(call, sizeof(call), "c-%d", w->calls++);
	rq.call = str_of(s->call ? s->call : call);
	facts_for(w, s, &rq, &f);
	judge_thrice(w, &f, &j);
	check_answer(w, s, &j, time);
	if (j.replay)
		return;
	entry_from_judgement(w->pol, &rq, &f, &j, w->now, 0, state_next_seq(w->a), &e);
	put(w, &e);
	if (j.answer != VERDICT_ALLOW)
		return;
	w->last_allowed = e.seq;
	w->open[w->n_open++ % PAWL_LEN(w->open)] = e.seq;
}

static inline void settle_one(struct world *w, const struct step *s, uint64_t seq)
{
	static struct charge charges[PAWL_MAX_LEDGERS];
	struct report rep = { .outcome = s->outcome ? s->outcome : OUTCOME_OK,
			      .has_money = s->money != NULL,
			      .has_tokens = s->tokens != 0,
			      .tokens = s->tokens };
	const struct call_state *call = state_decision(w->a, seq);
	struct entry_settle body = {
		.session = call->session, .decision = seq, .outcome = rep.outcome, .duration_ns = -1
	};
	struct pawl_error err = { .code = PAWL_OK };
	struct entry e = blank(w, call->settled ? ENTRY_LOSS : ENTRY_SETTLE);

	if (s->money && money_parse(str_of(s->money), MONEY_UP, &rep.money, &err) != 0)
		fail_msg("%s", err.msg);
	if (settle_charges(w->pol, w->a, call, &rep, charges, &body, &err) != 0)
		fail_msg("%s, step %zu: %s", w->script->name, w->step, err.msg);
	body.same[0] = 1;
	if (call->settled)
		e.loss = (struct entry_loss){
			.what = LOSS_LATE_SETTLE, .session = call->session, .decision = seq, .late = body
		};
	else
		e.settle = body;
	put(w, &e);
}

static inline void end_session(struct world *w, enum session_action how)
{
	struct entry e = blank(w, ENTRY_SESSION);

	e.session = (struct entry_session){ .action = how, .session = w->session };
	put(w, &e);
}

static inline void reload(struct world *w, const char *text)
{
	struct entry e = blank(w, ENTRY_POLICY);

	policy_free(w->pol);
	w->pol = load(text);
	put(w, &e);
}

static inline void do_step(struct world *w, const struct step *s)
{
	switch (s->op) {
	case ASK:
		for (int i = 0; i < (s->times ? s->times : 1); i++)
			ask(w, s, i + 1);
		break;
	case SETTLE:
		if (!s->settle_all)
			settle_one(w, s, w->last_allowed);
		for (size_t i = 0; s->settle_all && i < w->n_open; i++)
			settle_one(w, s, w->open[i]);
		w->n_open = 0;
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
	put(&w, &e);
	if (script->steps[0].op != OPEN)
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
