/* daemon/watch/guard_tree.c - trees, what they are denied, and who belongs to them. Trees are words of a mapped array that the kernel
 * changes at the same time: each word has one writer, or is exchanged. */
#include "daemon/watch/guard_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#define TAG_TRIES 16

#define PUT(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
#define GET(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

int guard_map_slots(struct guard *g, struct pawl_error *err)
{
	void *p;

	g->slot_bytes = g->about.max_trees * sizeof(struct watch_slot);
	p = mmap(NULL, g->slot_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->map[MAP_TREES], 0);
	if (p == MAP_FAILED)
		return pawl_fail_errno(err, "cannot map the trees");
	g->slot = p;
	return 0;
}

void guard_unmap_slots(struct guard *g)
{
	if (g->slot)
		(void)munmap(g->slot, g->slot_bytes);
	g->slot = NULL;
}

static struct watch_slot *find(struct guard *g, uint64_t session)
{
	for (size_t i = 0; session && i < g->about.max_trees; i++)
		if (GET(g->slot[i].tree) == session)
			return &g->slot[i];
	return NULL;
}

static int no_tree(struct pawl_error *err, uint64_t session)
{
	return pawl_fail(err, PAWL_E_USAGE, "no tree of session %llu is watched", (unsigned long long)session);
}

static void put_limits(struct watch_slot *s, const struct watch_limits *limits, uint32_t flags)
{
	PUT(s->limits.processes, limits->processes);
	PUT(s->limits.fork_rate, limits->fork_rate);
	PUT(s->limits.exec_rate, limits->exec_rate);
	PUT(s->limits.cpu_ns, limits->cpu_ns);
	PUT(s->limits.memory, limits->memory);
	PUT(s->limits.wall_ns, limits->wall_ns);
	PUT(s->flags, flags);
}

int guard_tree_add(struct guard *g, const struct guard_tree *tree, struct pawl_error *err)
{
	size_t n = g->about.max_trees;

	if (tree->session == 0 || find(g, tree->session))
		return pawl_fail(err, PAWL_E_CONFLICT, "session %llu cannot have a tree, or has one", (unsigned long long)tree->session);
	for (size_t i = 0; i < n; i++) {
		struct watch_slot *s = &g->slot[(g->next + i) % n];

		if (GET(s->tree) != 0)
			continue;
		g->next = (g->next + i + 1) % n;
		*s = (struct watch_slot){ .tree = 0 };
		s->cgroup = tree->cgroup;
		s->start_boot_ns = tree->start_boot_ns;
		put_limits(s, &tree->limits, tree->flags);
		__atomic_store_n(&s->tree, tree->session, __ATOMIC_RELEASE);
		return 0;
	}
	return pawl_fail(err, PAWL_E_FULL, "%zu trees are watched, and there is no room for another", n);
}

int guard_tree_set(struct guard *g, uint64_t session, const struct watch_limits *limits, uint32_t flags, struct pawl_error *err)
{
	struct watch_slot *s = find(g, session);

	if (!s)
		return no_tree(err, session);
	put_limits(s, limits, flags);
	return 0;
}

static struct guard_tree tree_now(const struct watch_slot *s)
{
	uint64_t killed = __atomic_load_n(&s->killed, __ATOMIC_ACQUIRE); /* first: measured and limit were written before it */

	return (struct guard_tree){
		.session = GET(s->tree), .cgroup = s->cgroup, .limits = s->limits, .flags = (uint32_t)GET(s->flags), .killed = (uint32_t)killed,
		.measured = killed ? GET(s->measured) : 0, .limit = killed ? GET(s->limit) : 0, .lived = killed ? GET(s->lived) : 0, .start_boot_ns = s->start_boot_ns,
		.live = GET(s->live), .peak = GET(s->peak), .forks = GET(s->forks), .execs = GET(s->execs),
		.sampled_ns = GET(s->sampled_ns), .lost = GET(s->lost),
	};
}

int guard_tree_get(struct guard *g, uint64_t session, struct guard_tree *ret, struct pawl_error *err)
{
	const struct watch_slot *s = find(g, session);

	if (!s)
		return no_tree(err, session);
	*ret = tree_now(s);
	return 0;
}

size_t guard_trees(struct guard *g, uint64_t *ret, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < g->about.max_trees && found < n; i++) {
		uint64_t session = GET(g->slot[i].tree);

		if (session)
			ret[found++] = session;
	}
	return found;
}

static void drop_denied(struct guard *g, uint64_t session)
{
	struct watch_deny_key key, next;
	int r = bpf_map_get_next_key(g->map[MAP_DENIED], NULL, &next);

	while (r == 0) { /* the next is asked for before this one goes: after a key that is not there the walk would begin again */
		key = next;
		r = bpf_map_get_next_key(g->map[MAP_DENIED], &key, &next);
		if (key.tree == session)
			(void)bpf_map_delete_elem(g->map[MAP_DENIED], &key);
	}
}

void guard_tree_drop(struct guard *g, uint64_t session)
{
	struct watch_slot *s = find(g, session);

	if (!s)
		return;
	__atomic_store_n(&s->tree, 0, __ATOMIC_SEQ_CST); /* whoever still has its tag dies at its next fork or exec */
	drop_denied(g, session);
}

static int put_denied(struct guard *g, const struct watch_deny_key *key, const struct watch_deny *row, struct pawl_error *err)
{
	if (bpf_map_update_elem(g->map[MAP_DENIED], key, row, BPF_ANY) == 0)
		return 0;
	if (errno == E2BIG || errno == ENOMEM)
		return pawl_fail(err, PAWL_E_FULL, "no room for another denied program");
	return pawl_fail_errno(err, "cannot deny a program");
}

static int deny_one(struct guard *g, uint64_t session, const struct guard_file *file, struct pawl_error *err)
{
	struct watch_deny_key key = { .tree = session, .dev = file->dev, .ino = file->ino }, named = key;
	struct watch_deny row = { .always = 0 }, some = { .always = 1 };
	size_t n = strnlen(file->applet, sizeof(file->applet));
	int r = 0;

	_Static_assert(sizeof(file->applet) == sizeof(key.applet), "one name, one size");
	if (n == sizeof(file->applet))
		return pawl_fail(err, PAWL_E_USAGE, "an applet's name is too long");
	(void)bpf_map_lookup_elem(g->map[MAP_DENIED], &key, &row);
	if (n == 0) {
		row.always = 1;
	} else { /* the name first: from the moment the program's row speaks of names they are there */
		row.applets = 1;
		memcpy(named.applet, file->applet, n);
		r = put_denied(g, &named, &some, err);
	}
	return r < 0 ? r : put_denied(g, &key, &row, err);
}

int guard_deny(struct guard *g, uint64_t session, const struct guard_file *files, size_t n, struct pawl_error *err)
{
	int r = 0;

	if (!find(g, session))
		return no_tree(err, session);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = deny_one(g, session, &files[i], err);
	return r;
}

static int keep_denied(struct guard *g, const struct watch_deny_key *key, const struct guard_file *files, size_t n, struct pawl_error *err)
{
	struct watch_deny row = { .always = 0 };
	bool named = key->applet[0] != '\0', keep = false;

	for (size_t i = 0; i < n; i++) {
		if (files[i].dev != key->dev || files[i].ino != key->ino)
			continue;
		keep = keep || !named || strncmp(files[i].applet, key->applet, sizeof(key->applet)) == 0;
		row.always |= files[i].applet[0] == '\0';
		row.applets |= files[i].applet[0] != '\0';
	}
	if (!keep)
		(void)bpf_map_delete_elem(g->map[MAP_DENIED], key);
	return keep && !named ? put_denied(g, key, &row, err) : 0;
}

int guard_deny_only(struct guard *g, uint64_t session, const struct guard_file *files, size_t n, struct pawl_error *err)
{
	struct watch_deny_key key, next;
	int more = bpf_map_get_next_key(g->map[MAP_DENIED], NULL, &next), r = 0;

	while (more == 0 && r == 0) { /* as in drop_denied() */
		key = next;
		more = bpf_map_get_next_key(g->map[MAP_DENIED], &key, &next);
		if (key.tree == session)
			r = keep_denied(g, &key, files, n, err);
	}
	return r;
}

static void nobody(void *arg, const struct watch_listed *row)
{
	(void)arg;
	(void)row;
}

/* One round: 1: it is tagged and counted, 0: look again, negative: it cannot be. */
static int tag_round(struct guard *g, int pidfd, const struct watch_tag *want, struct pawl_error *err)
{
	struct watch_tag have;

	if (bpf_map_lookup_elem(g->map[MAP_TAGS], &pidfd, &have) == 0) {
		if (have.tree != want->tree)
			return pawl_fail(err, PAWL_E_CONFLICT, "the process belongs to session %llu", (unsigned long long)have.tree);
		if (have.state == TAG_COUNTED)
			return 1;
		if (have.state == TAG_GONE)
			return pawl_fail(err, PAWL_E_INCOMPLETE, "the process has ended");
	} else if (errno != ENOENT) {
		return pawl_fail_errno(err, "cannot look at a process");
	} else if (bpf_map_update_elem(g->map[MAP_TAGS], &pidfd, want, BPF_NOEXIST) < 0 && errno != EEXIST) {
		return pawl_fail_errno(err, "cannot tag a process");
	}
	return guard_list(g, nobody, NULL, err); /* its threads get their tags, and it is counted */
}

/* More than one round when it started a program meanwhile from a thread that had no tag yet: that thread is the process now. */
int guard_tag(struct guard *g, int pidfd, uint64_t session, struct pawl_error *err)
{
	const struct watch_slot *s = find(g, session);
	struct watch_tag want = { .tree = session, .state = TAG_NEW };

	if (!s)
		return no_tree(err, session);
	want.slot = (uint32_t)(s - g->slot);
	for (int i = 0; i < TAG_TRIES; i++) {
		int r = tag_round(g, pidfd, &want, err);

		if (r != 0)
			return r < 0 ? r : 0;
	}
	return pawl_fail(err, PAWL_E_BUSY, "the process does not hold still to be tagged");
}

uint64_t guard_tag_of(struct guard *g, int pidfd)
{
	struct watch_tag tag;

	return bpf_map_lookup_elem(g->map[MAP_TAGS], &pidfd, &tag) == 0 && tag.state != TAG_GONE ? tag.tree : 0;
}

int guard_mark(struct guard *g, uint64_t session, enum watch_why why, uint64_t measured, uint64_t limit, struct pawl_error *err)
{
	struct watch_slot *s = find(g, session);
	__u64 none = 0;

	if (!s)
		return no_tree(err, session);
	/* the first reason stays, whoever found it */
	if (!__atomic_compare_exchange_n(&s->claim, &none, (uint64_t)why, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return 1;
	PUT(s->measured, measured);
	PUT(s->limit, limit);
	PUT(s->lived, GET(s->live));
	__atomic_store_n(&s->killed, (uint64_t)why, __ATOMIC_SEQ_CST);
	return 0;
}
