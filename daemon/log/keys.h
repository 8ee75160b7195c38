/* daemon/log/keys.h - the only holder of secret keys: locked pages, wiped at the end. */
#ifndef PAWL_KEYS_H
#define PAWL_KEYS_H
#include "daemon/log/note.h"

struct sign_key; /* opaque, in sodium_malloc() memory, read-only after load */
/* `PRIVATE+KEY+name+id+base64` in a file that is a regular file, owned by us or root, mode & 077 == 0. PAWL_E_KEY,
 * PAWL_E_UNSAFE. Never makes a key: without one there is no log. */
PAWL_MUST_USE int sign_key_load(const char *path, struct sign_key **ret, struct pawl_error *err);
/* The same from text that is already in memory; the caller wipes it. */
PAWL_MUST_USE int sign_key_parse(struct str text, struct sign_key **ret, struct pawl_error *err);
/* Makes a fresh key. The caller writes the text (secret: wipe it) with mode 0600. */
PAWL_MUST_USE int sign_key_new(const char *name, struct sign_key **ret, struct pawl_error *err);
void sign_key_text(const struct sign_key *k,
		   struct buf *out); /* one line with its \n; sodium_memzero(out->p, out->cap) before buf_done() */
void sign_key_free(struct sign_key *k);
const struct vkey *sign_key_vkey(const struct sign_key *k);
void sign_key_sign(const struct sign_key *k, struct str text, uint8_t sig[static 64]);
/* A verifier key from a file (public: no mode is asked for), one line. PAWL_E_KEY. */
PAWL_MUST_USE int vkey_load(const char *path, struct vkey *ret, struct pawl_error *err);
#endif
