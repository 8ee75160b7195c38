/* tests/unit/test_state_watch.c - what a session remembers of its watched processes; what entries of the watch may not say; and in bytes. */
#include "tests/support/state_feed.h"

#include "tests/support/state_reread.h"

struct scene {
	struct feed f;
	uint64_t fresh, live, over, ended; /* never watched; watched; its tree has ended; closed, and its tree lives on */
};

static struct entry watch(struct scene *s, uint64_t session, enum watched_action action)
{
	static const struct watched_program one = { .path = { "/bin/sh", 7 }, .pid = 9, .count = 2 };
	static const struct watched_dead dead = { 9, { "sh", 2 } };
	struct entry e = at(&s->f, ENTRY_WATCH);

	e.watch = (struct entry_watch){ .action = action, .session = session, .why = WHY_CPU, .pid = 9, .events = 5, .total = 2, .programs = &one, .dead = &dead,
					.tier = STR("B"), .held = { WATCHED_DENY_EXEC, WATCHED_CPU }, .n_held = 2 };
	e.watch.n_programs = action == WATCHED_EXECS || action == WATCHED_KILL;
	if (action == WATCHED_END) {
		e.watch.n_dead = 1;
		e.watch.killed = 1;
	}
	return e;
}

static void see(struct scene *s, uint64_t session, enum watched_action action)
{
	struct entry e = watch(s, session, action);

	put(&s->f, &e);
}

static struct scene scene_new(void)
{
	struct scene s = { .f = feed_new() };
	struct entry e;

	s.fresh = open_session(&s.f);
	s.live = open_session(&s.f);
	s.over = open_session(&s.f);
	s.ended = open_session(&s.f);
	see(&s, s.live, WATCHED_ATTACH);
	see(&s, s.over, WATCHED_ATTACH);
	see(&s, s.over, WATCHED_END);
	see(&s, s.ended, WATCHED_ATTACH);
	e = ending(&s.f, s.ended, SESSION_CLOSE);
	put(&s.f, &e);
	return s;
}

/* ---- what is remembered ---- */

static void test_counts(void **state)
{
	struct scene s = scene_new();
	struct entry e;
	struct tree_state t;

	(void)state;
	assert_int_equal(state_tree(s.f.st, s.fresh).mode, TREE_NONE);
	assert_int_equal(state_tree(s.f.st, 12345).mode, TREE_NONE);
	assert_int_equal(state_tree(s.f.st, s.over).mode, TREE_ENDED);
	assert_int_equal(state_tree(s.f.st, s.over).why, WHY_CPU);
	see(&s, s.live, WATCHED_EXECS);
	see(&s, s.live, WATCHED_EXECS);
	see(&s, s.live, WATCHED_KILL);
	see(&s, s.live, WATCHED_LOST);
	see(&s, s.live, WATCHED_LEFT);
	e = watch(&s, s.live, WATCHED_EXECS); /* sums stay at the end they ran into */
	e.watch.unlisted = INT64_MAX - 2;
	e.watch.total = INT64_MAX;
	put(&s.f, &e);
	t = state_tree(s.f.st, s.live);
	assert_int_equal(t.execs, INT64_MAX);
	assert_int_equal(t.kills, 2);
	assert_int_equal(t.lost, 5);
	assert_int_equal(t.held, HOLD_EXEC | HOLD_CPU);
	assert_int_equal(t.why, WHY_NONE);
	e = watch(&s, s.live, WATCHED_BREACH);
	e.watch.why = WHY_MEMORY;
	e.watch.measured = 9;
	e.watch.limit = 8;
	put(&s.f, &e);
	see(&s, s.live, WATCHED_END); /* the limit stays what is named */
	t = state_tree(s.f.st, s.live);
	assert_int_equal(t.mode, TREE_ENDED);
	assert_int_equal(t.why, WHY_MEMORY);
	assert_int_equal(t.measured, 9);
	see(&s, s.ended, WATCHED_KILL); /* its session is over; what is told of it is told all the same */
	see(&s, s.ended, WATCHED_END);
	assert_int_equal(state_tree(s.f.st, s.ended).mode, TREE_ENDED);
	state_free(s.f.st);
}

static void test_watched(void **state)
{
	struct scene s = scene_new();
	uint64_t kid = open_child(&s.f, s.live), below = open_child(&s.f, kid), other = open_child(&s.f, s.fresh);

	(void)state;
	assert_true(state_watched(s.f.st, state_session(s.f.st, s.live)));
	assert_true(state_watched(s.f.st, state_session(s.f.st, below)));
	assert_false(state_watched(s.f.st, state_session(s.f.st, s.fresh)));
	assert_false(state_watched(s.f.st, state_session(s.f.st, s.over)));
	see(&s, other, WATCHED_ATTACH);
	assert_true(state_watched(s.f.st, state_session(s.f.st, other)));
	assert_false(state_watched(s.f.st, state_session(s.f.st, s.fresh)));
	state_free(s.f.st);
}

/* ---- what no log may say ---- */

struct bad {
	const char *name;
	enum watched_action action;
	void (*spoil)(struct scene *s, struct entry_watch *w);
};

#define BAD(fn, body)                                                    \
	static void fn(struct scene *s, struct entry_watch *w)           \
	{                                                                \
		(void)s;                                                 \
		body;                                                    \
	}
static struct watched_program rows[PAWL_MAX_PROGRAMS + 1];
BAD(unknown, w->session = 12345)
BAD(unwatched, w->session = s->fresh)
BAD(after_its_end, w->session = s->over)
BAD(twice, w->session = s->live)
BAD(session_over, w->session = s->ended)
BAD(action, w->action = WATCHED_ACTION_COUNT)
BAD(why, w->why = WHY_COUNT)
BAD(no_why, w->why = WHY_NONE)
BAD(order, w->held[1] = WATCHED_DENY_EXEC)
BAD(held, w->held[1] = WATCHED_HOLD_COUNT)
BAD(many_held, w->n_held = WATCHED_HOLD_COUNT + 1)
BAD(no_pid, w->pid = 0)
BAD(negative_pid, w->pid = -1)
BAD(sum, w->total = 3)
BAD(nothing, w->n_programs = 0; w->total = 0)
BAD(negative_rest, w->unlisted = -1; w->total = 1)
BAD(overflow, w->unlisted = INT64_MAX; w->total = INT64_MIN + 1)
BAD(many_rows, w->programs = rows; w->n_programs = PAWL_MAX_PROGRAMS + 1)
BAD(empty_row, w->programs = rows; w->total = 0)
BAD(no_events, w->events = 0)
BAD(measured, w->measured = -1)
BAD(limit, w->limit = -1)
BAD(more_dead_than_killed, w->killed = 0)
BAD(many_dead, w->n_dead = PAWL_MAX_ENDED + 1; w->killed = 100)
BAD(negative_peak, w->peak = -1)
static const struct breaker_row opened = { .id = { "api", 3 }, .scope = SCOPE_COUNT, .mode = BREAKER_OPEN };
BAD(breaker, w->n_breakers = 1; w->breakers = &opened)

static const struct bad bads[] = {
	{ "a session that is not there", WATCHED_EXECS, unknown },
	{ "one that is not watched", WATCHED_EXECS, unwatched },
	{ "one whose tree has ended", WATCHED_KILL, after_its_end },
	{ "one whose tree has ended, again", WATCHED_END, after_its_end },
	{ "one that is watched already", WATCHED_ATTACH, twice },
	{ "one that was watched", WATCHED_ATTACH, after_its_end },
	{ "one that has ended", WATCHED_ATTACH, session_over },
	{ "no such action", WATCHED_EXECS, action },
	{ "no such cause", WATCHED_KILL, why },
	{ "a kill without a cause", WATCHED_KILL, no_why },
	{ "a breach without a limit's name", WATCHED_BREACH, no_why },
	{ "held twice", WATCHED_ATTACH, order },
	{ "held by no name", WATCHED_ATTACH, held },
	{ "more held than there is", WATCHED_ATTACH, many_held },
	{ "nobody attached", WATCHED_ATTACH, no_pid },
	{ "nobody left", WATCHED_LEFT, no_pid },
	{ "a negative pid", WATCHED_BREACH, negative_pid },
	{ "rows that do not add up", WATCHED_EXECS, sum },
	{ "starts of nothing", WATCHED_EXECS, nothing },
	{ "kills of nobody", WATCHED_KILL, nothing },
	{ "less than nothing", WATCHED_EXECS, negative_rest },
	{ "a sum that overflows", WATCHED_EXECS, overflow },
	{ "too many rows", WATCHED_EXECS, many_rows },
	{ "a row that counts nothing", WATCHED_EXECS, empty_row },
	{ "lost nothing", WATCHED_LOST, no_events },
	{ "a negative measure", WATCHED_BREACH, measured },
	{ "a negative limit", WATCHED_BREACH, limit },
	{ "more dead than killed", WATCHED_END, more_dead_than_killed },
	{ "too many dead", WATCHED_END, many_dead },
	{ "a negative peak", WATCHED_END, negative_peak },
	{ "a breaker that a start changes", WATCHED_EXECS, breaker },
	{ "a breaker that an end changes", WATCHED_END, breaker },
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bads); i++) {
		struct scene s = scene_new();
		struct entry e = watch(&s, bads[i].action == WATCHED_ATTACH ? s.fresh : s.live, bads[i].action);
		struct pawl_error err = { .code = PAWL_OK };
		uint8_t before[32], after[32];

		assert_int_equal(state_room(s.f.st, &e, &err), 0); /* as it is, it may be said */
		bads[i].spoil(&s, &e.watch);
		state_digest(s.f.st, before);
		if (state_room(s.f.st, &e, &err) != PAWL_E_TAMPERED)
			fail_msg("%s: taken", bads[i].name);
		state_digest(s.f.st, after);
		assert_memory_equal(before, after, 32);
		state_free(s.f.st);
	}
}

/* ---- in bytes ---- */

static void test_bytes(void **state)
{
	struct scene s = scene_new();
	struct tree_state t;

	(void)state;
	see(&s, s.live, WATCHED_KILL);
	reread(&s.f.st);
	t = state_tree(s.f.st, s.live);
	assert_int_equal(t.mode, TREE_LIVE);
	assert_int_equal(t.kills, 2);
	assert_int_equal(t.held, HOLD_EXEC | HOLD_CPU);
	assert_int_equal(state_tree(s.f.st, s.over).why, WHY_CPU);
	assert_int_equal(state_tree(s.f.st, s.fresh).mode, TREE_NONE);
	see(&s, s.live, WATCHED_END);
	s.f.now += 2 * PAWL_SESSION_LINGER_NS; /* rows go with their sessions */
	(void)open_session(&s.f);
	assert_int_equal(s.f.st->trees.used - s.f.st->trees.n_free, 2); /* those of live and over */
	state_free(s.f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_watched),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
