/* policy/state_read.c - a state of the bytes that state_write.c makes: the same lists in the same order, and what follows from them.
 * The bytes are input. A count is believed one row at a time, and no table grows beyond what has come; whatever state_apply() relies on
 * is checked here, or made here from rows alone. Sessions are read in state_read_session.c, their calls in state_read_call.c. */
#include "policy/state_bytes.h"

#include <stdlib.h>

/* ---- rows ---- */

uint32_t read_row(struct bytes *b, struct pool *p)
{
	if (b->r == 0 && !pool_reserve(p, 1))
		bytes_no_memory(b);
	return b->r == 0 ? pool_take(p) : 0;
}

bool read_place(struct bytes *b, struct index *ix, uint64_t left, row_hash *hash)
{
	uint64_t some = 7 * (uint64_t)ix->n + 256;

	if (ix->n < ix->cap - ix->cap / 4)
		return b->r == 0;
	if (b->r == 0 && !index_reserve(b->st, ix, (size_t)(left < some ? left : some), hash))
		bytes_no_memory(b);
	return b->r == 0;
}

static void read_head(struct bytes *b, uint64_t *sessions, uint64_t *calls)
{
	char head[sizeof(BYTES_HEAD) - 1];

	bytes_at(b, "header", 1);
	bytes_raw(b, head, sizeof(head));
	if (memcmp(head, BYTES_HEAD, sizeof(head)) != 0)
		bytes_fault(b, "no state, or one of another version");
	row_head(b, &b->to->next_seq, &b->to->now, &b->to->shadow, sessions, calls);
}

static bool budget_fits(const struct state_money *m, uint32_t i, struct str id)
{
	for (uint32_t k = 0; k < i; k++)
		if (m->budgets[k].id == m->budgets[i].id)
			return false;
	return m->budgets[i].limit > 0 && id.p[0] != '@';
}

static void read_money(struct bytes *b)
{
	struct state_money *m = &b->to->money;
	uint32_t n;

	bytes_at(b, "totals", 1);
	row_life(b, m->life);
	m->known = bytes_get(b, 1);
	n = (uint32_t)bytes_get(b, m->known ? PAWL_MAX_BUDGETS : 0);
	for (uint32_t i = 0; i < n && b->r == 0; i++) {
		bytes_at(b, "budget", i + 1);
		row_budget(b, &m->budgets[i]);
		if (b->r == 0 && !budget_fits(m, i, text_str(b->st, m->budgets[i].id)))
			bytes_fault(b, "one that no policy can have, or that was there before");
		m->n_budgets = i + 1;
	}
}

static bool stick_fits(const struct bytes *b, const struct stick_row *k, const struct stick_row *younger, bool agent)
{
	bool tree = k->how == STICK_TREE && !agent && session_at(b->st, k->owner)->root_row == k->owner;

	if (younger && (k->seq > younger->seq || (k->seq == younger->seq && k->at >= younger->at)))
		return false;
	return k->seq < b->st->next_seq && (agent ? k->how == STICK_AGENT : k->how == STICK_SESSION || tree);
}

void read_sticks(struct bytes *b, uint32_t owner, uint32_t *list, bool agent)
{
	uint64_t n = bytes_get(b, UINT32_MAX);
	const struct stick_row *younger = NULL;

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->sticks);
		struct stick_row *k = h ? stick_at(b->st, h) : NULL;

		bytes_at(b, "denial", i + 1);
		if (!k || !read_place(b, &b->to->by_stick, n - i, stick_row_hash))
			return;
		k->owner = owner;
		row_stick(b, k);
		if (b->r == 0 && !stick_fits(b, k, younger, agent))
			bytes_fault(b, "it does not belong here");
		if (b->r < 0)
			return;
		index_put(&b->to->by_stick, stick_row_hash(b->st, h), h);
		*list = h;
		list = &k->next;
		younger = k;
	}
}

static void read_agents(struct bytes *b)
{
	struct state *st = b->to;
	uint64_t n = bytes_get(b, UINT32_MAX);

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &st->agents);
		struct agent_row *a = h ? agent_at(st, h) : NULL;

		bytes_at(b, "agent", i + 1);
		if (!a || !read_place(b, &st->by_agent, n - i, agent_row_hash))
			return;
		row_agent(b, a);
		if (b->r == 0 && (find_agent(st, a->name) || (uint64_t)a->pub.fresh > st->next_seq))
			bytes_fault(b, "it was there before, or has opened more sessions than there are entries");
		if (b->r < 0)
			return;
		APPEND(st, agent, st->list.agents_first, st->list.agents_last, next, h);
		index_put(&st->by_agent, agent_row_hash(st, h), h);
		read_sticks(b, h, &a->sticks, true);
	}
}

void read_ledgers(struct bytes *b, uint32_t session, uint32_t *list)
{
	uint64_t n = bytes_get(b, UINT32_MAX);

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->ledgers);
		struct ledger_row *l = h ? ledger_at(b->st, h) : NULL;
		struct ledger_key key;

		bytes_at(b, "ledger", i + 1);
		if (!l || !read_place(b, &b->to->by_ledger, n - i, ledger_row_hash))
			return;
		l->session_row = session;
		row_ledger(b, l);
		key = ledger_key_of(b->st, l);
		if (b->r == 0 && (!ledger_key_is_sane(&key) || find_ledger(b->st, &key)))
			bytes_fault(b, "it does not belong here, or was there before");
		if (b->r < 0)
			return;
		index_put(&b->to->by_ledger, ledger_row_hash(b->st, h), h);
		*list = h;
		list = &l->next;
	}
}

static void read_sessions(struct bytes *b, uint64_t sessions, uint64_t calls)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < sessions && b->r == 0; i++)
		read_session(b, sessions - i, &last, calls);
	if (b->st->calls.used != calls)
		bytes_fault(b, "fewer calls than there should be");
}

/* ---- what leads across sessions ---- */

/* The root's own calls come one after the other, so the next one is most often the one that is meant. */
static uint32_t exec_call(const struct state *st, uint64_t seq, uint32_t *own)
{
	while (*own && call_at(st, *own)->seq > seq)
		*own = call_at(st, *own)->next;
	return *own && call_at(st, *own)->seq == seq ? *own : find_seq(st, seq);
}

static void read_exec(struct bytes *b, uint32_t root, uint32_t at, uint64_t *last, uint32_t *own)
{
	struct session_row *s = session_at(b->st, root);
	uint64_t seq = 0;
	uint32_t repeat = 0, call;

	row_exec(b, &seq, &repeat, last);
	call = exec_call(b->st, seq, own);
	if (!call || call_at(b->st, call)->answer != VERDICT_ALLOW || session_at(b->st, call_at(b->st, call)->session_row)->root_row != root)
		bytes_fault(b, "no execution of this tree");
	s->ring[at] = repeat;
	ring_calls(s)[at] = call;
}

/* link_execution() has counted how many there must be; the ring is made here. */
static void read_execs(struct bytes *b, uint32_t root)
{
	struct session_row *s = session_at(b->st, root);
	uint64_t last = b->st->next_seq, n = bytes_get(b, PAWL_MAX_WINDOW);
	uint32_t own = s->calls;

	bytes_at(b, "executions of the tree of session", s->pub.id);
	if (n != s->ring_n)
		bytes_fault(b, "more of them, or fewer, than there are calls");
	if (b->r < 0 || n == 0)
		return;
	s->ring_cap = s->ring_n > 8 ? s->ring_n : 8;
	s->ring = malloc((size_t)s->ring_cap * 2 * sizeof(*s->ring));
	if (!s->ring)
		bytes_no_memory(b);
	for (uint32_t at = s->ring_n; at && b->r == 0; at--)
		read_exec(b, root, at - 1, &last, &own);
}

static void read_roots(struct bytes *b)
{
	for (uint32_t h = b->st->list.sessions_first; h && b->r == 0; h = session_at(b->st, h)->next)
		if (session_at(b->st, h)->root_row == h)
			read_execs(b, h);
}

static bool break_fits(const struct bytes *b, const struct break_row *k)
{
	const struct session_row *s = k->session_row ? session_at(b->st, k->session_row) : NULL;

	if (k->pub.scope == SCOPE_SESSION && (!s || s->pub.end != SESSION_LIVE))
		return false;
	if (k->pub.mode >= BREAKER_MODE_COUNT || (break_says_nothing(&k->pub) && !k->pub.would) || find_break(b->st, &k->pub))
		return false;
	return k->pub.mode == BREAKER_HALF_OPEN ? k->pub.probe && k->pub.probe < b->st->next_seq : !k->pub.probe;
}

static void read_breakers(struct bytes *b)
{
	uint64_t n = bytes_get(b, UINT32_MAX);

	for (uint64_t i = 0; i < n && b->r == 0; i++) {
		uint32_t h = read_row(b, &b->to->breaks);
		struct break_row *k = h ? break_at(b->st, h) : NULL;

		bytes_at(b, "breaker", i + 1);
		if (!k || !read_place(b, &b->to->by_break, n - i, break_row_hash))
			return;
		row_break(b, &k->pub);
		k->session_row = k->pub.session ? find_session(b->st, k->pub.session) : 0;
		if (b->r == 0 && !break_fits(b, k))
			bytes_fault(b, "it does not belong here, was there before, or says nothing");
		if (b->r == 0)
			break_link(b->to, h);
	}
}

/* ---- queues over all sessions ---- */

struct queued {
	uint64_t key;
	uint32_t h;
};

static int by_key(const void *a, const void *b)
{
	const struct queued *x = a, *y = b;

	return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->h > y->h) - (x->h < y->h);
}

/* By id, whichever session they are of. The heap has each of them. */
static size_t find_due(const struct state *st, struct queued *q)
{
	size_t n = 0;

	for (uint32_t i = 0; i < st->heap_n; i++)
		if (st->heap[i].kind == DEADLINE_CARD)
			q[n++] = (struct queued){ st->heap[i].id, st->heap[i].handle };
	return n;
}

/* A tree goes when its root has lingered; sessions below one mean nothing to the queue. Those of one moment go together. */
static size_t find_ended(const struct state *st, struct queued *q)
{
	size_t n = 0;

	for (uint32_t h = st->list.sessions_first; h; h = session_at(st, h)->next)
		if (session_at(st, h)->root_row == h && session_at(st, h)->pub.end != SESSION_LIVE)
			q[n++] = (struct queued){ (uint64_t)session_at(st, h)->pub.ended_ns, h };
	return n;
}

static void make_queues(struct bytes *b)
{
	struct state *st = b->to;
	size_t most = st->heap_n > st->sessions.used ? st->heap_n : st->sessions.used, n;
	struct queued *q = b->r == 0 ? malloc((most + 1) * sizeof(*q)) : NULL;

	if (!q) {
		bytes_no_memory(b);
		return;
	}
	n = find_due(st, q);
	qsort(q, n, sizeof(*q), by_key);
	for (size_t i = 0; i < n; i++) {
		card_at(st, q[i].h)->prev_due = st->list.due_last;
		APPEND(st, card, st->list.due_first, st->list.due_last, next_due, q[i].h);
	}
	n = find_ended(st, q);
	qsort(q, n, sizeof(*q), by_key);
	for (size_t i = 0; i < n; i++)
		APPEND(st, session, st->list.ended_first, st->list.ended_last, ended_next, q[i].h);
	free(q);
}

static void read_all(struct bytes *b)
{
	uint64_t sessions = 0, calls = 0;

	read_head(b, &sessions, &calls);
	read_money(b);
	read_agents(b);
	read_ledgers(b, 0, &b->to->list.shared);
	read_sessions(b, sessions, calls);
	read_roots(b);
	read_breakers(b);
	if (b->r == 0 && !bytes_are_over(b))
		bytes_fault(b, "more follows");
	make_queues(b);
}

int state_read(state_source *source, void *arg, struct state **ret, struct pawl_error *err)
{
	struct bytes b = { .size = BYTES_IN, .row = "", .err = err, .source = source, .arg = arg };

	b.r = state_new(&b.to, err);
	if (b.r < 0)
		return b.r;
	b.st = b.to;
	b.buf = malloc(b.size);
	if (b.buf)
		read_all(&b);
	else
		bytes_no_memory(&b);
	free(b.buf);
	if (b.r < 0) {
		state_free(b.to);
		return b.r;
	}
	text_sweep(b.to);
	*ret = b.to;
	return 0;
}
