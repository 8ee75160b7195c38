/* daemon/watch/peer.c - see peer.h. */
#include "daemon/watch/peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control { /* aligned as the kernel wants it */
	struct cmsghdr head;
	char bytes[CMSG_SPACE(PEER_FDS * sizeof(int))];
};

int peer_send_parts(int fd, enum peer_kind kind, const struct peer_part part[static 2], const int *pass, struct pawl_error *err)
{
	struct peer_header h = { .magic = PEER_MAGIC, .kind = kind };
	struct iovec iov[3] = { { &h, sizeof(h) }, { NULL, part[0].n }, { NULL, part[1].n } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };
	union control c = { .bytes = { 0 } };
	size_t n_pass = 0;
	ssize_t n;

	if (part[0].n > PEER_MAX_PAYLOAD || part[1].n > PEER_MAX_PAYLOAD - part[0].n)
		return pawl_fail(err, PAWL_E_MALFORMED, "message of %zu and %zu bytes is over the limit", part[0].n, part[1].n);
	h.length = (uint32_t)(part[0].n + part[1].n);
	memcpy(&iov[1].iov_base, &part[0].p, sizeof(part[0].p)); /* iovec has no const; sendmsg does not write */
	memcpy(&iov[2].iov_base, &part[1].p, sizeof(part[1].p));
	while (pass && n_pass < PEER_FDS && pass[n_pass] >= 0)
		n_pass++;
	if (n_pass) {
		c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n_pass * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.head), pass, n_pass * sizeof(int));
		msg.msg_control = c.bytes;
		msg.msg_controllen = CMSG_SPACE(n_pass * sizeof(int));
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

	return peer_send_parts(fd, kind, part, NULL, err);
}

static void close_all(const int fd[static PEER_FDS])
{
	for (size_t i = 0; i < PEER_FDS; i++)
		if (fd[i] >= 0)
			(void)close(fd[i]);
}

/* Takes the descriptors that came along. More than there is room for were cut off by the kernel, which MSG_CTRUNC tells. */
static void descriptors_of(struct msghdr *msg, int ret[static PEER_FDS])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	size_t n = c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

	for (size_t i = 0; i < PEER_FDS; i++)
		ret[i] = -1;
	if (n)
		memcpy(ret, CMSG_DATA(c), (n < PEER_FDS ? n : PEER_FDS) * sizeof(int));
}

int peer_recv_fds(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, int ret_fd[static PEER_FDS], struct pawl_error *err)
{
	struct peer_header h;
	struct iovec iov[2] = { { &h, sizeof(h) }, { payload, size } };
	union control c;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = size ? 2 : 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes) };
	int got[PEER_FDS];
	ssize_t n;

	_Static_assert(CMSG_SPACE(PEER_FDS * sizeof(int)) == CMSG_LEN(PEER_FDS * sizeof(int)), "no padding that one more would fit");

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return pawl_fail(err, PAWL_E_FULL, "no message is there");
	if (n < 0)
		return pawl_fail_errno(err, "cannot hear the other process");
	descriptors_of(&msg, got);
	if (n == 0) { /* gone, or an empty message, which nobody here sends; a descriptor may have come along all the same */
		close_all(got);
		return 0;
	}
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n < sizeof(h) || h.magic != PEER_MAGIC || h.zero != 0 ||
	    h.kind == 0 || h.kind >= PEER_KIND_COUNT || h.length != (size_t)n - sizeof(h)) {
		close_all(got);
		return pawl_fail(err, PAWL_E_MALFORMED, "not a message of the other process (%zd bytes)", n);
	}
	*ret_kind = (enum peer_kind)h.kind;
	*ret_n = h.length;
	memcpy(ret_fd, got, sizeof(got));
	return 1;
}

int peer_recv(int fd, enum peer_kind *ret_kind, void *payload, size_t size, size_t *ret_n, struct pawl_error *err)
{
	int got[PEER_FDS] = { -1, -1 }, r = peer_recv_fds(fd, ret_kind, payload, size, ret_n, got, err);

	close_all(got);
	return r;
}
