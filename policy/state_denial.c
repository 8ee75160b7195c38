/* policy/state_denial.c - denials that stay: names under a session, a tree or an agent, and calls that were members of a
 * tripped cycle. Those of an agent outlive its sessions. */
#include "policy/state_int.h"

/* Sessions and agents are numbered apart. */
static uint64_t stick_hash(bool agent, uint32_t owner, uint64_t name_hash)
{
	return mix64(name_hash + ((uint64_t)owner << 1 | agent));
}

uint64_t stick_row_hash(const struct state *st, uint32_t h)
{
	const struct stick_row *k = stick_at(st, h);

	return stick_hash(k->how == STICK_AGENT, k->owner, text_at(st, k->tool)->t->hash);
}

uint64_t trip_row_hash(const struct state *st, uint32_t h)
{
	return mix64(trip_at(st, h)->token + trip_at(st, h)->root_row);
}

/* ---- questions ---- */

uint32_t find_trip(const struct state *st, uint32_t root_row, uint64_t token)
{
	uint32_t h;

	if (!st->by_trip.n)
		return 0;
	for (uint32_t at = index_start(&st->by_trip, mix64(token + root_row)); (h = index_next(&st->by_trip, &at)) != 0;)
		if (trip_at(st, h)->root_row == root_row && trip_at(st, h)->token == token)
			return h;
	return 0;
}

bool state_tripped(const struct state *st, uint64_t root, const uint8_t same[static 16])
{
	uint32_t r = st->by_trip.n ? find_session(st, root) : 0;

	return r && find_trip(st, r, first8(same)) != 0;
}

static bool is_older(const struct stick_row *a, const struct stick_row *b)
{
	return a->seq != b->seq ? a->seq < b->seq : a->at < b->at;
}

/* The oldest under this owner, whatever order the table has. */
static uint32_t stick_under(const struct state *st, bool agent, uint32_t owner, struct str name, uint64_t name_hash)
{
	uint32_t h, best = 0;

	for (uint32_t at = index_start(&st->by_stick, stick_hash(agent, owner, name_hash)); (h = index_next(&st->by_stick, &at)) != 0;) {
		const struct stick_row *k = stick_at(st, h);

		if (k->owner == owner && (k->how == STICK_AGENT) == agent && str_eq(text_str(st, k->tool), name) &&
		    (!best || is_older(k, stick_at(st, best))))
			best = h;
	}
	return best;
}

/* A tree's denials hang on its root, which every session of the tree descends from. */
struct str state_denied(const struct state *st, const struct session_state *who, struct str name)
{
	uint64_t name_hash;
	uint32_t h = 0, agent;

	if (!st->by_stick.n)
		return STR_NONE;
	name_hash = text_hash(st, name);
	for (uint32_t s = find_session(st, who->id); s && !h; s = session_at(st, s)->parent_row)
		if (session_at(st, s)->sticks)
			h = stick_under(st, false, s, name, name_hash);
	agent = h ? 0 : find_agent(st, who->agent);
	if (agent && agent_at(st, agent)->sticks)
		h = stick_under(st, true, agent, name, name_hash);
	return h ? text_str(st, stick_at(st, h)->rule) : STR_NONE;
}

bool state_stick_fits(const struct state *st, struct str agent, struct str tool)
{
	uint32_t a = find_agent(st, agent);
	size_t n = 0;

	if (!a || stick_under(st, true, a, tool, text_hash(st, tool)))
		return true;
	for (uint32_t h = agent_at(st, a)->sticks; h && n < PAWL_MAX_NAMES; h = stick_at(st, h)->next)
		n++;
	return n < PAWL_MAX_NAMES;
}

bool state_denial_next(const struct state *st, const struct session_state *who, uint32_t *at, struct stick_fact *ret)
{
	uint32_t h = 0, n = 0, s, agent = find_agent(st, who->agent);

	for (s = find_session(st, who->id); s && !h; s = session_at(st, s)->parent_row)
		for (h = session_at(st, s)->sticks; h && n++ < *at;)
			h = stick_at(st, h)->next;
	if (!h && agent)
		for (h = agent_at(st, agent)->sticks; h && n++ < *at;)
			h = stick_at(st, h)->next;
	if (!h)
		return false;
	++*at;
	*ret = (struct stick_fact){ .how = (enum stick)stick_at(st, h)->how,
				    .would = stick_at(st, h)->shadow,
				    .tool = text_str(st, stick_at(st, h)->tool),
				    .rule = text_str(st, stick_at(st, h)->rule) };
	return true;
}

/* ---- changes ---- */

bool denial_reserve(struct state *st, const struct entry_decision *d)
{
	for (size_t i = 0; i < d->n_sticks; i++)
		if (!text_reserve(st, d->sticks[i].tool) || !text_reserve(st, d->sticks[i].rule))
			return false;
	return pool_reserve(&st->sticks, d->n_sticks) && index_reserve(st, &st->by_stick, d->n_sticks, stick_row_hash) &&
	       pool_reserve(&st->trips, d->n_trips) && index_reserve(st, &st->by_trip, d->n_trips, trip_row_hash);
}

static bool is_known(const struct state *st, uint32_t owner, const struct stick_fact *k)
{
	bool agent = k->how == STICK_AGENT;
	uint32_t h;

	for (uint32_t at = index_start(&st->by_stick, stick_hash(agent, owner, text_hash(st, k->tool))); (h = index_next(&st->by_stick, &at)) != 0;) {
		const struct stick_row *s = stick_at(st, h);

		if (s->owner == owner && s->how == (unsigned)k->how && str_eq(text_str(st, s->tool), k->tool) && str_eq(text_str(st, s->rule), k->rule))
			return true;
	}
	return false;
}

static void stick_add(struct state *st, uint32_t owner, uint32_t *list, const struct entry *e, size_t at)
{
	const struct stick_fact *k = &e->decision.sticks[at];
	struct stick_row *row;
	uint32_t h;

	if (is_known(st, owner, k))
		return;
	h = pool_take(&st->sticks);
	row = stick_at(st, h);
	*row = (struct stick_row){ .seq = e->seq, .owner = owner, .next = *list, .how = (uint8_t)k->how, .at = (uint8_t)at,
				   .shadow = e->decision.shadow };
	row->tool = text_hold(st, k->tool);
	row->rule = text_hold(st, k->rule);
	*list = h;
	index_put(&st->by_stick, stick_row_hash(st, h), h);
}

void denial_add(struct state *st, uint32_t session, const struct entry *e)
{
	const struct entry_decision *d = &e->decision;
	struct session_row *s = session_at(st, session), *root = session_at(st, s->root_row);

	for (size_t i = 0; i < d->n_sticks; i++) {
		const struct stick_fact *k = &d->sticks[i];
		uint32_t agent = find_agent(st, s->pub.agent);

		if (k->how == STICK_AGENT)
			stick_add(st, agent, &agent_at(st, agent)->sticks, e, i);
		else if (k->how == STICK_TREE)
			stick_add(st, s->root_row, &root->sticks, e, i);
		else
			stick_add(st, session, &s->sticks, e, i);
	}
	for (size_t i = 0; i < d->n_trips; i++) {
		uint64_t token = first8(d->trips[i]);
		uint32_t h;

		if (find_trip(st, s->root_row, token))
			continue;
		h = pool_take(&st->trips);
		*trip_at(st, h) = (struct trip_row){ .token = token, .root_row = s->root_row, .next = root->trips, .shadow = d->shadow };
		root->trips = h;
		index_put(&st->by_trip, trip_row_hash(st, h), h);
	}
}

static void stick_free(struct state *st, uint32_t h)
{
	(void)index_remove(st, &st->by_stick, stick_row_hash, h);
	text_let(st, stick_at(st, h)->tool);
	text_let(st, stick_at(st, h)->rule);
	pool_give(&st->sticks, h);
}

static void trip_free(struct state *st, uint32_t h)
{
	(void)index_remove(st, &st->by_trip, trip_row_hash, h);
	pool_give(&st->trips, h);
}

void denials_free(struct state *st, struct session_row *s)
{
	for (uint32_t h = s->sticks, next; h; h = next) {
		next = stick_at(st, h)->next;
		stick_free(st, h);
	}
	for (uint32_t h = s->trips, next; h; h = next) {
		next = trip_at(st, h)->next;
		trip_free(st, h);
	}
	s->sticks = s->trips = 0;
}

/* ---- the end of shadow mode ---- */

static void sticks_end_shadow(struct state *st, uint32_t *link)
{
	while (*link) {
		uint32_t h = *link;

		if (!stick_at(st, h)->shadow) {
			link = &stick_at(st, h)->next;
			continue;
		}
		*link = stick_at(st, h)->next;
		stick_free(st, h);
	}
}

static void trips_end_shadow(struct state *st, uint32_t *link)
{
	while (*link) {
		uint32_t h = *link;

		if (!trip_at(st, h)->shadow) {
			link = &trip_at(st, h)->next;
			continue;
		}
		*link = trip_at(st, h)->next;
		trip_free(st, h);
	}
}

void denials_end_shadow(struct state *st)
{
	for (uint32_t h = st->list.sessions_first; h; h = session_at(st, h)->next) {
		sticks_end_shadow(st, &session_at(st, h)->sticks);
		trips_end_shadow(st, &session_at(st, h)->trips);
	}
	for (uint32_t h = st->list.agents_first; h; h = agent_at(st, h)->next)
		sticks_end_shadow(st, &agent_at(st, h)->sticks);
}
