/* daemon/watch/peer.c - see peer.h. */
#include "daemon/watch/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

int peer_send(int fd, enum peer_kind kind, const void *payload, size_t n, struct pawl_error *err)
{
	struct peer_header h = { .magic = PEER_MAGIC, .kind = kind, .length = (uint32_t)n };
	struct iovec iov[2] = { { &h, sizeof(h) }, { NULL, n } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n ? 2 : 1 };

	if (n > PEER_MAX_PAYLOAD)
		return pawl_fail(err, PAWL_E_MALFORMED, "message of %zu bytes is over the limit", n);
	memcpy(&iov[1].iov_base, &payload, sizeof(payload)); /* iovec has no const; sendmsg does not write */
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
		return pawl_fail_errno(err, "cannot speak to the other process");
	return 0;
}

int peer_recv(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, struct pawl_error *err)
{
	struct peer_header h;
	struct iovec iov[2] = { { &h, sizeof(h) }, { payload, size } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = size ? 2 : 1 };
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return pawl_fail_errno(err, "cannot hear the other process");
	if (n == 0)
		return 0;
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n < sizeof(h) || h.magic != PEER_MAGIC || h.zero != 0 ||
	    h.kind == 0 || h.kind >= PEER_KIND_COUNT || h.length != (size_t)n - sizeof(h))
		return pawl_fail(err, PAWL_E_MALFORMED, "not a message of the other process (%zd bytes)", n);
	*ret_kind = (enum peer_kind)h.kind;
	*ret_n = h.length;
	return 1;
}
