/* tests/support/watched_world.h - daemon/watched.c on a spine with a log, beside a watcher and an owner that do as they are told. */
#ifndef TEST_WATCHED_WORLD_H
#define TEST_WATCHED_WORLD_H
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

static inline int blocked(const struct script *s, struct pawl_error *err)
{
	if (s->dead)
		return pawl_fail(err, PAWL_E_SYS, "gone");
	return s->full ? pawl_fail(err, PAWL_E_FULL, "full") : 0;
}

static inline int fake_attach(void *arg, const struct watch_attach *a, struct str paths, const int fds[static 2], struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	if (r < 0)
		return r;
	assert_true(fds[0] >= 0 && fds[1] >= 0 && fds[0] != fds[1] && paths.n <= sizeof(s->paths) && paths.n == a->deny_bytes);
	s->attaches++;
	s->attach = *a;
	memcpy(s->paths, paths.p ? paths.p : "", paths.n);
	s->paths_n = paths.n;
	return 0;
}

static inline int fake_renew(void *arg, const struct watch_renew *n, struct str paths, struct pawl_error *err)
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

static inline int fake_kill(void *arg, const struct watch_kill *k, struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	s->kills += r == 0;
	if (r == 0)
		s->kill = *k;
	return r;
}

static inline int fake_forget(void *arg, uint64_t session, struct pawl_error *err)
{
	struct script *s = arg;
	int r = blocked(s, err);

	s->forgets += r == 0;
	if (r == 0)
		s->forgot = session;
	return r;
}

static inline void hear_attached(void *arg, uint64_t owner, const struct watched_view *tree, enum reason_code no, const char *message)
{
	struct script *s = arg;

	assert_int_not_equal(owner, 0);
	s->attached += no == REASON_OK;
	s->refused += no != REASON_OK;
	s->no = no;
	s->view = *tree;
	(void)snprintf(s->message, sizeof(s->message), "%s", message);
}

static inline void hear_ended(void *arg, uint64_t owner, const struct watch_ended *end)
{
	struct script *s = arg;

	assert_int_not_equal(owner, 0);
	s->ended++;
	s->end = *end;
}

/* Trees answer by themselves; whatever else has a cookie in these tests is a struct got. */
static inline void any_done(void *cookie, const struct answer *ans)
{
	(*(mediate_done *const *)cookie)(cookie, ans);
}

static inline void start_table(struct bench *b)
{
	struct watched_config cfg = { .m = &b->w->m, .channel = { fake_attach, fake_renew, fake_kill, fake_forget, &b->s },
				      .news = { hear_attached, hear_ended, &b->s }, .probes = &b->probes };
	struct pawl_error err;

	assert_int_equal(watched_new(&cfg, &b->t, &err), 0);
	b->w->m.over = watched_over;
	b->w->m.over_arg = b->t;
	b->w->m.done = any_done;
}

static inline struct bench *bench_new(void)
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

static inline void bench_free(struct bench *b)
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

static inline int64_t log_now(const struct bench *b)
{
	return clock_now(&b->w->clock);
}

/* Everything that can happen without the clock moving. */
static inline int64_t settle_down(struct bench *b)
{
	int64_t next = 0;

	for (int i = 0; i < 6; i++) {
		next = watched_tick(b->t, log_now(b));
		run_until_owed_nothing(b->w);
	}
	return next;
}

static inline int64_t later(struct bench *b, int64_t ns)
{
	b->w->now += ns;
	(void)mediate_tick(&b->w->m, log_now(b));
	return settle_down(b);
}

/* The disk works again: the projector's thread follows to the end first. */
static inline void log_back(struct bench *b)
{
	for (int i = 0; !b->w->m.open; i++) {
		assert_true(i < 5000);
		(void)usleep(2000);
		b->w->now += SEC / 10;
		(void)mediate_tick(&b->w->m, log_now(b));
	}
	run_until_owed_nothing(b->w);
}

static inline void ask_for(struct bench *b, uint32_t flags)
{
	struct watched_ask a = { .session = b->w->session, .owner = 7, .pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC), .flags = flags, .need = HOLD_CPU,
				 .asker = open("/dev/null", O_RDONLY | O_CLOEXEC), .launcher = 12 };
	struct refusal no;

	assert_int_equal(watched_attach(b->t, &a, &no), 0);
}

static inline void watcher_says_yes(struct bench *b)
{
	struct watch_attached a = { .request = b->s.attach.request, .session = b->w->session, .held = HOLD_CPU | HOLD_EVENTS, .pid = 4711, .uid = 1000, .start_boot_ns = 99 };

	watched_attached(b->t, &a);
	(void)settle_down(b);
}

static inline void attach_tree(struct bench *b, uint32_t flags)
{
	ask_for(b, flags);
	(void)settle_down(b);
	watcher_says_yes(b);
	assert_int_equal(b->s.attached, 1);
}

static inline struct watch_event event(const struct bench *b, enum watch_kind kind, enum watch_why why, const char *path)
{
	struct watch_event ev = { .tree = b->w->session, .kind = kind, .why = why, .pid = 99, .ino = 5, .dev = 8, .path_len = (uint32_t)strlen(path), .comm = "sh" };

	memcpy(ev.path, path, strlen(path));
	return ev;
}

static inline struct watch_now now_of(const struct bench *b)
{
	return (struct watch_now){ .session = b->w->session, .processes = 3, .peak = 4, .execs = 2, .flags = ATTACH_RUN };
}

static inline void say_ended(struct bench *b, enum watch_why why, uint32_t killed)
{
	struct watch_ended end = { .last = now_of(b), .n_killed = killed, .n_dead = killed < 2 ? killed : 2, .dead = { { 99, 0, "a\xff" }, { 98, 0, "b" } } };

	end.last.killed = why;
	end.measured = why ? 51 : 0;
	end.limit = why ? 50 : 0;
	watched_ended(b->t, &end);
}

/* ---- the log, as text ---- */

static inline void body_text(struct bench *b, uint64_t seq, char out[static 16384])
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
static inline int said(struct bench *b, const char *what, char out[static 16384])
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

static inline int64_t number(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}
#endif
