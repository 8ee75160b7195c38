/* tests/support/policy_file.h - loading a policy in a test: from text or from a file of tests/vectors/policy. Tests run
 * from the top of the repository. Includes what cmocka wants to see first. */
#ifndef TEST_POLICY_FILE_H
#define TEST_POLICY_FILE_H
#include "daemon/base/buf.h"
#include "pawl/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define VECTORS "tests/vectors/policy/"

struct loaded {
	struct policy *pol;
	struct policy_report rep;
	struct pawl_error err;
	int r;
};

static inline struct loaded load(struct str text)
{
	struct loaded got = { .pol = NULL };

	got.r = policy_load(text, "t.yaml", &got.pol, &got.rep, &got.err);
	assert_true((got.r == 0) == (got.pol != NULL));
	assert_true((got.r == PAWL_E_POLICY) == (got.rep.errors > 0));
	return got;
}

static inline void unload(struct loaded *got)
{
	policy_free(got->pol);
	policy_report_done(&got->rep);
}

/* The caller frees p. */
static inline struct str read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct buf b = BUF_MAX(4u << 20);
	char piece[4096];
	struct str s;
	size_t n;

	if (!f)
		fail_msg("%s cannot be read: tests run from the top of the repository", path);
	while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
		buf_add(&b, piece, n);
	(void)fclose(f);
	s.p = buf_take(&b, &s.n);
	return s;
}

static inline void drop(struct str s)
{
	free((char *)(uintptr_t)s.p);
}

#endif
