/* daemon/operator_key.c - see operator_key.h. */
#include "daemon/operator_key.h"

#include "daemon/safe.h"

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define SUFFIX ".vkey"
#define SIGNED_PREFIX "pawl-operator/v1\n"

struct enrolled {
	char name[PAWL_MAX_ID + 1];
	char text[256]; /* the vkey, one line */
	size_t name_n, text_n;
	struct vkey key;
};
struct key_set {
	struct enrolled row[OPERATORS_MAX];
	size_t n;
};
struct used {
	uint8_t nonce[32];
	int64_t until; /* 0: free */
};
/* Nonces that were given out are not kept: each says until when it is good and proves that it is ours, so nobody's asking can push out
 * another's. Kept is what a good signature was made over, and only enrolled keys can make one. */
struct operators {
	struct key_set set;
	uint8_t secret[32]; /* of this process: after a restart old nonces are unknown */
	struct used used[OPERATOR_USED];
};

int operators_new(struct operators **ret, struct pawl_error *err)
{
	struct operators *ops = calloc(1, sizeof(*ops));

	if (!ops)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	randombytes_buf(ops->secret, sizeof(ops->secret));
	*ret = ops;
	return 0;
}

void operators_free(struct operators *ops)
{
	if (ops)
		sodium_memzero(ops->secret, sizeof(ops->secret));
	free(ops);
}

size_t operators_count(const struct operators *ops)
{
	return ops->set.n;
}

/* "anna" of "anna.vkey"; empty: not a name of ours. */
static struct str operator_name(const char *file)
{
	size_t n = strlen(file), suffix = sizeof(SUFFIX) - 1;

	if (n <= suffix || n - suffix > PAWL_MAX_ID || strcmp(file + n - suffix, SUFFIX) != 0)
		return STR_NONE;
	for (size_t i = 0; i < n - suffix; i++) {
		char c = file[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && i > 0)))
			return STR_NONE;
	}
	return (struct str){ file, n - suffix };
}

static int load_one(struct key_set *set, const char *dir, gid_t own_group, struct str name, struct pawl_error *err)
{
	struct enrolled *e = &set->row[set->n];
	char path[1200], *text = NULL;
	size_t n = 0;
	int r;

	if (set->n == OPERATORS_MAX)
		return pawl_fail(err, PAWL_E_LIMIT, "%s: more than %d operators", dir, OPERATORS_MAX);
	(void)snprintf(path, sizeof(path), "%s/%.*s" SUFFIX, dir, STR_ARG(name));
	r = safe_file(path, own_group, err);
	if (r == 0)
		r = safe_read(path, sizeof(e->text) - 1, own_group, &text, &n, err);
	if (r == 0 && vkey_parse((struct str){ text, n }, &e->key, err) < 0)
		r = pawl_fail(err, PAWL_E_KEY, "%s: not one vkey line", path);
	if (r == 0 && !str_eq(str_of(e->key.name), name)) /* the log would name one person and the signature another */
		r = pawl_fail(err, PAWL_E_KEY, "%s: the key inside is %.64s's: its file is NAME" SUFFIX, path, e->key.name);
	if (r == 0) {
		while (n && text[n - 1] == '\n')
			n--;
		memcpy(e->text, text, n);
		e->text[n] = '\0';
		memcpy(e->name, name.p, name.n);
		e->name[name.n] = '\0';
		e->name_n = name.n;
		e->text_n = n;
		set->n++;
	}
	free(text);
	return r;
}

static struct str name_of(const struct enrolled *e)
{
	return (struct str){ e->name, e->name_n };
}

static struct str text_of(const struct enrolled *e)
{
	return (struct str){ e->text, e->text_n };
}

static const struct enrolled *find(const struct key_set *set, struct str name)
{
	for (size_t i = 0; i < set->n; i++)
		if (str_eq(name, name_of(&set->row[i])))
			return &set->row[i];
	return NULL;
}

static void tell(const struct key_set *from, const struct key_set *than, bool enrolled, operators_changed *changed, void *arg)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct enrolled *one = &from->row[i], *other = find(than, name_of(one));

		if (!other || !str_eq(text_of(other), text_of(one)))
			changed(arg, enrolled, name_of(one), text_of(one));
	}
}

static void keep_known(struct key_set *fresh, const struct key_set *old)
{
	size_t kept = 0;

	for (size_t i = 0; i < fresh->n; i++) {
		const struct enrolled *was = find(old, name_of(&fresh->row[i]));

		if (was && str_eq(text_of(was), text_of(&fresh->row[i])))
			fresh->row[kept++] = fresh->row[i];
	}
	fresh->n = kept;
}

int operators_load(struct operators *ops, const char *dir, gid_t own_group, operators_changed *changed, void *arg, struct pawl_error *err)
{
	struct key_set *fresh = calloc(1, sizeof(*fresh)), *old = calloc(1, sizeof(*old));
	DIR *d = opendir(dir);
	const struct dirent *e;
	int r = 0;

	if (!fresh || !old) {
		r = pawl_fail(err, PAWL_E_NOMEM, "out of memory");
		goto out;
	}
	if (!d && errno != ENOENT)
		r = pawl_fail_errno(err, "%s", dir);
	while (d && (e = readdir(d))) {
		struct str name = operator_name(e->d_name);
		int one = name.n ? load_one(fresh, dir, own_group, name, r == 0 ? err : NULL) : 0;

		r = r < 0 ? r : one;
	}
	*old = ops->set;
	if (r < 0) /* one bad file: nobody comes in beside it, but who was taken away is gone */
		keep_known(fresh, old);
	ops->set = *fresh;
	tell(old, &ops->set, false, changed, arg);
	tell(&ops->set, old, true, changed, arg);
out:
	if (d)
		(void)closedir(d);
	free(fresh);
	free(old);
	return r;
}

/* A nonce: until when it is good (ns, most significant byte first), 8 random bytes, and the keyed digest of both. */
#define NONCE_SAID 16

static void nonce_proof(const struct operators *ops, const uint8_t said[static NONCE_SAID], uint8_t out[static 16])
{
	(void)crypto_generichash(out, 16, said, NONCE_SAID, ops->secret, sizeof(ops->secret));
}

void operators_nonce(const struct operators *ops, int64_t now, uint8_t ret[static 32], int64_t *ret_expires)
{
	int64_t until = add_sat(now, OPERATOR_NONCE_NS);

	for (int i = 0; i < 8; i++)
		ret[i] = (uint8_t)((uint64_t)until >> (56 - 8 * i));
	randombytes_buf(ret + 8, NONCE_SAID - 8);
	nonce_proof(ops, ret, ret + NONCE_SAID);
	*ret_expires = until;
}

/* Until when it is good; 0: it is not ours, or its time is over. */
static int64_t nonce_until(const struct operators *ops, const uint8_t nonce[static 32], int64_t now)
{
	uint8_t proof[16];
	uint64_t until = 0;

	nonce_proof(ops, nonce, proof);
	if (sodium_memcmp(proof, nonce + NONCE_SAID, sizeof(proof)) != 0)
		return 0;
	for (int i = 0; i < 8; i++)
		until = until << 8 | nonce[i];
	return (int64_t)until > now ? (int64_t)until : 0;
}

/* The place to remember it at; NULL: it has been used. *ret_full: there is no place. */
static struct used *nonce_place(struct operators *ops, const uint8_t nonce[static 32], int64_t now, bool *ret_full)
{
	struct used *place = NULL;

	for (size_t i = 0; i < OPERATOR_USED; i++) {
		struct used *u = &ops->used[i];

		if (u->until <= now)
			place = u;
		else if (memcmp(u->nonce, nonce, sizeof(u->nonce)) == 0)
			return NULL;
	}
	*ret_full = !place;
	return place;
}

int operators_check(struct operators *ops, struct str name, const uint8_t nonce[static 32], struct str text, const uint8_t signature[static 64],
		    int64_t now, struct str *ret_vkey, struct pawl_error *err)
{
	const struct enrolled *who = find(&ops->set, name);
	int64_t until = nonce_until(ops, nonce, now);
	bool full = false;
	struct used *place = until ? nonce_place(ops, nonce, now, &full) : NULL;

	if (full)
		return pawl_fail(err, PAWL_E_AUTH, "more than %d signed requests in a minute", OPERATOR_USED);
	if (!place)
		return pawl_fail(err, PAWL_E_AUTH, "the nonce is unknown, used or over a minute old");
	if (!who)
		return pawl_fail(err, PAWL_E_AUTH, "nobody is enrolled as \"%.*s\"", name.n > 64 ? 64 : (int)name.n, name.p);
	if (text.n < sizeof(SIGNED_PREFIX) - 1 || memcmp(text.p, SIGNED_PREFIX, sizeof(SIGNED_PREFIX) - 1) != 0 ||
	    crypto_sign_verify_detached(signature, (const uint8_t *)text.p, text.n, who->key.pub) != 0)
		return pawl_fail(err, PAWL_E_AUTH, "the signature is not %s's", who->name);
	place->until = until;
	memcpy(place->nonce, nonce, sizeof(place->nonce));
	*ret_vkey = text_of(who);
	return 0;
}
