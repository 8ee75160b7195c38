/* daemon/log/verify.c - see verify.h. Walks the journal as journal_open() reads it and checks each entry: its form, its
 * place, its origin, the hash of the one before, the signature. Owns nothing but the walk; changes no file.
 *
 * The batch records around the entries are not signed: they are framing. What counts is what the entries say of
 * themselves. */
#include "daemon/log/verify.h"

#include "daemon/log/journal.h"

#include <sodium.h>

#include <stdio.h>
#include <time.h>

struct walk {
	const struct vkey *key;
	const struct verify_anchor *anchor;
	verify_each *each;
	void (*progress)(void *arg, uint64_t n);
	void *arg;
	int64_t next_word_ns;

	struct verify_report rep;
	size_t origin_n;
	uint64_t ours, foreign; /* entries by whose key signed them */
	uint64_t first_foreign;
	char foreign_name[192];
	bool anchor_seen;
	bool refused; /* the visitor stopped the walk: rep says why */
};

const char *verify_word(enum verify_status s)
{
	switch (s) {
	case VERIFY_OK:
		return "ok";
	case VERIFY_NO_ANCHOR:
		return "ok-no-anchor";
	case VERIFY_NOTHING:
		return "nothing-to-check";
	case VERIFY_TAMPERED:
		return "tampered";
	case VERIFY_INCOMPLETE:
		return "incomplete";
	case VERIFY_WRONG_KEY:
		return "wrong-key";
	case VERIFY_ERROR:
		break;
	}
	return "error";
}

int verify_anchor_parse(struct str text, struct verify_anchor *ret, struct pawl_error *err)
{
	const char *colon = text.n ? memchr(text.p, ':', text.n) : NULL;
	struct verify_anchor a = { .seq = 0 };
	struct str seq, hash;
	size_t n;

	if (!colon)
		return pawl_fail(err, PAWL_E_USAGE, "an anchor is SEQ:HASH");
	seq = (struct str){ text.p, (size_t)(colon - text.p) };
	hash = (struct str){ colon + 1, text.n - seq.n - 1 };
	if (seq.n == 0 || seq.n > 18)
		return pawl_fail(err, PAWL_E_USAGE, "an anchor's SEQ is a number");
	for (size_t i = 0; i < seq.n; i++) {
		if (seq.p[i] < '0' || seq.p[i] > '9')
			return pawl_fail(err, PAWL_E_USAGE, "an anchor's SEQ is a number");
		a.seq = a.seq * 10 + (uint64_t)(seq.p[i] - '0');
	}
	if (hash.n == 64) {
		if (sodium_hex2bin(a.hash, 32, hash.p, 64, NULL, &n, NULL) != 0 || n != 32)
			hash.n = 0;
	} else if (!b64_exact(hash, a.hash, 32)) {
		hash.n = 0;
	}
	if (hash.n == 0)
		return pawl_fail(err, PAWL_E_USAGE, "an anchor's HASH is 64 hex digits, or 44 characters of base64");
	*ret = a;
	return 0;
}

static int64_t mono_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static void show_progress(struct walk *w)
{
	int64_t now;

	if (!w->progress || w->rep.entries % 256)
		return;
	now = mono_ns();
	if (now < w->next_word_ns)
		return;
	w->next_word_ns = now + NS_PER_SEC;
	w->progress(w->arg, w->rep.entries);
}

/* Ends the walk: the entry is not what was written. */
static int refuse(struct walk *w, uint64_t seq, struct pawl_error *err, const char *why)
{
	w->refused = true;
	w->rep.status = VERIFY_TAMPERED;
	w->rep.has_bad = true;
	w->rep.bad_seq = seq;
	(void)snprintf(w->rep.message, sizeof(w->rep.message), "entry %llu: %s", (unsigned long long)seq, why);
	return pawl_fail(err, PAWL_E_TAMPERED, "%s", why);
}

/* Another key's entry is counted, not yet judged: all of them = the wrong key was given; some = entries were put in. */
static int check_signature(struct walk *w, const struct entry_view *v, uint64_t seq, struct pawl_error *err)
{
	int r = entry_view_verify(v, w->key, err);

	if (r == 0)
		w->ours++;
	if (r != PAWL_E_KEY)
		return r;
	if (w->foreign++ == 0) {
		w->first_foreign = seq;
		(void)snprintf(w->foreign_name, sizeof(w->foreign_name), "%.*s+%08x", STR_ARG(v->sig_name), v->sig_id);
	}
	return 0;
}

static int visit(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	static const uint8_t none[32];
	struct walk *w = arg;
	struct entry_view v;
	struct pawl_error why;

	if (entry_view_parse(note, &v, &why) < 0)
		return refuse(w, seq, err, why.msg);
	if (v.seq != seq)
		return refuse(w, seq, err, "the entry here says that it belongs elsewhere");
	if (w->rep.entries == 0) {
		w->rep.first_seq = seq;
		w->origin_n = v.origin.n; /* <= PAWL_MAX_ORIGIN: the parser saw to it */
		memcpy(w->rep.origin, v.origin.p, v.origin.n);
	}
	if (!str_eq(v.origin, (struct str){ w->rep.origin, w->origin_n }))
		return refuse(w, seq, err, "it is of another log (origin)");
	if (w->rep.entries > 0 ? memcmp(v.prev, w->rep.last_hash, 32) != 0 : seq == 0 && memcmp(v.prev, none, 32) != 0)
		return refuse(w, seq, err, "it does not follow the entry before (hash chain)");
	if (check_signature(w, &v, seq, &why) < 0)
		return refuse(w, seq, err, why.msg);
	entry_hash(v.text, w->rep.last_hash);
	w->rep.last_seq = seq;
	w->rep.entries++;
	if (w->anchor && w->anchor->seq == seq) {
		if (memcmp(w->anchor->hash, w->rep.last_hash, 32) != 0)
			return refuse(w, seq, err, "it is not the entry that the anchor names: history was rewritten");
		w->anchor_seen = true;
	}
	if (w->each) {
		int r = w->each(w->arg, &v, &why);

		if (r == PAWL_E_TAMPERED)
			return refuse(w, seq, err, why.msg);
		if (r < 0) {
			*err = why;
			return r;
		}
	}
	show_progress(w);
	return 0;
}

#define SAY(rep, ...) ((void)snprintf((rep)->message, sizeof((rep)->message), __VA_ARGS__))

/* The walk came to its end: what does it amount to? Worst first. */
static void conclude(struct walk *w, const struct journal_recovery *rec)
{
	struct verify_report *rep = &w->rep;
	uint8_t origin[32];

	crypto_hash_sha256(origin, (const uint8_t *)rep->origin, w->origin_n);
	rep->torn_bytes = rec->torn_bytes;
	rep->live = rec->live;
	if ((rep->entries && memcmp(origin, rec->origin, 32) != 0) || (w->foreign && w->ours)) {
		rep->status = VERIFY_TAMPERED;
		rep->has_bad = true;
		rep->bad_seq = w->foreign ? w->first_foreign : rep->first_seq;
		SAY(rep, "entry %llu: %s%s", (unsigned long long)rep->bad_seq,
		    w->foreign ? "signed by another key: " : "its batch names another log",
		    w->foreign ? w->foreign_name : "");
	} else if (w->foreign) {
		rep->status = VERIFY_WRONG_KEY;
		SAY(rep, "every entry is signed by %s, the key given is %.160s+%08x", w->foreign_name, w->key->name,
		    w->key->id);
	} else if (rec->first_seq != 0) {
		rep->status = VERIFY_INCOMPLETE;
		SAY(rep, "the log starts at entry %llu, not at 0", (unsigned long long)rec->first_seq);
	} else if (w->anchor && !w->anchor_seen) {
		rep->status = VERIFY_INCOMPLETE;
		SAY(rep, "the log ends before entry %llu, which is known to have been in it",
		    (unsigned long long)w->anchor->seq);
	} else if (rec->torn_bytes) {
		rep->status = VERIFY_INCOMPLETE;
		SAY(rep, "%lld bytes at the end are not a whole batch%s", (long long)rec->torn_bytes,
		    rec->live ? " (a daemon is writing to this log)" : "");
	} else if (rep->entries == 0) {
		rep->status = VERIFY_NOTHING;
		SAY(rep, "the folder holds no entry");
	} else if (!w->anchor) {
		rep->status = VERIFY_NO_ANCHOR;
		SAY(rep, "all that is here is genuine; without an anchor nothing tells whether the end was cut off");
	} else {
		rep->status = VERIFY_OK;
		SAY(rep, "complete and genuine, and the anchor is in it");
	}
}

static int walk_log(const char *dir, struct walk *walk, struct verify_report *ret, struct pawl_error *err)
{
	struct journal_config cfg = { .dir = dir, .read_only = true };
	struct journal_recovery rec;
	struct journal *j = NULL;
	struct pawl_error why;
	int r;

	if (sodium_init() < 0)
		return pawl_fail(err, PAWL_E_SYS, "libsodium does not start");
	walk->next_word_ns = mono_ns() + NS_PER_SEC;
	r = journal_open(&cfg, visit, walk, &j, &rec, &why);
	if (r == 0) {
		conclude(walk, &rec);
	} else if (r == PAWL_E_TAMPERED) {
		if (!walk->refused) { /* the journal's own finding: framing, order of segments, a damaged batch */
			walk->rep.status = VERIFY_TAMPERED;
			walk->rep.has_bad = true;
			walk->rep.bad_seq = walk->rep.entries ? walk->rep.last_seq + 1 : 0;
			SAY(&walk->rep, "%s", why.msg);
		}
	} else {
		if (err)
			*err = why;
		return r;
	}
	journal_close(j);
	*ret = walk->rep;
	return 0;
}

int log_verify(const char *dir, const struct vkey *key, const struct verify_anchor *anchor,
	       void (*progress)(void *arg, uint64_t n), void *arg, struct verify_report *ret, struct pawl_error *err)
{
	struct walk w = { .key = key, .anchor = anchor, .progress = progress, .arg = arg };

	return walk_log(dir, &w, ret, err);
}

int log_verify_each(const char *dir, const struct vkey *key, verify_each *each, void (*progress)(void *arg, uint64_t n),
		    void *arg, struct verify_report *ret, struct pawl_error *err)
{
	struct walk w = { .key = key, .each = each, .progress = progress, .arg = arg };

	return walk_log(dir, &w, ret, err);
}
