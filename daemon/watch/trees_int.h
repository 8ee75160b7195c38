/* daemon/watch/trees_int.h - what the files of trees.h share. */
#ifndef PAWL_TREES_INT_H
#define PAWL_TREES_INT_H
#include "daemon/watch/cgroup.h"
#include "daemon/watch/deny.h"
#include "daemon/watch/guard.h"
#include "daemon/watch/pins.h"
#include "daemon/watch/proc.h"
#include "daemon/watch/trees.h"

#define MAX_MEMBERS 8192 /* of a tree, in one round. An end goes on with the others when these are dead; an attach of more is refused */
#define MAX_EVENTS 8192	 /* that wait for the rest; more are counted as lost */
#define MAX_PLAIN 2048	 /* processes that are remembered where only /proc tells who belongs to a tree */
#define SEND_BUFFER (4 << 20)
#define ATTACH_FLAGS_ALL (ATTACH_RUN | ATTACH_LOG_ONLY | ATTACH_EVENTS)

struct tree {
	uint64_t session;
	struct watch_limits limits;
	uint32_t flags; /* ATTACH_ */
	uint64_t start_boot_ns;
	struct proc_id first; /* pid 0: not known after a restart */
	uint32_t uid;
	int pidfd;	      /* of first; -1: it has ended, or is not known */
	struct proc_id peer;  /* the launcher, a subreaper: orphans of the tree become its children. pid 0: there is none */
	struct cgroup cg;
	struct deny deny;
	bool one_uid;	      /* asked for by somebody who is not root: all that it was attached with is of uid */
	bool limits_due;      /* the cgroup does not have them yet */
	bool guarded;	      /* the kernel's programs know it */
	bool ending, over;    /* being killed; nobody lives: `ended` waits for PEER_FORGET */
	bool told;	      /* over, and this rest knows */
	uint64_t told_after;  /* events that have to leave before it is told */
	uint32_t lived;	      /* how many did when it was marked */
	uint64_t counted_ns;  /* members started before this are in ended.n_killed, */
	struct proc_id *young; /* and these, who were listed and started about then; start: ns since boot */
	size_t n_young;
	uint64_t oom_kills;   /* before it was ours */
	uint64_t lost;	      /* events that found no room on the way to the rest */
	uint32_t reported;    /* shadow mode: a bit for each limit whose breach was told */
	uint64_t ending_ns;   /* when its end began */
	uint64_t unled_ns;    /* since when its end has been tried */
	uint32_t kill_failed; /* times that cgroup.kill did nothing */
	struct watch_ended ended; /* .last is kept up to date while it lives */
	struct proc_id *known;	  /* where only /proc tells; else NULL */
	size_t n_known;
};

struct trees {
	struct guard *guard; /* NULL: this kernel or this user has none */
	struct pins pins;
	struct cgroups cgroups;
	bool can_cgroup_kill;
	struct watch_probes *probes;
	char instance[CGROUP_INSTANCE];
	int live;	     /* a lock that says that this watcher lives, -1: none */
	char saved[256];     /* folder of saved trees; "": none */
	struct tree *tree[PAWL_MAX_TREES];
	size_t n, n_live;
	int epoll, peer;
	struct watch_event *event; /* a circle of MAX_EVENTS */
	size_t event_first, event_n;
	uint64_t events_in, events_out;
	bool answer_due, now_due, all_due, ready;
	size_t now_next;
	struct watch_attached answer;
	uint64_t second_ns;  /* when the next round of once-a-second work is due */
	uint64_t malformed;  /* messages of the rest that were dropped */
	struct guard_member member[MAX_MEMBERS];
	uint32_t pid[MAX_MEMBERS];
	unsigned char out[PEER_MAX_PAYLOAD];
};

/* trees.c */
struct tree *trees_find(const struct trees *t, uint64_t session);
void tree_free(struct tree *tr);
void tree_let_go(const struct trees *t, struct tree *tr); /* of its pidfd */
void trees_malformed(struct trees *t, const char *what, size_t n);

/* attach.c */
void trees_attach(struct trees *t, const void *payload, size_t n, const int fd[static PEER_FDS], uint64_t now); /* takes the pidfd alone */
PAWL_MUST_USE int tree_write_limits(const struct trees *t, const struct tree *tr, struct pawl_error *err); /* the cgroup's */

/* renew.c */
void trees_renew(struct trees *t, const void *payload, size_t n);

/* look.c: once a tick; second: the work of once a second too. */
void tree_look(struct trees *t, struct tree *tr, bool second, uint64_t now);

/* sweep.c: who lives, and their end. */
/* Live members in t->member. */
size_t sweep_list(struct trees *t, struct tree *tr);
/* true: somebody may live still. Cheaper than a list. */
bool sweep_lives(struct trees *t, struct tree *tr);
bool tree_knows(const struct tree *tr, const struct proc_id *id); /* by descent: seen at the last look */
/* SIGKILL to a member that was listed, if it is that one still. false: it is not, and nobody was killed. */
bool sweep_kill(struct trees *t, const struct tree *tr, const struct guard_member *m);
/* Begins the end, and goes on until nobody lives or for a bounded number of rounds; trees_tick() calls sweep_on() for what is left.
 * false: it had begun for another reason, which stays, and which the kernel or somebody else has told of. */
bool sweep_end(struct trees *t, struct tree *tr, enum watch_why why, uint64_t measured, uint64_t limit);
void sweep_on(struct trees *t, struct tree *tr);
/* Counts the first n of t->member that no round before has counted, and returns how many; `now`: from before they were listed. */
size_t sweep_count(struct trees *t, struct tree *tr, size_t n, uint64_t now);

/* tell.c: what leaves for the rest. */
void tell_event(struct trees *t, const struct watch_event *ev);
void tell_all(struct trees *t); /* sends what is due, as far as there is room */

/* restore.c: a tree in a file, for the watcher that comes after this one. */
PAWL_MUST_USE int saved_write(const struct trees *t, const struct tree *tr, struct pawl_error *err);
void saved_remove(const struct trees *t, uint64_t session);
/* Makes the folder, reads what is in it, takes up what the kernel holds. */
void restore_all(struct trees *t);
#endif
