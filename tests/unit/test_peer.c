/* tests/unit/test_peer.c - messages between the two processes that carry a descriptor, and those that are not messages. */
#include "daemon/watch/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

struct ends {
	int a, b;
};

static int make_ends(void **state)
{
	static struct ends e;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	e = (struct ends){ pair[0], pair[1] };
	*state = &e;
	return 0;
}

static int close_ends(void **state)
{
	const struct ends *e = *state;

	(void)close(e->a);
	(void)close(e->b);
	return 0;
}

static size_t open_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_descriptor(void **state)
{
	const struct ends *e = *state;
	const struct peer_part part[2] = { { "head", 4 }, { "tail!", 5 } };
	int null = open("/dev/null", O_RDONLY), zero = open("/dev/zero", O_RDONLY), got[PEER_FDS] = { -7, -7 };
	const int pass[PEER_FDS] = { null, zero };
	struct stat want, have;
	enum peer_kind kind;
	char text[16];
	size_t n;

	assert_int_equal(peer_send_parts(e->a, PEER_ATTACH, part, pass, NULL), 0);
	assert_int_equal(peer_recv_fds(e->b, &kind, text, sizeof(text), &n, got, NULL), 1);
	assert_int_equal(kind, PEER_ATTACH);
	assert_int_equal(n, 9);
	assert_memory_equal(text, "headtail!", 9);
	for (size_t i = 0; i < PEER_FDS; i++) {
		assert_true(got[i] >= 0 && got[i] != pass[i]);
		assert_int_equal(fcntl(got[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC); /* nothing that is started has it */
		assert_int_equal(fstat(pass[i], &want), 0);
		assert_int_equal(fstat(got[i], &have), 0);
		assert_true(want.st_ino == have.st_ino && want.st_dev == have.st_dev);
		(void)close(got[i]);
	}
	assert_int_equal(peer_send_parts(e->a, PEER_KILL, part, (const int[]){ zero, -1 }, NULL), 0); /* one alone */
	assert_int_equal(peer_recv_fds(e->b, &kind, text, sizeof(text), &n, got, NULL), 1);
	assert_true(got[0] >= 0 && got[1] == -1);
	(void)close(got[0]);
	assert_int_equal(peer_send(e->a, PEER_READY, NULL, 0, NULL), 0); /* none came along */
	assert_int_equal(peer_recv_fds(e->b, &kind, text, sizeof(text), &n, got, NULL), 1);
	assert_true(got[0] == -1 && got[1] == -1);
	(void)close(zero);
	(void)close(null);
}

/* Who does not ask for a descriptor does not keep one. */
static void test_unasked(void **state)
{
	const struct ends *e = *state;
	const struct peer_part part[2] = { { "x", 1 }, { NULL, 0 } };
	int null = open("/dev/null", O_RDONLY);
	size_t before = open_fds(), n;
	enum peer_kind kind;
	char text[16];

	assert_int_equal(peer_send_parts(e->a, PEER_KILL, part, (const int[]){ null, null }, NULL), 0);
	assert_int_equal(peer_recv(e->b, &kind, text, sizeof(text), &n, NULL), 1);
	assert_int_equal(open_fds(), before);
	(void)close(null);
}

static void send_raw(int fd, const struct peer_header *h, size_t head, const char *body, size_t n, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} c = { .bytes = { 0 } };
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	memcpy(&iov[0].iov_base, &h, sizeof(h));
	iov[0].iov_len = head;
	memcpy(&iov[1].iov_base, &body, sizeof(body));
	iov[1].iov_len = n;
	if (n_fds) {
		c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n_fds * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.head), fds, n_fds * sizeof(int));
		msg.msg_control = c.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)(head + n));
}

/* Refused, and no descriptor of it stays open. */
static void test_not_a_message(void **state)
{
	const struct ends *e = *state;
	static const struct {
		const char *what;
		struct peer_header h;
		size_t head, body, n_fds;
	} cases[] = {
		{ "other magic", { 1, PEER_KILL, 4, 0 }, 16, 4, 1 },
		{ "kind 0", { PEER_MAGIC, 0, 4, 0 }, 16, 4, 1 },
		{ "a kind that is none", { PEER_MAGIC, PEER_KIND_COUNT, 4, 0 }, 16, 4, 1 },
		{ "longer than told", { PEER_MAGIC, PEER_KILL, 3, 0 }, 16, 4, 1 },
		{ "shorter than told", { PEER_MAGIC, PEER_KILL, 5, 0 }, 16, 4, 1 },
		{ "not zero", { PEER_MAGIC, PEER_KILL, 4, 9 }, 16, 4, 1 },
		{ "half a header", { PEER_MAGIC, PEER_KILL, 0, 0 }, 8, 0, 1 },
		{ "longer than there is room for", { PEER_MAGIC, PEER_KILL, 40, 0 }, 16, 40, 1 },
		{ "two descriptors, and other magic", { 1, PEER_KILL, 4, 0 }, 16, 4, 2 },
		{ "three descriptors", { PEER_MAGIC, PEER_KILL, 4, 0 }, 16, 4, 3 },
		{ "four descriptors", { PEER_MAGIC, PEER_KILL, 4, 0 }, 16, 4, 4 },
	};
	static const char body[40];
	int null = open("/dev/null", O_RDONLY), fds[4] = { null, null, null, null };

	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		size_t before = open_fds(), n = 77;
		enum peer_kind kind = PEER_ALL;
		struct pawl_error err;
		char text[16];
		int got[PEER_FDS] = { -7, -7 }, r;

		send_raw(e->a, &cases[i].h, cases[i].head, body, cases[i].body, fds, cases[i].n_fds);
		r = peer_recv_fds(e->b, &kind, text, sizeof(text), &n, got, &err);
		if (r != PAWL_E_MALFORMED)
			fail_msg("%s: %d", cases[i].what, r);
		assert_true(kind == PEER_ALL && n == 77 && got[0] == -7 && got[1] == -7);
		if (open_fds() != before)
			fail_msg("%s: a descriptor stays open", cases[i].what);
	}
	(void)close(null);
}

/* An empty packet reads like an end, and may bring a descriptor all the same. */
static void test_empty_with_descriptor(void **state)
{
	static const struct peer_header h;
	const struct ends *e = *state;
	int null = open("/dev/null", O_RDONLY), got[PEER_FDS] = { -7, -7 };
	size_t before = open_fds(), n;
	enum peer_kind kind;

	send_raw(e->a, &h, 0, "", 0, &null, 1);
	assert_int_equal(peer_recv_fds(e->b, &kind, NULL, 0, &n, got, NULL), 0);
	assert_int_equal(open_fds(), before);
	(void)close(null);
}

static void test_full_and_gone(void **state)
{
	struct ends *e = *state;
	static char big[PEER_MAX_PAYLOAD];
	enum peer_kind kind;
	struct pawl_error err;
	size_t n;
	int r, sent = 0;

	assert_int_equal(peer_recv(e->b, &kind, big, sizeof(big), &n, &err), PAWL_E_FULL); /* nothing is there, and it does not wait */
	while ((r = peer_send(e->a, PEER_EVENTS, big, sizeof(big), &err)) == 0)
		sent++;
	assert_int_equal(r, PAWL_E_FULL);
	assert_true(sent > 0);
	for (int i = 0; i < sent; i++) {
		assert_int_equal(peer_recv(e->b, &kind, big, sizeof(big), &n, &err), 1);
		assert_int_equal(n, sizeof(big)); /* whole, each */
	}
	assert_int_equal(peer_send(e->a, PEER_EVENTS, big, sizeof(big) + 1, &err), PAWL_E_MALFORMED);
	(void)close(e->a);
	assert_int_equal(peer_recv(e->b, &kind, big, sizeof(big), &n, &err), 0);
	assert_int_equal(peer_send(e->b, PEER_READY, NULL, 0, &err), PAWL_E_SYS);
	e->a = -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_descriptor, make_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_unasked, make_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_not_a_message, make_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_empty_with_descriptor, make_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_full_and_gone, make_ends, close_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
