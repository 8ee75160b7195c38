/* daemon/cli/explain.c - see explain.h. Judges with the daemon's own laws, on a state that holds one fresh session. The JSON object is
 * made first, the lines are made from it, so that both say the same. Owns the state and the request for the length of a call. */
#include "daemon/cli/explain.h"

#include "daemon/cli/advice.h"
#include "daemon/door/wire.h"
#include "daemon/log/entry.h"
#include "pawl/state.h"
#include "policy/canon.h"
#include "policy/condition.h"
#include "policy/money.h"
#include "policy/under.h"

#include <stdio.h>
#include <stdlib.h>

#define SESSION 1
#define ZEROS_16 "0000000000000000"
#define ZEROS_64 ZEROS_16 ZEROS_16 ZEROS_16 ZEROS_16

/* ---- the request: two messages of the wire, so that what is refused there is refused here ---- */

struct asked {
	struct json *doc;
	struct buf call_text, open_text;
	struct request call, open;
};

static bool is_open_field(struct str key)
{
	return str_is(key, "agent") || str_is(key, "labels") || str_is(key, "root");
}

static bool is_call_field(struct str key)
{
	static const char *const names[] = { "tool", "args", "kind", "model", "estimate", "limits" };

	for (size_t i = 0; i < PAWL_LEN(names); i++)
		if (str_is(key, names[i]))
			return true;
	return false;
}

static int split(struct asked *a, struct pawl_error *err)
{
	char name[96];

	buf_puts(&a->call_text, "{\"v\":1,\"op\":\"decide\",\"session\":\"s_1\",\"token\":\"" ZEROS_64 "\",\"client\":\"" ZEROS_16 ZEROS_16
				"\",\"call\":\"explain\"");
	buf_puts(&a->open_text, "{\"v\":1,\"op\":\"session.open\"");
	for (void *it = json_iter(a->doc); it; it = json_iter_next(a->doc, it)) {
		struct str key = json_iter_key(it);
		struct buf *to = is_open_field(key) ? &a->open_text : &a->call_text;

		if (to == &a->call_text && !is_call_field(key)) {
			(void)snprintf(name, sizeof(name), "%.*s", key.n > 64 ? 64 : (int)key.n, key.p);
			return pawl_fail_field(err, name, "unknown field; a request has tool, args, kind, model, estimate, limits, agent, labels, root");
		}
		buf_member(to, ',', key);
		canon_json(json_iter_value(it), NULL, 0, to);
	}
	buf_puts(&a->call_text, json_get(a->doc, "args") ? "}" : ",\"args\":{}}");
	buf_puts(&a->open_text, json_get(a->doc, "agent") ? "}" : ",\"agent\":\"local\"}");
	return buf_ok(&a->call_text) && buf_ok(&a->open_text) ? 0 : pawl_fail(err, PAWL_E_LIMIT, "the request is too large");
}

static int read_request(struct asked *a, struct str text, struct str currency, struct pawl_error *err)
{
	enum wire_op op;
	int r = json_parse(text, PAWL_MAX_DEPTH, &a->doc, err);

	if (r == 0 && json_kind(a->doc) != JSON_KIND_OBJECT)
		r = pawl_fail(err, PAWL_E_MALFORMED, "a request is a JSON object");
	if (r == 0)
		r = split(a, err);
	if (r == 0)
		r = wire_parse(buf_str(&a->call_text), DOOR_AGENT, currency, &a->call, &op, err);
	if (r == 0)
		r = wire_parse(buf_str(&a->open_text), DOOR_AGENT, currency, &a->open, &op, err);
	return r;
}

static void asked_done(struct asked *a)
{
	request_done(&a->open);
	request_done(&a->call);
	buf_done(&a->open_text);
	buf_done(&a->call_text);
	json_free(a->doc);
}

/* ---- a state in which one session has just opened. It runs under watch, as the one who asks about a call will see to: else a policy that requires
 * that would say nothing else of any call ---- */

static int fresh_state(const struct asked *a, enum policy_mode mode, int64_t now, struct state **ret, struct pawl_error *err)
{
	struct entry rows[3] = {
		{ .kind = ENTRY_START, .now = now, .wall = now, .start = { .judge = PAWL_JUDGE_VERSION, .mode = policy_mode_word(mode) } },
		{ .kind = ENTRY_SESSION, .seq = SESSION, .now = now, .wall = now,
		  .session = { .action = SESSION_OPEN, .session = SESSION, .root = SESSION, .agent = a->open.open.agent,
			       .root_dir = a->open.open.root, .labels_text = STR("{}"), .lease_ns = 3600 * NS_PER_SEC } },
		{ .kind = ENTRY_WATCH, .seq = SESSION + 1, .now = now, .wall = now, .watch = { .action = WATCHED_ATTACH, .session = SESSION, .pid = 1 } },
	};
	struct state *st = NULL;
	int r = state_new(&st, err);

	for (size_t i = 0; i < PAWL_LEN(rows) && r == 0; i++) {
		r = state_room(st, &rows[i], err);
		if (r == 0)
			state_apply(st, &rows[i]);
	}
	if (r < 0)
		state_free(st);
	else
		*ret = st;
	return r;
}

/* ---- JSON: rules and their conditions ---- */

struct telling {
	const struct policy *pol;
	const struct facts *f;
	const struct judgement *j;
	struct subjects subjects;
	struct buf *out;
	bool room; /* false: a condition could not be evaluated for want of memory */
};

/* What the laws said, which in shadow mode is not the answer. */
static enum verdict judged(const struct telling *t)
{
	return t->j->would ? t->j->would : t->j->answer;
}

static const struct reason *judged_why(const struct telling *t)
{
	return t->j->would ? &t->j->would_why : &t->j->why;
}

static void key_text(struct buf *b, const char *key, struct str s)
{
	buf_key(b, key);
	buf_text(b, s);
}

static void key_num(struct buf *b, const char *key, int64_t v)
{
	buf_key(b, key);
	buf_i64(b, v);
}

/* Of a list whose length is not known beforehand. A buffer that failed has no last byte. */
static void next_row(struct buf *b)
{
	bool first = b->n > 0 && b->p[b->n - 1] == '[';

	buf_puts(b, first ? "{" : ",{");
}

static void scalar_text(struct buf *b, const struct scalar *v)
{
	char number[MONEY_TEXT];

	switch (v->kind) {
	case SCALAR_TEXT:
		buf_putc(b, '"');
		buf_str_add(b, v->text);
		buf_putc(b, '"');
		return;
	case SCALAR_BOOL:
		buf_puts(b, v->truth ? "true" : "false");
		return;
	case SCALAR_NUMBER:
		break;
	}
	if (v->number > INT64_MAX || v->number < -INT64_MAX) {
		buf_puts(b, "a number beyond 64 bits");
		return;
	}
	(void)money_text((int64_t)v->number, number);
	buf_puts(b, number);
}

/* "args.path under workspace/", as near to the policy's own words as it can be said. */
static void test_words(struct buf *b, const struct cond_field *f, const struct cond_test *t)
{
	static const char *const words[] = { [COND_IS] = "is", [COND_IN] = "in", [COND_NOT] = "not", [COND_GLOB] = "glob", [COND_REGEX] = "regex",
					     [COND_OVER] = "over", [COND_BELOW] = "below", [COND_BYTES_OVER] = "bytes over",
					     [COND_BYTES_BELOW] = "bytes below", [COND_UNDER] = "under" };
	struct scalar bound = { .kind = SCALAR_NUMBER, .number = t->bound };

	buf_str_add(b, f->name);
	buf_printf(b, " %s", words[t->op]);
	switch (t->op) {
	case COND_IS:
	case COND_IN:
	case COND_NOT:
		for (size_t i = 0; i < t->n_values; i++) {
			buf_puts(b, i ? ", " : " ");
			scalar_text(b, &t->values[i]);
		}
		return;
	case COND_GLOB:
		buf_putc(b, ' ');
		buf_str_add(b, t->glob.text);
		return;
	case COND_UNDER:
		buf_putc(b, ' ');
		buf_str_add(b, t->dir);
		return;
	case COND_OVER:
	case COND_BELOW:
		buf_putc(b, ' ');
		scalar_text(b, &bound);
		return;
	case COND_BYTES_OVER:
	case COND_BYTES_BELOW:
		buf_printf(b, " %lld", (long long)t->bytes);
		return;
	case COND_REGEX: /* its text is not kept */
		return;
	}
}

static const char *truth_word(enum truth t)
{
	return t == TRUTH_YES ? "yes" : t == TRUTH_NO ? "no" : "failed";
}

/* Each test alone, as the laws would see it. */
static void tell_condition(struct telling *t, const char *key, const struct condition *c)
{
	struct buf words = BUF_MAX(8192);

	if (!c)
		return;
	buf_key(t->out, key);
	buf_putc(t->out, '[');
	for (size_t i = 0; i < c->n_fields; i++)
		for (size_t k = 0; k < c->fields[i].n_tests; k++) {
			struct cond_field one = c->fields[i];
			struct condition alone = { &one, 1 };

			one.tests += k;
			one.n_tests = 1;
			buf_reset(&words);
			test_words(&words, &one, one.tests);
			buf_puts(t->out, i || k ? ",{" : "{");
			key_text(t->out, "test", buf_str(&words));
			key_text(t->out, "result", str_of(truth_word(condition_eval(&alone, &t->subjects))));
			buf_putc(t->out, '}');
		}
	buf_putc(t->out, ']');
	t->room = t->room && buf_ok(&words) && buf_ok(t->subjects.scratch);
	buf_done(&words);
}

/* As policy/facts.c has it: a failure goes to the stricter side. */
static const char *rule_result(struct telling *t, const struct rule *r)
{
	enum truth when = r->when ? condition_eval(r->when, &t->subjects) : TRUTH_YES;
	enum truth unless = r->unless ? condition_eval(r->unless, &t->subjects) : TRUTH_NO;

	if (when == TRUTH_NO || unless == TRUTH_YES)
		return "no";
	if (when == TRUTH_YES && unless == TRUTH_NO)
		return "matched";
	return r->answer == VERDICT_ALLOW ? "no: a condition failed" : "matched by failure";
}

static void tell_rule(void *arg, uint32_t i)
{
	struct telling *t = arg;
	const struct rule *r = &t->pol->rules[i];
	bool named = t->f->hit[r->answer].rule == (int32_t)i && r->answer == judged(t) && str_eq(judged_why(t)->rule, r->id);

	next_row(t->out);
	key_text(t->out, "id", r->id);
	key_text(t->out, "answer", str_of(verdict_name(r->answer)));
	key_num(t->out, "line", r->line);
	key_text(t->out, "result", str_of(rule_result(t, r)));
	buf_key(t->out, "decides");
	buf_puts(t->out, named ? "true" : "false");
	if (r->sticky != STICK_NEVER)
		key_text(t->out, "sticks", str_of(stick_name(r->sticky)));
	tell_condition(t, "when", r->when);
	tell_condition(t, "unless", r->unless);
	buf_putc(t->out, '}');
}

/* ---- JSON: numbers, loops, breakers ---- */

static void key_amount(const struct telling *t, const char *key, enum unit unit, int64_t v)
{
	char text[32];

	(void)amount_text(unit, v, text);
	buf_key(t->out, key);
	buf_printf(t->out, "\"%s\"", text);
}

static void tell_draws(const struct telling *t)
{
	buf_key(t->out, "budgets");
	buf_putc(t->out, '[');
	for (size_t i = 0; i < t->j->n_draws; i++) {
		const struct draw *d = &t->j->draws[i];
		bool clock = d->unit == UNIT_TIME;

		buf_puts(t->out, i ? ",{" : "{");
		key_text(t->out, "budget", d->key.budget);
		key_text(t->out, "scope", str_of(scope_name(d->key.scope)));
		if (d->key.tool.n)
			key_text(t->out, "tool", d->key.tool);
		if (!clock) {
			buf_key(t->out, "takes");
			if ((d->unit == UNIT_MONEY && !t->f->cost_known) || (d->unit == UNIT_TOKENS && !t->f->tokens_known))
				buf_puts(t->out, "null"); /* not known: that is what the law says no to */
			else {
				char text[32];

				(void)amount_text(d->unit, d->amount, text);
				buf_printf(t->out, "\"%s\"", text);
			}
		}
		key_amount(t, "limit", d->unit, d->limit);
		key_text(t->out, "unit", unit_text(d->unit, t->pol->currency));
		if (d->window_end) {
			buf_key(t->out, "reset_at");
			buf_time(t->out, d->window_end);
		}
		buf_putc(t->out, '}');
	}
	buf_putc(t->out, ']');
}

static void tell_loop(const struct telling *t, const char *rule, int64_t limit, int64_t window, enum verdict then)
{
	next_row(t->out);
	key_text(t->out, "rule", str_of(rule));
	key_num(t->out, "limit", limit);
	if (window)
		key_num(t->out, "window", window);
	key_text(t->out, "then", str_of(verdict_name(then)));
	buf_putc(t->out, '}');
}

static void tell_loops(const struct telling *t)
{
	const struct policy *p = t->pol;
	const struct loop_rule *rows[] = { &p->cycle, &p->errors, &p->stuck };
	static const char *const names[] = { "cycle", "errors", "stuck" };

	buf_key(t->out, "loops");
	buf_putc(t->out, '[');
	if (p->repeat.on)
		tell_loop(t, "repeat", p->repeat.limit, p->repeat.window, p->repeat.then);
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (rows[i]->on)
			tell_loop(t, names[i], rows[i]->limit, rows[i]->window, rows[i]->then);
	if (t->j->guard_repeat)
		tell_loop(t, "@guard", t->j->guard_repeat, 0, VERDICT_DENY);
	buf_putc(t->out, ']');
}

static void tell_breakers(const struct telling *t)
{
	char span[MONEY_TEXT];
	bool first = true;

	buf_key(t->out, "breakers");
	buf_putc(t->out, '[');
	for (size_t i = 0; i < t->pol->n_breakers && i < 32; i++) {
		const struct breaker *b = &t->pol->breakers[i];

		if (!(t->f->breakers >> i & 1))
			continue;
		buf_puts(t->out, first ? "{" : ",{");
		first = false;
		key_text(t->out, "breaker", b->id);
		if (b->failures)
			key_num(t->out, "failures", b->failures);
		if (b->denials)
			key_num(t->out, "denials", b->denials);
		if (b->breaches)
			key_num(t->out, "breaches", b->breaches);
		(void)span_text(b->within_ns, span);
		key_text(t->out, "within", str_of(span));
		(void)span_text(b->cool_down_ns, span);
		key_text(t->out, b->sticky ? "until" : "cool_down", b->sticky ? STR("an operator resets it") : str_of(span));
		buf_putc(t->out, '}');
	}
	buf_putc(t->out, ']');
}

static void tell_reason(const struct telling *t, enum verdict answer, const struct reason *why)
{
	key_text(t->out, "verdict", str_of(verdict_name(answer)));
	buf_key(t->out, "reason");
	buf_putc(t->out, '{');
	key_text(t->out, "code", str_of(reason_name(why->code)));
	if (why->rule.n)
		key_text(t->out, "rule", why->rule);
	key_text(t->out, "message", str_of(why->message));
	if (why->has_numbers) {
		key_amount(t, "counter", why->unit, why->counter);
		key_amount(t, "limit", why->unit, why->limit);
		key_text(t->out, "unit", unit_text(why->unit, t->pol->currency));
	}
	buf_putc(t->out, '}');
}

static void tell(struct telling *t)
{
	buf_putc(t->out, '{');
	key_text(t->out, "policy", t->pol->name);
	key_text(t->out, "mode", policy_mode_word(t->pol->mode));
	key_text(t->out, "tool", t->f->tool);
	buf_key(t->out, "listed");
	buf_puts(t->out, t->f->def ? "true" : "false");
	tell_reason(t, t->j->answer, &t->j->why);
	if (t->j->would) {
		buf_key(t->out, "would");
		buf_putc(t->out, '{');
		tell_reason(t, t->j->would, &t->j->would_why);
		buf_putc(t->out, '}');
	}
	buf_key(t->out, "rules");
	buf_putc(t->out, '[');
	(void)name_index_find(t->pol->index, t->f->tool, t->f->def, tell_rule, t);
	buf_putc(t->out, ']');
	tell_draws(t);
	tell_loops(t);
	tell_breakers(t);
	key_text(t->out, "default", str_of(verdict_name(t->pol->fallback)));
	key_text(t->out, "passes", str_of(advice_of(judged_why(t)->code, judged(t))));
	buf_putc(t->out, '}');
}

int explain_json(const struct policy *pol, struct str request, const struct resolver *res, int64_t now, struct buf *out,
		 enum verdict *ret_answer, struct pawl_error *err)
{
	struct asked a = { .call_text = BUF_MAX(PAWL_MAX_MESSAGE), .open_text = BUF_MAX(PAWL_MAX_MESSAGE) };
	static const uint8_t secret[32]; /* tokens are compared with nothing here */
	struct buf scratch = BUF_MAX(4u << 20), told = BUF_MAX(4u << 20);
	struct judgement *j = malloc(sizeof(*j));
	struct under_memo memo = { .n = 0 };
	struct fact_path paths[SUBJECT_PATHS];
	struct state *st = NULL;
	struct facts f;
	size_t n_paths = 0;
	int r = j ? read_request(&a, request, pol->currency, err) : pawl_fail(err, PAWL_E_NOMEM, "out of memory");

	if (r == 0)
		r = fresh_state(&a, pol->mode, now, &st, err);
	if (r == 0) {
		const struct caller who = { .session = SESSION, .root = SESSION, .agent = a.open.open.agent, .labels = a.open.open.labels,
					    .root_dir = a.open.open.root, .secret = secret };

		r = facts_of(pol, &a.call.call, &who, res, &scratch, &f, err);
		if (r == 0) {
			struct telling t = { .pol = pol, .f = &f, .j = j, .out = out, .room = true,
					     .subjects = { .rq = &a.call.call, .who = &who, .tool = f.tool, .res = res, .paths = paths,
							   .n_paths = &n_paths, .scratch = &told, .memo = &memo } };

			judge(pol, st, &f, now, j);
			tell(&t);
			*ret_answer = j->answer;
			if (!buf_ok(out) || !t.room)
				r = pawl_fail(err, PAWL_E_LIMIT, "the explanation is too long");
		}
	}
	state_free(st);
	asked_done(&a);
	buf_done(&scratch);
	buf_done(&told);
	free(j);
	return r;
}
