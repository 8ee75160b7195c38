/* policy/under.h - is a path below a folder? The words of it (lexical, pure) and what the resolver says of it. */
#ifndef PAWL_UNDER_H
#define PAWL_UNDER_H
#include "policy/condition.h"

#define UNDER_PATH_BYTES 4096 /* with the NUL; the kernel's PATH_MAX */

/* An absolute path without dots and doubled or trailing slashes, NUL-terminated. A relative path lies below root; a way
 * up from "/" stays there. Links are not looked at. PAWL_E_MALFORMED: empty, a NUL inside, too long, or relative with
 * no absolute root. */
PAWL_MUST_USE int path_clean(struct str root, struct str path, char out[static UNDER_PATH_BYTES], struct str *ret);
/* Both cleaned. A folder lies in itself. */
bool path_within(struct str dir, struct str path);

/* Answers of the resolver within one call, so that a path is asked for once. Real paths lie in subjects.scratch. */
struct under_memo {
	struct under_row {
		struct str path; /* as given; borrowed from the request or the policy */
		bool resolved;
		size_t at, n; /* the real path's place in scratch */
	} rows[24];
	size_t n;
};

/* subject: the field's name, noted in s->paths. YES when path lies below dir by its words and in truth, NO when by
 * neither. FAILED: the two disagree (a link leads in or out, whichever way), something is not resolved, outside the
 * session's root, across a mount, or there is no room to note the subject. Needs s->res and s->memo; without them
 * FAILED. */
enum truth under_eval(const struct subjects *s, struct str subject, struct str dir, struct str path);
#endif
