/* tests/support/analyze.h - read before each file by `make analyze` alone: says in words that an analyzer of one file understands what
 * a failing call returns. Without it every "r < 0, so the output is not set" looks like a way to a null pointer. */
#ifndef PAWL_ANALYZE_H
#define PAWL_ANALYZE_H
#include "pawl/error.h"
static inline int analyze_code(int returned, enum pawl_err code)
{
	(void)returned;
	return (int)code;
}
#define pawl_fail(err, code, ...) analyze_code(pawl_fail(err, code, __VA_ARGS__), code)
#define pawl_fail_errno(err, ...) analyze_code(pawl_fail_errno(err, __VA_ARGS__), PAWL_E_SYS)
#define pawl_fail_field(err, ...) analyze_code(pawl_fail_field(err, __VA_ARGS__), PAWL_E_MALFORMED)
#endif
