/* daemon/watch/restore.c - a tree in a file, for the watcher that comes after this one: who its first process is, where its cgroups are, its
 * list of programs, and its end while nobody has taken note of it. Limits, counters and membership are the kernel's (pins, cgroups); a file
 * that is not believed costs the tree its end with its first process, never a limit. */
#include "daemon/base/oplog.h"
#include "daemon/watch/small_file.h"
#include "daemon/watch/trees_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAVED_MAGIC UINT64_C(0x31656572746c7770) /* "pwltree1" */
#define SAVED_LAYOUT (WATCH_LAYOUT + 0)
#define DENY_BYTES_MAX PEER_MAX_PAYLOAD

struct saved { /* then deny_bytes of paths; read by the same build's layout only */
	uint64_t magic, layout, size;
	char boot_id[40];
	uint64_t session, start_boot_ns, oom_kills;
	struct watch_limits limits;
	struct proc_id first, peer;
	uint32_t flags, uid, over, guarded, n_deny, deny_bytes;
	char dir[CGROUP_KINDS][CGROUP_PATH];
	struct watch_ended ended;
};

static void boot_id(char ret[static 40])
{
	memset(ret, 0, 40);
	if (small_read("/proc/sys/kernel/random/boot_id", ret, 40) < 0)
		memset(ret, 0, 40);
}

static bool name_of(const struct trees *t, uint64_t session, const char *tail, char ret[static 320])
{
	return t->saved[0] && snprintf(ret, 320, "%s/s_%llu%s", t->saved, (unsigned long long)session, tail) < 320;
}

/* No sync: it has to outlive this process and not the machine, whose trees do not either. */
static int write_all(int fd, const struct saved *s, const struct deny *deny)
{
	if (write(fd, s, sizeof(*s)) != (ssize_t)sizeof(*s))
		return -1;
	return deny->bytes == 0 || write(fd, deny->paths, deny->bytes) == (ssize_t)deny->bytes ? 0 : -1;
}

static void fill(const struct tree *tr, struct saved *s)
{
	memset(s, 0, sizeof(*s)); /* padding too: it goes to a file */
	s->magic = SAVED_MAGIC;
	s->layout = SAVED_LAYOUT;
	s->size = sizeof(*s);
	boot_id(s->boot_id);
	s->session = tr->session;
	s->start_boot_ns = tr->start_boot_ns;
	s->oom_kills = tr->oom_kills;
	s->limits = tr->limits;
	s->first = tr->first;
	s->peer = tr->peer;
	s->flags = tr->flags;
	s->uid = tr->uid;
	s->over = tr->over;
	s->guarded = tr->guarded;
	s->n_deny = (uint32_t)tr->deny.n;
	s->deny_bytes = (uint32_t)tr->deny.bytes;
	memcpy(s->dir, tr->cg.dir, sizeof(s->dir));
	s->ended = tr->ended;
}

int saved_write(const struct trees *t, const struct tree *tr, struct pawl_error *err)
{
	char path[320], fresh[320];
	struct saved s;
	int fd, r = 0;

	if (!name_of(t, tr->session, "", path) || !name_of(t, tr->session, ".new", fresh))
		return 0;
	fill(tr, &s);
	(void)unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return pawl_fail_errno(err, "cannot make %.100s", fresh);
	if (write_all(fd, &s, &tr->deny) < 0)
		r = pawl_fail_errno(err, "cannot write %.100s", fresh);
	(void)close(fd);
	if (r == 0 && rename(fresh, path) < 0)
		r = pawl_fail_errno(err, "cannot name %.100s", path);
	if (r < 0)
		(void)unlink(fresh);
	return r;
}

void saved_remove(const struct trees *t, uint64_t session)
{
	char path[320];

	if (name_of(t, session, "", path))
		(void)unlink(path);
}

/* ---- reading ---- */

static bool is_ended(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

/* Nothing is believed that does not have the shape that fill() gives. */
static bool is_sound(const struct trees *t, const struct saved *s, const char *paths, uint64_t session)
{
	char id[40];
	struct cgroup cg;

	boot_id(id);
	if (s->magic != SAVED_MAGIC || s->layout != SAVED_LAYOUT || s->size != sizeof(*s) || s->session != session || session == 0)
		return false;
	if (memcmp(id, s->boot_id, sizeof(id)) != 0 || s->over > 1 || s->guarded > 1 || s->ended.n_dead > PAWL_MAX_ENDED ||
	    s->ended.n_dead > s->ended.n_killed || s->ended.last.session != session || s->ended.last.killed >= WHY_COUNT ||
	    s->first.pid > INT32_MAX || s->peer.pid > INT32_MAX)
		return false;
	for (size_t i = 0; i < PAWL_MAX_ENDED; i++)
		if (!is_ended(s->ended.dead[i].comm, sizeof(s->ended.dead[i].comm)))
			return false;
	cgroup_name(&t->cgroups, session, &cg);
	for (int k = 0; k < CGROUP_KINDS; k++) { /* another parent is possible, when pawld was started from another cgroup; another name is not */
		const char *ours = strstr(cg.dir[k], "/pawl."), *its;

		if (!is_ended(s->dir[k], CGROUP_PATH))
			return false;
		its = strstr(s->dir[k], "/pawl.");
		if (s->dir[k][0] && (!ours || !its || strcmp(ours, its) != 0 || strstr(s->dir[k], "/../")))
			return false;
	}
	return deny_check(paths, s->deny_bytes, s->n_deny, NULL) == 0;
}

/* The caller frees *ret_paths. */
static bool read_saved(const struct trees *t, uint64_t session, struct saved *ret, char **ret_paths)
{
	char path[320], *paths = NULL;
	struct stat st;
	bool good = false;
	int fd = name_of(t, session, "", path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0 && st.st_size >= (off_t)sizeof(*ret) &&
	    st.st_size <= (off_t)(sizeof(*ret) + DENY_BYTES_MAX) && read(fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) &&
	    ret->deny_bytes == (size_t)st.st_size - sizeof(*ret)) {
		paths = malloc((size_t)ret->deny_bytes + 1);
		good = paths && read(fd, paths, ret->deny_bytes) == (ssize_t)ret->deny_bytes && is_sound(t, ret, paths, session);
	}
	(void)close(fd);
	if (good)
		*ret_paths = paths;
	else
		free(paths);
	return good;
}

/* ---- taking up ---- */

static void find_first(struct trees *t, struct tree *tr)
{
	struct epoll_event first = { .events = EPOLLIN };
	struct proc_stat s;

	tr->pidfd = tr->first.pid ? proc_open(tr->first.pid) : -1;
	if (tr->pidfd >= 0 && (!proc_stat(tr->first.pid, &s) || s.id.start != tr->first.start)) { /* its number is somebody else's */
		(void)close(tr->pidfd);
		tr->pidfd = -1;
	}
	first.data.fd = tr->pidfd;
	if (tr->pidfd >= 0)
		(void)epoll_ctl(t->epoll, EPOLL_CTL_ADD, tr->pidfd, &first);
}

static void find_cgroup(const struct trees *t, const struct saved *s, struct tree *tr)
{
	struct stat st;

	cgroup_name(&t->cgroups, tr->session, &tr->cg);
	for (int k = 0; s && k < CGROUP_KINDS; k++)
		if (s->dir[k][0])
			memcpy(tr->cg.dir[k], s->dir[k], CGROUP_PATH);
	tr->cg.id = tr->cg.dir[CGROUP_TREE][0] && stat(tr->cg.dir[CGROUP_TREE], &st) == 0 ? st.st_ino : 0;
}

static void take_saved(const struct saved *s, struct tree *tr)
{
	tr->start_boot_ns = s->start_boot_ns;
	tr->oom_kills = s->oom_kills;
	tr->limits = s->limits;
	tr->first = s->first;
	tr->peer = s->peer;
	tr->flags = s->flags;
	tr->uid = s->uid;
	tr->over = s->over;
	tr->ended = s->ended;
}

/* The kernel knows better than the file what it counts against. */
static void take_kernels(struct trees *t, struct tree *tr)
{
	struct guard_tree g;

	tr->guarded = t->guard && guard_tree_get(t->guard, tr->session, &g, NULL) == 0;
	if (!tr->guarded)
		return;
	tr->start_boot_ns = g.start_boot_ns;
	tr->limits = g.limits;
	tr->flags = g.flags;
	tr->over = false;
}

static void take_up(struct trees *t, uint64_t session)
{
	struct tree *tr = NULL;
	struct saved s;
	char *paths = NULL;
	bool known;

	if (trees_find(t, session) || t->n >= PAWL_MAX_TREES)
		return;
	known = read_saved(t, session, &s, &paths);
	tr = calloc(1, sizeof(*tr));
	if (!tr || (known && deny_init(&tr->deny, paths, s.deny_bytes, s.n_deny, NULL) < 0)) {
		free(paths);
		free(tr);
		return;
	}
	free(paths);
	tr->session = tr->ended.last.session = session;
	tr->pidfd = -1;
	if (known)
		take_saved(&s, tr);
	take_kernels(t, tr);
	if (!known && !tr->guarded)
		tr->start_boot_ns = trees_boot_ns(); /* when it began nobody knows: time is counted from here */
	if (!tr->over)
		find_cgroup(t, known ? &s : NULL, tr);
	if (!known && !tr->guarded && !tr->cg.id) { /* a file that says nothing, about nothing that the kernel holds */
		oplog(OPLOG_WARN, "the saved tree of session %llu is not believed", (unsigned long long)session);
		saved_remove(t, session);
		free(tr);
		return;
	}
	if (!known)
		oplog(OPLOG_WARN, "session %llu is watched, but who its first process is was not saved: it ends when all of it has ended",
		      (unsigned long long)session);
	tr->ended.last.limits = tr->limits;
	tr->ended.last.flags = tr->flags;
	if (!tr->over) {
		find_first(t, tr);
		if (!tr->guarded && !tr->cg.id)
			tr->known = calloc(MAX_PLAIN, sizeof(*tr->known)); /* NULL: nobody is found, and it is over */
		t->n_live++;
	}
	t->tree[t->n++] = tr;
}

static bool session_of(const char *name, uint64_t *ret)
{
	return strncmp(name, "s_", 2) == 0 && small_number(name + 2, ret) && *ret != 0;
}

static bool saved_folder(struct trees *t)
{
	struct stat st;

	if (!t->saved[0])
		return false;
	if ((mkdir(t->saved, 0700) < 0 && errno != EEXIST) || lstat(t->saved, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077)) {
		oplog(OPLOG_WARN, "%.100s cannot be used: trees are not found again after a restart", t->saved);
		t->saved[0] = '\0';
		return false;
	}
	return true;
}

static void take_up_all_of(struct trees *t, const char *folder)
{
	DIR *d = opendir(folder);
	const struct dirent *e;
	uint64_t session;

	while (d && (e = readdir(d)))
		if (session_of(e->d_name, &session))
			take_up(t, session);
	if (d)
		(void)closedir(d);
}

/* What a watcher that died was writing. */
static void remove_unfinished(const char *folder)
{
	DIR *d = opendir(folder);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (strncmp(e->d_name, "s_", 2) == 0 && len > 6 && strcmp(e->d_name + len - 4, ".new") == 0)
			(void)unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
}

void restore_all(struct trees *t)
{
	uint64_t *ids;
	size_t n;

	if (saved_folder(t)) {
		remove_unfinished(t->saved);
		take_up_all_of(t, t->saved);
	}
	ids = t->guard ? calloc(PAWL_MAX_TREES, sizeof(*ids)) : NULL;
	n = ids ? guard_trees(t->guard, ids, PAWL_MAX_TREES) : 0;
	for (size_t i = 0; i < n; i++)
		take_up(t, ids[i]);
	free(ids);
	if (t->cgroups.dir[CGROUP_TREE][0])
		take_up_all_of(t, t->cgroups.dir[CGROUP_TREE]);
}
