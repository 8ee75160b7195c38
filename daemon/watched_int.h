/* daemon/watched_int.h - rows of watched.c, for watched_hear.c, which changes them, and for watched_event.c, which fills entries from events. */
#ifndef PAWL_WATCHED_INT_H
#define PAWL_WATCHED_INT_H
#include "daemon/watched.h"

/* A tree's way. What is TOLD is an entry that is not durable yet: its row stays until the spine has answered. */
enum tree_step {
	STEP_ASKED,   /* the watcher is, or will be, asked */
	STEP_ATTACH,  /* watched; the entry is due */
	STEP_ATTACH_TOLD,
	STEP_RUNS,
	STEP_FAILED,  /* not watched: its session is to be closed, then its owner told */
	STEP_FAILED_TOLD,
	STEP_OVER,    /* nobody lives: the entry is due */
	STEP_OVER_TOLD,
	STEP_CLOSE,   /* that is in the log: its session is to be closed */
	STEP_CLOSE_TOLD,
	STEP_FORGET,  /* all is in the log: the watcher may forget it */
};

#define KILLS_EACH 4 /* entries of one kill each, a second; the rest of that second share one */

struct start_row { /* starts, or kills, of one program */
	struct watch_started told;
	char path[WATCH_PATH], argv[WATCH_ARGV], comm[16];
};
struct start_list {
	struct start_row row[PAWL_MAX_PROGRAMS];
	size_t n;
	int64_t unlisted, total;
	bool log_only; /* kills: the first one's */
};
struct told_breach { /* the first of its why that waits */
	bool due, log_only;
	int64_t measured, limit, pid;
	char comm[16];
};

struct tree {
	mediate_done *done; /* first: what the spine's answer finds */
	struct watched *w;
	uint64_t session, owner, request;
	enum tree_step step;
	int pidfd, asker; /* -1: handed on */
	uint32_t flags, need, launcher;
	bool sent, end_seen, kill_due, renew_due;
	enum watch_why kill_why, killed_by; /* killed_by: what we have asked for */
	int64_t deadline;   /* asked: of the answer */
	int64_t orphan_at;  /* no owner: when it is ended, 0: never */
	struct watch_attached att;
	struct watch_now now;
	struct watch_ended end;
	/* on their way into entries */
	int64_t window_end, kills_in_window, lost_told, lost_at;
	struct start_list *starts, *kills[WHY_COUNT]; /* NULL: none wait; kills by why */
	struct told_breach breach[WHY_COUNT]; /* by why: in shadow mode there may be several */
	int64_t left, left_pid;
	char left_comm[16];
};

struct watched {
	struct watched_config cfg;
	struct tree *tree[PAWL_MAX_TREES];
	size_t n;
	uint64_t requests, refused, nonsense;
	bool gone;    /* no watcher */
	bool named;   /* all trees that it had when this process began are here */
	bool orphans; /* it has named its trees: sessions of the log whose trees nobody knows are to be ended */
	bool more;    /* something can be done at once */
};

/* ---- watched.c ---- */
struct tree *tree_find(const struct watched *w, uint64_t session);
struct tree *tree_add(struct watched *w, uint64_t session); /* NULL: as many as there may be, or no memory */
bool tree_lives(const struct tree *t);
void tree_view(const struct tree *t, struct watched_view *ret);
bool tree_in_log(const struct watched *w, const struct tree *t, enum tree_mode mode);
void tree_fail(struct tree *t, enum reason_code no, const char *message);
void tree_end(struct tree *t, enum watch_why why); /* a kill is on its way from here on */

/* ---- watched_event.c ---- */
void event_take(struct watched *w, struct tree *t, const struct watch_event *ev, int64_t now);
/* Entries of what waits and is due (all: of everything). false: the log cannot be written now, and it waits on. */
bool events_tell(struct watched *w, struct tree *t, int64_t now, bool all);
int64_t events_next(const struct tree *t); /* INT64_MAX: nothing waits */
void events_free(struct tree *t);
static inline int64_t bounded(uint64_t v) /* a number of the kernel's, as entries can say it */
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}
#endif
