/* The rest's table of watched trees, on a real spine with a scripted watcher and a clock that the test commands. */
#include "daemon/watched.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/spine_world.h"

#define SEC NS_PER_SEC

struct script { /* what the watcher was told, and what an owner heard */
	bool full, dead;
	int attaches, renews, kills, forgets;
	struct watch_attach attach;
	struct watch_renew renew;
	struct watch_kill kill;
	char paths[256];
	size_t paths_n;
	uint64_t forgot;
	int attached, refused, ended;
	enum reason_code no;
	char message[160];
	struct watched_view view;
	struct watch_ended end;
};

struct bench {
	struct world *w;
	struct watched *t;
	struct script s;
	struct watch_probes probes;
};

static int blocked(const struct script *s, struct pawl_error *err)
{
	if (s->dead)
		return pawl_fail(err, PAWL_E_SYS, "gone");
	return s->full ? pawl_fail(err, PAWL_E_FULL, "full") : 0;
}

static int fake_attach(void *arg, const struct watch_attach *a, struct str paths, int pidfd, struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	if (r < 0)
		return r;
	assert_true(pidfd >= 0 && paths.n <= sizeof(s->paths) && paths.n == a->deny_bytes);
	s->attaches++;
	s->attach = *a;
	memcpy(s->paths, paths.p ? paths.p : "", paths.n);
	s->paths_n = paths.n;
	return 0;
}

static int fake_renew(void *arg, const struct watch_renew *n, struct str paths, struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	if (r < 0)
		return r;
	assert_int_equal(paths.n, n->deny_bytes);
	s->renews++;
	s->renew = *n;
	return 0;
}

static int fake_kill(void *arg, const struct watch_kill *k, struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	s->kills += r == 0;
	if (r == 0)
		s->kill = *k;
	return r;
}

static int fake_forget(void *arg, uint64_t session, struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	s->forgets += r == 0;
	if (r == 0)
		s->forgot = session;
	return r;
}

static void hear_attached(void *arg, uint64_t owner, const struct watched_view *tree, enum reason_code no, const char *message)
{
	struct script *s = arg;

	assert_int_not_equal(owner, 0);
	s->attached += no == REASON_OK;
	s->refused += no != REASON_OK;
	s->no = no;
	s->view = *tree;
	(void)snprintf(s->message, sizeof(s->message), "%s", message);
}

static void hear_ended(void *arg, uint64_t owner, const struct watch_ended *end)
{
	struct script *s = arg;

	assert_int_not_equal(owner, 0);
	s->ended++;
	s->end = *end;
}

/* Trees answer by themselves; whatever else has a cookie in these tests is a struct got. */
static void any_done(void *cookie, const struct answer *ans)
{
	(*(mediate_done *const *)cookie)(cookie, ans);
}

static void start_table(struct bench *b)
{
	struct watched_config cfg = { .m = &b->w->m, .channel = { fake_attach, fake_renew, fake_kill, fake_forget, &b->s },
				      .news = { hear_attached, hear_ended, &b->s }, .probes = &b->probes };
	struct pawl_error err;

	assert_int_equal(watched_new(&cfg, &b->t, &err), 0);
	b->w->m.over = watched_over;
	b->w->m.over_arg = b->t;
	b->w->m.done = any_done;
}

static struct bench *bench_new(void)
{
	struct bench *b = calloc(1, sizeof(*b));
	static struct str denied[] = { { "/bin/nc", 7 }, { "/usr/bin/id", 11 } };
	void *w;

	assert_non_null(b);
	(void)make_world(&w);
	b->w = w;
	b->probes.tier = 'B';
	b->w->m.policy->watch = (struct watch_policy){ .on = true, .exec = WATCH_EXEC_LOG, .deny_exec = denied, .n_deny_exec = 2,
						       .limits = { .processes = 50, .cpu_ns = 60 * SEC } };
	start_table(b);
	return b;
}

static void bench_free(struct bench *b)
{
	void *w = b->w;

	b->w->m.over = NULL;
	committer_free(b->w->committer);
	b->w->committer = NULL;
	mediate_end(&b->w->m); /* answers what is on its way: the table must still be there */
	watched_free(b->t);
	projector_free(b->w->projector);
	sessions_free(b->w->sessions);
	reviews_free(b->w->reviews);
	journal_close(b->w->journal);
	private_close(b->w->priv);
	sign_key_free(b->w->key);
	remove_dir(b->w->dir);
	free(w);
	free(b);
}

static int64_t log_now(const struct bench *b)
{
	return clock_now(&b->w->clock);
}

/* Everything that can happen without the clock moving. */
static int64_t settle_down(struct bench *b)
{
	int64_t next = 0;

	for (int i = 0; i < 6; i++) {
		next = watched_tick(b->t, log_now(b));
		run_until_owed_nothing(b->w);
	}
	return next;
}

static int64_t later(struct bench *b, int64_t ns)
{
	b->w->now += ns;
	(void)mediate_tick(&b->w->m, log_now(b));
	return settle_down(b);
}

/* The disk works again: the projector's thread follows to the end first. */
static void log_back(struct bench *b)
{
	for (int i = 0; !b->w->m.open; i++) {
		assert_true(i < 5000);
		(void)usleep(2000);
		b->w->now += SEC / 10;
		(void)mediate_tick(&b->w->m, log_now(b));
	}
	run_until_owed_nothing(b->w);
}

static void ask_for(struct bench *b, uint32_t flags)
{
	struct watched_ask a = { .session = b->w->session, .owner = 7, .pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC), .flags = flags, .need = HOLD_CPU,
				 .peer_pid = 12, .peer_uid = 34 };
	struct refusal no;

	assert_int_equal(watched_attach(b->t, &a, &no), 0);
}

static void watcher_says_yes(struct bench *b)
{
	struct watch_attached a = { .request = b->s.attach.request, .session = b->w->session, .held = HOLD_CPU | HOLD_EVENTS, .pid = 4711, .uid = 1000, .start_boot_ns = 99 };

	watched_attached(b->t, &a);
	(void)settle_down(b);
}

static void attach_tree(struct bench *b, uint32_t flags)
{
	ask_for(b, flags);
	(void)settle_down(b);
	watcher_says_yes(b);
	assert_int_equal(b->s.attached, 1);
}

static struct watch_event event(const struct bench *b, enum watch_kind kind, enum watch_why why, const char *path)
{
	struct watch_event ev = { .tree = b->w->session, .kind = kind, .why = why, .pid = 99, .ino = 5, .dev = 8, .path_len = (uint32_t)strlen(path), .comm = "sh" };

	memcpy(ev.path, path, strlen(path));
	return ev;
}

static struct watch_now now_of(const struct bench *b)
{
	return (struct watch_now){ .session = b->w->session, .processes = 3, .peak = 4, .execs = 2, .flags = ATTACH_RUN };
}

static void say_ended(struct bench *b, enum watch_why why, uint32_t killed)
{
	struct watch_ended end = { .last = now_of(b), .n_killed = killed, .n_dead = killed < 2 ? killed : 2, .dead = { { 99, 0, "a\xff" }, { 98, 0, "b" } } };

	end.last.killed = why;
	end.measured = why ? 51 : 0;
	end.limit = why ? 50 : 0;
	watched_ended(b->t, &end);
}

/* ---- the log, as text ---- */

static void body_text(struct bench *b, uint64_t seq, char out[static 16384])
{
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	struct pawl_error err;
	struct entry_view v;

	assert_int_equal(journal_read(b->w->journal, seq, &note, &err), 0);
	assert_int_equal(entry_view_parse(buf_str(&note), &v, &err), 0);
	(void)snprintf(out, 16384, "%.*s", STR_ARG(v.body));
	buf_done(&note);
}

/* How many entries say this; the last of them in out. */
static int said(struct bench *b, const char *what, char out[static 16384])
{
	char text[16384];
	int n = 0;

	for (uint64_t seq = 0; seq < b->w->m.durable; seq++) {
		body_text(b, seq, text);
		if (strstr(text, what)) {
			memcpy(out, text, 16384);
			n++;
		}
	}
	return n;
}

static int64_t number(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

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
	assert_int_equal(b->s.attach.peer_pid, 12);
	assert_int_equal(b->s.attach.limits.processes, 50);
	assert_int_equal(b->s.paths_n, 20);
	assert_memory_equal(b->s.paths, "/bin/nc\0/usr/bin/id", 20);
	assert_int_equal(b->s.attached, 0); /* not before its entry */
	assert_int_equal(said(b, "\"kind\":\"watch\"", text), 0);
	watcher_says_yes(b);
	assert_int_equal(b->s.attached, 1);
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
		(void)watched_rejoin(b->t, b->w->session, 0);
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
	assert_int_equal(watched_rejoin(b->t, b->w->session, 9), REASON_OK);
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
	assert_int_equal(watched_rejoin(b->t, b->w->session, 3), REASON_UNAVAILABLE); /* not "nobody's": it may be named yet */
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
	assert_int_equal(watched_rejoin(b->t, b->w->session, 3), REASON_OK);
	assert_int_equal(watched_rejoin(b->t, 987655, 3), REASON_SESSION_CLOSED);
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
		cmocka_unit_test(test_attach),	       cmocka_unit_test(test_attach_refused), cmocka_unit_test(test_watcher_silent),
		cmocka_unit_test(test_full_and_gone),  cmocka_unit_test(test_attach_entry_fails), cmocka_unit_test(test_execs),
		cmocka_unit_test(test_execs_rows),     cmocka_unit_test(test_storm),	      cmocka_unit_test(test_breach),
		cmocka_unit_test(test_lost_and_left),  cmocka_unit_test(test_end),	      cmocka_unit_test(test_end_waits_for_the_log),
		cmocka_unit_test(test_abort),	       cmocka_unit_test(test_stale),	      cmocka_unit_test(test_launcher_gone),
		cmocka_unit_test(test_exited),	       cmocka_unit_test(test_restart),	      cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_renew),	       cmocka_unit_test(test_nonsense),	      cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_on_its_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
