/* tests/unit/test_safe.c - files and folders that another user could change; options; messages between the two processes. */
#include "daemon/base/owner.h"
#include "daemon/options.h"
#include "daemon/safe.h"
#include "daemon/watch/peer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

struct place {
	char dir[64], file[96];
};

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	int fd;

	(void)snprintf(p->dir, sizeof(p->dir), "%s/pawl-safe-XXXXXX", "/tmp");
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->file, sizeof(p->file), "%s/policy.yaml", p->dir);
	fd = open(p->file, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0 && write(fd, "hello", 5) == 5);
	(void)close(fd);
	*state = p;
	return 0;
}

static int end_place(void **state)
{
	struct place *p = *state;
	char lock[96];

	(void)snprintf(lock, sizeof(lock), "%s/lock", p->dir);
	(void)unlink(lock);
	(void)unlink(p->file);
	(void)rmdir(p->dir);
	free(p);
	return 0;
}

static void test_modes(void **state)
{
	static const struct {
		mode_t file, dir;
		int file_r, dir_r;
	} cases[] = {
		{ 0600, 0700, 0, 0 },
		{ 0644, 0755, 0, PAWL_E_UNSAFE },
		{ 0660, 0700, PAWL_E_UNSAFE, 0 },
		{ 0602, 0700, PAWL_E_UNSAFE, 0 },
		{ 0600, 0770, PAWL_E_UNSAFE, PAWL_E_UNSAFE },
		{ 0600, 0703, PAWL_E_UNSAFE, PAWL_E_UNSAFE },
		{ 0600, 01777, 0, PAWL_E_UNSAFE }, /* sticky, as /tmp: nobody else can rename ours */
	};
	struct place *p = *state;
	struct pawl_error err;

	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		char *text = NULL;
		size_t n;
		int r;

		assert_int_equal(chmod(p->file, cases[i].file), 0);
		assert_int_equal(chmod(p->dir, cases[i].dir), 0);
		r = safe_file(p->file, OWNER_NO_GROUP, &err);
		if (r != cases[i].file_r)
			fail_msg("case %zu: file %d: %s", i, r, r < 0 ? err.msg : "");
		r = safe_private_dir(p->dir, OWNER_NO_GROUP, &err);
		if (r != cases[i].dir_r)
			fail_msg("case %zu: folder %d: %s", i, r, r < 0 ? err.msg : "");
		r = safe_read(p->file, 100, OWNER_NO_GROUP, &text, &n, &err);
		assert_true((r == 0) == ((cases[i].file & 022) == 0));
		free(text);
	}
	assert_int_equal(chmod(p->dir, 0700), 0);
}

static void test_read_bounds(void **state)
{
	struct place *p = *state;
	struct pawl_error err;
	char *text;
	size_t n;

	assert_int_equal(safe_read(p->file, 5, OWNER_NO_GROUP, &text, &n, &err), 0);
	assert_int_equal(n, 5);
	assert_string_equal(text, "hello");
	free(text);
	assert_int_equal(safe_read(p->file, 4, OWNER_NO_GROUP, &text, &n, &err), PAWL_E_POLICY);
	assert_int_equal(safe_read(p->dir, 100, OWNER_NO_GROUP, &text, &n, &err), PAWL_E_UNSAFE);
	assert_int_equal(safe_read("/dev/null", 100, OWNER_NO_GROUP, &text, &n, &err), PAWL_E_UNSAFE);
	assert_int_equal(safe_read("/nonexistent/x", 100, OWNER_NO_GROUP, &text, &n, &err), PAWL_E_SYS);
	assert_int_equal(safe_private_dir("/nonexistent/x", OWNER_NO_GROUP, &err), PAWL_E_UNSAFE);
	assert_int_equal(safe_file(p->dir, OWNER_NO_GROUP, &err), PAWL_E_UNSAFE);
}

static void test_lock(void **state)
{
	struct place *p = *state;
	struct pawl_error err;
	int fd, status;
	pid_t kid;

	assert_int_equal(safe_lock(p->dir, &fd, &err), 0);
	kid = fork();
	if (kid == 0) {
		int other;

		_exit(safe_lock(p->dir, &other, NULL) == PAWL_E_BUSY ? 0 : 1);
	}
	assert_int_equal(waitpid(kid, &status, 0), kid);
	assert_int_equal(status, 0);
	(void)close(fd);
	assert_int_equal(safe_lock(p->dir, &fd, &err), 0); /* free again */
	(void)close(fd);
	assert_int_equal(safe_lock("/nonexistent/x", &fd, &err), PAWL_E_UNSAFE);
}

static void test_options(void **unused)
{
	static const struct {
		const char *argv[6];
		int want;
	} cases[] = {
		{ { "pawld", "--dir", "/d", NULL }, 0 },
		{ { "pawld", "-d", "/d", "--no-watch", NULL }, 0 },
		{ { "pawld", "--dir", NULL }, PAWL_E_USAGE },
		{ { "pawld", "--bogus", NULL }, PAWL_E_USAGE },
		{ { "pawld", "--dir", "/d", "extra", NULL }, PAWL_E_USAGE },
		{ { "pawld", "--user", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL }, PAWL_E_USAGE },
	};
	struct pawl_error err;
	struct options o;
	char longer[2 * PAWL_MAX_PATH];

	(void)unused;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		char *argv[6] = { NULL };
		int argc = 0, r;

		for (; cases[i].argv[argc]; argc++)
			argv[argc] = strdup(cases[i].argv[argc]);
		r = options_parse(argc, argv, &o, &err);
		if (r != cases[i].want)
			fail_msg("case %zu: %d", i, r);
		if (r == 0)
			assert_string_equal(o.operator_socket, "/d/run/operator/operator.sock");
		for (int j = 0; j < argc; j++)
			free(argv[j]);
	}
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	{
		char name[] = "pawld", dir[] = "--dir";
		char *argv[] = { name, dir, longer, NULL };

		assert_int_equal(options_parse(3, argv, &o, &err), PAWL_E_USAGE);
	}
}

static void test_peer(void **unused)
{
	struct pawl_error err;
	enum peer_kind kind;
	struct peer_header bad[] = {
		{ 0, PEER_READY, 0, 0 },		/* magic */
		{ PEER_MAGIC, 0, 0, 0 },		/* kind */
		{ PEER_MAGIC, PEER_KIND_COUNT, 0, 0 },
		{ PEER_MAGIC, PEER_READY, 1, 0 },	/* length says more than there is */
		{ PEER_MAGIC, PEER_READY, 0, 1 },
	};
	char payload[8], big[PEER_MAX_PAYLOAD + 1];
	size_t n;
	int pair[2];

	(void)unused;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(peer_send(pair[0], PEER_READY, "abc", 3, &err), 0);
	assert_int_equal(peer_recv(pair[1], &kind, payload, sizeof(payload), &n, &err), 1);
	assert_int_equal(n, 3);
	assert_memory_equal(payload, "abc", 3);
	for (size_t i = 0; i < PAWL_LEN(bad); i++) {
		assert_int_equal(send(pair[0], &bad[i], sizeof(bad[i]), 0), sizeof(bad[i]));
		assert_int_equal(peer_recv(pair[1], &kind, payload, sizeof(payload), &n, &err), PAWL_E_MALFORMED);
	}
	assert_int_equal(send(pair[0], "x", 1, 0), 1); /* shorter than a header */
	assert_int_equal(peer_recv(pair[1], &kind, payload, sizeof(payload), &n, &err), PAWL_E_MALFORMED);
	assert_int_equal(peer_send(pair[0], PEER_READY, "0123456789", 10, &err), 0); /* more than the reader has room for */
	assert_int_equal(peer_recv(pair[1], &kind, payload, sizeof(payload), &n, &err), PAWL_E_MALFORMED);
	memset(big, 0, sizeof(big));
	assert_int_equal(peer_send(pair[0], PEER_READY, big, sizeof(big), &err), PAWL_E_MALFORMED);
	(void)close(pair[0]);
	assert_int_equal(peer_recv(pair[1], &kind, payload, sizeof(payload), &n, &err), 0);
	(void)close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_modes, make_place, end_place),
		cmocka_unit_test_setup_teardown(test_read_bounds, make_place, end_place),
		cmocka_unit_test_setup_teardown(test_lock, make_place, end_place),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_peer),
	};

	return cmocka_run_group_tests_name("safe", tests, NULL, NULL);
}
