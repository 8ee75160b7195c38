/* daemon/door/ipc.h - one door: nanomsg's REQ/REP wire over an AF_UNIX stream socket, the raw REP side. Bytes in, bytes out; it knows nothing
 * of what they say. Not thread-safe: the loop's thread alone. docs/architecture.md says why this is not libnanomsg's own socket. */
#ifndef PAWL_IPC_H
#define PAWL_IPC_H
#include "pawl/error.h"

#define IPC_MAX_HEADER 32		 /* bytes: a request that came through devices has one word a hop */
#define IPC_MAX_PARTIAL (64u << 20)	 /* bytes of half-received bodies, all connections together */
#define IPC_MAX_UNSENT (4u << 20)	 /* bytes a peer may leave unread before its stream is closed */

struct ipc;
/* A request: who asked, and what. The peer may be gone by the time of the reply: then the reply is dropped. */
struct ipc_msg {
	uint32_t slot, generation;
	int64_t pid;   /* of the peer when it connected, by SO_PEERCRED; 0: not known */
	uint64_t born; /* when that process began, looked at then (peer_tree.h) */
	uint32_t header_n;
	uint8_t header[IPC_MAX_HEADER];
	char *body; /* owned by the message; ipc_body_free() */
	size_t n;
};
/* path: at most 107 bytes; a dead socket file is replaced, a live one is PAWL_E_BUSY. mode: who may connect, within what
 * the folder allows. Beyond max streams the one that was idle longest
 * makes room. */
PAWL_MUST_USE int ipc_open(const char *path, unsigned mode, uint32_t max, struct ipc **ret, struct pawl_error *err);
void ipc_close(struct ipc *door); /* accepts NULL */
int ipc_fd(const struct ipc *door); /* an epoll descriptor: readable when something arrived; level-triggered */
/* 1: *ret is filled, and there may be more although ipc_fd() is quiet: ask until 0. 0: nothing more to do now. Accepts, reads and sends what waits on the way, a bounded amount a call. */
int ipc_receive(struct ipc *door, struct ipc_msg *ret);
void ipc_body_free(struct ipc_msg *msg);
/* Never blocks: what the peer does not take at once is kept, up to IPC_MAX_UNSENT. */
void ipc_reply(struct ipc *door, const struct ipc_msg *msg, struct str body);
void ipc_forget(struct ipc *door, const struct ipc_msg *msg); /* no answer will come */
uint64_t ipc_oversized(const struct ipc *door); /* streams closed for a message above PAWL_MAX_WIRE */
#endif
