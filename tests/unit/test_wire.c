/* tests/unit/test_wire.c - requests: the shared vectors, every field of every op spoiled in every way, and what a good one yields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/door/wire.h"
#include "policy/canon.h"
#include "tests/support/fail_malloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define USD STR("USD")
#define TOKEN "abababababababababababababababababababababababababababababababab"
#define CLIENT "0123456789abcdef0123456789abcdef"
#define SIGNED "\"operator\":\"ann\",\"nonce\":\"" TOKEN "\",\"signature\":\"" TOKEN TOKEN "\""

/* On failure nothing may have been handed out. */
static int parse(struct str body, enum wire_door door, struct request *rq, enum wire_op *op, struct pawl_error *err)
{
	struct request before;
	int got;

	memset(&before, 0x5a, sizeof(before));
	memcpy(rq, &before, sizeof(before));
	*err = (struct pawl_error){ .code = PAWL_OK };
	got = wire_parse(body, door, USD, rq, op, err);
	if (got < 0 && memcmp(rq, &before, sizeof(before)) != 0)
		fail_msg("a refused request was handed out: %.*s", (int)(body.n < 200 ? body.n : 200), body.p);
	if (got < 0 && (err->code != got || !err->msg[0]))
		fail_msg("no message for: %.*s", (int)(body.n < 200 ? body.n : 200), body.p);
	return got;
}

/* ---- the shared vectors ---- */

static int nibble(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static size_t vector_bytes(const struct json *row, char *out, size_t size)
{
	struct str text = json_string(json_get(row, "request")), hex = json_string(json_get(row, "hex"));

	assert_true(text.n <= size && hex.n / 2 <= size);
	if (text.p)
		memcpy(out, text.p, text.n);
	for (size_t i = 0; i + 1 < hex.n; i += 2)
		out[i / 2] = (char)(nibble(hex.p[i]) << 4 | nibble(hex.p[i + 1]));
	return text.p ? text.n : hex.n / 2;
}

static void check_vector(const struct json *row)
{
	struct str name = json_string(json_get(row, "name")), want = json_string(json_get(json_get(row, "error"), "field"));
	enum wire_door door = str_is(json_string(json_get(row, "door")), "operator") ? DOOR_OPERATOR : DOOR_AGENT;
	static char bytes[1 << 16];
	struct pawl_error err;
	struct request rq;
	enum wire_op op;
	int got = parse((struct str){ bytes, vector_bytes(row, bytes, sizeof(bytes)) }, door, &rq, &op, &err);

	if (json_true(json_get(row, "ok"))) {
		if (got != 0)
			fail_msg("%.*s: refused: %s: %s", STR_ARG(name), err.field, err.msg);
		request_done(&rq);
		return;
	}
	assert_true(str_is(json_string(json_get(json_get(row, "error"), "code")), "malformed"));
	if (got != PAWL_E_MALFORMED)
		fail_msg("%.*s: %d", STR_ARG(name), got);
	if (!str_is(want, err.field))
		fail_msg("%.*s: field \"%s\", not \"%.*s\" (%s)", STR_ARG(name), err.field, STR_ARG(want), err.msg);
}

static void test_vectors(void **state)
{
	FILE *f = fopen("tests/vectors/wire/requests.jsonl", "r");
	size_t n = 0, size = 0;
	char *line = NULL;
	ssize_t len;

	(void)state;
	if (!f)
		fail_msg("run from the root of the source tree");
	while ((len = getline(&line, &size, f)) > 0) {
		struct json *row;

		assert_int_equal(json_parse((struct str){ line, (size_t)len }, PAWL_MAX_DEPTH, &row, NULL), 0);
		check_vector(row);
		json_free(row);
		n++;
	}
	assert_true(n > 480); /* a file that went missing in part must not pass */
	free(line);
	(void)fclose(f);
}

/* ---- every field of every op, spoiled ---- */

static const struct sample {
	enum wire_op op;
	enum wire_door door;
	const char *text;
	const char *optional; /* paths, each with a blank on both sides; the rest is required */
} samples[] = {
	{ OP_HELLO, DOOR_AGENT, "{\"v\":1,\"op\":\"hello\"}", "" },
	{ OP_SESSION_OPEN, DOOR_AGENT,
	  "{\"v\":1,\"op\":\"session.open\",\"agent\":\"local\",\"agent_token\":\"t\",\"root\":\"/srv\",\"labels\":{\"run\":\"42\"},"
	  "\"limits\":{\"money\":\"2\",\"tokens\":5,\"calls\":6,\"time\":\"1h\"}}",
	  " agent_token root labels labels.run limits limits.money limits.tokens limits.calls limits.time " },
	{ OP_SESSION_OPEN, DOOR_AGENT, /* a parent and its token are there together */
	  "{\"v\":1,\"op\":\"session.open\",\"agent\":\"local\",\"parent\":\"s_12\",\"parent_token\":\"" TOKEN "\",\"limits\":{\"money\":\"25%\"}}",
	  " limits limits.money " },
	{ OP_DECIDE, DOOR_AGENT,
	  "{\"v\":1,\"op\":\"decide\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT "\",\"call\":\"c-17\",\"kind\":\"http\","
	  "\"tool\":\"page.fetch\",\"args\":{\"url\":\"docs/a.html\"},\"estimate\":{\"money\":\"0.002\",\"tokens\":1200,"
	  "\"currency\":\"USD\"},\"limits\":{\"money\":\"0.50\",\"repeat\":3,\"lease\":\"30s\"},\"wait\":\"1s\"}",
	  " kind args.url estimate estimate.money estimate.tokens estimate.currency limits limits.money limits.repeat limits.lease wait " },
	{ OP_DECIDE, DOOR_AGENT,
	  "{\"v\":1,\"op\":\"decide\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT "\",\"call\":\"c-17\",\"kind\":\"llm\","
	  "\"model\":\"gpt-5\",\"tool\":\"page.fetch\",\"args\":{\"url\":\"docs/a.html\"},\"estimate\":{\"tokens\":1200},\"wait\":\"1s\"}",
	  " args.url estimate estimate.tokens wait " },
	{ OP_SETTLE, DOOR_AGENT,
	  "{\"v\":1,\"op\":\"settle\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"decision\":\"d_34\",\"outcome\":\"error\",\"cost\":{"
	  "\"money\":\"0.0017\",\"tokens\":{\"input\":900},\"currency\":\"USD\"},\"result\":{\"sha256\":\"" TOKEN "\",\"bytes\":4096},"
	  "\"error\":{\"kind\":\"E\",\"sha256\":\"" TOKEN "\"},\"duration\":\"1.2s\"}",
	  " cost cost.money cost.tokens cost.tokens.input cost.currency result error error.sha256 duration " },
	{ OP_CLAIM, DOOR_AGENT,
	  "{\"v\":1,\"op\":\"claim\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT "\",\"call\":\"c-17\",\"review\":\"r_56\","
	  "\"kind\":\"http\",\"tool\":\"page.fetch\",\"args\":{\"url\":\"docs/a.html\"},\"estimate\":{\"money\":\"0.002\",\"tokens\":1200,"
	  "\"currency\":\"USD\"},\"limits\":{\"money\":\"0.50\",\"repeat\":3,\"lease\":\"30s\"}}",
	  " kind args.url estimate estimate.money estimate.tokens estimate.currency limits limits.money limits.repeat limits.lease " },
	{ OP_REVIEW_WAIT, DOOR_AGENT, "{\"v\":1,\"op\":\"review.wait\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"review\":\"r_56\",\"wait\":\"30s\"}",
	  " wait " },
	{ OP_SESSION_STATE, DOOR_AGENT, "{\"v\":1,\"op\":\"session.state\",\"session\":\"s_12\",\"token\":\"" TOKEN "\"}", "" },
	{ OP_SESSION_CLOSE, DOOR_AGENT, "{\"v\":1,\"op\":\"session.close\",\"session\":\"s_12\",\"token\":\"" TOKEN "\"}", "" },
	{ OP_HEARTBEAT, DOOR_AGENT, "{\"v\":1,\"op\":\"heartbeat\",\"session\":\"s_12\",\"token\":\"" TOKEN "\"}", "" },
	{ OP_STATUS, DOOR_OPERATOR, "{\"v\":1,\"op\":\"status\"}", "" },
	{ OP_SESSION_LIST, DOOR_OPERATOR, "{\"v\":1,\"op\":\"session.list\",\"after\":\"s_3\",\"limit\":10}", " after limit " },
	{ OP_POLICY_SHOW, DOOR_OPERATOR, "{\"v\":1,\"op\":\"policy.show\"}", "" },
	{ OP_NONCE, DOOR_OPERATOR, "{\"v\":1,\"op\":\"nonce\"}", "" },
	{ OP_REVIEW_LIST, DOOR_OPERATOR, "{\"v\":1,\"op\":\"review.list\",\"session\":\"s_12\",\"all\":true,\"after\":\"r_3\",\"limit\":10}",
	  " session all after limit " },
	{ OP_REVIEW_SHOW, DOOR_OPERATOR, "{\"v\":1,\"op\":\"review.show\",\"review\":\"r_56\"}", "" },
	{ OP_REVIEW_RESOLVE, DOOR_OPERATOR,
	  "{\"v\":1,\"op\":\"review.resolve\",\"review\":\"r_56\",\"action\":\"abort\",\"reason\":\"a runaway\",\"tree\":true," SIGNED "}", " reason tree " },
	{ OP_SESSION_ABORT, DOOR_OPERATOR, "{\"v\":1,\"op\":\"session.abort\",\"session\":\"s_12\",\"reason\":\"a runaway\",\"tree\":true," SIGNED "}",
	  " reason tree " },
	{ OP_BREAKER_RESET, DOOR_OPERATOR,
	  "{\"v\":1,\"op\":\"breaker.reset\",\"breaker\":\"web\",\"session\":\"s_12\",\"owner\":\"local\",\"tool\":\"page.fetch\",\"reason\":\"mended\"," SIGNED "}",
	  " session owner tool reason " },
	{ OP_RUN, DOOR_WATCH,
	  "{\"v\":1,\"op\":\"run\",\"agent\":\"local\",\"root\":\"/srv\",\"labels\":{\"run\":\"42\"},\"limits\":{\"money\":\"2\",\"tokens\":5,\"calls\":6,"
	  "\"time\":\"1h\"},\"allow_degraded\":true}",
	  " root labels labels.run limits limits.money limits.tokens limits.calls limits.time allow_degraded " },
	{ OP_ATTACH, DOOR_WATCH, "{\"v\":1,\"op\":\"attach\",\"session\":\"s_12\",\"token\":\"" TOKEN "\"}", "" },
	{ OP_REJOIN, DOOR_WATCH, "{\"v\":1,\"op\":\"rejoin\",\"session\":\"s_12\",\"token\":\"" TOKEN "\"}", "" },
	{ OP_EXITED, DOOR_WATCH, "{\"v\":1,\"op\":\"exited\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"status\":3}", "" },
	{ OP_POLICY_RELOAD, DOOR_OPERATOR, "{\"v\":1,\"op\":\"policy.reload\"," SIGNED "}", "" },
};

enum how { PUT, DROP, TWICE };
struct spoil {
	const char *path; /* of the member to spoil */
	enum how how;
	struct str raw; /* PUT: instead of its value */
};

/* The object again, with one member spoiled. here: its own dotted path and a dot, "" at the top. */
static void emit(const struct json *obj, const char *here, const struct spoil *s, struct buf *out)
{
	char path[128];

	buf_putc(out, '{');
	for (void *it = json_iter(obj); it; it = json_iter_next(obj, it)) {
		const struct json *v = json_iter_value(it);
		bool hit;

		(void)snprintf(path, sizeof(path), "%s%.*s", here, STR_ARG(json_iter_key(it)));
		hit = strcmp(path, s->path) == 0;
		if (hit && s->how == DROP)
			continue;
		for (int times = hit && s->how == TWICE ? 2 : 1; times; times--) {
			if (out->p[out->n - 1] != '{')
				buf_putc(out, ',');
			buf_json(out, json_iter_key(it));
			buf_putc(out, ':');
			(void)snprintf(path, sizeof(path), "%s%.*s.", here, STR_ARG(json_iter_key(it)));
			if (hit && s->how == PUT)
				buf_str_add(out, s->raw);
			else if (json_kind(v) == JSON_KIND_OBJECT)
				emit(v, path, s, out);
			else
				canon_json(v, NULL, 0, out);
		}
	}
	buf_putc(out, '}');
}

/* The path itself, or something inside it; the field in the error is cut at its size. */
static bool names(const char *field, const char *path)
{
	size_t n = strlen(path);

	return strncmp(field, path, n) == 0 && (field[n] == '\0' || field[n] == '.');
}

static bool listed(const char *list, const char *path)
{
	char word[130];

	(void)snprintf(word, sizeof(word), " %s ", path);
	return strstr(list, word) != NULL;
}

static void expect(const struct sample *s, const struct json *doc, const struct spoil *how, bool ok, const char *what)
{
	struct buf out = BUF_MAX(2 << 20);
	struct pawl_error err;
	struct request rq;
	enum wire_op op;
	int got;

	emit(doc, "", how, &out);
	assert_true(buf_ok(&out));
	got = parse(buf_str(&out), s->door, &rq, &op, &err);
	if (ok != (got == 0))
		fail_msg("%s %s %s: %s", wire_op_name(s->op), how->path, what, got ? err.msg : "taken");
	if (!ok && (got != PAWL_E_MALFORMED || !names(err.field, how->path)))
		fail_msg("%s %s %s: names \"%s\" (%s)", wire_op_name(s->op), how->path, what, err.field, err.msg);
	if (ok)
		assert_int_equal(op, s->op);
	if (got == 0)
		request_done(&rq);
	buf_done(&out);
}

#define DEEP "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
static const struct {
	const char *what;
	struct str raw;
} puts_[] = {
	{ "true", { "true", 4 } },
	{ "false", { "false", 5 } },
	{ "a list", { "[]", 2 } },
	{ "a list of itself", { "[{}]", 4 } },
	{ "a fraction", { "1.5", 3 } },
	{ "an exponent", { "1e2", 3 } },
	{ "negative", { "-1", 2 } },
	{ "minus zero point zero", { "-0.0", 4 } },
	{ "NaN", { "NaN", 3 } },
	{ "nan as text", { "\"NaN\"", 5 } },
	{ "Infinity", { "Infinity", 8 } },
	{ "beyond a double", { "1e309", 5 } },
	{ "beyond int64", { "9223372036854775808", 19 } },
	{ "far beyond int64", { "123456789012345678901234567890", 30 } },
	{ "beyond 2^53", { "9007199254740992", 16 } },
	{ "empty text", { "\"\"", 2 } },
	{ "a newline", { "\"a\\nb\"", 6 } },
	{ "an escaped NUL", { "\"a\\u0000b\"", 10 } },
	{ "a raw NUL", { "\"a\0b\"", 5 } },
	{ "a raw newline", { "\"a\nb\"", 5 } },
	{ "not UTF-8", { "\"a\xff\"", 4 } },
	{ "an overlong form", { "\"\xc0\x80\"", 4 } },
	{ "a surrogate in UTF-8", { "\"\xed\xa0\x80\"", 5 } },
	{ "half a pair", { "\"\\ud83d\"", 8 } },
	{ "too deep", { DEEP, sizeof(DEEP) - 1 } },
	{ "no value", { "", 0 } },
	{ "a bare word", { "yes", 3 } },
};

/* What is no fault in one place or another: the rest of the table is refused everywhere. */
static bool is_fine(const char *path, const char *what)
{
	static const struct {
		const char *path, *what;
	} rows[] = {
		{ "args.url", "true" }, { "args.url", "false" }, { "args.url", "a list" }, { "args.url", "a list of itself" },
		{ "args.url", "a fraction" }, { "args.url", "an exponent" }, { "args.url", "negative" }, { "args.url", "minus zero point zero" },
		{ "args.url", "nan as text" }, { "args.url", "beyond 2^53" }, { "args.url", "empty text" }, { "args.url", "a newline" },
		{ "agent", "nan as text" }, { "agent_token", "nan as text" }, { "call", "nan as text" }, { "model", "nan as text" },
		{ "error.kind", "nan as text" }, { "labels.run", "nan as text" }, { "labels.run", "empty text" },
		{ "tool", "nan as text" }, /* a tool may be called nan */
		{ "operator", "nan as text" }, { "owner", "nan as text" }, { "breaker", "nan as text" }, { "reason", "nan as text" },
		{ "reason", "empty text" }, { "all", "true" }, { "all", "false" }, { "tree", "true" }, { "tree", "false" }, { "allow_degraded", "true" }, { "allow_degraded", "false" },
	};

	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (strcmp(rows[i].path, path) == 0 && strcmp(rows[i].what, what) == 0)
			return true;
	return false;
}

static void spoil_member(const struct sample *s, const struct json *doc, const char *path, const struct json *v, const char *parent)
{
	static char big[9000];
	bool may = listed(s->optional, path), any = strcmp(path, "args.url") == 0;
	struct spoil how = { .path = path, .how = DROP };

	expect(s, doc, &how, may, "left out");
	how.how = TWICE;
	expect(s, doc, &how, false, "twice");
	how = (struct spoil){ path, PUT, STR("null") };
	expect(s, doc, &how, may && (any || strcmp(parent, "labels.") != 0) && strcmp(parent, "cost.tokens.") != 0, "null");
	for (size_t i = 0; i < PAWL_LEN(puts_); i++) {
		how.raw = puts_[i].raw;
		expect(s, doc, &how, is_fine(path, puts_[i].what), puts_[i].what);
	}
	if (json_kind(v) != JSON_KIND_OBJECT) {
		how.raw = STR("{\"x\":1}");
		expect(s, doc, &how, any || strcmp(path, "estimate.tokens") == 0, "an object");
	}
	if (json_kind(v) != JSON_KIND_STRING) {
		how.raw = STR("\"1\"");
		expect(s, doc, &how, false, "a text");
	}
	memset(big, '9', sizeof(big)); /* a text of digits: no name, amount, id, digest or path is that long */
	big[0] = big[sizeof(big) - 1] = '"';
	how.raw = (struct str){ big, sizeof(big) };
	expect(s, doc, &how, any, "too long");
	big[1] = '/';
	expect(s, doc, &how, any, "too long a path");
}

static void spoil_all(const struct sample *s, const struct json *doc, const struct json *obj, const char *here, size_t *n)
{
	char path[128];

	for (void *it = json_iter(obj); it; it = json_iter_next(obj, it)) {
		const struct json *v = json_iter_value(it);

		(void)snprintf(path, sizeof(path), "%s%.*s", here, STR_ARG(json_iter_key(it)));
		/* of an llm call without kind the model is at fault, of a child without parent the token, and the other way round */
		if ((strcmp(path, "kind") != 0 && strncmp(path, "parent", 6) != 0) || listed(s->optional, path)) {
			spoil_member(s, doc, path, v, here);
			(*n)++;
		}
		if (json_kind(v) == JSON_KIND_OBJECT) {
			(void)snprintf(path, sizeof(path), "%s%.*s.", here, STR_ARG(json_iter_key(it)));
			spoil_all(s, doc, v, path, n);
		}
	}
}

static void test_every_field_spoiled_B07_S9_U14(void **state)
{
	size_t fields = 0;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(samples); i++) {
		const struct sample *s = &samples[i];
		struct spoil none = { .path = "-" };
		struct json *doc;

		assert_int_equal(json_parse(str_of(s->text), PAWL_MAX_DEPTH, &doc, NULL), 0);
		expect(s, doc, &none, true, "as it is");
		spoil_all(s, doc, doc, "", &fields);
		json_free(doc);
	}
	assert_int_equal(fields, 182); /* a field added to a table must be added to its sample */
}

/* ---- what a good request yields ---- */

static void check_decide(const struct request *rq)
{
	uint8_t token[32], client[16] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };

	memset(token, 0xab, sizeof(token));
	assert_int_equal(rq->session, 12);
	assert_memory_equal(rq->token, token, 32);
	assert_memory_equal(rq->call.client, client, 16);
	assert_true(str_is(rq->call.call, "c-17") && str_is(rq->call.tool, "page.fetch") && !rq->call.model.p);
	assert_int_equal(rq->call.kind, CALL_HTTP);
	assert_true(str_is(json_string(json_get(rq->call.args, "url")), "docs/a.html"));
	assert_true(rq->call.has_money && rq->call.has_tokens && rq->call.limits.has_money);
	assert_int_equal(rq->call.money, 2000000);
	assert_int_equal(rq->call.tokens, 1200);
	assert_int_equal(rq->call.limits.money, 500000000);
	assert_int_equal(rq->call.limits.repeat, 3);
	assert_int_equal(rq->call.limits.lease_ns, 30 * NS_PER_SEC);
	assert_int_equal(rq->wait_ns, rq->op == OP_DECIDE ? NS_PER_SEC : 0);
}

static void check_settle(const struct request *rq)
{
	const struct request_settle *s = &rq->settle;
	uint8_t digest[32];

	memset(digest, 0xab, sizeof(digest));
	assert_int_equal(s->decision, 34);
	assert_int_equal(s->outcome, OUTCOME_ERROR);
	assert_true(s->has_money && s->has_tokens && s->has_result && s->has_error && s->has_error_sha256);
	assert_int_equal(s->money, 1700000);
	assert_int_equal(s->tokens, 900);
	assert_memory_equal(s->result_sha256, digest, 32);
	assert_memory_equal(s->error_sha256, digest, 32);
	assert_int_equal(s->result_bytes, 4096);
	assert_true(str_is(s->error_kind, "E"));
	assert_int_equal(s->duration_ns, 1200 * NS_PER_SEC / 1000);
}

static void check_open(const struct request *rq)
{
	const struct request_open *o = &rq->open;

	assert_true(str_is(o->agent, "local") && str_is(o->agent_token, "t") && str_is(o->root, "/srv"));
	assert_true(o->parent == 0 && !o->has_parent_token && o->share_percent == 0);
	assert_true(str_is(json_string(json_get(o->labels, "run")), "42"));
	for (int u = 0; u < UNIT_COUNT; u++)
		assert_true(o->has_limit[u]);
	assert_int_equal(o->limit[UNIT_MONEY], 2 * MONEY_PER_UNIT);
	assert_int_equal(o->limit[UNIT_TOKENS], 5);
	assert_int_equal(o->limit[UNIT_CALLS], 6);
	assert_int_equal(o->limit[UNIT_TIME], 3600 * NS_PER_SEC);
}

static void check_child(const struct request_open *o)
{
	uint8_t token[32];

	memset(token, 0xab, sizeof(token));
	assert_int_equal(o->parent, 12);
	assert_true(o->has_parent_token);
	assert_memory_equal(o->parent_token, token, 32);
	assert_int_equal(o->share_percent, 25);
	assert_false(o->has_limit[UNIT_MONEY]); /* a share is no amount */
}

static void check_signed(const struct request *rq)
{
	const struct request_operator *by = &rq->by;
	uint8_t bytes[64];

	memset(bytes, 0xab, sizeof(bytes));
	assert_true(str_is(by->operator, "ann"));
	assert_memory_equal(by->nonce, bytes, 32);
	assert_memory_equal(by->signature, bytes, 64);
	assert_int_equal(by->action, rq->op == OP_REVIEW_RESOLVE ? RESOLVE_ABORT : RESOLVE_CLOSE); /* never "resume" by default */
	assert_int_equal(rq->review, rq->op == OP_REVIEW_RESOLVE ? 56 : 0);
	assert_int_equal(by->tree, rq->op == OP_REVIEW_RESOLVE || rq->op == OP_SESSION_ABORT);
	assert_true(str_is(by->reason, rq->op == OP_POLICY_RELOAD ? "" : rq->op == OP_BREAKER_RESET ? "mended" : "a runaway"));
	assert_int_equal(rq->session, rq->op == OP_SESSION_ABORT || rq->op == OP_BREAKER_RESET ? 12 : 0);
	if (rq->op == OP_BREAKER_RESET)
		assert_true(str_is(by->breaker, "web") && str_is(by->owner, "local") && str_is(by->tool, "page.fetch"));
}

static void check_reviews(const struct request *rq)
{
	if (rq->op == OP_CLAIM || rq->op == OP_REVIEW_WAIT || rq->op == OP_REVIEW_SHOW)
		assert_int_equal(rq->review, 56);
	if (rq->op == OP_REVIEW_WAIT)
		assert_true(rq->session == 12 && rq->wait_ns == 30 * NS_PER_SEC);
	if (rq->op == OP_REVIEW_LIST)
		assert_true(rq->session == 12 && rq->by.all && rq->after == 3 && rq->list_limit == 10);
	if (wire_op_signed(rq->op))
		check_signed(rq);
	else
		assert_null(rq->by.operator.p);
}

static void test_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(samples); i++) {
		struct pawl_error err;
		struct request rq;
		enum wire_op op;

		assert_int_equal(parse(str_of(samples[i].text), samples[i].door, &rq, &op, &err), 0);
		assert_int_equal(op, samples[i].op);
		if (op == OP_DECIDE && rq.call.kind == CALL_LLM)
			assert_true(str_is(rq.call.model, "gpt-5"));
		else if (op == OP_DECIDE || op == OP_CLAIM)
			check_decide(&rq);
		check_reviews(&rq);
		if (op == OP_SETTLE)
			check_settle(&rq);
		if (op == OP_SESSION_OPEN && rq.open.parent)
			check_child(&rq.open);
		else if (op == OP_SESSION_OPEN)
			check_open(&rq);
		if (op == OP_SESSION_LIST) {
			assert_int_equal(rq.after, 3);
			assert_int_equal(rq.list_limit, 10);
		}
		request_done(&rq);
		request_done(&rq); /* twice is harmless */
	}
	request_done(NULL);
}

/* What is absent or null has its default, and an object that is absent is not half there. */
static void test_defaults(void **state)
{
	static const char decide[] = "{\"v\":1,\"op\":\"decide\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT
				     "\",\"call\":\"c\",\"tool\":\"t\",\"args\":{},\"estimate\":{\"money\":null,\"tokens\":{}},\"limits\":null}";
	static const char settle[] = "{\"v\":1,\"op\":\"settle\",\"session\":\"s_12\",\"token\":\"" TOKEN
				     "\",\"decision\":\"d_1\",\"outcome\":\"ok\",\"result\":null,\"error\":null,\"duration\":null}";
	static const char list[] = "{\"v\":1,\"op\":\"session.list\"}";
	struct pawl_error err;
	struct request rq;
	enum wire_op op;

	(void)state;
	assert_int_equal(parse(STR(decide), DOOR_AGENT, &rq, &op, &err), 0);
	assert_int_equal(rq.call.kind, CALL_TOOL);
	assert_null(rq.call.model.p);
	assert_false(rq.call.has_money || rq.call.limits.has_money);
	assert_true(rq.call.has_tokens);
	assert_int_equal(rq.call.tokens + rq.call.limits.repeat + rq.call.limits.lease_ns + rq.wait_ns, 0);
	request_done(&rq);
	assert_int_equal(parse(STR(settle), DOOR_AGENT, &rq, &op, &err), 0);
	assert_false(rq.settle.has_money || rq.settle.has_tokens || rq.settle.has_result || rq.settle.has_error);
	assert_int_equal(rq.settle.duration_ns, -1);
	request_done(&rq);
	assert_int_equal(parse(STR(list), DOOR_OPERATOR, &rq, &op, &err), 0);
	assert_int_equal(rq.after, 0);
	assert_int_equal(rq.list_limit, 100);
	request_done(&rq);
}

/* ---- what an operator signed ---- */

#define HEX_32 "efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef"
static const struct {
	const char *name, *text, *want; /* want: behind the first line; NULL: nothing to sign */
	enum wire_door door;
} signed_rows[] = {
	{ "sorted, without blanks, less the signature",
	  " {\"op\": \"policy.reload\", \"signature\":\"" TOKEN TOKEN "\",\"operator\":\"ann\", \"v\": 1,\"nonce\":\"" HEX_32 "\"}\n",
	  "{\"nonce\":\"" HEX_32 "\",\"op\":\"policy.reload\",\"operator\":\"ann\",\"v\":1}", DOOR_OPERATOR },
	{ "every member, as it was sent",
	  "{\"v\":1,\"op\":\"review.resolve\",\"review\":\"r_56\",\"action\":\"abort\",\"reason\":\"\\u006eo \\u2028\\\"\",\"tree\":true,\"operator\":\"ann\",\"nonce\":\"" HEX_32
	  "\",\"signature\":\"" TOKEN TOKEN "\"}",
	  "{\"action\":\"abort\",\"nonce\":\"" HEX_32 "\",\"op\":\"review.resolve\",\"operator\":\"ann\",\"reason\":\"no \xe2\x80\xa8\\\"\",\"review\":\"r_56\","
	  "\"tree\":true,\"v\":1}",
	  DOOR_OPERATOR },
	{ "what is null is said too",
	  "{\"v\":1,\"op\":\"session.abort\",\"session\":\"s_12\",\"reason\":null,\"operator\":\"ann\",\"nonce\":\"" HEX_32 "\",\"signature\":\"" TOKEN TOKEN "\"}",
	  "{\"nonce\":\"" HEX_32 "\",\"op\":\"session.abort\",\"operator\":\"ann\",\"reason\":null,\"session\":\"s_12\",\"v\":1}", DOOR_OPERATOR },
	{ "a text that names the member stays",
	  "{\"v\":1,\"op\":\"breaker.reset\",\"breaker\":\"signature\",\"reason\":\"signature\",\"operator\":\"signature\",\"nonce\":\"" HEX_32 "\",\"signature\":\"" TOKEN
	  TOKEN "\"}",
	  "{\"breaker\":\"signature\",\"nonce\":\"" HEX_32 "\",\"op\":\"breaker.reset\",\"operator\":\"signature\",\"reason\":\"signature\",\"v\":1}", DOOR_OPERATOR },
	{ "reading is not signed", "{\"v\":1,\"op\":\"review.list\"}", NULL, DOOR_OPERATOR },
	{ "an agent signs nothing", "{\"v\":1,\"op\":\"hello\"}", NULL, DOOR_AGENT },
};

static void test_signed_bytes(void **state)
{
	static const char first[] = "pawl-operator/v1\n";

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(signed_rows); i++) {
		struct buf out = BUF_MAX(1 << 16);
		const char *want = signed_rows[i].want;
		struct pawl_error err;
		struct request rq;
		enum wire_op op;

		if (parse(str_of(signed_rows[i].text), signed_rows[i].door, &rq, &op, &err) != 0)
			fail_msg("%s: %s: %s", signed_rows[i].name, err.field, err.msg);
		assert_int_equal(wire_op_signed(op), want != NULL);
		wire_signed_bytes(&rq, &out);
		if (buf_ok(&out) != (want != NULL))
			fail_msg("%s: signed or not", signed_rows[i].name);
		if (want && (out.n != strlen(first) + strlen(want) || memcmp(out.p, first, strlen(first)) != 0 ||
			     memcmp(out.p + strlen(first), want, strlen(want)) != 0))
			fail_msg("%s:\n%.*s\n%s%s", signed_rows[i].name, STR_ARG(buf_str(&out)), first, want);
		request_done(&rq);
		buf_done(&out);
	}
}

/* Two requests that differ anywhere but in the signature never have the same bytes: nothing can be moved from one to another. */
static void test_signed_bytes_tell_apart(void **state)
{
	static const char *const rows[] = {
		"\"op\":\"review.resolve\",\"review\":\"r_5\",\"action\":\"resume\"",
		"\"op\":\"review.resolve\",\"review\":\"r_6\",\"action\":\"resume\"",
		"\"op\":\"review.resolve\",\"review\":\"r_5\",\"action\":\"skip\"",
		"\"op\":\"review.resolve\",\"review\":\"r_5\",\"action\":\"abort\"",
		"\"op\":\"review.resolve\",\"review\":\"r_5\",\"action\":\"abort\",\"tree\":true",
		"\"op\":\"review.resolve\",\"review\":\"r_5\",\"action\":\"resume\",\"reason\":\"x\"",
		"\"op\":\"session.abort\",\"session\":\"s_5\"",
		"\"op\":\"session.abort\",\"session\":\"s_5\",\"tree\":true",
		"\"op\":\"breaker.reset\",\"breaker\":\"s_5\"",
		"\"op\":\"breaker.reset\",\"breaker\":\"s_5\",\"tool\":\"t\"",
		"\"op\":\"policy.reload\"",
	};
	struct buf seen[PAWL_LEN(rows)];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		char text[1024];
		struct pawl_error err;
		struct request rq;
		enum wire_op op;
		int n = snprintf(text, sizeof(text), "{\"v\":1,%s," SIGNED "}", rows[i]);

		assert_int_equal(parse((struct str){ text, (size_t)n }, DOOR_OPERATOR, &rq, &op, &err), 0);
		buf_init(&seen[i], 1 << 16);
		wire_signed_bytes(&rq, &seen[i]);
		assert_true(buf_ok(&seen[i]));
		request_done(&rq);
		for (size_t k = 0; k < i; k++)
			assert_false(str_eq(buf_str(&seen[k]), buf_str(&seen[i])));
	}
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		buf_done(&seen[i]);
}

/* An estimate is rounded up, never down: a price below a nano-unit is not free. */
static void test_rounding(void **state)
{
	static const char decide[] = "{\"v\":1,\"op\":\"decide\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT
				     "\",\"call\":\"c\",\"tool\":\"t\",\"args\":{},\"estimate\":{\"money\":\"0.0000000001\","
				     "\"tokens\":{\"input\":900,\"output\":210}}}";
	struct pawl_error err;
	struct request rq;
	enum wire_op op;

	(void)state;
	assert_int_equal(parse(STR(decide), DOOR_AGENT, &rq, &op, &err), 0);
	assert_int_equal(rq.call.money, 1);
	assert_int_equal(rq.call.tokens, 1110);
	request_done(&rq);
}

/* The op is known to the error reply as soon as it could be read. */
static void test_op_of_refused(void **state)
{
	static const struct {
		const char *text;
		enum wire_op op;
	} rows[] = {
		{ "{\"v\":1,\"op\":\"decide\"}", OP_DECIDE },
		{ "{\"v\":2,\"op\":\"decide\"}", OP_DECIDE },
		{ "{\"op\":\"settle\",\"session\":7}", OP_SETTLE },
		{ "{\"v\":1,\"op\":\"status\"}", OP_NONE },
		{ "{\"v\":1,\"op\":\"nonsense\"}", OP_NONE },
		{ "{\"v\":1,\"op\":\"decide\",\"op\":\"decide\"}", OP_NONE },
		{ "[", OP_NONE },
		{ "", OP_NONE },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct pawl_error err;
		struct request rq;
		enum wire_op op = OP_COUNT;

		assert_int_equal(parse(str_of(rows[i].text), DOOR_AGENT, &rq, &op, &err), PAWL_E_MALFORMED);
		if (op != rows[i].op)
			fail_msg("%s: op %d", rows[i].text, op);
	}
	for (enum wire_op op = OP_NONE + 1; op < OP_COUNT; op++)
		assert_non_null(wire_op_name(op));
	assert_null(wire_op_name(OP_NONE));
	assert_null(wire_op_name(OP_COUNT));
}

/* A peer's text in our words: quoted, cut, in plain ASCII. */
static void test_messages(void **state)
{
	static const struct {
		const char *text, *field, *part;
	} rows[] = {
		{ "{\"v\":1,\"op\":\"x\\u001b[2J\\n\"}", "op", "\"x\\u{1b}[2J\\u{a}\"" },
		{ "{\"v\":1,\"op\":\"web_s\xd0\xb5" "arch\"}", "op", "\"web_s\\u{435}arch\"" },
		{ "{\"v\":1,\"op\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}", "op", "aaa...\"" },
		{ "{\"v\":1,\"op\":\"hello\",\"\\n\xf0\x9d\x84\x9e\\\"\":1}", "\\u{a}\\u{1d11e}\\\"", "unknown field" },
		{ "{\"v\":1,\"op\":\"decide\",\"token\":\"secret-secret\"}", "token", "must be 64 hexadecimal digits, not 13 bytes" },
		{ "{\"v\":1,\"op\":\"decide\",\"estimate\":{\"money\":0.5}}", "estimate.money", "decimal text such as \"0.25\", not a number with decimals" },
		{ "{\"v\":1,\"op\":\"decide\",\"estimate\":{\"money\":\"1e400\"}}", "estimate.money", "not a decimal number: \"1e400\"" },
		{ "{\"v\":1,\"op\":\"settle\",\"outcome\":\"won\"}", "outcome", "must be one of ok, error, cancelled, not_run, not \"won\"" },
		{ "{\"v\":1,\"op\":\"decide\",\"limits\":{\"lease\":\"25h\"}}", "limits.lease", "must be at most 1d, not \"25h\"" },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct pawl_error err;
		struct request rq;
		enum wire_op op;

		assert_int_equal(parse(str_of(rows[i].text), DOOR_AGENT, &rq, &op, &err), PAWL_E_MALFORMED);
		if (strcmp(err.field, rows[i].field) != 0 || !strstr(err.msg, rows[i].part))
			fail_msg("%s: \"%s\": %s", rows[i].text, err.field, err.msg);
		for (const char *c = err.msg; *c; c++)
			assert_true(*c >= 0x20 && *c < 0x7f);
		assert_null(strstr(err.msg, "secret")); /* a token is not repeated, not even a wrong one */
	}
}

static void test_size(void **state)
{
	static const char head[] = "{\"v\":1,\"op\":\"decide\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT
				   "\",\"call\":\"c\",\"tool\":\"t\",\"args\":{\"x\":\"";
	size_t n = PAWL_MAX_MESSAGE;
	char *text = malloc(n + 1);
	struct pawl_error err;
	struct request rq;
	enum wire_op op;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', n + 1);
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + n - 3, "\"}}", 3);
	text[n] = ' ';
	assert_int_equal(parse((struct str){ text, n }, DOOR_AGENT, &rq, &op, &err), 0);
	request_done(&rq);
	assert_int_equal(parse((struct str){ text, n + 1 }, DOOR_AGENT, &rq, &op, &err), PAWL_E_MALFORMED);
	assert_string_equal(err.field, "");
	free(text);
}

/* Every allocation fails once: nothing is handed out, nothing leaks, and the words say why. Above all no shorter text: jansson drops a byte
 * when its buffer cannot grow and goes on, so that other arguments would be judged than were sent. */
static void test_no_memory(void **state)
{
	long n = 1;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(samples); i++)
		for (n = 1;; n++) {
			struct pawl_error err;
			struct request rq;
			enum wire_op op;
			int got;

			fail_malloc_after(n);
			got = parse(str_of(samples[i].text), samples[i].door, &rq, &op, &err);
			if (got == 0)
				request_done(&rq);
			if (!fail_malloc_stop()) {
				assert_int_equal(got, 0);
				break;
			}
			if (got != PAWL_E_NOMEM)
				fail_msg("%s, allocation %ld: %s", wire_op_name(samples[i].op), n, err.msg);
		}
	assert_true(n > 1);
}

/* ---- speed: said, not judged (run with PAWL_BENCH=1) ---- */

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_speed(void **state)
{
	static const char decide[] = "{\"v\":1,\"op\":\"decide\",\"session\":\"s_12\",\"token\":\"" TOKEN "\",\"client\":\"" CLIENT
				     "\",\"call\":\"c-17\",\"kind\":\"tool\",\"tool\":\"page.fetch\",\"args\":{\"url\":\"docs/a.html\",\"depth\":3,"
				     "\"headers\":{\"accept\":\"text/html\",\"user-agent\":\"an agent of some kind\"},\"note\":\"lorem ipsum dolor sit "
				     "amet consetetur sadipscing elitr sed diam nonumy eirmod tempor invidunt ut labore et\"},\"estimate\":{\"money\":"
				     "\"0.002\",\"tokens\":1200},\"limits\":{\"money\":\"0.50\",\"repeat\":3,\"lease\":\"30s\"},\"wait\":\"0s\"}";
	struct json *doc;
	const int n = 100000;
	double t0, t1, t2;

	(void)state;
	if (!getenv("PAWL_BENCH"))
		return;
	t0 = seconds();
	for (int i = 0; i < n; i++) {
		struct request rq;
		enum wire_op op;

		assert_int_equal(wire_parse(STR(decide), DOOR_AGENT, USD, &rq, &op, NULL), 0);
		request_done(&rq);
	}
	t1 = seconds();
	for (int i = 0; i < n; i++) {
		assert_int_equal(json_parse(STR(decide), PAWL_MAX_DEPTH, &doc, NULL), 0);
		json_free(doc);
	}
	t2 = seconds();
	print_message("a decide of %zu bytes: %.2f us, of which JSON %.2f us\n", sizeof(decide) - 1, (t1 - t0) / n * 1e6, (t2 - t1) / n * 1e6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),	      cmocka_unit_test(test_every_field_spoiled_B07_S9_U14),
		cmocka_unit_test(test_values),	      cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_rounding),      cmocka_unit_test(test_op_of_refused),
		cmocka_unit_test(test_messages),      cmocka_unit_test(test_size),
		cmocka_unit_test(test_signed_bytes),  cmocka_unit_test(test_signed_bytes_tell_apart),
		cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
