/* daemon/cli/opkey.c - see opkey.h. Owns secrets only inside a call; each of its buffers is wiped before it returns. */
#include "daemon/cli/opkey.h"

#include <sodium.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD     "pawl-operator-key/v1\n"
#define MAX_LINE 512 /* a signer line: name, id, base64 of 33 bytes */

struct sealed {
	struct vkey pub;
	uint64_t ops, mem;
	uint8_t salt[crypto_pwhash_SALTBYTES], nonce[crypto_secretbox_NONCEBYTES];
	uint8_t box[MAX_LINE + crypto_secretbox_MACBYTES];
	size_t box_n;
};

bool opkey_name_ok(struct str name)
{
	if (name.n == 0 || name.n > PAWL_MAX_ID || name.p[0] == '.')
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
		      c == '_' || c == '.'))
			return false;
	}
	return true;
}

static int derive(struct str pass, const struct sealed *s, uint8_t key[static crypto_secretbox_KEYBYTES],
		  struct pawl_error *err)
{
	if (crypto_pwhash(key, crypto_secretbox_KEYBYTES, pass.p ? pass.p : "", pass.n, s->salt, s->ops, (size_t)s->mem,
			  crypto_pwhash_ALG_ARGON2ID13) != 0)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for argon2id (%llu MiB)",
				 (unsigned long long)(s->mem >> 20));
	return 0;
}

/* ---- writing ---- */

static void write_sealed(const struct sealed *s, struct buf *out)
{
	buf_puts(out, HEAD "public ");
	vkey_text(&s->pub, out);
	buf_printf(out, "\nargon2id %llu %llu\nsalt ", (unsigned long long)s->ops, (unsigned long long)s->mem);
	buf_b64(out, s->salt, sizeof(s->salt));
	buf_puts(out, "\nnonce ");
	buf_b64(out, s->nonce, sizeof(s->nonce));
	buf_puts(out, "\nbox ");
	buf_b64(out, s->box, s->box_n);
	buf_putc(out, '\n');
}

int opkey_seal(const struct sign_key *k, struct str pass, struct buf *out, struct pawl_error *err)
{
	struct sealed s = { .pub = *sign_key_vkey(k),
			    .ops = crypto_pwhash_OPSLIMIT_INTERACTIVE,
			    .mem = crypto_pwhash_MEMLIMIT_INTERACTIVE };
	PAWL_CLEANUP(buf_done) struct buf line = BUF_MAX(MAX_LINE);
	uint8_t key[crypto_secretbox_KEYBYTES];
	int r;

	randombytes_buf(s.salt, sizeof(s.salt));
	randombytes_buf(s.nonce, sizeof(s.nonce));
	r = derive(pass, &s, key, err);
	if (r == 0)
		sign_key_text(k, &line);
	if (r == 0 && (!buf_ok(&line) || line.n < 2))
		r = pawl_fail(err, PAWL_E_NOMEM, "no memory for the key's text");
	if (r == 0) {
		s.box_n = line.n - 1 + crypto_secretbox_MACBYTES;
		(void)crypto_secretbox_easy(s.box, (const uint8_t *)line.p, line.n - 1, s.nonce, key);
		write_sealed(&s, out);
		r = buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for the key file");
	}
	if (line.p)
		sodium_memzero(line.p, line.cap);
	sodium_memzero(key, sizeof(key));
	return r;
}

/* ---- reading ---- */

/* Takes "word value\n" off the front of *text. */
static bool take(struct str *text, const char *word, struct str *ret)
{
	const char *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
	size_t n = strlen(word), line = end ? (size_t)(end - text->p) : 0;

	if (!end || line <= n || memcmp(text->p, word, n) != 0 || text->p[n] != ' ')
		return false;
	*ret = (struct str){ text->p + n + 1, line - n - 1 };
	*text = (struct str){ end + 1, text->n - line - 1 };
	return true;
}

/* Decimal without a sign or leading zero. */
static bool number(struct str s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 12 || s.p[0] == '0')
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	*ret = v;
	return v <= max;
}

static bool work(struct str s, struct sealed *ret)
{
	const char *gap = s.n ? memchr(s.p, ' ', s.n) : NULL;
	size_t n = gap ? (size_t)(gap - s.p) : 0;

	return gap && number((struct str){ s.p, n }, OPKEY_MAX_OPS, &ret->ops) &&
	       number((struct str){ gap + 1, s.n - n - 1 }, OPKEY_MAX_MEM, &ret->mem) &&
	       ret->mem >= crypto_pwhash_MEMLIMIT_MIN;
}

static bool box(struct str s, struct sealed *ret)
{
	size_t pad = s.n > 1 ? (size_t)(s.p[s.n - 1] == '=') + (size_t)(s.p[s.n - 2] == '=') : 0;

	ret->box_n = s.n / 4 * 3 - (s.n / 4 ? pad : 0);
	return s.n % 4 == 0 && ret->box_n > crypto_secretbox_MACBYTES && ret->box_n <= sizeof(ret->box) &&
	       b64_exact(s, ret->box, ret->box_n);
}

static bool is_sealed(struct str text)
{
	return text.n >= sizeof(HEAD) - 1 && memcmp(text.p, HEAD, sizeof(HEAD) - 1) == 0;
}

static int read_sealed(struct str text, struct sealed *ret, struct pawl_error *err)
{
	struct str v = STR_NONE;

	text = (struct str){ text.p + sizeof(HEAD) - 1, text.n - (sizeof(HEAD) - 1) };
	if (!take(&text, "public", &v) || vkey_parse(v, &ret->pub, NULL) < 0)
		return pawl_fail(err, PAWL_E_KEY, "not a whole key file: no good line \"public\"");
	if (!take(&text, "argon2id", &v) || !work(v, ret))
		return pawl_fail(err, PAWL_E_KEY,
				 "not a whole key file: no good line \"argon2id\" (at most %d operations, 1 GiB)",
				 OPKEY_MAX_OPS);
	if (!take(&text, "salt", &v) || !b64_exact(v, ret->salt, sizeof(ret->salt)))
		return pawl_fail(err, PAWL_E_KEY, "not a whole key file: no good line \"salt\"");
	if (!take(&text, "nonce", &v) || !b64_exact(v, ret->nonce, sizeof(ret->nonce)))
		return pawl_fail(err, PAWL_E_KEY, "not a whole key file: no good line \"nonce\"");
	if (!take(&text, "box", &v) || !box(v, ret) || text.n)
		return pawl_fail(err, PAWL_E_KEY, "not a whole key file: no good line \"box\" at its end");
	return 0;
}

int opkey_public(struct str text, struct vkey *ret, bool *ret_sealed, struct pawl_error *err)
{
	struct sealed s = { 0 };
	struct sign_key *key = NULL;
	int r;

	if (is_sealed(text)) {
		r = read_sealed(text, &s, err);
		if (r == 0) {
			*ret = s.pub;
			*ret_sealed = true;
		}
		return r;
	}
	r = sign_key_parse(text, &key, err);
	if (r == 0) {
		*ret = *sign_key_vkey(key);
		*ret_sealed = false;
	}
	sign_key_free(key);
	return r;
}

/* line has room for the box without its MAC. */
static int unseal(const struct sealed *s, struct str pass, uint8_t *line, struct pawl_error *err)
{
	uint8_t key[crypto_secretbox_KEYBYTES];
	int r = derive(pass, s, key, err);

	if (r == 0 && crypto_secretbox_open_easy(line, s->box, s->box_n, s->nonce, key) != 0)
		r = pawl_fail(err, PAWL_E_KEY, "wrong passphrase, or the key file was changed");
	sodium_memzero(key, sizeof(key));
	return r;
}

int opkey_open(struct str text, struct str pass, struct sign_key **ret, struct pawl_error *err)
{
	struct sealed s = { 0 };
	struct sign_key *key = NULL;
	uint8_t *line;
	int r;

	if (!is_sealed(text))
		return sign_key_parse(text, ret, err);
	r = read_sealed(text, &s, err);
	if (r < 0)
		return r;
	if (sodium_init() < 0 || !(line = sodium_malloc(MAX_LINE)))
		return pawl_fail(err, PAWL_E_NOMEM, "no guarded memory for the key");
	r = unseal(&s, pass, line, err);
	if (r == 0)
		r = sign_key_parse((struct str){ (const char *)line, s.box_n - crypto_secretbox_MACBYTES }, &key, err);
	/* the box is whoever's who knew the passphrase; the line above it may be anybody's */
	if (r == 0 && (strcmp(sign_key_vkey(key)->name, s.pub.name) != 0 ||
		       memcmp(sign_key_vkey(key)->pub, s.pub.pub, sizeof(s.pub.pub)) != 0))
		r = pawl_fail(err, PAWL_E_KEY, "the key file's public line is of another key: the file was changed");
	sodium_free(line);
	if (r < 0) {
		sign_key_free(key);
		return r;
	}
	*ret = key;
	return 0;
}

int opkey_read(const char *path, char out[static OPKEY_MAX], size_t *ret_n, struct pawl_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r = 0;
	struct stat st;
	ssize_t got = 1;
	size_t n = 0;

	if (fd < 0 && errno == ENOENT) {
		(void)pawl_fail(err, PAWL_E_SYS, "there is no key %s: --key FILE names another, `pawl key new --name NAME` makes one", path);
		if (err)
			err->os_errno = ENOENT; /* who only looks goes on without */
		return PAWL_E_SYS;
	}
	if (fd < 0)
		return pawl_fail_errno(err, "cannot open the key %s", path);
	if (fstat(fd, &st) < 0)
		r = pawl_fail_errno(err, "%s", path);
	else if (!S_ISREG(st.st_mode))
		r = pawl_fail(err, PAWL_E_UNSAFE, "%s is not a regular file", path);
	else if (st.st_uid != geteuid() && st.st_uid != 0)
		r = pawl_fail(err, PAWL_E_UNSAFE, "%s belongs to uid %u: a key must be ours or root's", path,
			      (unsigned)st.st_uid);
	else if (st.st_mode & 077)
		r = pawl_fail(err, PAWL_E_UNSAFE, "%s has mode %04o: others get at the key; chmod 600 %s", path,
			      (unsigned)(st.st_mode & 07777u), path);
	while (r == 0 && got > 0 && n < OPKEY_MAX) {
		got = read(fd, out + n, OPKEY_MAX - n);
		if (got < 0 && errno != EINTR)
			r = pawl_fail_errno(err, "cannot read %s", path);
		n += got > 0 ? (size_t)got : 0;
		got = got < 0 ? 1 : got;
	}
	(void)close(fd);
	if (r == 0 && (n == 0 || n == OPKEY_MAX))
		r = pawl_fail(err, PAWL_E_KEY, "%s is %s", path, n ? "too long for a key" : "empty");
	if (r < 0)
		sodium_memzero(out, OPKEY_MAX);
	else
		*ret_n = n;
	return r;
}

int opkey_default(char *out, size_t size, struct pawl_error *err)
{
	const char *said = getenv("PAWL_KEY"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;

	if (said && *said)
		n = snprintf(out, size, "%s", said);
	else if (xdg && *xdg == '/')
		n = snprintf(out, size, "%s/pawl/operator.key", xdg);
	else if (home && *home == '/')
		n = snprintf(out, size, "%s/.config/pawl/operator.key", home);
	if (n < 0 || (size_t)n >= size)
		return pawl_fail(err, PAWL_E_USAGE, "no place for the key is known: give --key FILE");
	return 0;
}
