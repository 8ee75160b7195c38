/* daemon/door/wire.c - a request's bytes -> struct request. Finds the op, hands the object to its table (wire_ops.c),
 * and checks what no single field can tell. Owns the parsed document until it is handed over. */
#include "daemon/door/wire_field.h"

#include "policy/canon.h"

const char *wire_op_name(enum wire_op op)
{
	for (size_t i = 0; i < wire_n_ops; i++)
		if (wire_ops[i].op == op)
			return wire_ops[i].name.p;
	return NULL;
}

bool wire_op_signed(enum wire_op op)
{
	return op == OP_REVIEW_RESOLVE || op == OP_SESSION_ABORT || op == OP_BREAKER_RESET || op == OP_POLICY_RELOAD;
}

void wire_signed_bytes(const struct request *rq, struct buf *out)
{
	static const struct str signature = { "signature", 9 };

	if (!wire_op_signed(rq->op)) { /* no other op has anything that a signature could be over */
		out->failed = true;
		return;
	}
	buf_puts(out, "pawl-operator/v1\n");
	canon_json(rq->doc, &signature, 1, out);
}

static const struct wire_op_def *op_def(struct str name, enum wire_door door)
{
	for (size_t i = 0; i < wire_n_ops; i++)
		if (wire_ops[i].door == door && str_eq(wire_ops[i].name, name))
			return &wire_ops[i];
	return NULL;
}

static int read_op(struct wire_reader *r, const struct json *doc, enum wire_door door, const struct wire_op_def **ret)
{
	const struct json *op = json_get(doc, "op");
	char shown[WIRE_QUOTE];

	if (!op)
		return wire_bad(r, STR("op"), "missing: a request names what it wants");
	if (json_kind(op) != JSON_KIND_STRING)
		return wire_bad(r, STR("op"), "must be a text");
	*ret = op_def(json_string(op), door);
	if (!*ret)
		return wire_bad(r, STR("op"), "unknown op \"%s\"", wire_quote(json_string(op), shown));
	return 0;
}

/* The version is asked for before anything else is judged: another protocol may mean other things by the same names. */
static int read_version(struct wire_reader *r, const struct json *doc)
{
	const struct json *v = json_get(doc, "v");

	if (!v)
		return wire_bad(r, STR("v"), "missing: this is protocol 1, say \"v\":1");
	if (json_kind(v) != JSON_KIND_INT || json_int(v) != 1)
		return wire_bad(r, STR("v"), "must be exactly 1: no other protocol is spoken here");
	return 0;
}

static int check_call(struct wire_reader *r, const struct request_call *call)
{
	if (call->kind == CALL_LLM && !call->model.p)
		return wire_bad(r, STR("model"), "missing: a call of kind llm names its model");
	if (call->kind != CALL_LLM && call->model.p)
		return wire_bad(r, STR("model"), "only a call of kind llm has a model");
	return 0;
}

static int check_open(struct wire_reader *r, const struct request_open *open)
{
	if (open->parent && !open->has_parent_token)
		return wire_bad(r, STR("parent_token"), "missing: a child session is opened by its parent");
	if (open->has_parent_token && !open->parent)
		return wire_bad(r, STR("parent"), "missing: parent_token is of no use without it");
	if (open->share_percent && !open->parent)
		return wire_bad(r, STR("limits.money"), "a share is of what the parent has left: there is no parent");
	return 0;
}

static int check_whole(struct wire_reader *r, const struct request *rq)
{
	if (rq->op == OP_DECIDE || rq->op == OP_CLAIM)
		return check_call(r, &rq->call);
	if (rq->op == OP_SESSION_OPEN)
		return check_open(r, &rq->open);
	if (rq->op == OP_REVIEW_RESOLVE && rq->by.tree && rq->by.action != RESOLVE_ABORT)
		return wire_bad(r, STR("tree"), "only an abort reaches further than the call");
	return 0;
}

static int read_request(struct wire_reader *r, enum wire_door door, enum wire_op *ret_op)
{
	const struct wire_op_def *def = NULL;
	const struct json *doc = r->rq->doc;
	struct pawl_error version;
	int got, unknown;

	if (json_kind(doc) != JSON_KIND_OBJECT)
		return pawl_fail_field(r->err, "", "a message is one JSON object");
	unknown = read_op(r, doc, door, &def);
	*ret_op = def ? def->op : OP_NONE;
	got = read_version(&(struct wire_reader){ .err = &version }, doc);
	if (got < 0) {
		if (r->err)
			*r->err = version;
		return got;
	}
	if (!def)
		return unknown;
	r->rq->op = def->op;
	got = wire_read(r, doc, def->rows, def->n);
	return got == 0 ? check_whole(r, r->rq) : got;
}

int wire_parse(struct str body, enum wire_door door, struct str currency, struct request *ret, enum wire_op *ret_op,
	       struct pawl_error *err)
{
	/* zero is "resume": what nobody asked for must not read as a yes */
	struct request rq = { .list_limit = 100, .settle.duration_ns = -1, .by.action = RESOLVE_CLOSE };
	struct wire_reader r = { .rq = &rq, .currency = currency, .err = err };
	int got;

	*ret_op = OP_NONE;
	if (body.n == 0)
		return pawl_fail_field(err, "", "an empty message");
	if (body.n > PAWL_MAX_MESSAGE)
		return pawl_fail_field(err, "", "a message of %zu bytes: at most %u", body.n, PAWL_MAX_MESSAGE);
	got = json_parse(body, PAWL_MAX_DEPTH, &rq.doc, err);
	if (got == 0)
		got = read_request(&r, door, ret_op);
	if (got == 0)
		*ret = rq;
	else
		request_done(&rq);
	return got;
}

void request_done(struct request *rq)
{
	if (!rq)
		return;
	json_free(rq->doc);
	*rq = (struct request){ 0 };
}
