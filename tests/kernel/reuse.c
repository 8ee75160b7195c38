/* tests/kernel/reuse.c - `reuse PID SECONDS`: a child that has the number PID, which must be free, and sleeps; "ready" once it lives. The exit status tells what
 * became of it: 0 slept to its end, 1 killed, 3 the number could not be had. */
#include "common.h"

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
	} a = { .exit_signal = SIGCHLD, .set_tid_size = 1 };
	double seconds;
	pid_t want, pid;
	int st;

	if (argc != 3)
		return 2;
	want = (pid_t)number(argv[1], 1 << 22);
	seconds = (double)number(argv[2], 120);
	a.set_tid = (uintptr_t)&want;
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0) {
		if (write(STDOUT_FILENO, "ready\n", 6) == 6)
			nap(seconds);
		_exit(0);
	}
	if (pid != want) {
		fprintf(stderr, "reuse: %d: %s\n", (int)want, strerror(errno));
		return 3;
	}
	return waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0 ? 0 : 1;
}
