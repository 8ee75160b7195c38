/* skip.h - a test that cannot run here says what is missing; under PAWL_REQUIRE=all it fails. */
#ifndef TESTS_SUPPORT_SKIP_H
#define TESTS_SUPPORT_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void skip_aloud(const char *missing)
{
	const char *require = getenv("PAWL_REQUIRE");

	if (require && strcmp(require, "all") == 0)
		fail_msg("PAWL_REQUIRE=all, and this needs %s", missing);
	print_message("SKIPPED: this needs %s\n", missing);
	skip();
}

#endif
