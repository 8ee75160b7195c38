/* daemon/watch/guard_int.h - what the files guard*.c share. Descriptors alone: libbpf's objects live only while programs are loaded, so a
 * guard that opened pins and one that loaded are the same. */
#ifndef PAWL_GUARD_INT_H
#define PAWL_GUARD_INT_H
#include "daemon/watch/guard.h"
#include "pawl/watch_maps.h"

#define GUARD_PATH 256

enum { MAP_TAGS, MAP_TREES, MAP_RING, MAP_DENIED, MAP_TOTALS, MAP_ABOUT, MAP_COUNT };
/* The fixed links, then one of the sampler for each CPU. */
enum { LINK_FORK, LINK_EXEC, LINK_EXIT, LINK_MOVE, LINK_LIST, LINK_SAMPLER };

struct guard {
	int map[MAP_COUNT];
	int *link;	 /* LINK_SAMPLER + n_cpus of them; -1: not there */
	size_t n_links;
	char pins[GUARD_PATH]; /* with the layout's folder; "": nothing is pinned */
	struct watch_about about;
	struct watch_slot *slot; /* the array of trees, mapped: about.max_trees */
	size_t slot_bytes;
	size_t next;	 /* where the next free slot is looked for: the one used last is used again as late as can be */
	void *ring;	 /* struct ring_buffer */
	guard_event *take; /* while guard_consume() runs */
	void *take_arg;
	size_t took, most;
};

struct guard_why { /* what came of loading, for the probes */
	int tracing, sampler; /* errnos, 0: it works */
	char text[128];	      /* the verifier's last line */
	bool other_layout;    /* another layout's pins are there too */
	bool kept, mended;    /* opened what was pinned by another build or with other sizes; made again what was missing */
};

/* Something else may run in the middle of this kernel's tracepoints: they do not see all. */
bool guard_forks_are_open(struct guard *g);

/* guard_object.c: the programs as the build made them. */
extern const unsigned char guard_object[];
extern const size_t guard_object_size;
uint64_t guard_object_digest(void);

const char *guard_map_name(size_t i);
void guard_link_name(size_t i, char ret[static 32]);

/* guard_load.c: loads the object around the maps that are open already, and attaches each link that is not. */
PAWL_MUST_USE int guard_load(struct guard *g, const struct guard_options *opt, struct guard_why *why, struct pawl_error *err);

/* guard_pins.c. find: fills g->pins, or leaves it empty with *off saying why. take: opens what is there that fits. put: pins the rest. */
PAWL_MUST_USE int guard_pins_find(struct guard *g, const char *folder, char *off, size_t off_size, int *ret_errno, struct guard_why *why,
				  struct pawl_error *err);
PAWL_MUST_USE int guard_pins_take(struct guard *g, const struct guard_options *opt, struct guard_why *why, struct pawl_error *err);
PAWL_MUST_USE int guard_pins_put(struct guard *g, struct pawl_error *err);
bool guard_is_whole(const struct guard *g, bool sampler);
void guard_close_all(struct guard *g);

/* guard_tree.c */
PAWL_MUST_USE int guard_map_slots(struct guard *g, struct pawl_error *err);
void guard_unmap_slots(struct guard *g);
/* guard_events.c */
PAWL_MUST_USE int guard_ring(struct guard *g, struct pawl_error *err);
/* Every process of every tree. It also gives the threads of a process that was tagged their own tags, and counts it. */
typedef void guard_listed(void *arg, const struct watch_listed *row);
PAWL_MUST_USE int guard_list(struct guard *g, guard_listed *each, void *arg, struct pawl_error *err);
#endif
