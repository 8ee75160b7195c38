/* daemon/door/ipc.c - see ipc.h. Owns the listening socket, the connections and their buffers.
 * Memory grows with bytes that arrived, never with a length that a peer only claims. */
#include "daemon/door/ipc.h"

#include "daemon/door/peer_tree.h"

#include "daemon/base/buf.h"
#include "daemon/door/spare.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO_N 8
#define FRAME_N 9		/* 01, u64 length */
#define READ_AT_ONCE (64u << 10)
#define BACKLOG 512
#define LISTENER UINT32_MAX	/* in epoll's data: not a connection */

static const uint8_t hello_req[HELLO_N] = { 0, 'S', 'P', 0, 0, 0x30, 0, 0 };
static const uint8_t hello_rep[HELLO_N] = { 0, 'S', 'P', 0, 0, 0x31, 0, 0 };

struct conn {
	int fd;			/* -1: free */
	uint32_t generation;	/* of the slot: a reply to a stream that is gone must not reach the next one */
	uint64_t used;		/* door's counter at the last sign of life: the smallest is idle longest */
	int64_t pid;		/* SO_PEERCRED */
	uint64_t born;		/* of that process */
	uint32_t owed;		/* requests handed out and not answered */
	bool greeted, ready;	/* hello seen; in the list of streams that may hold a whole frame */
	bool want_write;
	struct buf in, out;
	size_t sent;		/* of out */
};

struct ipc {
	int listener, epoll;
	bool deaf;	       /* the listener is out of epoll: no descriptor was free */
	int spare;	       /* a descriptor given up where nobody of this door could leave to make it hear again; -1: none */
	uint32_t max;
	struct conn *conn;     /* max of them */
	uint32_t *ready;       /* a ring of max slots with unread bytes in `in` */
	uint32_t ready_at, ready_n;
	uint64_t ticks, oversized;
	size_t partial;
};

static int path_is_free(const char *path, struct sockaddr_un *addr, struct pawl_error *err)
{
	struct stat st;
	int fd, r;

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(addr->sun_path))
		return pawl_fail(err, PAWL_E_USAGE, "socket path is longer than %zu bytes: %s", sizeof(addr->sun_path) - 1, path);
	memcpy(addr->sun_path, path, strlen(path) + 1);
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s exists and is not a socket", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return pawl_fail_errno(err, "socket");
	r = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
	if (r == 0 || errno == EAGAIN) {
		(void)close(fd);
		return pawl_fail(err, PAWL_E_BUSY, "another process listens on %s", path);
	}
	if (errno == ECONNREFUSED)
		(void)unlink(path); /* a dead one */
	(void)close(fd);
	return 0;
}

static int watch(struct ipc *door, int op, int fd, uint32_t what, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u32 = what };

	return epoll_ctl(door->epoll, op, fd, &ev);
}

int ipc_open(const char *path, unsigned mode, uint32_t max, struct ipc **ret, struct pawl_error *err)
{
	struct sockaddr_un addr;
	struct ipc *door;
	int r = path_is_free(path, &addr, err);

	if (r < 0)
		return r;
	door = calloc(1, sizeof(*door));
	if (!door)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	door->listener = door->epoll = door->spare = -1;
	door->conn = calloc(max, sizeof(struct conn));
	door->ready = calloc(max, sizeof(uint32_t));
	if (!door->conn || !door->ready) {
		ipc_close(door);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	door->max = max;
	for (uint32_t i = 0; i < max; i++)
		door->conn[i].fd = -1;
	door->epoll = epoll_create1(EPOLL_CLOEXEC);
	door->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (door->epoll < 0 || door->listener < 0 || bind(door->listener, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, mode) < 0 ||
	    listen(door->listener, BACKLOG) < 0 || watch(door, EPOLL_CTL_ADD, door->listener, LISTENER, EPOLLIN) < 0) {
		r = pawl_fail_errno(err, "cannot listen on %s", path);
		ipc_close(door);
		return r;
	}
	spare_keep(door->listener, &door->spare);
	*ret = door;
	return 0;
}

static void conn_close(struct ipc *door, struct conn *c)
{
	door->partial -= c->in.n;
	(void)close(c->fd);
	spare_keep(door->listener, &door->spare);
	if (door->deaf)
		door->deaf = watch(door, EPOLL_CTL_MOD, door->listener, LISTENER, EPOLLIN) < 0;
	c->fd = -1;
	c->generation++;
	buf_done(&c->in);
	buf_done(&c->out);
}

void ipc_close(struct ipc *door)
{
	if (!door)
		return;
	for (uint32_t i = 0; i < door->max; i++)
		if (door->conn[i].fd >= 0)
			conn_close(door, &door->conn[i]);
	if (door->listener >= 0)
		(void)close(door->listener);
	if (door->spare >= 0)
		(void)close(door->spare);
	if (door->epoll >= 0)
		(void)close(door->epoll);
	free(door->conn);
	free(door->ready);
	free(door);
}

int ipc_fd(const struct ipc *door)
{
	return door->epoll;
}

uint64_t ipc_oversized(const struct ipc *door)
{
	return door->oversized;
}

/* ---- connections ---- */

/* A free slot, or that of the stream that has been idle longest and is owed nothing: idle streams must not keep others out. */
static struct conn *slot_for_new(struct ipc *door)
{
	struct conn *oldest = NULL;

	for (uint32_t i = 0; i < door->max; i++) {
		struct conn *c = &door->conn[i];

		if (c->fd < 0 && !c->ready) /* a closed stream may still be in the ring */
			return c;
		if (c->fd >= 0 && c->owed == 0 && !c->ready && (!oldest || c->used < oldest->used))
			oldest = c;
	}
	if (oldest)
		conn_close(door, oldest);
	return oldest;
}

static void send_out(struct ipc *door, struct conn *c)
{
	while (c->sent < c->out.n) {
		ssize_t n = send(c->fd, c->out.p + c->sent, c->out.n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			conn_close(door, c);
			return;
		}
		if (n < 0)
			break;
		c->sent += (size_t)n;
	}
	if (c->sent == c->out.n) {
		buf_reset(&c->out);
		c->sent = 0;
	}
	if (c->want_write != (c->out.n > 0)) {
		c->want_write = c->out.n > 0;
		if (watch(door, EPOLL_CTL_MOD, c->fd, (uint32_t)(c - door->conn), EPOLLIN | (c->want_write ? EPOLLOUT : 0u)) < 0)
			conn_close(door, c);
	}
}

/* Cuts off one who waits, where no stream of ours is left whose end would be the sign to listen again: others have taken the descriptors. */
static bool cut_one_off(struct ipc *door)
{
	int fd, was;

	for (uint32_t i = 0; i < door->max; i++)
		if (door->conn[i].fd >= 0)
			return false;
	fd = spare_accept(door->listener, &door->spare);
	was = errno;
	if (fd >= 0)
		(void)close(fd);
	spare_keep(door->listener, &door->spare);
	errno = was;
	return fd >= 0;
}

static void accept_all(struct ipc *door)
{
	for (int i = 0; i < 16; i++) {
		int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred who = { .pid = 0 };
		socklen_t who_n = sizeof(who);
		struct conn *c;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE) && cut_one_off(door))
			continue;
		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) /* until a stream closes: else the loop would spin */
			door->deaf = watch(door, EPOLL_CTL_MOD, door->listener, LISTENER, 0) == 0;
		if (fd < 0)
			return;
		c = slot_for_new(door);
		if (!c || watch(door, EPOLL_CTL_ADD, fd, (uint32_t)(c - door->conn), EPOLLIN) < 0) {
			(void)close(fd);
			continue;
		}
		(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_n);
		*c = (struct conn){ .fd = fd, .pid = who.pid, .born = peer_born(who.pid), .generation = c->generation + 1, .used = ++door->ticks };
		buf_init(&c->in, HELLO_N + FRAME_N + PAWL_MAX_WIRE + READ_AT_ONCE);
		buf_init(&c->out, IPC_MAX_UNSENT);
		buf_add(&c->out, hello_rep, HELLO_N);
		send_out(door, c);
	}
}

static void put_ready(struct ipc *door, struct conn *c)
{
	if (c->ready)
		return;
	c->ready = true;
	door->ready[(door->ready_at + door->ready_n++) % door->max] = (uint32_t)(c - door->conn);
}

/* Half-received bodies are bounded together: whoever holds most of them makes room, so that holding them keeps nobody out. */
static void make_room(struct ipc *door, size_t n)
{
	while (door->partial + n > IPC_MAX_PARTIAL) {
		struct conn *most = NULL;

		for (uint32_t i = 0; i < door->max; i++)
			if (door->conn[i].fd >= 0 && door->conn[i].in.n > (most ? most->in.n : 0))
				most = &door->conn[i];
		if (!most)
			return;
		conn_close(door, most);
	}
}

/* One read a wake-up: a peer that floods waits its turn like the rest. */
static void conn_read(struct ipc *door, struct conn *c)
{
	char got[READ_AT_ONCE];
	ssize_t n = recv(c->fd, got, sizeof(got), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		make_room(door, (size_t)n);
	if (c->fd < 0) /* it held most itself */
		return;
	if (n > 0)
		buf_add(&c->in, got, (size_t)n);
	if (n <= 0 || !buf_ok(&c->in)) {
		conn_close(door, c);
		return;
	}
	door->partial += (size_t)n;
	c->used = ++door->ticks;
	put_ready(door, c);
}

static void take_events(struct ipc *door)
{
	struct epoll_event ev[64];
	int n = epoll_wait(door->epoll, ev, (int)PAWL_LEN(ev), 0);

	for (int i = 0; i < n; i++) {
		struct conn *c;

		if (ev[i].data.u32 == LISTENER) {
			accept_all(door);
			continue;
		}
		c = &door->conn[ev[i].data.u32];
		if (c->fd >= 0 && (ev[i].events & EPOLLOUT))
			send_out(door, c);
		if (c->fd >= 0 && (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
			conn_read(door, c);
	}
}

/* ---- frames ---- */

static void eat(struct ipc *door, struct conn *c, size_t n)
{
	memmove(c->in.p, c->in.p + n, c->in.n - n);
	c->in.n -= n;
	door->partial -= n;
	if (c->in.n == 0)
		buf_done(&c->in); /* an idle stream holds no memory */
}

static uint64_t frame_length(const uint8_t *p)
{
	uint64_t n = 0;

	for (int i = 0; i < 8; i++)
		n = n << 8 | p[i];
	return n;
}

/* The words in front of a body: hops, then the request's id with bit 31 set. 0: there is no such header. */
static size_t header_length(const uint8_t *p, size_t n)
{
	for (size_t at = 0; at + 4 <= n && at < IPC_MAX_HEADER; at += 4)
		if (p[at] & 0x80)
			return at + 4;
	return 0;
}

static int take_frame(struct ipc *door, struct conn *c, struct ipc_msg *ret)
{
	const uint8_t *p = (const uint8_t *)c->in.p;
	struct ipc_msg msg = { .slot = (uint32_t)(c - door->conn), .generation = c->generation, .pid = c->pid, .born = c->born };
	uint64_t n;
	size_t head;

	if (!c->greeted) {
		if (c->in.n < HELLO_N)
			return 0;
		if (memcmp(p, hello_req, HELLO_N) != 0)
			return -1;
		c->greeted = true;
		eat(door, c, HELLO_N);
		p = (const uint8_t *)c->in.p;
	}
	if (c->in.n < FRAME_N)
		return 0;
	n = frame_length(p + 1);
	if (p[0] != 1)
		return -1;
	if (n > PAWL_MAX_WIRE) {
		door->oversized++;
		return -1;
	}
	if (c->in.n - FRAME_N < n)
		return 0;
	head = header_length(p + FRAME_N, (size_t)n);
	msg.body = malloc((size_t)n - head + 1);
	if (head == 0 || !msg.body) {
		free(msg.body);
		return -1;
	}
	msg.header_n = (uint32_t)head;
	memcpy(msg.header, p + FRAME_N, head);
	msg.n = (size_t)n - head;
	memcpy(msg.body, p + FRAME_N + head, msg.n);
	eat(door, c, FRAME_N + (size_t)n);
	c->owed++;
	*ret = msg;
	return 1;
}

int ipc_receive(struct ipc *door, struct ipc_msg *ret)
{
	for (int pass = 0; pass < 2; pass++) {
		while (door->ready_n) {
			struct conn *c = &door->conn[door->ready[door->ready_at]];
			int r;

			door->ready_at = (door->ready_at + 1) % door->max;
			door->ready_n--;
			c->ready = false;
			if (c->fd < 0)
				continue;
			r = take_frame(door, c, ret);
			if (r < 0)
				conn_close(door, c);
			if (r > 0) {
				if (c->in.n)
					put_ready(door, c); /* behind the others */
				return 1;
			}
		}
		if (pass == 0)
			take_events(door);
	}
	return 0;
}

void ipc_body_free(struct ipc_msg *msg)
{
	free(msg->body);
	msg->body = NULL;
	msg->n = 0;
}

/* The stream that asked, owed one answer less; NULL when it is gone. */
static struct conn *asker(struct ipc *door, const struct ipc_msg *msg)
{
	struct conn *c = &door->conn[msg->slot];

	if (c->fd < 0 || c->generation != msg->generation)
		return NULL;
	c->owed -= c->owed > 0;
	return c;
}

void ipc_forget(struct ipc *door, const struct ipc_msg *msg)
{
	(void)asker(door, msg);
}

/* Without a copy when nothing is unsent before it. Hands back how much of the frame the peer took; -1: the stream is dead. */
static ssize_t send_frame(const struct conn *c, const void *head, size_t head_n, struct str body)
{
	struct iovec part[] = { { (void *)(uintptr_t)head, head_n }, { (void *)(uintptr_t)body.p, body.n } };
	struct msghdr m = { .msg_iov = part, .msg_iovlen = PAWL_LEN(part) };
	ssize_t n = c->out.n ? 0 : sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

void ipc_reply(struct ipc *door, const struct ipc_msg *msg, struct str body)
{
	struct conn *c = asker(door, msg);
	uint8_t head[FRAME_N + IPC_MAX_HEADER] = { 1 };
	size_t head_n = FRAME_N + msg->header_n, sent;
	uint64_t n = msg->header_n + body.n;
	ssize_t took;

	if (!c)
		return;
	c->used = ++door->ticks;
	for (int i = 0; i < 8; i++)
		head[1 + i] = (uint8_t)(n >> (56 - 8 * i));
	memcpy(head + FRAME_N, msg->header, msg->header_n);
	took = send_frame(c, head, head_n, body);
	if (took == (ssize_t)(head_n + body.n))
		return;
	if (took < 0) {
		conn_close(door, c);
		return;
	}
	sent = (size_t)took;
	if (sent < head_n)
		buf_add(&c->out, head + sent, head_n - sent);
	sent -= sent < head_n ? sent : head_n;
	buf_add(&c->out, body.p + sent, body.n - sent);
	if (!buf_ok(&c->out))
		conn_close(door, c); /* it does not read its answers */
	else
		send_out(door, c);
}
