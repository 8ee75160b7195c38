/* daemon/base/oplog.c - see oplog.h. One write(2) a line, so that threads and processes do not interleave. */
#include "daemon/base/oplog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Copies text with bytes below 0x20, 0x7f and above shown as \xNN; returns the length. */
static size_t printable(const char *in, char *out, size_t size)
{
	size_t n = 0;

	for (; *in && n + 5 < size; in++) {
		unsigned char c = (unsigned char)*in;

		if (c >= 0x20 && c != 0x7f)
			out[n++] = *in;
		else
			n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
	}
	return n;
}

void oplog(enum oplog_level level, const char *fmt, ...)
{
	static const char *const prefix[] = { "<3>pawld: ", "<4>pawld: ", "<6>pawld: " };
	static const char *const plain[] = { "pawld: error: ", "pawld: warning: ", "pawld: " };
	char msg[1024], line[2400];
	const char *head = getenv("JOURNAL_STREAM") ? prefix[level] : plain[level];
	va_list ap;
	size_t n;
	ssize_t wrote;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	n = (size_t)snprintf(line, sizeof(line), "%s", head);
	n += printable(msg, line + n, sizeof(line) - n - 1);
	line[n++] = '\n';
	wrote = write(STDERR_FILENO, line, n);
	(void)wrote; /* nowhere left to say it */
}

void oplog_error(const char *what, const struct pawl_error *err)
{
	if (err->line)
		oplog(OPLOG_ERROR, "%s: %s:%u:%u: %s", what, err->file, err->line, err->column, err->msg);
	else
		oplog(OPLOG_ERROR, "%s: %s", what, err->msg);
}
