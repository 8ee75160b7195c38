/* daemon/mediate_ops.c - one function an operation: who, what is due, law, entry. The order is mediate.c's; the answers are the doors'.
 * Must not touch sockets, files or SQL. */
#include "daemon/mediate_int.h"
#include "daemon/reload.h"

#include "policy/canon.h"
#include "policy/laws.h"
#include "policy/redact.h"
#include "daemon/log/entry.h"

#include <sodium.h>

static void big_endian(uint64_t v, uint8_t out[static 8])
{
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(v >> (56 - 8 * i));
}

/* HMAC-SHA-256(salt, value), salt = HMAC-SHA-256(tree secret, sequence || field): docs/audit-format.md, "Private values". */
void mediate_private_mac(const uint8_t secret[static 32], uint64_t seq, const char *field, struct str value, uint8_t out[static 32])
{
	uint8_t salt[32], number[8];
	crypto_auth_hmacsha256_state h;

	big_endian(seq, number);
	crypto_auth_hmacsha256_init(&h, secret, 32);
	crypto_auth_hmacsha256_update(&h, number, sizeof(number));
	crypto_auth_hmacsha256_update(&h, (const uint8_t *)field, strlen(field));
	crypto_auth_hmacsha256_final(&h, salt);
	(void)crypto_auth_hmacsha256(out, (const uint8_t *)value.p, value.n, salt);
	sodium_memzero(salt, sizeof(salt));
}

/* The session behind a token, its lease renewed. An ended session is still somebody: the judge says how it ended. */
const struct session_state *mediate_who(struct mediator *m, uint64_t id, const uint8_t *token, int64_t now, struct live **ret_live,
					struct refusal *no)
{
	const struct session_state *who;

	*ret_live = NULL;
	who = sessions_auth(m->sessions, m->state, id, token, ret_live);
	if (!who || !*ret_live) { /* counted, never an entry: a stranger must not fill the log */
		m->count.unauthenticated++;
		(void)refuse(no, REASON_UNAUTHENTICATED, "unknown session, or not its token");
		no->err.code = PAWL_E_AUTH;
		return NULL;
	}
	if (who->end == SESSION_LIVE)
		sessions_renew(*ret_live, who->lease_ns, now);
	return who;
}

/* The log is open and holds every deadline up to now: only then may anything be judged. */
int mediate_ready(struct mediator *m, int64_t now, struct refusal *no)
{
	if (!m->open) {
		m->count.unavailable++;
		return refuse(no, REASON_LOG_UNAVAILABLE, "the log cannot be written: %s", m->closed_why);
	}
	return mediate_due(m, now, no);
}

int mediate_throttle(struct mediator *m, struct bucket *mine, int64_t now, struct refusal *no)
{
	int64_t wait = 0;
	const char *whose = NULL;

	if (mine && !bucket_take(mine, &m->policy->limits, now, &wait))
		whose = "session";
	else if (!bucket_take(&m->agent_bucket, &m->policy->limits, now, &wait))
		whose = "agent";
	if (!whose)
		return 0;
	m->throttled++;
	m->count.throttled++;
	if (m->throttle_at == 0)
		m->throttle_at = add_sat(now, NS_PER_SEC);
	(void)refuse(no, REASON_THROTTLED, "this %s asks more than %lld times a second (limits.decide; burst %lld)", whose,
		     (long long)m->policy->limits.per_second, (long long)m->policy->limits.burst);
	no->retry_after_ns = wait;
	return no->err.code;
}

/* How the call ended that this one repeats: for the agent that lost the first answer. */
static void add_settled(struct mediator *m, const struct call_state *call, struct entry_decision *d)
{
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	struct entry_parsed old;
	struct entry_view view;
	const struct entry_settle *s;

	d->settled = call->outcome;
	if (call->settled && call->settled < m->durable && journal_read(m->journal, call->settled, &note, NULL) == 0 &&
	    entry_view_parse(buf_str(&note), &view, NULL) == 0 && entry_parse(view.body, call->settled, &old, NULL) == 0) {
		s = old.e.kind == ENTRY_SETTLE ? &old.e.settle : &old.e.loss.late;
		if ((old.e.kind == ENTRY_SETTLE || (old.e.kind == ENTRY_LOSS && old.e.loss.what == LOSS_LATE_SETTLE)) && s->has_result) {
			d->has_settled_result = true;
			memcpy(d->settled_result, s->result_mac, sizeof(d->settled_result));
		}
		entry_parsed_done(&old);
	}
	buf_done(&note);
}

int mediate_facts(struct mediator *m, const struct session_state *who, const struct live *lv, const struct request_call *call, struct facts *ret,
		  struct refusal *no)
{
	struct caller caller = { .session = who->id, .root = who->root, .agent = who->agent, .root_dir = who->root_dir, .secret = lv->secret };
	struct pawl_error err = { .code = PAWL_OK };

	if (sessions_labels(m->sessions, who, &caller.labels, &err) < 0) {
		(void)refuse(no, REASON_UNAVAILABLE, "the session's labels cannot be read: %s", err.msg);
		return PAWL_E_LIMIT;
	}
	if (facts_of(m->policy, call, &caller, &m->resolver, &m->args, ret, &err) == 0)
		return 0;
	m->count.malformed += err.code == PAWL_E_MALFORMED;
	return refuse_err(no, &err);
}

int mediate_judged(struct mediator *m, const struct session_state *who, const struct live *lv, const struct request_call *call, const struct facts *f,
		   const struct judgement *j, int64_t now, void *cookie, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_DECISION, now);
	struct submission s = { .e = &e, .cookie = cookie, .tree = who->root };
	struct pawl_error err = { .code = PAWL_OK };
	bool reused;

	entry_from_judgement(m->policy, call, f, j, e.now, e.wall, e.seq, &e);
	mediate_private_mac(lv->secret, e.seq, "args", f->canon_args, e.decision.args_mac);
	if (j->why.code == REASON_ALREADY_SETTLED) {
		const struct call_state *old = state_call(m->state, who->id, f->call_hash, f->key, &reused);

		if (old)
			add_settled(m, old, &e.decision);
	}
	if (e.decision.card == e.seq) { /* a person will want to see what is asked */
		if (reviews_args_put(m->reviews, e.seq, f->canon_args, &err) < 0)
			return refuse_err(no, &err);
		s.value = reviews_args(m->reviews, e.seq);
	}
	if (record_args(&m->policy->log, call->args, f->canon_args, &m->record, &s.record) < 0)
		return refuse(no, REASON_UNAVAILABLE, "the arguments cannot be recorded: out of memory");
	return mediate_submit(m, &s, no);
}

int mediate_asked(struct mediator *m, const struct asking *a, const struct session_state **ret_who, struct live **ret_live, struct facts *ret,
		  struct refusal *no)
{
	const struct session_state *who;
	int r;

	if (!mediate_who(m, a->session, a->token, a->now, ret_live, no))
		return PAWL_E_AUTH;
	r = mediate_throttle(m, &(*ret_live)->bucket, a->now, no);
	if (r == 0)
		r = mediate_ready(m, a->now, no);
	if (r != 0)
		return r;
	who = state_session(m->state, a->session); /* what was due may have ended it */
	if (!who) {
		(void)refuse(no, REASON_UNAUTHENTICATED, "unknown session");
		return PAWL_E_AUTH;
	}
	*ret_who = who;
	return mediate_facts(m, who, *ret_live, a->call, ret, no);
}

int mediate_decide(struct mediator *m, const struct decide_args *a, void *cookie, struct refusal *no)
{
	int64_t now = clock_now(m->clock); /* read once: due deadlines, judge and entry see the same moment */
	const struct session_state *who;
	struct judgement j;
	struct facts facts;
	struct live *lv;
	int r = mediate_asked(m, &(struct asking){ a->session, a->token, a->call, now }, &who, &lv, &facts, no);

	if (r != 0)
		return r;
	judge(m->policy, m->state, &facts, now, &j);
	if (j.replay)
		return mediate_again(m, j.why.refers, cookie, no);
	return mediate_judged(m, who, lv, a->call, &facts, &j, now, cookie, no);
}

static void settle_same(const uint8_t secret[static 32], const struct settle_args *a, uint8_t out[static 16])
{
	const struct report *rep = &a->report;
	const int64_t number[] = { (int64_t)a->decision, rep->outcome, rep->has_money, rep->money, rep->has_tokens, rep->tokens,
			     a->has_result, a->result_bytes, a->has_error, a->has_error_sha256, a->duration_ns };
	static const char domain[] = "pawl/settle";
	crypto_generichash_state h;
	uint8_t bytes[8];

	(void)crypto_generichash_init(&h, secret, 32, 16);
	(void)crypto_generichash_update(&h, (const uint8_t *)domain, sizeof(domain)); /* with its NUL */
	for (size_t i = 0; i < PAWL_LEN(number); i++) {
		big_endian((uint64_t)number[i], bytes);
		(void)crypto_generichash_update(&h, bytes, sizeof(bytes));
	}
	(void)crypto_generichash_update(&h, a->result_sha256, sizeof(a->result_sha256));
	(void)crypto_generichash_update(&h, a->error_sha256, sizeof(a->error_sha256));
	(void)crypto_generichash_update(&h, (const uint8_t *)(a->error_kind.p ? a->error_kind.p : ""), a->error_kind.n);
	(void)crypto_generichash_final(&h, out, 16);
}

/* Equal inside the tree for equal results or errors, and only that: what the loop laws compare. */
static void loop_token(const uint8_t secret[static 32], const char *domain, struct str kind, const uint8_t digest[static 32], uint8_t out[static 16])
{
	crypto_generichash_state h;
	uint8_t n[8];

	big_endian(kind.n, n);
	(void)crypto_generichash_init(&h, secret, 32, 16);
	(void)crypto_generichash_update(&h, (const uint8_t *)domain, strlen(domain) + 1);
	(void)crypto_generichash_update(&h, n, sizeof(n));
	(void)crypto_generichash_update(&h, (const uint8_t *)(kind.p ? kind.p : ""), kind.n);
	(void)crypto_generichash_update(&h, digest, 32);
	(void)crypto_generichash_final(&h, out, 16);
}

static void settle_body(struct mediator *m, const struct settle_args *a, const uint8_t *secret, uint64_t seq, struct entry_settle *s)
{
	s->session = a->session;
	s->decision = a->decision;
	s->outcome = a->report.outcome;
	s->money_unit = m->policy->currency;
	s->has_money = a->report.has_money;
	s->money = a->report.money;
	s->has_tokens = a->report.has_tokens;
	s->tokens = a->report.tokens;
	s->has_result = a->has_result;
	s->result_bytes = a->result_bytes;
	s->has_error = a->has_error;
	s->error_kind = a->error_kind;
	s->duration_ns = a->duration_ns;
	if (a->has_result)
		mediate_private_mac(secret, seq, "result", (struct str){ (const char *)a->result_sha256, 32 }, s->result_mac);
	if (a->has_result) {
		s->has_result_token = true;
		loop_token(secret, "pawl/loop/result", STR_NONE, a->result_sha256, s->result_token);
	}
	if (a->has_error) {
		s->has_error_token = true;
		loop_token(secret, "pawl/loop/error", a->error_kind, a->error_sha256, s->error_token);
	}
	if (a->has_error_sha256)
		mediate_private_mac(secret, seq, "error", (struct str){ (const char *)a->error_sha256, 32 }, s->error_mac);
}

int mediate_settle(struct mediator *m, const struct settle_args *a, void *cookie, struct refusal *no)
{
	int64_t now = clock_now(m->clock);
	struct charge charges[PAWL_MAX_LEDGERS];
	struct breaker_row breakers[PAWL_MAX_BREAKERS];
	struct pawl_error err = { .code = PAWL_OK };
	struct entry_settle body = { .session = 0 };
	const struct call_state *call;
	struct live *lv;
	struct entry e;
	int r;

	if (!mediate_who(m, a->session, a->token, now, &lv, no))
		return PAWL_E_AUTH;
	r = mediate_ready(m, now, no);
	if (r < 0)
		return r;
	call = state_decision(m->state, a->decision);
	if (!call || call->session != a->session || call->answer != VERDICT_ALLOW) {
		m->count.malformed++;
		(void)pawl_fail_field(&err, "decision", "not an allowed decision of this session");
		return refuse_err(no, &err);
	}
	settle_same(lv->secret, a, body.same);
	if (call->reported) {
		if (memcmp(&call->settle_same, body.same, sizeof(call->settle_same)) == 0)
			return mediate_again(m, call->settled, cookie, no);
		return refuse(no, REASON_REPLAY_CONFLICT, "d_%llu was settled differently before; the first report stands",
			      (unsigned long long)a->decision);
	}
	if (settle_charges(m->policy, m->state, call, &a->report, now, charges, breakers, &body, &err) < 0) {
		m->count.malformed++;
		return refuse_err(no, &err);
	}
	e = mediate_entry(m, call->settled ? ENTRY_LOSS : ENTRY_SETTLE, now);
	settle_body(m, a, lv->secret, e.seq, &body);
	if (call->settled)
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = a->session, .decision = a->decision, .late = body };
	else
		e.settle = body;
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
}

/* "25%" is fixed here: later spending of the parent does not change what the child was given. */
static int child_limits(struct mediator *m, const struct open_args *a, const struct session_state *parent, int64_t now, struct entry_session *es,
			struct refusal *no)
{
	int64_t share;

	memcpy(es->has_limit, a->has_limit, sizeof(a->has_limit));
	memcpy(es->limit, a->limit, sizeof(a->limit));
	if (a->share_percent == 0)
		return 0;
	share = parent ? share_of_rest(m->policy, m->state, parent, now, (int)a->share_percent) : -1;
	if (share < 0) {
		(void)pawl_fail_field(&no->err, "limits.money", "a share needs a parent session that draws from a money budget");
		no->code = REASON_MALFORMED;
		no->retry_after_ns = 0;
		return PAWL_E_MALFORMED;
	}
	es->has_limit[UNIT_MONEY] = true;
	es->limit[UNIT_MONEY] = share;
	return 0;
}

/* The parent as it is now, when there is one: its token opens the child. */
static int parent_of_open(struct mediator *m, const struct open_args *a, int64_t now, const struct session_state **ret, uint8_t secret[static 32],
			  struct refusal *no)
{
	struct live *lv;

	*ret = NULL;
	randombytes_buf(secret, 32);
	if (a->parent == 0)
		return 0;
	if (!mediate_who(m, a->parent, a->parent_token, now, &lv, no))
		return PAWL_E_AUTH;
	memcpy(secret, lv->secret, 32); /* the tree's */
	*ret = state_session(m->state, a->parent);
	return *ret ? 0 : refuse(no, REASON_UNAUTHENTICATED, "unknown session");
}

static int open_entry(struct mediator *m, const struct open_args *a, int64_t now, struct buf *labels, struct entry *e, uint8_t secret[static 32],
		      struct refusal *no)
{
	const struct session_state *parent;
	int64_t fresh_end = 0;
	struct reason why;
	int r = parent_of_open(m, a, now, &parent, secret, no);

	if (r == 0 && !session_may_open(m->policy, m->state, parent, a->agent, now, &fresh_end, &why)) {
		r = refuse(no, why.code, "%s", why.message);
		no->retry_after_ns = why.retry_after_ns;
	}
	if (r < 0)
		return r;
	if (a->labels)
		canon_json(a->labels, NULL, 0, labels);
	else
		buf_puts(labels, "{}");
	if (!buf_ok(labels))
		return refuse(no, REASON_UNAVAILABLE, "out of memory");
	*e = mediate_entry(m, ENTRY_SESSION, now);
	e->session = (struct entry_session){ .action = SESSION_OPEN, .session = e->seq, .parent = a->parent, .root = parent ? parent->root : e->seq,
					     .agent = a->agent, .root_dir = a->root_dir, .labels_text = buf_str(labels),
					     .lease_ns = m->policy->sessions.lease_ns, .fresh_end = fresh_end };
	if (parent && !a->root_dir.p)
		e->session.root_dir = parent->root_dir;
	session_token_hash(a->token, e->session.token_hash);
	return child_limits(m, a, parent, now, &e->session, no);
}

int mediate_open(struct mediator *m, const struct open_args *a, void *cookie, struct refusal *no)
{
	struct buf labels = BUF_MAX(PAWL_MAX_BODY / 2);
	struct pawl_error err = { .code = PAWL_OK };
	int64_t now = clock_now(m->clock);
	uint8_t secret[32];
	struct entry e;
	int r;

	if (!str_is(a->agent, "local")) {
		m->count.unauthenticated++;
		return refuse(no, REASON_UNAUTHENTICATED, "no agents are enrolled: the only agent is \"local\"");
	}
	r = mediate_throttle(m, NULL, now, no);
	if (r == 0)
		r = mediate_ready(m, now, no);
	if (r == 0)
		r = open_entry(m, a, now, &labels, &e, secret, no);
	if (r == 0) {
		struct submission s = { .e = &e, .cookie = cookie, .tree = e.session.root, .secret = a->parent ? NULL : secret };

		if (sessions_add(m->sessions, e.seq, secret, add_sat(now, e.session.lease_ns), &err) < 0)
			r = refuse_err(no, &err);
		else
			r = mediate_submit(m, &s, no);
		if (r < 0)
			sessions_drop(m->sessions, e.seq);
	}
	sodium_memzero(secret, sizeof(secret));
	buf_done(&labels);
	return r;
}

int mediate_close(struct mediator *m, uint64_t session, const uint8_t *token, void *cookie, struct refusal *no)
{
	int64_t now = clock_now(m->clock);
	const struct session_state *who;
	struct live *lv;
	struct entry e;
	int r;

	if (!mediate_who(m, session, token, now, &lv, no))
		return PAWL_E_AUTH;
	r = mediate_ready(m, now, no);
	if (r < 0)
		return r;
	who = state_session(m->state, session);
	if (!who || who->end != SESSION_LIVE)
		return refuse(no, session_end_reason(who ? who->end : SESSION_ENDED_CLOSE),
			      "the session has ended");
	e = mediate_entry(m, ENTRY_SESSION, now);
	e.session = (struct entry_session){ .action = SESSION_CLOSE, .session = session };
	return mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
}

const struct session_state *mediate_session(struct mediator *m, uint64_t session, const uint8_t *token, struct live **ret_live)
{
	struct refusal no;

	if (!mediate_who(m, session, token, clock_now(m->clock), ret_live, &no))
		return NULL;
	return state_session(m->state, session);
}

int mediate_start(struct mediator *m, const struct entry_start *start, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_START, clock_now(m->clock));
	struct reload diff; /* the file may have changed while nobody was here */
	int r;

	policy_diff(NULL, m->state, m->policy, &diff);
	e.start = *start;
	e.start.budgets = diff.budgets;
	r = mediate_submit(m, &(struct submission){ .e = &e }, no);
	if (r == 0)
		reload_tell(&diff);
	return r;
}

int mediate_stop(struct mediator *m, struct str why, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_STOP, clock_now(m->clock));

	e.stop = (struct entry_stop){ .why = why };
	return mediate_submit(m, &(struct submission){ .e = &e }, no);
}

int mediate_torn(struct mediator *m, int64_t bytes, struct refusal *no)
{
	struct entry e = mediate_entry(m, ENTRY_LOSS, clock_now(m->clock));

	e.loss = (struct entry_loss){ .what = LOSS_TORN_TAIL, .bytes = bytes };
	return mediate_submit(m, &(struct submission){ .e = &e }, no);
}

static void say_who(const struct reload_order *order, struct entry_policy *p)
{
	p->ordered = true;
	p->operator = order->by->operator;
	p->key = order->by->key;
	p->reason = order->reason;
	memcpy(p->signed_hash, order->by->text_hash, sizeof(p->signed_hash));
	memcpy(p->signature, order->by->signature, sizeof(p->signature));
}

int mediate_policy(struct mediator *m, struct policy *pol, struct str refused, const struct reload_order *order, void *cookie, struct refusal *no)
{
	const struct policy *named = pol ? pol : m->policy;
	int64_t now = clock_now(m->clock);
	struct entry e = mediate_entry(m, ENTRY_POLICY, now);
	struct policy *old = m->policy;
	struct reload diff;
	char hex[65];
	int r;

	(void)sodium_bin2hex(hex, sizeof(hex), named->hash, 32);
	e.policy = (struct entry_policy){ .loaded = refused.n == 0, .name = named->name, .hash = { hex, 64 }, .message = refused };
	if (order)
		say_who(order, &e.policy);
	if (e.policy.loaded)
		e.policy.mode = policy_mode_word(named->mode);
	policy_diff(pol ? old : NULL, m->state, named, &diff);
	if (e.policy.loaded)
		e.policy.budgets = diff.budgets;
	r = mediate_submit(m, &(struct submission){ .e = &e, .cookie = cookie }, no);
	if (r < 0)
		return r;
	if (e.policy.loaded)
		reload_tell(&diff);
	if (pol) {
		m->policy = pol;
		reload_cards(m, old, now);
		policy_free(old);
	}
	return r;
}
