/* policy/state_bytes.h - one walk over the bytes of a state, in either direction; for policy/state_{bytes,row,write,read*,digest}.c alone.
 * A field is passed by the same call both ways: `x = bytes_n(b, x, max)` writes x and hands it back, or reads it. So one
 * function for each kind of row (state_row.c) says its fields, their order and their bounds once, for writer and reader.
 * The first thing that goes wrong stays in b->r; from then on nothing is written, and what is read is 0. */
#ifndef PAWL_STATE_BYTES_H
#define PAWL_STATE_BYTES_H
#include "policy/state_int.h"

#define BYTES_HEAD  "pawl/state/v6\n"
#define BYTES_HEAD5 "pawl/state/v5\n" /* without rows of what runs under watch: digests in logs of before there were any */
#define BYTES_OUT   (16u << 10) /* what the sink gets at once; on the stack, since a digest cannot fail */
#define BYTES_IN    (64u << 10)
#define BYTES_FRESH 16u /* texts that are named by their place among those passed last */
_Static_assert(PAWL_MAX_BODY <= BYTES_IN, "a text of an entry is read in one piece");

struct bytes {
	const struct state *st;
	struct state *to; /* reading: the same state; NULL: writing */
	bool v5;	  /* writing: in the form before this one */
	uint8_t *buf;
	size_t at, end, size; /* writing: at bytes wait; reading: those from at to end have come */
	uint64_t gone;	      /* bytes before buf[0] */
	uint32_t fresh[BYTES_FRESH], n_fresh; /* texts by handle, the last one first */
	const char *row;		      /* where we are: what, and the how manieth of its list */
	uint64_t nth;
	int r;
	struct pawl_error *err;
	state_sink *sink;
	state_source *source;
	void *arg;
};

/* ---- state_write.c ---- */
int state_write_form(const struct state *st, bool v5, state_sink *sink, void *arg, struct pawl_error *err);

/* ---- state_bytes.c ---- */
void bytes_fault(struct bytes *b, const char *what); /* PAWL_E_TAMPERED with the place */
void bytes_no_memory(struct bytes *b);
void bytes_flush(struct bytes *b);
bool bytes_fill(struct bytes *b, size_t n); /* n <= BYTES_IN bytes are there; false: a fault */
bool bytes_are_over(struct bytes *b);	    /* reading: nothing follows */
uint64_t bytes_get(struct bytes *b, uint64_t max);
void bytes_raw(struct bytes *b, void *p, size_t n);
int64_t bytes_time(struct bytes *b, int64_t t); /* 0 or a time of the log */
/* must: it cannot be absent. What was read is held by the caller. */
uint32_t bytes_text(struct bytes *b, uint32_t h, bool must);
struct str bytes_str(struct bytes *b, struct str s, bool must);
/* The next id of a list that goes from the newest to the oldest; *last moves down to it. */
uint64_t bytes_below(struct bytes *b, uint64_t id, uint64_t *last);

/* A number, 7 bits a byte, the lowest first. */
static inline uint64_t bytes_n(struct bytes *b, uint64_t v, uint64_t max)
{
	uint64_t left = v;

	if (b->to)
		return bytes_get(b, max);
	if (b->size - b->at < 10)
		bytes_flush(b);
	for (; left >= 0x80; left >>= 7)
		b->buf[b->at++] = (uint8_t)(left | 0x80);
	b->buf[b->at++] = (uint8_t)left;
	return v;
}

static inline int64_t bytes_amount(struct bytes *b, int64_t v) /* never negative */
{
	return (int64_t)bytes_n(b, (uint64_t)v, INT64_MAX);
}

static inline uint64_t bytes_token(struct bytes *b, uint64_t v) /* any 64 bits, as 8 bytes */
{
	uint8_t p[8];

	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	bytes_raw(b, p, sizeof(p));
	v = 0;
	for (int i = 0; i < 8; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

static inline uint32_t bytes_token4(struct bytes *b, uint32_t v) /* the first 32 bits of one, as 4 bytes */
{
	uint8_t p[4];

	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	bytes_raw(b, p, sizeof(p));
	v = 0;
	for (int i = 0; i < 4; i++)
		v |= (uint32_t)p[i] << 8 * i;
	return v;
}

static inline void bytes_at(struct bytes *b, const char *row, uint64_t nth)
{
	b->row = row;
	b->nth = nth;
}

/* ---- state_row.c: the fields of each row. What leads from row to row is not among them: the reader finds it again. ---- */
struct hold_key { /* a ledger as an open call names it: text, and how many sessions above the call's own plus one; 0 = of no session */
	uint32_t budget, owner, tool;
	uint8_t scope, unit;
	uint64_t up;
	uint16_t behind; /* windows since the hold was made */
};
struct call_more { /* what lies beside the row of a call */
	bool lives; /* it has a row of live: always until it is reported, seldom then */
	struct live_row live;
	uint64_t card; /* the one that a review opened or joined */
};
void row_head(struct bytes *b, uint64_t *next_seq, int64_t *now, bool *shadow, uint64_t *sessions, uint64_t *calls);
void row_trip(struct bytes *b, struct trip_row *t);
void row_life(struct bytes *b, int64_t life[static LIFE_UNITS]);
void row_budget(struct bytes *b, struct budget_memo *m);
void row_agent(struct bytes *b, struct agent_row *a);
void row_stick(struct bytes *b, struct stick_row *k);
void row_ledger(struct bytes *b, struct ledger_row *l);
void row_session(struct bytes *b, struct session_row *s, uint64_t *last);
void row_tree(struct bytes *b, struct tree_state *t);
void row_card(struct bytes *b, struct card_row *c, uint64_t *last);
void row_guard(struct bytes *b, struct guard_row *g);
void row_call(struct bytes *b, struct call_row *c, struct call_more *m, uint64_t *last);
void row_hold_life(struct bytes *b, struct hold_row *o);
void row_hold(struct bytes *b, struct hold_row *o, struct hold_key *key);
void row_exec(struct bytes *b, uint64_t *seq, uint32_t *repeat, uint64_t *last);
void row_break(struct bytes *b, struct breaker_row *k);

/* ---- state_read.c ---- */
/* A new row, zeroed, or 0 when something went wrong before or there is no memory. In a state that is being read a row has the handle
 * after that of the row before it. */
uint32_t read_row(struct bytes *b, struct pool *p);
/* For one more row, of `left` that are said to come: the table is made for all of them, but never for more than eight times what has come. */
bool read_place(struct bytes *b, struct index *ix, uint64_t left, row_hash *hash);
void read_sticks(struct bytes *b, uint32_t owner, uint32_t *list, bool agent);
void read_ledgers(struct bytes *b, uint32_t session, uint32_t *list);

/* ---- state_read_session.c ---- */
void read_session(struct bytes *b, uint64_t left, uint64_t *last, uint64_t calls);

/* ---- state_read_call.c ---- */
void read_calls(struct bytes *b, uint32_t session, uint64_t calls);
#endif
