/* daemon/session.c - see session.h. A table by session id, a heap of lease ends, and the labels of a few sessions: parsed they take more
 * than all the rest of a row.
 * The heap is lazy: renewing moves nothing; a popped row whose lease was renewed goes back with its new end. */
#include "daemon/session.h"

#include <sodium.h>
#include <stdlib.h>

struct lease_end {
	int64_t at;
	uint64_t id;
};

struct labels { /* session 0: nobody's */
	uint64_t session;
	struct json *doc;
};
#define LABELS_KEPT 256u

struct sessions {
	struct live **slot; /* open addressing, linear probing; NULL = empty */
	size_t cap, n;	    /* cap is a power of two */
	struct lease_end *heap;
	size_t heap_n, heap_cap;
	struct labels labels[LABELS_KEPT]; /* by id */
};

#define NANO INT64_C(1000000000)

bool bucket_take(struct bucket *b, const struct rate_limit *rate, int64_t now, int64_t *ret_wait_ns)
{
	int64_t full = rate->burst * NANO, passed;

	if (b->last_ns == 0) {
		b->last_ns = now;
		b->level = full;
	}
	passed = now - b->last_ns;
	if (passed > 0) {
		int64_t gained;

		if (__builtin_mul_overflow(passed, rate->per_second, &gained))
			gained = full;
		b->level = add_sat(b->level, gained);
		b->last_ns = now;
	}
	if (b->level > full) /* also when a reload made the burst smaller */
		b->level = full;
	if (b->level >= NANO) {
		b->level -= NANO;
		return true;
	}
	*ret_wait_ns = (NANO - b->level + rate->per_second - 1) / rate->per_second;
	return false;
}

int sessions_new(struct sessions **ret, struct pawl_error *err)
{
	struct sessions *ss = calloc(1, sizeof(*ss));

	if (!ss)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	ss->cap = 64;
	ss->slot = calloc(ss->cap, sizeof(struct live *));
	if (!ss->slot) {
		free(ss);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	*ret = ss;
	return 0;
}

static void live_free(struct live *lv)
{
	if (!lv)
		return;
	sodium_memzero(lv, sizeof(*lv));
	free(lv);
}

void sessions_free(struct sessions *ss)
{
	if (!ss)
		return;
	for (size_t i = 0; i < ss->cap; i++)
		live_free(ss->slot[i]);
	for (size_t i = 0; i < LABELS_KEPT; i++)
		json_free(ss->labels[i].doc);
	free(ss->slot);
	free(ss->heap);
	free(ss);
}

static size_t slot_of(uint64_t id, size_t cap)
{
	return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (cap - 1);
}

static size_t find(const struct sessions *ss, uint64_t id)
{
	size_t i = slot_of(id, ss->cap);

	while (ss->slot[i] && ss->slot[i]->id != id)
		i = (i + 1) & (ss->cap - 1);
	return i;
}

static bool table_room(struct sessions *ss)
{
	struct live **old = ss->slot;
	size_t old_cap = ss->cap;
	struct live **bigger;

	if ((ss->n + 1) * 4 <= ss->cap * 3)
		return true;
	bigger = calloc(old_cap * 2, sizeof(struct live *));
	if (!bigger)
		return false;
	ss->slot = bigger;
	ss->cap = old_cap * 2;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i])
			ss->slot[find(ss, old[i]->id)] = old[i];
	free(old);
	return true;
}

static bool heap_room(struct sessions *ss)
{
	size_t cap = ss->heap_cap ? ss->heap_cap * 2 : 64;
	struct lease_end *bigger;

	if (ss->heap_n < ss->heap_cap)
		return true;
	bigger = realloc(ss->heap, cap * sizeof(*bigger));
	if (!bigger)
		return false;
	ss->heap = bigger;
	ss->heap_cap = cap;
	return true;
}

static bool earlier(struct lease_end a, struct lease_end b)
{
	return a.at < b.at || (a.at == b.at && a.id < b.id);
}

static void heap_push(struct sessions *ss, struct lease_end e)
{
	size_t i = ss->heap_n++;

	for (; i > 0 && earlier(e, ss->heap[(i - 1) / 2]); i = (i - 1) / 2)
		ss->heap[i] = ss->heap[(i - 1) / 2];
	ss->heap[i] = e;
}

static void heap_pop(struct sessions *ss)
{
	struct lease_end last = ss->heap[--ss->heap_n];
	size_t i = 0, kid;

	while ((kid = 2 * i + 1) < ss->heap_n) {
		if (kid + 1 < ss->heap_n && earlier(ss->heap[kid + 1], ss->heap[kid]))
			kid++;
		if (!earlier(ss->heap[kid], last))
			break;
		ss->heap[i] = ss->heap[kid];
		i = kid;
	}
	if (ss->heap_n)
		ss->heap[i] = last;
}

static struct labels *labels_at(struct sessions *ss, uint64_t id)
{
	return &ss->labels[slot_of(id, LABELS_KEPT)];
}

int sessions_labels(struct sessions *ss, const struct session_state *who, const struct json **ret, struct pawl_error *err)
{
	struct labels *l = labels_at(ss, who->id);
	struct json *doc = NULL;
	int r;

	if (l->session != who->id && who->labels_text.n > 2) { /* more than {} */
		r = json_parse(who->labels_text, PAWL_MAX_DEPTH, &doc, err);
		if (r < 0)
			return r;
		json_free(l->doc);
		*l = (struct labels){ who->id, doc };
	}
	*ret = l->session == who->id ? l->doc : NULL;
	return 0;
}

int sessions_add(struct sessions *ss, uint64_t id, const uint8_t secret[static 32], int64_t lease_until, struct pawl_error *err)
{
	struct live *lv;

	if (!table_room(ss) || !heap_room(ss))
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	lv = calloc(1, sizeof(*lv));
	if (!lv)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	lv->id = id;
	memcpy(lv->secret, secret, 32);
	lv->lease_until = lease_until;
	sessions_drop(ss, id); /* a sequence that was never answered may come again */
	ss->slot[find(ss, id)] = lv;
	ss->n++;
	heap_push(ss, (struct lease_end){ lease_until, id });
	return 0;
}

void sessions_drop(struct sessions *ss, uint64_t id)
{
	size_t i = find(ss, id), hole, home;
	struct labels *l = labels_at(ss, id);

	if (l->session == id) {
		json_free(l->doc);
		*l = (struct labels){ 0 };
	}
	if (!ss->slot[i])
		return;
	live_free(ss->slot[i]);
	ss->slot[i] = NULL;
	ss->n--;
	/* close the gap, so that probing never stops short of a row */
	for (hole = i, i = (i + 1) & (ss->cap - 1); ss->slot[i]; i = (i + 1) & (ss->cap - 1)) {
		home = slot_of(ss->slot[i]->id, ss->cap);
		if (((i - home) & (ss->cap - 1)) < ((i - hole) & (ss->cap - 1)))
			continue;
		ss->slot[hole] = ss->slot[i];
		ss->slot[i] = NULL;
		hole = i;
	}
}

struct live *sessions_get(struct sessions *ss, uint64_t id)
{
	return ss->slot[find(ss, id)];
}

void sessions_sweep(struct sessions *ss, const struct state *st)
{
	for (size_t i = 0; i < ss->cap;) {
		if (ss->slot[i] && !state_session(st, ss->slot[i]->id))
			sessions_drop(ss, ss->slot[i]->id); /* another row may have moved here: look again */
		else
			i++;
	}
}

void session_token_hash(const uint8_t token[static 32], uint8_t out[static 32])
{
	static const char domain[] = "pawl/session-token";

	(void)crypto_generichash(out, 32, token, 32, (const uint8_t *)domain, sizeof(domain) - 1);
}

const struct session_state *sessions_auth(struct sessions *ss, const struct state *st, uint64_t id, const uint8_t token[static 32],
					  struct live **ret_live)
{
	static const uint8_t nobody[32];
	const struct session_state *who = state_session(st, id);
	struct live *lv = sessions_get(ss, id);
	uint8_t hash[32];
	bool same;

	session_token_hash(token, hash);
	same = sodium_memcmp(hash, who ? who->token_hash : nobody, sizeof(hash)) == 0;
	if (!who || !lv || !same)
		return NULL;
	*ret_live = lv;
	return who;
}

void sessions_renew(struct live *lv, int64_t lease_ns, int64_t now)
{
	lv->lease_until = add_sat(now, lease_ns);
}

bool sessions_next_stale(struct sessions *ss, const struct state *st, int64_t now, uint64_t *ret_id)
{
	while (ss->heap_n && ss->heap[0].at <= now) {
		struct lease_end top = ss->heap[0];
		const struct session_state *who = state_session(st, top.id);
		const struct live *lv = sessions_get(ss, top.id);
		int64_t until;

		heap_pop(ss);
		if (!lv || !who || who->end != SESSION_LIVE)
			continue;
		until = lv->lease_until > who->latest_reservation ? lv->lease_until : who->latest_reservation;
		/* back either way: the entry that ends the session may yet fail */
		heap_push(ss, (struct lease_end){ until > now ? until : add_sat(now, NANO), top.id });
		if (until <= now) {
			*ret_id = top.id;
			return true;
		}
	}
	return false;
}

int64_t sessions_next_lease(const struct sessions *ss)
{
	return ss->heap_n ? ss->heap[0].at : INT64_MAX;
}

enum reason_code session_end_reason(enum session_end end)
{
	return end == SESSION_ENDED_STALE ? REASON_STALE_SESSION : end == SESSION_ENDED_ABORT ? REASON_SESSION_ABORTED : REASON_SESSION_CLOSED;
}
