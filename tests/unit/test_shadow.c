/* tests/unit/test_shadow.c - shadow mode: what the laws said is told, the call runs; what is no policy keeps its say; what shadow mode
 * made the state remember ends with it, and nothing else does. */
#include "tests/support/judge_script.h"

#include "daemon/log/entry.h"
#include "policy/state_int.h"

#define SHADOW(text) "pawl: 1\nname: t\nmode: shadow\nrules:\n  - {id: any, allow: ['*']}\n" text "...\n"
#define ASKS	     "  - {id: ask, review: [x]}\n"
#define NO_X	     "  - {id: no-x, deny: [x]}\n"
#define ONCE	     "breakers: {api: {match: [s], open: {failures: 1, within: 1m}, cool_down: 10s}}\n"
#define TWICE	     "breakers: {api: {match: [s], open: {failures: 2, within: 1m}, cool_down: 10s}}\n"
#define BAD(...)                                          \
	{ ASK, .tool = "s", .want = A, __VA_ARGS__ }, \
	{                                                 \
		SETTLE, .outcome = OUTCOME_ERROR          \
	}
#define SHUT .would = D, .code = REASON_BREAKER_OPEN, .rule = "api"

static const struct script scripts[] = {
	{ "a would-be denial sticks as a would-be denial",
	  SHADOW(NO_X),
	  { { ASK, .tool = "x", .want = A, .would = D, .code = REASON_RULE, .rule = "no-x", .says = "rule no-x denies x" },
	    { RELOAD, .policy = SHADOW("") },
	    { ASK, .tool = "x", .want = A, .would = D, .code = REASON_STICKY_DENIAL, .rule = "no-x" },
	    { RELOAD, .policy = RULES("") },
	    { ASK, .tool = "x", .want = A },
	    { RELOAD, .policy = SHADOW("") },
	    { ASK, .tool = "x", .want = A } } },
	{ "nobody is asked, and headless a review would be a denial",
	  SHADOW(ASKS),
	  { { ASK, .tool = "x", .times = 25, .want = A, .would = R, .code = REASON_RULE, .rule = "ask", .asks = 1 },
	    { RELOAD, .policy = SHADOW(ASKS "attended: false\n") },
	    { ASK, .tool = "x", .want = A, .would = D, .code = REASON_RULE, .rule = "ask" } } },
	{ "the caller's own limits are told like the policy's",
	  SHADOW(""),
	  { { ASK, .tool = "x", .limit_money = "1", .money = "0.9", .limit_repeat = 1, .want = A },
	    { ASK, .tool = "x", .money = "0.2", .args = "{\"n\":1}", .want = A, .would = D, .code = REASON_BUDGET, .rule = "@guard" },
	    { ASK, .tool = "x", .money = "0", .want = A, .would = D, .code = REASON_LOOP_REPEAT, .rule = "@guard" },
	    { OPEN, .own = { [UNIT_CALLS] = 1 } },
	    { ASK, .tool = "y", .want = A },
	    { ASK, .tool = "y", .want = A, .would = D, .code = REASON_BUDGET, .rule = "@session.calls" } } },
	{ "an approval is for one run, also where another law says no",
	  RULES(ASKS),
	  { { ASK, .tool = "x", .want = R, .code = REASON_RULE },
	    { ANSWER, .action = RESOLVE_RESUME },
	    { RELOAD, .policy = SHADOW(ASKS NO_X) },
	    { ASK, .tool = "x", .want = A, .would = D, .code = REASON_RULE, .rule = "no-x", .spends = 1 },
	    { RELOAD, .policy = SHADOW(ASKS) },
	    { ASK, .tool = "x", .want = A, .would = D, .code = REASON_STICKY_DENIAL, .spends = -1 },
	    { RELOAD, .policy = RULES(ASKS) },
	    { ASK, .tool = "x", .want = R, .code = REASON_RULE } } },
	{ "a claim needs its approval, whatever else the laws say",
	  RULES(ASKS),
	  { { ASK, .tool = "x", .call = "c", .want = R, .code = REASON_RULE },
	    { RELOAD, .policy = SHADOW(ASKS NO_X) },
	    { CLAIM, .tool = "x", .call = "c", .want = R, .code = REASON_REVIEW_REQUIRED },
	    { PASS, .seconds = 600 },
	    { CLAIM, .tool = "x", .call = "c", .want = D, .code = REASON_REVIEW_TIMEOUT },
	    { ASK, .tool = "x", .call = "c", .want = A, .would = D, .code = REASON_RULE },
	    { CLAIM, .tool = "x", .call = "c", .want = D, .code = REASON_ALREADY_CLAIMED } } },
	{ "an approved claim runs, and what the laws say of it is told",
	  RULES(ASKS),
	  { { ASK, .tool = "x", .call = "c", .want = R, .code = REASON_RULE },
	    { ANSWER, .action = RESOLVE_RESUME },
	    { RELOAD, .policy = SHADOW(ASKS NO_X) },
	    { CLAIM, .tool = "x", .call = "c", .want = A, .would = D, .code = REASON_RULE, .rule = "no-x", .spends = 1 },
	    { CLAIM, .tool = "x", .call = "d", .want = D, .code = REASON_ALREADY_CLAIMED } } },
	{ "doubt is no policy: refused, unless a person has said that it may run again",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "c", .want = A },
	    { ASK, .tool = "x", .call = "c", .client = 1, .want = R, .code = REASON_IN_DOUBT },
	    { RELOAD, .policy = SHADOW(NO_X) },
	    { ASK, .tool = "x", .call = "c", .client = 1, .want = D, .code = REASON_IN_DOUBT, .asks = 0 },
	    { ANSWER, .action = RESOLVE_RESUME },
	    { ASK, .tool = "x", .call = "c", .client = 1, .want = A, .would = D, .code = REASON_RULE, .spends = 1 } } },
	{ "a doubt leaves nothing behind",
	  SHADOW(NO_X),
	  { { ASK, .tool = "x", .call = "c", .want = A, .would = D, .code = REASON_RULE },
	    { RELOAD, .policy = RULES("") },
	    { RELOAD, .policy = SHADOW(NO_X) },
	    { ASK, .tool = "x", .call = "c", .client = 1, .want = D, .code = REASON_IN_DOUBT },
	    { RELOAD, .policy = SHADOW("") },
	    { ASK, .tool = "x", .want = A } } },
	{ "a used-up session is over",
	  SHADOW("sessions: {calls: 2}\n"),
	  { { ASK, .tool = "x", .times = 2, .want = A }, { ASK, .tool = "x", .want = D, .code = REASON_SESSION_LIMIT } } },
	{ "a breaker goes its whole way, and stops nothing",
	  SHADOW(ONCE),
	  { BAD(.code = REASON_OK),
	    { ASK, .tool = "s", .want = A, SHUT },
	    { SETTLE, .outcome = OUTCOME_ERROR }, /* of an older generation: it would not have run */
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "s", .want = A }, /* the probe */
	    { ASK, .tool = "s", .want = A, SHUT },
	    { SETTLE, .back = 1 },
	    { ASK, .tool = "s", .want = A },
	    { RELOAD, .policy = RULES(ONCE) },
	    { ASK, .tool = "s", .want = A } } },
	{ "the row that binds is where shadow mode starts, and stays as it was",
	  RULES(ONCE),
	  { BAD(.code = REASON_OK),
	    { ASK, .tool = "s", .want = D, .code = REASON_BREAKER_OPEN },
	    { RELOAD, .policy = SHADOW(ONCE) },
	    { ASK, .tool = "s", .want = A, SHUT },
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "s", .want = A },
	    { .op = SETTLE }, /* closed, in shadow mode */
	    { ASK, .tool = "s", .times = 2, .want = A },
	    { RELOAD, .policy = RULES(ONCE) },
	    { ASK, .tool = "s", .want = A }, /* its own probe */
	    { ASK, .tool = "s", .want = D, .code = REASON_BREAKER_OPEN } } },
	{ "a row that says nothing any more still stands before the one that binds",
	  RULES(TWICE),
	  { BAD(.code = REASON_OK),
	    { RELOAD, .policy = SHADOW(TWICE) },
	    { ASK, .tool = "s", .want = A },
	    { .op = SETTLE },
	    BAD(.code = REASON_OK),
	    { ASK, .tool = "s", .want = A },
	    { RELOAD, .policy = RULES(TWICE) },
	    BAD(.code = REASON_OK),
	    { ASK, .tool = "s", .want = D, .code = REASON_BREAKER_OPEN } } },
	{ "a reset by a person is real, and starts shadow mode's row anew",
	  RULES(ONCE),
	  { BAD(.code = REASON_OK),
	    { RELOAD, .policy = SHADOW(ONCE) },
	    { PASS, .seconds = 10 },
	    BAD(.code = REASON_OK),
	    { ASK, .tool = "s", .want = A, SHUT },
	    { RESET, .rule = "api", .tool = "s" },
	    { ASK, .tool = "s", .want = A },
	    { RELOAD, .policy = RULES(ONCE) },
	    { ASK, .tool = "s", .want = A } } },
	{ "and reaches a row that shadow mode alone has",
	  SHADOW(ONCE),
	  { BAD(.code = REASON_OK), { ASK, .tool = "s", .want = A, SHUT }, { RESET, .rule = "api", .tool = "s" }, { ASK, .tool = "s", .want = A } } },
	{ "an abort opens a breaker that only shadow mode had counted for",
	  RULES(ASKS),
	  { { ASK, .tool = "x", .want = R, .code = REASON_RULE },
	    { RELOAD, .policy = SHADOW("breakers: {api: {match: [x], open: {failures: 1, within: 1m}, cool_down: 10s}}\n") },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .want = A },
	    { SETTLE, .outcome = OUTCOME_ERROR },
	    { ANSWER, .action = RESOLVE_ABORT },
	    { PASS, .seconds = 5 },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = A, SHUT } } },
	{ "would-be denials in a row open a would-be breaker",
	  SHADOW(NO_X "breakers: {api: {match: [x], open: {denials: 3, within: 1m}, cool_down: 10s}}\n"),
	  { { ASK, .tool = "x", .times = 3, .want = A, .would = D, .code = REASON_RULE },
	    { RELOAD, .policy = SHADOW("breakers: {api: {match: [x], open: {denials: 3, within: 1m}, cool_down: 10s}}\n") },
	    { ASK, .tool = "x", .want = A, .would = D, .code = REASON_STICKY_DENIAL },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = A, SHUT },
	    { RELOAD, .policy = RULES("breakers: {api: {match: [x], open: {denials: 3, within: 1m}, cool_down: 10s}}\n") },
	    { ASK, .tool = "x", .want = A } } },
};

static void test_scripts(void **state)
{
	(void)state;
	run(scripts, PAWL_LEN(scripts));
}

/* ---- the state alone ---- */

static void set_mode(struct world *w, enum policy_mode mode, bool start)
{
	struct entry e = blank(w, start ? ENTRY_START : ENTRY_POLICY);

	if (start)
		e.start.mode = policy_mode_word(mode);
	else
		e.policy = (struct entry_policy){ .loaded = true, .mode = policy_mode_word(mode) };
	put(w, &e);
}

static size_t rows_of(const struct pool *p)
{
	return p->used - p->n_free;
}

/* Two sticks, a trip and a breaker in each mode; the last denial is told again in shadow mode and is no second one. */
static void remember(struct world *w, bool shadow, const char *rule)
{
	struct breaker_row row = { .id = STR("api"), .scope = SCOPE_COUNT, .mode = BREAKER_OPEN, .generation = 1, .until = w->now, .would = shadow };
	struct entry e = blank(w, ENTRY_DECISION);
	struct entry_decision *d = &e.decision;

	*d = (struct entry_decision){ .session = w->session, .root = w->session, .call = STR("c"), .tool = STR("x"), .call_hash = e.seq, .shadow = shadow,
				      .answer = shadow ? VERDICT_ALLOW : VERDICT_DENY, .would = shadow ? VERDICT_DENY : VERDICT_UNSET,
				      .lease_until = shadow ? w->now + SEC : 0, .breakers = &row, .n_breakers = 1, .n_sticks = 2, .n_trips = 1 };
	d->sticks[0] = (struct stick_fact){ .how = STICK_AGENT, .tool = STR("x"), .rule = str_of(rule) };
	d->sticks[1] = (struct stick_fact){ .how = STICK_TREE, .tool = STR("x"), .rule = str_of(rule) };
	d->trips[0][0] = shadow ? 7 : 8;
	put_as_is(w, &e);
}

static void check_rows(const struct world *w, size_t sticks, size_t trips, size_t breaks)
{
	assert_int_equal(rows_of(&w->a->sticks), sticks);
	assert_int_equal(w->a->by_stick.n, sticks);
	assert_int_equal(rows_of(&w->a->trips), trips);
	assert_int_equal(w->a->by_trip.n, trips);
	assert_int_equal(rows_of(&w->a->breaks), breaks);
	assert_int_equal(w->a->by_break.n, breaks);
}

static void test_the_switch(void **state)
{
	static const struct script none = { "the switch", RULES(""), { { .op = END } } };

	(void)state;
	for (int start = 0; start < 2; start++) {
		struct world w = world_new(&none);
		uint8_t shadow[16] = { 7 }, real[16] = { 8 };
		struct stick_fact k;
		uint32_t at = 0;

		remember(&w, false, "real");
		check_rows(&w, 2, 1, 1);
		set_mode(&w, MODE_SHADOW, start);
		assert_int_equal(state_mode(w.a), MODE_SHADOW);
		remember(&w, true, "told");
		remember(&w, true, "real");
		check_rows(&w, 4, 2, 2);
		assert_true(state_tripped(w.a, w.session, shadow) && state_tripped(w.a, w.session, real));
		for (int n = 0; n < 4; n++) {
			assert_true(state_denial_next(w.a, here(&w), &at, &k));
			assert_int_equal(k.would, str_is(k.rule, "told"));
		}
		set_mode(&w, MODE_SHADOW, !start); /* another policy, the same mode: as after a reload nothing is forgotten */
		check_rows(&w, 4, 2, 2);
		set_mode(&w, MODE_ENFORCE, start);
		assert_int_equal(state_mode(w.a), MODE_ENFORCE);
		check_rows(&w, 2, 1, 1);
		assert_true(!state_tripped(w.a, w.session, shadow) && state_tripped(w.a, w.session, real));
		assert_true(str_is(state_denied(w.a, here(&w), STR("x")), "real"));
		assert_false(state_breaker(w.a, &(struct breaker_row){ .id = STR("api"), .scope = SCOPE_COUNT, .would = true }));
		assert_non_null(state_breaker(w.a, &(struct breaker_row){ .id = STR("api"), .scope = SCOPE_COUNT }));
		world_done(&w);
	}
}

/* Each part of what shadow mode remembers is part of the state's digest. */
static void test_digest(void **state)
{
	static const struct script none = { "digest", RULES(""), { { .op = END } } };
	uint8_t seen[4][32];

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct world w = world_new(&none);

		set_mode(&w, i ? MODE_SHADOW : MODE_ENFORCE, false);
		remember(&w, i != 0, "r");
		if (i == 2)
			stick_at(w.a, session_at(w.a, find_session(w.a, w.session))->sticks)->shadow = false;
		if (i == 3)
			trip_at(w.a, session_at(w.a, find_session(w.a, w.session))->trips)->shadow = false;
		state_digest(w.a, seen[i]);
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(seen[i], seen[k], 32);
		state_free(w.b);
		assert_int_equal(state_clone(w.a, &w.b, NULL), 0);
		assert_int_equal(state_mode(w.b), state_mode(w.a));
		world_done(&w);
	}
}

/* ---- what a log may not say ---- */

static void other_mode(struct entry *e)
{
	e->decision.shadow = !e->decision.shadow;
}
static void would_in_enforce(struct entry *e)
{
	e->decision.would = VERDICT_DENY;
}
static void would_allow(struct entry *e)
{
	e->decision.would = VERDICT_ALLOW;
}
static void would_beyond(struct entry *e)
{
	e->decision.would = (enum verdict)4;
}
static void would_of_a_denial(struct entry *e)
{
	e->decision.answer = VERDICT_DENY;
	e->decision.would = VERDICT_DENY;
}
static void a_card(struct entry *e)
{
	e->decision.answer = VERDICT_REVIEW;
	e->decision.card = e->seq;
	e->decision.card_until = e->now + SEC;
}
static void sticks_without_denial(struct entry *e)
{
	e->decision.would = VERDICT_REVIEW;
	e->decision.n_sticks = 1;
	e->decision.sticks[0] = (struct stick_fact){ .how = STICK_TREE, .tool = STR("x"), .rule = STR("r") };
}
static void would_row_in_enforce(struct entry *e)
{
	static struct breaker_row row = { .id = { "api", 3 }, .scope = SCOPE_COUNT, .would = true };

	e->decision.breakers = &row;
	e->decision.n_breakers = 1;
}
static void odd_word(struct entry *e)
{
	*e = (struct entry){ .kind = ENTRY_START, .seq = e->seq, .now = e->now, .start.mode = STR("off") };
}
static void refused_sets_mode(struct entry *e)
{
	*e = (struct entry){ .kind = ENTRY_POLICY, .seq = e->seq, .now = e->now, .policy = { .mode = STR("shadow") } };
}

static const struct {
	const char *name;
	bool shadow; /* the mode in force */
	void (*bend)(struct entry *e);
} lies[] = {
	{ "judged in shadow mode under enforce", false, other_mode },
	{ "judged in enforce under shadow mode", true, other_mode },
	{ "would, under enforce", false, would_in_enforce },
	{ "would allow", true, would_allow },
	{ "a verdict that there is not", true, would_beyond },
	{ "would, of a call that was denied", true, would_of_a_denial },
	{ "a card in shadow mode", true, a_card },
	{ "a denial to remember of a would-be review", true, sticks_without_denial },
	{ "shadow mode's row of a breaker under enforce", false, would_row_in_enforce },
	{ "a mode that there is not", false, odd_word },
	{ "a refused policy that sets the mode", false, refused_sets_mode },
};

static void test_lies(void **state)
{
	static const struct script none = { "lies", RULES(""), { { .op = END } } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(lies); i++) {
		struct world w = world_new(&none);
		struct pawl_error err = { .code = PAWL_OK };
		struct entry e;

		set_mode(&w, lies[i].shadow ? MODE_SHADOW : MODE_ENFORCE, true);
		e = blank(&w, ENTRY_DECISION);
		e.decision = (struct entry_decision){ .session = w.session, .root = w.session, .call = STR("c"), .tool = STR("x"),
						      .shadow = lies[i].shadow, .answer = VERDICT_ALLOW, .lease_until = w.now + SEC };
		if (state_room(w.a, &e, &err) != 0)
			fail_msg("%s, not bent: %s", lies[i].name, err.msg);
		lies[i].bend(&e);
		if (state_room(w.a, &e, &err) != PAWL_E_TAMPERED)
			fail_msg("%s: accepted", lies[i].name);
		world_done(&w);
	}
}

/* ---- the bytes ---- */

static void test_bytes(void **state)
{
	struct breaker_row row = { .id = STR("api"), .scope = SCOPE_COUNT, .mode = BREAKER_OPEN, .generation = 1, .would = true };
	struct entry e = { .kind = ENTRY_DECISION, .seq = 9, .decision = { .session = 1, .root = 1, .call = STR("c"), .tool = STR("x"), .shadow = true,
			   .answer = VERDICT_ALLOW, .would = VERDICT_DENY, .money_unit = STR("USD"), .breakers = &row, .n_breakers = 1,
			   .would_why = { .code = REASON_BUDGET, .rule = STR("run"), .message = "m", .has_numbers = true, .unit = UNIT_MONEY,
					  .counter = 5, .limit = MONEY_PER_UNIT, .retry_after_ns = SEC } } };
	static const char *const parts[] = {
		"\"would\":{\"reason\":{\"code\":\"budget\",\"counter\":\"0.000000005\",\"limit\":\"1\",\"message\":\"m\",",
		"\"message\":\"m\",\"retry_after\":\"1s\",\"rule\":\"run\",\"unit\":\"USD\"},\"verdict\":\"deny\"}}",
		",\"shadow\":true,", ",\"verdict\":\"allow\",", "\"scope\":\"all\",\"would\":true}]",
	};
	struct entry_parsed back;
	struct buf one = BUF_MAX(1 << 16), two = BUF_MAX(1 << 16);

	(void)state;
	entry_render(&e, &one);
	assert_true(buf_ok(&one));
	for (size_t i = 0; i < PAWL_LEN(parts); i++)
		if (!memmem(one.p, one.n, parts[i], strlen(parts[i])))
			fail_msg("no %s in %.*s", parts[i], STR_ARG(buf_str(&one)));
	assert_int_equal(entry_parse(buf_str(&one), 9, &back, NULL), 0);
	assert_int_equal(back.e.decision.would, VERDICT_DENY);
	assert_int_equal(back.e.decision.would_why.counter, 5);
	assert_true(back.e.decision.shadow && back.e.decision.breakers[0].would);
	entry_render(&back.e, &two);
	assert_true(str_eq(buf_str(&one), buf_str(&two)));
	entry_parsed_done(&back);
	/* what does not differ is not there */
	buf_reset(&one);
	e.decision.would = VERDICT_UNSET;
	e.decision.shadow = row.would = false;
	entry_render(&e, &one);
	assert_null(memmem(one.p, one.n, "would", 5));
	assert_null(memmem(one.p, one.n, "shadow", 6));
	buf_done(&one);
	buf_done(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts), cmocka_unit_test(test_the_switch), cmocka_unit_test(test_digest),
		cmocka_unit_test(test_lies),	cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
