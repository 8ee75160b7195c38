/* daemon/door/dispatch.c - see dispatch.h. */
#include "daemon/door/dispatch.h"

#include "daemon/door/attach.h"
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
	bool shows; /* its answer shows the state */
} handlers[OP_COUNT] = {
	[OP_HELLO] = { DOOR_AGENT, handle_hello, false },
	[OP_SESSION_OPEN] = { DOOR_AGENT, handle_open, false },
	[OP_SESSION_CLOSE] = { DOOR_AGENT, handle_close, false },
	[OP_SESSION_STATE] = { DOOR_AGENT, handle_state, true },
	[OP_DECIDE] = { DOOR_AGENT, handle_decide, false },
	[OP_SETTLE] = { DOOR_AGENT, handle_settle, false },
	[OP_HEARTBEAT] = { DOOR_AGENT, handle_heartbeat, true },
	[OP_CLAIM] = { DOOR_AGENT, handle_claim, false },
	[OP_REVIEW_WAIT] = { DOOR_AGENT, handle_review_wait, true },
	[OP_NONCE] = { DOOR_OPERATOR, handle_nonce, false },
	[OP_REVIEW_LIST] = { DOOR_OPERATOR, handle_review_list, true },
	[OP_REVIEW_SHOW] = { DOOR_OPERATOR, handle_review_show, true },
	[OP_REVIEW_RESOLVE] = { DOOR_OPERATOR, handle_resolve, false },
	[OP_SESSION_ABORT] = { DOOR_OPERATOR, handle_abort, false },
	[OP_BREAKER_RESET] = { DOOR_OPERATOR, handle_breaker_reset, false },
	[OP_POLICY_RELOAD] = { DOOR_OPERATOR, handle_reload, false },
	[OP_STATUS] = { DOOR_OPERATOR, handle_status, false },
	[OP_SESSION_LIST] = { DOOR_OPERATOR, handle_session_list, true },
	[OP_POLICY_SHOW] = { DOOR_OPERATOR, handle_policy_show, false },
};

int dispatch_open(struct daemon *d, struct pawl_error *err)
{
	int r = ipc_open(d->opt->operator_socket, 0600, MAX_OPERATORS, &d->operator_door, err);

	if (r == 0)
		r = ipc_open(d->opt->socket, 0666, MAX_AGENTS, &d->agent_door, err);
	if (r == 0)
		r = attach_open(d, err); /* after the agent door, whose path it tells */
	return r;
}

void dispatch_close(struct daemon *d)
{
	attach_close(d);
	ipc_close(d->agent_door);
	ipc_close(d->operator_door);
	d->agent_door = d->operator_door = NULL;
}

int dispatch_fd(const struct daemon *d, int which)
{
	return which == 2 ? attach_fd(d) : ipc_fd(which ? d->operator_door : d->agent_door);
}

static void job_free(struct job *job)
{
	if (!job)
		return;
	ipc_body_free(&job->msg);
	request_done(&job->rq);
	waiter_free(job->waiter);
	policy_report_done(&job->problems);
	buf_done(&job->answer);
	sodium_memzero(job, sizeof(*job)); /* tokens of the request and of a session that was opened */
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

/* What it shows may not be on disk yet: then it waits for that. */
static void show_and_free(struct job *job, struct buf *out)
{
	job->held = true;
	job->answer = *out;
	*out = BUF_MAX(MAX_REPLY);
	if (!mediate_shown(&job->d->m, job, job->door == job->d->agent_door))
		send_and_free(job, &job->answer);
}

void dispatch_done(void *cookie, const struct answer *ans)
{
	struct buf out = BUF_MAX(MAX_REPLY);
	mediate_done *const *other = cookie;
	struct job *job = cookie;

	if (*other) {
		(*other)(cookie, ans);
		return;
	}
	if (job->held && ans->no == REASON_OK) {
		send_and_free(job, &job->answer);
		return;
	}
	if (job_waits(job, ans))
		return;
	answer_text(job, ans, &out);
	if (job->waiter && ans->e) /* its card, as it is now */
		show_and_free(job, &out);
	else
		send_and_free(job, &out);
	buf_done(&out);
}

int64_t dispatch_wake(struct daemon *d, int64_t now)
{
	struct waiter *w;

	while (!d->m.ahead && (w = reviews_due(d->reviews, d->m.state, now))) {
		struct buf out = BUF_MAX(MAX_REPLY);
		struct job *job = w->cookie;

		job->waiter = w;
		/* (INT64_MAX: pawld stops; nobody gave up.) The log says that it gave up before it is told so: only then is its late approval a claim's alone */
		if (now != INT64_MAX && w->until <= now && mediate_gave_up(&d->m, w->card, job))
			continue;
		waited_text(job, w, &out);
		show_and_free(job, &out);
		buf_done(&out);
	}
	return reviews_next(d->reviews);
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
	} else if (!d->m_up) {
		reply_error(op, REASON_UNAVAILABLE, NULL, d->reading, NS_PER_SEC, &out);
	} else if (handlers[job->rq.op].handle && handlers[job->rq.op].door == which) {
		ipc_body_free(&job->msg); /* the parsed request owns what it needs */
		taken = handlers[job->rq.op].handle(job, &out);
	} else {
		reply_error(OP_NONE, REASON_MALFORMED, "op", "unknown op", 0, &out);
	}
	if (!taken && handlers[job->rq.op].shows)
		show_and_free(job, &out);
	else if (!taken)
		send_and_free(job, &out);
	buf_done(&out);
}

bool dispatch_serve(struct daemon *d, int which)
{
	struct ipc *door = which ? d->operator_door : d->agent_door;
	struct ipc_msg msg;

	if (which == 2)
		return attach_serve(d);
	for (int i = 0; i < TAKE_AT_ONCE; i++) {
		if (!ipc_receive(door, &msg))
			return false;
		take(d, door, which ? DOOR_OPERATOR : DOOR_AGENT, &msg);
	}
	return true;
}
