/* daemon/base/error.c - filling struct pawl_error, and the names of reasons. */
#include "pawl/error.h"

#include "pawl/reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

PAWL_PRINTF(3, 0) static void fill(struct pawl_error *err, enum pawl_err code, const char *fmt, va_list ap)
{
	*err = (struct pawl_error){ .code = code };
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
}

int pawl_fail(struct pawl_error *err, enum pawl_err code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		fill(err, code, fmt, ap);
		va_end(ap);
	}
	return code;
}

int pawl_fail_errno(struct pawl_error *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	size_t n;

	if (err) {
		va_start(ap, fmt);
		fill(err, PAWL_E_SYS, fmt, ap);
		va_end(ap);
		err->os_errno = saved;
		n = strlen(err->msg);
		(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror(saved));
	}
	errno = saved;
	return PAWL_E_SYS;
}

int pawl_fail_field(struct pawl_error *err, const char *field, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		fill(err, PAWL_E_MALFORMED, fmt, ap);
		va_end(ap);
		(void)snprintf(err->field, sizeof(err->field), "%s", field);
	}
	return PAWL_E_MALFORMED;
}

const char *reason_name(enum reason_code code)
{
	static const char *const names[] = {
#define X(id, text) [REASON_##id] = text,
		PAWL_REASONS(X)
#undef X
	};

	return (unsigned)code < REASON_COUNT ? names[code] : "unavailable";
}
