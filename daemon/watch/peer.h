/* daemon/watch/peer.h - how the watcher and the rest speak: fixed-header messages with a bounded payload over SOCK_SEQPACKET.
 * Both ends are ours, yet each treats what it reads as input: the rest is the one that meets strangers. */
#ifndef PAWL_PEER_H
#define PAWL_PEER_H
#include "pawl/error.h"

#define PEER_MAX_PAYLOAD (64u << 10)
enum peer_kind { PEER_READY = 1, /* rest -> watcher: doors are open */ PEER_KIND_COUNT };
struct peer_header {
	uint32_t magic, kind, length, zero;
};
#define PEER_MAGIC 0x7061776cu /* "pawl" */
_Static_assert(sizeof(struct peer_header) == 16, "both processes read this layout");

PAWL_MUST_USE int peer_send(int fd, enum peer_kind kind, const void *payload, size_t n, struct pawl_error *err);
/* 1: a message, payload copied (at most size); 0: the other end is gone; negative: not a message. Does not block when fd does not. */
PAWL_MUST_USE int peer_recv(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, struct pawl_error *err);
#endif
