/* daemon/daemon.h - all that the judging process holds; main() has the only one and passes it down. */
#ifndef PAWL_DAEMON_H
#define PAWL_DAEMON_H
#include "daemon/base/clock.h"
#include "daemon/confine.h"
#include "daemon/mediate.h"
#include "daemon/options.h"
#include "daemon/sdnotify.h"
#include "daemon/watched.h"

#include "pawl/watch.h"

#include <sys/types.h>

#define DAEMON_PROBES (CONFINE_PROBES + 4 + WP_COUNT)
#define MAX_DESCRIPTORS 4400 /* all doors full (daemon/door/dispatch.c, attach.c), two for each tree that is asked for, and the files */
struct ipc;
struct attach_door;
struct daemon {
	struct options *opt;
	struct sdnotify *notify; /* the supervisor, if there is one */
	pid_t watcher; /* 0: none */
	int peer;      /* to the watcher, -1: none */
	const struct watch_probes *watch_probes; /* NULL: --no-watch */
	struct clock clock;
	struct sign_key *key;
	char origin[PAWL_MAX_ORIGIN + 1];
	struct private_store *priv;
	struct journal *journal;
	struct journal_recovery recovery;
	struct committer *committer;
	struct projector *projector;
	struct sessions *sessions;
	struct reviews *reviews;
	struct operators *operators;
	struct watched *watched;
	struct mediator m;
	bool m_up;
	struct ipc *agent_door, *operator_door;
	struct attach_door *watch_door;
	char instance[32]; /* as the watcher names its cgroups (daemon/watch/probe.h) */
	struct probe probes[DAEMON_PROBES];
	size_t n_probes;
	char watch_names[WP_COUNT][32]; /* of the watcher's probes, which are told as watch.NAME */
	bool same_uid;	      /* agents and operator share a uid: P4, P6, P7 hold only in part */
	char *policy_text;    /* as loaded, for policy.show */
	size_t policy_text_n;
	int64_t started_ns, policy_loaded_ns;
	char projection[PAWL_MAX_PATH + 32]; /* the file */
	bool stopped;	  /* told to, while it read the log */
	char reading[96]; /* how far, for those who ask before m_up */
};

struct door_calls;
/* Opens everything, reads the log (the doors answer `unavailable` meanwhile), writes the start entry and waits until it is durable. daemon_close()
 * ends any half but the doors. */
PAWL_MUST_USE int daemon_open(struct daemon *d, const struct door_calls *doors, mediate_done *done, struct resolver resolver, struct pawl_error *err);
void daemon_close(struct daemon *d);
/* Loads the policy file; problems go to the operational log, one line each. */
PAWL_MUST_USE int daemon_load_policy(struct daemon *d, struct policy **ret, char **ret_text, size_t *ret_n, struct pawl_error *err);
/* HUP (order NULL), or an operator: whole new or whole old; either way an entry.
 * 0: done(cookie) comes with the entry, loaded or refused (rep says why; the caller ends it). Negative: no entry, the policy is as it was. */
PAWL_MUST_USE int daemon_reload(struct daemon *d, struct policy_report *rep, const struct reload_order *order, void *cookie, struct refusal *no);
/* --check: policy, key, folders, log; prints what it finds. */
PAWL_MUST_USE int daemon_check(struct daemon *d, struct pawl_error *err);

/* What the loop needs of the doors and the watcher; main.c passes it, since the hall includes neither room. */
struct door_calls {
	int (*open)(struct daemon *d, struct pawl_error *err);
	void (*close)(struct daemon *d);
	int (*fd)(const struct daemon *d, int which); /* 0 agent, 1 operator, 2 watch */
	bool (*serve)(struct daemon *d, int which);   /* takes a bounded number of requests; true: more may wait */
	int64_t (*wake)(struct daemon *d, int64_t now); /* held-back answers that are due; returns when the next one is */
	bool (*watcher_gone)(struct daemon *d);	      /* d->peer is readable: takes what it says */
	struct watch_channel (*channel)(struct daemon *d); /* to the watcher */
	struct watched_news (*news)(struct daemon *d);	      /* to the watch door */
};
/* Until TERM or until the watcher is gone; then drains and writes a stop entry. Negative: it cannot go on, and wrote nothing more;
 * PAWL_E_TAMPERED: the log is damaged. */
PAWL_MUST_USE int loop_run(struct daemon *d, const struct door_calls *doors, struct pawl_error *err);

#endif
