/* daemon/door/peer_tree.c - see peer_tree.h. Reads /proc, borrows the table of trees. A pid may be another's by the time it is looked at: then a
 * stranger is let in or refused by mistake, and the tree's own limits hold as before. */
#include "daemon/door/peer_tree.h"

#include "daemon/log/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_CGROUP (16u << 10)

static uint64_t named_by(struct str path)
{
	static const struct str mark = { "/pawl.", 6 };
	struct str name;
	uint64_t session = 0;

	while (path.n > mark.n && memcmp(path.p, mark.p, mark.n) != 0) {
		path.p++;
		path.n--;
	}
	for (size_t i = mark.n; i < path.n; i++) {
		if (path.p[i] != '/')
			continue;
		name = (struct str){ path.p + i + 1, 0 };
		while (i + 1 + name.n < path.n && name.p[name.n] != '/')
			name.n++;
		return id_parse(name, 's', &session) == 0 ? session : 0;
	}
	return 0;
}

uint64_t peer_tree_named(struct str text)
{
	uint64_t session = 0;

	while (text.n && !session) {
		const char *end = memchr(text.p, '\n', text.n);
		size_t n = end ? (size_t)(end - text.p) : text.n;

		session = named_by((struct str){ text.p, n });
		n += end != NULL;
		text = (struct str){ text.p + n, text.n - n };
	}
	return session;
}

const char *peer_tree_refuses(const struct daemon *d, int64_t pid)
{
	struct watched_totals trees;
	struct watched_view v;
	char path[48], text[MAX_CGROUP];
	uint64_t session;
	ssize_t n;
	int fd;

	watched_count(d->watched, &trees);
	if (trees.live + trees.asked == 0)
		return NULL;
	(void)snprintf(path, sizeof(path), "/proc/%lld/cgroup", (long long)pid);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return "this process cannot be looked at, and others run under watch: it gets no session of its own";
	do
		n = read(fd, text, sizeof(text)); /* the kernel gives all that fits at once */
	while (n < 0 && errno == EINTR);
	(void)close(fd);
	if (n <= 0 || n == (ssize_t)sizeof(text))
		return "this process cannot be looked at, and others run under watch: it gets no session of its own";
	session = peer_tree_named((struct str){ text, (size_t)n });
	return session && watched_look(d->watched, session, &v) ? "a process that runs under watch opens sessions below its own: say parent" : NULL;
}
