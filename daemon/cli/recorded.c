/* daemon/cli/recorded.c - see recorded.h. Owns the reader. */
#include "daemon/cli/recorded.h"

#include "daemon/cli/lines.h"
#include "daemon/cli/log.h"

#include <stdio.h>

static void complain(struct recorded *rc, const struct pawl_error *err)
{
	if (!rc->told)
		(void)lines_fail(rc->verb, err);
	rc->told = true;
}

void recorded_open(struct recorded *rc, const char *verb, const char *dir)
{
	struct pawl_error err = { .code = PAWL_OK };
	char log[4096], path[4200];

	*rc = (struct recorded){ .verb = verb };
	if (log_folder(dir, log, &err) < 0)
		return; /* whoever reads the log says so */
	(void)snprintf(path, sizeof(path), "%s/../state/private.sqlite", log);
	if (private_reader_open(path, &rc->reader, &err) < 0)
		complain(rc, &err);
}

void recorded_close(struct recorded *rc)
{
	private_reader_close(rc->reader);
	rc->reader = NULL;
}

bool recorded_get(struct recorded *rc, uint64_t seq, struct buf *out)
{
	struct pawl_error err = { .code = PAWL_OK };
	int r = private_record(rc->reader, seq, out, &err);

	if (r < 0)
		complain(rc, &err);
	return r == 1;
}
