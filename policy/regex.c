/* policy/regex.c - the only file with <pcre2.h>. Owns compiled expressions and the working memory each one matches in.
 * No JIT: the daemon maps no page that is both writable and executable. An agent chooses the text, so time, depth and
 * memory of a match are bounded. PCRE2's own limit starts anew at each place where a match could begin, which still leaves the
 * square of the text's length: an automatic callout before every item adds up how far the match has moved, over all of
 * them; a limit that is hit, and text that is not UTF-8, is an error, never "no match". One
 * expression is used by one thread at a time: its match data is kept, so that a match allocates nothing. */
#include "policy/condition.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#define REGEX_MAX_TEXT    1024
#define REGEX_MAX_NEST    32
#define REGEX_MATCH_LIMIT 100000 /* backtracking steps from one place */
#define REGEX_MOVES       1000000 /* bytes moved over in the whole match, and 16 more for each byte of the text */
#define REGEX_DEPTH_LIMIT 10000
#define REGEX_HEAP_KIB    1024

struct moves {
	PCRE2_SIZE last;
	uint64_t spent, budget;
};

struct regex {
	pcre2_code *code;
	pcre2_match_context *limits;
	pcre2_match_data *data;
	struct moves *moves; /* of the match under way */
};

static int count_moves(pcre2_callout_block *at, void *arg)
{
	struct moves *m = arg;

	m->spent += 1 + (at->current_position > m->last ? at->current_position - m->last : m->last - at->current_position);
	m->last = at->current_position;
	return m->spent > m->budget ? PCRE2_ERROR_CALLOUT : 0;
}

static int compile_code(struct str text, pcre2_code **ret, struct pawl_error *err)
{
	pcre2_compile_context *cx = pcre2_compile_context_create(NULL);
	char why[120] = "";
	PCRE2_SIZE at = 0;
	int code = 0;

	if (!cx)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a regular expression");
	(void)pcre2_set_max_pattern_length(cx, REGEX_MAX_TEXT);
	(void)pcre2_set_parens_nest_limit(cx, REGEX_MAX_NEST);
	/* `$` is the end of the text, not also the place before a last newline: "^ls$" must not let "ls\n" through */
	*ret = pcre2_compile((PCRE2_SPTR)text.p, text.n, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY | PCRE2_AUTO_CALLOUT,
			     &code, &at, cx);
	pcre2_compile_context_free(cx);
	if (*ret)
		return 0;
	if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a regular expression");
	(void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
	return pawl_fail(err, PAWL_E_POLICY, "regular expression, at offset %zu: %s", (size_t)at, why);
}

int regex_compile(struct str text, struct regex **ret, struct pawl_error *err)
{
	struct regex *r;
	int rc;

	if (text.n == 0)
		return pawl_fail(err, PAWL_E_POLICY, "empty regular expression"); /* it would match everything */
	if (text.n > REGEX_MAX_TEXT)
		return pawl_fail(err, PAWL_E_POLICY, "regular expression of %zu bytes, at most %d", text.n,
				 REGEX_MAX_TEXT);
	r = calloc(1, sizeof(*r));
	if (!r)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a regular expression");
	rc = compile_code(text, &r->code, err);
	if (rc < 0) {
		regex_free(r);
		return rc;
	}
	r->limits = pcre2_match_context_create(NULL);
	r->data = pcre2_match_data_create(1, NULL);
	r->moves = calloc(1, sizeof(*r->moves));
	if (!r->limits || !r->data || !r->moves) {
		regex_free(r);
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a regular expression");
	}
	(void)pcre2_set_match_limit(r->limits, REGEX_MATCH_LIMIT);
	(void)pcre2_set_depth_limit(r->limits, REGEX_DEPTH_LIMIT);
	(void)pcre2_set_heap_limit(r->limits, REGEX_HEAP_KIB);
	(void)pcre2_set_callout(r->limits, count_moves, r->moves);
	*ret = r;
	return 0;
}

void regex_free(struct regex *r)
{
	if (!r)
		return;
	pcre2_match_data_free(r->data);
	pcre2_match_context_free(r->limits);
	pcre2_code_free(r->code);
	free(r->moves);
	free(r);
}

int regex_match(const struct regex *r, struct str s)
{
	/* PCRE2 checks the UTF-8 itself: one more pass over the text buys that no caller can be wrong about it. */
	int rc;

	*r->moves = (struct moves){ .budget = REGEX_MOVES + 16 * (uint64_t)s.n };
	rc = pcre2_match(r->code, (PCRE2_SPTR)(s.p ? s.p : ""), s.n, 0, 0, r->data, r->limits);

	if (rc >= 0)
		return 1;
	return rc == PCRE2_ERROR_NOMATCH ? 0 : PAWL_E_LIMIT;
}
