/* policy/state_reload.c - what an entry that puts a policy in force does to ledgers: a renamed budget's become the new one's,
 * with all that open calls hold of them; a new budget without a window starts at what each scope has spent in its life; and
 * the budgets are remembered, for the next policy to be compared with. policy/reload.c finds all that out; here it is
 * checked and done. */
#include "policy/state_int.h"

const struct entry_budgets *entry_budgets(const struct entry *e)
{
	const struct entry_budgets *b = e->kind == ENTRY_START                      ? &e->start.budgets
				       : e->kind == ENTRY_POLICY && e->policy.loaded ? &e->policy.budgets
										     : NULL;

	return b && (b->n || b->none) ? b : NULL;
}

size_t state_budgets(const struct state *st, struct budget_row *out, bool *ret_known)
{
	*ret_known = st->money.known;
	for (uint32_t i = 0; i < st->money.n_budgets; i++) {
		const struct budget_memo *m = &st->money.budgets[i];

		out[i] = (struct budget_row){ .id = text_str(st, m->id), .unit = (enum unit)m->unit, .scope = (enum scope)m->scope,
					      .per_tool = m->per_tool, .windowed = m->windowed, .limit = m->limit };
		memcpy(out[i].like, m->like, sizeof(m->like));
	}
	return st->money.n_budgets;
}

/* ---- does the entry fit the one before it? ---- */

static bool same_ledgers(const struct budget_row *a, struct str a_id, const struct budget_row *b)
{
	return str_eq(a_id, b->id) && a->unit == b->unit && a->scope == b->scope && a->per_tool == b->per_tool;
}

static bool is_among(const struct budget_row *row, struct str id, const struct budget_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (same_ledgers(row, id, &rows[i]))
			return true;
	return false;
}

static const char *row_fault(const struct entry_budgets *b, size_t i, const struct budget_row *old, size_t n_old)
{
	const struct budget_row *row = &b->rows[i];

	if (!row->id.n || row->id.p[0] == '@' || (unsigned)row->unit >= UNIT_COUNT || (unsigned)row->scope >= SCOPE_COUNT ||
	    row->limit <= 0)
		return "a budget that no policy can have";
	for (size_t k = 0; k < i; k++)
		if (str_eq(row->id, b->rows[k].id) || (row->from.n && str_eq(row->from, b->rows[k].from)))
			return "two budgets of one name, or that take over one budget";
	if (row->life && (row->windowed || row->from.n || row->unit == UNIT_TIME))
		return "a budget that starts at its scope's life, and has a window, another's ledgers, or no sums";
	if (row->from.n && (!is_among(row, row->from, old, n_old) || is_among(row, row->from, b->rows, b->n) ||
			    is_among(row, row->id, old, n_old)))
		return "a budget takes over one that is not gone, or is not new itself";
	return NULL;
}

/* ---- new ledgers: first counted, to reserve memory, then made by the same walk ---- */

struct starter {
	struct state *st;
	const struct budget_row *row;
	int64_t now;
	size_t made; /* or, counting, how many will be */
	bool counting;
};

static void start_one(struct starter *s, struct ledger_key key, int64_t life)
{
	uint32_t h;

	if (life <= 0)
		return;
	s->made++;
	if (s->counting)
		return;
	key.budget = s->row->id;
	key.scope = s->row->scope;
	key.unit = s->row->unit;
	h = ledger_get(s->st, &key);
	ledger_to_life(ledger_at(s->st, h), life, s->now);
}

/* Of a tool in a scope no life is kept: the ledger without a window that has seen most of it tells. */
static void start_tools(struct starter *s, uint32_t first)
{
	const struct state *st = s->st;

	for (uint32_t i = first; i; i = ledger_at(st, i)->next) {
		const struct ledger_row *l = ledger_at(st, i);

		if (l->tool && l->unit == (unsigned)s->row->unit && l->scope == (unsigned)s->row->scope && !l->sum.window_end)
			start_one(s, ledger_key_of(st, l), add_sat(l->sum.spent, l->sum.reserved));
	}
}

static void start_sessions(struct starter *s)
{
	const struct state *st = s->st;

	for (uint32_t h = st->list.sessions_first; h; h = session_at(st, h)->next) {
		const struct session_row *row = session_at(st, h);

		if (row->pub.end != SESSION_LIVE)
			continue;
		if (s->row->per_tool)
			start_tools(s, row->ledgers);
		else
			start_one(s, (struct ledger_key){ .session = row->pub.id }, row->life[s->row->unit]);
	}
}

static void start_shared(struct starter *s)
{
	const struct state *st = s->st;

	if (s->row->per_tool) {
		start_tools(s, st->list.shared);
		return;
	}
	switch (s->row->scope) {
	case SCOPE_AGENT:
		for (uint32_t a = st->list.agents_first; a; a = agent_at(st, a)->next)
			start_one(s, (struct ledger_key){ .owner = agent_at(st, a)->name }, agent_at(st, a)->life[s->row->unit]);
		return;
	case SCOPE_TENANT:
		start_one(s, (struct ledger_key){ .owner = STR("local") }, st->money.life[s->row->unit]);
		return;
	case SCOPE_GLOBAL:
		start_one(s, (struct ledger_key){ .session = 0 }, st->money.life[s->row->unit]);
		return;
	case SCOPE_SESSION:
	case SCOPE_COUNT:
		return;
	}
}

static size_t start(struct state *st, const struct budget_row *row, int64_t now, bool counting)
{
	struct starter s = { .st = st, .row = row, .now = now, .counting = counting };

	if (row->scope == SCOPE_SESSION)
		start_sessions(&s);
	else
		start_shared(&s);
	return s.made;
}

int room_budgets(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_budgets *b = entry_budgets(e);
	struct budget_row old[PAWL_MAX_BUDGETS];
	size_t n_old, fresh = 0;
	const char *fault;
	bool known;

	if (!b)
		return 0;
	if (b->n > PAWL_MAX_BUDGETS || b->n_changes > PAWL_MAX_CHANGES || (b->none && b->n))
		return contradiction(e, err, "more budgets than a policy can have, or some and none");
	n_old = state_budgets(st, old, &known);
	for (size_t i = 0; i < b->n; i++) {
		fault = row_fault(b, i, old, n_old);
		if (fault)
			return contradiction(e, err, fault);
		if (!text_reserve(st, b->rows[i].id) || !text_reserve(st, STR("local")))
			return no_memory(err);
		fresh += b->rows[i].life ? start(st, &b->rows[i], e->now, true) : 0;
	}
	return pool_reserve(&st->ledgers, fresh) && index_reserve(st, &st->by_ledger, fresh, ledger_row_hash) ? 0 : no_memory(err);
}

/* ---- renames ---- */

static bool is_of(const struct state *st, const struct ledger_row *l, const struct budget_row *row)
{
	return l->unit == (unsigned)row->unit && l->scope == (unsigned)row->scope && (l->tool != 0) == row->per_tool &&
	       str_eq(text_str(st, l->budget), row->from);
}

static void leave_table(struct state *st, uint32_t first, const struct budget_row *row)
{
	for (uint32_t h = first; h; h = ledger_at(st, h)->next)
		if (is_of(st, ledger_at(st, h), row))
			(void)index_remove(st, &st->by_ledger, ledger_row_hash, h);
}

/* A ledger that was left behind under the new name, from an earlier policy, takes the old one: names change places, holds
 * lead to rows and stay. Such a row is back in the table when the walk meets it, and is done. */
static void take_name(struct state *st, uint32_t first, const struct budget_row *row)
{
	for (uint32_t h = first; h; h = ledger_at(st, h)->next) {
		struct ledger_row *l = ledger_at(st, h);
		struct ledger_key key = ledger_key_of(st, l);
		uint32_t other;

		if (!is_of(st, l, row) || find_ledger(st, &key) == h)
			continue;
		key.budget = row->id;
		other = find_ledger(st, &key);
		if (other) {
			uint32_t name = ledger_at(st, other)->budget;

			(void)index_remove(st, &st->by_ledger, ledger_row_hash, other);
			ledger_at(st, other)->budget = l->budget;
			l->budget = name;
			index_put(&st->by_ledger, ledger_row_hash(st, other), other);
		} else {
			text_let(st, l->budget);
			l->budget = text_hold(st, row->id);
		}
		index_put(&st->by_ledger, ledger_row_hash(st, h), h);
	}
}

static void move(struct state *st, uint32_t first, const struct budget_row *row)
{
	leave_table(st, first, row);
	take_name(st, first, row);
}

static void rename_ledgers(struct state *st, const struct budget_row *row)
{
	if (row->scope != SCOPE_SESSION)
		move(st, st->list.shared, row);
	for (uint32_t h = row->scope == SCOPE_SESSION ? st->list.sessions_first : 0; h; h = session_at(st, h)->next)
		move(st, session_at(st, h)->ledgers, row);
}

/* ---- all of it ---- */

static void remember(struct state *st, const struct entry_budgets *b)
{
	struct state_money *m = &st->money;
	uint32_t old[PAWL_MAX_BUDGETS], n_old = m->n_budgets;

	for (uint32_t i = 0; i < n_old; i++)
		old[i] = m->budgets[i].id;
	memset(m->budgets, 0, sizeof(m->budgets));
	for (size_t i = 0; i < b->n; i++) {
		const struct budget_row *row = &b->rows[i];
		struct budget_memo *to = &m->budgets[i];

		*to = (struct budget_memo){ .limit = row->limit, .id = text_hold(st, row->id), .unit = (uint8_t)row->unit,
					    .scope = (uint8_t)row->scope, .per_tool = row->per_tool, .windowed = row->windowed };
		memcpy(to->like, row->like, sizeof(to->like));
	}
	for (uint32_t i = 0; i < n_old; i++)
		text_let(st, old[i]);
	m->n_budgets = (uint32_t)b->n;
	m->known = true;
}

void budgets_apply(struct state *st, const struct entry_budgets *b, int64_t now)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->n; i++)
		if (b->rows[i].from.n)
			rename_ledgers(st, &b->rows[i]);
	for (size_t i = 0; i < b->n; i++)
		if (b->rows[i].life)
			(void)start(st, &b->rows[i], now, false);
	remember(st, b);
}
