/* daemon/cli/opkey.h - an operator's secret key as a file: sealed with a passphrase, or plain. Knows no terminal and
 * asks nobody.
 *
 *   pawl-operator-key/v1
 *   public <vkey>                         readable without the passphrase; must be the secret's own
 *   argon2id <operations> <bytes>         libsodium's crypto_pwhash, ARGON2ID13
 *   salt <base64 of 16 bytes>
 *   nonce <base64 of 24 bytes>
 *   box <base64>                          crypto_secretbox of the signer line without its \n
 *
 * Each line ends in \n. A plain file is the signer line (PRIVATE+KEY+…) alone. */
#ifndef PAWL_OPKEY_H
#define PAWL_OPKEY_H
#include "daemon/log/keys.h"

#define OPKEY_MAX      2048 /* a key file */
#define OPKEY_MAX_PASS 1024 /* a passphrase */
#define OPKEY_MAX_OPS  16 /* argon2id work that a file may ask for: a strange file must not hold or fill the machine */
#define OPKEY_MAX_MEM  (1u << 30)

/* A name under which an operator can be enrolled: [A-Za-z0-9_-][A-Za-z0-9_.-]*, at most PAWL_MAX_ID bytes. */
bool opkey_name_ok(struct str name);

/* Appends the sealed file. out may hold nothing else; its bytes are no secret. */
PAWL_MUST_USE int opkey_seal(const struct sign_key *k, struct str pass, struct buf *out, struct pawl_error *err);
/* The public half, and whether a passphrase is needed for the rest. PAWL_E_KEY: not a key file. */
PAWL_MUST_USE int opkey_public(struct str text, struct vkey *ret, bool *ret_sealed, struct pawl_error *err);
/* pass is not looked at for a plain file. PAWL_E_KEY: wrong passphrase, or a file that was changed. */
PAWL_MUST_USE int opkey_open(struct str text, struct str pass, struct sign_key **ret, struct pawl_error *err);
/* The bytes of a regular file that is ours or root's, mode & 077 == 0 (PAWL_E_UNSAFE). The caller wipes out. */
PAWL_MUST_USE int opkey_read(const char *path, char out[static OPKEY_MAX], size_t *ret_n, struct pawl_error *err);
/* $PAWL_KEY, else $XDG_CONFIG_HOME/pawl/operator.key, else ~/.config/pawl/operator.key */
PAWL_MUST_USE int opkey_default(char *out, size_t size, struct pawl_error *err);
#endif
