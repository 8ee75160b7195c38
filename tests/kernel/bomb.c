/* tests/kernel/bomb.c - `bomb KIND MOST SECONDS [REPORT [PROGRAM]]`: makes processes without end, yet at most MOST in all and for at most SECONDS, so that a
 * watch that does not hold costs a test and not the machine. REPORT is a file of three 64-bit counters that outlives everybody: forks tried,
 * forks that came back with a child, children that ran. Run it inside a pids cgroup all the same. */
#include "common.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

struct bomb {
	_Atomic unsigned long long tried, forked, ran;
};
static struct { /* const after start */
	struct bomb *all;
	unsigned long most;
	double end;
	const char *program;
} b;

static int go_on(void)
{
	return now_s() < b.end && atomic_load(&b.all->tried) < b.most;
}

static pid_t one(void)
{
	pid_t pid;

	if (!go_on())
		return -1;
	atomic_fetch_add(&b.all->tried, 1);
	pid = fork();
	if (pid == 0)
		atomic_fetch_add(&b.all->ran, 1);
	else if (pid > 0)
		atomic_fetch_add(&b.all->forked, 1);
	return pid;
}

static void until_end(void)
{
	while (now_s() < b.end)
		nap(0.05);
}

static void doubling(void) /* everybody forks, nobody ends */
{
	while (go_on())
		if (one() < 0)
			nap(0.001);
	until_end();
}

static void shell(void) /* :(){ :|:& };: */
{
	if (one() != 0) {
		until_end();
		return;
	}
	for (int i = 0; i < 2; i++)
		if (one() == 0)
			i = -1;
	until_end();
}

static void chain(void) /* never more than three, and one of them never the same */
{
	if (one() != 0) {
		until_end(); /* else the tree would end with its first process */
		return;
	}
	while (go_on()) {
		pid_t pid = one();

		if (pid > 0)
			_exit(0);
		if (pid < 0)
			nap(0.001);
	}
}

static void wide(void) /* one parent, children that wait */
{
	while (go_on()) {
		if (one() == 0) {
			until_end();
			_exit(0);
		}
	}
	until_end();
}

static void execs(void) /* E01: short programs, one after another */
{
	while (go_on()) {
		pid_t pid = one();

		if (pid == 0) {
			execl(b.program, b.program, (char *)NULL);
			_exit(127);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
}

static void in_place(void) /* the same process is a new program again and again: no fork at all */
{
	char most[32], seconds[32];

	if (!go_on())
		return;
	snprintf(most, sizeof(most), "%lu", b.most - 1);
	snprintf(seconds, sizeof(seconds), "%u", (unsigned)(b.end - now_s()) + 1);
	execl("/proc/self/exe", "bomb", "in-place", most, seconds, (char *)NULL);
}

static const struct {
	const char *name;
	void (*go)(void);
} kinds[] = { { "doubling", doubling }, { "shell", shell }, { "chain", chain }, { "wide", wide }, { "execs", execs }, { "in-place", in_place } };

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 6)
		return 2;
	b.most = number(argv[2], 100000);
	b.end = now_s() + (double)number(argv[3], 60);
	b.all = shared(sizeof(*b.all), argc > 4 ? argv[4] : NULL);
	b.program = argc > 5 ? argv[5] : "/bin/true";
	signal(SIGCHLD, SIG_DFL);
	for (size_t i = 0; i < LEN(kinds); i++)
		if (strcmp(kinds[i].name, argv[1]) == 0) {
			kinds[i].go();
			return 0;
		}
	return 2;
}
