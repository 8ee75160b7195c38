/* The rest's table of watched trees, on a real spine with a scripted watcher and a clock that the test commands. */
#include "tests/support/watched_world.h"

/* ---- attaching ---- */

static void test_attach(void **state)
{
	struct bench *b = bench_new();
	char text[16384];

	(void)state;
	ask_for(b, ATTACH_RUN);
	(void)settle_down(b);
	assert_int_equal(b->s.attaches, 1);
	assert_int_equal(b->s.attach.session, b->w->session);
	assert_int_equal(b->s.attach.flags, ATTACH_RUN | ATTACH_EVENTS);
	assert_int_equal(b->s.attach.need, HOLD_CPU);
	assert_int_equal(b->s.attach.limits.processes, 50);
	assert_int_equal(b->s.paths_n, 20);
	assert_memory_equal(b->s.paths, "/bin/nc\0/usr/bin/id", 20);
	assert_int_equal(b->s.attached, 0); /* not before its entry */
	assert_int_equal(said(b, "\"kind\":\"watch\"", text), 0);
	watcher_says_yes(b);
	assert_int_equal(b->s.attached, 1);
	assert_int_equal(b->s.view.launcher, 12);
	assert_int_equal(said(b, "\"action\":\"attach\"", text), 1);
	assert_non_null(strstr(text, "\"held\":[\"cpu\",\"exec\"],"));
	assert_non_null(strstr(text, "\"limits\":{\"cpu\":\"1m\",\"processes\":50}"));
	assert_non_null(strstr(text, "\"pid\":4711,\"run\":true,"));
	assert_int_equal(state_tree(b->w->m.state, b->w->session).mode, TREE_LIVE);
	assert_int_equal(state_tree(b->w->m.state, b->w->session).held, HOLD_CPU | HOLD_EVENTS);
	bench_free(b);
}

static void assert_closed(struct bench *b)
{
	assert_int_equal(state_session(b->w->m.state, b->w->session)->end, SESSION_ENDED_CLOSE);
	assert_int_equal(state_tree(b->w->m.state, b->w->session).mode, TREE_NONE);
}

static void test_attach_refused(void **state)
{
	struct watch_attached no = { .result = 1, .message = "cannot hold cpu" };
	struct bench *b = bench_new();

	(void)state;
	ask_for(b, ATTACH_RUN);
	(void)settle_down(b);
	no.request = b->s.attach.request;
	no.session = b->w->session;
	watched_attached(b->t, &no);
	(void)settle_down(b);
	assert_int_equal(b->s.refused, 1);
	assert_int_equal(b->s.no, REASON_WATCH_REQUIRED);
	assert_string_equal(b->s.message, "cannot hold cpu");
	assert_int_equal(b->s.kills + b->s.forgets, 0);
	assert_closed(b);
	bench_free(b);
}

/* An agent that asked for itself and is refused has the session that it had, and may ask once more. */
static void test_own_attach_refused(void **state)
{
	struct watch_attached no = { .result = 1, .message = "cannot hold cpu" };
	struct bench *b = bench_new();

	(void)state;
	ask_for(b, 0);
	(void)settle_down(b);
	no.request = b->s.attach.request;
	no.session = b->w->session;
	watched_attached(b->t, &no);
	(void)settle_down(b);
	assert_int_equal(b->s.refused, 1);
	assert_int_equal(b->s.kills + b->s.forgets, 0);
	assert_int_equal(state_session(b->w->m.state, b->w->session)->end, SESSION_LIVE);
	ask_for(b, 0);
	(void)settle_down(b);
	watcher_says_yes(b);
	(void)settle_down(b);
	assert_int_equal(b->s.attached, 1);
	assert_int_equal(state_tree(b->w->m.state, b->w->session).mode, TREE_LIVE);
	bench_free(b);
}

static void test_watcher_silent(void **state)
{
	struct bench *b = bench_new();

	(void)state;
	ask_for(b, ATTACH_RUN);
	assert_true(settle_down(b) <= log_now(b) + 10 * SEC);
	(void)later(b, 10 * SEC - 1);
	assert_int_equal(b->s.refused, 0);
	(void)later(b, 1);
	assert_int_equal(b->s.refused, 1);
	assert_int_equal(b->s.no, REASON_UNAVAILABLE);
	assert_int_equal(b->s.kills, 1); /* should it attach after all */
	assert_closed(b);
	watcher_says_yes(b); /* too late */
	assert_int_equal(b->s.attached, 0);
	bench_free(b);
}

static void test_full_and_gone(void **state)
{
	struct bench *b = bench_new();
	struct watched_ask a = { .session = b->w->session, .owner = 7 };
	struct refusal no;

	(void)state;
	b->s.full = true;
	ask_for(b, ATTACH_RUN);
	assert_true(settle_down(b) <= log_now(b) + SEC);
	assert_int_equal(b->s.attaches, 0);
	b->s.full = false;
	(void)later(b, SEC);
	assert_int_equal(b->s.attaches, 1);
	bench_free(b);

	b = bench_new();
	b->s.dead = true;
	ask_for(b, ATTACH_RUN);
	(void)settle_down(b);
	assert_int_equal(b->s.refused, 1);
	assert_closed(b);
	watched_lost(b->t);
	a.session = b->w->session;
	a.pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(watched_attach(b->t, &a, &no) < 0);
	assert_int_equal(no.code, REASON_WATCH_REQUIRED);
	bench_free(b);
}

/* The child must not go on when nothing in the log speaks of it. */
static void test_attach_entry_fails(void **state)
{
	struct bench *b = bench_new();

	(void)state;
	ask_for(b, ATTACH_RUN);
	(void)settle_down(b);
	b->w->disk.syncs_left = 0;
	watcher_says_yes(b);
	assert_int_equal(b->s.attached, 0);
	assert_int_equal(b->s.refused, 1);
	assert_int_equal(b->s.no, REASON_LOG_UNAVAILABLE);
	assert_int_equal(b->s.kills, 1);
	b->w->disk.syncs_left = -1;
	log_back(b);
	(void)later(b, SEC);
	assert_closed(b);
	say_ended(b, WHY_ABORT, 1);
	(void)settle_down(b);
	assert_int_equal(b->s.forgets, 1);
	bench_free(b);
}

/* ---- events ---- */

static void test_execs(void **state)
{
	struct bench *b = bench_new();
	struct watch_event ev;
	char text[16384], path[32];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	for (int i = 0; i < 120; i++) {
		(void)snprintf(path, sizeof(path), "/bin/p%d", i % 40);
		ev = event(b, WATCH_EXEC, WHY_NONE, path);
		if (i % 40 == 1) {
			memcpy(ev.argv, "a\0b", 4);
			ev.argv_len = 4;
		}
		watched_events(b->t, &ev, 1);
		(void)settle_down(b);
	}
	assert_int_equal(said(b, "\"action\":\"execs\"", text), 0);
	(void)later(b, SEC);
	assert_int_equal(said(b, "\"action\":\"execs\"", text), 1);
	assert_int_equal(number(text, "\"total\":"), 120);
	bench_free(b);
}

static void test_execs_rows(void **state)
{
	struct bench *b = bench_new();
	struct watch_event ev[3];
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	ev[0] = event(b, WATCH_EXEC, WHY_NONE, "/bin/\xffx\n");
	ev[1] = ev[0];
	ev[2] = ev[0];
	memcpy(ev[2].argv, "other", 5);
	ev[2].argv_len = 5;
	watched_events(b->t, ev, 3);
	(void)later(b, SEC);
	assert_int_equal(said(b, "\"action\":\"execs\"", text), 1);
	assert_non_null(strstr(text, "\"count\":2,\"dev\":\"0000000000000008\",\"ino\":\"0000000000000005\",\"path\":\"/bin/?x\\n\",\"pid\":99},"));
	assert_non_null(strstr(text, "\"count\":1,"));
	assert_null(strstr(text, "other")); /* arguments are a digest */
	assert_int_equal(number(text, "\"unlisted\":"), -1);
	assert_int_equal(state_tree(b->w->m.state, b->w->session).execs, 3);
	bench_free(b);
}

/* On its way to the disk an entry borrows nothing, and says what whoever reads it from the log will see. */
static void test_on_its_way(void **state)
{
	struct bench *b = bench_new();
	struct watch_event ev = event(b, WATCH_KILL, WHY_FILELESS, "/bin/\xffx");
	const struct pending *p;
	const struct watched_program *row;

	(void)state;
	attach_tree(b, ATTACH_RUN);
	watched_events(b->t, &ev, 1);
	p = b->w->m.pending.head;
	assert_non_null(p);
	row = &p->e.watch.programs[0];
	assert_true(str_is(row->path, "/bin/?x"));
	assert_true(str_is(row->comm, "sh"));
	assert_true((const char *)row > (const char *)p && row->path.p > (const char *)row && row->comm.p > (const char *)row);
	assert_true(row->comm.p < (const char *)p + sizeof(*p) + 4096 && row->path.p < (const char *)p + sizeof(*p) + 4096);
	run_until_owed_nothing(b->w);
	say_ended(b, WHY_ABORT, 2);
	(void)watched_tick(b->t, log_now(b));
	p = b->w->m.pending.head;
	assert_non_null(p);
	assert_true(str_is(p->e.watch.dead[0].comm, "a?"));
	assert_true(p->e.watch.dead[0].comm.p > (const char *)p && p->e.watch.dead[0].comm.p < (const char *)p + sizeof(*p) + 4096);
	bench_free(b);
}

/* E01: what is done a thousand times a second is a few entries and one sum. */
static void test_storm(void **state)
{
	static const enum watch_why whys[] = { WHY_DENY_EXEC, WHY_FILELESS };
	struct bench *b = bench_new();
	char text[16384];
	int64_t sum = 0;
	int entries;

	(void)state;
	attach_tree(b, ATTACH_RUN);
	for (int i = 0; i < 1000; i++) {
		struct watch_event ev = event(b, WATCH_KILL, whys[i % 2], "/bin/nc");

		watched_events(b->t, &ev, 1);
		if (i % 100 == 0)
			(void)settle_down(b);
	}
	(void)later(b, SEC);
	entries = said(b, "\"action\":\"kill\"", text);
	assert_in_range(entries, 1, 6);
	for (uint64_t seq = 0; seq < b->w->m.durable; seq++) {
		body_text(b, seq, text);
		if (strstr(text, "\"action\":\"kill\""))
			sum += number(text, "\"total\":");
	}
	assert_int_equal(sum, 1000);
	assert_int_equal(state_tree(b->w->m.state, b->w->session).kills, 1000);
	bench_free(b);
}

/* A limit is told at once, with what breakers make of it. */
static void test_breach(void **state)
{
	struct bench *b = bench_new();
	struct watch_event ev = event(b, WATCH_BREACH, WHY_PROCESSES, "");
	struct breaker *f = &b->w->m.policy->breakers[0];
	struct breaker_row key = { .id = f->id, .scope = SCOPE_COUNT };
	char text[16384];

	(void)state;
	f->breaches = 2;
	attach_tree(b, ATTACH_RUN);
	ev.measured = 51;
	ev.limit = UINT64_MAX;
	watched_events(b->t, &ev, 1);
	(void)settle_down(b);
	assert_int_equal(said(b, "\"action\":\"breach\"", text), 1);
	assert_non_null(strstr(text, "\"comm\":\"sh\",\"kind\":\"watch\",\"limit\":9223372036854775807,\"measured\":51,"));
	assert_non_null(strstr(text, "\"breakers\":[{\"breaches\":[\""));
	assert_int_equal(state_breaker(b->w->m.state, &key)->mode, BREAKER_CLOSED);
	assert_int_equal(state_tree(b->w->m.state, b->w->session).measured, 51);
	ev.kind = WATCH_KILL;
	ev.why = WHY_DENY_EXEC;
	watched_events(b->t, &ev, 1);
	(void)settle_down(b);
	assert_int_equal(state_breaker(b->w->m.state, &key)->mode, BREAKER_OPEN);
	bench_free(b);
}

static void test_lost_and_left(void **state)
{
	struct bench *b = bench_new();
	struct watch_now now;
	struct watch_event ev;
	struct watched_view v;
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	now = now_of(b);
	now.lost = 37200;
	watched_now(b->t, &now, 1);
	ev = event(b, WATCH_LEFT, WHY_NONE, "");
	watched_events(b->t, &ev, 1);
	(void)settle_down(b);
	assert_int_equal(said(b, "\"action\":\"lost\"", text), 1);
	assert_int_equal(number(text, "\"events\":"), 37200);
	now.lost = 37201;
	watched_now(b->t, &now, 1);
	(void)settle_down(b);
	assert_int_equal(said(b, "\"action\":\"lost\"", text), 1); /* one a second */
	(void)later(b, SEC);
	assert_int_equal(said(b, "\"action\":\"lost\"", text), 2);
	assert_int_equal(number(text, "\"events\":"), 1);
	assert_int_equal(said(b, "\"action\":\"left\"", text), 1);
	assert_true(watched_look(b->t, b->w->session, &v));
	assert_int_equal(v.now.processes, 3);
	bench_free(b);
}

/* ---- what cannot be ---- */

static void test_nonsense(void **state)
{
	struct bench *b = bench_new();
	struct watch_attached a = { .session = 1, .held = ~0u };
	struct watch_ended end = { .n_dead = PAWL_MAX_ENDED + 1 };
	struct watch_now now = { .session = 5, .killed = WHY_COUNT };
	struct watched_totals t;
	struct watch_event bad[6];
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	for (size_t i = 0; i < PAWL_LEN(bad); i++)
		bad[i] = event(b, WATCH_EXEC, WHY_NONE, "/bin/sh");
	bad[0].kind = WATCH_KIND_COUNT;
	bad[1].why = WHY_COUNT;
	bad[2].path_len = WATCH_PATH + 1;
	bad[3].argv_len = UINT32_MAX;
	bad[4].kind = WATCH_KILL; /* without a why */
	bad[5].pid = 0;
	watched_events(b->t, bad, PAWL_LEN(bad));
	watched_count(b->t, &t);
	assert_int_equal(t.nonsense, 6);
	watched_attached(b->t, &a);
	memset(a.message, 'x', sizeof(a.message));
	a.held = 0;
	watched_attached(b->t, &a);
	watched_ended(b->t, &end);
	end = (struct watch_ended){ .last = { .session = b->w->session }, .n_dead = 2, .n_killed = 1 };
	watched_ended(b->t, &end);
	watched_now(b->t, &now, 1);
	(void)later(b, SEC);
	watched_count(b->t, &t);
	assert_int_equal(t.nonsense, 11);
	assert_int_equal(t.live, 1);
	assert_int_equal(said(b, "\"kind\":\"watch\"", text), 1);
	bench_free(b);
}

/* After a restart nobody may know a tree's first process: what it broke is told all the same. */
static void test_breach_by_nobody(void **state)
{
	struct bench *b = bench_new();
	struct watch_event ev = { .kind = WATCH_BREACH, .why = WHY_WALL, .measured = 7, .limit = 5 };
	struct watched_totals t;
	char text[16384];

	(void)state;
	attach_tree(b, ATTACH_RUN);
	ev.tree = b->w->session;
	watched_events(b->t, &ev, 1);
	(void)later(b, SEC);
	watched_count(b->t, &t);
	assert_int_equal(t.nonsense, 0);
	assert_int_equal(said(b, "\"action\":\"breach\"", text), 1);
	bench_free(b);
}

/* A whole life with the n-th allocation failing: whatever is lost, the tree ends in the log, and the table is whole. */
static void test_no_memory(void **state)
{
	struct bench *b;
	char text[16384];
	bool failed = true;

	(void)state;
	for (long n = 1; failed && n < 400; n++) {
		struct watched_ask ask;
		struct watch_event ev[2];
		struct refusal no;

		b = bench_new();
		ask = (struct watched_ask){ .session = b->w->session, .owner = 7, .flags = ATTACH_RUN };
		ask.pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ev[0] = event(b, WATCH_EXEC, WHY_NONE, "/bin/sh");
		ev[1] = event(b, WATCH_KILL, WHY_DENY_EXEC, "/bin/nc");
		fail_malloc_after(n);
		if (watched_attach(b->t, &ask, &no) == 0) {
			(void)settle_down(b);
			watcher_says_yes(b);
			watched_events(b->t, ev, 2);
			(void)later(b, SEC);
			say_ended(b, WHY_NONE, 0);
			for (int i = 0; i < 5; i++)
				(void)later(b, SEC);
		}
		failed = fail_malloc_stop();
		for (int i = 0; i < 5; i++)
			(void)later(b, SEC);
		if (b->s.attached) {
			assert_int_equal(said(b, "\"action\":\"end\"", text), 1);
			assert_int_equal(state_session(b->w->m.state, b->w->session)->end, SESSION_ENDED_CLOSE);
		}
		bench_free(b);
	}
	assert_false(failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_attach_refused),
		cmocka_unit_test(test_own_attach_refused),
		cmocka_unit_test(test_watcher_silent),
		cmocka_unit_test(test_full_and_gone),
		cmocka_unit_test(test_attach_entry_fails),
		cmocka_unit_test(test_execs),
		cmocka_unit_test(test_execs_rows),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_breach),
		cmocka_unit_test(test_lost_and_left),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_breach_by_nobody),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_on_its_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
