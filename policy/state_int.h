/* policy/state_int.h - how struct state is laid out; for policy/state_*.c alone.
 * Rows live in pools of fixed chunks: a row never moves, so what a getter hands out stays where it is until
 * state_apply(). Rows name each other by handle (0 = none), so a copy of the chunks is a copy of the state. Text is
 * interned and counted. */
#ifndef PAWL_STATE_INT_H
#define PAWL_STATE_INT_H
#include "pawl/state.h"

#define POOL_CHUNK 64u

struct pool {
	char **chunk;
	uint32_t n_chunks, cap_chunks;
	uint32_t used;         /* handles 1 to used have been given out */
	uint32_t free, n_free; /* rows given back, linked through their first four bytes */
	uint32_t size;
};

struct index { /* open addressing over handles; the rows hold the keys */
	uint32_t *slot;
	uint32_t cap, n;
};

struct text { /* interned bytes; a struct str in a row points at p */
	uint64_t hash;
	struct text *next_loose; /* made by state_room(), not yet used by any row */
	uint32_t refs, n, handle;
	bool loose;
	char p[];
};

struct text_row {
	uint32_t free; /* the pool's link must not lie over the pointer */
	struct text *t;
};

struct session_row {
	struct session_state pub;
	uint32_t prev, next;          /* all sessions, by id */
	uint32_t root_row, tree_next; /* the tree's sessions hang on its root, by id */
	uint32_t calls_first, calls_last, open_first, open_last;
	uint32_t ledgers_first, ledgers_last, cards_first, cards_last, guards_first, guards_last;
	uint32_t ended_next; /* sessions that ended, oldest first */
	/* of a root, for its tree: */
	uint32_t same_first, same_last;
	uint32_t ring_n, ring_cap, ring_at; /* ring_at: the oldest; not 0 only when PAWL_MAX_WINDOW are there */
	uint64_t *ring;                     /* loop tokens of executions */
};

struct call_row {
	struct call_state pub;
	uint64_t call_hash;
	uint32_t session_row, next;    /* of the session, by id */
	uint32_t chain;                /* the next older one with the same call id in the session */
	uint32_t open_prev, open_next; /* the session's open reservations, by id */
	uint32_t holds, heap_at;
	bool keyed;    /* its idempotency key leads here */
	bool reported; /* the caller has said what it cost, in time or late */
};

struct hold_row {
	int64_t amount; /* reserved; once settled: charged */
	uint32_t ledger, next;
};

struct ledger_row {
	struct ledger_key key;
	struct ledger_state sum;
	enum unit unit;
	uint32_t next; /* of its session, or of those that belong to none */
};

struct card_row {
	struct card_state pub;
	uint8_t token[16];
	uint32_t session_row, prev, next, heap_at;
};

struct guard_row {
	struct str tool;
	struct guard_state pub;
	uint32_t session_row, next;
};

/* Tokens are compared by their first 64 bits: they are keyed digests, and two that meet in one tree can only trip its
 * own loop law. */
struct same_row {
	uint64_t token;
	uint32_t root_row, next;
	int64_t count;
};

struct agent_row {
	struct str name;
	struct agent_state pub;
	uint32_t next;
};

struct heap_node {
	int64_t at;
	uint64_t id;
	uint32_t handle;
	enum deadline_kind kind;
};

#define STATE_POOLS(X)                                                                                        \
	X(text, texts)                                                                                        \
	X(session, sessions) X(call, calls) X(hold, holds) X(ledger, ledgers) X(card, cards) X(guard, guards) \
	    X(same, sames) X(agent, agents)
#define STATE_TABLES(X) \
	X(by_text) X(by_session) X(by_seq) X(by_call) X(by_ledger) X(by_card) X(by_guard) X(by_same) X(by_agent)

struct state {
	uint64_t next_seq;
	int64_t now;
	uint8_t
	    hash_key[16]; /* random: table order is nobody's to choose, and nothing that can be read depends on it */
	struct pool texts, sessions, calls, holds, ledgers, cards, guards, sames, agents;
	struct index by_text, by_session, by_seq, by_call, by_ledger, by_card, by_guard, by_same, by_agent;
	struct heap_node *heap;
	uint32_t heap_n, heap_cap;
	struct text *loose;
	uint32_t sessions_first, sessions_last, ended_first, ended_last;
	uint32_t shared_first, shared_last; /* ledgers of no session */
	uint32_t agents_first, agents_last;
};

/* ---- state_pool.c ---- */
void pool_init(struct pool *p, size_t size);
void pool_done(struct pool *p);
bool pool_reserve(struct pool *p, size_t n);
uint32_t pool_take(struct pool *p); /* zeroed; reserved before */
void pool_give(struct pool *p, uint32_t h);
bool pool_copy(const struct pool *from, struct pool *to);

static inline void *pool_at(const struct pool *p, uint32_t h)
{
	return p->chunk[(h - 1) / POOL_CHUNK] + (size_t)((h - 1) % POOL_CHUNK) * p->size;
}

typedef uint64_t row_hash(const struct state *st, uint32_t h);
bool index_reserve(const struct state *st, struct index *ix, size_t extra, row_hash *hash);
void index_put(struct index *ix, uint64_t hash, uint32_t h);
void index_swap(struct index *ix, uint64_t hash, uint32_t from, uint32_t to);
bool index_remove(const struct state *st, struct index *ix, row_hash *hash, uint32_t h); /* false: it was not there */
bool index_copy(const struct index *from, struct index *to);

/* for (uint64_t at = hash; (h = index_next(ix, &at)) != 0;) … compare row h … */
static inline uint32_t index_next(const struct index *ix, uint64_t *at)
{
	return ix->cap ? ix->slot[(*at)++ & (ix->cap - 1)] : 0;
}

uint64_t text_hash(const struct state *st, struct str s);
bool text_reserve(struct state *st, struct str s); /* for state_room(): a later text_ref() cannot fail */
struct str text_ref(struct state *st, struct str s);
void text_drop(struct state *st, struct str s);
void text_sweep(struct state *st); /* frees what was reserved and never used */
static inline struct text *text_of(struct str s)
{
	return (struct text *)(uintptr_t)(s.p - offsetof(struct text, p));
}

bool heap_reserve(struct state *st, size_t extra);
void heap_add(struct state *st, struct heap_node node);
void heap_remove(struct state *st, uint32_t at);

/* ---- state.c: rows and keys ---- */
#define ROW(kind, plural)                                                              \
	static inline struct kind##_row *kind##_at(const struct state *st, uint32_t h) \
	{                                                                              \
		return pool_at(&st->plural, h);                                        \
	}
STATE_POOLS(ROW)
#undef ROW

static inline uint64_t mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	return x ^ x >> 32;
}
static inline uint64_t first8(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

row_hash text_row_hash, session_row_hash, seq_row_hash, call_row_hash, ledger_row_hash, card_row_hash, guard_row_hash,
    same_row_hash, agent_row_hash;
uint64_t ledger_hash(const struct state *st, const struct ledger_key *key);
bool ledger_key_eq(const struct ledger_key *a, const struct ledger_key *b);

uint32_t find_session(const struct state *st, uint64_t id);
uint32_t find_seq(const struct state *st, uint64_t seq);
uint32_t find_call_chain(const struct state *st, uint64_t session, uint64_t call_hash); /* the newest */
uint32_t find_keyed(const struct state *st, uint64_t session, uint64_t call_hash, const uint8_t key[static 16]);
uint32_t find_ledger(const struct state *st, const struct ledger_key *key);
uint32_t find_card(const struct state *st, uint64_t session, const uint8_t token[static 16]);
uint32_t find_card_id(const struct state *st, uint64_t session, uint64_t id);
uint32_t find_guard(const struct state *st, uint64_t session, struct str tool);
uint32_t find_same(const struct state *st, uint32_t root_row, uint64_t token);
uint32_t find_agent(const struct state *st, struct str name);

/* A decision is kept as a call unless its session is over or has used up its decisions: nothing may grow there. */
bool decision_is_kept(const struct session_row *s, const struct entry_decision *d);
#endif
