/* tests/support/judge_world.h - the world in which scripts for the judge run (judge_script.h): steps, two states, and
 * how a question is put. Every question is judged twice, in a second state and on a copy; every entry is fed to both
 * states, of which the second is written as bytes and read again after each; at the end they must be equal. Every entry that is judged
 * comes out again from itself alone (rejudge.h). All in a header, so that only tests that want it link policy/. */
#ifndef PAWL_TESTS_JUDGE_WORLD_H
#define PAWL_TESTS_JUDGE_WORLD_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "daemon/log/entry.h"
#include "pawl/rejudge.h"
#include "pawl/settle.h"
#include "policy/laws.h"
#include "policy/money.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "tests/support/state_reread.h"

#include <stdio.h>
#include <stdlib.h>

#define SEC         NS_PER_SEC
#define RULES(text) "pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\n" text "...\n"
#define A           VERDICT_ALLOW
#define R           VERDICT_REVIEW
#define D           VERDICT_DENY

enum op {
	END,
	ASK,
	CLAIM, /* as ASK, with the card of .card */
	SETTLE,
	EXPIRE, /* to the deadline of .back's lease */
	PASS,
	OPEN,
	CLOSE,
	STALE,
	RELOAD,
	USE,    /* go on in the session that was opened as number .at (1 = the first) */
	ANSWER, /* of a person, to the card of .card */
	KILL,   /* session.abort */
	RESET,  /* of breaker .rule */
	WATCHED, /* .watched of the session in use */
	MAY_OPEN,
};
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
	enum verdict want, would; /* would: .code, .rule and .says are of that reason then */
	enum reason_code code;
	const char *rule, *says; /* NULL = not looked at */
	bool replay, ignored, reused;
	int card;        /* the card spoken of: the n-th that was opened, 1 = the first; 0 = the newest */
	int spends;      /* the card that must be used up, as for .card; -1 = none may */
	int asks, trips; /* how many must be found; -1 = none may */
	/* settle: of the newest allowed call, or of the one .back before it; outcome */
	enum outcome outcome;
	bool settle_all;
	int back;
	const char *result, *error; /* NULL = absent */
	int64_t seconds;            /* pass */
	int64_t own[UNIT_COUNT];    /* open: limits, 0 = none; money in nano-units, time in ns */
	const char *policy;         /* reload */
	bool child;                 /* open, may_open: of the session in use */
	int at;                     /* use */
	enum watched_action watched;
	enum resolve_action action;
	bool refused; /* answer: the grant is too large */
	bool tree;    /* answer, kill: abort from the root */
};

struct script {
	const char *name, *policy;
	struct step steps[32];
};

/* ---- a world in which scripts run ---- */

struct world {
	const struct script *script;
	size_t step;
	struct policy *pol;
	struct state *a, *b;
	int64_t now;
	uint64_t session;
	uint64_t allowed[128], cards[64], sessions[16];
	size_t n_open, n_allowed, n_cards, n_sessions; /* n_open: allowed since the last settle */
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

/* P5: an entry, read back and judged again by what is in it, is the same entry byte for byte. */
static inline void judged_again(const struct world *w, const struct entry *e)
{
	static struct rejudged again;
	struct buf one = BUF_MAX(PAWL_MAX_BODY), two = BUF_MAX(PAWL_MAX_BODY);
	struct entry_parsed p;
	enum rejudged_as as;

	if (e->kind == ENTRY_START || e->kind == ENTRY_POLICY || e->kind == ENTRY_SESSION) /* these scripts write them as they like */
		return;
	entry_render(e, &one);
	assert_int_equal(entry_parse(buf_str(&one), e->seq, &p, NULL), 0);
	memset(&again, 0xa5, sizeof(again));
	as = rejudge(w->pol, NULL, w->a, &p.e, &again);
	entry_render(&again.e, &two);
	if (as > REJUDGED_GIVEN || !buf_ok(&two) || !str_eq(buf_str(&one), buf_str(&two)))
		fail_msg("%s, step %zu: %d %s\n%.*s\n%.*s", w->script->name, w->step, as, again.why, STR_ARG(buf_str(&one)), STR_ARG(buf_str(&two)));
	entry_parsed_done(&p);
	buf_done(&one);
	buf_done(&two);
}

/* An entry that no judge has made. */
static inline void put_as_is(struct world *w, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (state_room(w->a, e, &err) != 0 || state_room(w->b, e, &err) != 0)
		fail_msg("%s, step %zu: %s", w->script->name, w->step, err.msg);
	state_apply(w->a, e);
	state_apply(w->b, e);
	reread(&w->b);
}

static inline void put(struct world *w, const struct entry *e)
{
	judged_again(w, e);
	put_as_is(w, e);
}

static inline struct entry blank(const struct world *w, enum entry_kind kind)
{
	return (struct entry){ .kind = kind, .seq = state_next_seq(w->a), .now = w->now };
}

static inline const struct session_state *here(const struct world *w)
{
	const struct session_state *who = state_session(w->a, w->session);

	assert_non_null(who);
	return who;
}

static inline void open_session(struct world *w, const struct step *s)
{
	struct entry e = blank(w, ENTRY_SESSION);

	e.session = (struct entry_session){
		.session = e.seq, .root = e.seq, .agent = STR("local"), .labels_text = STR("{}"), .lease_ns = 60 * SEC
	};
	if (s && s->child) {
		e.session.parent = w->session;
		e.session.root = here(w)->root;
	}
	for (int u = 0; s && u < UNIT_COUNT; u++) {
		e.session.has_limit[u] = s->own[u] != 0;
		e.session.limit[u] = s->own[u];
	}
	put(w, &e);
	w->session = e.seq;
	assert_true(w->n_sessions < PAWL_LEN(w->sessions));
	w->sessions[w->n_sessions++] = e.seq;
}

static inline uint64_t card_of(const struct world *w, int nth)
{
	assert_true(w->n_cards > 0 && nth <= (int)w->n_cards);
	return w->cards[nth > 0 ? (size_t)nth - 1 : w->n_cards - 1];
}

/* As the spine does: what is due at now is written first, in order. */
static inline void write_due(struct world *w)
{
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct deadline due;

	while (state_next_deadline(w->a, &due) && due.at <= w->now) {
		struct entry e = blank(w, due.kind == DEADLINE_CARD ? ENTRY_TIMEOUT : ENTRY_LOSS);

		if (due.kind == DEADLINE_CARD)
			e.timeout = (struct entry_timeout){ .session = due.session, .card = due.id };
		else
			e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED,
						      .session = due.session,
						      .decision = due.id,
						      .breakers = rows,
						      .n_breakers =
							  breaker_report(w->pol, w->a, state_decision(w->a, due.id),
									 OUTCOME_EXPIRED, w->now, rows) };
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
	buf_printf(b, "%d %s %.*s|%s|", j->would, reason_name(j->would_why.code), STR_ARG(j->would_why.rule), j->would_why.message);
	for (size_t i = 0; i < j->n_draws; i++) {
		const struct draw *d = &j->draws[i];

		buf_printf(b, "%.*s/%d/%llu/%.*s/%.*s/%d %lld %lld %lld %lld|", STR_ARG(d->key.budget), d->key.scope,
			   (unsigned long long)d->key.session, STR_ARG(d->key.owner), STR_ARG(d->key.tool), d->unit,
			   (long long)d->amount, (long long)d->used, (long long)d->limit, (long long)d->window_end);
	}
	buf_printf(b, "%llu %llu|", (unsigned long long)j->spends, (unsigned long long)j->claim);
	for (size_t i = 0; i < j->n_sticks; i++)
		buf_printf(b, "%d %.*s %.*s|", j->sticks[i].how, STR_ARG(j->sticks[i].tool),
			   STR_ARG(j->sticks[i].rule));
	for (size_t i = 0; i < j->n_trips; i++)
		buf_add(b, j->trips[i], 16);
	for (size_t i = 0; i < j->n_asks; i++)
		buf_printf(b, "%s %.*s %llu|", reason_name(j->asks[i].code), STR_ARG(j->asks[i].rule),
			   (unsigned long long)j->asks[i].refers);
	for (size_t i = 0; i < j->n_breakers; i++) {
		const struct breaker_row *r = &j->breakers[i];

		buf_printf(b, "%d %.*s/%d/%llu/%.*s/%.*s %d %d %lld %lld %llu %u %u %u|", r->would, STR_ARG(r->id), r->scope,
			   (unsigned long long)r->session, STR_ARG(r->owner), STR_ARG(r->tool), r->mode, r->sticky,
			   (long long)r->generation, (long long)r->until, (unsigned long long)r->probe, r->n_fails,
			   r->n_denies, r->n_breaches);
	}
	assert_true(buf_ok(b));
}

static inline void judge_one(const struct world *w, const struct state *st, const struct facts *f, uint64_t claim,
			     struct judgement *ret)
{
	if (claim)
		judge_claim(w->pol, st, f, claim, w->now, ret);
	else
		judge(w->pol, st, f, w->now, ret);
}

/* P5: the same policy, state and facts, the same answer: again, in the second state, and in a copy. */
static inline void judge_thrice(struct world *w, const struct facts *f, uint64_t claim, struct judgement *ret)
{
	static struct judgement again;
	struct buf one = BUF_MAX(1 << 20), two = BUF_MAX(1 << 20);
	struct state *copy;

	assert_int_equal(state_clone(w->a, &copy, NULL), 0);
	judge_one(w, w->a, f, claim, ret);
	text_of_judgement(ret, &one);
	for (int i = 0; i < 3; i++) {
		memset(&again, 0xa5, sizeof(again)); /* nothing is left to what was there before */
		judge_one(w, i == 0 ? w->a : i == 1 ? w->b : copy, f, claim, &again);
		text_of_judgement(&again, &two);
		assert_true(str_eq(buf_str(&one), buf_str(&two)));
	}
	state_free(copy);
	buf_done(&one);
	buf_done(&two);
}

static inline bool is_number(int want, size_t got)
{
	return want == 0 || (want < 0 ? got == 0 : got == (size_t)want);
}

static inline void check_answer(const struct world *w, const struct step *s, const struct judgement *j, int time)
{
	const struct reason *why = j->would ? &j->would_why : &j->why;

	if (j->answer != s->want || j->would != s->would || (!s->replay && why->code != s->code) || j->replay != s->replay ||
	    j->limits_ignored != s->ignored || j->call_reused != s->reused ||
	    (s->rule && !str_is(why->rule, s->rule)) || (s->says && strcmp(why->message, s->says) != 0))
		fail_msg("%s, step %zu, time %d: %d (would %d) %s by \"%.*s\": %s", w->script->name, w->step, time, j->answer,
			 j->would, reason_name(why->code), STR_ARG(why->rule), why->message);
	if (!is_number(s->asks, j->n_asks) || !is_number(s->trips, j->n_trips))
		fail_msg("%s, step %zu: %zu asks, %zu trips", w->script->name, w->step, j->n_asks, j->n_trips);
	if (s->spends && j->spends != (s->spends > 0 ? card_of(w, s->spends) : 0))
		fail_msg("%s, step %zu: spends %llu", w->script->name, w->step, (unsigned long long)j->spends);
}

static inline void facts_for(struct world *w, const struct step *s, struct request_call *rq, struct facts *f)
{
	struct caller who = { .session = w->session, .root = here(w)->root, .agent = STR("local"), .secret = secret };
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
	struct pawl_error err = { .code = PAWL_OK };
	uint64_t claim = 0;
	char call[32];
	struct facts f;
	struct entry e;

	(void)snprintf(call, sizeof(call), "c-%d", w->calls++);
	rq.call = str_of(s->call ? s->call : call);
	facts_for(w, s, &rq, &f);
	if (s->op == CLAIM) {
		claim = card_of(w, s->card);
		if (claim_prepare(w->a, claim, &f, &err) != 0) { /* .says is the error then */
			if (!s->says || strcmp(s->says, err.msg) != 0 || strcmp(err.field, "review") != 0)
				fail_msg("%s, step %zu: %s: %s", w->script->name, w->step, err.field, err.msg);
			return;
		}
	}
	judge_thrice(w, &f, claim, &j);
	check_answer(w, s, &j, time);
	if (j.replay)
		return;
	entry_from_judgement(w->pol, &rq, &f, &j, w->now, 0, state_next_seq(w->a), &e);
	put(w, &e);
	if (j.answer == VERDICT_REVIEW && !j.card && w->n_cards < PAWL_LEN(w->cards))
		w->cards[w->n_cards++] = e.seq;
	if (j.answer != VERDICT_ALLOW)
		return;
	assert_true(w->n_allowed < PAWL_LEN(w->allowed));
	w->allowed[w->n_allowed++] = e.seq;
	w->n_open++;
}

#endif
