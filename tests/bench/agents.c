/* tests/bench/agents.c - many agents at work, without sockets: the library's own facts, judge, entries and state, at the speed of
 * the processor and in a time of its own. Owns everything it makes.
 *
 *   agents log DIR ENTRIES SECONDS   a log as a pawld that ran for so long would have written it, into a folder of `pawl init` with the
 *                                    policy of policy.py: signed, chained, in batches, with the private store beside it. One line of JSON.
 *   agents state SESSIONS CALLS      that many live sessions with that many settled calls each, in two states; what they hold in
 *                                    memory. POLICY is read from the standard input. One line of JSON.
 *
 * In a log the agents mostly search and read; some calls are denied by rule or by default, some ask a person and nobody answers, some fail,
 * some are never settled, some sessions open a child, some are left to die. Nobody signs as an operator: a bench has no such key. */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/json.h"
#include "daemon/log/committer.h"
#include "daemon/log/entry.h"
#include "daemon/store/private.h"
#include "pawl/reload.h"
#include "pawl/settle.h"
#include "policy/laws.h"

#define AGENTS 256 /* at work at the same time */
#define PATH_MAX_BYTES 4096
#define LEASE  (3600 * NS_PER_SEC)

struct agent { /* one session at work; session 0: between two */
	uint64_t session, open; /* open: an allowed call that is not settled yet */
	uint64_t root;
	unsigned calls, left; /* left: calls until it closes */
	uint8_t secret[32], client[16];
};

struct bench {
	struct policy *pol;
	struct state *st, *twin; /* twin: NULL in a log */
	struct agent agents[AGENTS];
	uint64_t dice, page, count[ENTRY_KIND_COUNT];
	int64_t now, step; /* log time; how much of it an entry takes */
	struct buf scratch, body, text;
	struct judgement j;
	/* a log: */
	struct sign_key *key;
	struct journal *journal;
	struct private_store *priv;
	struct committer *committer;
	uint64_t wanted;
};

static void die(const char *what, const struct pawl_error *err)
{
	(void)fprintf(stderr, "agents: %s%s%s\n", what, err ? ": " : "", err ? err->msg : "");
	exit(1);
}

static unsigned roll(struct bench *b, unsigned below)
{
	b->dice ^= b->dice << 13;
	b->dice ^= b->dice >> 7;
	b->dice ^= b->dice << 17;
	return (unsigned)(b->dice >> 33) % below;
}

static void fill(struct bench *b, uint8_t *p, size_t n) /* digests and secrets: only their length matters here */
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)roll(b, 256);
}

/* ---- entries on their way ---- */

static void reap(struct bench *b, int wait_ms)
{
	struct pollfd p = { committer_fd(b->committer), POLLIN, 0 };
	struct commit_result got[64];
	size_t n;

	if (wait_ms && poll(&p, 1, wait_ms) == 0)
		die("the committer is silent", NULL);
	while ((n = committer_reap(b->committer, got, PAWL_LEN(got))) > 0)
		for (size_t i = 0; i < n; i++) {
			if (!got[i].durable)
				die("commit", &got[i].err);
			free(got[i].note);
		}
}

static void push(struct bench *b, const struct entry *e, uint64_t tree, const uint8_t *secret, struct str value)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct commit_slot slot;
	int r;

	buf_reset(&b->body);
	entry_render(e, &b->body);
	if (!buf_ok(&b->body))
		die("entry_render", NULL);
	while ((r = committer_reserve(b->committer, b->body.n, &slot, &err)) == PAWL_E_FULL)
		reap(b, 10000);
	if (r < 0 || (value.p && committer_attach(b->committer, &slot, tree, value, false, &err) < 0))
		die("committer", &err);
	committer_push(b->committer, &slot, e->seq, buf_str(&b->body), tree, secret, NULL);
}

static void apply(struct state *st, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (state_room(st, e, &err) < 0)
		die("state_room", &err);
	state_apply(st, e);
}

static void put_with(struct bench *b, const struct entry *e, uint64_t tree, const uint8_t *secret, struct str value)
{
	if (b->committer)
		push(b, e, tree, secret, value);
	apply(b->st, e);
	if (b->twin)
		apply(b->twin, e);
	b->count[e->kind]++;
	b->now += b->step;
}

static void put(struct bench *b, const struct entry *e)
{
	put_with(b, e, 0, NULL, STR_NONE);
}

static struct entry blank(const struct bench *b, enum entry_kind kind)
{
	return (struct entry){ .kind = kind, .seq = state_next_seq(b->st), .now = b->now, .wall = b->now };
}

/* As the spine does: what is due is written first. */
static void write_due(struct bench *b)
{
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct deadline due;

	while (state_next_deadline(b->st, &due) && due.at <= b->now) {
		struct entry e = blank(b, due.kind == DEADLINE_CARD ? ENTRY_TIMEOUT : ENTRY_LOSS);

		if (due.kind == DEADLINE_CARD)
			e.timeout = (struct entry_timeout){ .session = due.session, .card = due.id };
		else
			e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = due.session, .decision = due.id, .breakers = rows,
						      .n_breakers = breaker_report(b->pol, b->st, state_decision(b->st, due.id), OUTCOME_EXPIRED,
										   b->now, rows) };
		put(b, &e);
	}
}

/* ---- what an agent does ---- */

static void open_session(struct bench *b, struct agent *a, const struct agent *parent)
{
	struct entry e = blank(b, ENTRY_SESSION);

	*a = (struct agent){ .session = e.seq, .root = parent ? parent->root : e.seq, .left = 4 + roll(b, 13) };
	fill(b, a->client, sizeof(a->client));
	fill(b, a->secret, sizeof(a->secret));
	if (parent)
		memcpy(a->secret, parent->secret, sizeof(a->secret));
	e.session = (struct entry_session){ .session = e.seq, .root = a->root, .parent = parent ? parent->session : 0, .agent = STR("local"),
					    .root_dir = STR("/srv/work"), .labels_text = STR("{\"run\":\"bench\",\"team\":\"ops\"}"),
					    .lease_ns = LEASE };
	fill(b, e.session.token_hash, sizeof(e.session.token_hash));
	put_with(b, &e, a->root, parent ? NULL : a->secret, STR_NONE);
}

static void end_session(struct bench *b, struct agent *a, enum session_action how)
{
	struct entry e = blank(b, ENTRY_SESSION);

	e.session = (struct entry_session){ .action = how, .session = a->session };
	a->session = 0;
	put(b, &e);
}

static void settle(struct bench *b, struct agent *a, enum outcome outcome)
{
	static struct charge charges[PAWL_MAX_LEDGERS];
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct report rep = { .outcome = outcome, .has_money = true, .money = 1500, .has_tokens = true, .tokens = 11 };
	struct entry e = blank(b, ENTRY_SETTLE);
	struct entry_settle *s = &e.settle;
	struct pawl_error err = { .code = PAWL_OK };

	*s = (struct entry_settle){ .session = a->session, .decision = a->open, .outcome = outcome, .money_unit = b->pol->currency,
				    .has_money = true, .money = rep.money, .has_tokens = true, .tokens = rep.tokens,
				    .duration_ns = INT64_C(1000000) * (1 + roll(b, 4000)) };
	if (settle_charges(b->pol, b->st, state_decision(b->st, a->open), &rep, b->now, charges, rows, s, &err) < 0)
		die("settle_charges", &err);
	s->has_result = s->has_result_token = outcome == OUTCOME_OK;
	s->has_error = s->has_error_token = !s->has_result;
	s->result_bytes = s->has_result ? 4096 : 0;
	s->error_kind = s->has_result ? STR_NONE : STR("TimeoutError");
	fill(b, s->has_result ? s->result_mac : s->error_mac, 32);
	fill(b, s->has_result ? s->result_token : s->error_token, 16);
	fill(b, s->same, sizeof(s->same));
	a->open = 0;
	put(b, &e);
}

/* Which tool and arguments: mostly a search as load.c asks, the rest as the policy has rules for. */
static struct str pick(struct bench *b, bool plain)
{
	unsigned what = plain ? 0 : roll(b, 100);
	bool review = what == 98, denied = what >= 94 && what < 98;

	buf_reset(&b->text);
	buf_printf(&b->text, "{\"q\":\"how to %s that a peer can grow\",\"page\":%llu,\"lang\":\"%s\",\"safe\":true}",
		   review ? "keep a password in a queue" : "bound a queue", (unsigned long long)b->page++, denied ? "xx" : "en");
	if (what >= 80 && what < 92)
		return what < 86 ? STR("svc8.read.page") : STR("svc12.list");
	return what == 92 || what == 93 ? STR("svc9.drop-all") : what == 99 ? STR("mail.send") : STR("web.search");
}

static void decide(struct bench *b, struct agent *a, bool plain)
{
	struct caller who = { .session = a->session, .root = a->root, .agent = STR("local"), .secret = a->secret };
	struct request_call rq = { .kind = CALL_TOOL, .has_money = true, .money = 2000, .has_tokens = true, .tokens = 12 };
	struct pawl_error err = { .code = PAWL_OK };
	struct facts f;
	struct json *args;
	struct entry e;
	char call[40];

	rq.tool = pick(b, plain);
	(void)snprintf(call, sizeof(call), "c-%llx-%u", (unsigned long long)a->session, a->calls++);
	rq.call = str_of(call);
	memcpy(rq.client, a->client, sizeof(rq.client));
	if (json_parse(buf_str(&b->text), PAWL_MAX_DEPTH, &args, &err) < 0)
		die("args", &err);
	rq.args = args;
	if (facts_of(b->pol, &rq, &who, NULL, &b->scratch, &f, &err) < 0)
		die("facts_of", &err);
	judge(b->pol, b->st, &f, b->now, &b->j);
	entry_from_judgement(b->pol, &rq, &f, &b->j, b->now, b->now, state_next_seq(b->st), &e);
	fill(b, e.decision.args_mac, sizeof(e.decision.args_mac));
	a->open = e.decision.answer == VERDICT_ALLOW ? e.seq : 0;
	if (plain && !a->open)
		die("the bench policy does not allow the bench call", NULL);
	put_with(b, &e, a->root, NULL, e.decision.card == e.seq ? f.canon_args : STR_NONE);
	json_free(args);
}

static void turn(struct bench *b)
{
	struct agent *a = &b->agents[roll(b, AGENTS)];
	const struct agent *other = &b->agents[roll(b, AGENTS)];
	const struct session_state *who = a->session ? state_session(b->st, a->session) : NULL;

	write_due(b);
	if (!who || who->end != SESSION_LIVE) { /* or it ended with its parent */
		who = other->session && roll(b, 8) == 0 ? state_session(b->st, other->session) : NULL;
		open_session(b, a, who && who->end == SESSION_LIVE && !who->parent && other != a ? other : NULL);
	} else if (a->open && roll(b, 50) == 0) {
		a->open = 0; /* never settled: the lease runs out */
	} else if (a->open && state_decision(b->st, a->open)->settled == 0) {
		settle(b, a, roll(b, 20) ? OUTCOME_OK : OUTCOME_ERROR);
	} else if (a->calls >= a->left) {
		end_session(b, a, roll(b, 20) ? SESSION_CLOSE : SESSION_STALE);
	} else {
		decide(b, a, false);
	}
}

/* ---- beginning and end ---- */

static void load_policy(struct bench *b, FILE *f, const char *path)
{
	struct policy_report rep = { .n = 0 };
	struct pawl_error err = { .code = PAWL_OK };
	char *text = malloc(1 << 20);
	size_t n = f && text ? fread(text, 1, 1 << 20, f) : 0;

	if (n == 0 || policy_load((struct str){ text, n }, path, &b->pol, &rep, &err) < 0)
		die(path, &err);
	free(text);
	policy_report_done(&rep);
}

static void begin(struct bench *b)
{
	struct entry e = blank(b, ENTRY_START);
	struct reload diff;
	char hex[65];

	policy_diff(NULL, b->st, b->pol, &diff);
	(void)sodium_bin2hex(hex, sizeof(hex), b->pol->hash, 32);
	e.start = (struct entry_start){ .version = STR(PAWL_VERSION), .policy_name = b->pol->name, .policy_hash = { hex, 64 }, .mode = STR("enforce"),
					.fallback = STR("deny"), .judge = PAWL_JUDGE_VERSION, .probes_text = STR("{}"), .budgets = diff.budgets };
	put(b, &e);
}

/* The generator has nothing to lose: it syncs once, at the end. */
static int64_t just_pwrite(void *arg, int fd, const void *p, size_t n, int64_t off)
{
	(void)arg;
	return pwrite(fd, p, n, off);
}
static int no_sync(void *arg, int fd)
{
	(void)arg;
	(void)fd;
	return 0;
}
static int just_fallocate(void *arg, int fd, int64_t off, int64_t len)
{
	(void)arg;
	return fallocate(fd, 0, off, len);
}

static void open_log(struct bench *b, const char *dir)
{
	static const struct journal_io io = { just_pwrite, no_sync, no_sync, just_fallocate, NULL };
	static char log[PATH_MAX_BYTES], path[PATH_MAX_BYTES];
	struct committer_config cc = { .put_secrets = private_put };
	struct journal_config jc = { .dir = log, .io = &io };
	struct journal_recovery rec;
	struct pawl_error err = { .code = PAWL_OK };
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/policy.yaml", dir);
	f = fopen(path, "re");
	load_policy(b, f, path);
	(void)fclose(f);
	(void)snprintf(log, sizeof(log), "%s/log", dir);
	(void)snprintf(path, sizeof(path), "%s/keys/entry.key", dir);
	if (sign_key_load(path, &b->key, &err) < 0)
		die(path, &err);
	jc.origin = str_of(sign_key_vkey(b->key)->name);
	jc.origin.n -= strlen("/entry");
	(void)snprintf(path, sizeof(path), "%s/state/private.sqlite", dir);
	if (journal_open(&jc, NULL, NULL, &b->journal, &rec, &err) < 0 || private_open(path, &b->priv, &err) < 0)
		die(dir, &err);
	if (rec.next_seq)
		die("the log is not empty", NULL);
	cc.journal = b->journal;
	cc.key = b->key;
	cc.origin = jc.origin;
	cc.put_arg = b->priv;
	if (committer_new(&cc, &b->committer, &err) < 0)
		die("committer", &err);
}

static void close_log(struct bench *b, const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	committer_free(b->committer);
	journal_close(b->journal);
	private_close(b->priv);
	sign_key_free(b->key);
	if (fd < 0 || syncfs(fd) < 0)
		die("syncfs", NULL);
	(void)close(fd);
}

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int write_log(struct bench *b, const char *dir, uint64_t entries, int64_t span)
{
	struct timespec wall;
	double t = seconds();

	(void)clock_gettime(CLOCK_REALTIME, &wall);
	open_log(b, dir);
	b->now = (wall.tv_sec - span) * NS_PER_SEC;
	b->step = (int64_t)((double)span * 1e9 / (double)entries);
	begin(b);
	while (state_next_seq(b->st) < entries) {
		turn(b);
		if (state_next_seq(b->st) % 64 == 0)
			reap(b, 0);
	}
	close_log(b, dir);
	(void)printf("{\"entries\":%llu,\"seconds\":%.1f,\"sessions\":%llu,\"decisions\":%llu,\"settles\":%llu,\"losses\":%llu,\"timeouts\":%llu}\n",
		     (unsigned long long)state_next_seq(b->st), seconds() - t, (unsigned long long)b->count[ENTRY_SESSION],
		     (unsigned long long)b->count[ENTRY_DECISION], (unsigned long long)b->count[ENTRY_SETTLE],
		     (unsigned long long)b->count[ENTRY_LOSS], (unsigned long long)b->count[ENTRY_TIMEOUT]);
	return 0;
}

static size_t in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static int fill_state(struct bench *b, uint64_t sessions, unsigned calls)
{
	struct pawl_error err = { .code = PAWL_OK };
	size_t before;
	double t;

	load_policy(b, stdin, "the standard input");
	before = in_use();
	t = seconds();
	if (state_new(&b->twin, &err) < 0)
		die("state_new", &err);
	b->now = INT64_C(1700000000) * NS_PER_SEC;
	b->step = 1000;
	begin(b);
	for (uint64_t i = 0; i < sessions; i++) {
		struct agent *a = &b->agents[0];

		open_session(b, a, NULL);
		for (unsigned k = 0; k < calls; k++) {
			decide(b, a, true);
			settle(b, a, OUTCOME_OK);
		}
	}
	(void)printf("{\"sessions\":%llu,\"calls\":%u,\"bytes_per_session\":%.1f,\"seconds\":%.1f}\n", (unsigned long long)sessions, calls,
		     (double)(in_use() - before) / (double)sessions, seconds() - t);
	state_free(b->twin);
	return 0;
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct pawl_error err = { .code = PAWL_OK };
	bool log = argc == 5 && strcmp(argv[1], "log") == 0, state = argc == 4 && strcmp(argv[1], "state") == 0;
	int r;

	if ((!log && !state) || sodium_init() < 0) {
		(void)fprintf(stderr, "usage: agents log DIR ENTRIES SECONDS | agents state SESSIONS CALLS < POLICY\n");
		return 2;
	}
	b.dice = UINT64_C(0x9e3779b97f4a7c15);
	buf_init(&b.scratch, 1 << 20);
	buf_init(&b.body, PAWL_MAX_BODY);
	buf_init(&b.text, 1 << 20);
	if (state_new(&b.st, &err) < 0)
		die("state_new", &err);
	r = log ? write_log(&b, argv[2], strtoull(argv[3], NULL, 10), strtoll(argv[4], NULL, 10))
		: fill_state(&b, strtoull(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10));
	state_free(b.st);
	policy_free(b.pol);
	buf_done(&b.scratch);
	buf_done(&b.body);
	buf_done(&b.text);
	return r;
}
