/* daemon/log/committer_item.h - one entry on its way through the committer, and the lists that it waits in. committer.c alone. */
#ifndef PAWL_COMMITTER_ITEM_H
#define PAWL_COMMITTER_ITEM_H
#include "daemon/log/committer.h"

#include <sodium.h>
#include <stdlib.h>

struct item {
	struct item *next;
	uint64_t seq, tree;
	void *cookie;
	struct buf note;      /* the five lines, later the whole note */
	size_t cost, prev_at; /* bytes counted against COMMIT_MAX_WAITING; where line 4 starts */
	bool has_secret, last_resort, durable;
	uint8_t secret[32];
	struct {
		char *p; /* NULL: none */
		size_t n;
	} value[2]; /* attached: a card's arguments; a record */
};
struct list {
	struct item *head, **end;
};

static inline void list_init(struct list *l)
{
	*l = (struct list){ NULL, NULL };
}

static inline void list_add(struct list *l, struct item *it)
{
	it->next = NULL;
	if (l->head)
		*l->end = it;
	else
		l->head = it;
	l->end = &it->next;
}

static inline struct item *list_pop(struct list *l)
{
	struct item *it = l->head;

	if (it)
		l->head = it->next;
	return it;
}

static inline void item_free(struct item *it)
{
	if (!it)
		return;
	sodium_memzero(it->secret, sizeof(it->secret));
	buf_done(&it->note);
	for (int i = 0; i < 2; i++) {
		if (it->value[i].p)
			sodium_memzero(it->value[i].p, it->value[i].n);
		free(it->value[i].p);
	}
	free(it);
}
#endif
