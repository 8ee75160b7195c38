/* daemon/log/keys.c - see keys.h. Owns the secret key: guarded pages that libsodium locks where it may, made read-only
 * once filled, wiped when freed. Every other copy (file buffer, seed) lives in this file and is wiped before it
 * returns. */
#include "daemon/log/keys.h"

#include <sodium.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIGNER_HEAD  "PRIVATE+KEY+"
#define MAX_KEY_FILE 1024

struct sign_key {
	struct vkey pub;
	uint8_t secret[crypto_sign_SECRETKEYBYTES];
};

static int key_from_seed(struct str name, const uint8_t seed[static 32], struct sign_key **ret, struct pawl_error *err)
{
	struct sign_key *k;

	if (!name.p || name.n >= sizeof(k->pub.name))
		return pawl_fail(err, PAWL_E_KEY, "not a key name");
	if (sodium_init() < 0)
		return pawl_fail(err, PAWL_E_KEY, "libsodium does not start");
	k = sodium_malloc(sizeof(*k));
	if (!k)
		return pawl_fail(err, PAWL_E_NOMEM, "no guarded memory for the signing key");
	memset(k, 0, sizeof(*k));
	memcpy(k->pub.name, name.p, name.n);
	crypto_sign_seed_keypair(k->pub.pub, k->secret, seed);
	k->pub.id = vkey_id(k->pub.name, k->pub.pub);
	if (sodium_mprotect_readonly(k) != 0) {
		sodium_free(k);
		return pawl_fail(err, PAWL_E_NOMEM, "the signing key's memory cannot be made read-only");
	}
	*ret = k;
	return 0;
}

int sign_key_parse(struct str text, struct sign_key **ret, struct pawl_error *err)
{
	struct keyed_name n;
	struct sign_key *k;
	int r;

	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	if (text.n < sizeof(SIGNER_HEAD) - 1 || memcmp(text.p, SIGNER_HEAD, sizeof(SIGNER_HEAD) - 1) != 0)
		return pawl_fail(err, PAWL_E_KEY, "not a signer key (it starts with %s)", SIGNER_HEAD);
	text.p += sizeof(SIGNER_HEAD) - 1;
	text.n -= sizeof(SIGNER_HEAD) - 1;
	if (!keyed_name_parse(text, &n))
		return pawl_fail(err, PAWL_E_KEY,
				 "not a signer key (" SIGNER_HEAD "name+8 hex digits+base64 of 33 bytes)");
	r = key_from_seed(n.name, n.bytes, &k, err);
	if (r == 0 && k->pub.id != n.id) {
		r = pawl_fail(err, PAWL_E_KEY, "signer key: the id is %08x but name and key give %08x", n.id,
			      k->pub.id);
		sign_key_free(k);
	}
	sodium_memzero(&n, sizeof(n));
	if (r == 0)
		*ret = k;
	return r;
}

/* The mode is asked of the open file, not of the name, so nothing can change between the look and the read. */
static int secret_file_check(int fd, const char *path, struct pawl_error *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return pawl_fail_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode))
		return pawl_fail(err, PAWL_E_KEY, "%s: the signing key must be a regular file", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return pawl_fail(err, PAWL_E_UNSAFE, "%s: owned by uid %u, must be ours or root's", path,
				 (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return pawl_fail(err, PAWL_E_UNSAFE, "%s: mode %04o lets others at the key, must be 0600 or less", path,
				 (unsigned)(st.st_mode & 07777));
	return 0;
}

/* Reads at most size bytes; a longer file is not a key. */
static int read_small(int fd, const char *path, char *out, size_t size, size_t *ret_n, struct pawl_error *err)
{
	size_t n = 0;
	ssize_t got;

	while (n < size) {
		got = read(fd, out + n, size - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			pawl_fail_errno(err, "%s", path);
			return err ? (int)(err->code = PAWL_E_KEY) : PAWL_E_KEY;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (n == 0 || n == size)
		return pawl_fail(err, PAWL_E_KEY, "%s: %s", path, n ? "too long for a key" : "empty, not a key");
	*ret_n = n;
	return 0;
}

static int key_file_open(const char *path, int *ret_fd, struct pawl_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO must not hold the start up */

	if (fd < 0) {
		pawl_fail_errno(err, "no key: %s", path);
		return err ? (int)(err->code = PAWL_E_KEY) : PAWL_E_KEY;
	}
	*ret_fd = fd;
	return 0;
}

/* Names the file in a message that was made without it. */
static void name_file(struct pawl_error *err, const char *path)
{
	struct pawl_error inner;

	if (!err)
		return;
	inner = *err;
	pawl_fail(err, inner.code, "%s: %s", path, inner.msg);
}

int sign_key_load(const char *path, struct sign_key **ret, struct pawl_error *err)
{
	char text[MAX_KEY_FILE];
	size_t n;
	int fd, r;

	r = key_file_open(path, &fd, err);
	if (r < 0)
		return r;
	r = secret_file_check(fd, path, err);
	if (r == 0)
		r = read_small(fd, path, text, sizeof(text), &n, err);
	if (r == 0) {
		r = sign_key_parse((struct str){ text, n }, ret, err);
		if (r < 0)
			name_file(err, path);
	}
	sodium_memzero(text, sizeof(text));
	(void)close(fd);
	return r;
}

int sign_key_new(const char *name, struct sign_key **ret, struct pawl_error *err)
{
	uint8_t seed[32];
	int r;

	if (!note_name_ok(str_of(name)))
		return pawl_fail(err, PAWL_E_KEY, "not a key name (no white space, no '+', at most %zu bytes)",
				 sizeof(((struct vkey *)0)->name) - 1);
	if (sodium_init() < 0)
		return pawl_fail(err, PAWL_E_KEY, "libsodium does not start");
	randombytes_buf(seed, sizeof(seed));
	r = key_from_seed(str_of(name), seed, ret, err);
	sodium_memzero(seed, sizeof(seed));
	return r;
}

void sign_key_text(const struct sign_key *k, struct buf *out)
{
	uint8_t seed[32];

	crypto_sign_ed25519_sk_to_seed(seed, k->secret);
	/* in one piece: a buffer that grew would leave a copy of the secret behind */
	if (buf_room(out, sizeof(SIGNER_HEAD) + sizeof(k->pub.name) + 64)) {
		buf_puts(out, SIGNER_HEAD);
		keyed_name_text(k->pub.name, k->pub.id, seed, out);
		buf_putc(out, '\n');
	}
	sodium_memzero(seed, sizeof(seed));
}

void sign_key_free(struct sign_key *k)
{
	sodium_free(k); /* wipes; accepts NULL */
}

const struct vkey *sign_key_vkey(const struct sign_key *k)
{
	return &k->pub;
}

void sign_key_sign(const struct sign_key *k, struct str text, uint8_t sig[static 64])
{
	crypto_sign_detached(sig, NULL, (const uint8_t *)text.p, text.n, k->secret);
}

int vkey_load(const char *path, struct vkey *ret, struct pawl_error *err)
{
	char text[MAX_KEY_FILE];
	size_t n;
	int fd, r;

	r = key_file_open(path, &fd, err);
	if (r < 0)
		return r;
	r = read_small(fd, path, text, sizeof(text), &n, err);
	if (r == 0) {
		r = vkey_parse((struct str){ text, n }, ret, err);
		if (r < 0)
			name_file(err, path);
	}
	(void)close(fd);
	return r;
}
