/* policy/decision.c - from a judgement to the entry that states it. Owns nothing; borrows everything for as long as the
 * entry is used. */
#include "policy/laws.h"

static void copy_facts(const struct policy *pol, const struct facts *f, struct entry_decision *d)
{
	d->session = f->session;
	d->root = f->root;
	d->tool = f->tool;
	d->kind = f->kind;
	memcpy(d->client, f->client, sizeof(d->client));
	d->call_hash = f->call_hash;
	memcpy(d->key, f->key, sizeof(d->key));
	memcpy(d->card_token, f->card, sizeof(d->card_token));
	memcpy(d->same, f->same, sizeof(d->same));
	d->has_repeat = pol->repeat.on;
	if (d->has_repeat)
		memcpy(d->repeat, f->repeat, sizeof(d->repeat));
	for (enum verdict v = VERDICT_ALLOW; v <= VERDICT_DENY; v++)
		if (f->hit[v].rule >= 0) {
			d->rules[v] = pol->rules[f->hit[v].rule].id;
			d->rule_failed[v] = f->hit[v].by_failure;
		}
	d->cost_known = f->cost_known;
	d->money = f->cost_known ? f->money : 0;
	d->tokens_known = f->tokens_known;
	d->tokens = f->tokens_known ? f->tokens : 0;
	memcpy(d->paths, f->paths, sizeof(d->paths));
	d->n_paths = f->n_paths;
	d->asked = f->limits;
}

/* Everybody waits for a probe: the lease that its caller asked for must not keep a breaker shut. */
static bool is_probe(const struct judgement *j)
{
	for (size_t i = 0; i < j->n_breakers; i++)
		if (j->breakers[i].probe == UINT64_MAX)
			return true;
	return false;
}

void entry_from_judgement(const struct policy *pol, const struct request_call *rq, const struct facts *f,
			  const struct judgement *j, int64_t now, int64_t wall, uint64_t seq, struct entry *ret)
{
	struct entry_decision *d = &ret->decision;

	*ret = (struct entry){ .kind = j->claim ? ENTRY_CLAIM : ENTRY_DECISION, .seq = seq, .now = now, .wall = wall };
	copy_facts(pol, f, d);
	d->claims = j->claim;
	d->call = rq->call;
	d->model = rq->model;
	d->call_reused = j->call_reused;
	d->shadow = pol->mode == MODE_SHADOW;
	d->would = j->would;
	if (j->would)
		d->would_why = j->would_why;
	d->answer = j->answer;
	d->why = j->why;
	d->money_unit = pol->currency;
	d->draws = j->draws;
	d->n_draws = j->n_draws;
	d->has_guard_money = j->has_guard_money;
	d->guard_money = j->guard_money;
	d->guard_repeat = j->guard_repeat;
	d->limits_ignored = j->limits_ignored;
	d->settled = j->settled;
	if (j->answer == VERDICT_ALLOW && f->def) {
		d->has_price = f->def->has_cost;
		d->price = f->def->has_cost ? f->def->cost : 0;
		d->refund = f->def->refund;
	}
	if (j->answer == VERDICT_ALLOW)
		d->lease_until = add_sat(now, is_probe(j) && f->tool_lease_ns < f->lease_ns ? f->tool_lease_ns : f->lease_ns);
	d->polling = f->def && f->def->polling;
	d->spends = j->spends;
	d->ends_cards = j->spends != 0;
	d->breakers = j->breakers;
	d->n_breakers = j->n_breakers;
	memcpy(d->sticks, j->sticks, j->n_sticks * sizeof(d->sticks[0]));
	d->n_sticks = j->n_sticks;
	memcpy(d->trips, j->trips, j->n_trips * sizeof(d->trips[0]));
	d->n_trips = j->n_trips;
	if (j->answer == VERDICT_REVIEW) {
		d->card = j->card ? j->card : seq;
		d->card_until = j->card ? j->card_until : add_sat(now, pol->reviews.timeout_ns);
		memcpy(d->asks, j->asks, j->n_asks * sizeof(d->asks[0]));
		d->n_asks = j->n_asks;
	}
}
