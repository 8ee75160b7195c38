/* tests/support/random_entry.h - entries of every kind with random bodies: odd texts, amounts at the ends of their range, all that may be
 * absent absent half of the time. The same seed gives the same entries. All in a header, like policy_build.h. */
#ifndef PAWL_TESTS_RANDOM_ENTRY_H
#define PAWL_TESTS_RANDOM_ENTRY_H
#include "pawl/entry.h"

#include <stdlib.h>

struct dice {
	uint64_t s;
	char text[1 << 16]; /* where random texts live */
	size_t n;
	struct draw draws[PAWL_MAX_LEDGERS];
	struct charge charges[PAWL_MAX_LEDGERS];
	struct breaker_row breakers[PAWL_MAX_BREAKERS];
	struct budget_row budgets[PAWL_MAX_BUDGETS];
	struct str changes[PAWL_MAX_CHANGES];
	struct watched_program programs[PAWL_MAX_PROGRAMS];
	struct watched_dead dead[PAWL_MAX_ENDED];
};

static inline uint64_t dice_roll(struct dice *d)
{
	d->s ^= d->s << 13;
	d->s ^= d->s >> 7;
	d->s ^= d->s << 17;
	return d->s;
}

static inline unsigned dice_below(struct dice *d, unsigned n)
{
	return (unsigned)(dice_roll(d) >> 33) % n;
}

static inline bool dice_coin(struct dice *d)
{
	return dice_below(d, 2);
}

static inline struct str dice_word(struct dice *d)
{
	static const char *const parts[] = { "a", "B", "7", ".", "\"", "\\", "\n", "\t", "\x01", "\x1f", "\x7f", "/", "é", "\u2028", "𝄞", "run", "-", "_" };
	char *p = d->text + d->n;
	size_t n = 0;

	for (unsigned i = dice_below(d, 8); i; i--) {
		const char *part = parts[dice_below(d, PAWL_LEN(parts))];

		memcpy(p + n, part, strlen(part));
		n += strlen(part);
	}
	d->n += n;
	return (struct str){ p, n };
}

/* Text that lies where all random text lies, so that a copy which still borrows it can be found out. */
static inline struct str dice_put(struct dice *d, const char *z)
{
	char *p = d->text + d->n;

	d->n += strlen(z);
	memcpy(p, z, strlen(z));
	return (struct str){ p, strlen(z) };
}

static inline struct str dice_maybe(struct dice *d)
{
	return dice_coin(d) ? dice_word(d) : STR_NONE;
}

static inline int64_t dice_amount(struct dice *d)
{
	static const int64_t some[] = { 0, 1, 9, 10, 999999999, 1000000000, 1000000001, 1500000000, INT64_MAX, INT64_MAX - 1, 42, 1200 };

	return dice_coin(d) ? some[dice_below(d, PAWL_LEN(some))] : (int64_t)(dice_roll(d) >> 1) >> dice_below(d, 60);
}

static inline int64_t dice_moment(struct dice *d)
{
	return dice_coin(d) ? (int64_t)dice_roll(d) : INT64_C(1796064070123456789) + (int64_t)dice_below(d, 1000000);
}

static inline uint64_t dice_some_id(struct dice *d)
{
	return 1 + (dice_coin(d) ? dice_below(d, 100) : dice_roll(d) >> 2);
}

static inline void dice_bytes(struct dice *d, void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)dice_roll(d);
}

static inline struct draw some_draw(struct dice *d)
{
	return (struct draw){ .key = { .budget = dice_word(d), .scope = dice_below(d, SCOPE_COUNT), .session = dice_coin(d) ? dice_some_id(d) : 0,
				       .owner = dice_maybe(d), .tool = dice_maybe(d) },
			      .unit = dice_below(d, UNIT_COUNT), .amount = dice_amount(d), .used = dice_amount(d), .limit = dice_amount(d),
			      .granted = dice_coin(d) ? dice_amount(d) : 0, .window_end = dice_coin(d) ? dice_moment(d) : 0 };
}

/* Few most of the time, all that fit now and then. */
static inline size_t dice_size(struct dice *d, unsigned max)
{
	return dice_below(d, 8) ? dice_below(d, 3) : dice_below(d, max + 1);
}

static inline struct breaker_row some_breaker(struct dice *d)
{
	struct breaker_row b = { .id = dice_word(d), .owner = dice_maybe(d), .tool = dice_maybe(d), .scope = dice_below(d, SCOPE_COUNT + 1),
				 .session = dice_coin(d) ? dice_some_id(d) : 0, .mode = dice_below(d, BREAKER_MODE_COUNT), .sticky = dice_coin(d), .would = dice_coin(d),
				 .generation = dice_amount(d), .until = dice_coin(d) ? dice_moment(d) : 0,
				 .n_fails = (uint32_t)dice_size(d, PAWL_MAX_STREAK), .n_denies = (uint32_t)dice_size(d, PAWL_MAX_STREAK),
				 .n_breaches = (uint32_t)dice_size(d, PAWL_MAX_STREAK) };

	b.probe = dice_coin(d) ? 0 : dice_coin(d) ? UINT64_MAX : dice_some_id(d);
	for (uint32_t i = 0; i < b.n_fails; i++)
		b.fails[i] = dice_moment(d);
	for (uint32_t i = 0; i < b.n_denies; i++)
		b.denies[i] = dice_moment(d);
	for (uint32_t i = 0; i < b.n_breaches; i++)
		b.breaches[i] = dice_moment(d);
	return b;
}

static inline size_t some_breakers(struct dice *d, const struct breaker_row **ret)
{
	size_t n = dice_coin(d) ? 0 : dice_size(d, PAWL_MAX_BREAKERS);

	*ret = d->breakers;
	for (size_t i = 0; i < n; i++)
		d->breakers[i] = some_breaker(d);
	return n;
}

static inline void some_settle(struct dice *d, struct entry_settle *s)
{
	s->session = dice_some_id(d);
	s->decision = dice_some_id(d);
	s->outcome = 1 + dice_below(d, OUTCOME_COUNT - 1);
	s->money_unit = dice_coin(d) ? dice_put(d, "USD") : STR_NONE;
	s->n_charges = dice_below(d, 4) ? dice_below(d, 4) : dice_below(d, PAWL_MAX_LEDGERS + 1);
	s->charges = d->charges;
	for (size_t i = 0; i < s->n_charges; i++) {
		d->charges[i] = (struct charge){ .draw = some_draw(d), .reserved = dice_amount(d), .charged = dice_amount(d) };
		d->charges[i].draw.amount = 0;
	}
	s->has_money = dice_coin(d);
	s->money = dice_amount(d);
	s->has_tokens = dice_coin(d);
	s->tokens = dice_amount(d);
	s->has_result = dice_coin(d);
	s->result_bytes = dice_amount(d);
	dice_bytes(d, s->result_mac, sizeof(s->result_mac));
	s->has_error = dice_coin(d);
	s->error_kind = dice_word(d);
	dice_bytes(d, s->error_mac, sizeof(s->error_mac));
	s->returned = dice_amount(d);
	s->charged_money = dice_amount(d);
	s->charged_tokens = dice_amount(d);
	s->duration_ns = dice_coin(d) ? dice_amount(d) : -1;
	s->has_result_token = dice_coin(d);
	s->has_error_token = dice_coin(d);
	dice_bytes(d, s->result_token, sizeof(s->result_token));
	dice_bytes(d, s->error_token, sizeof(s->error_token));
	s->n_breakers = some_breakers(d, &s->breakers);
	dice_bytes(d, s->same, sizeof(s->same));
}

static inline struct reason some_reason(struct dice *d)
{
	struct reason why = { .code = dice_below(d, REASON_COUNT), .rule = dice_maybe(d), .has_numbers = dice_coin(d), .unit = dice_below(d, UNIT_COUNT),
			      .counter = dice_amount(d), .limit = dice_amount(d), .retry_after_ns = dice_coin(d) ? dice_amount(d) : 0,
			      .refers = dice_coin(d) ? dice_some_id(d) : 0 };
	struct str message = dice_word(d);

	memcpy(why.message, message.p, message.n);
	return why;
}

static inline void some_decision(struct dice *d, struct entry_decision *e)
{

	e->session = dice_some_id(d);
	e->root = dice_some_id(d);
	e->call = dice_word(d);
	e->tool = dice_word(d);
	e->model = dice_maybe(d);
	e->kind = dice_below(d, CALL_KIND_COUNT);
	dice_bytes(d, e->client, sizeof(e->client));
	e->call_hash = dice_roll(d);
	dice_bytes(d, e->key, sizeof(e->key));
	dice_bytes(d, e->card_token, sizeof(e->card_token));
	dice_bytes(d, e->same, sizeof(e->same));
	dice_bytes(d, e->repeat, sizeof(e->repeat));
	e->has_repeat = dice_coin(d);
	dice_bytes(d, e->args_mac, sizeof(e->args_mac));
	for (int i = 1; i < 4; i++) {
		e->rules[i] = dice_maybe(d);
		e->rule_failed[i] = dice_coin(d);
	}
	e->cost_known = dice_coin(d);
	e->tokens_known = dice_coin(d);
	e->money = dice_amount(d);
	e->tokens = dice_amount(d);
	e->n_paths = dice_below(d, 9);
	for (size_t i = 0; i < e->n_paths; i++)
		e->paths[i] = (struct fact_path){ dice_word(d), dice_coin(d) };
	e->call_reused = dice_coin(d);
	e->limits_ignored = dice_coin(d);
	e->asked = (struct call_limits){ .has_money = dice_coin(d), .money = dice_amount(d), .repeat = dice_coin(d) ? dice_amount(d) : 0,
					 .lease_ns = dice_coin(d) ? dice_amount(d) : 0 };
	e->claims = dice_coin(d) ? dice_some_id(d) : 0;
	e->answer = dice_below(d, 4);
	e->why = some_reason(d);
	e->shadow = dice_coin(d);
	e->would = dice_below(d, 4);
	e->would_why = some_reason(d);
	e->money_unit = dice_coin(d) ? dice_put(d, "USD") : STR_NONE;
	e->n_draws = dice_below(d, 4) ? dice_below(d, 4) : dice_below(d, PAWL_MAX_LEDGERS + 1);
	e->draws = d->draws;
	for (size_t i = 0; i < e->n_draws; i++)
		d->draws[i] = some_draw(d);
	e->lease_until = dice_coin(d) ? dice_moment(d) : 0;
	e->card = dice_coin(d) ? dice_some_id(d) : 0;
	e->card_until = dice_moment(d);
	e->n_asks = dice_size(d, PAWL_MAX_ASKS);
	for (size_t i = 0; i < e->n_asks; i++)
		e->asks[i] = (struct ask){ dice_below(d, REASON_COUNT), dice_maybe(d), dice_coin(d) ? dice_some_id(d) : 0 };
	e->spends = dice_coin(d) ? dice_some_id(d) : 0;
	e->ends_cards = dice_coin(d);
	e->n_breakers = some_breakers(d, &e->breakers);
	e->n_sticks = dice_size(d, PAWL_MAX_STICKS);
	for (size_t i = 0; i < e->n_sticks; i++)
		e->sticks[i] = (struct stick_fact){ .how = 1 + dice_below(d, STICK_COUNT - 1), .tool = dice_word(d), .rule = dice_word(d) };
	e->n_trips = dice_size(d, PAWL_MAX_PERIOD);
	dice_bytes(d, e->trips, e->n_trips * sizeof(e->trips[0]));
	e->polling = dice_coin(d);
	e->has_price = dice_coin(d);
	e->price = e->has_price ? dice_below(d, 1000) : 0;
	e->refund = dice_coin(d);
	e->has_guard_money = dice_coin(d);
	e->guard_money = dice_amount(d);
	e->guard_repeat = dice_coin(d) ? dice_amount(d) : 0;
	e->settled = dice_coin(d) ? dice_below(d, OUTCOME_COUNT) : OUTCOME_NONE;
	e->has_settled_result = dice_coin(d);
	dice_bytes(d, e->settled_result, sizeof(e->settled_result));
}

static inline void some_session(struct dice *d, struct entry *e)
{
	struct entry_session *s = &e->session;

	s->action = dice_below(d, SESSION_ACTION_COUNT);
	s->session = s->action == SESSION_OPEN ? e->seq : dice_some_id(d);
	s->root = dice_some_id(d);
	s->parent = dice_coin(d) ? dice_some_id(d) : 0;
	s->agent = dice_word(d);
	s->root_dir = dice_maybe(d);
	s->labels_text = dice_put(d, dice_coin(d) ? "{}" : "{\"action\":\"close\",\"kind\":\"stop\",\"run\":\"4}2\",\"x\\\"{\":\"\xc3\xa9\"}");
	dice_bytes(d, s->token_hash, sizeof(s->token_hash));
	s->lease_ns = dice_amount(d);
	s->fresh_end = dice_coin(d) ? dice_moment(d) : 0;
	for (int u = 0; u < UNIT_COUNT; u++) {
		s->has_limit[u] = dice_coin(d);
		s->limit[u] = dice_amount(d);
	}
	s->operator = dice_word(d);
	s->key = dice_word(d);
	s->signed_hash[0] = s->signature[63] = (uint8_t)dice_below(d, 256);
	s->reason = dice_word(d);
	s->hold_until = dice_coin(d) ? dice_moment(d) : 0;
	s->n_breakers = some_breakers(d, &s->breakers);
}

static inline void some_resolve(struct dice *d, struct entry_resolve *r)
{
	r->session = dice_some_id(d);
	r->card = dice_some_id(d);
	r->action = dice_below(d, RESOLVE_ACTION_COUNT);
	r->operator = dice_word(d);
	r->key = dice_word(d);
	r->reason = dice_word(d);
	r->money_unit = dice_coin(d) ? dice_put(d, "USD") : STR_NONE;
	r->n_grants = dice_size(d, PAWL_MAX_ASKS);
	for (size_t i = 0; i < r->n_grants; i++) {
		struct draw of = some_draw(d);

		of.key.unit = of.unit;
		r->grants[i] = (struct grant){ of.key, of.amount };
	}
	r->ends = dice_coin(d) ? dice_some_id(d) : 0;
	r->hold_until = dice_coin(d) ? dice_moment(d) : 0;
	r->n_breakers = some_breakers(d, &r->breakers);
	dice_bytes(d, r->signed_hash, sizeof(r->signed_hash));
	dice_bytes(d, r->signature, sizeof(r->signature));
}

static inline struct entry_budgets some_budgets(struct dice *d)
{
	struct entry_budgets b = { .rows = d->budgets, .n = dice_size(d, PAWL_MAX_BUDGETS), .none = dice_coin(d),
				   .changes = d->changes, .n_changes = dice_size(d, PAWL_MAX_CHANGES) };

	for (size_t i = 0; i < b.n; i++) {
		d->budgets[i] = (struct budget_row){ .id = dice_word(d), .from = dice_maybe(d), .unit = dice_below(d, UNIT_COUNT),
						     .scope = dice_below(d, SCOPE_COUNT), .per_tool = dice_coin(d), .windowed = dice_coin(d),
						     .life = dice_coin(d), .limit = dice_amount(d) };
		dice_bytes(d, d->budgets[i].like, sizeof(d->budgets[i].like));
	}
	for (size_t i = 0; i < b.n_changes; i++)
		d->changes[i] = dice_word(d);
	return b;
}

static inline void some_watch(struct dice *d, struct entry_watch *w)
{
	w->action = dice_below(d, WATCHED_ACTION_COUNT);
	w->session = dice_some_id(d);
	w->why = dice_below(d, WHY_COUNT);
	w->log_only = dice_coin(d);
	w->pid = dice_amount(d);
	w->comm = dice_maybe(d);
	w->uid = dice_amount(d);
	w->start_ns = dice_amount(d);
	w->run = dice_coin(d);
	w->tier = dice_put(d, "B");
	w->message = dice_maybe(d);
	w->n_held = dice_below(d, WATCHED_HOLD_COUNT + 1);
	for (size_t i = 0; i < w->n_held; i++)
		w->held[i] = dice_below(d, WATCHED_HOLD_COUNT);
	w->limits = (struct watched_limits){ dice_coin(d) ? dice_amount(d) : 0, dice_coin(d) ? dice_amount(d) : 0, dice_amount(d), dice_amount(d),
					     dice_coin(d) ? dice_amount(d) : 0, dice_amount(d) };
	w->programs = d->programs;
	w->n_programs = dice_size(d, PAWL_MAX_PROGRAMS);
	for (size_t i = 0; i < w->n_programs; i++) {
		d->programs[i] = (struct watched_program){ .path = dice_word(d), .path_cut = dice_coin(d), .dev = dice_roll(d), .ino = dice_roll(d),
							   .pid = dice_amount(d), .comm = dice_maybe(d), .count = dice_amount(d), .has_argv = dice_coin(d) };
		dice_bytes(d, d->programs[i].argv_mac, sizeof(d->programs[i].argv_mac));
	}
	w->unlisted = dice_coin(d) ? dice_amount(d) : 0;
	w->total = dice_amount(d);
	w->has_measured = dice_coin(d);
	w->measured = dice_amount(d);
	w->limit = dice_amount(d);
	w->events = dice_amount(d);
	w->peak = dice_amount(d);
	w->forks = dice_amount(d);
	w->execs = dice_amount(d);
	w->cpu_ns = dice_amount(d);
	w->memory_peak = dice_amount(d);
	w->wall_ns = dice_amount(d);
	w->lost = dice_amount(d);
	w->killed = dice_amount(d);
	w->dead = d->dead;
	w->n_dead = dice_size(d, PAWL_MAX_ENDED);
	for (size_t i = 0; i < w->n_dead; i++)
		d->dead[i] = (struct watched_dead){ dice_amount(d), dice_word(d) };
	w->n_breakers = some_breakers(d, &w->breakers);
}

static inline void random_entry(struct dice *d, enum entry_kind kind, struct entry *e)
{
	d->n = 0;
	*e = (struct entry){ .kind = kind, .seq = dice_some_id(d), .now = dice_moment(d), .wall = dice_moment(d) };
	switch (kind) {
	case ENTRY_START:
		e->start = (struct entry_start){ .version = dice_word(d), .policy_name = dice_word(d), .policy_hash = dice_word(d), .mode = dice_word(d),
						 .fallback = dice_word(d), .judge = dice_amount(d),
						 .probes_text = dice_put(d, dice_coin(d) ? "{}" : "{\"a\":{\"state\":\"on\",\"why\":\"}{\"}}"),
						 .budgets = some_budgets(d) };
		return;
	case ENTRY_STOP:
		e->stop.why = dice_word(d);
		return;
	case ENTRY_POLICY:
		e->policy = (struct entry_policy){ .loaded = dice_coin(d), .name = dice_maybe(d), .hash = dice_maybe(d), .message = dice_maybe(d),
						   .mode = dice_maybe(d), .budgets = some_budgets(d), .ordered = dice_coin(d) };
		if (e->policy.ordered) {
			e->policy.operator = dice_maybe(d);
			e->policy.key = dice_maybe(d);
			e->policy.reason = dice_maybe(d);
			dice_bytes(d, e->policy.signed_hash, 32);
			dice_bytes(d, e->policy.signature, 64);
		}
		return;
	case ENTRY_SESSION:
		some_session(d, e);
		return;
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		some_decision(d, &e->decision);
		return;
	case ENTRY_SETTLE:
		some_settle(d, &e->settle);
		return;
	case ENTRY_RESOLVE:
		some_resolve(d, &e->resolve);
		return;
	case ENTRY_BREAKER:
		e->breaker = (struct entry_breaker){ .operator = dice_word(d), .key = dice_word(d), .reason = dice_word(d), .row = some_breaker(d) };
		e->breaker.signed_hash[31] = e->breaker.signature[0] = (uint8_t)dice_below(d, 256);
		return;
	case ENTRY_KEY:
		e->key = (struct entry_key){ dice_coin(d), dice_word(d), dice_word(d) };
		return;
	case ENTRY_TIMEOUT:
		e->timeout = (struct entry_timeout){ dice_some_id(d), dice_some_id(d), dice_coin(d) };
		return;
	case ENTRY_THROTTLE:
		e->throttle = (struct entry_throttle){ dice_word(d), dice_coin(d) ? dice_some_id(d) : 0, dice_amount(d) };
		return;
	case ENTRY_SNAPSHOT:
		e->snapshot = (struct entry_snapshot){ .at = dice_amount(d), .bytes = dice_amount(d) };
		dice_bytes(d, e->snapshot.sha256, sizeof(e->snapshot.sha256));
		return;
	case ENTRY_LOSS:
		e->loss = (struct entry_loss){ .what = dice_below(d, LOSS_WHAT_COUNT), .session = dice_some_id(d), .decision = dice_some_id(d), .bytes = dice_amount(d) };
		some_settle(d, &e->loss.late);
		e->loss.breakers = e->loss.late.breakers;
		e->loss.n_breakers = e->loss.late.n_breakers;
		return;
	case ENTRY_WATCH:
		some_watch(d, &e->watch);
		return;
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	abort();
}

#endif
