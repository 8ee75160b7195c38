/* tests/kernel/spin.c - `spin COUNT`: becomes itself again, COUNT times (at most 9 digits), without fork, library or loader: the most program starts a second that a
 * processor can make. Counts down in its own argument. Ends with 0, or 1 when an exec came back. */
#include <asm/unistd.h>

static long call(long number, long a, long b, long c)
{
#if defined(__x86_64__)
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
#error "how does this machine call the kernel?"
#endif
}

/* The text of a number, less one. 0: it was none. */
static int less_one(char *text)
{
	char *p = text;

	for (; *p; p++)
		if (*p < '0' || *p > '9')
			return 0;
	while (p > text && p[-1] == '0')
		*--p = '9';
	if (p == text)
		return 0;
	p[-1] = (char)(p[-1] - 1);
	return 1;
}

void spin(long *stack);
__attribute__((noreturn, used)) void spin(long *stack)
{
	char **argv = (char **)(stack + 1);
	long status = stack[0] != 2;

	if (!status && less_one(argv[1])) {
		(void)call(__NR_execve, (long)argv[0], (long)argv, 0);
		status = 1;
	}
	for (;;)
		(void)call(__NR_exit_group, status, 0, 0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall spin\n");
#else
__asm__(".globl _start\n_start:\n\tmov x0, sp\n\tbl spin\n");
#endif
