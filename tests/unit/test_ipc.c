/* tests/unit/test_ipc.c - the door: nanomsg's wire byte by byte, what is not it, many streams, peers that lag or vanish; and libnanomsg itself
 * as a peer. */
#include "daemon/door/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nanomsg/nn.h>
#include <nanomsg/reqrep.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

struct place {
	char dir[64], path[96];
	struct ipc *door;
};

static int open_door(struct place *p, uint32_t max)
{
	struct pawl_error err;

	(void)snprintf(p->dir, sizeof(p->dir), "/tmp/pawl-ipc-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->path, sizeof(p->path), "%s/door.sock", p->dir);
	return ipc_open(p->path, 0600, max, &p->door, &err);
}

static void close_door(struct place *p)
{
	ipc_close(p->door);
	(void)unlink(p->path);
	(void)rmdir(p->dir);
}

static int dial(const struct place *p)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(addr.sun_path, p->path, strlen(p->path) + 1);
	assert_int_equal(connect(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void put(int fd, const void *bytes, size_t n)
{
	assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

static const char hello[] = "\0SP\0\0\x30\0\0";

/* One turn of the loop: -1 nothing, else the message. */
static bool turn(struct place *p, struct ipc_msg *msg)
{
	for (int i = 0; i < 20; i++)
		if (ipc_receive(p->door, msg))
			return true;
	return false;
}

static ssize_t hear(struct place *p, int fd, void *out, size_t n)
{
	struct ipc_msg none;

	(void)turn(p, &none);
	return recv(fd, out, n, MSG_DONTWAIT);
}

static void test_one_request(void **unused)
{
	static const char frame[] = "\1\0\0\0\0\0\0\0\x09\x80\0\0\7hello";
	struct place p;
	struct ipc_msg msg;
	char got[64];
	int fd;

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	fd = dial(&p);
	assert_int_equal(hear(&p, fd, got, 8), 8);
	assert_memory_equal(got, "\0SP\0\0\x31\0\0", 8);
	/* byte by byte: nothing is a request before its last byte */
	put(fd, hello, 8);
	for (size_t i = 0; i + 1 < sizeof(frame) - 1; i++) {
		put(fd, frame + i, 1);
		assert_false(turn(&p, &msg));
	}
	put(fd, frame + sizeof(frame) - 2, 1);
	assert_true(turn(&p, &msg));
	assert_int_equal(msg.n, 5);
	assert_memory_equal(msg.body, "hello", 5);
	ipc_reply(p.door, &msg, STR("world!"));
	assert_int_equal(hear(&p, fd, got, sizeof(got)), 9 + 4 + 6);
	assert_memory_equal(got, "\1\0\0\0\0\0\0\0\x0a\x80\0\0\7world!", 19);
	ipc_body_free(&msg);
	(void)close(fd);
	close_door(&p);
}

static void test_hops(void **unused) /* through a device: words without bit 31 come back in front */
{
	static const char frame[] = "\1\0\0\0\0\0\0\0\x0d\0\0\0\1\0\0\0\2\x80\0\0\3x";
	struct place p;
	struct ipc_msg msg;
	char got[64];
	int fd;

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	fd = dial(&p);
	put(fd, hello, 8);
	put(fd, frame, sizeof(frame) - 1);
	assert_true(turn(&p, &msg));
	assert_int_equal(msg.header_n, 12);
	assert_int_equal(msg.n, 1);
	ipc_reply(p.door, &msg, STR("y"));
	assert_int_equal(hear(&p, fd, got, sizeof(got)), 8 + 9 + 12 + 1);
	assert_memory_equal(got + 17, "\0\0\0\1\0\0\0\2\x80\0\0\3y", 13);
	ipc_body_free(&msg);
	(void)close(fd);
	close_door(&p);
}

static void test_not_the_wire(void **unused)
{
	static const struct {
		const char *name, *bytes;
		size_t n;
	} cases[] = {
		{ "another protocol", "\0SP\0\0\x31\0\0", 8 },
		{ "not SP", "GET / HT", 8 },
		{ "frame type 0", "\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\0\5\x80\0\0\1x", 22 },
		{ "frame type 2", "\0SP\0\0\x30\0\0\2\0\0\0\0\0\0\0\5\x80\0\0\1x", 22 },
		{ "a length above the limit", "\0SP\0\0\x30\0\0\1\0\0\0\0\0\x20\0\0", 17 },
		{ "a length of 2^63", "\0SP\0\0\x30\0\0\1\x80\0\0\0\0\0\0\0", 17 },
		{ "no room for an id", "\0SP\0\0\x30\0\0\1\0\0\0\0\0\0\0\3\x80\0\0", 20 },
		{ "no id at all", "\0SP\0\0\x30\0\0\1\0\0\0\0\0\0\0\4\0\0\0\1", 21 },
		{ "nine hops", "\0SP\0\0\x30\0\0\1\0\0\0\0\0\0\0\x28\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1\x80\0\0\1", 57 },
	};
	struct place p;

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct ipc_msg msg;
		char got[16];
		int fd = dial(&p);
		ssize_t n;

		put(fd, cases[i].bytes, cases[i].n);
		assert_false(turn(&p, &msg));
		while ((n = recv(fd, got, sizeof(got), MSG_DONTWAIT)) > 0)
			;
		if (n != 0 && errno != ECONNRESET) /* reset: it closed with our bytes unread */
			fail_msg("%s: the stream stays open", cases[i].name);
		(void)close(fd);
	}
	assert_int_equal(ipc_oversized(p.door), 2);
	close_door(&p);
}

static void test_largest(void **unused)
{
	uint8_t head[17] = "\0SP\0\0\x30\0\0\1";
	size_t n = PAWL_MAX_WIRE, sent = 0;
	struct place p;
	struct ipc_msg msg;
	char *body = calloc(1, n);
	int fd;

	(void)unused;
	assert_non_null(body);
	assert_int_equal(open_door(&p, 4), 0);
	fd = dial(&p);
	for (int i = 0; i < 8; i++)
		head[9 + i] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
	body[0] = (char)0x80;
	put(fd, head, 17);
	while (sent < n) {
		ssize_t k = send(fd, body + sent, n - sent, MSG_DONTWAIT);

		assert_true(k > 0 || errno == EAGAIN);
		sent += k > 0 ? (size_t)k : 0;
		if (sent < n)
			assert_false(turn(&p, &msg));
	}
	assert_true(turn(&p, &msg) || turn(&p, &msg));
	assert_int_equal(msg.n, n - 4);
	ipc_body_free(&msg);
	(void)close(fd);
	free(body);
	close_door(&p);
}

static void test_pipelined_and_fair(void **unused) /* two streams with three requests each: they take turns, and each finds its way back */
{
	static const char three[] = "\1\0\0\0\0\0\0\0\5\x80\0\0\1a\1\0\0\0\0\0\0\0\5\x80\0\0\2b\1\0\0\0\0\0\0\0\5\x80\0\0\3c";
	struct place p;
	struct ipc_msg msg[6];
	int fd[2];
	char got[128];

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	for (int i = 0; i < 2; i++) {
		fd[i] = dial(&p);
		put(fd[i], hello, 8);
		put(fd[i], three, sizeof(three) - 1);
	}
	for (int i = 0; i < 6; i++)
		assert_true(turn(&p, &msg[i]));
	assert_int_equal(msg[0].slot == msg[1].slot, 0);
	assert_int_equal(msg[0].slot, msg[2].slot);
	for (int i = 5; i >= 0; i--) { /* out of order */
		ipc_reply(p.door, &msg[i], (struct str){ msg[i].body, 1 });
		ipc_body_free(&msg[i]);
	}
	assert_int_equal(recv(fd[0], got, sizeof(got), 0), 8 + 3 * 14);
	assert_memory_equal(got + 8 + 9, "\x80\0\0\3c", 5);
	(void)close(fd[0]);
	(void)close(fd[1]);
	close_door(&p);
}

static void test_gone_and_reused(void **unused) /* a late reply never reaches the stream that took the slot */
{
	static const char one[] = "\1\0\0\0\0\0\0\0\5\x80\0\0\1a";
	struct place p;
	struct ipc_msg old, now;
	char got[64];
	int fd, next;

	(void)unused;
	assert_int_equal(open_door(&p, 1), 0);
	fd = dial(&p);
	put(fd, hello, 8);
	put(fd, one, sizeof(one) - 1);
	assert_true(turn(&p, &old));
	(void)close(fd);
	assert_false(turn(&p, &now));
	next = dial(&p);
	put(next, hello, 8);
	put(next, one, sizeof(one) - 1);
	assert_true(turn(&p, &now));
	assert_int_equal(old.slot, now.slot);
	ipc_reply(p.door, &old, STR("not yours"));
	assert_int_equal(hear(&p, next, got, sizeof(got)), 8);
	ipc_reply(p.door, &now, STR("yours"));
	assert_int_equal(hear(&p, next, got, sizeof(got)), 9 + 4 + 5);
	ipc_body_free(&old);
	ipc_body_free(&now);
	(void)close(next);
	close_door(&p);
}

static void test_idle_makes_room(void **unused)
{
	static const char one[] = "\1\0\0\0\0\0\0\0\5\x80\0\0\1a";
	struct place p;
	struct ipc_msg msg, none;
	char got[64];
	int busy, idle[3], late;

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	busy = dial(&p);
	put(busy, hello, 8);
	put(busy, one, sizeof(one) - 1);
	assert_true(turn(&p, &msg)); /* owed an answer: must stay */
	for (int i = 0; i < 3; i++) {
		idle[i] = dial(&p);
		put(idle[i], hello, 8);
		assert_false(turn(&p, &none));
	}
	late = dial(&p);
	assert_int_equal(hear(&p, late, got, sizeof(got)), 8);
	assert_int_equal(recv(idle[0], got, sizeof(got), 0), 8);
	assert_int_equal(recv(idle[0], got, sizeof(got), 0), 0); /* idle longest */
	ipc_reply(p.door, &msg, STR("still here"));
	ipc_body_free(&msg);
	assert_int_equal(recv(busy, got, sizeof(got), MSG_DONTWAIT), 8 + 9 + 4 + 10);
	for (int i = 0; i < 3; i++)
		(void)close(idle[i]);
	(void)close(busy);
	(void)close(late);
	close_door(&p);
}

static void test_peer_that_does_not_read(void **unused)
{
	static const char one[] = "\1\0\0\0\0\0\0\0\5\x80\0\0\1a";
	char *big = calloc(1, 1u << 20);
	struct place p;
	struct ipc_msg msg;
	bool closed = false;
	int fd;

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	fd = dial(&p);
	put(fd, hello, 8);
	for (int i = 0; i < 16 && !closed; i++) {
		closed = send(fd, one, sizeof(one) - 1, MSG_NOSIGNAL) < 0 || !turn(&p, &msg);
		if (closed)
			break;
		ipc_reply(p.door, &msg, (struct str){ big, 1u << 20 });
		ipc_body_free(&msg);
	}
	assert_true(closed); /* 4 MiB unread: its own loss */
	(void)close(fd);
	free(big);
	close_door(&p);
}

/* Streams that hold half-sent bodies up to the bound: an honest one is served all the same. */
static void test_hoarders(void **unused)
{
	enum { STREAMS = 80, EACH = 1 << 20 };
	static const char one[] = "\1\0\0\0\0\0\0\0\5\x80\0\0\1a";
	char *big = calloc(1, EACH);
	uint8_t head[17] = "\0SP\0\0\x30\0\0\1";
	int fd[STREAMS], honest;
	struct place p;
	struct ipc_msg msg;

	(void)unused;
	assert_non_null(big);
	assert_int_equal(open_door(&p, STREAMS + 8), 0);
	head[14] = 0x10; /* claims 1 MiB + 1 */
	head[16] = 1;
	for (int i = 0; i < STREAMS; i++) {
		size_t sent = 0;

		fd[i] = dial(&p);
		put(fd[i], head, sizeof(head));
		for (int tries = 0; sent < EACH && tries < 200; tries++) {
			ssize_t k = send(fd[i], big + sent, EACH - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

			sent += k > 0 ? (size_t)k : 0;
			assert_false(ipc_receive(p.door, &msg));
		}
	}
	honest = dial(&p);
	put(honest, hello, 8);
	put(honest, one, sizeof(one) - 1);
	assert_true(turn(&p, &msg));
	ipc_body_free(&msg);
	for (int i = 0; i < STREAMS; i++)
		(void)close(fd[i]);
	(void)close(honest);
	free(big);
	close_door(&p);
}

static void test_paths(void **unused)
{
	char longer[200];
	struct place p;
	struct ipc *other = NULL;
	struct pawl_error err;

	(void)unused;
	memset(longer, 'a', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(ipc_open(longer, 0600, 4, &other, &err), PAWL_E_USAGE);
	assert_int_equal(ipc_open("/nonexistent/x.sock", 0600, 4, &other, &err), PAWL_E_SYS);
	assert_int_equal(open_door(&p, 4), 0);
	assert_int_equal(ipc_open(p.path, 0600, 4, &other, &err), PAWL_E_BUSY);
	ipc_close(p.door); /* leaves a dead socket file, as a SIGKILL does */
	p.door = NULL;
	assert_int_equal(ipc_open(p.path, 0600, 4, &p.door, &err), 0);
	assert_null(other);
	close_door(&p);
	ipc_close(NULL);
}

/* The library whose wire this is, as a client. */
static void test_libnanomsg_client(void **unused)
{
	struct place p;
	struct ipc_msg msg;
	char url[128], *got = NULL;
	int sock, resend = INT_MAX;

	(void)unused;
	assert_int_equal(open_door(&p, 4), 0);
	(void)snprintf(url, sizeof(url), "ipc://%s", p.path);
	sock = nn_socket(AF_SP, NN_REQ);
	assert_true(sock >= 0);
	assert_int_equal(nn_setsockopt(sock, NN_REQ, NN_REQ_RESEND_IVL, &resend, sizeof(resend)), 0);
	assert_true(nn_connect(sock, url) >= 0);
	for (int round = 0; round < 3; round++) {
		int n = -1;

		assert_int_equal(nn_send(sock, "ping", 4, 0), 4);
		for (int i = 0; i < 1000 && !ipc_receive(p.door, &msg); i++)
			(void)usleep(1000);
		assert_int_equal(msg.n, 4);
		ipc_reply(p.door, &msg, STR("pong"));
		ipc_body_free(&msg);
		n = nn_recv(sock, &got, NN_MSG, 0);
		assert_int_equal(n, 4);
		assert_memory_equal(got, "pong", 4);
		(void)nn_freemsg(got);
	}
	(void)nn_close(sock);
	close_door(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_request),	    cmocka_unit_test(test_hops),
		cmocka_unit_test(test_not_the_wire),	    cmocka_unit_test(test_largest),
		cmocka_unit_test(test_pipelined_and_fair),  cmocka_unit_test(test_gone_and_reused),
		cmocka_unit_test(test_idle_makes_room),	    cmocka_unit_test(test_peer_that_does_not_read),
		cmocka_unit_test(test_hoarders),	    cmocka_unit_test(test_paths),
		cmocka_unit_test(test_libnanomsg_client),
	};

	return cmocka_run_group_tests_name("ipc", tests, NULL, NULL);
}
