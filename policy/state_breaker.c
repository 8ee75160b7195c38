/* policy/state_breaker.c - rows of circuit breakers. An entry brings them whole, as they are after it; a row that says no more
 * than no row would is not kept. Those of a session die with it. */
#include "policy/state_int.h"

static uint64_t break_hash(const struct state *st, const struct breaker_row *key)
{
	uint64_t h = short_hash(key->id) + 3 * short_hash(key->owner) +
		     5 * mix64(key->session * 16 + (uint64_t)key->scope * 2 + key->would);

	return mix64(key->tool.n ? h + text_hash(st, key->tool) : h);
}

uint64_t break_row_hash(const struct state *st, uint32_t h)
{
	return break_hash(st, &break_at(st, h)->pub);
}

bool break_key_eq(const struct breaker_row *a, const struct breaker_row *b)
{
	return a->scope == b->scope && a->session == b->session && a->would == b->would && str_eq(a->id, b->id) && str_eq(a->owner, b->owner) &&
	       str_eq(a->tool, b->tool);
}

uint32_t find_break(const struct state *st, const struct breaker_row *key)
{
	uint32_t h;

	if (!st->by_break.n)
		return 0;
	for (uint32_t at = index_start(&st->by_break, break_hash(st, key)); (h = index_next(&st->by_break, &at)) != 0;)
		if (break_key_eq(&break_at(st, h)->pub, key))
			return h;
	return 0;
}

const struct breaker_row *state_breaker(const struct state *st, const struct breaker_row *key)
{
	uint32_t h = find_break(st, key);

	return h ? &break_at(st, h)->pub : NULL;
}

const struct breaker_row *state_breaker_next(const struct state *st, uint32_t *at)
{
	uint32_t h = *at ? break_at(st, *at)->next : st->list.breaks_first;

	if (!h)
		return NULL;
	*at = h;
	return &break_at(st, h)->pub;
}

bool state_breaker_fits(const struct state *st, const struct breaker_row *key)
{
	size_t n = 0;

	if (find_break(st, key))
		return true;
	for (uint32_t h = st->list.breaks_first; h && n < PAWL_MAX_NAMES; h = break_at(st, h)->next) {
		const struct breaker_row *b = &break_at(st, h)->pub;

		n += b->tool.n && b->scope == key->scope && b->session == key->session && str_eq(b->id, key->id) && str_eq(b->owner, key->owner);
	}
	return n < PAWL_MAX_NAMES;
}

const struct breaker_row *entry_breakers(const struct entry *e, size_t *ret_n)
{
	*ret_n = 0;
	switch (e->kind) {
	case ENTRY_SESSION:
		*ret_n = e->session.n_breakers;
		return e->session.breakers;
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		*ret_n = e->decision.n_breakers;
		return e->decision.breakers;
	case ENTRY_SETTLE:
		*ret_n = e->settle.n_breakers;
		return e->settle.breakers;
	case ENTRY_RESOLVE:
		*ret_n = e->resolve.n_breakers;
		return e->resolve.breakers;
	case ENTRY_LOSS:
		*ret_n = e->loss.n_breakers;
		return e->loss.breakers;
	case ENTRY_WATCH:
		*ret_n = e->watch.n_breakers;
		return e->watch.breakers;
	case ENTRY_BREAKER:
		*ret_n = 1;
		return &e->breaker.row;
	case ENTRY_START:
	case ENTRY_STOP:
	case ENTRY_POLICY:
	case ENTRY_KEY:
	case ENTRY_TIMEOUT:
	case ENTRY_THROTTLE:
	case ENTRY_SNAPSHOT:
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	return NULL;
}

/* ---- changes ---- */

bool break_reserve(struct state *st, const struct breaker_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!text_reserve(st, rows[i].id) || !text_reserve(st, rows[i].owner) || !text_reserve(st, rows[i].tool))
			return false;
	return pool_reserve(&st->breaks, n) && index_reserve(st, &st->by_break, n, break_row_hash);
}

bool break_says_nothing(const struct breaker_row *row)
{
	return row->mode == BREAKER_CLOSED && row->generation == 0 && row->until == 0 && row->n_fails == 0 && row->n_denies == 0 &&
	       row->n_breaches == 0;
}

void break_free(struct state *st, uint32_t h)
{
	struct break_row *b = break_at(st, h);

	if (b->session_row) {
		uint32_t *link = &session_at(st, b->session_row)->breakers;

		while (*link != h)
			link = &break_at(st, *link)->session_next;
		*link = b->session_next;
	}
	UNLINK(st, break, st->list.breaks_first, st->list.breaks_last, prev, next, b);
	(void)index_remove(st, &st->by_break, break_row_hash, h);
	text_drop(st, b->pub.id);
	text_drop(st, b->pub.owner);
	text_drop(st, b->pub.tool);
	pool_give(&st->breaks, h);
}

void break_link(struct state *st, uint32_t h)
{
	struct break_row *b = break_at(st, h);

	if (b->session_row) {
		b->session_next = session_at(st, b->session_row)->breakers;
		session_at(st, b->session_row)->breakers = h;
	}
	b->prev = st->list.breaks_last;
	APPEND(st, break, st->list.breaks_first, st->list.breaks_last, next, h);
	index_put(&st->by_break, break_row_hash(st, h), h);
}

static uint32_t break_get(struct state *st, const struct breaker_row *key, uint32_t session)
{
	uint32_t h = pool_take(&st->breaks);
	struct break_row *b = break_at(st, h);

	b->pub.id = text_ref(st, key->id);
	b->pub.owner = text_ref(st, key->owner);
	b->pub.tool = text_ref(st, key->tool);
	b->pub.scope = key->scope;
	b->pub.session = key->session;
	b->pub.would = key->would;
	b->session_row = session;
	break_link(st, h);
	return h;
}

/* Its twin: of the row that binds the one that shadow mode keeps, and the other way round. */
static uint32_t find_twin(const struct state *st, const struct breaker_row *row)
{
	struct breaker_row key = *row;

	key.would = !row->would;
	return find_break(st, &key);
}

void break_put(struct state *st, const struct breaker_row *row, uint64_t seq)
{
	uint32_t h = find_break(st, row), twin = row->would || st->shadow ? find_twin(st, row) : 0;
	uint32_t session = row->session ? find_session(st, row->session) : 0;
	struct breaker_row *to;

	if (row->session && (!session || session_at(st, session)->pub.end != SESSION_LIVE))
		return; /* it died with its session */
	if (!row->would && twin) /* a person has opened or reset it: what shadow mode had made of it is void */
		break_free(st, twin);
	if (break_says_nothing(row) && !(row->would && twin)) {
		if (h)
			break_free(st, h);
		return;
	}
	if (!h)
		h = break_get(st, row, session);
	to = &break_at(st, h)->pub;
	to->mode = row->mode;
	to->sticky = row->sticky;
	to->generation = row->generation;
	to->until = row->until;
	to->probe = row->probe == UINT64_MAX ? seq : row->probe;
	to->n_fails = row->n_fails;
	to->n_denies = row->n_denies;
	to->n_breaches = row->n_breaches;
	memset(to->fails, 0, sizeof(to->fails));
	memset(to->denies, 0, sizeof(to->denies));
	memset(to->breaches, 0, sizeof(to->breaches));
	memcpy(to->fails, row->fails, row->n_fails * sizeof(to->fails[0]));
	memcpy(to->denies, row->denies, row->n_denies * sizeof(to->denies[0]));
	memcpy(to->breaches, row->breaches, row->n_breaches * sizeof(to->breaches[0]));
}

void breaks_free(struct state *st, struct session_row *s)
{
	while (s->breakers)
		break_free(st, s->breakers);
}
