/* daemon/sdnotify.c - see sdnotify.h. Owns the descriptor; borrows nothing. Must not block: a supervisor that does not read
 * must not hold up an answer. */
#include "daemon/sdnotify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Decimal digits of a variable; false: not set, not a number, or 0. */
static bool number(const char *text, int64_t max, int64_t *ret)
{
	int64_t v = 0;

	if (!text || !*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || v > (max - (*text - '0')) / 10)
			return false;
		v = v * 10 + (*text - '0');
	}
	*ret = v;
	return v > 0;
}

static int connect_to(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;
	int fd;

	/* a path, or '@' for the abstract name space; anything else is not for us */
	if (n < 2 || n >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@'))
		return -1;
	memcpy(to.sun_path, path, n);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0) {
		(void)close(fd);
		fd = -1;
	}
	return fd;
}

void sdnotify_open(struct sdnotify *n)
{
	int64_t usec, pid;

	*n = (struct sdnotify){ .fd = connect_to(getenv("NOTIFY_SOCKET")) };
	if (n->fd >= 0 && number(getenv("WATCHDOG_USEC"), INT64_MAX / 1000, &usec) &&
	    (!getenv("WATCHDOG_PID") || (number(getenv("WATCHDOG_PID"), INT64_MAX, &pid) && pid == getpid())))
		n->every_ns = usec * 1000 / 2;
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
}

void sdnotify_close(struct sdnotify *n)
{
	if (n->fd >= 0)
		(void)close(n->fd);
	*n = (struct sdnotify){ .fd = -1 };
}

static void say(const struct sdnotify *n, const char *text)
{
	ssize_t r;

	if (n->fd < 0)
		return;
	do
		r = send(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
}

void sdnotify_ready(const struct sdnotify *n)
{
	say(n, "READY=1");
}

void sdnotify_reloading(const struct sdnotify *n, int64_t monotonic_ns)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64, monotonic_ns / 1000);
	say(n, text);
}

void sdnotify_stopping(const struct sdnotify *n)
{
	say(n, "STOPPING=1");
}

void sdnotify_status(const struct sdnotify *n, const char *text)
{
	char line[256];

	(void)snprintf(line, sizeof(line), "STATUS=%s", text);
	for (char *p = line + 7; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f) /* a newline would begin another assignment */
			*p = '?';
	say(n, line);
}

void sdnotify_starting(const struct sdnotify *n, const char *text, int64_t wait_ns)
{
	char line[64];

	(void)snprintf(line, sizeof(line), "EXTEND_TIMEOUT_USEC=%" PRId64, wait_ns / 1000);
	say(n, line);
	sdnotify_status(n, text);
}

int64_t sdnotify_tick(struct sdnotify *n, int64_t now)
{
	if (n->fd < 0 || n->every_ns == 0)
		return INT64_MAX;
	if (now >= n->due_ns) {
		say(n, "WATCHDOG=1");
		n->due_ns = add_sat(now, n->every_ns);
	}
	return n->due_ns;
}
