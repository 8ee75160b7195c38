/* daemon/store/projection_ledger.c - which ledgers the entries of a transaction have touched, and their rows, which are numbers of the
 * state. A ledger that a thousand calls drew from is written once. When it is not known which, or there are too many, all are. */
#include "daemon/store/projection_int.h"

#include "daemon/log/entry.h"

static uint64_t add_hash(uint64_t h, const void *p, size_t n)
{
	const uint8_t *at = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return (h ^ n) * UINT64_C(0x100000001b3);
}

static uint64_t key_hash(const struct ledger_key *k)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) + k->session * 64 + (uint64_t)k->scope * 8 + (uint64_t)k->unit;

	h = add_hash(h, k->budget.p, k->budget.n);
	h = add_hash(h, k->owner.p, k->owner.n);
	h = add_hash(h, k->tool.p, k->tool.n);
	return h ^ h >> 32;
}

static bool key_eq(const struct ledger_key *a, const struct ledger_key *b)
{
	return a->scope == b->scope && a->unit == b->unit && a->session == b->session && str_eq(a->budget, b->budget) &&
	       str_eq(a->owner, b->owner) && str_eq(a->tool, b->tool);
}

void marks_clear(struct marks *m, bool all)
{
	if (m->n)
		memset(m->slot, 0, sizeof(m->slot));
	m->n = m->n_expired = 0;
	m->all = all;
}

static struct str keep(char **at, struct str s)
{
	char *p = *at;

	if (!s.n)
		return STR_NONE;
	memcpy(p, s.p, s.n);
	*at += s.n;
	return (struct str){ p, s.n };
}

void mark_ledger(struct projection *p, const struct ledger_key *key)
{
	struct marks *m = p->marks;
	uint32_t at = (uint32_t)(key_hash(key) % PAWL_LEN(m->slot));
	struct mark *row;
	char *text;

	if (m->all || key->unit == UNIT_TIME) /* time passes by itself: no ledger keeps it */
		return;
	for (; m->slot[at]; at = (at + 1) % PAWL_LEN(m->slot))
		if (key_eq(&m->rows[m->slot[at] - 1].key, key))
			return;
	if (m->n == MAX_MARKS || key->budget.n + key->owner.n + key->tool.n > MARK_TEXT) {
		m->all = true;
		return;
	}
	row = &m->rows[m->n++];
	m->slot[at] = m->n;
	text = row->text;
	row->key = *key;
	row->key.budget = keep(&text, key->budget);
	row->key.owner = keep(&text, key->owner);
	row->key.tool = keep(&text, key->tool);
}

void mark_expired(struct projection *p, uint64_t decision)
{
	struct marks *m = p->marks;

	if (m->n_expired == MAX_MARKS)
		m->all = true;
	else
		m->expired[m->n_expired++] = decision;
}

/* What it held was charged to ledgers that no entry named. A call that was reported since has its report's; one that the state has
 * forgotten cannot say any more. */
static void mark_held(struct projection *p, const struct state *st, uint64_t decision)
{
	struct draw draws[PAWL_MAX_LEDGERS];
	size_t n = state_holds(st, decision, draws, PAWL_LEN(draws));

	if (!state_decision(st, decision) || n > PAWL_LEN(draws))
		p->marks->all = true;
	for (size_t i = 0; i < n && i < PAWL_LEN(draws); i++)
		mark_ledger(p, &draws[i].key);
}

static bool is_shown(const struct state *st, const struct ledger_key *key)
{
	const struct session_state *who = key->session ? state_session(st, key->session) : NULL;

	return !key->session || (who && who->end == SESSION_LIVE);
}

static int write_row(struct projection *p, const struct ledger_key *k, const struct ledger_state *sum, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_LEDGER);

	put_text(&u, k->budget);
	put_word(&u, projection_units[k->unit]);
	put_word(&u, scope_name(k->scope));
	put_u64(&u, k->session);
	put_text(&u, k->owner);
	put_text(&u, k->tool);
	put_int(&u, sum->spent);
	put_int(&u, sum->reserved);
	put_int(&u, sum->granted);
	put_opt(&u, sum->window_end != 0, sum->window_end);
	return put_end(&u, err);
}

static int write_all(struct projection *p, const struct state *st, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_LEDGERS_CLEAR);
	struct ledger_key key;
	struct ledger_state sum;
	int r = put_end(&u, err);

	for (uint32_t at = 0; r == 0 && state_ledger_next(st, &at, &key, &sum);)
		if (is_shown(st, &key))
			r = write_row(p, &key, &sum, err);
	return r;
}

int ledgers_write(struct projection *p, const struct state *st, struct pawl_error *err)
{
	struct marks *m = p->marks;
	int r = 0;

	for (uint32_t i = 0; i < m->n_expired && !m->all; i++)
		mark_held(p, st, m->expired[i]);
	if (m->all)
		return write_all(p, st, err);
	for (uint32_t i = 0; r == 0 && i < m->n; i++) {
		const struct ledger_key *key = &m->rows[i].key;
		struct ledger_state sum = state_ledger(st, key, INT64_MIN); /* whatever has become of its window: as it is kept */

		if (is_shown(st, key)) /* those of a session that has ended went with it */
			r = write_row(p, key, &sum, err);
	}
	return r;
}
