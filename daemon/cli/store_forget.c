/* daemon/cli/store_forget.c - `pawl store forget`: what is kept in readable form of one tree of sessions is overwritten, while no pawld runs.
 * Entries stay as they are: what they say of arguments are digests, and what the digests were made with goes too. */
#include "daemon/cli/lines.h"
#include "daemon/cli/store.h"
#include "daemon/store/private.h"
#include "pawl/exit.h"

#include <stdio.h>
#include <unistd.h>

static void show(struct lines *l, const struct json *doc)
{
	(void)line_value(l, "forgotten ", doc, "session", "");
	(void)line_value(l, ": ", doc, "rows", " rows of the private store (secret, arguments)\n");
}

int store_forget(const char *private_path, uint64_t session, bool json)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct private_store *ps = NULL;
	struct buf doc = BUF_MAX(256);
	size_t rows = 0;
	int r = access(private_path, F_OK) == 0 ? private_open(private_path, &ps, &err) : pawl_fail_errno(&err, "%s", private_path), status;

	if (r == 0)
		r = private_forget(ps, session, &rows, &err);
	private_close(ps);
	if (r == 0 && rows == 0)
		r = pawl_fail(&err, PAWL_E_MALFORMED, "nothing is kept of s_%llu; what its calls asked lies under the tree's first session",
			      (unsigned long long)session);
	if (r == 0)
		buf_printf(&doc, "{\"session\":\"s_%llu\",\"rows\":%zu}", (unsigned long long)session, rows);
	status = r == 0 ? lines_answer("store forget", &doc, json, show) : lines_fail("store forget", &err);
	buf_done(&doc);
	return r == PAWL_E_BUSY ? EXIT_BUSY : status;
}
