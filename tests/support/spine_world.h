/* tests/support/spine_world.h - the spine on a real journal, a real committer and a real projector, with a clock and a disk that the test commands. */
#ifndef TEST_SPINE_WORLD_H
#define TEST_SPINE_WORLD_H
#include "daemon/mediate.h"
#include "daemon/base/json.h"
#include "daemon/log/entry.h"
#include "daemon/log/note.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static const char policy_text[] = "pawl: 1\nname: spine\ncurrency: USD\ndefault: deny\n"
				  "tools:\n  fetch: {cost: 0.3 USD, lease: 30s}\n  flaky: {cost: 0 USD, lease: 10s}\n  free: {cost: 0 USD}\n  pay: {cost: 0 USD}\n  back: {default_cost: 0.2 USD, refund: true}\n"
				  "rules:\n  - {id: ok, allow: [fetch, free, back, flaky]}\n  - {id: ask, review: [pay]}\n"
				  "budgets:\n  run: {per: session, limit: 1 USD}\n  all: {per: global, limit: 100 USD}\n"
				  "loops:\n  repeat: {same: [tool, args], limit: 50, window: 50}\n"
				  "breakers:\n  f: {match: flaky, open: {failures: 2, within: 1m}, cool_down: 30s}\n"
				  "sessions: {open: 4, lease: 60s}\nlimits: {decide: 1000000/s, burst: 1000000}\n"
				  "...\n";

struct disk { /* fails the call it is told to */
	int writes_left, syncs_left; /* -1: never fails */
	bool full;		     /* what is allocated can be written, and no more can be had */
};

static inline int64_t disk_pwrite(void *arg, int fd, const void *p, size_t n, int64_t off)
{
	struct disk *d = arg;

	if (d->writes_left == 0) {
		errno = ENOSPC;
		return -1;
	}
	d->writes_left -= d->writes_left > 0;
	return pwrite(fd, p, n, off);
}

static inline int disk_fdatasync(void *arg, int fd)
{
	struct disk *d = arg;

	if (d->syncs_left == 0) {
		errno = EIO;
		return -1;
	}
	d->syncs_left -= d->syncs_left > 0;
	return fdatasync(fd);
}

static inline int disk_fsync(void *arg, int fd)
{
	(void)arg;
	return fsync(fd);
}

static inline int disk_fallocate(void *arg, int fd, int64_t off, int64_t len)
{
	if (((struct disk *)arg)->full) {
		errno = ENOSPC;
		return -1;
	}
	return posix_fallocate(fd, off, len) == 0 ? 0 : -1;
}

struct got { /* one answer */
	int times;
	bool refused;
	enum reason_code no;
	enum entry_kind kind;
	enum verdict verdict;
	enum reason_code code;
	uint64_t seq, card;
	int64_t returned, charged;
	char note[8192];
	size_t note_n;
};

struct world {
	char dir[64], file[96]; /* projection.sqlite */
	struct disk disk;
	struct journal_io io;
	int64_t now;
	struct clock clock;
	struct sign_key *key;
	struct private_store *priv;
	struct journal *journal;
	struct committer *committer;
	struct projector *projector;
	struct sessions *sessions;
	struct reviews *reviews;
	struct mediator m;
	uint8_t token[32];
	uint64_t session;
	bool rows;	   /* set before make_world(): with SQLite's rows and snapshots */
	uint64_t every;	   /* entries a snapshot */
	size_t queue;	   /* of the projector */
	uint64_t unread;   /* and what it is to read behind */
	uint8_t chain[32];
};

static inline int64_t world_boot(void *arg)
{
	return ((struct world *)arg)->now;
}

static inline int64_t world_wall(void *arg)
{
	return ((struct world *)arg)->now + 1000 * NS_PER_SEC;
}

static inline void take_answer(void *cookie, const struct answer *ans)
{
	struct got *g = cookie;

	g->times++;
	g->refused = !ans->e;
	g->no = ans->no;
	if (!ans->e)
		return;
	g->kind = ans->e->kind;
	g->seq = ans->e->seq;
	assert_true(ans->note.n < sizeof(g->note));
	memcpy(g->note, ans->note.p, ans->note.n);
	g->note_n = ans->note.n;
	if (g->kind == ENTRY_DECISION || g->kind == ENTRY_CLAIM) {
		g->verdict = ans->e->decision.answer;
		g->code = ans->e->decision.why.code;
		g->card = ans->e->decision.card;
	} else if (g->kind == ENTRY_SETTLE || g->kind == ENTRY_LOSS) {
		const struct entry_settle *s = g->kind == ENTRY_SETTLE ? &ans->e->settle : &ans->e->loss.late;

		g->returned = s->returned;
		g->charged = s->charged_money;
	}
}

static inline int no_path(void *arg, struct str root, struct str path, char *out, size_t size)
{
	(void)arg, (void)root, (void)path, (void)out, (void)size;
	return -1;
}

static inline void remove_dir(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		(void)unlink(path);
	}
	if (d)
		(void)closedir(d);
	(void)rmdir(dir);
}

static inline void run_until_owed_nothing(struct world *w)
{
	for (int i = 0; mediate_owed(&w->m); i++) {
		struct pollfd p = { committer_fd(w->committer), POLLIN, 0 };

		assert_true(i < 2000);
		(void)poll(&p, 1, 20);
		mediate_reap(&w->m);
	}
}

static inline struct got open_session(struct world *w)
{
	struct open_args a = { .agent = STR("local") };
	struct got g = { 0 };
	struct refusal no;

	memset(a.token, 0x42, sizeof(a.token));
	if (mediate_open(&w->m, &a, &g, &no) < 0) {
		g.refused = true;
		g.no = no.code;
		return g;
	}
	run_until_owed_nothing(w);
	if (!g.refused) {
		w->session = g.seq;
		memcpy(w->token, a.token, 32);
	}
	return g;
}

/* Another one, on a copy of the judge's state, which must be at rest. */
static inline int projector_restart(struct world *w, const char *path)
{
	struct projector_config pc = { .journal = w->journal, .path = path, .snapshot_every = w->every, .max_queue = w->queue, .unread = w->unread,
				       .origin = STR("example.com/spine") };
	struct pawl_error err;

	memcpy(pc.chain, w->chain, sizeof(pc.chain));
	projector_free(w->projector);
	w->projector = NULL;
	assert_int_equal(state_clone(w->m.state, &pc.state, &err), 0);
	assert_int_equal(projector_new(&pc, &w->projector, &err), 0);
	w->m.projector = w->projector;
	return 0;
}

/* entry_hash() of the entry before seq. */
static inline void chain_at(struct world *w, uint64_t seq, uint8_t out[static 32])
{
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	struct pawl_error err;
	struct entry_view v;

	assert_int_equal(journal_read(w->journal, seq - 1, &note, &err), 0);
	assert_int_equal(entry_view_parse(buf_str(&note), &v, &err), 0);
	entry_hash(v.text, out);
	buf_done(&note);
}

static inline int make_world_with(void **state, struct world like)
{
	struct world *w = malloc(sizeof(*w));
	struct policy_report rep = { 0 };
	struct journal_recovery rec;
	struct pawl_error err = { 0 };
	struct policy *pol = NULL;
	struct state *st = NULL;
	char path[96];

	assert_non_null(w);
	*w = like;
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/pawl-spine-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->disk = (struct disk){ -1, -1, false };
	w->io = (struct journal_io){ .pwrite = disk_pwrite, .fdatasync = disk_fdatasync, .fsync = disk_fsync, .fallocate = disk_fallocate, .arg = &w->disk };
	w->now = 1000 * NS_PER_SEC;
	w->clock = (struct clock){ .read_boot = world_boot, .read_wall = world_wall, .arg = w };
	clock_init(&w->clock, 0);
	(void)snprintf(path, sizeof(path), "%s/private.sqlite", w->dir);
	(void)snprintf(w->file, sizeof(w->file), "%s/projection.sqlite", w->dir);
	if (policy_load(str_of(policy_text), "spine.yaml", &pol, &rep, &err) < 0)
		fail_msg("%u:%u %s", err.line, err.column, err.msg);
	policy_report_done(&rep);
	assert_int_equal(sign_key_new("example.com/spine/entry", &w->key, &err), 0);
	assert_int_equal(private_open(path, &w->priv, &err), 0);
	{
		struct journal_config jc = { .dir = w->dir, .origin = STR("example.com/spine"), .segment_bytes = 256 << 10, .io = &w->io };

		assert_int_equal(journal_open(&jc, NULL, NULL, &w->journal, &rec, &err), 0);
	}
	{
		struct committer_config cc = { .journal = w->journal, .key = w->key, .origin = STR("example.com/spine"),
					       .put_secrets = private_put, .drop_values = private_drop, .put_arg = w->priv };

		assert_int_equal(committer_new(&cc, &w->committer, &err), 0);
	}
	assert_int_equal(sessions_new(&w->sessions, &err), 0);
	assert_int_equal(reviews_new(&w->reviews, &err), 0);
	assert_int_equal(state_new(&st, &err), 0);
	w->m = (struct mediator){ .clock = &w->clock, .journal = w->journal, .committer = w->committer, .sessions = w->sessions, .reviews = w->reviews,
				  .resolver = { no_path, NULL }, .done = take_answer, .policy = pol, .state = st };
	mediate_init(&w->m);
	assert_int_equal(projector_restart(w, w->rows ? w->file : NULL), 0);
	{
		struct entry_start start = { .version = STR("t"), .judge = 1, .policy_name = STR("spine"), .policy_hash = STR("00"),
					     .mode = STR("enforce"), .fallback = STR("deny"), .probes_text = STR("{}") };
		struct refusal no;

		if (mediate_start(&w->m, &start, &no) < 0)
			fail_msg("start: %s", no.err.msg);
	}
	run_until_owed_nothing(w);
	assert_false(open_session(w).refused);
	*state = w;
	return 0;
}

static inline int make_world(void **state)
{
	return make_world_with(state, (struct world){ 0 });
}

static inline int end_world(void **state)
{
	struct world *w = *state;

	committer_free(w->committer);
	mediate_end(&w->m);
	projector_free(w->projector);
	sessions_free(w->sessions);
	reviews_free(w->reviews);
	journal_close(w->journal);
	private_close(w->priv);
	sign_key_free(w->key);
	remove_dir(w->dir);
	free(w);
	return 0;
}

struct asked {
	const char *tool, *args, *call;
	uint8_t client;
	int64_t lease_ns;
};

/* Does not wait: the caller decides what the disk does meanwhile. */
static inline int ask_start(struct world *w, const struct asked *a, struct got *g)
{
	struct pawl_error err;
	struct json *args = NULL;
	struct request_call call = { .kind = CALL_TOOL };
	struct decide_args d = { w->session, w->token, &call };
	struct refusal no;
	int r;

	*g = (struct got){ 0 };
	assert_int_equal(json_parse(str_of(a->args ? a->args : "{}"), 32, &args, &err), 0);
	call.tool = str_of(a->tool);
	call.call = str_of(a->call ? a->call : "c");
	call.args = args;
	call.limits.lease_ns = a->lease_ns;
	memset(call.client, a->client ? a->client : 1, sizeof(call.client));
	r = mediate_decide(&w->m, &d, g, &no);
	if (r < 0) {
		g->refused = true;
		g->no = no.code;
	}
	json_free(args); /* nothing of the request may be needed any more */
	return r;
}

static inline struct got ask(struct world *w, struct asked a)
{
	struct got g;

	if (ask_start(w, &a, &g) == 0)
		run_until_owed_nothing(w);
	return g;
}

static inline struct got settle(struct world *w, uint64_t decision, enum outcome outcome, int64_t money)
{
	struct settle_args a = { .session = w->session, .decision = decision, .token = w->token, .duration_ns = -1 };
	struct got g = { 0 };
	struct refusal no;

	a.report = (struct report){ .outcome = outcome, .has_money = money >= 0, .money = money >= 0 ? money : 0 };
	if (mediate_settle(&w->m, &a, &g, &no) < 0) {
		g.refused = true;
		g.no = no.code;
	} else {
		run_until_owed_nothing(w);
	}
	return g;
}

static inline int64_t run_used(const struct world *w)
{
	struct ledger_key key = { .budget = STR("run"), .scope = SCOPE_SESSION, .session = w->session };
	struct ledger_state led = state_ledger(w->m.state, &key, w->now);

	return led.spent + led.reserved;
}

/* Of the state that durable entries alone have made. */
static inline void second_digest(const struct world *w, uint8_t out[static 32])
{
	struct pawl_error err;
	struct state *st = NULL;

	for (int i = 0; projector_copy(w->projector, w->m.durable, &st, &err) == PAWL_E_BUSY; i++) {
		assert_true(i < 2000);
		(void)poll(NULL, 0, 5);
	}
	assert_non_null(st);
	state_digest(st, out);
	state_free(st);
}

/* After any test step that is at rest, both states are one. */
static inline void assert_states_equal(const struct world *w)
{
	uint8_t a[32], b[32];

	state_digest(w->m.state, a);
	second_digest(w, b);
	assert_memory_equal(a, b, 32);
}

#define CENT(n) ((n) * MONEY_PER_UNIT / 100)
#endif
