/* tests/kernel/churn.c - `churn COUNT RATE PROGRAM`: COUNT times fork, exec of PROGRAM and exit, at RATE a second (0: as fast as it goes); prints as JSON how
 * many ended with 0, how many otherwise, the seconds, and the microseconds each. `churn fork COUNT 0`: without the exec. A load, and the ruler of the benchmark. */
#include "common.h"

#include <sys/wait.h>

/* 1: a child came and ended with 0 */
static unsigned long one(const char *program)
{
	pid_t pid = program ? vfork() : fork();
	int st;

	if (pid == 0) {
		if (program)
			execl(program, program, (char *)NULL);
		_exit(program ? 127 : 0);
	}
	return pid > 0 && waitpid(pid, &st, 0) == pid && st == 0;
}

int main(int argc, char **argv)
{
	unsigned long count, rate, good = 0;
	int no_exec = argc == 4 && strcmp(argv[1], "fork") == 0;
	double began, took;

	if (argc != 4)
		return 2;
	count = number(argv[no_exec ? 2 : 1], 1000000);
	rate = number(argv[no_exec ? 3 : 2], 100000);
	began = now_s();
	for (unsigned long i = 0; i < count; i++) {
		double due = rate ? began + (double)i / (double)rate : 0;

		if (due > now_s())
			nap(due - now_s());
		good += one(no_exec ? NULL : argv[3]);
	}
	took = now_s() - began;
	printf("{\"good\":%lu,\"bad\":%lu,\"seconds\":%.6f,\"each_us\":%.3f}\n", good, count - good, took, took * 1e6 / (double)count);
	return 0;
}
