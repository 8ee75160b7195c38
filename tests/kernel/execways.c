/* tests/kernel/execways.c - `execways WAY VICTIM COUNT FOLDER`: starts VICTIM in the way WAY, COUNT times, and prints as JSON how it went: killed,
 * refused (with the errno of the last), ran to its end, and the bytes that all of them together wrote to descriptor 3. Links, scripts and
 * copies are made in FOLDER. `execways list` names the ways. Wherever VICTIM is denied all of them must have written 0 bytes; bare, all write one. */
#include "common.h"

#include <linux/limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct run {
	const char *victim;
	char made[PATH_MAX]; /* what FOLDER holds for this way */
	int fd;		     /* of the program, for ways by descriptor */
	int *os_errno;	     /* shared with the children */
};
enum { REFUSED = 120 };
extern char **environ;

static _Noreturn void give_up(const struct run *r)
{
	*r->os_errno = errno;
	_exit(REFUSED);
}

static void run_path(const char *path, const struct run *r)
{
	char *const argv[] = { (char[]){ "victim" }, NULL };

	execve(path, argv, environ);
	give_up(r);
}

/* ---- each is called in a new child and does not come back */
static void go_victim(const struct run *r)
{
	run_path(r->victim, r);
}

static void go_made(const struct run *r)
{
	run_path(r->made, r);
}

static void go_fd(const struct run *r)
{
	char *const argv[] = { (char[]){ "victim" }, NULL };

	syscall(SYS_execveat, r->fd, "", argv, environ, 0x1000 /* AT_EMPTY_PATH */);
	give_up(r);
}

static void go_proc_fd(const struct run *r)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	run_path(path, r);
}

static void *in_thread(void *arg)
{
	go_victim(arg);
	return NULL;
}

static void go_thread(const struct run *r)
{
	pthread_t th;

	if (pthread_create(&th, NULL, in_thread, (void *)(uintptr_t)r) != 0)
		give_up(r);
	for (;;)
		pause();
}

static void go_env(const struct run *r)
{
	execl("/usr/bin/env", "env", "-i", r->victim, (char *)NULL);
	give_up(r);
}

static void go_loader(const struct run *r)
{
	execl("/lib64/ld-linux-x86-64.so.2", "ld.so", r->victim, (char *)NULL);
	give_up(r);
}

static void go_shell(const struct run *r)
{
	execl("/bin/sh", "sh", "-c", "\"$0\"; exit $?", r->victim, (char *)NULL);
	give_up(r);
}

/* ---- each is called once, before */
static void make_nothing(struct run *r, const char *folder)
{
	(void)r, (void)folder;
}

static void make_fd(struct run *r, const char *folder)
{
	(void)folder;
	r->fd = open(r->victim, O_RDONLY | O_CLOEXEC);
	if (r->fd < 0)
		die(r->victim);
}

static void name_it(struct run *r, const char *folder, const char *name)
{
	if (snprintf(r->made, sizeof(r->made), "%s/%s", folder, name) >= (int)sizeof(r->made))
		die("path");
	unlink(r->made);
}

static void make_hard(struct run *r, const char *folder)
{
	name_it(r, folder, "hard");
	if (link(r->victim, r->made) != 0)
		die(r->made);
}

static void make_symbolic(struct run *r, const char *folder)
{
	name_it(r, folder, "symbolic");
	if (symlink(r->victim, r->made) != 0)
		die(r->made);
}

static void script(const char *path, const char *interpreter)
{
	FILE *f = fopen(path, "we");

	if (!f || fprintf(f, "#!%s\n", interpreter) < 0 || fclose(f) != 0 || chmod(path, 0755) != 0)
		die(path);
}

static void make_script(struct run *r, const char *folder)
{
	name_it(r, folder, "script");
	script(r->made, r->victim);
}

static void make_script2(struct run *r, const char *folder)
{
	char inner[PATH_MAX];

	name_it(r, folder, "inner");
	memcpy(inner, r->made, sizeof(inner));
	script(inner, r->victim);
	name_it(r, folder, "outer");
	script(r->made, inner);
}

static void copy(const struct run *r, int to)
{
	int from = open(r->victim, O_RDONLY | O_CLOEXEC);
	char block[65536];
	ssize_t n;

	if (from < 0 || to < 0)
		die(r->victim);
	while ((n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)n) != n)
			die("copy");
	close(from);
}

static void make_memory(struct run *r, const char *folder)
{
	(void)folder;
	r->fd = memfd_create("m", MFD_CLOEXEC);
	copy(r, r->fd);
}

static void make_copy(struct run *r, const char *folder)
{
	int to;

	name_it(r, folder, "copy");
	to = open(r->made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	copy(r, to);
	close(to);
}

static void make_deleted(struct run *r, const char *folder)
{
	make_copy(r, folder);
	r->fd = open(r->made, O_RDONLY | O_CLOEXEC);
	if (r->fd < 0 || unlink(r->made) != 0)
		die(r->made);
}

enum start { FORK, VFORK, SPAWN };
static const struct way {
	const char *name;
	enum start start;
	void (*go)(const struct run *r);
	void (*make)(struct run *r, const char *folder);
} ways[] = {
	{ "execve", FORK, go_victim, make_nothing }, { "execveat", FORK, go_fd, make_fd }, { "proc-fd", FORK, go_proc_fd, make_fd },
	{ "hard-link", FORK, go_made, make_hard }, { "symbolic-link", FORK, go_made, make_symbolic }, { "script", FORK, go_made, make_script },
	{ "script-of-script", FORK, go_made, make_script2 }, { "thread", FORK, go_thread, make_nothing }, { "vfork", VFORK, go_victim, make_nothing },
	{ "spawn", SPAWN, go_victim, make_nothing }, { "env", FORK, go_env, make_nothing }, { "shell", FORK, go_shell, make_nothing },
	{ "memfd", FORK, go_fd, make_memory }, { "memfd-proc", FORK, go_proc_fd, make_memory }, { "deleted", FORK, go_fd, make_deleted },
	{ "loader", FORK, go_loader, make_nothing },
	/* the known way around a list of inodes */
	{ "copy", FORK, go_made, make_copy },
};

static pid_t start(const struct way *w, struct run *r)
{
	char *const argv[] = { (char[]){ "victim" }, NULL };
	pid_t pid;

	if (w->start == SPAWN) {
		*r->os_errno = posix_spawn(&pid, r->victim, NULL, NULL, argv, environ);
		return *r->os_errno ? 0 : pid;
	}
	pid = w->start == VFORK ? vfork() : fork();
	if (pid == 0)
		w->go(r);
	if (pid < 0)
		die("fork");
	return pid;
}

static size_t drain(int fd)
{
	char block[4096];
	size_t all = 0;
	ssize_t n;

	while ((n = read(fd, block, sizeof(block))) > 0)
		all += (size_t)n;
	return all;
}

int main(int argc, char **argv)
{
	unsigned long count, killed = 0, refused = 0, ran = 0, other = 0;
	const struct way *w = NULL;
	struct run r = { .fd = -1 };
	size_t bytes = 0;
	int p[2];

	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (size_t i = 0; i < LEN(ways); i++)
			puts(ways[i].name);
		return 0;
	}
	for (size_t i = 0; argc == 5 && i < LEN(ways); i++)
		if (strcmp(ways[i].name, argv[1]) == 0)
			w = &ways[i];
	if (!w)
		return 2;
	r.victim = argv[2];
	count = number(argv[3], 100000);
	r.os_errno = shared(sizeof(int), NULL);
	if (pipe2(p, O_NONBLOCK | O_CLOEXEC) != 0)
		die("pipe");
	if (p[0] == 3)
		p[0] = fcntl(p[0], F_DUPFD_CLOEXEC, 10);
	if (p[0] < 0 || dup2(p[1], 3) != 3 || fcntl(3, F_SETFD, 0) != 0)
		die("dup2");
	w->make(&r, argv[4]);
	for (unsigned long i = 0; i < count; i++) {
		pid_t pid = start(w, &r);
		int st = 0;

		if (pid > 0 && waitpid(pid, &st, 0) != pid)
			die("waitpid");
		if (pid == 0 || (WIFEXITED(st) && WEXITSTATUS(st) == REFUSED))
			refused++;
		else if ((WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL) || (w->go == go_shell && WIFEXITED(st) && WEXITSTATUS(st) == 128 + SIGKILL))
			killed++;
		else if (WIFEXITED(st) && WEXITSTATUS(st) == 7)
			ran++;
		else
			other++;
		bytes += drain(p[0]);
	}
	printf("{\"way\":\"%s\",\"runs\":%lu,\"killed\":%lu,\"refused\":%lu,\"ran\":%lu,\"other\":%lu,\"bytes\":%zu,\"errno\":%d}\n", w->name, count,
	       killed, refused, ran, other, bytes, *r.os_errno);
	return 0;
}
