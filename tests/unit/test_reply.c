/* tests/unit/test_reply.c - replies as docs/wire.md has them, and the promise that an entry read back gives the same reply. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/door/reply.h"
#include "daemon/door/reply_watch.h"
#include "daemon/log/entry.h"
#include "tests/support/random_entry.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY "2026-11-29T18:41:10.123456789Z"
#define DAY_NS INT64_C(1795977670123456789)
#define NOTE STR("pawl-entry/v1\nx\n")
#define NOTE_JSON "\"pawl-entry/v1\\nx\\n\""

static void check(const struct buf *out, const char *want)
{
	struct pawl_error err;
	struct json *j;

	if (!buf_ok(out) || !str_is(buf_str(out), want))
		fail_msg("\n%.*s\n%s", STR_ARG(buf_str(out)), want);
	if (json_parse(buf_str(out), PAWL_MAX_DEPTH, &j, &err) < 0)
		fail_msg("not JSON: %s", err.msg);
	json_free(j);
}

/* The buffer's bytes do not end in NUL. */
static bool has(const struct buf *out, const char *part)
{
	return out->n && memmem(out->p, out->n, part, strlen(part)) != NULL;
}

/* ---- decide ---- */

static const struct draw draws[] = {
	{ .key = { .budget = { "run", 3 }, .scope = SCOPE_SESSION, .session = 7 }, .unit = UNIT_MONEY, .amount = 2000000, .used = 4997000000,
	  .limit = 5 * MONEY_PER_UNIT },
	{ .key = { .budget = { "day", 3 }, .scope = SCOPE_AGENT, .owner = { "local", 5 } }, .unit = UNIT_CALLS, .amount = 1, .used = 12, .limit = 10,
	  .granted = 2, .window_end = DAY_NS },
};

static const struct {
	const char *name, *want;
	struct entry_decision d;
} decisions[] = {
	{ "deny by a budget, with its numbers",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c-17\",\"verdict\":\"deny\",\"decision\":\"d_123\",\"review\":null,\"permit\":null,"
	  "\"retry_after\":null,\"reason\":{\"code\":\"budget\",\"rule\":\"run\",\"message\":\"run has 0.003 USD left\",\"counter\":\"4.997\","
	  "\"limit\":\"5\",\"unit\":\"USD\"},\"remaining\":{\"run\":{\"used\":\"4.997\",\"remaining\":\"0.003\",\"limit\":\"5\",\"unit\":\"USD\","
	  "\"reset_at\":null,\"scope\":\"session\"}},\"lease_until\":null,\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c-17", 4 }, .answer = VERDICT_DENY, .money_unit = { "USD", 3 }, .draws = draws, .n_draws = 1,
	    .why = { .code = REASON_BUDGET, .rule = { "run", 3 }, .message = "run has 0.003 USD left", .has_numbers = true, .unit = UNIT_MONEY,
		     .counter = 4997000000, .limit = 5 * MONEY_PER_UNIT } } },
	{ "allow: the amount counts as used; over and granted show",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c\",\"verdict\":\"allow\",\"decision\":\"d_123\",\"review\":null,\"permit\":null,"
	  "\"retry_after\":null,\"reason\":{\"code\":\"rule\",\"rule\":\"reading\",\"message\":\"\"},\"remaining\":{\"run\":{\"used\":\"4.999\","
	  "\"remaining\":\"0.001\",\"limit\":\"5\",\"unit\":\"USD\",\"reset_at\":null,\"scope\":\"session\"},\"day\":{\"used\":\"13\","
	  "\"remaining\":\"0\",\"limit\":\"10\",\"granted\":\"2\",\"over\":\"1\",\"unit\":\"calls\",\"reset_at\":\"" DAY "\",\"scope\":\"agent\"}},"
	  "\"lease_until\":\"" DAY "\",\"call_reused\":true,\"limits_ignored\":true,\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c", 1 }, .answer = VERDICT_ALLOW, .money_unit = { "USD", 3 }, .draws = draws, .n_draws = 2, .lease_until = DAY_NS,
	    .call_reused = true, .limits_ignored = true, .why = { .code = REASON_RULE, .rule = { "reading", 7 } } } },
	{ "review: the card and its deadline, nothing taken, no lease",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c\",\"verdict\":\"review\",\"decision\":\"d_123\",\"review\":\"r_56\",\"permit\":null,"
	  "\"retry_after\":\"1500ms\",\"reason\":{\"code\":\"in_doubt\",\"rule\":null,\"message\":\"\",\"decision\":\"d_9\"},\"remaining\":{\"run\":{"
	  "\"used\":\"4.997\",\"remaining\":\"0.003\",\"limit\":\"5\",\"unit\":\"USD\",\"reset_at\":null,\"scope\":\"session\"}},"
	  "\"lease_until\":null,\"expires\":\"" DAY "\",\"review_state\":\"pending\",\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c", 1 }, .answer = VERDICT_REVIEW, .money_unit = { "USD", 3 }, .draws = draws, .n_draws = 1, .lease_until = DAY_NS, .card = 56,
	    .card_until = DAY_NS, .why = { .code = REASON_IN_DOUBT, .refers = 9, .retry_after_ns = 1500000000 } } },
	{ "already settled: how it ended",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c\",\"verdict\":\"deny\",\"decision\":\"d_123\",\"review\":null,\"permit\":null,"
	  "\"retry_after\":null,\"reason\":{\"code\":\"already_settled\",\"rule\":null,\"message\":\"\",\"decision\":\"d_9\"},\"remaining\":{},"
	  "\"lease_until\":null,\"settled\":{\"outcome\":\"expired\",\"result\":null},\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c", 1 }, .answer = VERDICT_DENY, .settled = OUTCOME_EXPIRED, .why = { .code = REASON_ALREADY_SETTLED, .refers = 9 } } },
	{ "shadow mode: allow, and what would have been answered",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c\",\"verdict\":\"allow\",\"decision\":\"d_123\",\"review\":null,\"permit\":null,"
	  "\"retry_after\":null,\"reason\":{\"code\":\"ok\",\"rule\":null,\"message\":\"\"},\"remaining\":{},\"lease_until\":\"" DAY "\","
	  "\"would\":{\"verdict\":\"deny\",\"retry_after\":\"20s\",\"reason\":{\"code\":\"breaker_open\",\"rule\":\"web\",\"message\":\"open\"}},"
	  "\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c", 1 }, .answer = VERDICT_ALLOW, .shadow = true, .would = VERDICT_DENY, .lease_until = DAY_NS,
	    .would_why = { .code = REASON_BREAKER_OPEN, .rule = { "web", 3 }, .message = "open", .retry_after_ns = 20 * NS_PER_SEC } } },
	{ "a verdict that nobody set is a no",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c\",\"verdict\":\"deny\",\"decision\":\"d_123\",\"review\":null,\"permit\":null,"
	  "\"retry_after\":null,\"reason\":{\"code\":\"ok\",\"rule\":null,\"message\":\"\"},\"remaining\":{},\"lease_until\":null,"
	  "\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c", 1 }, .answer = VERDICT_UNSET, .lease_until = DAY_NS } },
	{ "a verdict out of range is a no",
	  "{\"v\":1,\"op\":\"decide\",\"call\":\"c\",\"verdict\":\"deny\",\"decision\":\"d_123\",\"review\":null,\"permit\":null,"
	  "\"retry_after\":null,\"reason\":{\"code\":\"ok\",\"rule\":null,\"message\":\"\"},\"remaining\":{},\"lease_until\":null,"
	  "\"log\":{\"seq\":123,\"entry\":" NOTE_JSON "}}",
	  { .call = { "c", 1 }, .answer = (enum verdict)7 } },
};

static void test_decide(void **state)
{
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(decisions); i++) {
		struct entry e = { .kind = ENTRY_DECISION, .seq = 123, .decision = decisions[i].d };

		buf_reset(&out);
		reply_decide(&e, NOTE, &out);
		check(&out, decisions[i].want);
	}
	buf_reset(&out);
	reply_decide(&(struct entry){ .kind = ENTRY_STOP }, NOTE, &out);
	assert_false(buf_ok(&out)); /* not an answer */
	buf_done(&out);
}

/* A claim is answered as a decide, under its own name; a review says how its card is, and nothing else does. */
static void test_claim_and_review_state(void **state)
{
	static const struct {
		enum card_mode mode;
		const char *want;
	} rows[] = {
		{ CARD_PENDING, "pending" }, { CARD_RESUMED, "resumed" },   { CARD_SPENT, "resumed" }, { CARD_SKIPPED, "skipped" },
		{ CARD_ABORTED, "aborted" }, { CARD_TIMED_OUT, "timeout" }, { CARD_CLOSED, "closed" }, { (enum card_mode)99, "closed" },
	};
	struct entry e = { .kind = ENTRY_CLAIM, .seq = 123 };
	struct buf out = BUF_MAX(1 << 20);
	char want[64];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(decisions); i++) {
		bool asks = decisions[i].d.answer == VERDICT_REVIEW;

		e.decision = decisions[i].d;
		for (size_t k = 0; k < PAWL_LEN(rows); k++) {
			buf_reset(&out);
			reply_reviewed(&e, NOTE, rows[k].mode, &out);
			assert_true(buf_ok(&out));
			assert_int_equal(strncmp(out.p, "{\"v\":1,\"op\":\"claim\",", 20), 0);
			(void)snprintf(want, sizeof(want), ",\"review_state\":\"%s\",", rows[k].want);
			if (has(&out, want) != asks || has(&out, "review_state") != asks)
				fail_msg("%s, %s: %.*s", decisions[i].name, rows[k].want, STR_ARG(buf_str(&out)));
			assert_false(has(&out, "\"verdict\":\"allow\",\"decision\":\"d_123\",\"review\":\"r_")); /* a permit is not a card */
		}
	}
	for (enum card_mode m = 0; m < CARD_MODE_COUNT; m++)
		assert_non_null(card_mode_name(m));
	assert_null(card_mode_name(CARD_MODE_COUNT));
	buf_done(&out);
}

static void test_review_wait(void **state)
{
	static const struct {
		struct reply_wait w;
		const char *want;
	} rows[] = {
		{ { .review = 56, .mode = CARD_PENDING, .expires = DAY_NS },
		  "{\"v\":1,\"op\":\"review.wait\",\"review\":\"r_56\",\"state\":\"pending\",\"expires\":\"" DAY "\",\"operator\":null,\"reason\":null}" },
		{ { .review = 56, .mode = CARD_SKIPPED, .operator = { "ann", 3 }, .reason = { "", 0 } },
		  "{\"v\":1,\"op\":\"review.wait\",\"review\":\"r_56\",\"state\":\"skipped\",\"expires\":null,\"operator\":\"ann\",\"reason\":\"\"}" },
		{ { .review = 56, .mode = CARD_SPENT, .operator = { "ann", 3 }, .reason = { "go\n", 3 } },
		  "{\"v\":1,\"op\":\"review.wait\",\"review\":\"r_56\",\"state\":\"resumed\",\"expires\":null,\"operator\":\"ann\",\"reason\":\"go\\n\"}" },
	};
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		buf_reset(&out);
		reply_review_wait(&rows[i].w, &out);
		check(&out, rows[i].want);
	}
	buf_done(&out);
}

/* Of several ledgers of one budget (a session and the ones above it) the tightest is shown. */
static void test_tightest(void **state)
{
	static const struct draw chain[] = {
		{ .key = { .budget = { "run", 3 } }, .unit = UNIT_CALLS, .used = 1, .limit = 10 },
		{ .key = { .budget = { "x", 1 } }, .unit = UNIT_CALLS, .used = 1, .limit = 2 },
		{ .key = { .budget = { "run", 3 }, .scope = SCOPE_AGENT }, .unit = UNIT_CALLS, .used = 9, .limit = 10, .granted = 1 },
		{ .key = { .budget = { "run", 3 } }, .unit = UNIT_CALLS, .used = 7, .limit = 10 },
		{ .key = { .budget = { "far", 3 } }, .unit = UNIT_MONEY, .used = INT64_MAX, .amount = INT64_MAX, .limit = 1, .granted = 0 },
	};
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	reply_remaining(chain, sizeof(chain[0]), PAWL_LEN(chain), true, STR_NONE, &out);
	check(&out,
	      "{\"run\":{\"used\":\"9\",\"remaining\":\"2\",\"limit\":\"10\",\"granted\":\"1\",\"unit\":\"calls\",\"reset_at\":null,\"scope\":\"agent\"},"
	      "\"x\":{\"used\":\"1\",\"remaining\":\"1\",\"limit\":\"2\",\"unit\":\"calls\",\"reset_at\":null,\"scope\":\"session\"},"
	      "\"far\":{\"used\":\"9223372036.854775807\",\"remaining\":\"0\",\"limit\":\"0.000000001\",\"over\":\"9223372036.854775806\","
	      "\"unit\":\"money\",\"reset_at\":null,\"scope\":\"session\"}}");
	buf_done(&out);
}

static void test_unavailable(void **state)
{
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	reply_unavailable_decide(STR("c\"1"), "", &out);
	check(&out, "{\"v\":1,\"op\":\"decide\",\"call\":\"c\\\"1\",\"verdict\":\"deny\",\"decision\":null,\"review\":null,\"permit\":null,"
		    "\"retry_after\":null,\"reason\":{\"code\":\"log_unavailable\",\"rule\":null,\"message\":"
		    "\"the audit log cannot be written: nothing runs until it can\"},\"remaining\":{},\"lease_until\":null,\"log\":null}");
	buf_reset(&out);
	reply_unavailable_decide(STR_NONE, "no space left", &out);
	assert_true(buf_ok(&out));
	assert_true(has(&out, "\"call\":null,\"verdict\":\"deny\""));
	buf_reset(&out);
	reply_unavailable_claim(STR("c"), "", &out);
	assert_true(buf_ok(&out));
	assert_true(has(&out, "{\"v\":1,\"op\":\"claim\",\"call\":\"c\",\"verdict\":\"deny\",\"decision\":null,"));
	buf_done(&out);
}

/* ---- settle ---- */

static const struct charge charges[] = {
	{ .draw = { .key = { .budget = { "run", 3 } }, .unit = UNIT_MONEY, .used = 4998700000, .limit = 5 * MONEY_PER_UNIT }, .reserved = 2000000,
	  .charged = 1700000 },
	{ .draw = { .key = { .budget = { "tokens", 6 } }, .unit = UNIT_TOKENS, .used = 1110, .limit = 1000 }, .reserved = 1200, .charged = 1110 },
};

static void test_settle(void **state)
{
	struct entry e = { .kind = ENTRY_SETTLE, .seq = 124,
			   .settle = { .session = 7, .decision = 123, .outcome = OUTCOME_OK, .money_unit = STR("USD"), .charges = charges,
				       .n_charges = 2, .returned = 300000, .charged_money = 1700000, .charged_tokens = 1110 } };
	struct entry late = { .kind = ENTRY_LOSS, .seq = 125, .loss = { .what = LOSS_LATE_SETTLE, .decision = 123, .late = e.settle } };
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	reply_settle(&e, NOTE, &out);
	check(&out, "{\"v\":1,\"op\":\"settle\",\"decision\":\"d_123\",\"outcome\":\"ok\",\"charged\":{\"money\":\"0.0017\",\"tokens\":1110},"
		    "\"returned\":{\"money\":\"0.0003\",\"tokens\":90},\"late\":false,\"remaining\":{\"run\":{\"used\":\"4.9987\",\"remaining\":"
		    "\"0.0013\",\"limit\":\"5\",\"unit\":\"USD\",\"reset_at\":null,\"scope\":\"session\"},\"tokens\":{\"used\":\"1110\",\"remaining\":"
		    "\"0\",\"limit\":\"1000\",\"over\":\"110\",\"unit\":\"tokens\",\"reset_at\":null,\"scope\":\"session\"}},\"log\":{\"seq\":124,"
		    "\"entry\":" NOTE_JSON "}}");
	buf_reset(&out);
	reply_settle(&late, NOTE, &out);
	assert_true(buf_ok(&out));
	assert_true(has(&out, "\"late\":true,"));
	buf_reset(&out);
	late.loss.what = LOSS_TORN_TAIL;
	reply_settle(&late, NOTE, &out);
	assert_false(buf_ok(&out));
	buf_done(&out);
}

/* Semantics 7: the same reply byte for byte, also after a restart, when all there is is the entry as it was read back. */
static void test_same_bytes_after_restart(void **state)
{
	static const enum entry_kind kinds[] = { ENTRY_DECISION, ENTRY_CLAIM, ENTRY_SETTLE, ENTRY_LOSS };
	struct buf line = BUF_MAX(1 << 20), before = BUF_MAX(1 << 20), after = BUF_MAX(1 << 20);
	struct dice *d = calloc(1, sizeof(*d));
	int checked = 0;

	(void)state;
	assert_non_null(d);
	d->s = 521288629;
	for (int i = 0; i < 2000; i++) {
		void (*reply)(const struct entry *, struct str, struct buf *) = i % 4 > 1 ? reply_settle : reply_decide;
		struct entry_parsed p;
		struct json *j;
		struct entry e;

		random_entry(d, kinds[i % 4], &e);
		buf_reset(&line);
		buf_reset(&before);
		buf_reset(&after);
		entry_render(&e, &line);
		if (!buf_ok(&line) || (e.kind == ENTRY_LOSS && e.loss.what != LOSS_LATE_SETTLE))
			continue;
		reply(&e, NOTE, &before);
		assert_int_equal(entry_parse(buf_str(&line), e.seq, &p, NULL), 0);
		reply(&p.e, NOTE, &after);
		assert_true(buf_ok(&before) && buf_ok(&after));
		if (!str_eq(buf_str(&before), buf_str(&after)))
			fail_msg("\n%.*s\n%.*s", STR_ARG(buf_str(&before)), STR_ARG(buf_str(&after)));
		assert_int_equal(json_parse(buf_str(&after), PAWL_MAX_DEPTH, &j, NULL), 0); /* no repeated key, whatever the budgets are called */
		json_free(j);
		entry_parsed_done(&p);
		checked++;
	}
	assert_true(checked > 1200);
	buf_done(&line);
	buf_done(&before);
	buf_done(&after);
	free(d);
}

/* ---- the rest ---- */

static void test_error(void **state)
{
	static const struct {
		enum wire_op op;
		enum reason_code code;
		const char *field, *message;
		int64_t retry_after_ns;
		const char *want;
	} rows[] = {
		{ OP_DECIDE, REASON_MALFORMED, "estimate.money", "not a decimal number: \"1e400\"", 0,
		  "{\"v\":1,\"op\":\"decide\",\"error\":{\"code\":\"malformed\",\"field\":\"estimate.money\",\"message\":"
		  "\"not a decimal number: \\\"1e400\\\"\"}}" },
		{ OP_NONE, REASON_MALFORMED, "", "an empty message", 0,
		  "{\"v\":1,\"op\":null,\"error\":{\"code\":\"malformed\",\"field\":null,\"message\":\"an empty message\"}}" },
		{ OP_SETTLE, REASON_THROTTLED, NULL, "slower", 250000000,
		  "{\"v\":1,\"op\":\"settle\",\"error\":{\"code\":\"throttled\",\"field\":null,\"message\":\"slower\",\"retry_after\":\"250ms\"}}" },
		{ OP_HELLO, REASON_UNAVAILABLE, "a\xc3", "b\xff\n", 0, /* a path that was cut in the middle of a letter */
		  "{\"v\":1,\"op\":\"hello\",\"error\":{\"code\":\"unavailable\",\"field\":\"a?\",\"message\":\"b?\\n\"}}" },
		{ OP_HELLO, REASON_COUNT, NULL, NULL, 0,
		  "{\"v\":1,\"op\":\"hello\",\"error\":{\"code\":\"unavailable\",\"field\":null,\"message\":\"\"}}" },
	};
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		buf_reset(&out);
		reply_error(rows[i].op, rows[i].code, rows[i].field, rows[i].message, rows[i].retry_after_ns, &out);
		check(&out, rows[i].want);
	}
	buf_done(&out);
}

static void test_sessions(void **state)
{
	struct reply_open o = { .session = 7, .seq = 7, .expires = DAY_NS, .lease_ns = 60 * NS_PER_SEC, .mode = STR("enforce") };
	static const uint64_t open[] = { 9, 11 };
	static const struct reply_review reviews[] = { { 10, DAY_NS, CARD_PENDING }, { 12, 0, CARD_SPENT }, { 13, 0, CARD_SKIPPED } };
	static const struct stick_fact denials[] = { { STICK_TREE, { "net", 3 }, { "no-net", 6 }, false }, { STICK_SESSION, { "fs\"", 3 }, { "r", 1 }, true } };
	static const struct breaker_row breakers[] = { { .id = { "web", 3 }, .mode = BREAKER_OPEN, .until = DAY_NS },
						       { .id = { "web", 3 }, .tool = { "page.fetch", 10 }, .mode = BREAKER_HALF_OPEN } };
	const struct reply_watch watch = { .session = 7, .tree = { .mode = TREE_LIVE, .held = HOLD_CPU | HOLD_EVENTS, .execs = 4, .kills = 2 },
					   .has_now = true, .now = { .session = 7, .processes = 3, .peak = 5, .execs = 9, .cpu_ns = 1500000000, .memory = 4096,
					   .wall_ns = 12 * NS_PER_SEC, .lost = 1, .limits = { .processes = 50, .cpu_ns = 60 * NS_PER_SEC } } };
	struct reply_state s = { .session = 7, .agent = STR("local"), .opened = DAY_NS, .expires = DAY_NS, .decisions = 3, .executions = 2,
				 .ledgers = draws, .n_ledgers = 1, .currency = STR("USD"), .open = open, .n_open = 2, .reviews = reviews,
				 .n_reviews = 3, .denials = denials, .n_denials = 2, .breakers = breakers, .n_breakers = 2, .watch = &watch };
	static const struct reply_session rows[] = {
		{ .session = 7, .agent = { "local", 5 }, .opened = DAY_NS, .expires = DAY_NS, .decisions = 3, .executions = 2, .reservations = 1, .money = { { "run", 3 }, 1500000000, -5 } },
		{ .session = 8, .agent = { "local", 5 }, .opened = DAY_NS, .expires = DAY_NS, .ended = { "stale", 5 }, .reviews = 1,
		  .watch = { .session = 8, .tree = { .mode = TREE_ENDED, .execs = 4, .kills = 1, .why = WHY_PROCESSES, .measured = 51, .limit = 50 } } },
	};
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	memset(o.token, 0xab, sizeof(o.token));
	reply_open(&o, &out);
	check(&out, "{\"v\":1,\"op\":\"session.open\",\"session\":\"s_7\",\"token\":"
		    "\"abababababababababababababababababababababababababababababababab\",\"expires\":\"" DAY
		    "\",\"lease\":\"1m\",\"mode\":\"enforce\",\"log\":{\"seq\":7}}");
	buf_reset(&out);
	reply_close(7, 130, &out);
	check(&out, "{\"v\":1,\"op\":\"session.close\",\"session\":\"s_7\",\"log\":{\"seq\":130}}");
	buf_reset(&out);
	reply_heartbeat(7, DAY_NS, &out);
	check(&out, "{\"v\":1,\"op\":\"heartbeat\",\"session\":\"s_7\",\"expires\":\"" DAY "\"}");
	buf_reset(&out);
	reply_state(&s, &out);
	check(&out, "{\"v\":1,\"op\":\"session.state\",\"session\":\"s_7\",\"agent\":\"local\",\"opened\":\"" DAY "\",\"expires\":\"" DAY
		    "\",\"ended\":null,\"decisions\":3,\"executions\":2,\"remaining\":{\"run\":{\"used\":\"4.997\",\"remaining\":\"0.003\","
		    "\"limit\":\"5\",\"unit\":\"USD\",\"reset_at\":null,\"scope\":\"session\"}},\"open\":[\"d_9\",\"d_11\"],\"reviews\":[{\"review\":"
		    "\"r_10\",\"state\":\"pending\",\"expires\":\"" DAY "\"},{\"review\":\"r_12\",\"state\":\"resumed\",\"expires\":null},{\"review\":"
		    "\"r_13\",\"state\":\"skipped\",\"expires\":null}],\"denials\":[{\"tool\":\"net\",\"rule\":\"no-net\",\"sticky\":\"tree\"},{\"tool\":"
		    "\"fs\\\"\",\"rule\":\"r\",\"sticky\":\"session\",\"would\":true}],\"breakers\":[{\"breaker\":\"web\",\"state\":\"open\",\"until\":\"" DAY
		    "\"},{\"breaker\":\"web\",\"tool\":\"page.fetch\",\"state\":\"half_open\",\"until\":null}],\"watch\":{"
		    "\"session\":\"s_7\",\"state\":\"live\",\"held\":[\"cpu\",\"exec\"],\"processes\":{\"used\":3,\"limit\":50},\"cpu\":{\"used\":\"1.5\","
		    "\"limit\":\"60\"},\"memory\":{\"used\":4096,\"limit\":null},\"wall\":{\"used\":\"12\",\"limit\":null},\"peak\":5,\"execs\":9,"
		    "\"kills\":2,\"lost\":1,\"killed\":null}}");
	buf_reset(&out);
	reply_session_list(rows, 2, true, STR("USD"), &out);
	check(&out, "{\"v\":1,\"op\":\"session.list\",\"sessions\":[{\"session\":\"s_7\",\"agent\":\"local\",\"opened\":\"" DAY "\",\"expires\":\"" DAY
		    "\",\"ended\":null,\"decisions\":3,\"executions\":2,\"reservations\":1,\"reviews\":0,\"money\":{\"budget\":\"run\",\"used\":\"1.5\",\"remaining\":\"0\",\"unit\":\"USD\"},\"watch\":null},{\"session\":\"s_8\",\"agent\":\"local\","
		    "\"opened\":\"" DAY "\",\"expires\":\"" DAY "\",\"ended\":\"stale\",\"decisions\":0,\"executions\":0,\"reservations\":0,"
		    "\"reviews\":1,\"money\":null,\"watch\":{\"session\":\"s_8\",\"state\":\"ended\",\"held\":[],\"execs\":4,\"kills\":1,\"lost\":0,\"killed\":{\"why\":"
		    "\"processes\",\"measured\":51,\"limit\":50}}}],\"more\":true}");
	buf_reset(&out);
	reply_session_list(NULL, 0, false, STR("USD"), &out);
	check(&out, "{\"v\":1,\"op\":\"session.list\",\"sessions\":[],\"more\":false}");
	buf_done(&out);
}

static void test_daemon(void **state)
{
	static const struct reply_fact facts[] = { { { "P4", 2 }, { "partial", 7 }, { "one uid", 7 } }, { { "P7", 2 }, { "partial", 7 }, { "x", 1 } } };
	struct reply_log log = { .origin = STR("o"), .key = STR("o/entry+00+AA"), .seq = 42, .unavailable = true, .why = STR("full") };
	struct reply_hello h = { .policy_name = STR("crew"), .policy_hash = STR("ab"), .currency = STR("USD"), .mode = STR("enforce"),
				 .fallback = VERDICT_DENY, .attended = true, .log = log, .watch_state = STR("off"), .watch_why = STR("not built"),
				 .promises = facts, .n_promises = 2 };
	struct reply_status s = { .rest_pid = 12, .started = DAY_NS, .now = DAY_NS, .wall = DAY_NS, .policy_loaded = DAY_NS,
				  .policy_name = STR("crew"), .policy_hash = STR("ab"), .mode = STR("enforce"), .fallback = VERDICT_UNSET, .log = log,
				  .live = 1, .kept = 2, .allow = 3, .review = 4, .deny = 5, .would_review = 1, .would_deny = 2, .settles = 6, .malformed = 7, .unauthenticated = 8,
				  .throttled = 9, .oversized = 10, .rows = 41, .snapshot = 30, .unread = 7, .rows_problem = STR("no room"),
				  .probes = facts, .n_probes = 1, .watch_state = STR("on"), .watch_why = STR("all of it"), .tier = "B", .trees = 3,
				  .trees_asked = 1, .trees_over = 2, .trees_refused = 4, .watch_lost = 5, .watch_nonsense = 6 };
	struct reply_policy p = { STR("crew"), STR("ab"), STR("/etc/pawl\xff.yaml"), STR("pawl: 1\n...\n") };
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	reply_hello(&h, &out);
	check(&out, "{\"v\":1,\"op\":\"hello\",\"server\":\"pawld " PAWL_VERSION "\",\"protocol\":1,\"policy\":{\"name\":\"crew\",\"hash\":\"ab\"},"
		    "\"currency\":\"USD\",\"mode\":\"enforce\",\"default\":\"deny\",\"attended\":true,\"log\":{\"origin\":\"o\",\"key\":\"o/entry+00+AA\","
		    "\"seq\":42},\"watch\":{\"state\":\"off\",\"why\":\"not built\"},\"promises\":{\"P4\":{\"state\":\"partial\",\"why\":\"one uid\"},"
		    "\"P7\":{\"state\":\"partial\",\"why\":\"x\"}}}");
	buf_reset(&out);
	reply_status(&s, &out);
	check(&out, "{\"v\":1,\"op\":\"status\",\"server\":\"pawld " PAWL_VERSION "\",\"pid\":{\"watcher\":null,\"rest\":12},\"started\":\"" DAY
		    "\",\"now\":\"" DAY "\",\"wall\":\"" DAY "\",\"mode\":\"enforce\",\"default\":\"deny\",\"policy\":{\"name\":\"crew\",\"hash\":\"ab\","
		    "\"loaded\":\"" DAY "\"},\"log\":{\"origin\":\"o\",\"key\":\"o/entry+00+AA\",\"seq\":42,\"state\":\"unavailable\",\"why\":\"full\"},"
		    "\"sessions\":{\"live\":1,\"kept\":2},\"watch\":{\"state\":\"on\",\"why\":\"all of it\",\"tier\":\"B\",\"trees\":3,\"asked\":1,\"over\":2,"
		    "\"refused\":4,\"lost\":5,\"nonsense\":6},\"store\":{\"rows\":41,\"snapshot\":30,\"unread\":7,\"problem\":\"no room\"},\"counters\":{\"decide\":{\"allow\":3,\"review\":4,\"deny\":5},\"would\":{\"review\":1,\"deny\":2},\"settle\":6,\"malformed\":7,"
		    "\"unauthenticated\":8,\"throttled\":9,\"oversized\":10},\"probes\":{\"P4\":{\"state\":\"partial\",\"why\":\"one uid\"}},"
		    "\"promises\":{}}");
	buf_reset(&out);
	reply_policy_show(&p, &out);
	check(&out, "{\"v\":1,\"op\":\"policy.show\",\"name\":\"crew\",\"hash\":\"ab\",\"file\":\"/etc/pawl?.yaml\",\"text\":\"pawl: 1\\n...\\n\"}");
	buf_done(&out);
}

/* ---- watch door ---- */

static void test_watch_door(void **state)
{
	static const struct str hide[] = { { "/var/lib/pawl/keys", 18 }, { "/etc/pawl\"", 10 } }, writes[] = { { "/srv/agent", 10 } };
	struct reply_run r = { .op = OP_RUN, .session = 5, .held = HOLD_EXEC | HOLD_PROCESSES, .need = HOLD_EXEC | HOLD_PROCESSES, .tier = 'B', .message = STR(""),
			       .hide = hide, .n_hide = 2, .agent_socket = STR("/run/a.sock") };
	struct watch_ended end = { .last = { .session = 5, .killed = WHY_PROCESSES }, .measured = 51, .limit = 50, .n_killed = 3 };
	struct buf out = BUF_MAX(1 << 16);

	(void)state;
	memset(r.token, 0xab, sizeof(r.token));
	reply_run(&r, &out);
	check(&out, "{\"v\":1,\"op\":\"run\",\"session\":\"s_5\",\"token\":\"abababababababababababababababababababababababababababababababab\",\"log\":{\"seq\":5},"
		    "\"watch\":{\"state\":\"on\",\"tier\":\"B\",\"held\":[\"deny_exec\",\"processes\"],\"missing\":[],\"message\":\"\"},\"launch\":{\"hide\":["
		    "\"/var/lib/pawl/keys\",\"/etc/pawl\\\"\"],\"writes_under\":null,\"agent_socket\":\"/run/a.sock\"}}");
	buf_reset(&out);
	r.need |= HOLD_CPU;
	r.message = STR("no cgroup");
	r.has_writes = true;
	r.rlimits = (struct reply_rlimits){ 60 * NS_PER_SEC, 2048, 32 };
	reply_run(&r, &out);
	check(&out, "{\"v\":1,\"op\":\"run\",\"session\":\"s_5\",\"token\":\"abababababababababababababababababababababababababababababababab\",\"log\":{\"seq\":5},"
		    "\"watch\":{\"state\":\"partial\",\"tier\":\"B\",\"held\":[\"deny_exec\",\"processes\"],\"missing\":[\"cpu\"],\"message\":\"no cgroup\"},"
		    "\"launch\":{\"hide\":[\"/var/lib/pawl/keys\",\"/etc/pawl\\\"\"],\"writes_under\":[],\"agent_socket\":\"/run/a.sock\",\"rlimits\":{\"cpu\":\"1m\","
		    "\"memory\":2048,\"processes\":32}}}");
	buf_reset(&out);
	r.op = OP_ATTACH;
	r.held = 0;
	r.writes = writes;
	r.n_writes = 1;
	reply_run(&r, &out);
	check(&out, "{\"v\":1,\"op\":\"attach\",\"session\":\"s_5\",\"log\":{\"seq\":5},\"watch\":{\"state\":\"off\",\"tier\":\"B\",\"held\":[],"
		    "\"missing\":[\"deny_exec\",\"processes\",\"cpu\"],\"message\":\"no cgroup\"}}");
	buf_reset(&out);
	reply_watch_done(OP_REJOIN, 5, &out);
	check(&out, "{\"v\":1,\"op\":\"rejoin\",\"session\":\"s_5\"}");
	buf_reset(&out);
	reply_ended(&end, &out);
	check(&out, "{\"v\":1,\"op\":\"ended\",\"session\":\"s_5\",\"why\":\"processes\",\"measured\":51,\"limit\":50,\"killed\":3}");
	buf_done(&out);
}

/* ---- operator door ---- */

static const struct ask asks[] = { { REASON_IN_DOUBT, { NULL, 0 }, 7 }, { REASON_RULE, { "writes", 6 }, 0 } };
static const struct reply_before before[] = {
	{ .decision = 40, .tool = { "page.fetch", 10 }, .answer = VERDICT_ALLOW, .outcome = OUTCOME_ERROR, .now = DAY_NS },
	{ .decision = 41, .tool = { "page.fetch", 10 }, .answer = VERDICT_UNSET, .outcome = OUTCOME_NONE, .now = DAY_NS },
};
static const struct reply_card cards[] = {
	{ .review = 56, .session = 7, .agent = { "local", 5 }, .tool = { "mail.send", 9 }, .mode = CARD_PENDING, .opened = DAY_NS, .expires = DAY_NS,
	  .asks = asks, .n_asks = 2, .message = { "3 of 3", 6 }, .has_numbers = true, .unit = UNIT_MONEY, .counter = 1500000000, .limit = MONEY_PER_UNIT,
	  .currency = { "USD", 3 }, .args = { "{\"to\":\"a\xff\"}", 11 }, .args_bytes = 70000, .args_mac = { 0xab }, .money = 2000000, .tokens = 1200, .joined = 2,
	  .before = before, .n_before = 2 },
	{ .review = 57, .session = 7, .agent = { "local", 5 }, .tool = { "mail.send", 9 }, .mode = CARD_SPENT, .opened = DAY_NS,
	  .operator = { "ann", 3 }, .reason = { "go", 2 } },
};
#define CARD_56                                                                                                                                   \
	"\"r_56\",\"session\":\"s_7\",\"agent\":\"local\",\"tool\":\"mail.send\",\"state\":\"pending\",\"opened\":\"" DAY "\",\"expires\":\"" DAY           \
	"\",\"asks\":[{\"code\":\"in_doubt\",\"rule\":null,\"decision\":\"d_7\"},{\"code\":\"rule\",\"rule\":\"writes\"}],\"reason\":{\"message\":\"3 of 3\",\"counter\":\"1.5\","     \
	"\"limit\":\"1\",\"unit\":\"USD\"},\"args\":\"{\\\"to\\\":\\\"a?\\\"}\",\"args_bytes\":70000,\"args_mac\":"                                                                   \
	"\"ab00000000000000000000000000000000000000000000000000000000000000\",\"money\":\"0.002\",\"tokens\":1200,\"joined\":2,\"operator\":null,"   \
	"\"operator_reason\":null,\"before\":[{\"decision\":\"d_40\",\"tool\":\"page.fetch\",\"verdict\":\"allow\",\"outcome\":\"error\",\"now\":\"" DAY               \
	"\"},{\"decision\":\"d_41\",\"tool\":\"page.fetch\",\"verdict\":\"deny\",\"outcome\":null,\"now\":\"" DAY "\"}]}"
#define CARD_57                                                                                                                                   \
	"\"r_57\",\"session\":\"s_7\",\"agent\":\"local\",\"tool\":\"mail.send\",\"state\":\"spent\",\"opened\":\"" DAY "\",\"expires\":null,"           \
	"\"asks\":[],\"reason\":{\"message\":\"\"},\"args\":null,\"args_bytes\":0,\"args_mac\":\"0000000000000000000000000000000000000000000000000000000000000000\","   \
	"\"money\":\"0\",\"tokens\":0,\"joined\":0,\"operator\":\"ann\",\"operator_reason\":\"go\",\"before\":[]}"

static void test_cards(void **state)
{
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	reply_review_list(cards, 2, true, STR("enforce"), &out);
	check(&out, "{\"v\":1,\"op\":\"review.list\",\"reviews\":[{\"review\":" CARD_56 ",{\"review\":" CARD_57 "],\"more\":true,\"mode\":\"enforce\"}");
	buf_reset(&out);
	reply_review_list(NULL, 0, false, STR("shadow"), &out);
	check(&out, "{\"v\":1,\"op\":\"review.list\",\"reviews\":[],\"more\":false,\"mode\":\"shadow\"}");
	buf_reset(&out);
	reply_review_show(&cards[0], &out);
	check(&out, "{\"v\":1,\"op\":\"review.show\",\"review\":" CARD_56);
	buf_done(&out);
}

static void test_signed_ops(void **state)
{
	struct policy_problem rows[] = { { .warning = true, .line = 3, .column = 5, .msg = "an alias \"x\"" }, { .line = 9, .column = 1, .msg = "cut short?" } };
	struct policy_report rep = { .file = "/etc/pawl.yaml", .rows = rows, .n = 2, .errors = 1 };
	uint8_t nonce[32] = { 1, [31] = 0xff };
	struct buf out = BUF_MAX(1 << 20);

	(void)state;
	reply_nonce(nonce, DAY_NS, &out);
	check(&out, "{\"v\":1,\"op\":\"nonce\",\"nonce\":\"01000000000000000000000000000000000000000000000000000000000000ff\",\"expires\":\"" DAY "\"}");
	buf_reset(&out);
	reply_review_resolve(56, CARD_RESUMED, 60, &out);
	check(&out, "{\"v\":1,\"op\":\"review.resolve\",\"review\":\"r_56\",\"state\":\"resumed\",\"log\":{\"seq\":60}}");
	buf_reset(&out);
	reply_session_abort(7, 61, &out);
	check(&out, "{\"v\":1,\"op\":\"session.abort\",\"session\":\"s_7\",\"log\":{\"seq\":61}}");
	buf_reset(&out);
	reply_breaker_reset(STR("web"), 62, &out);
	check(&out, "{\"v\":1,\"op\":\"breaker.reset\",\"breaker\":\"web\",\"log\":{\"seq\":62}}");
	buf_reset(&out);
	reply_policy_reload(false, &rep, 63, &out);
	check(&out, "{\"v\":1,\"op\":\"policy.reload\",\"loaded\":false,\"problems\":[\"/etc/pawl.yaml:3:5: warning: "
		    "an alias \\\"x\\\"\",\"/etc/pawl.yaml:9:1: error: cut short?\"],\"log\":{\"seq\":63}}");
	buf_reset(&out);
	rep.n = 0;
	reply_policy_reload(true, &rep, 64, &out);
	check(&out, "{\"v\":1,\"op\":\"policy.reload\",\"loaded\":true,\"problems\":[],\"log\":{\"seq\":64}}");
	buf_done(&out);
}

/* A reply that does not fit has failed; it is never sent in part. */
static void test_too_large(void **state)
{
	struct entry e = { .kind = ENTRY_DECISION, .seq = 123, .decision = decisions[0].d };
	struct buf out = BUF_MAX(100);

	(void)state;
	reply_decide(&e, NOTE, &out);
	assert_false(buf_ok(&out));
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decide),	 cmocka_unit_test(test_tightest), cmocka_unit_test(test_unavailable),
		cmocka_unit_test(test_settle),	 cmocka_unit_test(test_same_bytes_after_restart), cmocka_unit_test(test_error),
		cmocka_unit_test(test_sessions), cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_watch_door),	  cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_claim_and_review_state), cmocka_unit_test(test_review_wait), cmocka_unit_test(test_cards),
		cmocka_unit_test(test_signed_ops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
