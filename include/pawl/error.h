/* include/pawl/error.h - errors are values: a code for the program, a sentence and a place for people. */
#ifndef PAWL_ERROR_H
#define PAWL_ERROR_H
#include "pawl/types.h"

enum pawl_err {
	PAWL_OK = 0,
	PAWL_E_NOMEM = -1,
	PAWL_E_SYS = -2,	 /* the kernel said no; os_errno says why */
	PAWL_E_POLICY = -3,	 /* a policy file is not acceptable */
	PAWL_E_MALFORMED = -4,	 /* a peer's or a file's bytes are not what the format says */
	PAWL_E_AUTH = -5,	 /* unknown session, wrong token */
	PAWL_E_LIMIT = -6,	 /* a cap was reached */
	PAWL_E_FULL = -7,	 /* the log cannot take it now */
	PAWL_E_CONFLICT = -8,	 /* a second, different answer */
	PAWL_E_TAMPERED = -9,	 /* signature, chain, sequence */
	PAWL_E_INCOMPLETE = -10, /* torn tail, cut head, shorter than given */
	PAWL_E_KEY = -11,	 /* no key, unreadable key, wrong key */
	PAWL_E_UNSAFE = -12,	 /* ownership or mode would let another user in */
	PAWL_E_BUSY = -13,	 /* another process holds it */
	PAWL_E_USAGE = -14,	 /* command line */
};

struct pawl_error {
	enum pawl_err code;
	int os_errno;		    /* 0 unless the kernel said why */
	unsigned line, column;	    /* 1-based, 0 = no place */
	char file[128], msg[256];   /* fixed size, so that out-of-memory can be reported too */
	char field[96];		    /* wire: dotted path of the field at fault, "" = none */
};

/* Fills *err (may be NULL) and hands the code back, so that failing is one line. */
PAWL_PRINTF(3, 4) int pawl_fail(struct pawl_error *err, enum pawl_err code, const char *fmt, ...);
/* The same, with errno's name and text appended and os_errno set. Reads errno first. */
PAWL_PRINTF(2, 3) int pawl_fail_errno(struct pawl_error *err, const char *fmt, ...);
/* The same as pawl_fail(PAWL_E_MALFORMED) with the field's dotted path. */
PAWL_PRINTF(3, 4) int pawl_fail_field(struct pawl_error *err, const char *field, const char *fmt, ...);

#endif
