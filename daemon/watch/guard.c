/* daemon/watch/guard.c - opens and closes the guard, and says in the probes what came of it. Owns its descriptors and the mapped trees;
 * what is pinned belongs to the kernel. Must not mount, must not kill: it writes down limits that the programs hold. */
#include "daemon/watch/guard_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#define RING_BYTES (8u << 20)
#define SAMPLER_HZ 100

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void guard_close_all(struct guard *g)
{
	for (size_t i = 0; i < MAP_COUNT; i++)
		close_fd(&g->map[i]);
	for (size_t i = 0; i < g->n_links; i++)
		close_fd(&g->link[i]);
}

bool guard_is_whole(const struct guard *g, bool sampler)
{
	long on = sysconf(_SC_NPROCESSORS_ONLN), have = 0;

	for (size_t i = 0; i < MAP_COUNT; i++)
		if (g->map[i] < 0)
			return false;
	for (size_t i = 0; i < LINK_SAMPLER; i++)
		if (g->link[i] < 0)
			return false;
	for (size_t i = LINK_SAMPLER; i < g->n_links; i++)
		have += g->link[i] >= 0;
	return !sampler || have >= on;
}

/* ---- the probes ---- */

PAWL_PRINTF(5, 6) static void say(struct watch_probe *row, enum watch_state state, int os_errno, const char *get, const char *fmt, ...)
{
	va_list ap;

	row->state = (uint32_t)state;
	row->os_errno = os_errno;
	(void)snprintf(row->get, sizeof(row->get), "%s", get);
	va_start(ap, fmt);
	(void)vsnprintf(row->why, sizeof(row->why), fmt, ap);
	va_end(ap);
}

static void say_tracing(struct watch_probe *row, const struct guard_why *why)
{
	const char *error = strerror(why->tracing), *colon = why->text[0] ? "; " : "";

	if (why->tracing == 0)
		say(row, WATCH_ON, 0, "", "programs on fork, exec and exit are attached");
	else if (why->tracing == EPERM || why->tracing == EACCES)
		say(row, WATCH_OFF, why->tracing, "start pawld as root or with CAP_BPF and CAP_PERFMON; most containers have neither",
		    "the kernel lets this user load no programs: %s%s%s", error, colon, why->text);
	else if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		say(row, WATCH_OFF, why->tracing, "a kernel with CONFIG_DEBUG_INFO_BTF, and /sys mounted",
		    "this kernel does not describe its types: no /sys/kernel/btf/vmlinux");
	else
		say(row, WATCH_OFF, why->tracing, "a kernel from 6.1 on with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS",
		    "the programs do not load: %s%s%s", error, colon, why->text);
}

static void say_pins(struct watch_probe *row, const struct guard *g, const struct guard_why *why, const char *off, int os_errno)
{
	if (!g->pins[0]) {
		say(row, WATCH_OFF, os_errno, "a bpffs for pawld alone: mount -t bpf none FOLDER", "%s; limits in the kernel end with pawld", off);
		return;
	}
	say(row, WATCH_ON, 0, "", "limits hold without pawld%s%s%s (%s)", why->kept ? "; trees are held by programs of another build" : "",
	    why->mended ? "; what was missing was made again" : "", why->other_layout ? "; pins of another version lie there and hold too" : "",
	    g->pins);
}

static void say_sampler(struct watch_probe *row, const struct guard *g, const struct guard_options *opt, const struct guard_why *why)
{
	size_t have = 0;

	for (size_t i = LINK_SAMPLER; i < g->n_links; i++)
		have += g->link[i] >= 0;
	if (opt->no_sampler && have == 0)
		say(row, WATCH_OFF, 0, "", "not asked for");
	else if (why->sampler == 0 && guard_is_whole(g, true))
		say(row, WATCH_ON, 0, "", "looks at what runs %u times a second on each of %zu CPUs",
		    (unsigned)(1000000000u / (g->about.sample_ns ? g->about.sample_ns : 1)), have);
	else
		say(row, have ? WATCH_PARTIAL : WATCH_OFF, why->sampler, "CAP_PERFMON, and a kernel with CONFIG_PERF_EVENTS", "works on %zu CPUs: %s",
		    have, why->sampler ? strerror(why->sampler) : "one is new");
}

static void name_rows(struct watch_probes *probes)
{
	static const struct {
		size_t row;
		const char *name;
	} names[] = { { WP_TRACING, "tracing" }, { WP_PINS, "pins" }, { WP_SAMPLER, "sampler" }, { WP_ITERATOR, "iterator" } };

	for (size_t i = 0; i < PAWL_LEN(names); i++) {
		struct watch_probe *row = &probes->row[names[i].row];

		(void)snprintf(row->name, sizeof(row->name), "%s", names[i].name);
		say(row, WATCH_OFF, 0, "", "not tried: the programs are not loaded");
	}
}

/* ---- open and close ---- */

static struct guard *guard_new(const struct guard_options *opt)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct guard *g = calloc(1, sizeof(*g));
	uint32_t hz = opt->sampler_hz ? opt->sampler_hz : SAMPLER_HZ;

	if (!g)
		return NULL;
	for (size_t i = 0; i < MAP_COUNT; i++)
		g->map[i] = -1;
	g->n_links = LINK_SAMPLER + (cpus > 0 ? (size_t)cpus : 1);
	g->link = malloc(g->n_links * sizeof(*g->link));
	if (!g->link) {
		free(g);
		return NULL;
	}
	for (size_t i = 0; i < g->n_links; i++)
		g->link[i] = -1;
	g->about = (struct watch_about){ .layout = WATCH_LAYOUT, .max_trees = opt->max_trees ? opt->max_trees : PAWL_MAX_TREES,
		.ring_bytes = opt->ring_bytes ? opt->ring_bytes : RING_BYTES, .sample_ns = 1000000000u / hz, .build = guard_object_digest() };
	return g;
}

static int fill(struct guard *g, const struct guard_options *opt, struct guard_why *why, struct pawl_error *err)
{
	int r = g->pins[0] ? guard_pins_take(g, opt, why, err) : 0;

	if (r == 0 && !guard_is_whole(g, !opt->no_sampler))
		r = guard_load(g, opt, why, err);
	if (r == 0 && g->pins[0])
		r = guard_pins_put(g, err);
	if (r == 0)
		r = guard_map_slots(g, err);
	if (r == 0)
		r = guard_ring(g, err);
	return r;
}

int guard_open(const struct guard_options *opt, struct watch_probes *probes, struct guard **ret, struct pawl_error *err)
{
	struct guard_why why = { .tracing = 0 };
	struct pawl_error local = { .code = PAWL_OK };
	struct guard *g = guard_new(opt);
	char off[GUARD_PATH + 64] = "";
	int pins_errno = 0, r;

	name_rows(probes);
	if (!g)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the guard");
	r = guard_pins_find(g, opt->pins, off, sizeof(off), &pins_errno, &why, &local);
	if (r == 0)
		r = fill(g, opt, &why, &local);
	if (r < 0) {
		if (why.tracing)
			say_tracing(&probes->row[WP_TRACING], &why);
		else
			say(&probes->row[WP_TRACING], WATCH_OFF, local.os_errno, "", "%s", local.msg);
		if (err)
			*err = local;
		guard_close(g);
		return r;
	}
	say_tracing(&probes->row[WP_TRACING], &why);
	if (guard_forks_are_open(g))
		say(&probes->row[WP_TRACING], WATCH_PARTIAL, 0, "a kernel from 6.1 to 6.18",
		    "attached, but here others run in the middle of a program: a fork, exec or exit that falls into another's on the same CPU is not seen");
	say_pins(&probes->row[WP_PINS], g, &why, off, pins_errno);
	say_sampler(&probes->row[WP_SAMPLER], g, opt, &why);
	say(&probes->row[WP_ITERATOR], WATCH_ON, 0, "", "lists the processes of a tree wherever they are");
	*ret = g;
	return 0;
}

void guard_close(struct guard *g)
{
	if (!g)
		return;
	ring_buffer__free(g->ring);
	guard_unmap_slots(g);
	guard_close_all(g);
	free(g->link);
	free(g);
}
