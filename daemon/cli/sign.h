/* daemon/cli/sign.h - requests to the operator door: plain questions, and orders that are signed over a fresh nonce.
 * Owns nothing between calls. What is sent is byte for byte what was signed, with the signature added. */
#ifndef PAWL_SIGN_H
#define PAWL_SIGN_H
#include "daemon/base/json.h"
#include "daemon/log/keys.h"

#define SIGN_PREFIX    "pawl-operator/v1\n"
#define SIGN_NONCE     64 /* hex digits */
#define SIGN_MAX_REPLY (4u << 20)

struct signer { /* borrowed: the key, and the name that it is enrolled under */
	const struct sign_key *key;
	struct str name;
};

/* Pure. request: a JSON object without operator, nonce and signature. Appends the canonical JSON with all three. */
PAWL_MUST_USE int sign_request(const struct signer *who, struct str nonce, struct str request, struct buf *out,
			       struct pawl_error *err);

/* One exchange. *ret: the reply, which carries no error; the caller frees it. raw (may be NULL) gets its text.
 * PAWL_E_CONFLICT: replay_conflict, somebody was first; PAWL_E_AUTH: unauthenticated; PAWL_E_MALFORMED: any other error
 * of pawld's, or no reply of pawld's. err->msg then quotes the reply: escape it. */
PAWL_MUST_USE int door_ask(const char *socket, struct str request, struct buf *raw, struct json **ret,
			   struct pawl_error *err);
/* The same for an order: fetches a nonce first. */
PAWL_MUST_USE int door_order(const char *socket, const struct signer *who, struct str request, struct buf *raw,
			     struct json **ret, struct pawl_error *err);
#endif
