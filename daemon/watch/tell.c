/* daemon/watch/tell.c - what the watcher tells the rest: answers, events, ends, and how each tree is doing. The socket does not block; what
 * finds no room waits here, bounded: events beyond the bound are counted as lost, everything else is a fact that is looked up again. */
#include "daemon/base/oplog.h"
#include "daemon/watch/trees_int.h"

#include <stdlib.h>

#define KEPT_EVENTS 1024

void tell_event(struct trees *t, const struct watch_event *ev)
{
	struct tree *tr = trees_find(t, ev->tree);

	if (ev->kind == WATCH_EXEC && (!tr || !(tr->flags & ATTACH_EVENTS)))
		return; /* nobody asked */
	if (tr && ev->kind == WATCH_BREACH && (ev->flags & WATCH_F_LOG_ONLY) && ev->why < WHY_COUNT) { /* the kernel tells once, and we do */
		if (tr->reported & 1u << ev->why)
			return;
		tr->reported |= 1u << ev->why;
	}
	if (!t->event)
		t->event = malloc(MAX_EVENTS * sizeof(*t->event));
	/* starts alone never take the room of what was done about them */
	if (!t->event || t->event_n >= (ev->kind == WATCH_EXEC ? MAX_EVENTS - KEPT_EVENTS : MAX_EVENTS)) {
		if (tr)
			tr->lost++;
		return;
	}
	t->event[(t->event_first + t->event_n++) % MAX_EVENTS] = *ev;
	t->events_in++;
}

/* true: it left. false: there is no room now, or the other end is gone, which the watcher's loop sees by itself. */
static bool send_it(struct trees *t, enum peer_kind kind, const void *p, size_t n)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (peer_send(t->peer, kind, p, n, &err) == 0)
		return true;
	if (err.code != PAWL_E_FULL) {
		oplog_error("cannot tell the rest of pawld", &err);
		t->peer = -1;
	}
	return false;
}

static bool tell_events(struct trees *t)
{
	const size_t fit = PEER_MAX_PAYLOAD / sizeof(struct watch_event);

	while (t->event_n > 0) {
		size_t n = t->event_n < fit ? t->event_n : fit;

		if (n > MAX_EVENTS - t->event_first) /* up to where the circle closes */
			n = MAX_EVENTS - t->event_first;
		if (!send_it(t, PEER_EVENTS, t->event + t->event_first, n * sizeof(*t->event)))
			return false;
		t->event_first = (t->event_first + n) % MAX_EVENTS;
		t->event_n -= n;
		t->events_out += n;
	}
	return true;
}

/* An end leaves after the events that led to it. false: something waits still. */
static bool tell_ends(struct trees *t)
{
	bool all = true;

	for (size_t i = 0; i < t->n; i++) {
		struct tree *tr = t->tree[i];

		if (!tr->over || tr->told)
			continue;
		if (t->events_out < tr->told_after || !send_it(t, PEER_ENDED, &tr->ended, sizeof(tr->ended)))
			all = false;
		else
			tr->told = true;
	}
	return all;
}

static void put_now(const struct tree *tr, unsigned char *to)
{
	struct watch_now row = tr->ended.last;

	row.first = tr->first.pid;
	row.launcher = tr->peer.pid;
	memcpy(to, &row, sizeof(row));
}

static bool tell_now(struct trees *t)
{
	const size_t fit = PEER_MAX_PAYLOAD / sizeof(struct watch_now);

	while (t->now_next < t->n) {
		size_t have = 0, next = t->now_next;

		for (; next < t->n && have < fit; next++)
			if (!t->tree[next]->over || (t->all_due && !t->tree[next]->told)) /* a new rest knows whose events come next */
				put_now(t->tree[next], t->out + have++ * sizeof(struct watch_now));
		if (have > 0 && !send_it(t, PEER_NOW, t->out, have * sizeof(struct watch_now)))
			return false;
		t->now_next = next;
	}
	return true;
}

void tell_all(struct trees *t)
{
	if (t->peer < 0 || !t->ready)
		return;
	if (t->answer_due) {
		if (!send_it(t, PEER_ATTACHED, &t->answer, sizeof(t->answer)))
			return;
		t->answer_due = false;
	}
	if (t->now_due && t->all_due) { /* a new rest hears what there is before what happened to it */
		if (!tell_now(t))
			return;
		t->now_due = false;
	}
	if (!tell_events(t) && t->peer < 0)
		return;
	if (tell_ends(t) && t->all_due && send_it(t, PEER_ALL, NULL, 0))
		t->all_due = false;
	if (t->peer >= 0 && t->now_due && tell_now(t))
		t->now_due = false;
}
