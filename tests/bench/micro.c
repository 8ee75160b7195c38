/* tests/bench/micro.c - judge() and facts_of() alone: no socket, no disk, no thread. Nanoseconds by the clock here;
 * instructions when the same program runs under callgrind (bench.py does both). Owns everything it makes; never a test:
 * it asserts no time.
 *
 *   micro POLICY.yaml judge|facts|rows ARGS_BYTES ROUNDS     one line of JSON; ROUNDS calls in each of 21 batches, the
 * median batch counts. `facts`: the arguments are mostly one text; `rows`: a list of small objects, so that every few
 * bytes are a value of their own.
 *
 * The state is not empty: a session with 64 executions behind it, each with its reservation, as an agent at work has.
 */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "pawl/policy.h"
#include "pawl/state.h"

#define BATCHES 21
#define BEFORE  64

struct bench {
	bool rows;
	struct policy *pol;
	struct state *st;
	struct json *args;
	struct buf scratch;
	uint8_t secret[32];
	struct request_call rq;
	struct caller who;
	struct facts facts;
	struct judgement j;
	int64_t now;
};

static void die(const char *what, const struct pawl_error *err)
{
	fprintf(stderr, "micro: %s: %s\n", what, err ? err->msg : "");
	exit(1);
}

static int64_t ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_SEC + t.tv_nsec;
}

static void load_policy(struct bench *b, const char *path)
{
	struct policy_report rep = { .n = 0 };
	struct pawl_error err = { .code = PAWL_OK };
	char *text = malloc(1 << 20);
	FILE *f = fopen(path, "re");
	size_t n = f && text ? fread(text, 1, 1 << 20, f) : 0;

	if (n == 0 || policy_load((struct str){ text, n }, path, &b->pol, &rep, &err) != 0)
		die(path, &err);
	fclose(f);
	free(text);
	policy_report_done(&rep);
}

static void fill(const struct bench *b, size_t bytes, struct buf *text)
{
	if (!b->rows) {
		buf_puts(text, "\"q\":\"");
		while (text->n + 2 < bytes)
			buf_puts(text, text->n % 7 ? "e" : " ");
		buf_puts(text, "\"}");
		return;
	}
	buf_puts(text, "\"q\":\"rows\",\"rows\":[");
	for (unsigned i = 0; i == 0 || text->n + 60 < bytes; i++)
		buf_printf(text, "%s{\"name\":\"row %u\",\"id\":%u,\"on\":%s,\"score\":%u.25}", i ? "," : "", i, i * 7,
			   i % 2 ? "true" : "false", i % 10);
	buf_puts(text, "]}");
}

/* The generator's request, about as long as asked for. `page` makes each one another call. */
static void make_args(struct bench *b, size_t bytes, unsigned page)
{
	struct buf text = BUF_MAX(1 << 20);
	struct pawl_error err = { .code = PAWL_OK };

	buf_printf(&text, "{\"page\":%u,\"lang\":\"en\",\"safe\":true,", page);
	fill(b, bytes, &text);
	json_free(b->args);
	b->args = NULL;
	if (!buf_ok(&text) || json_parse(buf_str(&text), PAWL_MAX_DEPTH, &b->args, &err) != 0)
		die("args", &err);
	b->rq.args = b->args;
	buf_done(&text);
}

static void apply(struct bench *b, struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	e->seq = state_next_seq(b->st);
	e->now = e->wall = b->now;
	if (state_room(b->st, e, &err) != 0)
		die("state_room", &err);
	state_apply(b->st, e);
}

static void ask(struct bench *b)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (facts_of(b->pol, &b->rq, &b->who, NULL, &b->scratch, &b->facts, &err) != 0)
		die("facts_of", &err);
}

static void one_execution(struct bench *b)
{
	const struct facts *f = &b->facts;
	struct entry e = { .kind = ENTRY_DECISION };
	struct entry_decision *d = &e.decision;

	ask(b);
	judge(b->pol, b->st, f, b->now, &b->j);
	if (b->j.answer != VERDICT_ALLOW)
		die("the bench policy does not allow the bench call", NULL);
	*d = (struct entry_decision){ .session = 1,
				      .root = 1,
				      .call = b->rq.call,
				      .tool = f->tool,
				      .kind = f->kind,
				      .call_hash = f->call_hash,
				      .has_repeat = b->pol->repeat.on,
				      .cost_known = f->cost_known,
				      .tokens_known = f->tokens_known,
				      .money = f->money,
				      .tokens = f->tokens,
				      .answer = b->j.answer,
				      .why = b->j.why,
				      .money_unit = b->pol->currency,
				      .draws = b->j.draws,
				      .n_draws = b->j.n_draws,
				      .lease_until = b->now + f->lease_ns };
	memcpy(d->client, f->client, sizeof(d->client));
	memcpy(d->key, f->key, sizeof(d->key));
	memcpy(d->card_token, f->card, sizeof(d->card_token));
	memcpy(d->same, f->same, sizeof(d->same));
	memcpy(d->repeat, f->repeat, sizeof(d->repeat));
	apply(b, &e);
}

static void make_state(struct bench *b, size_t args_bytes)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct entry start = { .kind = ENTRY_START }, open = { .kind = ENTRY_SESSION };
	char call[32];

	if (state_new(&b->st, &err) != 0)
		die("state_new", &err);
	start.start = (struct entry_start){ .version = STR(PAWL_VERSION),
					    .policy_name = b->pol->name,
					    .policy_hash = STR("00"),
					    .mode = STR("enforce"),
					    .fallback = STR("deny"),
					    .judge = PAWL_JUDGE_VERSION,
					    .probes_text = STR("{}") };
	apply(b, &start);
	open.session = (struct entry_session){ .action = SESSION_OPEN,
					       .session = 1,
					       .root = 1,
					       .agent = STR("local"),
					       .root_dir = STR_NONE,
					       .labels_text = STR("{}"),
					       .lease_ns = 3600 * NS_PER_SEC };
	apply(b, &open);
	for (unsigned i = 0; i < BEFORE; i++) {
		snprintf(call, sizeof(call), "c-%u", i);
		b->rq.call = str_of(call);
		make_args(b, args_bytes, i);
		one_execution(b);
	}
	b->rq.call = STR("c-new");
	make_args(b, args_bytes, BEFORE);
}

static int by_value(const void *x, const void *y)
{
	int64_t a = *(const int64_t *)x, c = *(const int64_t *)y;

	return (a > c) - (a < c);
}

static double median_ns(struct bench *b, bool judging, unsigned rounds)
{
	int64_t took[BATCHES];

	for (size_t k = 0; k < BATCHES; k++) {
		int64_t t = ns();

		for (unsigned i = 0; i < rounds; i++) {
			if (judging)
				judge(b->pol, b->st, &b->facts, b->now, &b->j);
			else
				ask(b);
			__asm__ volatile("" ::: "memory");
		}
		took[k] = ns() - t;
	}
	qsort(took, BATCHES, sizeof(took[0]), by_value);
	return (double)took[BATCHES / 2] / rounds;
}

int main(int argc, char **argv)
{
	static struct bench b;
	bool judging = argc == 5 && strcmp(argv[2], "judge") == 0;
	unsigned rounds;
	size_t bytes;

	b.rows = argc == 5 && strcmp(argv[2], "rows") == 0;
	if (argc != 5 || (!judging && !b.rows && strcmp(argv[2], "facts") != 0) || sodium_init() < 0) {
		fprintf(stderr, "usage: micro POLICY judge|facts|rows ARGS_BYTES ROUNDS\n");
		return 2;
	}
	bytes = strtoul(argv[3], NULL, 10);
	rounds = (unsigned)strtoul(argv[4], NULL, 10);
	if (rounds == 0)
		return 2;
	b.now = INT64_C(1700000000) * NS_PER_SEC;
	buf_init(&b.scratch, 1 << 20);
	load_policy(&b, argv[1]);
	b.rq = (struct request_call){ .kind = CALL_TOOL,
				      .tool = STR("web.search"),
				      .model = STR_NONE,
				      .has_money = true,
				      .money = 2000,
				      .has_tokens = true,
				      .tokens = 12 };
	b.who =
	    (struct caller){ .session = 1, .root = 1, .agent = STR("local"), .root_dir = STR_NONE, .secret = b.secret };
	make_state(&b, bytes);
	ask(&b);
	judge(b.pol, b.st, &b.facts, b.now, &b.j);
	if (b.j.answer != VERDICT_ALLOW)
		die("the measured call is not allowed", NULL);
	printf("{\"what\":\"%s\",\"rules\":%zu,\"args_bytes\":%zu,\"calls\":%u,\"ns\":%.1f}\n", argv[2], b.pol->n_rules,
	       bytes, rounds * BATCHES, median_ns(&b, judging, rounds));
	json_free(b.args);
	buf_done(&b.scratch);
	state_free(b.st);
	policy_free(b.pol);
	return 0;
}
