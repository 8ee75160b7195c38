/* tests/unit/test_state_bytes.c - a state as bytes and back: the same state, which goes on the same way; and bytes that are no state. */
#include "tests/support/random_log.h"
#include "tests/support/state_says.h"
#include "tests/support/state_wear.h"

#include <sodium.h>
#include <stdlib.h>

/* ---- the same state ---- */

static void assert_says_same(const struct state *a, const struct state *b)
{
	uint8_t x[32], y[32];

	state_says(a, x);
	state_says(b, y);
	assert_memory_equal(x, y, sizeof(x));
}

static void assert_same_call(const struct state *a, const struct state *b, uint64_t session, uint64_t call, uint64_t args)
{
	const struct call_state *x, *y;
	uint8_t key[16];
	bool ra, rb;

	id16(key, call * 1000 + args);
	x = state_call(a, session, call, key, &ra);
	y = state_call(b, session, call, key, &rb);
	assert_int_equal(ra, rb);
	assert_int_equal(x ? x->seq : 0, y ? y->seq : 0);
	assert_int_equal(x ? x->card : 0, y ? y->card : 0);
}

/* Whatever tables lead to: by idempotency key, by card, by token. */
static void assert_same_answers(const struct state *a, const struct state *b)
{
	uint8_t token[16];

	for (const struct session_state *s = state_session_after(a, 0); s; s = state_session_after(a, s->id)) {
		for (uint64_t i = 0; i < 40; i++)
			for (uint64_t args = 0; args < 3; args++)
				assert_same_call(a, b, s->id, i, args);
		for (uint64_t args = 0; args < 3; args++) {
			const struct card_state *x, *y;

			id16(token, args + 7000 + s->id * 100000);
			x = state_card(a, s->id, token);
			y = state_card(b, s->id, token);
			assert_int_equal(x ? x->id : 0, y ? y->id : 0);
			id16(token, args);
			assert_int_equal(state_count_same(a, s->id, token), state_count_same(b, s->id, token));
			assert_int_equal(state_tripped(a, s->id, token), state_tripped(b, s->id, token));
		}
		assert_true(str_eq(state_denied(a, s, STR("t")), state_denied(b, state_session(b, s->id), STR("t"))));
		assert_int_equal(state_guard(a, s->id, STR("t")).repeat, state_guard(b, s->id, STR("t")).repeat);
	}
}

/* After every entry of a log one of two states is written and read again; entries are made from the other. */
static void test_after_every_entry(void **state)
{
	struct log l = { .a = feed_new(), .b = feed_new(), .x = 88172645463325252u, .reread = true };

	(void)state;
	reread(&l.b.st);
	for (int i = 0; i < 500; i++) {
		random_step(&l);
		assert_same_state(l.a.st, l.b.st);
		assert_says_same(l.a.st, l.b.st);
		if (i % 20 == 0)
			assert_same_answers(l.a.st, l.b.st);
	}
	state_free(l.a.st);
	state_free(l.b.st);
}

/* A long one, now and then: what is read goes on for a hundred entries, and is copied as well. */
static void test_now_and_then(void **state)
{
	struct log l = { .a = feed_new(), .b = feed_new(), .x = 2463534242u };
	struct state *copy;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		random_step(&l);
		if (i % 103 != 0)
			continue;
		reread(&l.b.st);
		assert_says_same(l.a.st, l.b.st);
		assert_int_equal(state_clone(l.b.st, &copy, NULL), 0);
		assert_same_state(l.a.st, copy);
		reread(&copy);
		assert_says_same(l.a.st, copy);
		state_free(copy);
	}
	assert_same_state(l.a.st, l.b.st);
	state_free(l.a.st);
	state_free(l.b.st);
}

/* The ring of a tree whose sessions take turns, past its end. */
static void test_the_ring(void **state)
{
	struct feed f = feed_new();
	uint64_t root = open_session(&f), kid = open_child(&f, root), low = open_child(&f, kid);
	uint64_t who[] = { root, kid, low, kid };
	struct state *copy;

	(void)state;
	for (uint64_t i = 0; i < PAWL_MAX_WINDOW + 300; i++) {
		struct entry e = decision(&f, who[i % 4], i, i % 7, VERDICT_ALLOW, NULL, 0);

		e.decision.has_repeat = i % 5;
		put(&f, &e);
		if (i % 211)
			continue;
		assert_int_equal(state_clone(f.st, &copy, NULL), 0);
		reread(&f.st);
		assert_says_same(f.st, copy);
		state_free(copy);
	}
	state_free(f.st);
}

/* What tables and pools look like inside is no part of it: rows come and go here that never were there. */
static void test_history_of_memory(void **state)
{
	struct log l = { .a = feed_new(), .b = feed_new(), .x = 99u };
	struct buf a, b;

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct entry never = opening(&l.b, "never");

		random_step(&l);
		never.seq = state_next_seq(l.b.st);
		never.now = l.b.now;
		never.session.session = never.session.root = never.seq;
		never.session.labels_text = STR("{\"never\":\"kept\"}");
		assert_int_equal(state_room(l.b.st, &never, NULL), 0);
		write_state(l.a.st, &a);
		write_state(l.b.st, &b);
		assert_true(a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
		buf_done(&a);
		buf_done(&b);
	}
	state_free(l.a.st);
	state_free(l.b.st);
}

static void test_empty(void **state)
{
	struct state *st;

	(void)state;
	assert_int_equal(state_new(&st, NULL), 0);
	reread(&st);
	assert_int_equal(state_next_seq(st), 0);
	state_free(st);
}

/* ---- bytes that are no state ---- */

static struct state *medium(int steps)
{
	struct log l = { .a = feed_new(), .b = feed_new(), .x = 521288629u };

	for (int i = 0; i < steps; i++)
		random_step(&l);
	state_free(l.b.st);
	return l.a.st;
}

/* Refused with a place and a sentence; or taken, and then it is another state, whose bytes are these and no others. */
static bool is_refused(const char *p, size_t n, const uint8_t not[static 32])
{
	struct pawl_error err = { .code = PAWL_OK };
	struct state *st = NULL;
	uint8_t is[32];
	struct buf again;

	if (read_state(p, n, 0, &st, &err) < 0) {
		assert_int_equal(err.code, PAWL_E_TAMPERED);
		assert_non_null(strstr(err.msg, "at byte "));
		assert_null(st);
		return true;
	}
	write_state(st, &again);
	assert_true(again.n == n && memcmp(again.p, p, n) == 0);
	state_digest(st, is);
	assert_memory_not_equal(is, not, sizeof(is));
	assert_true(wear_out(st));
	buf_done(&again);
	state_free(st);
	return false;
}

static void test_every_byte(void **state)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	struct state *st = medium(110);
	size_t refused = 0;
	uint8_t digest[32];
	struct buf b;

	(void)state;
	state_digest(st, digest);
	write_state(st, &b);
	assert_true(b.n > 3000);
	for (size_t i = 0; i < b.n; i++)
		for (size_t k = 0; k < PAWL_LEN(flips); k++) {
			b.p[i] = (char)(b.p[i] ^ flips[k]);
			refused += is_refused(b.p, b.n, digest);
			b.p[i] = (char)(b.p[i] ^ flips[k]);
		}
	assert_true(refused > b.n);
	for (size_t n = 0; n < b.n; n++)
		assert_true(is_refused(b.p, n, digest));
	buf_putc(&b, 0);
	assert_true(is_refused(b.p, b.n, digest));
	buf_done(&b);
	state_free(st);
}

/* 0 is how an absent token lies in the ring: as a token that is there it would be a second form of it. */
static void test_one_form_of_none(void **state)
{
	static const uint8_t token[4] = { 0x11, 0x22, 0x33, 0x44 };
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct entry e = decision(&f, s, 1, 1, VERDICT_ALLOW, NULL, 0);
	uint8_t digest[32];
	struct buf b;
	char *at;

	(void)state;
	memcpy(e.decision.repeat, token, sizeof(token));
	put(&f, &e);
	state_digest(f.st, digest);
	write_state(f.st, &b);
	at = memmem(b.p, b.n, token, sizeof(token));
	assert_non_null(at);
	memset(at, 0, sizeof(token));
	assert_true(is_refused(b.p, b.n, digest));
	buf_done(&b);
	state_free(f.st);
}

static void assert_refused_for(const struct buf *b, const char *says)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct state *st = NULL;

	assert_int_equal(read_state(b->p, b->n, 0, &st, &err), PAWL_E_TAMPERED);
	if (!strstr(err.msg, says))
		fail_msg("%s", err.msg);
}

/* Of a report with two tokens both are kept, in the row that lives on, and neither may be 0. */
static void test_two_tokens(void **state)
{
	static const uint8_t tokens[2][16] = { { 0xa1, 0xa2, 0xa3, 0xa4, 0xa5 }, { 0xb1, 0xb2, 0xb3, 0xb4, 0xb5 } };
	struct feed f = feed_new();
	uint64_t s = open_session(&f), call = plain(&f, s, 1, 1, VERDICT_ALLOW);
	struct entry e = at(&f, ENTRY_SETTLE);
	struct exec_state was, is;
	uint8_t key[16];
	struct buf b;
	char *bits;

	(void)state;
	e.settle = (struct entry_settle){ .session = s, .decision = call, .outcome = OUTCOME_ERROR, .has_result_token = true, .has_error_token = true };
	memcpy(e.settle.result_token, tokens[0], 16);
	memcpy(e.settle.error_token, tokens[1], 16);
	put(&f, &e);
	assert_true(state_exec(f.st, s, 0, &was));
	assert_memory_equal(&was.result, tokens[0], 4);
	assert_memory_equal(&was.error, tokens[1], 4);
	reread(&f.st);
	assert_true(state_exec(f.st, s, 0, &is));
	assert_true(is.result == was.result && is.error == was.error && is.failed);
	write_state(f.st, &b);
	for (int i = 0; i < 2; i++) {
		char *at = memmem(b.p, b.n, tokens[i], 4);

		assert_non_null(at);
		memset(at, 0, 4);
		assert_refused_for(&b, "never 0");
		memcpy(at, tokens[i], 4);
	}
	id16(key, 1 * 1000 + 1);
	bits = (char *)memmem(b.p, b.n, key, 8) - 4 - 2 - 3; /* before its tool and its id's token */
	assert_memory_equal(bits + 1, "\x80\x01", 2);
	*bits = (char)(*bits & 0x7f);
	memmove(bits + 1, bits + 3, (size_t)(b.p + b.n - (bits + 3)));
	b.n -= 2;
	assert_refused_for(&b, "less is kept");
	buf_done(&b);
	state_free(f.st);
}

/* Pairs of bytes too: a count and what it counts, an id and who refers to it. */
static void test_random_bytes(void **state)
{
	struct state *st = medium(140);
	uint64_t x = 1234567;
	uint8_t digest[32];
	struct buf b, c = BUF_MAX(1 << 20);

	(void)state;
	state_digest(st, digest);
	write_state(st, &b);
	for (int i = 0; i < 2500; i++) {
		buf_reset(&c);
		buf_add(&c, b.p, b.n);
		for (int k = 0; k < 1 + i % 3; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			c.p[x % c.n] = (char)(x >> 32);
		}
		if (memcmp(c.p, b.p, b.n) != 0)
			(void)is_refused(c.p, c.n, digest);
	}
	buf_done(&b);
	buf_done(&c);
	state_free(st);
}

static void number(struct buf *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_putc(b, (char)(v | 0x80));
	buf_putc(b, (char)v);
}

/* Counts that nothing stands behind ask for no memory. */
static void test_counts(void **state)
{
	static const struct {
		uint64_t v[16];
		size_t n;
	} rows[] = {
		{ { 9, 9, UINT32_MAX, 0, 0, 0, 0, 0, 0, 0, 0 }, 11 },	       /* sessions */
		{ { 9, 9, UINT64_MAX, 0, 0, 0, 0, 0, 0, 0, 0 }, 11 },	       /* more than fit a number of theirs */
		{ { 9, 9, 0, UINT32_MAX, 0, 0, 0, 0, 0, 0, 0, 0 }, 12 },       /* calls */
		{ { 9, 9, 0, 0, 0, 0, 0, 1, PAWL_MAX_BUDGETS }, 9 },	       /* budgets */
		{ { 9, 9, 0, 0, 0, 0, 0, 1, PAWL_MAX_BUDGETS + 1 }, 9 },       /* more than a policy has */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 1 }, 9 },			       /* and some where none were told */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, UINT32_MAX }, 10 },	       /* agents */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, 1, 16 + PAWL_MAX_BODY }, 11 },  /* a text */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, 1, 17 + PAWL_MAX_BODY }, 11 },  /* longer than any */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, 1, UINT64_MAX }, 11 },
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, 1, 1 }, 11 },		       /* a text that was never there */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, 0, UINT32_MAX }, 11 },	       /* ledgers */
		{ { 9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, UINT32_MAX }, 12 },       /* breakers */
		{ { SEQ_MAX + 2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 12 },
		{ { 9, UINT64_MAX, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 12 },
	};
	static const uint8_t none[32];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct buf b = BUF_MAX(1 << 20);

		buf_puts(&b, "pawl/state/v6\n");
		for (size_t k = 0; k < rows[i].n; k++)
			number(&b, rows[i].v[k]);
		fail_malloc_watch();
		assert_true(is_refused(b.p, b.n, none));
		if (fail_malloc_largest() > 65536)
			fail_msg("row %zu: %zu bytes at once", i, fail_malloc_largest());
		buf_done(&b);
	}
}

/* ---- rows that contradict each other: made in a state, which can then only be freed, written, and refused ---- */

struct broken {
	struct feed f;
	uint64_t root, kid, open, told, asked, claimed, costs, ended, other, low, late; /* low: as deep in the tree of other as can be */
};

static struct call_row *call_of(const struct broken *k, uint64_t seq)
{
	return call_at(k->f.st, find_seq(k->f.st, seq));
}

static struct live_row *live_of(const struct broken *k, uint64_t seq)
{
	return call_live(k->f.st, call_of(k, seq));
}

static struct session_row *session_of(const struct broken *k, uint64_t id)
{
	return session_at(k->f.st, find_session(k->f.st, id));
}

static struct card_row *card_of_asked(const struct broken *k)
{
	return card_at(k->f.st, live_of(k, k->asked)->card);
}

/* An approval that was used in the root, beside a card that waits. */
static void broken_cards(struct broken *k)
{
	uint64_t card = plain(&k->f, k->root, 6, 6, VERDICT_REVIEW);
	struct entry e = resolving(&k->f, card, RESOLVE_RESUME);

	put(&k->f, &e);
	k->asked = plain(&k->f, k->root, 2, 2, VERDICT_REVIEW);
	e = spending(&k->f, k->root, 7, 6, card, true);
	k->claimed = e.seq;
	put(&k->f, &e);
	e = at(&k->f, ENTRY_SETTLE);
	e.settle = (struct entry_settle){ .session = k->root, .decision = k->claimed, .outcome = OUTCOME_OK };
	put(&k->f, &e);
}

static void broken_denials(struct broken *k)
{
	struct breaker_row rows[] = { breaker_of("api", SCOPE_COUNT, 0, BREAKER_OPEN), breaker_of("db", SCOPE_COUNT, 0, BREAKER_OPEN) };
	struct entry e = decision(&k->f, k->kid, 3, 3, VERDICT_DENY, NULL, 0);

	e.decision.sticks[0] = (struct stick_fact){ .how = STICK_SESSION, .tool = STR("t"), .rule = STR("no") };
	e.decision.sticks[1] = (struct stick_fact){ .how = STICK_SESSION, .tool = STR("u"), .rule = STR("no") };
	e.decision.n_sticks = e.decision.n_trips = 2;
	e.decision.trips[1][0] = 7;
	e.decision.guard_repeat = 4;
	e.decision.breakers = rows;
	e.decision.n_breakers = 2;
	put(&k->f, &e);
	e = decision(&k->f, k->kid, 8, 8, VERDICT_DENY, NULL, 0);
	e.decision.tool = STR("u");
	e.decision.guard_repeat = 4;
	put(&k->f, &e);
}

/* As deep as can be, of another agent, with two ledgers of its own. */
static void broken_tree(struct broken *k)
{
	struct entry e = opening(&k->f, "other");
	struct draw d[2];

	put(&k->f, &e);
	k->low = e.seq;
	d[0] = draw_of(k->low, "run", UNIT_MONEY, 1);
	d[1] = draw_of(k->low, "tokens", UNIT_TOKENS, 1);
	e = decision(&k->f, k->low, 1, 1, VERDICT_ALLOW, d, 2);
	e.decision.cost_known = true;
	e.decision.money = 5;
	k->costs = e.seq;
	put(&k->f, &e);
	k->other = k->low;
	for (int i = 1; i < PAWL_MAX_DEPTH_TREE; i++)
		k->low = open_child(&k->f, k->low);
}

static struct broken broken_new(void)
{
	struct budget_row budgets[] = { { .id = STR("run"), .limit = 5 }, { .id = STR("tokens"), .unit = UNIT_TOKENS, .limit = 5 } };
	struct broken k = { .f = feed_new() };
	struct entry e = at(&k.f, ENTRY_POLICY);

	e.policy = (struct entry_policy){ .loaded = true, .budgets = { .rows = budgets, .n = 2 } };
	put(&k.f, &e);
	k.root = open_session(&k.f);
	k.kid = open_child(&k.f, k.root);
	k.ended = open_session(&k.f);
	e = ending(&k.f, k.ended, SESSION_CLOSE);
	put(&k.f, &e);
	k.told = allow(&k.f, k.root, 1, 1, USD);
	settle(&k.f, k.root, k.told, USD / 2, false);
	broken_cards(&k);
	broken_denials(&k);
	k.open = allow(&k.f, k.root, 4, 4, USD);
	broken_tree(&k);
	k.late = open_session(&k.f);
	return k;
}

#define BREAK(name, ...)                                 \
	static void break_##name(const struct broken *k) \
	{                                                \
		__VA_ARGS__;                             \
	}
BREAK(kind, call_of(k, k->told)->kind = 7)
BREAK(answer, call_of(k, k->asked)->answer = VERDICT_UNSET)
BREAK(count, call_of(k, k->told)->count = 0)
BREAK(outcome, call_of(k, k->told)->outcome = OUTCOME_EXPIRED)
BREAK(open_outcome, call_of(k, k->open)->outcome = OUTCOME_OK)
BREAK(settled, call_of(k, k->told)->settled = 1000)
BREAK(unsettled, call_of(k, k->told)->settled = 0)
BREAK(denied, call_of(k, k->asked)->outcome = OUTCOME_OK)
BREAK(decided, live_of(k, k->open)->decided_ns = k->f.now + 1)
BREAK(client, live_of(k, k->open)->client = call_of(k, k->open)->tool)
BREAK(probe, live_of(k, k->asked)->probe = true)
BREAK(no_tool, call_of(k, k->open)->tool = 0)
BREAK(same_seq, call_at(k->f.st, call_at(k->f.st, session_of(k, k->kid)->calls)->next)->seq = k->told & SEQ_MAX)
BREAK(young_call, call_of(k, k->open)->seq = k->f.st->next_seq & SEQ_MAX)
BREAK(old_call, call_of(k, k->told)->seq = k->root & SEQ_MAX)
BREAK(more_calls, session_of(k, k->ended)->calls = session_of(k, k->kid)->calls)
BREAK(fewer_calls, session_of(k, k->kid)->calls = 0)
BREAK(ended, session_of(k, k->root)->pub.end = SESSION_ENDED_CLOSE; session_of(k, k->root)->pub.ended_ns = k->f.now)
BREAK(open_in_end, card_of_asked(k)->pub.mode = CARD_CLOSED; break_ended(k))
BREAK(kid_lives, k->f.st->next_seq += 5; call_of(k, k->open)->settled = (k->open + 1) & SEQ_MAX; call_of(k, k->open)->outcome = OUTCOME_EXPIRED;
      card_of_asked(k)->pub.mode = CARD_CLOSED; break_ended(k))
BREAK(how, session_of(k, k->ended)->pub.end = (enum session_end)9)
BREAK(ended_later, session_of(k, k->ended)->pub.ended_ns = k->f.now + 1)
BREAK(forgotten, k->f.st->now += PAWL_SESSION_LINGER_NS + 1)
BREAK(opened, session_of(k, k->kid)->pub.opened_ns = k->f.now + 1)
BREAK(parent, session_of(k, k->late)->pub.parent = k->told)
BREAK(id, session_of(k, k->ended)->pub.id = 1000)
BREAK(agent, session_of(k, k->kid)->pub.agent = session_of(k, k->kid)->pub.labels_text)
BREAK(ledger_scope, ledger_at(k->f.st, k->f.st->list.shared)->scope = SCOPE_SESSION)
BREAK(ledger_own, ledger_at(k->f.st, session_of(k, k->root)->ledgers)->scope = SCOPE_AGENT)
BREAK(negative, ledger_at(k->f.st, k->f.st->list.shared)->sum.spent = -1)
BREAK(window, ledger_at(k->f.st, k->f.st->list.shared)->sum.window_end = -5)
BREAK(hold, k->f.st->list.shared = 0)
BREAK(card_mode, card_of_asked(k)->pub.mode = (enum card_mode)7)
BREAK(card_spent, card_of_asked(k)->pub.mode = CARD_SPENT; card_of_asked(k)->pub.spent_by = k->asked + 1)
BREAK(card_until, card_of_asked(k)->pub.until = k->f.now - 1)
BREAK(card_asks, card_of_asked(k)->pub.n_asks = 1; card_of_asked(k)->pub.asks[0].code = REASON_COUNT)
BREAK(card_of, card_of_asked(k)->pub.id = k->asked - 1)
BREAK(no_card, session_of(k, k->root)->cards = 0)
BREAK(guard, guard_at(k->f.st, session_of(k, k->kid)->guards)->pub.repeat = 0)
BREAK(stick_how, stick_at(k->f.st, session_of(k, k->kid)->sticks)->how = STICK_AGENT)
BREAK(stick_tree, stick_at(k->f.st, session_of(k, k->kid)->sticks)->how = STICK_TREE)
BREAK(stick_at, stick_at(k->f.st, session_of(k, k->kid)->sticks)->at = PAWL_MAX_STICKS)
BREAK(stick_seq, stick_at(k->f.st, session_of(k, k->kid)->sticks)->seq = 1000)
BREAK(fresh, agent_at(k->f.st, 1)->pub.fresh = 1000)
BREAK(breaker_mode, break_at(k->f.st, 1)->pub.mode = BREAKER_MODE_COUNT)
BREAK(breaker_silent, break_at(k->f.st, 1)->pub.mode = BREAKER_CLOSED; break_at(k->f.st, 1)->pub.generation = 0)
BREAK(breaker_session, break_at(k->f.st, 1)->pub.scope = SCOPE_SESSION; break_at(k->f.st, 1)->pub.session = k->ended)
BREAK(breaker_probe, break_at(k->f.st, 1)->pub.mode = BREAKER_HALF_OPEN; break_at(k->f.st, 1)->pub.probe = 1000)
BREAK(ring, ring_calls(session_of(k, k->root))[0] = find_seq(k->f.st, k->asked))
BREAK(ring_order, uint32_t *at = ring_calls(session_of(k, k->root)), was = at[0]; at[0] = at[1]; at[1] = was)
BREAK(ring_short, session_of(k, k->root)->ring_n = 1)
BREAK(known, k->f.st->money.known = false)
BREAK(budget_limit, k->f.st->money.budgets[1].limit = 0)
BREAK(budget_twice, k->f.st->money.budgets[1].id = k->f.st->money.budgets[0].id)
BREAK(budget_name, text_at(k->f.st, k->f.st->money.budgets[1].id)->t->p[0] = '@')
BREAK(stick_order, stick_at(k->f.st, session_of(k, k->kid)->sticks)->at = 0)
BREAK(stick_younger, stick_at(k->f.st, session_of(k, k->kid)->sticks)->seq = k->kid)
BREAK(agent_twice, agent_at(k->f.st, 2)->name = agent_at(k->f.st, 1)->name)
BREAK(ledger_twice, struct ledger_row *l = ledger_at(k->f.st, session_of(k, k->other)->ledgers); ledger_at(k->f.st, l->next)->unit = l->unit;
      ledger_at(k->f.st, l->next)->budget = l->budget)
BREAK(guard_twice, guard_at(k->f.st, guard_at(k->f.st, session_of(k, k->kid)->guards)->next)->tool = guard_at(k->f.st, session_of(k, k->kid)->guards)->tool)
BREAK(trip_twice, trip_at(k->f.st, session_of(k, k->root)->trips)->token = trip_at(k->f.st, trip_at(k->f.st, session_of(k, k->root)->trips)->next)->token)
BREAK(breaker_twice, break_at(k->f.st, 2)->pub.id = break_at(k->f.st, 1)->pub.id)
BREAK(breaker_closed_probe, break_at(k->f.st, 1)->pub.mode = BREAKER_HALF_OPEN; break_at(k->f.st, 1)->pub.probe = 0)
BREAK(no_life, struct hold_row *o = hold_at(k->f.st, live_of(k, k->costs)->holds); o->amount = o->window_end = 0)
BREAK(too_deep, session_of(k, k->late)->pub.parent = k->low)
BREAK(early, session_of(k, k->ended)->pub.ended_ns = session_of(k, k->ended)->pub.opened_ns - 1)
BREAK(spent_twice, struct card_row *c = card_of_asked(k); c->pub.mode = CARD_SPENT; c->pub.spent_by = k->claimed)
BREAK(life, session_of(k, k->root)->life[0] = -1)

static void test_contradictions(void **state)
{
	static const struct {
		const char *name;
		void (*doing)(const struct broken *k);
		const char *says;
	} rows[] = {
#define ROW(name, says) { #name, break_##name, says }
		ROW(kind, "no known kind"), ROW(answer, "no answer"), ROW(count, "its own first execution"), ROW(outcome, "an outcome"),
		ROW(open_outcome, "an outcome"), ROW(settled, "later than now"), ROW(unsettled, "an outcome"), ROW(denied, "never ran"),
		ROW(decided, "decided later"), ROW(client, "another length"), ROW(probe, "it probes"),
		ROW(no_tool, "a text that is not there"),
		ROW(same_seq, "another session"), ROW(young_call, "not older"), ROW(old_call, "older than its session"), ROW(more_calls, "more calls"), ROW(fewer_calls, "fewer calls"),
		ROW(ended, "in this session"), ROW(kid_lives, "outlives"), ROW(how, "above its bound"), ROW(ended_later, "ended before"),
		ROW(forgotten, "forgotten"), ROW(opened, "opened later"), ROW(parent, "a parent"), ROW(id, "opened later"), ROW(agent, "an agent"),
		ROW(ledger_scope, "ledger 1"), ROW(ledger_own, "ledger 1"), ROW(negative, "above its bound"), ROW(window, "no log"),
		ROW(hold, "a ledger that is not there"), ROW(card_mode, "card 1"), ROW(card_spent, "opened it, or spent it"), ROW(card_until, "card 1"),
		ROW(card_asks, "above its bound"), ROW(card_of, "opened it, or spent it"), ROW(no_card, "its card is not there"), ROW(guard, "limits nothing"),
		ROW(stick_how, "denial 1"), ROW(stick_tree, "denial 1"), ROW(stick_at, "above its bound"), ROW(stick_seq, "denial 1"),
		ROW(fresh, "more sessions"), ROW(breaker_mode, "breaker 1"), ROW(breaker_silent, "says nothing"), ROW(breaker_session, "breaker 1"),
		ROW(breaker_probe, "breaker 1"), ROW(ring, "no execution"), ROW(ring_order, "above its bound"), ROW(ring_short, "fewer"),
		ROW(known, "above its bound"), ROW(budget_limit, "budget 2"), ROW(budget_twice, "budget 2"), ROW(budget_name, "budget 2"),
		ROW(stick_order, "denial 2"), ROW(stick_younger, "denial 2"), ROW(agent_twice, "agent 2"), ROW(ledger_twice, "ledger 2"),
		ROW(guard_twice, "guard 2"), ROW(trip_twice, "tripped token 2"), ROW(breaker_twice, "breaker 2"), ROW(breaker_closed_probe, "breaker 1"),
		ROW(no_life, "nothing is held"), ROW(too_deep, "too deep"), ROW(early, "ended before"), ROW(spent_twice, "spent it"),
		ROW(open_in_end, "its session is over"), ROW(life, "above its bound"),
#undef ROW
	};
	static const uint8_t none[32];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct broken k = broken_new();
		struct pawl_error err = { .code = PAWL_OK };
		struct state *st = NULL;
		struct buf b;

		reread(&k.f.st);
		rows[i].doing(&k);
		write_state(k.f.st, &b);
		if (read_state(b.p, b.n, 0, &st, &err) != PAWL_E_TAMPERED || !strstr(err.msg, rows[i].says))
			fail_msg("%s: \"%s\"", rows[i].name, err.msg);
		assert_true(is_refused(b.p, b.n, none));
		state_free(k.f.st);
		buf_done(&b);
	}
}

/* ---- both ends fail ---- */

static void test_no_memory(void **state)
{
	struct state *st = medium(400), *copy = NULL;
	struct buf b;
	long n = 1;

	(void)state;
	write_state(st, &b);
	for (;; n++) {
		struct pawl_error err = { .code = PAWL_OK };
		int r;

		fail_malloc_after(n);
		r = read_state(b.p, b.n, 0, &copy, &err);
		if (!fail_malloc_stop()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, PAWL_E_NOMEM);
		assert_int_equal(err.code, PAWL_E_NOMEM);
		assert_null(copy);
	}
	assert_true(n > 40);
	assert_says_same(st, copy);
	state_free(copy);
	state_free(st);
	buf_done(&b);
}

struct end { /* fails at the n-th call */
	int left, calls;
	size_t bytes;
	struct bytes_left in;
};

static int failing_sink(void *arg, const void *p, size_t n, struct pawl_error *err)
{
	struct end *e = arg;

	(void)p;
	e->calls++;
	e->bytes += n;
	return --e->left == 0 ? pawl_fail(err, PAWL_E_FULL, "the disk is full") : 0;
}

static int failing_source(void *arg, void *p, size_t max, size_t *ret_n, struct pawl_error *err)
{
	struct end *e = arg;

	e->calls++;
	return --e->left == 0 ? pawl_fail(err, PAWL_E_SYS, "the disk is gone") : from_left(&e->in, p, max, ret_n, err);
}

static void test_ends_fail(void **state)
{
	struct state *st = medium(1500), *copy = NULL;
	struct pawl_error err;
	struct buf b;
	int n;

	(void)state;
	write_state(st, &b);
	for (n = 1;; n++) {
		struct end e = { .left = n };

		if (state_write(st, failing_sink, &e, &err) == 0)
			break;
		assert_int_equal(err.code, PAWL_E_FULL);
		assert_int_equal(e.calls, n); /* nothing more once it said no */
	}
	assert_true(n > 3);
	for (n = 1;; n++) {
		struct end e = { .left = n, .in = { b.p, b.n, 4099 } };

		err.code = PAWL_OK;
		if (state_read(failing_source, &e, &copy, &err) == 0)
			break;
		assert_int_equal(err.code, PAWL_E_SYS);
		assert_int_equal(e.calls, n);
		assert_null(copy);
	}
	assert_true(n > 10);
	assert_says_same(st, copy);
	state_free(copy);
	buf_done(&b);
	state_free(st);
}

/* The writer asks for no memory, and the reader does not mind how the bytes come. */
static void test_pieces(void **state)
{
	static const size_t pieces[] = { 1, 2, 3, 7, 100, 16384, 65535, 65536 };
	struct state *st = medium(1000), *copy;
	uint8_t was[32];
	struct buf b;

	(void)state;
	write_state(st, &b);
	for (size_t i = 0; i < PAWL_LEN(pieces); i++) {
		assert_int_equal(read_state(b.p, b.n, pieces[i], &copy, NULL), 0);
		assert_same_state(st, copy);
		state_free(copy);
	}
	fail_malloc_after(1);
	state_digest(st, was);
	assert_false(fail_malloc_stop());
	buf_done(&b);
	state_free(st);
}

/* A text as long as an entry can bring. */
static void test_long_text(void **state)
{
	struct feed f = feed_new();
	struct entry e = opening(&f, "local");
	char *text = malloc(PAWL_MAX_BODY);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', PAWL_MAX_BODY);
	for (int i = 0; i < 5; i++) {
		e = opening(&f, "local");
		text[0] = (char)('a' + i);
		e.session.labels_text = (struct str){ text, PAWL_MAX_BODY - (size_t)i };
		put(&f, &e);
		reread(&f.st);
	}
	free(text);
	state_free(f.st);
}

/* Ten settled calls a session. */
static void test_small(void **state)
{
	enum { SESSIONS = 500 };
	struct feed f = feed_new();
	struct buf b;

	(void)state;
	for (uint64_t i = 0; i < SESSIONS; i++) {
		uint64_t s = open_session(&f);

		for (uint64_t k = 0; k < 10; k++)
			settle(&f, s, allow(&f, s, k, 100 * i + k, 1), 1, false);
	}
	write_state(f.st, &b);
	if (b.n / SESSIONS > 500)
		fail_msg("%zu bytes a session", b.n / SESSIONS);
	buf_done(&b);
	state_free(f.st);
}

/* What the pawld before the watch signed for the same entries, so that its logs can be judged again. */
static void test_form_before(void **state)
{
	static const char want[] = "694efae497f5946d05e94516e5c1637290b75273a467205fd3f95f6d7b2b2f0e";
	struct broken k = broken_new();
	uint8_t digest[32];
	char hex[65];

	(void)state;
	assert_true(state_digest_v5(k.f.st, digest));
	assert_string_equal(sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest)), want);
	state_free(k.f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_every_entry),
		cmocka_unit_test(test_now_and_then),
		cmocka_unit_test(test_the_ring),
		cmocka_unit_test(test_history_of_memory),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_one_form_of_none),
		cmocka_unit_test(test_form_before),
		cmocka_unit_test(test_two_tokens),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_ends_fail),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
