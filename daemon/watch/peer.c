/* daemon/watch/peer.c - see peer.h. */
#include "daemon/watch/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control { /* room for one descriptor, aligned as the kernel wants it */
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int peer_send_parts(int fd, enum peer_kind kind, const struct peer_part part[static 2], int pass, struct pawl_error *err)
{
	struct peer_header h = { .magic = PEER_MAGIC, .kind = kind };
	struct iovec iov[3] = { { &h, sizeof(h) }, { NULL, part[0].n }, { NULL, part[1].n } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	union control c = { .bytes = { 0 } };
	ssize_t n;

	if (part[0].n > PEER_MAX_PAYLOAD || part[1].n > PEER_MAX_PAYLOAD - part[0].n)
		return pawl_fail(err, PAWL_E_MALFORMED, "message of %zu and %zu bytes is over the limit", part[0].n, part[1].n);
	h.length = (uint32_t)(part[0].n + part[1].n);
	memcpy(&iov[1].iov_base, &part[0].p, sizeof(part[0].p)); /* iovec has no const; sendmsg does not write */
	memcpy(&iov[2].iov_base, &part[1].p, sizeof(part[1].p));
	if (pass >= 0) {
		c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.head), &pass, sizeof(pass));
		msg.msg_control = c.bytes;
		msg.msg_controllen = sizeof(c.bytes);
	}
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return pawl_fail(err, PAWL_E_FULL, "the other process does not keep up");
	if (n < 0)
		return pawl_fail_errno(err, "cannot speak to the other process");
	return 0;
}

int peer_send(int fd, enum peer_kind kind, const void *payload, size_t n, struct pawl_error *err)
{
	const struct peer_part part[2] = { { payload, n }, { NULL, 0 } };

	return peer_send_parts(fd, kind, part, -1, err);
}

/* Takes the descriptor that came along, -1 when none did. false: there were more, and none is kept. The room for one is room for two, since
 * the kernel rounds up. */
static bool descriptor_of(struct msghdr *msg, int *ret)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	size_t n = c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	int fd;

	*ret = -1;
	if (n == 1) {
		memcpy(ret, CMSG_DATA(c), sizeof(*ret));
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		(void)close(fd);
	}
	return n == 0;
}

int peer_recv_fd(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, int *ret_fd, struct pawl_error *err)
{
	struct peer_header h;
	struct iovec iov[2] = { { &h, sizeof(h) }, { payload, size } };
	union control c;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = size ? 2 : 1, .msg_control = c.bytes, .msg_controllen = CMSG_LEN(sizeof(int)) }; /* not CMSG_SPACE(): a second one would fit its padding */
	ssize_t n;
	int got;
	bool one;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return pawl_fail(err, PAWL_E_FULL, "no message is there");
	if (n < 0)
		return pawl_fail_errno(err, "cannot hear the other process");
	one = descriptor_of(&msg, &got);
	if (n == 0) { /* gone, or an empty message, which nobody here sends; a descriptor may have come along all the same */
		if (got >= 0)
			(void)close(got);
		return 0;
	}
	if (!one || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n < sizeof(h) || h.magic != PEER_MAGIC || h.zero != 0 ||
	    h.kind == 0 || h.kind >= PEER_KIND_COUNT || h.length != (size_t)n - sizeof(h)) {
		if (got >= 0)
			(void)close(got);
		return pawl_fail(err, PAWL_E_MALFORMED, "not a message of the other process (%zd bytes)", n);
	}
	*ret_kind = (enum peer_kind)h.kind;
	*ret_n = h.length;
	*ret_fd = got;
	return 1;
}

int peer_recv(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, struct pawl_error *err)
{
	int got = -1, r = peer_recv_fd(fd, ret_kind, payload, size, ret_n, &got, err);

	if (got >= 0)
		(void)close(got);
	return r;
}
