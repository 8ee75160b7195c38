/* daemon/cli/recorded.h - the arguments that a policy let pawld keep (`log: {record_args: …}`), found beside a log's folder. */
#ifndef PAWL_RECORDED_H
#define PAWL_RECORDED_H
#include "daemon/store/private.h"

struct recorded {
	const char *verb;
	struct private_reader *reader; /* NULL: there is nothing to look in */
	bool told;		       /* that it cannot be read: once */
};
/* Never a failure: a log is shown without its arguments where the store is elsewhere, and with a line on stderr where it cannot be read.
 * dir: as a user gives it (log_folder). */
void recorded_open(struct recorded *rc, const char *verb, const char *dir);
void recorded_close(struct recorded *rc);
/* Appends what was recorded of entry seq; false: nothing was. It is text that an agent chose. */
bool recorded_get(struct recorded *rc, uint64_t seq, struct buf *out);
#endif
