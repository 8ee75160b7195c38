/* daemon/watch/guard_pins.c - what outlives pawld: maps and links as files of a bpffs, below one folder for each layout of their values.
 * Mounts nothing. What is decided here about pins that were left:
 *   all there, and made by this build with these sizes     taken as they are
 *   made by another build or with other sizes              with trees: taken as they are (one layout, one language); without: made anew
 *   links missing, all maps there                          the maps are kept with their trees, only the missing links are made again
 *   maps missing, no link there                            nothing was held (maps are pinned before links): made anew
 *   maps missing, links there                              refused: trees may be held by programs whose words we cannot read. Taking those
 *                                                          pins away would weaken quietly what goes on holding
 *   another layout's folder beside ours                    left alone: it holds its trees until somebody removes it; told in the probe */
#include "daemon/watch/guard_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>

#define BPFFS 0xcafe4a11u
#define PIN_PATH (GUARD_PATH + 40)

static void pin_path(const struct guard *g, const char *name, char ret[static PIN_PATH])
{
	(void)snprintf(ret, PIN_PATH, "%s/%s", g->pins, name);
}

/* A folder of ours that nobody else gets into: who can unlink a pin ends what it holds. */
static int own_folder(const char *path, struct pawl_error *err)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return pawl_fail_errno(err, "cannot make %s", path);
	if (lstat(path, &st) < 0)
		return pawl_fail_errno(err, "%s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s is not a folder that only this user can enter", path);
	return 0;
}

static bool on_bpffs(const char *folder, int *ret_errno)
{
	char up[GUARD_PATH];
	struct statfs fs;
	char *slash;

	(void)snprintf(up, sizeof(up), "%s", folder);
	slash = strrchr(up, '/');
	if (!slash || slash == up)
		return false;
	*slash = '\0';
	if (statfs(up, &fs) < 0) {
		*ret_errno = errno;
		return false;
	}
	return (unsigned long)fs.f_type == BPFFS;
}

static bool other_layouts(const char *folder, const char *ours)
{
	DIR *dir = opendir(folder);
	bool found = false;
	const struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] == 'v' && strcmp(e->d_name, ours) != 0)
			found = true;
	if (dir)
		(void)closedir(dir);
	return found;
}

int guard_pins_find(struct guard *g, const char *folder, char *off, size_t off_size, int *ret_errno, struct guard_why *why,
		    struct pawl_error *err)
{
	char layout[16];
	int r;

	(void)snprintf(layout, sizeof(layout), "v%d", WATCH_LAYOUT);
	if (!folder || strlen(folder) + sizeof(layout) >= GUARD_PATH) {
		(void)snprintf(off, off_size, folder ? "the folder's path is too long" : "not asked for");
		return 0;
	}
	if (!on_bpffs(folder, ret_errno)) {
		(void)snprintf(off, off_size, "%s is not in a bpffs", folder);
		return 0;
	}
	r = own_folder(folder, err);
	if (r < 0)
		return r;
	(void)snprintf(g->pins, sizeof(g->pins), "%s/%s", folder, layout);
	r = own_folder(g->pins, err);
	if (r < 0)
		g->pins[0] = '\0';
	else
		why->other_layout = other_layouts(folder, layout);
	return r;
}

/* Sizes and kinds of the values that we are about to map and read. */
static bool map_fits(size_t i, int fd)
{
	static const struct {
		uint32_t type, value;
	} want[MAP_COUNT] = {
		[MAP_TAGS] = { BPF_MAP_TYPE_TASK_STORAGE, sizeof(struct watch_tag) },
		[MAP_TREES] = { BPF_MAP_TYPE_ARRAY, sizeof(struct watch_slot) },
		[MAP_RING] = { BPF_MAP_TYPE_RINGBUF, 0 },
		[MAP_DENIED] = { BPF_MAP_TYPE_HASH, sizeof(struct watch_deny) },
		[MAP_TOTALS] = { BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(struct watch_counts) },
		[MAP_ABOUT] = { BPF_MAP_TYPE_ARRAY, sizeof(struct watch_about) },
	};
	struct bpf_map_info info = { .type = 0 };
	uint32_t n = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &n) == 0 && info.type == want[i].type && info.value_size == want[i].value;
}

/* How many maps and links were there; or negative: one is not what it should be. */
static int open_all(struct guard *g, size_t *ret_maps, size_t *ret_links, struct pawl_error *err)
{
	char name[32], path[PIN_PATH];
	size_t maps = 0, links = 0;

	for (size_t i = 0; i < MAP_COUNT; i++) {
		pin_path(g, guard_map_name(i), path);
		g->map[i] = bpf_obj_get(path);
		if (g->map[i] < 0 && errno != ENOENT)
			return pawl_fail_errno(err, "cannot open %s", path);
		if (g->map[i] >= 0 && !map_fits(i, g->map[i]))
			return pawl_fail(err, PAWL_E_TAMPERED, "%s is not the map that it should be", path);
		maps += g->map[i] >= 0;
	}
	for (size_t i = 0; i < g->n_links; i++) {
		guard_link_name(i, name);
		pin_path(g, name, path);
		g->link[i] = bpf_obj_get(path);
		if (g->link[i] < 0 && errno != ENOENT)
			return pawl_fail_errno(err, "cannot open %s", path);
		links += g->link[i] >= 0;
	}
	*ret_maps = maps;
	*ret_links = links;
	return 0;
}

static bool same_make(const struct watch_about *a, const struct watch_about *b)
{
	return a->layout == b->layout && a->build == b->build && a->max_trees == b->max_trees && a->ring_bytes == b->ring_bytes &&
	       a->sample_ns == b->sample_ns;
}

static int count_trees(struct guard *g, size_t *ret, struct pawl_error *err)
{
	size_t n = 0;
	int r = guard_map_slots(g, err);

	for (size_t i = 0; r == 0 && i < g->about.max_trees; i++)
		n += g->slot[i].tree != 0;
	guard_unmap_slots(g);
	if (r == 0)
		*ret = n;
	return r;
}

static void unlink_all(const struct guard *g)
{
	char name[32], path[PIN_PATH];

	for (size_t i = 0; i < g->n_links; i++) { /* links first: a link without its maps would be damage, a map without links is not */
		guard_link_name(i, name);
		pin_path(g, name, path);
		(void)unlink(path);
	}
	for (size_t i = 0; i < MAP_COUNT; i++) {
		pin_path(g, guard_map_name(i), path);
		(void)unlink(path);
	}
}

static void start_anew(struct guard *g, const struct watch_about *want)
{
	unlink_all(g);
	guard_close_all(g);
	g->about = *want;
}

int guard_pins_take(struct guard *g, const struct guard_options *opt, struct guard_why *why, struct pawl_error *err)
{
	struct watch_about want = g->about;
	size_t maps = 0, links = 0, trees = 0;
	uint32_t zero = 0;
	int r = open_all(g, &maps, &links, err);

	if (r < 0)
		return r;
	if (maps < MAP_COUNT && links > 0)
		return pawl_fail(err, PAWL_E_INCOMPLETE, "%s has programs without all of their maps: remove it when nothing runs under watch", g->pins);
	if (maps < MAP_COUNT) {
		start_anew(g, &want);
		return 0;
	}
	if (bpf_map_lookup_elem(g->map[MAP_ABOUT], &zero, &g->about) < 0)
		return pawl_fail_errno(err, "cannot read %s/about", g->pins);
	if (g->about.max_trees == 0 && links == 0) { /* pinned, and ended before it was filled in */
		start_anew(g, &want);
		return 0;
	}
	r = count_trees(g, &trees, err);
	if (r < 0)
		return r;
	if (trees == 0 && (!same_make(&g->about, &want) || !guard_is_whole(g, !opt->no_sampler))) {
		start_anew(g, &want);
		return 0;
	}
	why->kept = !same_make(&g->about, &want);
	why->mended = !guard_is_whole(g, !opt->no_sampler);
	return 0;
}

int guard_pins_put(struct guard *g, struct pawl_error *err)
{
	char name[32], path[PIN_PATH];

	for (size_t i = 0; i < MAP_COUNT; i++) { /* all maps before the first link: see the top */
		pin_path(g, guard_map_name(i), path);
		if (bpf_obj_pin(g->map[i], path) < 0 && errno != EEXIST)
			return pawl_fail_errno(err, "cannot pin %s", path);
	}
	for (size_t i = 0; i < g->n_links; i++) {
		guard_link_name(i, name);
		pin_path(g, name, path);
		if (g->link[i] >= 0 && bpf_obj_pin(g->link[i], path) < 0 && errno != EEXIST)
			return pawl_fail_errno(err, "cannot pin %s", path);
	}
	return 0;
}

void guard_unpin(struct guard *g)
{
	char *slash;

	if (!g->pins[0])
		return;
	unlink_all(g);
	(void)rmdir(g->pins);
	slash = strrchr(g->pins, '/');
	if (slash) {
		*slash = '\0';
		(void)rmdir(g->pins); /* stays where another layout's pins are */
	}
	g->pins[0] = '\0';
}
