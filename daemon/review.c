/* daemon/review.c - see review.h. Cards are numbered by the entries that open them, so their arguments are kept in order of arrival. */
#include "daemon/review.h"

#include <sodium.h>
#include <stdlib.h>

struct shown {
	uint64_t card;
	char *args;
	size_t n;
};

struct reviews {
	struct shown *row; /* by card */
	size_t n, cap, bytes;
	struct waiter *first, **last;
	size_t waiting;
};

int reviews_new(struct reviews **ret, struct pawl_error *err)
{
	struct reviews *rv = calloc(1, sizeof(*rv));

	if (!rv)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	rv->last = &rv->first;
	*ret = rv;
	return 0;
}

static void shown_done(struct shown *s)
{
	if (s->args)
		sodium_memzero(s->args, s->n);
	free(s->args);
}

void waiter_free(struct waiter *w)
{
	if (!w)
		return;
	free(w->held);
	free(w->note);
	free(w);
}

void reviews_free(struct reviews *rv)
{
	struct waiter *w;

	if (!rv)
		return;
	for (size_t i = 0; i < rv->n; i++)
		shown_done(&rv->row[i]);
	while ((w = reviews_pop(rv)))
		waiter_free(w);
	free(rv->row);
	free(rv);
}

/* Where the card is, or would be. */
static size_t place(const struct reviews *rv, uint64_t card)
{
	size_t lo = 0, hi = rv->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (rv->row[mid].card < card)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void drop(struct reviews *rv, size_t at)
{
	rv->bytes -= rv->row[at].n;
	shown_done(&rv->row[at]);
	rv->n--;
	memmove(rv->row + at, rv->row + at + 1, (rv->n - at) * sizeof(rv->row[0]));
}

int reviews_args_put(struct reviews *rv, uint64_t card, struct str args, struct pawl_error *err)
{
	size_t at = place(rv, card), n = args.n > PAWL_MAX_VALUE ? PAWL_MAX_VALUE : args.n;
	char *copy;

	if (at < rv->n && rv->row[at].card == card)
		drop(rv, at); /* of a call whose entry came to nothing: never shown for this one, whatever happens below */
	if (n > REVIEWS_MAX_BYTES - rv->bytes)
		return 0; /* the card is shown without its arguments, and says so */
	copy = malloc(n + 1);

	if (copy && rv->n == rv->cap) {
		size_t cap = rv->cap ? rv->cap * 2 : 16;
		struct shown *bigger = realloc(rv->row, cap * sizeof(*bigger));

		if (bigger) {
			rv->row = bigger;
			rv->cap = cap;
		}
	}
	if (!copy || rv->n == rv->cap) {
		free(copy);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	while (n < args.n && n > 0 && ((unsigned char)args.p[n] & 0xc0) == 0x80)
		n--; /* never half a character */
	memcpy(copy, args.p, n);
	memmove(rv->row + at + 1, rv->row + at, (rv->n - at) * sizeof(rv->row[0]));
	rv->n++;
	rv->row[at] = (struct shown){ card, copy, n };
	rv->bytes += n;
	return 0;
}

struct str reviews_args(const struct reviews *rv, uint64_t card)
{
	size_t at = place(rv, card);

	return at < rv->n && rv->row[at].card == card ? (struct str){ rv->row[at].args, rv->row[at].n } : STR_NONE;
}

bool reviews_needs(const struct state *st, uint64_t card)
{
	const struct card_state *c = state_card_by_id(st, card);

	return c && (c->mode == CARD_PENDING || c->mode == CARD_RESUMED);
}

size_t reviews_sweep(struct reviews *rv, const struct state *st, uint64_t *ret_gone, size_t max)
{
	size_t kept = 0, gone = 0;

	for (size_t i = 0; i < rv->n; i++) {
		if (gone == max || reviews_needs(st, rv->row[i].card)) {
			rv->row[kept++] = rv->row[i];
			continue;
		}
		ret_gone[gone++] = rv->row[i].card;
		rv->bytes -= rv->row[i].n;
		shown_done(&rv->row[i]);
	}
	rv->n = kept;
	return gone;
}

void reviews_wait(struct reviews *rv, struct waiter *w)
{
	w->next = NULL;
	*rv->last = w;
	rv->last = &w->next;
	rv->waiting++;
}

static struct waiter *take_out(struct reviews *rv, struct waiter **at)
{
	struct waiter *w = *at;

	*at = w->next;
	if (!*at)
		rv->last = at;
	rv->waiting--;
	return w;
}

struct waiter *reviews_due(struct reviews *rv, const struct state *st, int64_t now)
{
	for (struct waiter **at = &rv->first; *at; at = &(*at)->next) {
		const struct card_state *card = state_card_by_id(st, (*at)->card);

		if (!card || card->mode != CARD_PENDING || (*at)->until <= now)
			return take_out(rv, at);
	}
	return NULL;
}

struct waiter *reviews_pop(struct reviews *rv)
{
	return rv->first ? take_out(rv, &rv->first) : NULL;
}

int64_t reviews_next(const struct reviews *rv)
{
	int64_t next = INT64_MAX;

	for (const struct waiter *w = rv->first; w; w = w->next)
		if (w->until < next)
			next = w->until;
	return next;
}

size_t reviews_waiting(const struct reviews *rv)
{
	return rv->waiting;
}
