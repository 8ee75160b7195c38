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

struct index { /* open addressing over handles; the rows hold the keys; grown by half, since there are millions */
	uint32_t *slot;
	uint32_t cap, n;
};

struct text { /* interned bytes; a struct str in a row points at p */
	uint64_t hash;
	struct text *next_loose; /* what state_room() has reserved stays until the entry is applied */
	uint32_t refs, n, handle;
	bool loose;
	char p[];
};

struct text_row {
	uint32_t free; /* the pool's link must not lie over the pointer */
	struct text *t;
};

#define LIFE_UNITS UNIT_TIME /* money, calls, tokens: what is taken, whatever budgets there are */
_Static_assert(UNIT_MONEY == 0 && UNIT_CALLS == 1 && UNIT_TOKENS == 2 && UNIT_TIME == 3, "life totals are by unit");

struct session_row {
	struct session_state pub;
	uint32_t prev, next;                                           /* all sessions, by id */
	uint32_t root_row, parent_row, child_first, sibling_next; /* the tree; newest child first */
	uint32_t ended_next;                                           /* sessions that ended, oldest first */
	uint32_t open_first, open_last;                                /* open reservations, by id: rows of live */
	uint32_t calls, ledgers, cards, guards, sticks, breakers;      /* newest first */
	uint32_t tree;                                                 /* its processes, 0: never watched */
	uint32_t trips;                                                /* of a root, for its tree; newest first */
	/* The executions of a root's tree: ring_cap loop tokens (32 bits: two that meet can only trip the tree's own law), then as many handles
	 * of calls. ring_at: the oldest; not 0 only when PAWL_MAX_WINDOW are there. */
	uint16_t ring_n, ring_cap, ring_at;
	uint32_t *ring;
	int64_t life[LIFE_UNITS]; /* with all below it */
};

/* A session of many settled calls is mostly these rows, and there are two states: what a call needs no more once it is reported
 * lies in another row, which ends then. */
#define SEQ_MAX   ((UINT64_C(1) << 48) - 1)
#define COUNT_MAX UINT16_MAX
struct call_row {
	uint64_t seq : 48, answer : 2, outcome : 3, kind : 3, keyed : 1 /* its idempotency key leads here */,
	    reported : 1 /* the caller has said what it cost, in time or late */, polling : 1, claim : 1,
	    spent : 1 /* an approved card was used up */, priced : 1, refund : 1 /* the tool's, when this was decided */, told_error : 1;
	uint64_t settled : 48, count : 16; /* count: this execution and those before it with the same token, up to COUNT_MAX */
	uint64_t key, same;         /* first 64 bits */
	uint32_t call_hash;         /* first 32 bits: what is one call is told by key, this only finds it */
	uint32_t session_row, next; /* of the session, newest first */
	uint32_t chain;             /* the next older one with the same call id in the session */
	uint32_t tool;              /* text */
	uint32_t live;              /* 0: nothing more is known, or needed */
	/* Once it is reported, 32 bits each: what tells results apart, or errors (told_error), 0 = absent; and reports. A caller cannot make keyed
	 * digests meet, and gains nothing where they do: a law sees a repetition, and a second report is taken for the first. */
	uint32_t told, told_same;
};
_Static_assert(sizeof(struct call_row) == 64, "the row that there are most of has grown");

/* Of a call until it is reported; and then of those few of which more is to be known: a probe, a late report (what waited for the call may
 * still ask for its lease), a report with two tokens. */
struct live_row {
	int64_t decided_ns, lease_until;
	uint32_t call;
	uint32_t client; /* text */
	uint32_t holds, card;
	uint32_t open_prev, open_next, heap_at; /* until it is settled */
	uint32_t error;                         /* told: beside a result */
	bool probe;                             /* some breaker waits for it; means nothing once it is reported */
};

struct hold_row {
	int64_t amount;      /* reserved; once settled: charged */
	int64_t window_end;  /* of the window it was made in */
	int64_t price;	     /* ledger 0: the fixed cost that was in force */
	uint32_t ledger, next; /* ledger 0: money (amount) and tokens (window_end) that the life totals count; the first of its call */
	uint16_t epoch;
};

struct ledger_row {
	struct ledger_state sum;
	uint32_t session_row;         /* 0: of no session */
	uint32_t budget, owner, tool; /* text */
	uint32_t next;                /* of its session, or of those that belong to none */
	uint8_t scope, unit;
	uint16_t epoch; /* moves when the window does: an older hold has nothing to release here */
};

struct card_row {
	struct card_state pub;
	uint32_t session_row, next; /* all of the session, newest first */
	uint32_t prev_due, next_due, heap_at; /* while pending or resumed: of all sessions, by id */
};

struct guard_row {
	struct str tool;
	struct guard_state pub;
	uint32_t session_row, next;
};

struct tree_row { /* of a session that is or was watched */
	struct tree_state pub;
};

struct stick_row { /* a denial that is remembered under a session, a tree (its root) or an agent */
	uint64_t seq;
	uint32_t owner; /* session or, for STICK_AGENT, agent */
	uint32_t tool, rule, next;
	uint8_t how, at; /* at: its place in the entry */
	bool shadow;
};

struct trip_row {
	uint64_t token;
	uint32_t root_row, next;
	bool shadow;
};

struct break_row {
	struct breaker_row pub;
	uint32_t session_row, session_next;
	uint32_t prev, next; /* all, in the order in which they were first named */
};

struct agent_row {
	struct str name;
	struct agent_state pub;
	uint32_t sticks, next;
	int64_t life[LIFE_UNITS];
};

struct budget_memo { /* of the policy in force */
	int64_t limit;
	uint32_t id; /* text */
	uint8_t unit, scope;
	bool per_tool, windowed;
	uint8_t like[16];
};

struct heap_node {
	int64_t at;
	uint64_t id;
	uint32_t handle;
	enum deadline_kind kind;
};

struct view { /* what the getters of calls hand out, one place each; and where the last tree was found */
	struct call_state by_key, by_seq, open;
	uint32_t root_row;
};

#define STATE_POOLS(X)                                                                                        \
	X(text, texts)                                                                                        \
	X(session, sessions) X(call, calls) X(live, lives) X(hold, holds) X(ledger, ledgers) X(card, cards) X(guard, guards) \
	    X(tree, trees) X(stick, sticks) X(trip, trips) X(break, breaks) X(agent, agents)
#define STATE_TABLES(X)                                                                                              \
	X(by_text) X(by_session) X(by_seq) X(by_call) X(by_ledger) X(by_card) X(by_guard) X(by_same) X(by_stick) X(by_trip) \
	    X(by_break) X(by_agent)

struct state {
	uint64_t next_seq;
	int64_t now;
	bool shadow; /* the mode of the policy in force; what shadow mode remembers is there only while it is */
	uint8_t
	    hash_key[16]; /* random: table order is nobody's to choose, and nothing that can be read depends on it */
#define FIELD(kind, plural) struct pool plural;
	STATE_POOLS(FIELD)
#undef FIELD
#define FIELD(table) struct index table;
	STATE_TABLES(FIELD)
#undef FIELD
	struct heap_node *heap;
	uint32_t heap_n, heap_cap;
	struct text *loose;
	struct view *view;
	struct state_money {
		int64_t life[LIFE_UNITS]; /* of all */
		struct budget_memo budgets[PAWL_MAX_BUDGETS];
		uint32_t n_budgets;
		bool known; /* some entry has told its budgets */
	} money;
	struct state_lists {
		uint32_t sessions_first, sessions_last, ended_first, ended_last;
		uint32_t shared; /* ledgers of no session, newest first */
		uint32_t due_first, due_last; /* cards that are pending or resumed */
		uint32_t breaks_first, breaks_last;
		uint32_t agents_first, agents_last;
	} list;
};

/* Lists that are appended to, so that they stay in the order of ids. */
#define APPEND(st, kind, first, last, link, h)           \
	do {                                             \
		if (last)                                \
			kind##_at(st, last)->link = (h); \
		else                                     \
			first = (h);                     \
		last = (h);                              \
	} while (0)
/* And those that may lose any of theirs. */
#define UNLINK(st, kind, first, last, back, link, row)                                 \
	do {                                                                           \
		*((row)->back ? &kind##_at(st, (row)->back)->link : &(first)) = (row)->link; \
		*((row)->link ? &kind##_at(st, (row)->link)->back : &(last)) = (row)->back;  \
		(row)->back = (row)->link = 0;                                         \
	} while (0)

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

/* for (uint32_t at = index_start(ix, hash); (h = index_next(ix, &at)) != 0;) … compare row h … */
static inline uint32_t index_start(const struct index *ix, uint64_t hash)
{
	return (uint32_t)((hash >> 32) * ix->cap >> 32);
}
static inline uint32_t index_next(const struct index *ix, uint32_t *at)
{
	uint32_t h = ix->cap ? ix->slot[*at] : 0;

	*at = *at + 1 < ix->cap ? *at + 1 : 0;
	return h;
}

uint64_t text_hash(const struct state *st, struct str s);
bool text_reserve(struct state *st, struct str s); /* for state_room(): a later text_ref() cannot fail */
struct str text_ref(struct state *st, struct str s);
void text_drop(struct state *st, struct str s);
void text_sweep(struct state *st); /* frees what was reserved and never used */
uint32_t text_hold(struct state *st, struct str s); /* as text_ref(), for rows that keep a handle; 0 for no text */
void text_let(struct state *st, uint32_t h);
struct str text_str(const struct state *st, uint32_t h);
static inline struct text *text_of(struct str s)
{
	return (struct text *)(uintptr_t)(s.p - offsetof(struct text, p));
}

bool heap_reserve(struct state *st, size_t extra);
void heap_add(struct state *st, struct heap_node node);
void heap_remove(struct state *st, uint32_t at);

/* ---- rows ---- */
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
static inline uint64_t present8(const uint8_t *p) /* for tokens that may be absent, which is 0 */
{
	uint64_t v = first8(p);

	return v ? v : 1;
}
static inline uint32_t first4(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}
static inline uint32_t present4(const uint8_t *p)
{
	uint32_t v = first4(p);

	return v ? v : 1;
}
/* Of a call that is not reported yet: it has one. */
static inline struct live_row *call_live(const struct state *st, const struct call_row *c)
{
	return live_at(st, c->live);
}

row_hash text_row_hash, session_row_hash, seq_row_hash, call_row_hash, ledger_row_hash, card_row_hash, guard_row_hash, same_row_hash,
    stick_row_hash, trip_row_hash, break_row_hash, agent_row_hash;

/* ---- state.c ---- */
/* Names that the operator chose, budgets and agents, need no keyed hash; tools are the asker's. */
uint64_t short_hash(struct str s);
uint32_t find_session(const struct state *st, uint64_t id);
uint32_t find_root(const struct state *st, uint64_t root); /* the same, and remembers */
uint32_t find_guard(const struct state *st, uint64_t session, struct str tool);
uint32_t find_agent(const struct state *st, struct str name);
bool descends(const struct state *st, uint32_t session_row, uint32_t from);

/* ---- state_apply.c ---- */
void tree_link(struct state *st, uint32_t h, uint64_t parent);

/* ---- state_call.c ---- */
uint32_t find_seq(const struct state *st, uint64_t seq);
uint32_t find_call_chain(const struct state *st, uint64_t session, uint64_t call_hash); /* the newest */
uint32_t find_keyed(const struct state *st, uint64_t session, uint64_t call_hash, const uint8_t key[static 16]);
uint32_t call_add(struct state *st, uint32_t session, const struct entry *e);
void call_open(struct state *st, uint32_t h);
void call_close(struct state *st, uint32_t h, uint64_t seq); /* no longer open: seq ended it */
void call_told(struct state *st, uint32_t h, const struct entry_settle *s, bool late);
void calls_free(struct state *st, struct session_row *s);
/* A decision is kept as a call unless its session is over or has used up its decisions: nothing may grow there. */
bool decision_is_kept(const struct session_row *s, const struct entry_decision *d);

/* ---- state_exec.c ---- */
static inline uint32_t *ring_calls(const struct session_row *root)
{
	return root->ring + root->ring_cap;
}
/* The place of the execution that lies `back` behind the newest; back < ring_n. */
static inline uint32_t ring_place(const struct session_row *root, uint32_t back)
{
	uint32_t i = (root->ring_at ? root->ring_at : root->ring_n) + (uint32_t)root->ring_n - 1 - back;

	return i >= root->ring_n ? i - root->ring_n : i;
}
uint32_t find_same(const struct state *st, uint32_t root_row, uint64_t token);
bool exec_reserve(struct state *st, struct session_row *root);
void exec_add(struct state *st, uint32_t call, const struct entry_decision *d);

/* ---- state_ledger.c ---- */
uint32_t find_ledger(const struct state *st, const struct ledger_key *key);
struct ledger_key ledger_key_of(const struct state *st, const struct ledger_row *l);
bool ledger_is(const struct state *st, uint32_t h, const struct ledger_key *key);
bool ledger_is_same(const struct ledger_key *a, const struct ledger_key *b);
bool ledger_reserve(struct state *st, const struct ledger_key *key, size_t more); /* memory for it and `more` others */
uint32_t ledger_get(struct state *st, const struct ledger_key *key); /* reserved before, when it is new */
void ledger_free(struct state *st, uint32_t h);
/* Its window is over, or it is to have none from here on. */
void ledger_to_life(struct ledger_row *l, int64_t life, int64_t now);
/* The first hold that is a ledger's; 0: the call draws from none. */
uint32_t ledger_holds(const struct state *st, const struct call_row *c);
/* Does a hold still lie in the window of its ledger, when the window open now ends at end? */
bool hold_is_current(const struct ledger_row *l, const struct hold_row *o, int64_t end, int64_t now);
void holds_take(struct state *st, uint32_t call, const struct entry_decision *d, int64_t now);
void holds_settle(struct state *st, uint32_t call, const struct entry_settle *s, bool late, int64_t now);
void holds_charge(struct state *st, uint32_t call); /* nobody reported: what is held is charged */
void holds_free(struct state *st, uint32_t call);
void ledger_grant(struct state *st, const struct grant *g, int64_t now);

/* ---- state_reload.c ---- */
const struct entry_budgets *entry_budgets(const struct entry *e); /* NULL: it puts no policy in force, or does not say which budgets */
int room_budgets(struct state *st, const struct entry *e, struct pawl_error *err);
void budgets_apply(struct state *st, const struct entry_budgets *b, int64_t now);

/* ---- state_mode.c ---- */
int room_mode(const struct entry *e, struct pawl_error *err);
void mode_apply(struct state *st, const struct entry *e);

/* ---- state_life.c ---- */
uint32_t life_take(struct state *st, uint32_t call, const struct entry_decision *d); /* the hold that remembers it, 0 = none */
void life_settle(struct state *st, uint32_t call, const struct entry_settle *s, bool late);

/* ---- state_card.c ---- */
uint32_t find_card(const struct state *st, uint64_t session, const uint8_t token[static 16]); /* the newest */
uint32_t find_card_id(const struct state *st, uint64_t id);
static inline bool card_waits(const struct card_row *c)
{
	return c->pub.mode == CARD_PENDING || c->pub.mode == CARD_RESUMED;
}
bool card_reserve(struct state *st, const struct entry_decision *d);
uint32_t card_open(struct state *st, uint32_t session, const struct entry *e);
void card_join(struct state *st, uint32_t h, const struct entry_decision *d);
void card_mode(struct state *st, uint32_t h, enum card_mode mode);
void card_answered(struct state *st, uint32_t h, const struct entry_resolve *r);
void cards_end(struct state *st, uint32_t spent, uint64_t by); /* the other cards of the same call: by has used one */
void card_free(struct state *st, uint32_t h);

/* ---- state_denial.c ---- */
uint32_t find_trip(const struct state *st, uint32_t root_row, uint64_t token);
bool denial_reserve(struct state *st, const struct entry_decision *d);
void denial_add(struct state *st, uint32_t session, const struct entry *e);
void denials_free(struct state *st, struct session_row *s);
void denials_end_shadow(struct state *st);

/* ---- state_breaker.c ---- */
uint32_t find_break(const struct state *st, const struct breaker_row *key);
bool break_key_eq(const struct breaker_row *a, const struct breaker_row *b);
bool break_says_nothing(const struct breaker_row *row);
void break_link(struct state *st, uint32_t h); /* a row that has its key; there is place for it */
bool break_reserve(struct state *st, const struct breaker_row *rows, size_t n);
void break_free(struct state *st, uint32_t h);
void break_put(struct state *st, const struct breaker_row *row, uint64_t seq);
void breaks_free(struct state *st, struct session_row *s);

/* ---- state_room*.c ---- */
int contradiction(const struct entry *e, struct pawl_error *err, const char *what);
int no_memory(struct pawl_error *err);
bool draw_in_reach(const struct state *st, const struct session_row *who, const struct ledger_key *key);
bool ledger_key_is_sane(const struct ledger_key *key);
bool window_is_sane(const struct entry *e, int64_t end); /* none, or still open */
int room_decision(struct state *st, const struct entry *e, struct pawl_error *err);
int room_resolve(struct state *st, const struct entry *e, struct pawl_error *err);
int room_breakers(struct state *st, const struct entry *e, struct pawl_error *err);

/* ---- state_watch.c ---- */
struct tree_state state_tree_of(const struct state *st, const struct session_row *s);
int room_watch(struct state *st, const struct entry *e, struct pawl_error *err);
void watch_apply(struct state *st, const struct entry *e);

/* ---- state_forget.c ---- */
void forget_ended(struct state *st);
#endif
