/* daemon/door/attach.c - see attach.h: connections of the watch door. What they say is attach_ops.c's. Owns the listening socket, the connections
 * and the descriptors that come in; each has one packet on its way at most, and whoever does not read its answers is cut off. */
#include "daemon/door/attach_int.h"

#include "daemon/door/peer_tree.h"
#include "daemon/door/spare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 512
#define LISTENER UINT32_MAX /* in epoll's data: not a connection */
#define AT_ONCE 64

union control { /* room for one descriptor, aligned as the kernel wants it */
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int listen_on(struct attach_door *door, const char *path, struct pawl_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = LISTENER };
	struct stat st;

	if (strlen(path) >= sizeof(addr.sun_path))
		return pawl_fail(err, PAWL_E_USAGE, "socket path is longer than %zu bytes: %s", sizeof(addr.sun_path) - 1, path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s exists and is not a socket", path);
	door->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (door->listener < 0)
		return pawl_fail_errno(err, "socket");
	if (connect(door->listener, (const struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EAGAIN)
		return pawl_fail(err, PAWL_E_BUSY, "another process listens on %s", path);
	if (errno == ECONNREFUSED)
		(void)unlink(path); /* a dead one */
	door->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (door->epoll < 0 || bind(door->listener, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0666) < 0 ||
	    listen(door->listener, BACKLOG) < 0 || epoll_ctl(door->epoll, EPOLL_CTL_ADD, door->listener, &ev) < 0)
		return pawl_fail_errno(err, "cannot listen on %s", path);
	return 0;
}

/* What a tree must not see, by its real name: links would be a way round. What is not there needs no hiding; what cannot be named is no start. */
static int hide(struct attach_door *door, const char *path, bool folder, struct pawl_error *err)
{
	char buf[PAWL_MAX_PATH], real[4096], *slash;

	(void)snprintf(buf, sizeof(buf), "%s", path);
	slash = folder ? strrchr(buf, '/') : NULL;
	if (slash && slash != buf)
		*slash = '\0';
	if (!realpath(buf, real))
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : pawl_fail_errno(err, "%.100s", buf);
	if (strlen(real) >= PAWL_MAX_PATH || door->n_hide == WATCH_MAX_HIDE)
		return pawl_fail(err, PAWL_E_USAGE, "the real path of %.100s is longer than %d bytes, and pawl run could not hide it", buf, PAWL_MAX_PATH - 1);
	for (size_t i = 0; i < door->n_hide; i++)
		if (strcmp(door->hide[i], real) == 0)
			return 0;
	memcpy(door->hide[door->n_hide++], real, strlen(real) + 1);
	return 0;
}

static int name_paths(struct attach_door *door, const struct options *opt, struct pawl_error *err)
{
	const struct {
		const char *path;
		bool folder; /* the one that it lies in */
	} rows[] = { { opt->state, false }, { opt->log, false }, { opt->key, true }, { opt->operators, false }, { opt->operator_socket, true },
		     { opt->policy, false }, { WATCH_RUN, false /* of this and other daemons */ }, { "/sys/fs/bpf", false } };
	char real[4096];
	int r = 0;

	_Static_assert(PAWL_LEN(rows) <= WATCH_MAX_HIDE, "room for all");
	for (size_t i = 0; i < PAWL_LEN(rows) && r == 0; i++)
		r = hide(door, rows[i].path, rows[i].folder, err);
	(void)snprintf(door->agent_socket, sizeof(door->agent_socket), "%s", opt->socket);
	if (realpath(opt->socket, real) && strlen(real) < PAWL_MAX_PATH)
		memcpy(door->agent_socket, real, strlen(real) + 1);
	return r;
}

int attach_open(struct daemon *d, struct pawl_error *err)
{
	struct attach_door *door = calloc(1, sizeof(*door));
	int r;

	if (!door)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	door->d = d;
	door->listener = door->epoll = door->spare = -1;
	for (size_t i = 0; i < WATCH_MAX_CONNS; i++)
		door->conn[i].fd = -1;
	d->watch_door = door;
	r = listen_on(door, d->opt->watch_socket, err);
	if (r == 0)
		r = name_paths(door, d->opt, err);
	spare_keep(door->listener, &door->spare);
	if (r < 0)
		attach_close(d);
	return r;
}

void job_end(struct watch_job *job)
{
	if (!job)
		return;
	if (job->pidfd >= 0)
		(void)close(job->pidfd);
	request_done(&job->rq);
	explicit_bzero(job, sizeof(*job)); /* tokens */
	free(job);
}

static void conn_close(struct attach_door *door, struct watch_conn *c)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = LISTENER };

	(void)epoll_ctl(door->epoll, EPOLL_CTL_DEL, c->fd, NULL); /* the watcher may hold the connection still */
	(void)close(c->fd);
	c->fd = -1;
	spare_keep(door->listener, &door->spare);
	if (door->deaf)
		door->deaf = epoll_ctl(door->epoll, EPOLL_CTL_MOD, door->listener, &ev) < 0;
	if (c->job && !c->job->in_spine)
		job_end(c->job);
	c->job = NULL;
	if (door->d->watched)
		watched_owner_gone(door->d->watched, c->id);
}

void attach_close(struct daemon *d)
{
	struct attach_door *door = d->watch_door;

	if (!door)
		return;
	for (size_t i = 0; i < WATCH_MAX_CONNS; i++)
		if (door->conn[i].fd >= 0)
			conn_close(door, &door->conn[i]);
	if (door->listener >= 0)
		(void)close(door->listener);
	if (door->spare >= 0)
		(void)close(door->spare);
	if (door->epoll >= 0)
		(void)close(door->epoll);
	free(door);
	d->watch_door = NULL;
}

int attach_fd(const struct daemon *d)
{
	return d->watch_door ? d->watch_door->epoll : -1;
}

struct watch_conn *conn_find(struct attach_door *door, uint64_t id)
{
	for (size_t i = 0; i < WATCH_MAX_CONNS; i++)
		if (door->conn[i].fd >= 0 && door->conn[i].id == id)
			return &door->conn[i];
	return NULL;
}

static bool listens(struct attach_door *door, const struct watch_conn *c, bool on)
{
	struct epoll_event ev = { .events = on ? EPOLLIN : 0u, .data.u32 = (uint32_t)(c - door->conn) };

	return epoll_ctl(door->epoll, EPOLL_CTL_MOD, c->fd, &ev) == 0;
}

void conn_send(struct attach_door *door, struct watch_conn *c, struct buf *out)
{
	ssize_t n;

	do
		n = buf_ok(out) ? send(c->fd, out->p, out->n, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
	while (n < 0 && buf_ok(out) && errno == EINTR);
	if (n != (ssize_t)out->n) /* it does not read, or we have no memory for its answer */
		conn_close(door, c);
}

void conn_idle(struct attach_door *door, struct watch_conn *c)
{
	if (c->fd >= 0 && !listens(door, c, true))
		conn_close(door, c);
}

/* A free one, or that of whoever has no tree here and waits for nothing: idle connections must not keep launchers out. */
static struct watch_conn *slot(struct attach_door *door)
{
	struct watch_conn *oldest = NULL;

	for (size_t i = 0; i < WATCH_MAX_CONNS; i++) {
		struct watch_conn *c = &door->conn[i];

		if (c->fd < 0)
			return c;
		if (!c->job && (!oldest || c->id < oldest->id) && !watched_owned(door->d->watched, c->id))
			oldest = c;
	}
	if (oldest)
		conn_close(door, oldest);
	return oldest;
}

static void turn_away(int fd, const char *why)
{
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);

	reply_error(OP_NONE, REASON_UNAVAILABLE, NULL, why, 0, &out);
	if (buf_ok(&out))
		(void)send(fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
	buf_done(&out);
	(void)close(fd);
}

static bool turn_one_away(struct attach_door *door)
{
	int fd = spare_accept(door->listener, &door->spare), was = errno;

	if (fd >= 0)
		turn_away(fd, "pawld has no descriptor left");
	spare_keep(door->listener, &door->spare);
	errno = was;
	return fd >= 0;
}

static void take_conns(struct attach_door *door)
{
	struct epoll_event quiet = { .events = 0, .data.u32 = LISTENER };

	for (int i = 0; i < 16; i++) {
		int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred who = { .pid = 0 };
		socklen_t n = sizeof(who);
		struct watch_conn *c;
		struct epoll_event ev;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE) && turn_one_away(door))
			continue;
		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) /* until one closes: else the loop would spin */
			door->deaf = epoll_ctl(door->epoll, EPOLL_CTL_MOD, door->listener, &quiet) == 0;
		if (fd < 0)
			return;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0 || who.pid <= 0) {
			turn_away(fd, "whoever connects from outside of pawld's pid namespace cannot be told from others, so nothing of it can be watched");
			continue;
		}
		c = slot(door);
		ev = (struct epoll_event){ .events = EPOLLIN, .data.u32 = c ? (uint32_t)(c - door->conn) : 0 };
		if (!c || epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
			turn_away(fd, c ? "pawld is out of memory" : "as many watched commands run as pawld has connections for");
			continue;
		}
		*c = (struct watch_conn){ .fd = fd, .id = ++door->ids, .pid = (uint32_t)who.pid,
					    .born = peer_born(who.pid) };
	}
}

/* The one descriptor that may come along. More than that were cut off by the kernel, which MSG_CTRUNC tells: the buffer is said to end behind
 * the first, since what CMSG_SPACE() rounds up to would let a second one in, for nobody to close. */
static int descriptor_of(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void take_packet(struct attach_door *door, struct watch_conn *c)
{
	char body[WATCH_MAX_PACKET + 1];
	struct iovec iov = { body, sizeof(body) };
	union control ctl = { .bytes = { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.bytes, .msg_controllen = CMSG_LEN(sizeof(int)) };
	struct buf out = BUF_MAX(WATCH_MAX_PACKET);
	ssize_t n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fd;

	if (n < 0 && errno == ECONNRESET) /* it has closed with news of ours unread; its own last word is behind that */
		n = recvmsg(c->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	fd = n >= 0 ? descriptor_of(&msg) : -1; /* an empty packet may bring one too */
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		if (fd >= 0)
			(void)close(fd);
		conn_close(door, c);
		return;
	}
	if (n > (ssize_t)WATCH_MAX_PACKET || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		if (fd >= 0)
			(void)close(fd);
		door->d->m.count.malformed++;
		reply_error(OP_NONE, REASON_MALFORMED, "", "a packet of at most 64 KiB with at most one descriptor", 0, &out);
	} else if (attach_request(door, c, (struct str){ body, (size_t)n }, fd, &out)) {
		if (!listens(door, c, false))
			conn_close(door, c);
		return;
	}
	conn_send(door, c, &out);
	buf_done(&out);
}

bool attach_serve(struct daemon *d)
{
	struct attach_door *door = d->watch_door;
	struct epoll_event ev[AT_ONCE];
	int n = door ? epoll_wait(door->epoll, ev, AT_ONCE, 0) : 0;

	for (int i = 0; i < n; i++) {
		struct watch_conn *c;

		if (ev[i].data.u32 == LISTENER) {
			take_conns(door);
			continue;
		}
		c = &door->conn[ev[i].data.u32];
		if (c->fd < 0)
			continue;
		if (!(ev[i].events & EPOLLIN)) /* hung up while it waited for an answer */
			conn_close(door, c);
		else
			take_packet(door, c);
	}
	return false;
}

struct watched_news attach_news(struct daemon *d)
{
	return (struct watched_news){ .attached = attach_told, .ended = attach_ended, .arg = d };
}
