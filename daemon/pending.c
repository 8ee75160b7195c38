/* daemon/pending.c - see pending.h. Each copy is made twice by the same code: first to measure, then to fill one allocation. */
#include "daemon/pending.h"

#include <stdlib.h>

struct packer {
	char *base; /* NULL: measuring */
	size_t n;
};

static void pack_str(struct packer *pk, struct str *s)
{
	if (!s->p)
		return;
	if (pk->base) {
		memcpy(pk->base + pk->n, s->p, s->n);
		s->p = pk->base + pk->n;
	}
	pk->n += s->n;
}

static const void *pack_rows(struct packer *pk, const void *rows, size_t bytes)
{
	char *to;

	pk->n = (pk->n + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	to = pk->base ? pk->base + pk->n : NULL;
	if (to && bytes)
		memcpy(to, rows, bytes);
	pk->n += bytes;
	return to ? to : rows;
}

static void pack_key(struct packer *pk, struct ledger_key *key)
{
	pack_str(pk, &key->budget);
	pack_str(pk, &key->owner);
	pack_str(pk, &key->tool);
}

static void pack_draws(struct packer *pk, const struct draw **draws, size_t n)
{
	struct draw copy, *rows;

	*draws = pack_rows(pk, *draws, n * sizeof(struct draw));
	rows = pk->base ? (struct draw *)(pk->base + pk->n - n * sizeof(struct draw)) : NULL;
	for (size_t i = 0; i < n; i++) {
		copy = (*draws)[i];
		pack_key(pk, rows ? &rows[i].key : &copy.key);
	}
}

static void pack_breaker(struct packer *pk, struct breaker_row *row)
{
	pack_str(pk, &row->id);
	pack_str(pk, &row->owner);
	pack_str(pk, &row->tool);
}

static void pack_breakers(struct packer *pk, const struct breaker_row **breakers, size_t n)
{
	size_t bytes = n * sizeof(struct breaker_row);
	struct breaker_row copy, *rows;

	*breakers = pack_rows(pk, *breakers, bytes);
	rows = pk->base ? (struct breaker_row *)(pk->base + pk->n - bytes) : NULL;
	for (size_t i = 0; i < n; i++) {
		copy = (*breakers)[i];
		pack_breaker(pk, rows ? &rows[i] : &copy);
	}
}

static void pack_settle(struct packer *pk, struct entry_settle *s)
{
	struct charge copy, *rows;
	size_t bytes;

	pack_str(pk, &s->money_unit);
	pack_str(pk, &s->error_kind);
	pack_breakers(pk, &s->breakers, s->n_breakers);
	bytes = s->n_charges * sizeof(struct charge);
	s->charges = pack_rows(pk, s->charges, bytes);
	rows = pk->base ? (struct charge *)(pk->base + pk->n - bytes) : NULL;
	for (size_t i = 0; i < s->n_charges; i++) {
		copy = s->charges[i];
		pack_key(pk, rows ? &rows[i].draw.key : &copy.draw.key);
	}
}

static void pack_decision(struct packer *pk, struct entry_decision *d)
{
	pack_draws(pk, &d->draws, d->n_draws);
	pack_str(pk, &d->call);
	pack_str(pk, &d->tool);
	pack_str(pk, &d->model);
	pack_str(pk, &d->money_unit);
	pack_str(pk, &d->why.rule);
	pack_str(pk, &d->would_why.rule);
	for (size_t i = 0; i < PAWL_LEN(d->rules); i++)
		pack_str(pk, &d->rules[i]);
	for (size_t i = 0; i < d->n_paths; i++)
		pack_str(pk, &d->paths[i].subject);
	for (size_t i = 0; i < d->n_asks; i++)
		pack_str(pk, &d->asks[i].rule);
	for (size_t i = 0; i < d->n_sticks; i++) {
		pack_str(pk, &d->sticks[i].tool);
		pack_str(pk, &d->sticks[i].rule);
	}
	pack_breakers(pk, &d->breakers, d->n_breakers);
}

static void pack_resolve(struct packer *pk, struct entry_resolve *r)
{
	pack_str(pk, &r->operator);
	pack_str(pk, &r->key);
	pack_str(pk, &r->reason);
	pack_str(pk, &r->money_unit);
	for (size_t i = 0; i < r->n_grants; i++)
		pack_key(pk, &r->grants[i].key);
	pack_breakers(pk, &r->breakers, r->n_breakers);
}

static void pack_budgets(struct packer *pk, struct entry_budgets *b)
{
	size_t bytes = b->n * sizeof(struct budget_row), texts = b->n_changes * sizeof(struct str);
	struct budget_row copy, *rows;
	struct str *lines, line;

	b->rows = pack_rows(pk, b->rows, bytes);
	rows = pk->base ? (struct budget_row *)(pk->base + pk->n - bytes) : NULL;
	for (size_t i = 0; i < b->n; i++) {
		copy = b->rows[i];
		pack_str(pk, rows ? &rows[i].id : &copy.id);
		pack_str(pk, rows ? &rows[i].from : &copy.from);
	}
	b->changes = pack_rows(pk, b->changes, texts);
	lines = pk->base ? (struct str *)(pk->base + pk->n - texts) : NULL;
	for (size_t i = 0; i < b->n_changes; i++) {
		line = b->changes[i];
		pack_str(pk, lines ? &lines[i] : &line);
	}
}

static void pack_programs(struct packer *pk, struct entry_watch *w)
{
	size_t bytes = w->n_programs * sizeof(struct watched_program);
	struct watched_program copy, *rows;

	w->programs = pack_rows(pk, w->programs, bytes);
	rows = pk->base ? (struct watched_program *)(pk->base + pk->n - bytes) : NULL;
	for (size_t i = 0; i < w->n_programs; i++) {
		copy = w->programs[i];
		pack_str(pk, rows ? &rows[i].path : &copy.path);
		pack_str(pk, rows ? &rows[i].comm : &copy.comm);
	}
}

static void pack_watch(struct packer *pk, struct entry_watch *w)
{
	size_t bytes = w->n_dead * sizeof(struct watched_dead);
	struct watched_dead copy, *rows;

	pack_str(pk, &w->comm);
	pack_str(pk, &w->tier);
	pack_str(pk, &w->message);
	pack_programs(pk, w);
	w->dead = pack_rows(pk, w->dead, bytes);
	rows = pk->base ? (struct watched_dead *)(pk->base + pk->n - bytes) : NULL;
	for (size_t i = 0; i < w->n_dead; i++) {
		copy = w->dead[i];
		pack_str(pk, rows ? &rows[i].comm : &copy.comm);
	}
	pack_breakers(pk, &w->breakers, w->n_breakers);
}

static void pack_entry(struct packer *pk, struct entry *e)
{
	switch (e->kind) {
	case ENTRY_START:
		pack_str(pk, &e->start.version);
		pack_str(pk, &e->start.policy_name);
		pack_str(pk, &e->start.policy_hash);
		pack_str(pk, &e->start.mode);
		pack_str(pk, &e->start.fallback);
		pack_str(pk, &e->start.probes_text);
		pack_budgets(pk, &e->start.budgets);
		e->start.probes = NULL;
		break;
	case ENTRY_STOP:
		pack_str(pk, &e->stop.why);
		break;
	case ENTRY_POLICY:
		pack_str(pk, &e->policy.name);
		pack_str(pk, &e->policy.hash);
		pack_str(pk, &e->policy.message);
		pack_str(pk, &e->policy.operator);
		pack_str(pk, &e->policy.key);
		pack_str(pk, &e->policy.reason);
		pack_str(pk, &e->policy.mode);
		pack_budgets(pk, &e->policy.budgets);
		break;
	case ENTRY_SESSION:
		pack_str(pk, &e->session.agent);
		pack_str(pk, &e->session.root_dir);
		pack_str(pk, &e->session.labels_text);
		pack_str(pk, &e->session.operator);
		pack_str(pk, &e->session.key);
		pack_str(pk, &e->session.reason);
		pack_breakers(pk, &e->session.breakers, e->session.n_breakers);
		break;
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		pack_decision(pk, &e->decision);
		break;
	case ENTRY_SETTLE:
		pack_settle(pk, &e->settle);
		break;
	case ENTRY_LOSS:
		pack_breakers(pk, &e->loss.breakers, e->loss.n_breakers);
		if (e->loss.what == LOSS_LATE_SETTLE)
			pack_settle(pk, &e->loss.late);
		break;
	case ENTRY_RESOLVE:
		pack_resolve(pk, &e->resolve);
		break;
	case ENTRY_BREAKER:
		pack_str(pk, &e->breaker.operator);
		pack_str(pk, &e->breaker.key);
		pack_str(pk, &e->breaker.reason);
		pack_breaker(pk, &e->breaker.row);
		break;
	case ENTRY_KEY:
		pack_str(pk, &e->key.operator);
		pack_str(pk, &e->key.key);
		break;
	case ENTRY_THROTTLE:
		pack_str(pk, &e->throttle.agent);
		break;
	case ENTRY_WATCH:
		pack_watch(pk, &e->watch);
		break;
	case ENTRY_NONE:
	case ENTRY_TIMEOUT:
	case ENTRY_SNAPSHOT:
	case ENTRY_KIND_COUNT:
		break;
	}
}

struct pending *pending_entry(const struct entry *e, void *cookie)
{
	struct packer pk = { NULL, 0 };
	struct entry scratch = *e;
	struct pending *p;

	pack_entry(&pk, &scratch);
	p = malloc(sizeof(*p) + _Alignof(max_align_t) + pk.n);
	if (!p)
		return NULL;
	*p = (struct pending){ .cookie = cookie, .seq = e->seq, .e = *e };
	pk = (struct packer){ (char *)p + ((sizeof(*p) + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1)), 0 };
	pack_entry(&pk, &p->e);
	return p;
}

struct pending *pending_wait(uint64_t seq, void *cookie)
{
	struct pending *p = calloc(1, sizeof(*p));

	if (p)
		*p = (struct pending){ .cookie = cookie, .seq = seq, .waits = true };
	return p;
}

struct pending *pending_shown(void *cookie)
{
	struct pending *p = pending_wait(0, cookie);

	if (p)
		p->shows = true;
	return p;
}

void pending_queue_init(struct pending_queue *q)
{
	*q = (struct pending_queue){ .tail = &q->head };
}

void pending_queue_push(struct pending_queue *q, struct pending *p)
{
	p->next = NULL;
	*q->tail = p;
	q->tail = &p->next;
	q->n++;
	q->waits += p->waits;
}

struct pending *pending_queue_pop(struct pending_queue *q)
{
	struct pending *p = q->head;

	if (!p)
		return NULL;
	q->head = p->next;
	if (!q->head)
		q->tail = &q->head;
	q->n--;
	q->waits -= p->waits;
	return p;
}
