/* daemon/door/attach_int.h - what attach.c (connections) and attach_ops.c (requests) share. */
#ifndef PAWL_ATTACH_INT_H
#define PAWL_ATTACH_INT_H
#include "daemon/door/attach.h"
#include "daemon/door/reply_watch.h"
#include "daemon/door/wire.h"

#define WATCH_MAX_CONNS (PAWL_MAX_TREES + 64) /* a launcher each, and those that look */
#define WATCH_MAX_PACKET (64u << 10)
#define WATCH_MAX_HIDE 10

struct watch_job { /* a run or attach on its way to an answer */
	mediate_done *done; /* first: what the spine's answer finds */
	struct daemon *d;
	uint64_t conn; /* by number: it may be gone by then */
	bool in_spine; /* the session's entry is on its way: the job stays until it is answered */
	struct request rq;
	uint8_t token[32];
	uint64_t session;
	int pidfd; /* -1: handed on */
};

struct watch_conn {
	int fd; /* -1: free */
	uint64_t id;
	uint32_t pid;	   /* SO_PEERCRED */
	uint64_t born;	   /* of that process, looked at when it connected */
	struct watch_job *job;
};

struct attach_door {
	struct daemon *d;
	int listener, epoll;
	bool deaf;
	int spare; /* given up to tell somebody that no descriptor is left; -1: none */
	uint64_t ids;
	struct watch_conn conn[WATCH_MAX_CONNS];
	char hide[WATCH_MAX_HIDE][PAWL_MAX_PATH];
	size_t n_hide;
	char agent_socket[PAWL_MAX_PATH];
};

/* ---- attach.c ---- */
struct watch_conn *conn_find(struct attach_door *door, uint64_t id);
void conn_send(struct attach_door *door, struct watch_conn *c, struct buf *out); /* may close it */
void conn_idle(struct attach_door *door, struct watch_conn *c); /* its request is answered: the next one may come */
void job_end(struct watch_job *job);

/* ---- attach_ops.c ---- */
/* Takes pidfd (-1: none came). true: an answer follows later, and nothing is read from it until then. */
bool attach_request(struct attach_door *door, struct watch_conn *c, struct str body, int pidfd, struct buf *out);
void attach_told(void *arg, uint64_t owner, const struct watched_view *tree, enum reason_code no, const char *message);
void attach_ended(void *arg, uint64_t owner, const struct watch_ended *end);
#endif
