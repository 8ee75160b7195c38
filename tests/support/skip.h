/* skip.h - a test that cannot run here says what is missing; under PAWL_REQUIRE=all it fails. */
#ifndef TESTS_SUPPORT_SKIP_H
#define TESTS_SUPPORT_SKIP_H

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A part of a test is left out, and the rest goes on. */
static inline void leave_out(const char *missing)
{
	const char *require = getenv("PAWL_REQUIRE");

	if (require && strcmp(require, "all") == 0)
		fail_msg("PAWL_REQUIRE=all, and this needs %s", missing);
	print_message("SKIPPED: this needs %s\n", missing);
}

static inline void skip_aloud(const char *missing)
{
	leave_out(missing);
	skip();
}

static inline bool a_child_may(bool (*try)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(!try());
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* In a chroot no kernel gives anybody the first, and "/" cannot be made private there. */
#define USER_NAMESPACE "a user namespace: not in a chroot"
#define PRIVATE_MOUNTS "mounts of its own: root, and not in a chroot"
static inline bool makes_user_namespace(void)
{
	return unshare(CLONE_NEWUSER) == 0;
}

static inline bool makes_private_mounts(void)
{
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#endif
