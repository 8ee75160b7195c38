/* tests/support/state_feed.h - entries made by hand and fed to a state: sessions, decisions, reports, endings.
 * All in a header: a test that does not need it must not have to link policy/. */
#ifndef PAWL_TESTS_STATE_FEED_H
#define PAWL_TESTS_STATE_FEED_H
#include "policy/state_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define SEC NS_PER_SEC
#define USD MONEY_PER_UNIT

/* ---- entries ---- */

struct feed {
	struct state *st;
	int64_t now;
};

static inline struct entry at(const struct feed *f, enum entry_kind kind)
{
	return (struct entry){ .kind = kind, .seq = state_next_seq(f->st), .now = f->now };
}

static inline void put(struct feed *f, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (state_room(f->st, e, &err) != 0)
		fail_msg("entry %llu: %s", (unsigned long long)e->seq, err.msg);
	state_apply(f->st, e);
}

static inline struct feed feed_new(void)
{
	struct feed f = { .now = 1000 * SEC };
	struct entry e;

	assert_int_equal(state_new(&f.st, NULL), 0);
	e = at(&f, ENTRY_START);
	put(&f, &e);
	return f;
}

static inline struct entry opening(const struct feed *f, const char *agent)
{
	struct entry e = at(f, ENTRY_SESSION);

	e.session = (struct entry_session){
		.session = e.seq, .root = e.seq, .agent = str_of(agent), .labels_text = STR("{}"), .lease_ns = 60 * SEC
	};
	return e;
}

static inline uint64_t open_session(struct feed *f)
{
	struct entry e = opening(f, "local");

	put(f, &e);
	return e.seq;
}

static inline struct entry opening_child(const struct feed *f, uint64_t parent)
{
	struct entry e = opening(f, "local");

	e.session.parent = parent;
	e.session.root = state_session(f->st, parent) ? state_session(f->st, parent)->root : parent;
	return e;
}

static inline uint64_t open_child(struct feed *f, uint64_t parent)
{
	struct entry e = opening_child(f, parent);

	put(f, &e);
	return e.seq;
}

static inline struct entry ending(const struct feed *f, uint64_t session, enum session_action how)
{
	struct entry e = at(f, ENTRY_SESSION);

	e.session = (struct entry_session){ .action = how, .session = session };
	return e;
}

static inline void id16(uint8_t out[static 16], uint64_t v)
{
	memset(out, 0, 16);
	memcpy(out, &v, sizeof(v));
	out[15] = 1;
}

static inline uint64_t root_of(const struct feed *f, uint64_t session)
{
	const struct session_state *who = state_session(f->st, session);

	return who ? who->root : session;
}

/* A decision about call `call` with arguments `args` of tool t; draws as given. */
static inline struct entry decision(const struct feed *f, uint64_t session, uint64_t call, uint64_t args,
				    enum verdict answer, const struct draw *draws, size_t n)
{
	struct entry e = at(f, ENTRY_DECISION);
	struct entry_decision *d = &e.decision;

	*d = (struct entry_decision){ .session = session,
				      .root = root_of(f, session),
				      .call = STR("c"),
				      .tool = STR("t"),
				      .call_hash = call,
				      .answer = answer,
				      .has_repeat = true,
				      .draws = draws,
				      .n_draws = n };
	d->why.code = answer == VERDICT_ALLOW ? REASON_OK : REASON_RULE;
	d->client[0] = 1;
	id16(d->key, call * 1000 + args);
	id16(d->card_token, args + 7000 + session * 100000);
	id16(d->same, args);
	id16(d->repeat, args + 500);
	d->lease_until = answer == VERDICT_ALLOW ? f->now + 900 * SEC : 0;
	d->card = answer == VERDICT_REVIEW ? e.seq : 0;
	d->card_until = answer == VERDICT_REVIEW ? f->now + 600 * SEC : 0;
	return e;
}

static inline struct draw draw_of(uint64_t session, const char *budget, enum unit unit, int64_t amount)
{
	return (struct draw){ .key = { .budget = str_of(budget),
				       .scope = session ? SCOPE_SESSION : SCOPE_GLOBAL,
				       .unit = unit,
				       .session = session },
			      .unit = unit,
			      .amount = amount,
			      .limit = 5 * USD };
}

static inline uint64_t allow(struct feed *f, uint64_t session, uint64_t call, uint64_t args, int64_t money)
{
	struct draw d[2] = { draw_of(session, "run", UNIT_MONEY, money), draw_of(0, "all", UNIT_CALLS, 1) };
	struct entry e = decision(f, session, call, args, VERDICT_ALLOW, d, 2);

	put(f, &e);
	return e.seq;
}

static inline uint64_t plain(struct feed *f, uint64_t session, uint64_t call, uint64_t args, enum verdict answer)
{
	struct entry e = decision(f, session, call, args, answer, NULL, 0);
	const struct card_state *card = state_card(f->st, session, e.decision.card_token);

	if (answer == VERDICT_REVIEW && card && card->mode == CARD_PENDING) {
		e.decision.card = card->id;
		e.decision.card_until = card->until;
	}
	put(f, &e);
	return e.seq;
}

/* charges: what to add to run (money) and all (calls) */
static inline struct entry settling(const struct feed *f, uint64_t session, uint64_t dec, struct charge c[static 2],
				    int64_t money, bool late)
{
	struct draw held[2] = { 0 };
	struct entry e = at(f, late ? ENTRY_LOSS : ENTRY_SETTLE);
	struct entry_settle s = { .session = session,
				  .decision = dec,
				  .outcome = OUTCOME_OK,
				  .charges = c,
				  .n_charges = 2,
				  .duration_ns = -1 };

	assert_int_equal(state_holds(f->st, dec, held, 2), 2);
	for (int i = 0; i < 2; i++)
		c[i] = (struct charge){ .draw = held[i],
					.reserved = late ? 0 : held[i].amount,
					.charged = late ? 0 : held[i].amount };
	c[0].charged = money;
	id16(s.same, dec + (uint64_t)money);
	if (late)
		e.loss =
		    (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = session, .decision = dec, .late = s };
	else
		e.settle = s;
	return e;
}

static inline void settle(struct feed *f, uint64_t session, uint64_t dec, int64_t money, bool late)
{
	struct charge c[2];
	struct entry e = settling(f, session, dec, c, money, late);

	put(f, &e);
}

static inline struct entry expiry(const struct feed *f, uint64_t session, uint64_t dec)
{
	struct entry e = at(f, ENTRY_LOSS);

	e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = session, .decision = dec };
	return e;
}

static inline struct entry timing_out(const struct feed *f, uint64_t session, uint64_t card)
{
	struct entry e = at(f, ENTRY_TIMEOUT);

	e.timeout = (struct entry_timeout){ .session = session, .card = card };
	return e;
}

static inline struct entry resolving(const struct feed *f, uint64_t card, enum resolve_action action)
{
	const struct card_state *c = state_card_by_id(f->st, card);
	struct entry e = at(f, ENTRY_RESOLVE);

	e.resolve = (struct entry_resolve){ .session = c ? c->session : 0, .card = card, .action = action, .operator = STR("ann"),
					    .reason = STR("looks fine") };
	if (action == RESOLVE_ABORT) {
		e.resolve.ends = e.resolve.session;
		e.resolve.hold_until = f->now + 60 * SEC;
	}
	return e;
}

/* A call that uses the approval of `card`; args as those of the call that was asked about. */
static inline struct entry spending(const struct feed *f, uint64_t session, uint64_t call, uint64_t args, uint64_t card, bool claim)
{
	struct entry e = decision(f, session, call, args, VERDICT_ALLOW, NULL, 0);

	e.kind = claim ? ENTRY_CLAIM : ENTRY_DECISION;
	e.decision.spends = card;
	return e;
}

static inline struct breaker_row breaker_of(const char *id, enum scope scope, uint64_t session, enum breaker_mode mode)
{
	return (struct breaker_row){ .id = str_of(id), .owner = scope == SCOPE_AGENT ? STR("local") : STR_NONE, .scope = scope,
				     .session = session, .mode = mode, .probe = mode == BREAKER_HALF_OPEN ? UINT64_MAX : 0,
				     .generation = mode != BREAKER_CLOSED };
}

static inline struct ledger_state run_ledger(const struct feed *f, uint64_t session)
{
	return state_ledger(f->st,
			    &(struct ledger_key){ .budget = STR("run"), .scope = SCOPE_SESSION, .session = session }, f->now);
}

static inline void check_run(const struct feed *f, uint64_t session, int64_t spent, int64_t reserved)
{
	struct ledger_state l = run_ledger(f, session);

	assert_int_equal(l.spent, spent);
	assert_int_equal(l.reserved, reserved);
}

static inline void assert_same_state(const struct state *a, const struct state *b)
{
	uint8_t x[32], y[32];

	state_digest(a, x);
	state_digest(b, y);
	assert_memory_equal(x, y, sizeof(x));
}

#endif
