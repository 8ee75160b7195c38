/* tests/kernel/argrace.c - `argrace ALLOWED DENIED COUNT`: the name that is given to exec changes between the two, without end, while a child calls
 * exec, COUNT times (E09). Prints as JSON how the children ended and the bytes that DENIED wrote to descriptor 3; every second child is a
 * thread's exec. Both names have the same length, so that a torn name is one of them or none. */
#include "common.h"

#include <linux/limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

struct race {
	char name[PATH_MAX];	/* shared: what exec is given */
	_Atomic unsigned long flips;
	_Atomic int stop;
};
struct flipper {
	struct race *race;
	const char *path[2];
	size_t n;
};
extern char **environ;

static void *flip(void *arg)
{
	struct flipper *f = arg;

	for (unsigned i = 0; !atomic_load_explicit(&f->race->stop, memory_order_relaxed); i++) {
		memcpy(f->race->name, f->path[i & 1], f->n + 1);
		atomic_fetch_add_explicit(&f->race->flips, 1, memory_order_relaxed);
		for (volatile int spin = 0; spin < 200; spin++) {
		}
	}
	return NULL;
}

static void *go(void *arg)
{
	struct race *race = arg;
	char *const argv[] = { (char[]){ "raced" }, NULL };

	execve(race->name, argv, environ);
	_exit(120);
}

static void child(struct race *race, unsigned long i)
{
	pthread_t th;

	if (i % 2 == 0 || pthread_create(&th, NULL, go, race) != 0)
		go(race);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	unsigned long count, killed = 0, allowed = 0, denied = 0, none = 0, other = 0;
	struct flipper f;
	pthread_t th;
	size_t bytes = 0;
	int p[2];

	if (argc != 4 || strlen(argv[1]) != strlen(argv[2]) || strlen(argv[1]) >= PATH_MAX)
		return 2;
	count = number(argv[3], 1000000);
	f = (struct flipper){ shared(sizeof(*f.race), NULL), { argv[1], argv[2] }, strlen(argv[1]) };
	memcpy(f.race->name, argv[1], f.n + 1);
	if (pipe2(p, O_NONBLOCK | O_CLOEXEC) != 0)
		die("pipe");
	if (p[0] == 3)
		p[0] = fcntl(p[0], F_DUPFD_CLOEXEC, 10);
	if (p[0] < 0 || dup2(p[1], 3) != 3 || fcntl(3, F_SETFD, 0) != 0 || pthread_create(&th, NULL, flip, &f) != 0)
		die("set-up");
	for (unsigned long i = 0; i < count; i++) {
		pid_t pid = fork();
		char block[64];
		ssize_t n;
		int st = 0;

		if (pid == 0)
			child(f.race, i);
		if (pid < 0 || waitpid(pid, &st, 0) != pid)
			die("fork");
		if (WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL)
			killed++;
		else if (WIFEXITED(st) && WEXITSTATUS(st) == 0)
			allowed++;
		else if (WIFEXITED(st) && WEXITSTATUS(st) == 7)
			denied++;
		else if (WIFEXITED(st) && WEXITSTATUS(st) == 120)
			none++;
		else
			other++;
		while ((n = read(p[0], block, sizeof(block))) > 0)
			bytes += (size_t)n;
	}
	atomic_store(&f.race->stop, 1);
	pthread_join(th, NULL);
	printf("{\"runs\":%lu,\"killed\":%lu,\"allowed\":%lu,\"denied\":%lu,\"none\":%lu,\"other\":%lu,\"bytes\":%zu,\"flips\":%lu}\n", count, killed,
	       allowed, denied, none, other, bytes, atomic_load(&f.race->flips));
	return 0;
}
