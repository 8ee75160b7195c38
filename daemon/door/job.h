/* daemon/door/job.h - one request on its way to an answer: shared by dispatch.c (which op) and the handlers (agent.c, operator.c). */
#ifndef PAWL_JOB_H
#define PAWL_JOB_H
#include "daemon/daemon.h"
#include "daemon/door/ipc.h"
#include "daemon/door/reply.h"
#include "daemon/door/wire.h"

struct job {
	mediate_done *done; /* first, NULL: what the spine's answers to others begin with (watched.c, attach_ops.c) */
	struct daemon *d;
	struct ipc *door;
	struct ipc_msg msg;
	struct request rq;
	struct policy_report problems; /* policy.reload */
	struct waiter *waiter; /* while an answer is held back; owned once dispatch_wake() has it */
	uint8_t token[32]; /* session.open: shown once, then wiped */
	bool held;
	struct buf answer; /* held: shows the state, and leaves when what it shows is on disk */
};
/* A handler writes the answer into out and returns 0, or hands the job to the spine and returns 1 (it is no longer ours). */
typedef int job_handler(struct job *job, struct buf *out);
job_handler handle_claim, handle_review_wait;							  /* agent_review.c */
job_handler handle_nonce, handle_review_list, handle_review_show, handle_resolve, handle_abort, handle_breaker_reset,
	handle_reload; /* operator_review.c */
job_handler handle_hello, handle_open, handle_close, handle_state, handle_decide, handle_settle, handle_heartbeat; /* agent.c */
job_handler handle_status, handle_session_list, handle_policy_show;						   /* operator.c */
/* The spine's answer as bytes (agent.c). */
void answer_text(struct job *job, const struct answer *ans, struct buf *out);

/* A review that its caller waits for: kept until dispatch_wake() finds it due. true: the job is no longer ours. */
bool job_waits(struct job *job, const struct answer *ans);
/* The answer to a waiter, from how its card is now. */
void waited_text(struct job *job, const struct waiter *w, struct buf *out);

/* What hello and status both say. */
#define JOB_PROMISES 11
size_t job_promises(const struct daemon *d, struct reply_fact out[static JOB_PROMISES]);
void job_log(const struct daemon *d, struct reply_log *ret, struct buf *key);
struct reply_fact job_watch(const struct daemon *d); /* name: the tier, or "" */
/* The money ledger in reach of the session that has the least left (agent.c). */
void job_money(const struct mediator *m, const struct session_state *who, int64_t now, struct reply_money *ret);
/* above: of the nearest session above, when it has none of its own. */
void job_tree(const struct daemon *d, const struct session_state *who, bool above, struct reply_watch *ret);
#endif
