/* policy/facts.c - request x policy -> facts: the last place that looks at arguments. Owns nothing; borrows all it is
 * given. Pure but for the resolver that `under` asks. Allocates nothing but the scratch buffer's growth.
 *
 * Tokens: the exact bytes
 * -----------------------
 * H(n, data) is BLAKE2b with an output of n bytes (the digest length in its parameter block), keyed with the 32-byte
 * secret of the session's tree.
 *
 * - D(args) = H(32, canonical JSON text of the arguments less the members that are left out)
 *
 * - token   = H(16, domain || 0x00 || field || field ...)
 *
 * - field   = uint32 length, big-endian || that many bytes
 *
 * Numbers are fields of 8 bytes, big-endian. A digest D is the last field and has length 32.
 *
 * - call_hash: domain "pawl/call"; session number, call id. The first 8 bytes of the token, read big-endian.
 *
 * - key: domain "pawl/key"; session number, call id, canonical tool name, D(all arguments).
 *
 * - card: domain "pawl/card"; session number, canonical tool name, D(all arguments).
 *
 * - same: domain "pawl/same"; canonical tool name, D(arguments less the tool's `volatile`, folded).
 *
 * - repeat: domain "pawl/loop/repeat"; canonical tool name, and unless the rule says same: [tool],
 *   D(arguments less the tool's `volatile` and the rule's `ignore`, folded).
 *
 * Folded: in a text that the tool's `fold_space` names each run of white space is one blank, and its ends have none.
 * `key` and `card` speak of exactly what was asked, so they are never folded.
 *
 * `repeat` is 16 zero bytes when the policy has no repeat rule. Equal tokens mean equal calls inside a tree, and
 * nothing outside it. */
#include "policy/canon.h"
#include "policy/cut.h"
#include "policy/laws.h"
#include "policy/under.h"

#include <assert.h>
#include <sodium.h>

#define DEFAULT_LEASE    (15 * 60 * NS_PER_SEC)
#define MAX_CALLER_LEASE (24 * 3600 * NS_PER_SEC)
#define MAX_DROP         64 /* members left out of one comparison, those that are there counted */

/* ---- rules ---- */

struct look { /* for each candidate rule of the index */
	const struct policy *pol;
	const struct subjects *subjects;
	struct facts *f;
};

static enum truth both(enum truth a, enum truth b)
{
	if (a == TRUTH_NO || b == TRUTH_NO)
		return TRUTH_NO;
	return a == TRUTH_FAILED || b == TRUTH_FAILED ? TRUTH_FAILED : TRUTH_YES;
}

static enum truth rule_applies(const struct rule *r, const struct subjects *s)
{
	enum truth holds = r->when ? condition_eval(r->when, s) : TRUTH_YES;
	enum truth saved = TRUTH_NO;

	if (holds != TRUTH_NO && r->unless)
		saved = condition_eval(r->unless, s);
	return both(holds, saved == TRUTH_FAILED ? TRUTH_FAILED : saved == TRUTH_YES ? TRUTH_NO : TRUTH_YES);
}

/* A deny rule that is remembered. Where there is no room for all of them, those that reach further stay: who is bound
 * depends on them, and the nearer ones only name the same tool again. */
static void stick(const struct policy *pol, uint32_t rule, struct facts *f)
{
	size_t weakest = 0;

	if (f->n_sticks == PAWL_LEN(f->sticks)) {
		for (size_t i = 1; i < f->n_sticks; i++)
			if (pol->rules[f->sticks[i]].sticky <= pol->rules[f->sticks[weakest]].sticky)
				weakest = i;
		if (pol->rules[rule].sticky <= pol->rules[f->sticks[weakest]].sticky)
			return;
		f->n_sticks--;
		memmove(f->sticks + weakest, f->sticks + weakest + 1, (f->n_sticks - weakest) * sizeof(f->sticks[0]));
	}
	assert(rule <= UINT16_MAX); /* a file has at most 50,000 values */
	f->sticks[f->n_sticks++] = (uint16_t)rule;
}

static bool is_named(const struct rule_hit *hit) /* the first in the file that truly matched stands */
{
	return hit->rule >= 0 && !hit->by_failure;
}

static void take_rule(const struct policy *pol, uint32_t i, enum truth got, struct facts *f)
{
	const struct rule *r = &pol->rules[i];
	struct rule_hit *hit = &f->hit[r->answer];

	if (got == TRUTH_YES && r->sticky != STICK_NEVER)
		stick(pol, i, f);
	if (is_named(hit))
		return;
	if (got == TRUTH_YES)
		*hit = (struct rule_hit){ .rule = (int32_t)i };
	else if (got == TRUTH_FAILED && r->answer != VERDICT_ALLOW && hit->rule < 0)
		*hit = (struct rule_hit){ .rule = (int32_t)i, .by_failure = true };
}

static void look_at_rule(void *arg, uint32_t i)
{
	struct look *l = arg;
	const struct rule *r = &l->pol->rules[i];

	if (!is_named(&l->f->hit[r->answer]) || r->sticky != STICK_NEVER)
		take_rule(l->pol, i, rule_applies(r, l->subjects), l->f);
}

static void no_rules(struct facts *f)
{
	for (size_t v = 0; v < PAWL_LEN(f->hit); v++)
		f->hit[v] = (struct rule_hit){ .rule = -1 };
	f->n_sticks = 0;
}

static void find_rules(const struct policy *pol, const struct request_call *rq, const struct caller *who,
		       const struct resolver *res, struct buf *scratch, struct facts *f)
{
	struct under_memo memo;
	struct subjects s = { .rq = rq,
			      .who = who,
			      .tool = f->tool,
			      .res = res,
			      .paths = f->paths,
			      .n_paths = &f->n_paths,
			      .scratch = scratch,
			      .memo = &memo };
	struct look l = { pol, &s, f };
	struct index_hits hits;

	_Static_assert(PAWL_LEN(f->paths) == SUBJECT_PATHS, "facts and conditions disagree");
	memo.n = 0;
	no_rules(f);
	hits = name_index_find(pol->index, f->tool, f->def, look_at_rule, &l);
	f->budgets = hits.budgets;
	f->breakers = hits.breakers;
}

/* ---- tokens ---- */

struct preimage {
	uint8_t bytes[512]; /* domain, two numbers, a call id, a tool name, a digest: less than 400 */
	size_t n;
};

static void put(struct preimage *m, const void *p, size_t n)
{
	assert(n <= sizeof(m->bytes) - m->n);
	memcpy(m->bytes + m->n, p, n);
	m->n += n;
}

static void put_field(struct preimage *m, const void *p, size_t n)
{
	uint8_t len[4] = { (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n };

	put(m, len, sizeof(len));
	put(m, p, n);
}

static void put_number(struct preimage *m, uint64_t v)
{
	uint8_t b[8];

	for (size_t i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> (56 - 8 * i));
	put_field(m, b, sizeof(b));
}

static void start(struct preimage *m, const char *domain)
{
	m->n = 0;
	put(m, domain, strlen(domain) + 1);
}

static void keyed(const uint8_t *secret, const void *p, size_t n, uint8_t *out, size_t out_n)
{
	int r = crypto_generichash(out, out_n, p, n, secret, 32);

	assert(r == 0); /* only impossible lengths fail */
	(void)r;
}

static void finish(const struct preimage *m, const uint8_t *secret, uint8_t out[static 16])
{
	keyed(secret, m->bytes, m->n, out, 16);
}

/* ---- digests of arguments ---- */

struct digests {                               /* equal ones are made once */
	uint8_t all[32], same[32], repeat[32]; /* all; less volatile; less volatile and ignored */
};

struct drop {
	struct str paths[MAX_DROP];
	size_t n;
	bool plain; /* all of them can be cut from the text */
	const struct str *fold;
	size_t n_fold;
};

static bool there(const struct json *args, struct str path)
{
	const char *dot = path.n ? memchr(path.p, '.', path.n) : NULL;

	return json_get_str(args, (struct str){ path.p, dot ? (size_t)(dot - path.p) : path.n }) != NULL;
}

/* A path that names nothing here would leave the text as it is. Only the first step is looked at: a path kept in vain
 * costs time. */
static bool drop_present(const struct json *args, const struct str *paths, size_t n, struct drop *d)
{
	for (size_t i = 0; i < n; i++) {
		if (!there(args, paths[i]))
			continue;
		if (d->n == PAWL_LEN(d->paths))
			return false;
		d->paths[d->n++] = paths[i];
		d->plain = d->plain && cut_path_plain(paths[i]);
	}
	return true;
}

/* Of the arguments less what the first n_drop paths name. scratch holds the whole text and does so again afterwards. */
static bool digest_less(const struct json *args, const struct drop *d, size_t n_drop, const uint8_t *secret,
			struct buf *scratch, uint8_t out[static 32])
{
	size_t whole = scratch->n;

	if (d->n_fold)
		canon_json_fold(args, d->paths, n_drop, d->fold, d->n_fold, scratch);
	else if (d->plain)
		cut_members(scratch, 0, whole, d->paths, n_drop);
	else
		canon_json(args, d->paths, n_drop, scratch);
	if (!buf_ok(scratch))
		return false;
	keyed(secret, scratch->p + whole, scratch->n - whole, out, 32);
	scratch->n = whole;
	return true;
}

static int digests_of(const struct policy *pol, const struct request_call *rq, const uint8_t *secret,
		      const struct tool *def, struct buf *scratch, struct digests *ret, struct pawl_error *err)
{
	const struct loop_repeat *loop = &pol->repeat;
	struct drop d;
	size_t n_volatile;
	bool ok;

	d.n = d.n_fold = 0;
	d.plain = true;
	d.fold = def ? def->fold_paths : NULL;
	for (size_t i = 0; def && i < def->n_fold && !d.n_fold; i++)
		d.n_fold = there(rq->args, def->fold_paths[i]) ? def->n_fold : 0;
	if (def && !drop_present(rq->args, def->volatile_paths, def->n_volatile, &d))
		return pawl_fail_field(err, "args", "more than %d volatile members", MAX_DROP);
	n_volatile = d.n;
	if (loop->on && loop->same_args && !drop_present(rq->args, loop->ignore, loop->n_ignore, &d))
		return pawl_fail_field(err, "args", "more than %d volatile and ignored members", MAX_DROP);

	canon_json(rq->args, NULL, 0, scratch);
	ok = buf_ok(scratch);
	if (ok)
		keyed(secret, scratch->p, scratch->n, ret->all, sizeof(ret->all));
	memcpy(ret->same, ret->all, sizeof(ret->same));
	if (ok && (n_volatile || d.n_fold))
		ok = digest_less(rq->args, &d, n_volatile, secret, scratch, ret->same);
	memcpy(ret->repeat, ret->same, sizeof(ret->repeat));
	if (ok && d.n > n_volatile)
		ok = digest_less(rq->args, &d, d.n, secret, scratch, ret->repeat);
	if (!ok)
		return pawl_fail_field(err, "args", "no room for their canonical text in %zu bytes", scratch->max);
	return 0;
}

static void tokens_of(const struct policy *pol, const struct request_call *rq, const struct caller *who,
		      const struct digests *d, struct facts *f)
{
	struct preimage m;
	uint8_t t[16];

	start(&m, "pawl/call");
	put_number(&m, who->session);
	put_field(&m, rq->call.p, rq->call.n);
	finish(&m, who->secret, t);
	f->call_hash = 0;
	for (size_t i = 0; i < 8; i++)
		f->call_hash = f->call_hash << 8 | t[i];

	start(&m, "pawl/key");
	put_number(&m, who->session);
	put_field(&m, rq->call.p, rq->call.n);
	put_field(&m, f->tool.p, f->tool.n);
	put_field(&m, d->all, sizeof(d->all));
	finish(&m, who->secret, f->key);

	start(&m, "pawl/card");
	put_number(&m, who->session);
	put_field(&m, f->tool.p, f->tool.n);
	put_field(&m, d->all, sizeof(d->all));
	finish(&m, who->secret, f->card);

	start(&m, "pawl/same");
	put_field(&m, f->tool.p, f->tool.n);
	put_field(&m, d->same, sizeof(d->same));
	finish(&m, who->secret, f->same);

	if (!pol->repeat.on)
		return;
	start(&m, "pawl/loop/repeat");
	put_field(&m, f->tool.p, f->tool.n);
	if (pol->repeat.same_args)
		put_field(&m, d->repeat, sizeof(d->repeat));
	finish(&m, who->secret, f->repeat);
}

/* ---- amounts ---- */

static void amounts_of(const struct request_call *rq, struct facts *f)
{
	const struct tool *t = f->def;
	int64_t asked = rq->limits.lease_ns < MAX_CALLER_LEASE ? rq->limits.lease_ns : MAX_CALLER_LEASE;

	f->cost_known = true;
	if (t && t->has_cost)
		f->money = rq->has_money && rq->money > t->cost ? rq->money : t->cost;
	else if (rq->has_money)
		f->money = rq->money;
	else if (t && t->has_default_cost)
		f->money = t->default_cost;
	else
		f->cost_known = false;
	f->tokens = rq->has_tokens ? rq->tokens : 0;
	f->tokens_known = rq->has_tokens || rq->kind != CALL_LLM;
	f->tool_lease_ns = f->lease_ns = t ? t->lease_ns : DEFAULT_LEASE;
	if (asked > f->lease_ns)
		f->lease_ns = asked; /* else the reservation would end while the body still runs */
}

/* ---- all of it ---- */

int facts_of(const struct policy *pol, const struct request_call *rq, const struct caller *who,
	     const struct resolver *res, struct buf *scratch, struct facts *ret, struct pawl_error *err)
{
	struct facts f = {
		.kind = rq->kind, .session = who->session, .root = who->root, .agent = who->agent, .limits = rq->limits
	};
	struct digests d;
	size_t canon;
	int r;

	assert(who->secret && pol->index);
	buf_reset(scratch);
	if (rq->call.n == 0 || rq->call.n > PAWL_MAX_CALL)
		return pawl_fail_field(err, "call", "a call id has 1 to %d bytes", PAWL_MAX_CALL);
	if (!rq->args || json_kind(rq->args) != JSON_KIND_OBJECT)
		return pawl_fail_field(err, "args", "not an object");
	r = tool_name_fold(rq->tool, f.folded, err);
	if (r < 0)
		return r;
	f.tool = tool_canonical(pol, str_of(f.folded), &f.def);
	r = digests_of(pol, rq, who->secret, f.def, scratch, &d, err);
	if (r < 0)
		return r;
	canon = scratch->n;
	memcpy(f.client, rq->client, sizeof(f.client));
	tokens_of(pol, rq, who, &d, &f);
	amounts_of(rq, &f);
	find_rules(pol, rq, who, res, scratch, &f);
	/* what conditions left behind the arguments goes; that one of them found no room is in the rules' answers */
	scratch->n = canon;
	scratch->failed = false;
	f.canon_args = buf_str(scratch);
	*ret = f;
	if (!f.def)
		ret->tool.p = ret->folded;
	return 0;
}

/* ---- again, from what a decision's entry says of them ---- */

struct told {
	const struct policy *pol;
	const struct entry_decision *d;
	struct facts *f;
};

/* A rule without conditions matches whatever the arguments were; of the others the entry says what they came to. */
static void told_rule(void *arg, uint32_t i)
{
	struct told *t = arg;
	const struct entry_decision *d = t->d;
	const struct rule *r = &t->pol->rules[i];
	bool named = str_eq(d->rules[r->answer], r->id), failed = named && d->rule_failed[r->answer];
	bool holds = (!r->when && !r->unless) || (named && !failed);

	for (size_t s = 0; s < d->n_sticks && !holds; s++)
		holds = r->sticky != STICK_NEVER && str_eq(d->sticks[s].rule, r->id);
	take_rule(t->pol, i, holds ? TRUTH_YES : failed ? TRUTH_FAILED : TRUTH_NO, t->f);
}

void facts_again(const struct policy *pol, const struct entry_decision *d, struct str agent, struct request_call *rq, struct facts *ret)
{
	struct told t = { .pol = pol, .d = d, .f = ret };
	struct index_hits hits;

	*rq = (struct request_call){ .call = d->call, .kind = d->kind, .tool = d->tool, .model = d->model, .has_money = d->cost_known,
				     .has_tokens = d->tokens_known, .money = d->money, .tokens = d->tokens, .limits = d->asked };
	memcpy(rq->client, d->client, sizeof(rq->client));
	*ret = (struct facts){ .kind = d->kind, .session = d->session, .root = d->root, .agent = agent, .limits = d->asked,
			       .call_hash = d->call_hash, .n_paths = d->n_paths };
	ret->tool = tool_canonical(pol, d->tool, &ret->def);
	memcpy(ret->client, d->client, sizeof(ret->client));
	memcpy(ret->key, d->key, sizeof(ret->key));
	memcpy(ret->card, d->card_token, sizeof(ret->card));
	memcpy(ret->same, d->same, sizeof(ret->same));
	if (pol->repeat.on)
		memcpy(ret->repeat, d->repeat, sizeof(ret->repeat));
	memcpy(ret->paths, d->paths, sizeof(ret->paths));
	amounts_of(rq, ret); /* what was to be reserved is never less than what the policy's prices give */
	no_rules(ret);
	hits = name_index_find(pol->index, ret->tool, ret->def, told_rule, &t);
	ret->budgets = hits.budgets;
	ret->breakers = hits.breakers;
}
