/* daemon/door/peer_tree.c - see peer_tree.h. Reads /proc, borrows the table of trees. A peer whose number is another's by now is not known. */
#include "daemon/door/peer_tree.h"

#include "daemon/log/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_CGROUP (16u << 10)
#define MAX_DEPTH 4096 /* ancestors */

/* Another pawld's trees, or a unit that is called pawl.service, are somebody else's. */
static uint64_t named_by(struct str path, struct str mark)
{
	struct str name;
	uint64_t session = 0;

	for (; path.n > mark.n; path.p++, path.n--) {
		if (memcmp(path.p, mark.p, mark.n) != 0)
			continue;
		name = (struct str){ path.p + mark.n, 0 };
		while (mark.n + name.n < path.n && name.p[name.n] != '/')
			name.n++;
		if (id_parse(name, 's', &session) == 0)
			return session;
	}
	return 0;
}

uint64_t peer_tree_named(struct str text, const char *instance)
{
	char mark[32];
	int len = snprintf(mark, sizeof(mark), "/pawl.%s/", instance);
	uint64_t session = 0;

	while (text.n && !session) {
		const char *end = memchr(text.p, '\n', text.n);
		size_t n = end ? (size_t)(end - text.p) : text.n;

		session = named_by((struct str){ text.p, n }, (struct str){ mark, (size_t)len });
		n += end != NULL;
		text = (struct str){ text.p + n, text.n - n };
	}
	return session;
}

/* What is in a file of /proc/PID; 0: it cannot be read whole. */
static size_t look(int64_t pid, const char *name, char *text, size_t room)
{
	char path[48];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return 0;
	do
		n = read(fd, text, room); /* the kernel gives all that fits at once */
	while (n < 0 && errno == EINTR);
	(void)close(fd);
	return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

/* Field n of /proc/PID/stat, from 3 on: the name before it is anybody's choice. */
static uint64_t stat_field(int64_t pid, int n)
{
	char text[1024], *at;
	size_t len = look(pid, "stat", text, sizeof(text) - 1);

	text[len] = '\0';
	at = strrchr(text, ')');
	for (int i = 2; at && i < n; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

uint64_t peer_born(int64_t pid)
{
	return stat_field(pid, 22);
}

/* As the watcher finds members where there are no cgroups: below a first process, or adopted by a launcher. */
static uint64_t by_descent(const struct daemon *d, int64_t pid)
{
	struct watched_view v;

	for (int up = 0; up < MAX_DEPTH && pid > 0; up++) {
		for (size_t at = 0; watched_next(d->watched, &at, &v);) {
			if (!v.live || v.held & HOLD_CPU) /* held where there is a cgroup of its own */
				continue;
			if (v.run && !v.launcher)
				return PEER_UNKNOWN; /* until it comes again */
			if (pid == v.first || (v.run && up > 0 && pid == v.launcher))
				return v.session;
		}
		pid = pid == 1 ? 0 : (int64_t)stat_field(pid, 4);
	}
	return pid > 0 ? PEER_UNKNOWN : 0;
}

static bool lives_in_log(const struct daemon *d)
{
	const struct session_state *s;

	for (uint64_t after = 0; (s = state_session_after(d->m.state, after)); after = s->id)
		if (state_tree(d->m.state, s->id).mode == TREE_LIVE)
			return true;
	return false;
}

uint64_t peer_tree(const struct daemon *d, const struct peer *who)
{
	struct watched_totals trees;
	struct watched_view v;
	char text[MAX_CGROUP];
	uint64_t session;
	size_t n;

	watched_count(d->watched, &trees);
	if (trees.live + trees.asked == 0 && !trees.unnamed)
		return 0;
	n = look(who->pid, "cgroup", text, sizeof(text));
	if (n == 0 || who->born == 0 || peer_born(who->pid) != who->born)
		return PEER_UNKNOWN;
	session = peer_tree_named((struct str){ text, n }, d->instance);
	if (session && watched_look(d->watched, session, &v))
		return session;
	/* a pawld that has just begun: the tree of that cgroup may be named in a moment, and one without a cgroup leaves no mark at all */
	if (trees.unnamed && (session || lives_in_log(d)))
		return PEER_UNKNOWN;
	return by_descent(d, who->pid);
}

const char *peer_tree_refuses(const struct daemon *d, const struct peer *who)
{
	uint64_t session = peer_tree(d, who);

	if (session == PEER_UNKNOWN)
		return "this process cannot be looked at, and others run under watch: it gets no session of its own";
	return session ? "a process that runs under watch opens sessions below its own: say parent" : NULL;
}
