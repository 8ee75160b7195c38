/* daemon/cli/review.h - verbs by which a person sees what waits and answers it. Signed orders go through
 * daemon/cli/sign.h. argv[0] is the verb. Exit status: 0 done, 1 refused or failed, 2 usage, 3 already answered. */
#ifndef PAWL_CLI_REVIEW_H
#define PAWL_CLI_REVIEW_H
#include "daemon/cli/ask.h"
#include "daemon/cli/card.h"

int cli_reviews(int argc, char **argv); /* reviews */
int cli_review(int argc, char **argv);  /* review show */
int cli_answer(int argc, char **argv);  /* resume, skip, abort */
int cli_session(int argc, char **argv); /* session abort */
int cli_breaker(int argc, char **argv); /* breaker reset */
int cli_reload(int argc, char **argv);  /* reload */

/* A page of review.list after card `after`. *ret: the reply; the caller frees it. */
PAWL_MUST_USE int review_page(const char *socket, bool all, uint64_t after, struct json **ret, struct pawl_error *err);
PAWL_MUST_USE int review_fetch(const char *socket, uint64_t id, struct buf *raw, struct json **ret,
			       struct pawl_error *err);
/* The answer to a card. action: resume, skip, abort. shown: of the card as the person saw it; NULL: as it stands. */
PAWL_MUST_USE int review_resolve(const char *socket, const struct signer *who, uint64_t id, const char *action,
				 struct str reason, bool tree, const struct card_amounts *shown, struct json **ret,
				 struct pawl_error *err);
#endif
