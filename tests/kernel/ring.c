/* tests/kernel/ring.c - system calls that a watched tree must not have, because they go past what is watched (E15) or alter a process that was looked at.
 * Prints a line each: name, and "refused" with the errno or "allowed". */
#include "common.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static long setup(void)
{
	char params[120] = { 0 };

	return syscall(SYS_io_uring_setup, 2, params);
}

static long trace(void)
{
	return syscall(SYS_ptrace, 0 /* PTRACE_TRACEME */, 0, NULL, NULL);
}

static long write_other(void)
{
	char a = 0, to = 0;
	struct iovec here = { &a, 1 }, there = { &to, 1 };

	return syscall(SYS_process_vm_writev, getpid(), &here, 1, &there, 1, 0);
}

static long take_descriptor(void)
{
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return self < 0 ? -1 : syscall(SYS_pidfd_getfd, self, 0, 0);
}

static long packets(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static long vsock(void)
{
	return socket(40 /* AF_VSOCK */, SOCK_STREAM, 0);
}

static long local(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long internet(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

/* Another architecture's numbers, by its own way into the kernel: 20 is getpid there, whatever it is here. */
static long by_other_numbers(void)
{
#if defined(__x86_64__)
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		long r;

		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
		_exit(r != getpid());
	}
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	errno = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return -1;
#else
	return -1;
#endif
}

static const struct {
	const char *name;
	long (*call)(void);
} calls[] = {
	{ "int80", by_other_numbers }, { "io_uring_setup", setup }, { "ptrace", trace }, /* which stops it at a signal, as the end of a child is one */
	{ "process_vm_writev", write_other }, { "pidfd_getfd", take_descriptor },
	{ "AF_PACKET", packets }, { "AF_VSOCK", vsock }, { "AF_UNIX", local }, { "AF_INET", internet },
};

int main(void)
{
	for (size_t i = 0; i < LEN(calls); i++) {
		errno = 0;
		if (calls[i].call() < 0)
			printf("%s refused %d\n", calls[i].name, errno);
		else
			printf("%s allowed 0\n", calls[i].name);
	}
	return 0;
}
