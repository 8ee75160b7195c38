/* daemon/cli/rejudge.h - a log's entries judged again, one after the other: the state they make, the policy in force, what came out as it
 * was written and what did not. Reads no file and checks no signature. */
#ifndef PAWL_CLI_REJUDGE_H
#define PAWL_CLI_REJUDGE_H
#include "daemon/base/buf.h"
#include "pawl/rejudge.h"

#define REJUDGE_MAX_POLICIES 64
#define REJUDGE_MAX_SKIPS 32   /* rows; what has none is counted in the last */
#define REJUDGE_MAX_SHOWN 50   /* differing entries that are kept for showing */
#define REJUDGE_MAX_FIELDS 16  /* of one of them */

struct rejudge_policy { /* one that was given; owned */
	struct policy *pol;
	char hash[65];
	const char *file; /* borrowed */
	uint64_t judged;  /* entries under it */
};

enum skip_why { SKIP_POLICY /* not given */, SKIP_JUDGE /* another version */, SKIP_LACKS };
struct rejudge_skip {
	enum skip_why why;
	char text[256]; /* the policy's hash; the version; what is missing */
	uint64_t n, first, last;
};

struct rejudging {
	struct state *st;
	struct rejudged *again;
	struct rejudge_policy policies[REJUDGE_MAX_POLICIES];
	size_t n_policies;
	struct rejudge_policy *now, *before; /* in force; NULL: not given */
	char hash[65]; /* in force */
	int64_t judge; /* version of the range */
	uint64_t entries, equal, differ, given, skipped;
	struct rejudge_skip skips[REJUDGE_MAX_SKIPS];
	size_t n_skips;
	struct buf body;  /* the entry made again */
	struct buf shown; /* JSON objects of those that differ, with commas between */
};
PAWL_MUST_USE int rejudging_init(struct rejudging *rj, struct pawl_error *err);
void rejudging_done(struct rejudging *rj);
/* pol is owned from here on, also on failure. PAWL_E_USAGE: one too many, or the same file twice. */
PAWL_MUST_USE int rejudging_policy(struct rejudging *rj, struct policy *pol, const char *file, struct pawl_error *err);
/* The next entry. A negative return: it cannot be read, or contradicts those before it (PAWL_E_TAMPERED). */
PAWL_MUST_USE int rejudging_entry(struct rejudging *rj, uint64_t seq, struct str body, struct pawl_error *err);
#endif
