/* tests/kernel/victim.c - a denied program: one byte to descriptor 3 is the first thing it does, then it ends with 7. With QUIET it is an
 * allowed one: no byte, 0. HOSTED links the C library and the loader; else there is nothing before _start. */
#ifdef QUIET
#define STATUS 0
#else
#define STATUS 7
#endif

#ifdef HOSTED
#include <unistd.h>
__attribute__((constructor)) static void first(void)
{
	if (write(3, "x", 1) != 1)
		_exit(8);
}

int main(void)
{
	return STATUS;
}
#else
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

void _start(void);
__attribute__((noreturn)) void _start(void)
{
	static const char byte = 'x';

	if (STATUS != 0)
		(void)call(__NR_write, 3, (long)&byte, 1);
	for (;;)
		(void)call(__NR_exit_group, STATUS, 0, 0);
}
#endif
