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
#include "raw_call.h"

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
