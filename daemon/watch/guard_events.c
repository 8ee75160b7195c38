/* daemon/watch/guard_events.c - what comes out of the kernel: the ring, its counters, the list of processes. The kernel is input: what is
 * not as long as it should be is not looked at. */
#include "daemon/watch/guard_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static int take_one(void *arg, void *data, size_t n)
{
	struct guard *g = arg;

	if (n == sizeof(struct watch_event)) {
		g->took++;
		g->take(g->take_arg, data);
	}
	return g->took >= g->most ? -1 : 0; /* this one is off the ring all the same */
}

int guard_ring(struct guard *g, struct pawl_error *err)
{
	g->ring = ring_buffer__new(g->map[MAP_RING], take_one, g, NULL);
	if (!g->ring)
		return pawl_fail_errno(err, "cannot map the ring of events");
	return 0;
}

size_t guard_consume(struct guard *g, size_t most, guard_event *take, void *arg)
{
	if (most == 0)
		return 0;
	g->take = take;
	g->take_arg = arg;
	g->took = 0;
	g->most = most;
	(void)ring_buffer__consume(g->ring);
	return g->took;
}

int guard_fd(const struct guard *g)
{
	return ring_buffer__epoll_fd(g->ring);
}

void guard_totals(struct guard *g, struct guard_totals *ret)
{
	int cpus = libbpf_num_possible_cpus();
	struct watch_counts *c = cpus > 0 ? calloc((size_t)cpus, sizeof(*c)) : NULL;
	uint32_t zero = 0;

	*ret = (struct guard_totals){ .attempted = 0 };
	if (c && bpf_map_lookup_elem(g->map[MAP_TOTALS], &zero, c) == 0) {
		for (int i = 0; i < cpus; i++) {
			ret->attempted += c[i].attempted;
			ret->lost += c[i].lost;
			ret->kills += c[i].kills;
			ret->no_tag += c[i].no_tag;
			ret->forks_seen |= c[i].forks_seen;
		}
	}
	free(c);
}

int guard_list(struct guard *g, guard_listed *each, void *arg, struct pawl_error *err)
{
	int fd = bpf_iter_create(g->link[LINK_LIST]);
	struct watch_listed row[64];
	size_t have = 0;
	ssize_t got;

	if (fd < 0)
		return pawl_fail_errno(err, "cannot list the processes of trees");
	while ((got = read(fd, (char *)row + have, sizeof(row) - have)) > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) {
		if (got < 0)
			continue;
		have += (size_t)got; /* a read may end inside a row */
		for (size_t i = 0; i < have / sizeof(row[0]); i++)
			each(arg, &row[i]);
		memmove(row, &row[have / sizeof(row[0])], have % sizeof(row[0]));
		have %= sizeof(row[0]);
	}
	if (got < 0)
		(void)pawl_fail_errno(err, "cannot list the processes of trees");
	(void)close(fd);
	return got < 0 ? PAWL_E_SYS : 0;
}

struct wanted {
	uint64_t session;
	struct guard_member *ret;
	size_t n, max;
};

static void take_member(void *arg, const struct watch_listed *row)
{
	struct wanted *w = arg;

	if (row->tree != w->session || w->n >= w->max)
		return;
	w->ret[w->n] = (struct guard_member){ .pid = row->pid, .start_boot_ns = row->start_boot_ns };
	memcpy(w->ret[w->n].comm, row->comm, sizeof(row->comm));
	w->ret[w->n++].comm[sizeof(row->comm) - 1] = '\0';
}

int guard_members(struct guard *g, uint64_t session, struct guard_member *ret, size_t n, size_t *ret_n, struct pawl_error *err)
{
	struct wanted w = { .session = session, .ret = ret, .max = n };
	int r = guard_list(g, take_member, &w, err);

	if (r == 0)
		*ret_n = w.n;
	return r;
}
