/* tests/support/ask_facts.h - one call asked of facts_of(), written as a line of a table. */
#ifndef TEST_ASK_FACTS_H
#define TEST_ASK_FACTS_H
#include "tests/support/policy_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>

static const uint8_t secret_a[32] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
				      17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 };

struct asked {
	const char *tool, *args, *call;
	enum call_kind kind;
	const char *money, *tokens;
	uint64_t session;
	const uint8_t *secret;
	struct call_limits limits;
	const struct resolver *res;
	const char *root_dir;
};

/* f->canon_args lives until the next call. */
static inline int try_facts(const struct policy *pol, const struct asked *a, struct facts *f, struct pawl_error *err)
{
	static struct buf scratch = BUF_MAX(4 << 20);
	struct request_call rq = { .call = str_of(a->call ? a->call : "c-1"),
				   .kind = a->kind,
				   .tool = str_of(a->tool),
				   .limits = a->limits,
				   .client = { 7 } };
	struct caller who = { .session = a->session ? a->session : 5,
			      .root = 5,
			      .agent = STR("local"),
			      .secret = a->secret ? a->secret : secret_a,
			      .root_dir = str_of(a->root_dir) };
	struct json *args = NULL;
	int r;

	if (json_parse(str_of(a->args ? a->args : "{}"), PAWL_MAX_DEPTH, &args, err) < 0)
		fail_msg("%s: %s", a->args, err->msg);
	rq.args = args;
	rq.has_money = a->money != NULL;
	rq.money = a->money ? (int64_t)pb_number(a->money) : 0;
	rq.has_tokens = a->tokens != NULL;
	rq.tokens = a->tokens ? strtoll(a->tokens, NULL, 10) : 0;
	r = facts_of(pol, &rq, &who, a->res, &scratch, f, err);
	json_free(args);
	return r;
}

static inline struct facts facts(const struct policy *pol, struct asked a)
{
	struct facts f;
	struct pawl_error err = { 0 };

	if (try_facts(pol, &a, &f, &err) != 0)
		fail_msg("%s %s: %s: %s", a.tool, a.args ? a.args : "{}", err.field, err.msg);
	if (!f.def)
		f.tool.p = f.folded; /* f moved */
	return f;
}
#endif
