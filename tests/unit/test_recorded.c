/* tests/unit/test_recorded.c - what the spine keeps of arguments and of programs' command lines, by `log: record_args`. U10, U12. */
#include "tests/support/spine_world.h"

#include "policy/redact.h"

static struct private_reader *reader(struct world *w)
{
	struct private_reader *pr = NULL;
	struct pawl_error err;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/private.sqlite", w->dir);
	assert_int_equal(private_reader_open(path, &pr, &err), 0);
	return pr;
}

/* want NULL: nothing was kept of it. */
static void kept(struct world *w, uint64_t seq, const char *want)
{
	struct private_reader *pr = reader(w);
	struct buf out = BUF_MAX(PAWL_MAX_VALUE);
	struct pawl_error err;
	int r = private_record(pr, seq, &out, &err);

	if (r != (want ? 1 : 0) || (want && !str_is(buf_str(&out), want)))
		fail_msg("entry %llu: %d, %.*s", (unsigned long long)seq, r, STR_ARG(buf_str(&out)));
	buf_done(&out);
	private_reader_close(pr);
}

/* What is looked for is no text that a digest may happen to have in it. */
static bool in_entry(const struct got *g, const char *what)
{
	return memmem(g->note, g->note_n, what, strlen(what)) != NULL;
}

static void test_args(void **state)
{
	static const struct {
		const char *tool, *args, *redacted;
		enum verdict verdict;
	} rows[] = {
		{ "free", "{\"b\":1,\"a\":{\"token\":\"a-b-c\"}}", "{\"b\":1,\"a\":{\"token\":\"[redacted]\"}}", VERDICT_ALLOW },
		{ "nobody", "{\"q\":\"Bearer sk-test-1\"}", "{\"q\":\"Bearer [redacted]\"}", VERDICT_DENY },
		{ "pay", "{\"cookie\":\"c\",\"n\":2}", "{\"cookie\":\"[redacted]\",\"n\":2}", VERDICT_REVIEW },
	};
	struct world *w = *state;

	for (int how = RECORD_DIGEST; how < RECORD_COUNT; how++)
		for (size_t i = 0; i < PAWL_LEN(rows); i++) {
			struct got g;
			char call[16];

			w->m.policy->log.record_args = (enum record_args)how;
			(void)snprintf(call, sizeof(call), "c%d-%zu", how, i);
			g = ask(w, (struct asked){ .tool = rows[i].tool, .args = rows[i].args, .call = call });
			assert_int_equal(g.verdict, rows[i].verdict);
			assert_false(in_entry(&g, "a-b-c") || in_entry(&g, "sk-test-1") || in_entry(&g, "\"n\":2"));
			assert_true(in_entry(&g, "args_mac"));
			kept(w, g.seq, how == RECORD_DIGEST ? NULL : how == RECORD_REDACTED ? rows[i].redacted
					       : i == 0 ? "{\"a\":{\"token\":\"a-b-c\"},\"b\":1}" /* canonical */ : rows[i].args);
		}
	assert_states_equal(w);
}

static struct got tell(struct world *w, const struct watch_args *a)
{
	struct got g = { 0 };
	struct refusal no;

	if (mediate_watch(&w->m, a, &g, &no) < 0)
		fail_msg("%s", no.err.msg);
	run_until_owed_nothing(w);
	assert_false(g.refused);
	return g;
}

static void test_programs(void **state)
{
	static const char curl[] = "curl\0-H\0Authorization: Bearer abc-secret\0https://h\0", cut[] = "x\0https://me:hunter2-secr";
	const struct watch_started started[] = {
		{ .path = STR("/usr/bin/curl"), .argv = { curl, sizeof(curl) - 1 }, .pid = 7, .count = 1, .ino = 1 },
		{ .path = STR("/bin/y"), .argv = STR_NONE, .pid = 8, .count = 1, .ino = 2 },
		{ .path = STR("/bin/x"), .argv = { cut, sizeof(cut) - 1 }, .pid = 9, .count = 2, .ino = 3 },
	};
	struct world *w = *state;
	struct watch_args attach = { .told = { .action = WATCHED_ATTACH, .session = w->session, .pid = 6, .uid = 1, .start_ns = 5, .tier = STR("B") } };
	struct watch_args execs = { .told = { .action = WATCHED_EXECS, .session = w->session, .total = 4 }, .started = started, .n_started = 3 };
	struct watch_args none = { .told = { .action = WATCHED_EXECS, .session = w->session, .total = 1 }, .started = &started[1], .n_started = 1 };
	struct got g;

	w->m.policy->log.record_args = RECORD_REDACTED;
	g = tell(w, &attach);
	kept(w, g.seq, NULL);
	g = tell(w, &execs);
	assert_false(in_entry(&g, "abc-secret") || in_entry(&g, "hunter2"));
	assert_true(in_entry(&g, "argv_mac"));
	kept(w, g.seq, "[[\"curl\",\"-H\",\"Authorization: [redacted]\",\"https://h\"],null,[\"x\",\"https://[redacted]\"]]");
	kept(w, tell(w, &none).seq, NULL);
	w->m.policy->log.record_args = RECORD_FULL;
	kept(w, tell(w, &execs).seq, "[[\"curl\",\"-H\",\"Authorization: Bearer abc-secret\",\"https://h\"],null,[\"x\",\"https://me:hunter2-secr\"]]");
	w->m.policy->log.record_args = RECORD_DIGEST;
	kept(w, tell(w, &execs).seq, NULL);
	assert_states_equal(w);
}

/* A store that takes no more: the call is denied and nothing of it remains; with room it goes on. */
static void test_full_store(void **state)
{
	struct world *w = *state;
	struct buf args = BUF_MAX(PAWL_MAX_VALUE);
	struct pawl_error err;
	struct got g;
	uint64_t seq;

	buf_puts(&args, "{\"q\":\"");
	while (args.n < 60000)
		buf_puts(&args, "0123456789");
	buf_puts(&args, "\"}");
	buf_putc(&args, '\0');
	w->m.policy->log.record_args = RECORD_FULL;
	assert_int_equal(private_limit(w->priv, 8, &err), 0);
	g = ask(w, (struct asked){ .tool = "free", .args = args.p, .call = "big" });
	assert_true(g.refused && g.no == REASON_LOG_UNAVAILABLE);
	seq = w->m.durable;
	kept(w, seq, NULL);
	assert_int_equal(private_limit(w->priv, 1 << 20, &err), 0);
	for (int i = 0; !w->m.open; i++) {
		assert_true(i < 2000);
		w->now += NS_PER_SEC;
		(void)mediate_tick(&w->m, clock_now(&w->clock));
		(void)poll(NULL, 0, 5);
	}
	run_until_owed_nothing(w);
	g = ask(w, (struct asked){ .tool = "free", .args = args.p, .call = "big" });
	assert_int_equal(g.verdict, VERDICT_ALLOW);
	kept(w, g.seq, args.p);
	buf_done(&args);
	assert_states_equal(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_args, make_world, end_world),
		cmocka_unit_test_setup_teardown(test_programs, make_world, end_world),
		cmocka_unit_test_setup_teardown(test_full_store, make_world, end_world),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
