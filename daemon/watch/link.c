/* daemon/watch/link.c - see link.h. Owns nothing. What comes is checked for its length here and for its meaning by the hall. */
#include "daemon/watch/link.h"

#include "daemon/base/oplog.h"
#include "daemon/watch/peer.h"

#include <errno.h>
#include <fcntl.h>

#define AT_ONCE 64 /* messages a wake-up: doors and committer come in between */

int link_ready(struct daemon *d, struct pawl_error *err)
{
	if (d->peer < 0) {
		watched_lost(d->watched);
		return 0;
	}
	if (fcntl(d->peer, F_SETFL, O_NONBLOCK) < 0)
		return pawl_fail_errno(err, "the channel to the watcher");
	return peer_send(d->peer, PEER_READY, NULL, 0, err);
}

static int send_with(void *arg, enum peer_kind kind, const void *head, size_t n, struct str paths, const int *pass, struct pawl_error *err)
{
	const struct daemon *d = arg;
	const struct peer_part part[2] = { { head, n }, { paths.p, paths.n } };

	if (d->peer < 0)
		return pawl_fail(err, PAWL_E_SYS, "there is no watcher");
	return peer_send_parts(d->peer, kind, part, pass, err);
}

static int send_attach(void *arg, const struct watch_attach *a, struct str paths, const int fds[static 2], struct pawl_error *err)
{
	_Static_assert(PEER_FDS == 2, "the pidfd and the connection");
	return send_with(arg, PEER_ATTACH, a, sizeof(*a), paths, fds, err);
}

static int send_renew(void *arg, const struct watch_renew *r, struct str paths, struct pawl_error *err)
{
	return send_with(arg, PEER_RENEW, r, sizeof(*r), paths, NULL, err);
}

static int send_kill(void *arg, const struct watch_kill *k, struct pawl_error *err)
{
	return send_with(arg, PEER_KILL, k, sizeof(*k), STR_NONE, NULL, err);
}

static int send_forget(void *arg, uint64_t session, struct pawl_error *err)
{
	return send_with(arg, PEER_FORGET, &session, sizeof(session), STR_NONE, NULL, err);
}

struct watch_channel link_channel(struct daemon *d)
{
	return (struct watch_channel){ send_attach, send_renew, send_kill, send_forget, d };
}

union payload { /* aligned for every message */
	uint64_t align;
	char bytes[PEER_MAX_PAYLOAD];
	struct watch_attached attached;
	struct watch_ended ended;
	struct watch_event event[1];
	struct watch_now now[1];
};

static bool take(struct watched *w, enum peer_kind kind, const union payload *p, size_t n)
{
	if (kind == PEER_ATTACHED && n == sizeof(p->attached))
		watched_attached(w, &p->attached);
	else if (kind == PEER_ENDED && n == sizeof(p->ended))
		watched_ended(w, &p->ended);
	else if (kind == PEER_EVENTS && n % sizeof(p->event[0]) == 0)
		watched_events(w, p->event, n / sizeof(p->event[0]));
	else if (kind == PEER_NOW && n % sizeof(p->now[0]) == 0)
		watched_now(w, p->now, n / sizeof(p->now[0]));
	else if (kind == PEER_ALL && n == 0)
		watched_all(w);
	else
		return false;
	return true;
}

bool link_hear(struct daemon *d)
{
	struct pawl_error err = { .code = PAWL_OK };
	union payload p;
	enum peer_kind kind;
	size_t n;

	for (int i = 0; i < AT_ONCE; i++) {
		int r = peer_recv(d->peer, &kind, p.bytes, sizeof(p.bytes), &n, &err);

		if (r == PAWL_E_FULL)
			return false;
		if (r < 0)
			oplog_error("the watcher", &err);
		if (r <= 0)
			return true;
		if (!take(d->watched, kind, &p, n)) {
			oplog(OPLOG_ERROR, "the watcher sent %zu bytes of kind %d, which is no message of its", n, (int)kind);
			return true; /* two versions, or worse: without a watcher that is understood nothing is watched */
		}
	}
	return false;
}
