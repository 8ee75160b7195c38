/* tests/kernel/raw_call.h - a call into the kernel for programs that have no library: a library's start would be instructions of theirs. */
#ifndef TESTS_KERNEL_RAW_CALL_H
#define TESTS_KERNEL_RAW_CALL_H
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
#endif
