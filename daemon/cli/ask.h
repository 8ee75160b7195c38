/* daemon/cli/ask.h - what the verbs that speak to the operator door share: options, the key in use, how a failure is
 * said. Owns the unlocked key. */
#ifndef PAWL_ASK_H
#define PAWL_ASK_H
#include "daemon/cli/card.h"
#include "daemon/cli/sign.h"

#include <stdio.h>

#define ASK_STATUS_CONFLICT 3 /* already answered */

enum ask_allowed { ASK_JSON = 1, ASK_ALL = 2, ASK_KEY = 4, ASK_REASON = 8, ASK_TREE = 16, ASK_BREAKER = 32 };
struct asking {
	const char *verb;                             /* "review show": for messages */
	const char *dir, *socket_opt, *key_file, *as; /* as said */
	struct str reason, session, owner, tool;
	bool json, all, tree;
	char **words; /* what is no option; argv was permuted */
	int n_words;
	char socket[1200]; /* resolved */
	struct sign_key *key;
	struct signer who; /* after ask_unlock() */
};

/* Options of `allowed`; --dir, --operator-socket and --help always. usage ends the help. *ret_status is set when it
 * returns false. */
bool ask_options(struct asking *a, int argc, char **argv, unsigned allowed, const char *usage, int *ret_status);
int ask_usage(FILE *out, const char *usage, int status);
/* The operator's key, with a passphrase asked for where it needs one. */
PAWL_MUST_USE int ask_unlock(struct asking *a, struct pawl_error *err);
void ask_done(struct asking *a);

/* A reason that pawld takes: UTF-8, no control byte, at most PAWL_MAX_TEXT bytes. */
bool ask_reason_ok(struct str s);
/* Wraps as wide as the terminal; pawld's time is asked once. */
void ask_view(struct asking *a, struct card_view *view);
/* "pawl VERB: …" on stderr with nothing in it that moves a cursor. Status 1, 2 for PAWL_E_USAGE, 3 for PAWL_E_CONFLICT.
 */
int ask_fail(const char *verb, const struct pawl_error *err);
int ask_print(const char *verb, struct buf *text, int status); /* to stdout; frees text */
int ask_json(const char *verb, struct str reply);              /* ASCII only */
int ask_end(const char *verb, int status);                     /* 1 when stdout could not be written */
#endif
