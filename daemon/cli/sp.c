/* daemon/cli/sp.c - see sp.h. */
#include "daemon/cli/sp.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const uint8_t hello_req[8] = { 0, 'S', 'P', 0, 0, 0x30, 0, 0 }, hello_rep[8] = { 0, 'S', 'P', 0, 0, 0x31, 0, 0 };
#define REQUEST_ID 0x80000001u

struct line { /* one connection and the moment by which all must be done */
	int fd;
	int64_t until_ms;
};

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int wait_for(const struct line *l, short events, struct pawl_error *err)
{
	struct pollfd p = { l->fd, events, 0 };
	int64_t left = l->until_ms - now_ms();
	int n = left > 0 ? poll(&p, 1, (int)left) : 0;

	if (n < 0 && errno != EINTR)
		return pawl_fail_errno(err, "poll");
	return n == 0 ? pawl_fail(err, PAWL_E_SYS, "no answer in time") : 0;
}

static int send_all(const struct line *l, const void *p, size_t n, struct pawl_error *err)
{
	const char *at = p;

	while (n) {
		ssize_t sent = send(l->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return pawl_fail_errno(err, "pawld closed the connection");
		if (sent > 0) {
			at += sent;
			n -= (size_t)sent;
		} else if (wait_for(l, POLLOUT, err) < 0) {
			return PAWL_E_SYS;
		}
	}
	return 0;
}

static int recv_all(const struct line *l, void *p, size_t n, struct pawl_error *err)
{
	char *at = p;

	while (n) {
		ssize_t got = recv(l->fd, at, n, MSG_DONTWAIT);

		if (got == 0)
			return pawl_fail(err, PAWL_E_SYS, "pawld closed the connection");
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return pawl_fail_errno(err, "recv");
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		} else if (wait_for(l, POLLIN, err) < 0) {
			return PAWL_E_SYS;
		}
	}
	return 0;
}

static int connect_to(struct line *l, const char *path, struct pawl_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const struct timespec pause = { 0, 2000000 };

	if (strlen(path) >= sizeof(addr.sun_path))
		return pawl_fail(err, PAWL_E_USAGE, "socket path is longer than %zu bytes: %s", sizeof(addr.sun_path) - 1, path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return pawl_fail_errno(err, "socket");
	while (connect(l->fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EAGAIN || now_ms() >= l->until_ms) /* EAGAIN: the backlog is full */
			return pawl_fail_errno(err, "is pawld running? %s", path);
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static void put_be(uint8_t *out, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
}

static int exchange(struct line *l, struct str body, struct buf *out, struct pawl_error *err)
{
	uint8_t head[13] = { 1 }, peer[8];
	uint64_t n = 0;
	char *room;
	int r;

	put_be(head + 1, body.n + 4, 8);
	put_be(head + 9, REQUEST_ID, 4);
	if ((r = send_all(l, hello_req, 8, err)) < 0 || (r = recv_all(l, peer, 8, err)) < 0)
		return r;
	if (memcmp(peer, hello_rep, 8) != 0)
		return pawl_fail(err, PAWL_E_MALFORMED, "this socket is not pawld's");
	if ((r = send_all(l, head, sizeof(head), err)) < 0 || (r = send_all(l, body.p, body.n, err)) < 0 ||
	    (r = recv_all(l, head, sizeof(head), err)) < 0)
		return r;
	for (int i = 1; i <= 8; i++)
		n = n << 8 | head[i];
	put_be(peer, REQUEST_ID, 4);
	if (head[0] != 1 || n < 4 || memcmp(head + 9, peer, 4) != 0 || n - 4 > out->max)
		return pawl_fail(err, PAWL_E_MALFORMED, "not an answer to this question");
	room = buf_room(out, (size_t)n - 4);
	if (!room)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	r = recv_all(l, room, (size_t)n - 4, err);
	if (r == 0)
		out->n += (size_t)n - 4;
	return r;
}

int sp_request(const char *path, struct str body, int timeout_ms, struct buf *out, struct pawl_error *err)
{
	struct line l = { .fd = -1, .until_ms = now_ms() + timeout_ms };
	int r = connect_to(&l, path, err);

	if (r == 0)
		r = exchange(&l, body, out, err);
	if (l.fd >= 0)
		(void)close(l.fd);
	return r;
}
