/* daemon/watch/peer.h - how the watcher and the rest speak: fixed-header messages with a bounded payload over SOCK_SEQPACKET.
 * Both ends are ours, yet each treats what it reads as input: the rest is the one that meets strangers. */
#ifndef PAWL_PEER_H
#define PAWL_PEER_H
#include "pawl/watch.h"

#define PEER_MAX_PAYLOAD (64u << 10)
enum peer_kind {
	/* rest -> watcher */
	PEER_READY = 1, /* doors are open; the watcher answers with all trees that it has */
	PEER_ATTACH,	/* struct watch_attach, paths; two descriptors: the pidfd, and the connection of who asks */
	PEER_RENEW,	/* struct watch_renew, paths */
	PEER_KILL,	/* struct watch_kill */
	PEER_FORGET,	/* uint64_t session: its end is in the log */
	/* watcher -> rest */
	PEER_ATTACHED,	/* struct watch_attached */
	PEER_EVENTS,	/* struct watch_event, as many as fit */
	PEER_NOW,	/* struct watch_now, as many as fit */
	PEER_ENDED,	/* struct watch_ended */
	PEER_ALL,	/* nothing: PEER_NOW has named every tree there is */
	PEER_KIND_COUNT
};
struct peer_header {
	uint32_t magic, kind, length, zero;
};
#define PEER_MAGIC 0x7061776cu /* "pawl" */
_Static_assert(sizeof(struct peer_header) == 16, "both processes read this layout");

PAWL_MUST_USE int peer_send(int fd, enum peer_kind kind, const void *payload, size_t n, struct pawl_error *err);
/* The same in two parts, and with descriptors (NULL: none; -1: that one is not there), which stay the caller's. PAWL_E_FULL: a socket that does
 * not block has no room. */
#define PEER_FDS 2
struct peer_part {
	const void *p;
	size_t n;
};
PAWL_MUST_USE int peer_send_parts(int fd, enum peer_kind kind, const struct peer_part part[static 2], const int *pass, struct pawl_error *err);
/* 1: a message, payload copied (at most size); 0: the other end is gone; negative: not a message, or PAWL_E_FULL when a socket that does not
 * block has none. Descriptors that came along are closed. */
PAWL_MUST_USE int peer_recv(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, struct pawl_error *err);
/* The same, with the descriptors that came along, the caller's from then on; -1 where none did. */
PAWL_MUST_USE int peer_recv_fds(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, int ret_fd[static PEER_FDS], struct pawl_error *err);
#endif
