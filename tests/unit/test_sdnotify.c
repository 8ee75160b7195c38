/* tests/unit/test_sdnotify.c - what a supervisor hears, and that nobody waits for one that does not listen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/sdnotify.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int server;

/* A datagram socket in the abstract name space, so that nothing is left behind; *name is what $NOTIFY_SOCKET says. */
static void listen_at(char name[static 64])
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int n = snprintf(name, 64, "@pawl-test-%d", (int)getpid());

	memcpy(to.sun_path, name, (size_t)n);
	to.sun_path[0] = '\0';
	server = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(server, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)), 0);
}

static void heard(const char *want)
{
	char got[512];
	ssize_t n = recv(server, got, sizeof(got) - 1, 0);

	if (!want) {
		assert_int_equal(n, -1);
		return;
	}
	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, want);
}

static void open_with(struct sdnotify *n, const char *name, const char *usec, const char *pid)
{
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	(void)unsetenv("NOTIFY_SOCKET");
	if (name)
		(void)setenv("NOTIFY_SOCKET", name, 1);
	if (usec)
		(void)setenv("WATCHDOG_USEC", usec, 1);
	if (pid)
		(void)setenv("WATCHDOG_PID", pid, 1);
	sdnotify_open(n);
	assert_null(getenv("NOTIFY_SOCKET")); /* nothing that pawld starts may speak for it */
	assert_null(getenv("WATCHDOG_USEC"));
}

static void test_words(void **state)
{
	struct sdnotify n;
	char name[64];

	(void)state;
	listen_at(name);
	open_with(&n, name, NULL, NULL);
	sdnotify_ready(&n);
	heard("READY=1");
	sdnotify_reloading(&n, 5 * NS_PER_SEC);
	heard("RELOADING=1\nMONOTONIC_USEC=5000000");
	sdnotify_stopping(&n);
	heard("STOPPING=1");
	sdnotify_status(&n, "12 sessions\nREADY=1\x1b[2J");
	heard("STATUS=12 sessions?READY=1?[2J");
	assert_true(sdnotify_tick(&n, 0) == INT64_MAX);
	heard(NULL);
	for (int i = 0; i < 10000; i++) /* a supervisor that does not read: lost, not waited for */
		sdnotify_ready(&n);
	sdnotify_close(&n);
	(void)close(server);
	open_with(&n, name, "1000", NULL); /* nobody is there any more */
	assert_int_equal(n.fd, -1);
	sdnotify_ready(&n);
	assert_true(sdnotify_tick(&n, 0) == INT64_MAX);
	sdnotify_close(&n);
}

static void test_watchdog(void **state)
{
	char name[64], me[32];
	const struct {
		const char *usec, *pid;
		int64_t every;
	} rows[] = {
		{ "30000000", NULL, 15 * NS_PER_SEC },
		{ "30000000", me, 15 * NS_PER_SEC },
		{ "30000000", "1", 0 },
		{ "30000000", "", 0 },
		{ NULL, me, 0 },
		{ "0", me, 0 },
		{ "", me, 0 },
		{ "-5", me, 0 },
		{ "5x", me, 0 },
		{ "99999999999999999999999", me, 0 },
		{ "9223372036854775", me, INT64_C(9223372036854775000) / 2 },
	};
	struct sdnotify n;

	(void)state;
	(void)snprintf(me, sizeof(me), "%d", (int)getpid());
	listen_at(name);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		open_with(&n, name, rows[i].usec, rows[i].pid);
		if (n.every_ns != rows[i].every)
			fail_msg("row %zu: %lld", i, (long long)n.every_ns);
		sdnotify_close(&n);
	}
	open_with(&n, name, "2000000", me);
	assert_int_equal(sdnotify_tick(&n, 100 * NS_PER_SEC), 101 * NS_PER_SEC);
	heard("WATCHDOG=1");
	assert_int_equal(sdnotify_tick(&n, 101 * NS_PER_SEC - 1), 101 * NS_PER_SEC);
	heard(NULL);
	assert_int_equal(sdnotify_tick(&n, 101 * NS_PER_SEC), 102 * NS_PER_SEC);
	heard("WATCHDOG=1");
	assert_true(sdnotify_tick(&n, INT64_MAX) == INT64_MAX);
	sdnotify_close(&n);
	(void)close(server);
}

static void test_names(void **state)
{
	static const char *const bad[] = { "", "@", "/", "run/notify", "vsock:2:1", "/no/such/socket" };
	char longer[256];
	struct sdnotify n;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bad); i++) {
		open_with(&n, bad[i], "1000", NULL);
		assert_int_equal(n.fd, -1);
	}
	memset(longer, 'a', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	open_with(&n, longer, "1000", NULL);
	assert_int_equal(n.fd, -1);
	sdnotify_ready(&n);
	sdnotify_close(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_watchdog),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
