/* daemon/watch/guard_load.c - puts the programs into the kernel and attaches them. Owns nothing for long: libbpf's object is closed again
 * and only descriptors stay in the guard. Raw links (bpf_link_create) and not libbpf's: those stop a sampler when they are freed. */
#include "daemon/watch/guard_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define OPEN_PROGRAM "on_open"
#define FIRST_OPEN 7 /* Linux 7.0: what is said where the kernel does not tell */
#define LOG_BYTES (256u << 10) /* of the verifier: it writes the end of a longer one */

static const struct program {
	const char *name;
	enum bpf_attach_type type;
} programs[] = {
	[LINK_FORK] = { "on_fork", BPF_TRACE_RAW_TP }, [LINK_EXEC] = { "on_exec", BPF_TRACE_RAW_TP },
	[LINK_EXIT] = { "on_exit", BPF_TRACE_RAW_TP }, [LINK_MOVE] = { "on_move", BPF_TRACE_RAW_TP },
	[LINK_LIST] = { "list_tasks", BPF_TRACE_ITER }, [LINK_SAMPLER] = { "on_sample", BPF_PERF_EVENT },
};

void guard_link_name(size_t i, char ret[static 32])
{
	if (i < LINK_SAMPLER)
		(void)snprintf(ret, 32, "%s", programs[i].name);
	else
		(void)snprintf(ret, 32, "%s-%zu", programs[LINK_SAMPLER].name, i - LINK_SAMPLER);
}

const char *guard_map_name(size_t i)
{
	static const char *const names[MAP_COUNT] = { [MAP_TAGS] = "tags", [MAP_TREES] = "trees", [MAP_RING] = "ring",
		[MAP_DENIED] = "denied", [MAP_TOTALS] = "totals", [MAP_ABOUT] = "about" };

	return names[i];
}

/* The verifier says what it did not like in its last line but one; the last is a count. */
static void last_words(const char *log, char *ret, size_t size)
{
	size_t n = strlen(log), from;

	for (int lines = 0; n > 0 && lines < 3; lines++) {
		while (n > 0 && log[n - 1] == '\n')
			n--;
		for (from = n; from > 0 && log[from - 1] != '\n'; from--)
			;
		if (strncmp(log + from, "processed ", 10) != 0 && strncmp(log + from, "verification time", 17) != 0 && n > from) {
			(void)snprintf(ret, size, "%.*s", (int)(n - from < 200 ? n - from : 200), log + from);
			return;
		}
		n = from;
	}
}

static int use_maps(struct bpf_object *obj, struct guard *g)
{
	for (size_t i = 0; i < MAP_COUNT; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, guard_map_name(i));
		int r = 0;

		if (!map)
			return -ENOENT;
		if (g->map[i] >= 0)
			r = bpf_map__reuse_fd(map, g->map[i]);
		else if (i == MAP_TREES)
			r = bpf_map__set_max_entries(map, g->about.max_trees);
		else if (i == MAP_RING)
			r = bpf_map__set_max_entries(map, g->about.ring_bytes);
		if (r < 0)
			return r;
	}
	return 0;
}

enum { LOAD_SAMPLER = 1, LOAD_OTHERS = 2, LOAD_OPEN = 4 };

static int choose(struct bpf_object *obj, unsigned which)
{
	struct bpf_program *prog;
	int r = 0;

	bpf_object__for_each_program(prog, obj) {
		const char *name = bpf_program__name(prog);
		unsigned is = strcmp(name, programs[LINK_SAMPLER].name) == 0 ? LOAD_SAMPLER : strcmp(name, OPEN_PROGRAM) == 0 ? LOAD_OPEN : LOAD_OTHERS;

		if (r == 0)
			r = bpf_program__set_autoload(prog, (which & is) != 0);
	}
	return r;
}

/* A negative errno. *ret is the caller's to close. */
static int load_once(struct guard *g, unsigned which, char *log, struct bpf_object **ret)
{
	struct bpf_object_open_opts opts;
	struct bpf_object *obj;
	int r;

	(void)libbpf_set_print(NULL); /* what it would print is in err and in the probes, in words that are true */
	memset(&opts, 0, sizeof(opts)); /* libbpf looks at the padding too, which an initializer need not clear */
	opts.sz = sizeof(opts);
	opts.object_name = "pawl";
	opts.kernel_log_buf = log;
	opts.kernel_log_size = LOG_BYTES;
	obj = bpf_object__open_mem(guard_object, guard_object_size, &opts);
	log[0] = '\0';
	if (!obj)
		return errno ? -errno : -EINVAL;
	r = use_maps(obj, g);
	if (r == 0)
		r = choose(obj, which);
	if (r == 0)
		r = bpf_object__load(obj);
	if (r < 0) {
		bpf_object__close(obj);
		return r;
	}
	*ret = obj;
	return 0;
}

static int take_maps(struct guard *g, struct bpf_object *obj)
{
	struct watch_about now;
	uint32_t zero = 0;
	bool fresh = g->map[MAP_ABOUT] < 0;

	for (size_t i = 0; i < MAP_COUNT; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, guard_map_name(i));

		if (g->map[i] < 0)
			g->map[i] = fcntl(bpf_map__fd(map), F_DUPFD_CLOEXEC, 3);
		if (g->map[i] < 0)
			return -errno;
	}
	now = g->about;
	return fresh && bpf_map_update_elem(g->map[MAP_ABOUT], &zero, &now, BPF_ANY) < 0 ? -errno : 0;
}

/* The kernel's event of one CPU, every sample_ns of it. The link holds it from then on. */
static int attach_sampler(const struct guard *g, int prog, size_t cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = g->about.sample_ns };
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	int link, saved;

	if (fd < 0)
		return -errno;
	link = bpf_link_create(prog, fd, BPF_PERF_EVENT, NULL);
	saved = link < 0 ? -errno : 0;
	(void)close(fd);
	return link < 0 ? saved : link;
}

static int attach_fixed(struct guard *g, struct bpf_object *obj)
{
	for (size_t i = 0; i < LINK_SAMPLER; i++) {
		struct bpf_program *prog = bpf_object__find_program_by_name(obj, programs[i].name);

		if (!prog)
			return -ENOENT;
		if (g->link[i] < 0)
			g->link[i] = bpf_link_create(bpf_program__fd(prog), 0, programs[i].type, NULL);
		if (g->link[i] < 0)
			return -errno;
	}
	return 0;
}

/* 0, or why one CPU is without. A CPU that is off (ENODEV) needs none. */
static int attach_samplers(struct guard *g, struct bpf_object *obj)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, programs[LINK_SAMPLER].name);
	int first = 0;

	for (size_t i = LINK_SAMPLER; prog && i < g->n_links; i++) {
		int r = g->link[i] < 0 ? attach_sampler(g, bpf_program__fd(prog), i - LINK_SAMPLER) : g->link[i];

		g->link[i] = r < 0 ? -1 : r;
		if (r < 0 && r != -ENODEV && first == 0)
			first = -r;
	}
	return prog ? first : ENOENT;
}

int guard_load(struct guard *g, const struct guard_options *opt, struct guard_why *why, struct pawl_error *err)
{
	bool sampler = !opt->no_sampler;
	struct bpf_object *obj = NULL;
	char *log = malloc(LOG_BYTES);
	int r;

	if (!log)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory to load the programs");
	r = load_once(g, LOAD_OTHERS | (sampler ? LOAD_SAMPLER : 0), log, &obj);
	if (r < 0 && sampler) { /* perhaps it is the sampler alone: the rest is worth having */
		int with = r;

		r = load_once(g, LOAD_OTHERS, log, &obj);
		if (r == 0)
			why->sampler = -with;
		sampler = false;
	}
	if (r == 0)
		r = take_maps(g, obj);
	if (r == 0)
		r = attach_fixed(g, obj);
	if (r == 0 && sampler)
		why->sampler = attach_samplers(g, obj);
	if (r < 0) {
		why->tracing = -r;
		last_words(log, why->text, sizeof(why->text));
		errno = -r;
		(void)pawl_fail_errno(err, "cannot load the programs that watch processes");
	}
	if (obj)
		bpf_object__close(obj);
	free(log);
	return r < 0 ? PAWL_E_SYS : 0;
}

/* The child tells nobody when it ends. */
static void fork_once(void)
{
	long pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0);

	if (pid == 0)
		_exit(0);
	while (pid > 0 && waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

bool guard_forks_are_open(struct guard *g)
{
	struct bpf_object *obj = NULL;
	struct guard_totals totals = { .forks_seen = 0 };
	char *log = malloc(LOG_BYTES);
	struct utsname os;
	int link = -1;

	if (log && load_once(g, LOAD_OPEN, log, &obj) == 0)
		link = bpf_link_create(bpf_program__fd(bpf_object__find_program_by_name(obj, OPEN_PROGRAM)), 0, BPF_TRACE_RAW_TP, NULL);
	if (link >= 0) {
		fork_once();
		(void)close(link);
		guard_totals(g, &totals);
	}
	if (obj)
		bpf_object__close(obj);
	free(log);
	if (totals.forks_seen)
		return totals.forks_seen & 2;
	return uname(&os) < 0 || strtoul(os.release, NULL, 10) >= FIRST_OPEN; /* nobody could tell */
}
