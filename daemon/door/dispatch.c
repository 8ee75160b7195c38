/* daemon/door/dispatch.c - see dispatch.h. */
#include "daemon/door/dispatch.h"

#include "daemon/door/job.h"

#include <sodium.h>
#include <stdlib.h>

#define TAKE_AT_ONCE 64 /* requests a wake-up: the committer's results and the other door come in between */
#define MAX_REPLY (2u << 20)
#define MAX_AGENTS 1000 /* streams; main.c's limit of descriptors has room for both doors and the files */
#define MAX_OPERATORS 32

static const struct {
	enum wire_door door;
	job_handler *handle;
} handlers[OP_COUNT] = {
	[OP_HELLO] = { DOOR_AGENT, handle_hello },
	[OP_SESSION_OPEN] = { DOOR_AGENT, handle_open },
	[OP_SESSION_CLOSE] = { DOOR_AGENT, handle_close },
	[OP_SESSION_STATE] = { DOOR_AGENT, handle_state },
	[OP_DECIDE] = { DOOR_AGENT, handle_decide },
	[OP_SETTLE] = { DOOR_AGENT, handle_settle },
	[OP_HEARTBEAT] = { DOOR_AGENT, handle_heartbeat },
	[OP_STATUS] = { DOOR_OPERATOR, handle_status },
	[OP_SESSION_LIST] = { DOOR_OPERATOR, handle_session_list },
	[OP_POLICY_SHOW] = { DOOR_OPERATOR, handle_policy_show },
};

int dispatch_open(struct daemon *d, struct pawl_error *err)
{
	int r = ipc_open(d->opt->operator_socket, MAX_OPERATORS, &d->operator_door, err);

	if (r == 0)
		r = ipc_open(d->opt->socket, MAX_AGENTS, &d->agent_door, err);
	return r;
}

void dispatch_close(struct daemon *d)
{
	ipc_close(d->agent_door);
	ipc_close(d->operator_door);
	d->agent_door = d->operator_door = NULL;
}

int dispatch_fd(const struct daemon *d, int which)
{
	return ipc_fd(which ? d->operator_door : d->agent_door);
}

static void job_free(struct job *job)
{
	if (!job)
		return;
	ipc_body_free(&job->msg);
	request_done(&job->rq);
	sodium_memzero(job->token, sizeof(job->token));
	free(job);
}

static void send_and_free(struct job *job, struct buf *out)
{
	if (buf_ok(out))
		ipc_reply(job->door, &job->msg, buf_str(out));
	else
		ipc_forget(job->door, &job->msg); /* without an answer the client asks again */
	job_free(job);
}

void dispatch_done(void *cookie, const struct answer *ans)
{
	struct buf out = BUF_MAX(MAX_REPLY);
	struct job *job = cookie;

	answer_text(job, ans, &out);
	send_and_free(job, &out);
	buf_done(&out);
}

static void count_bad(struct daemon *d, size_t body_n)
{
	if (body_n > PAWL_MAX_MESSAGE)
		d->m.count.oversized++;
	else
		d->m.count.malformed++;
}

/* One request: an answer at once, or a job that the spine owes an answer. */
static void take(struct daemon *d, struct ipc *door, enum wire_door which, struct ipc_msg *msg)
{
	struct buf out = BUF_MAX(MAX_REPLY);
	struct pawl_error err = { .code = PAWL_OK };
	struct job *job = calloc(1, sizeof(*job));
	enum wire_op op = OP_NONE;
	int taken = 0;

	if (!job) {
		ipc_forget(door, msg);
		ipc_body_free(msg);
		return;
	}
	*job = (struct job){ .d = d, .door = door, .msg = *msg };
	if (wire_parse((struct str){ job->msg.body, job->msg.n }, which, d->m.policy->currency, &job->rq, &op, &err) < 0) {
		if (err.code == PAWL_E_MALFORMED)
			count_bad(d, job->msg.n);
		reply_error(op, err.code == PAWL_E_MALFORMED ? REASON_MALFORMED : REASON_UNAVAILABLE, err.field, err.msg, 0, &out);
	} else if (handlers[job->rq.op].handle && handlers[job->rq.op].door == which) {
		ipc_body_free(&job->msg); /* the parsed request owns what it needs */
		taken = handlers[job->rq.op].handle(job, &out);
	} else {
		reply_error(OP_NONE, REASON_MALFORMED, "op", "unknown op", 0, &out);
	}
	if (!taken)
		send_and_free(job, &out);
	buf_done(&out);
}

bool dispatch_serve(struct daemon *d, int which)
{
	struct ipc *door = which ? d->operator_door : d->agent_door;
	struct ipc_msg msg;

	for (int i = 0; i < TAKE_AT_ONCE; i++) {
		if (!ipc_receive(door, &msg))
			return false;
		take(d, door, which ? DOOR_OPERATOR : DOOR_AGENT, &msg);
	}
	return true;
}
