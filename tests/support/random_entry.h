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
			      .granted = dice_coin(d) ? dice_amount(d) : 0 };
}

static inline void some_settle(struct dice *d, struct entry_settle *s)
{
	s->session = dice_some_id(d);
	s->decision = dice_some_id(d);
	s->outcome = 1 + dice_below(d, OUTCOME_COUNT - 1);
	s->money_unit = dice_coin(d) ? STR("USD") : STR_NONE;
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
	dice_bytes(d, s->same, sizeof(s->same));
}

static inline void some_decision(struct dice *d, struct entry_decision *e)
{
	struct str message = dice_word(d);

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
	e->answer = dice_below(d, 4);
	e->why = (struct reason){ .code = dice_below(d, REASON_COUNT), .rule = dice_maybe(d), .has_numbers = dice_coin(d), .unit = dice_below(d, UNIT_COUNT),
				  .counter = dice_amount(d), .limit = dice_amount(d), .retry_after_ns = dice_coin(d) ? dice_amount(d) : 0,
				  .refers = dice_coin(d) ? dice_some_id(d) : 0 };
	memcpy(e->why.message, message.p, message.n);
	e->money_unit = dice_coin(d) ? STR("USD") : STR_NONE;
	e->n_draws = dice_below(d, 4) ? dice_below(d, 4) : dice_below(d, PAWL_MAX_LEDGERS + 1);
	e->draws = d->draws;
	for (size_t i = 0; i < e->n_draws; i++)
		d->draws[i] = some_draw(d);
	e->lease_until = dice_coin(d) ? dice_moment(d) : 0;
	e->card = dice_coin(d) ? dice_some_id(d) : 0;
	e->card_until = dice_moment(d);
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
	s->labels_text = dice_coin(d) ? STR("{}") : STR("{\"action\":\"close\",\"kind\":\"stop\",\"run\":\"4}2\",\"x\\\"{\":\"\xc3\xa9\"}");
	dice_bytes(d, s->token_hash, sizeof(s->token_hash));
	s->lease_ns = dice_amount(d);
	s->fresh_end = dice_coin(d) ? dice_moment(d) : 0;
	for (int u = 0; u < UNIT_COUNT; u++) {
		s->has_limit[u] = dice_coin(d);
		s->limit[u] = dice_amount(d);
	}
}

static inline void random_entry(struct dice *d, enum entry_kind kind, struct entry *e)
{
	d->n = 0;
	*e = (struct entry){ .kind = kind, .seq = dice_some_id(d), .now = dice_moment(d), .wall = dice_moment(d) };
	switch (kind) {
	case ENTRY_START:
		e->start = (struct entry_start){ .version = dice_word(d), .policy_name = dice_word(d), .policy_hash = dice_word(d), .mode = dice_word(d),
						 .fallback = dice_word(d), .judge = dice_amount(d),
						 .probes_text = dice_coin(d) ? STR("{}") : STR("{\"a\":{\"state\":\"on\",\"why\":\"}{\"}}") };
		return;
	case ENTRY_STOP:
		e->stop.why = dice_word(d);
		return;
	case ENTRY_POLICY:
		e->policy = (struct entry_policy){ dice_coin(d), dice_maybe(d), dice_maybe(d), dice_maybe(d) };
		return;
	case ENTRY_SESSION:
		some_session(d, e);
		return;
	case ENTRY_DECISION:
		some_decision(d, &e->decision);
		return;
	case ENTRY_SETTLE:
		some_settle(d, &e->settle);
		return;
	case ENTRY_TIMEOUT:
		e->timeout = (struct entry_timeout){ dice_some_id(d), dice_some_id(d) };
		return;
	case ENTRY_THROTTLE:
		e->throttle = (struct entry_throttle){ dice_word(d), dice_coin(d) ? dice_some_id(d) : 0, dice_amount(d) };
		return;
	case ENTRY_LOSS:
		e->loss = (struct entry_loss){ .what = dice_below(d, LOSS_WHAT_COUNT), .session = dice_some_id(d), .decision = dice_some_id(d), .bytes = dice_amount(d) };
		some_settle(d, &e->loss.late);
		return;
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	abort();
}

#endif
