/* tests/unit/test_watched_ends.c - how a tree comes to its end in the log: by itself, by a person, its lease or its launcher, and over a restart of the rest. */
#include "tests/support/watched_world.h"

/* ---- ends ---- */

static void test_end(void **state)
{
	struct bench *b = bench_new();
	struct watch_event ev;
	struct watched_view v;
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	ev = event(b, WATCH_EXEC, WHY_NONE, "/bin/sh");
	watched_events(b->t, &ev, 1);
	say_ended(b, WHY_PROCESSES, 3);
	assert_int_equal(b->s.forgets, 0);
	(void)settle_down(b);
	assert_int_equal(said(b, "\"action\":\"execs\"", text), 1); /* nothing that waits is forgotten */
	assert_int_equal(said(b, "\"action\":\"end\"", text), 1);
	assert_non_null(strstr(text, "\"ended\":[{\"comm\":\"a?\",\"pid\":99},{\"comm\":\"b\",\"pid\":98}],\"execs\":2,"));
	assert_non_null(strstr(text, "\"killed\":3,\"kind\":\"watch\",\"limit\":50,"));
	assert_non_null(strstr(text, "\"why\":\"processes\""));
	assert_int_equal(said(b, "\"action\":\"close\"", text), 1);
	assert_int_equal(b->s.forgets, 1);
	assert_int_equal(b->s.forgot, b->w->session);
	assert_int_equal(b->s.ended, 1);
	assert_int_equal(b->s.end.measured, 51);
	assert_false(watched_look(b->t, b->w->session, &v));
	say_ended(b, WHY_PROCESSES, 3); /* told again to a rest that has forgotten it: no second entry, and it may go */
	(void)settle_down(b);
	assert_int_equal(said(b, "\"action\":\"end\"", text), 1);
	assert_int_equal(b->s.forgets, 2);
	bench_free(b);
}

/* P1: the watcher may forget only what the log has. */
static void test_end_waits_for_the_log(void **state)
{
	struct bench *b = bench_new();
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	b->w->disk.syncs_left = 0;
	say_ended(b, WHY_CPU, 1);
	(void)settle_down(b);
	(void)later(b, SEC);
	assert_int_equal(b->s.forgets + b->s.ended, 0);
	b->w->disk.syncs_left = -1;
	log_back(b);
	(void)later(b, SEC);
	assert_int_equal(b->s.forgets, 1);
	assert_int_equal(said(b, "\"action\":\"end\"", text), 1);
	bench_free(b);
}

static void abort_session(struct bench *b)
{
	struct signed_by by = { .operator = STR("ann"), .key = STR("k") };
	struct refusal no;

	assert_int_equal(mediate_abort(&b->w->m, b->w->session, false, STR("stop"), &by, NULL, &no), 0);
}

static void test_abort(void **state)
{
	struct bench *b = bench_new();

	(void)state;
	attach_tree(b, 0); /* whoever it was started by */
	abort_session(b);
	(void)watched_tick(b->t, log_now(b));
	assert_int_equal(b->s.kills, 0); /* not before the entry is durable */
	run_until_owed_nothing(b->w);
	(void)settle_down(b);
	assert_int_equal(b->s.kills, 1);
	assert_int_equal(b->s.kill.why, WHY_ABORT);
	assert_int_equal(b->s.kill.session, b->w->session);
	say_ended(b, WHY_ABORT, 1);
	(void)settle_down(b);
	assert_int_equal(b->s.forgets, 1);
	assert_int_equal(state_session(b->w->m.state, b->w->session)->end, SESSION_ENDED_ABORT);
	bench_free(b);
}

/* While the watcher was still at it: who asked hears, and what can be in no log any more is ended. */
static void test_over_before_it_is_watched(void **state)
{
	static const struct {
		uint32_t flags;
		bool sent, yes; /* the watcher was told, and answered before the abort was durable */
	} rows[] = { { ATTACH_RUN, true, false }, { ATTACH_RUN, true, true }, { ATTACH_RUN, false, false }, { 0, true, false }, { 0, true, true } };
	struct watched_totals n;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct bench *b = bench_new();

		ask_for(b, rows[i].flags);
		if (rows[i].sent)
			(void)settle_down(b);
		abort_session(b);
		if (rows[i].yes)
			watcher_says_yes(b);
		run_until_owed_nothing(b->w);
		(void)settle_down(b);
		if (rows[i].sent && !rows[i].yes)
			watcher_says_yes(b);
		(void)later(b, SEC);
		assert_int_equal(b->s.attached, 0);
		assert_int_equal(b->s.refused, 1);
		assert_int_equal(b->s.no, REASON_SESSION_ABORTED);
		assert_int_equal(b->s.kills, rows[i].sent ? 1 : 0);
		if (rows[i].sent) {
			assert_int_equal(b->s.kill.why, WHY_ABORT);
			say_ended(b, WHY_ABORT, 1);
			(void)settle_down(b);
		}
		watched_count(b->t, &n);
		assert_int_equal(n.asked + n.live + n.over, 0);
		bench_free(b);
	}
}

static void test_stale(void **state)
{
	static const uint32_t flags[] = { ATTACH_RUN, 0 };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(flags); i++) {
		struct bench *b = bench_new();

		attach_tree(b, flags[i]);
		(void)later(b, 59 * SEC); /* the launcher waits for it: that renews the lease, no agent's word is needed */
		(void)later(b, 59 * SEC);
		assert_int_equal(state_session(b->w->m.state, b->w->session)->end, flags[i] ? SESSION_LIVE : SESSION_ENDED_STALE);
		watched_owner_gone(b->t, 7);
		(void)watched_rejoin(b->t, b->w->session, 0, 77);
		(void)later(b, 61 * SEC);
		assert_int_equal(state_session(b->w->m.state, b->w->session)->end, SESSION_ENDED_STALE);
		assert_int_equal(b->s.kills, flags[i] ? 1 : 0);
		if (flags[i])
			assert_int_equal(b->s.kill.why, WHY_STALE);
		bench_free(b);
	}
}

static void test_launcher_gone(void **state)
{
	struct bench *b = bench_new();

	(void)state;
	attach_tree(b, ATTACH_RUN);
	watched_owner_gone(b->t, 7);
	(void)later(b, 4 * SEC);
	assert_int_equal(watched_rejoin(b->t, b->w->session, 9, 77), REASON_OK);
	(void)later(b, 4 * SEC);
	assert_int_equal(b->s.kills, 0);
	watched_owner_gone(b->t, 9);
	assert_true(settle_down(b) <= log_now(b) + 5 * SEC);
	(void)later(b, 5 * SEC);
	assert_int_equal(b->s.kills, 1);
	assert_int_equal(b->s.kill.why, WHY_LAUNCHER);
	(void)later(b, 5 * SEC);
	assert_int_equal(b->s.kills, 1);
	bench_free(b);
}

static void test_exited(void **state)
{
	struct bench *b = bench_new();

	(void)state;
	attach_tree(b, ATTACH_RUN);
	b->s.full = true;
	assert_true(watched_exited(b->t, b->w->session));
	(void)settle_down(b);
	assert_int_equal(b->s.kills, 0);
	b->s.full = false;
	(void)later(b, SEC);
	assert_int_equal(b->s.kills, 1);
	assert_int_equal(b->s.kill.why, WHY_ENDED);
	assert_false(watched_exited(b->t, 12345));
	bench_free(b);
}

/* ---- another rest, another policy ---- */

static void restart(struct bench *b)
{
	b->w->m.over = NULL;
	watched_free(b->t);
	b->s = (struct script){ .full = false };
	start_table(b);
}

static void test_restart(void **state)
{
	struct bench *b = bench_new();
	struct watch_now now[2];
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	restart(b);
	assert_int_equal(watched_rejoin(b->t, b->w->session, 3, 77), REASON_UNAVAILABLE); /* not "nobody's": it may be named yet */
	now[0] = now_of(b);
	now[1] = now_of(b);
	now[1].session = 987654; /* a tree that the log does not know */
	watched_now(b->t, now, 2);
	watched_all(b->t);
	(void)settle_down(b);
	assert_int_equal(b->s.kills, 1);
	assert_int_equal(b->s.kill.session, 987654);
	assert_int_equal(b->s.renews, 2); /* the policy may be another */
	assert_int_equal(said(b, "\"action\":\"end\"", text), 0);
	assert_int_equal(watched_rejoin(b->t, b->w->session, 3, 77), REASON_OK);
	assert_int_equal(watched_rejoin(b->t, 987655, 3, 77), REASON_SESSION_CLOSED);
	(void)later(b, 6 * SEC);
	assert_int_equal(b->s.kills, 1);
	abort_session(b);
	run_until_owed_nothing(b->w);
	restart(b); /* between the abort's entry and its kill */
	watched_now(b->t, now, 1);
	watched_all(b->t);
	(void)settle_down(b);
	assert_int_equal(b->s.kills, 1);
	assert_int_equal(b->s.kill.why, WHY_ABORT);
	bench_free(b);
}

/* What became of a tree that nobody knows any more cannot be known: its session is over, and the log says none. */
static void test_orphans(void **state)
{
	static const bool no_watcher[] = { false, true };
	char text[16384];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(no_watcher); i++) {
		struct bench *b = bench_new();

		attach_tree(b, ATTACH_RUN);
		restart(b);
		if (no_watcher[i])
			watched_lost(b->t);
		else
			watched_all(b->t);
		(void)settle_down(b);
		assert_int_equal(said(b, "\"action\":\"end\"", text), 1);
		assert_non_null(strstr(text, "\"why\":\"none\""));
		assert_int_equal(state_session(b->w->m.state, b->w->session)->end, SESSION_ENDED_CLOSE);
		assert_int_equal(b->s.kills + b->s.forgets, 0);
		bench_free(b);
	}
}

static void test_renew(void **state)
{
	struct bench *b = bench_new();

	(void)state;
	attach_tree(b, ATTACH_RUN);
	b->w->m.policy->watch.limits.processes = 7;
	b->w->m.policy->watch.exec = WATCH_EXEC_NONE;
	watched_renew(b->t);
	(void)settle_down(b);
	assert_int_equal(b->s.renews, 1);
	assert_int_equal(b->s.renew.limits.processes, 7);
	assert_int_equal(b->s.renew.flags, ATTACH_RUN);
	assert_int_equal(b->s.renew.n_deny, 2);
	bench_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_end_waits_for_the_log),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_over_before_it_is_watched),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_launcher_gone),
		cmocka_unit_test(test_exited),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_renew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
