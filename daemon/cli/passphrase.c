/* daemon/cli/passphrase.c - see passphrase.h. Signals are held back while the echo is off and seen through a
 * descriptor: a handler would need state outside a struct, and a terminal left without echo is a trap for whoever sits
 * at it. */
#include "daemon/cli/passphrase.h"

#include <sodium.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* Byte by byte: what follows the line belongs to whoever reads the descriptor next. signals: -1, or stop when it can be
 * read. */
static int read_line(int fd, int signals, char out[static OPKEY_MAX_PASS], size_t *ret_n, struct pawl_error *err)
{
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { signals, POLLIN, 0 } };
	size_t n = 0;
	char c = 0;

	for (;;) {
		ssize_t got;

		if (poll(p, signals < 0 ? 1 : 2, -1) < 0 && errno != EINTR)
			return pawl_fail_errno(err, "poll");
		if (signals >= 0 && p[1].revents)
			return pawl_fail(err, PAWL_E_KEY, "interrupted");
		if (!p[0].revents)
			continue;
		got = read(fd, &c, 1);
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return pawl_fail_errno(err, "cannot read the passphrase");
		if (got == 0 || (got == 1 && c == '\n'))
			break;
		if (got != 1)
			continue;
		if (n == OPKEY_MAX_PASS)
			return pawl_fail(err, PAWL_E_KEY, "a passphrase has at most %d bytes", OPKEY_MAX_PASS);
		out[n++] = c;
	}
	*ret_n = n;
	return 0;
}

static int from_tty(int tty, const char *prompt, int signals, char out[static OPKEY_MAX_PASS], size_t *ret_n,
		    struct pawl_error *err)
{
	struct termios old, quiet;
	int r;

	if (tcgetattr(tty, &old) < 0)
		return pawl_fail_errno(err, "/dev/tty");
	quiet = old;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
	quiet.c_lflag |= ICANON | ISIG;
	if (tcsetattr(tty, TCSAFLUSH, &quiet) < 0)
		return pawl_fail_errno(err, "the terminal's echo cannot be switched off");
	(void)dprintf(tty, "%s: ", prompt);
	r = read_line(tty, signals, out, ret_n, err);
	(void)tcsetattr(tty, TCSAFLUSH, &old);
	(void)dprintf(tty, "\n");
	return r;
}

static int from_person(const char *prompt, bool twice, char out[static OPKEY_MAX_PASS], size_t *ret_n,
		       struct pawl_error *err)
{
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), signals, r;
	char again[OPKEY_MAX_PASS];
	sigset_t held, before;
	size_t n = 0, n2 = 0;

	if (tty < 0)
		return pawl_fail(err, PAWL_E_KEY,
				 "no terminal to ask for the passphrase at: give it through $PAWL_PASSPHRASE_FD");
	(void)sigemptyset(&held);
	for (size_t i = 0; i < 5; i++)
		(void)sigaddset(&held, (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP }[i]);
	(void)sigprocmask(SIG_BLOCK, &held, &before);
	signals = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
	r = signals < 0 ? pawl_fail_errno(err, "signalfd") : from_tty(tty, prompt, signals, out, &n, err);
	if (r == 0 && twice) {
		r = from_tty(tty, "the same again", signals, again, &n2, err);
		if (r == 0 && (n != n2 || sodium_memcmp(out, again, n) != 0))
			r = pawl_fail(err, PAWL_E_KEY, "the two passphrases differ");
		sodium_memzero(again, sizeof(again));
	}
	if (signals >= 0)
		(void)close(signals);
	(void)close(tty);
	(void)sigprocmask(SIG_SETMASK, &before, NULL); /* a signal that was held back does its work now */
	if (r == 0)
		*ret_n = n;
	return r;
}

static int from_descriptor(const char *said, char out[static OPKEY_MAX_PASS], size_t *ret_n, struct pawl_error *err)
{
	char *end = NULL;
	long fd = *said >= '0' && *said <= '9' ? strtol(said, &end, 10) : -1;

	if (fd < 0 || fd > 1 << 20 || !end || *end)
		return pawl_fail(err, PAWL_E_USAGE, "PAWL_PASSPHRASE_FD is not the number of a descriptor");
	return read_line((int)fd, -1, out, ret_n, err);
}

int passphrase_read(const char *prompt, bool twice, char out[static OPKEY_MAX_PASS], size_t *ret_n,
		    struct pawl_error *err)
{
	const char *said = getenv("PAWL_PASSPHRASE_FD");
	size_t n = 0;
	int r = said && *said ? from_descriptor(said, out, &n, err) : from_person(prompt, twice, out, &n, err);

	if (r == 0 && twice && n == 0)
		r = pawl_fail(err, PAWL_E_KEY, "an empty passphrase protects nothing; --no-passphrase says so openly");
	if (r < 0)
		sodium_memzero(out, OPKEY_MAX_PASS);
	else
		*ret_n = n;
	return r;
}
