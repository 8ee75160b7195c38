/* tests/kernel/spin.c - `spin COUNT`: becomes itself again, COUNT times (at most 9 digits), without fork, library or loader: the most program starts a second that a
 * processor can make. Counts down in its own argument. Ends with 0, or 1 when an exec came back. */
#include "raw_call.h"

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
