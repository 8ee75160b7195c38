/* tests/kernel/tally.c - E05: a known number of everything, to hold against what was counted. 10 threads, 7 forks without exec, 5 forks with an exec of PROGRAM by
 * the child itself and 3 by a thread of it, 2 vforks with an exec; the process itself was one exec. So: 17 forks, 10 execs after the first. Ends when all have ended. */
#include "common.h"

#include <pthread.h>
#include <sys/wait.h>

static void *idle(void *arg)
{
	nap(0.01);
	return arg;
}

static void *run(void *arg)
{
	execl(arg, arg, (char *)NULL);
	_exit(127);
}

static void in_child(int kind, char *program)
{
	pthread_t th;

	if (kind == 0)
		_exit(0);
	if (kind == 1)
		run(program);
	if (pthread_create(&th, NULL, run, program) != 0)
		_exit(126);
	for (;;)
		pause();
}

static void by_vfork(char *program)
{
	if (vfork() == 0)
		run(program);
}

int main(int argc, char **argv)
{
	static const int how_many[] = { 7, 5, 3 };
	pthread_t th[10];
	int st, bad = 0;

	if (argc != 2)
		return 2;
	for (size_t i = 0; i < LEN(th); i++)
		if (pthread_create(&th[i], NULL, idle, NULL) != 0)
			die("pthread_create");
	for (int kind = 0; kind < (int)LEN(how_many); kind++)
		for (int i = 0; i < how_many[kind]; i++)
			if (fork() == 0)
				in_child(kind, argv[1]);
	for (int i = 0; i < 2; i++)
		by_vfork(argv[1]);
	while (wait(&st) > 0)
		bad += st != 0;
	for (size_t i = 0; i < LEN(th); i++)
		pthread_join(th[i], NULL);
	return bad ? 1 : 0;
}
