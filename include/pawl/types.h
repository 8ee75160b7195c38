/* include/pawl/types.h - words that every room uses: verdicts, bounds, borrowed text, cleanup.
 * No bodies that do work; owns nothing. */
#ifndef PAWL_TYPES_H
#define PAWL_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PAWL_VERSION "0.1.0"
#define PAWL_JUDGE_VERSION 1 /* in the start entry: replay refuses a log judged by another */

#define PAWL_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PAWL_MUST_USE __attribute__((warn_unused_result))
#define PAWL_CLEANUP(fn) __attribute__((cleanup(fn)))
#define PAWL_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* What a peer can make grow has a name and a bound here. Bytes unless said. */
#define PAWL_MAX_MESSAGE (1u << 20)	     /* a request body */
#define PAWL_MAX_WIRE (PAWL_MAX_MESSAGE + (64u << 10)) /* with its header; above it the stream closes */
#define PAWL_MAX_DEPTH 32		     /* JSON nesting */
#define PAWL_MAX_TOOL 128		     /* a tool name */
#define PAWL_MAX_ID 64			     /* rule, budget, breaker ids; agent names */
#define PAWL_MAX_CALL 128		     /* a client's call id */
#define PAWL_MAX_LABELS 16		     /* labels a session; count */
#define PAWL_MAX_TEXT 256		     /* a label, an error kind, a model name */
#define PAWL_MAX_BODY (60u << 10)	     /* an entry's JSON */
#define PAWL_MAX_NOTE 65535u		     /* a signed entry: tile/entries has 16-bit lengths */
#define PAWL_MAX_HELD 1024u		     /* answers to agents that have no entry of their own and wait for the disk */
#define PAWL_MAX_VALUE (64u << 10)	     /* a card's arguments as they are kept for people; longer ones are cut */
#define PAWL_MAX_BUDGETS 32		     /* a policy; count */
#define PAWL_MAX_DEPTH_TREE 8		     /* sessions above one another; count */
#define PAWL_MAX_LEDGERS (PAWL_MAX_BUDGETS * 4 + 8) /* ledgers one call can draw from; count */
#define PAWL_MAX_WINDOW 1000		     /* executions a loop rule looks back; count */
#define PAWL_MAX_NAMES 1024	     /* tools that a budget, a breaker or an agent's denials remember beyond a session; count */
#define PAWL_MAX_STICKS 8	     /* deny rules that one call can make stick; count */
#define PAWL_MAX_PERIOD 8	     /* the longest cycle that is looked for; executions */
#define PAWL_MAX_ASKS 8		     /* review reasons of one call; count */
#define PAWL_MAX_BREAKERS 16	     /* a policy; count */
#define PAWL_MAX_STREAK 32	     /* failures or denials in a row that a breaker counts to */
#define PAWL_MAX_ORIGIN 128
#define PAWL_MAX_CHANGES 32	     /* what one entry tells of a reload; count */
#define PAWL_CHANGE_TEXT 120	     /* one of them */

enum verdict { VERDICT_UNSET = 0 /* sent as deny */, VERDICT_ALLOW, VERDICT_REVIEW, VERDICT_DENY };
enum unit { UNIT_MONEY, UNIT_CALLS, UNIT_TOKENS, UNIT_TIME, UNIT_COUNT };
enum call_kind { CALL_TOOL, CALL_LLM, CALL_DELEGATE, CALL_HTTP, CALL_CODE, CALL_KIND_COUNT };
/* How far a denial is remembered; NEVER: the rule judges each call afresh. */
enum stick { STICK_NEVER, STICK_SESSION, STICK_TREE, STICK_AGENT, STICK_COUNT };
enum scope { SCOPE_SESSION, SCOPE_AGENT, SCOPE_TENANT, SCOPE_GLOBAL, SCOPE_COUNT };
enum outcome { OUTCOME_NONE, OUTCOME_OK, OUTCOME_ERROR, OUTCOME_CANCELLED, OUTCOME_NOT_RUN,
	       OUTCOME_EXPIRED /* ours: the lease ran out */, OUTCOME_COUNT };

#define NS_PER_SEC INT64_C(1000000000)
#define MONEY_PER_UNIT INT64_C(1000000000) /* nano-units of the policy's currency */

/* Borrowed text, not NUL-terminated unless its owner says so. {NULL, 0} is "absent". */
struct str {
	const char *p;
	size_t n;
};
#define STR(lit) ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_NONE ((struct str){ NULL, 0 })
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline struct str str_of(const char *z)
{
	return z ? (struct str){ z, strlen(z) } : STR_NONE;
}
static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *z)
{
	return str_eq(a, str_of(z));
}

static inline bool add_over(int64_t a, int64_t b, int64_t *ret)
{
	return __builtin_add_overflow(a, b, ret);
}
/* Sums that overflow stay at the end they ran into: a budget that saturates denies. */
static inline int64_t add_sat(int64_t a, int64_t b)
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

#endif
