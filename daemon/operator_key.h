/* daemon/operator_key.h - who may answer: enrolled operators' public keys, and the fresh nonces that their signatures cover.
 * Owns both. Public keys only: operators' secrets never come near pawld. Must not touch policy, state or sockets. */
#ifndef PAWL_OPERATOR_KEY_H
#define PAWL_OPERATOR_KEY_H
#include "daemon/log/note.h"

#include <sys/types.h>

#define OPERATORS_MAX 64
#define OPERATOR_USED 4096		     /* signed requests in the time that a nonce is good for; more are refused */
#define OPERATOR_NONCE_NS (60 * NS_PER_SEC)  /* good for */

struct operators; /* opaque */
PAWL_MUST_USE int operators_new(struct operators **ret, struct pawl_error *err);
void operators_free(struct operators *ops);

/* Reads every NAME.vkey of the folder (a missing folder: nobody is enrolled); the files must be safe (daemon/safe.h) and
 * hold the key of that very name. On failure
 * (a file that is none) nobody is added, and only who is no longer there goes. changed() is called once a key that is new or gone, after the set is whole. */
typedef void operators_changed(void *arg, bool enrolled, struct str name, struct str vkey);
PAWL_MUST_USE int operators_load(struct operators *ops, const char *dir, gid_t own_group, operators_changed *changed, void *arg, struct pawl_error *err);
size_t operators_count(const struct operators *ops);

void operators_nonce(const struct operators *ops, int64_t now, uint8_t ret[static 32], int64_t *ret_expires);
/* The nonce is used up by the first good signature over it, and by nothing else. 0: the signature is name's, over text. PAWL_E_AUTH: unknown
 * operator, stale or unknown nonce, wrong signature, too many of them in a minute (told apart only in err->msg, for the operational log).
 * ret_vkey: borrowed until the next load. */
PAWL_MUST_USE int operators_check(struct operators *ops, struct str name, const uint8_t nonce[static 32], struct str text,
				  const uint8_t signature[static 64], int64_t now, struct str *ret_vkey, struct pawl_error *err);
#endif
