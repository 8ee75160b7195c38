/* daemon/cli/why.c - see why.h. The decision's own entry says why; the entries after it say what became of it and of its review. Owns
 * the JSON object it makes; every text of it is escaped on its way out. */
#include "daemon/cli/why.h"

#include "daemon/cli/advice.h"
#include "daemon/cli/lines.h"
#include "daemon/cli/recorded.h"
#include "daemon/cli/replay.h"
#include "daemon/log/entry.h"

#include <getopt.h>
#include <stdio.h>

struct why {
	uint64_t seq, card, ended; /* the decision; its card or 0; the entry that ended it or 0 */
	bool found, allowed;
	struct buf decision, settle, review; /* members of the object, without its braces */
	enum card_mode mode;
};

static void key_text(struct buf *b, const char *key, struct str s)
{
	buf_key(b, key);
	buf_text(b, s);
}

static void key_amount(struct buf *b, const char *key, enum unit unit, int64_t v)
{
	char text[32];

	(void)amount_text(unit, v, text);
	key_text(b, key, str_of(text));
}

static void key_time(struct buf *b, const char *key, int64_t ns)
{
	buf_key(b, key);
	buf_time(b, ns);
}

static void key_id(struct buf *b, const char *key, char letter, uint64_t id)
{
	buf_key(b, key);
	buf_id(b, letter, id);
}

/* ---- the decision ---- */

static void put_reason(struct buf *b, const struct entry_decision *d, const struct reason *why)
{
	buf_key(b, "reason");
	buf_putc(b, '{');
	key_text(b, "code", str_of(reason_name(why->code)));
	if (why->rule.n)
		key_text(b, "rule", why->rule);
	key_text(b, "message", str_of(why->message));
	if (why->has_numbers) {
		key_amount(b, "counter", why->unit, why->counter);
		key_amount(b, "limit", why->unit, why->limit);
		key_text(b, "unit", unit_text(why->unit, d->money_unit));
	}
	if (why->refers)
		key_id(b, "decision", 'd', why->refers);
	buf_putc(b, '}');
}

static void put_would(struct buf *b, const struct entry_decision *d)
{
	buf_key(b, "would");
	buf_putc(b, '{');
	key_text(b, "verdict", str_of(verdict_name(d->would)));
	put_reason(b, d, &d->would_why);
	buf_putc(b, '}');
}

static void put_rules(struct buf *b, const struct entry_decision *d)
{
	bool first = true;

	buf_key(b, "rules");
	buf_putc(b, '[');
	for (enum verdict v = VERDICT_DENY; v >= VERDICT_ALLOW; v--) {
		if (!d->rules[v].n)
			continue;
		buf_puts(b, first ? "{" : ",{");
		first = false;
		key_text(b, "id", d->rules[v]);
		key_text(b, "answer", str_of(verdict_name(v)));
		buf_key(b, "by_failure");
		buf_puts(b, d->rule_failed[v] ? "true}" : "false}");
	}
	buf_putc(b, ']');
}

static void put_draws(struct buf *b, const struct entry_decision *d)
{
	buf_key(b, "budgets");
	buf_putc(b, '[');
	for (size_t i = 0; i < d->n_draws; i++) {
		const struct draw *w = &d->draws[i];

		buf_puts(b, i ? ",{" : "{");
		key_text(b, "budget", w->key.budget);
		key_text(b, "scope", str_of(scope_name(w->key.scope)));
		if (w->key.session)
			key_id(b, "session", 's', w->key.session);
		if (w->key.owner.n)
			key_text(b, "owner", w->key.owner);
		if (w->key.tool.n)
			key_text(b, "tool", w->key.tool);
		key_amount(b, "used", w->unit, w->used);
		key_amount(b, "takes", w->unit, w->amount);
		key_amount(b, "limit", w->unit, w->limit);
		if (w->granted)
			key_amount(b, "granted", w->unit, w->granted);
		key_text(b, "unit", unit_text(w->unit, d->money_unit));
		if (w->window_end)
			key_time(b, "reset_at", w->window_end);
		buf_putc(b, '}');
	}
	buf_putc(b, ']');
}

static void put_decision(struct why *y, const struct entry *e, const struct state *st)
{
	const struct entry_decision *d = &e->decision;
	const struct session_state *who = state_session(st, d->session);
	struct buf *b = &y->decision;

	buf_putc(b, '{'); /* buf_key() looks at it */
	key_id(b, "decision", 'd', e->seq);
	key_text(b, "kind", str_of(entry_kind_name(e->kind)));
	key_time(b, "now", e->now);
	key_text(b, "verdict", str_of(verdict_name(d->answer)));
	if (d->shadow)
		key_text(b, "mode", policy_mode_word(MODE_SHADOW));
	key_text(b, "tool", d->tool);
	key_text(b, "call", d->call);
	key_id(b, "session", 's', d->session);
	if (who)
		key_text(b, "agent", who->agent);
	put_reason(b, d, &d->why);
	if (d->would)
		put_would(b, d);
	put_rules(b, d);
	put_draws(b, d);
	if (d->lease_until)
		key_time(b, "lease_until", d->lease_until);
	key_text(b, "passes", str_of(d->would ? advice_of(d->would_why.code, d->would) : advice_of(d->why.code, d->answer)));
	y->card = d->card ? d->card : d->spends;
	y->allowed = d->answer == VERDICT_ALLOW;
	y->found = true;
}

/* ---- what became of it ---- */

static void put_end(struct why *y, const struct entry *e, const struct call_state *call)
{
	const struct entry_settle *s = NULL;
	struct buf *b = &y->settle;

	if (e->kind == ENTRY_SETTLE)
		s = &e->settle;
	else if (e->kind == ENTRY_LOSS && e->loss.what == LOSS_LATE_SETTLE)
		s = &e->loss.late;
	if (b->n)
		buf_putc(b, ',');
	buf_putc(b, '{');
	key_time(b, "now", e->now);
	if (s) {
		key_text(b, "outcome", str_of(outcome_name(s->outcome)));
		key_amount(b, e->kind == ENTRY_LOSS ? "added" : "charged", UNIT_MONEY, s->charged_money);
		key_text(b, "unit", s->money_unit);
		key_amount(b, "tokens", UNIT_TOKENS, s->charged_tokens);
		if (s->returned)
			key_amount(b, "returned", UNIT_MONEY, s->returned);
	} else {
		key_text(b, "outcome", str_of(outcome_name(call->outcome)));
		key_text(b, "how", e->kind == ENTRY_LOSS ? STR("nobody reported before the lease ran out: charged what it had reserved")
							 : STR("the session ended first: charged what it had reserved"));
	}
	buf_putc(b, '}');
}

static const char *mode_word(enum card_mode m)
{
	static const char *const words[CARD_MODE_COUNT] = { "pending", "resumed", "resumed and used", "skipped", "aborted", "timeout", "closed" };

	return (unsigned)m < CARD_MODE_COUNT ? words[m] : "unknown";
}

/* Written anew at each change: the newest is shown. */
static void put_review(struct why *y, const struct entry *e, const struct card_state *c)
{
	struct buf *b = &y->review;

	buf_reset(b);
	buf_putc(b, '{');
	key_id(b, "review", 'r', c->id);
	key_text(b, "state", str_of(mode_word(c->mode)));
	key_time(b, "since", e->now);
	key_time(b, "opened", c->opened_ns);
	if (c->mode == CARD_PENDING)
		key_time(b, "expires", c->until);
	if (c->operator.n) {
		key_text(b, "operator", c->operator);
		key_text(b, "reason", c->reason);
	}
	if (c->spent_by)
		key_id(b, "used_by", 'd', c->spent_by);
	buf_key(b, "asks");
	buf_putc(b, '[');
	for (size_t i = 0; i < c->n_asks; i++) {
		buf_puts(b, i ? ",{" : "{");
		key_text(b, "code", str_of(reason_name(c->asks[i].code)));
		if (c->asks[i].rule.n)
			key_text(b, "rule", c->asks[i].rule);
		if (c->asks[i].refers)
			key_id(b, "decision", 'd', c->asks[i].refers);
		buf_putc(b, '}');
	}
	buf_puts(b, "]}");
}

static int each(void *arg, const struct entry *e, const struct state *st, struct pawl_error *err)
{
	struct why *y = arg;
	const struct call_state *call;
	const struct card_state *card;

	if (e->seq == y->seq) {
		if (e->kind != ENTRY_DECISION && e->kind != ENTRY_CLAIM)
			return pawl_fail(err, PAWL_E_MALFORMED, "entry %llu is no decision: its kind is %s", (unsigned long long)y->seq,
					 entry_kind_name(e->kind));
		put_decision(y, e, st);
	}
	if (!y->found)
		return 0;
	call = state_decision(st, y->seq);
	if (call && call->settled && call->settled != y->ended) {
		y->ended = call->settled;
		put_end(y, e, call);
	}
	card = y->card ? state_card_by_id(st, y->card) : NULL;
	if (card && (card->mode != y->mode || !y->review.n)) {
		y->mode = card->mode;
		put_review(y, e, card);
	}
	return 0;
}

/* ---- lines ---- */

static void budgets_lines(struct lines *l, const struct json *rows)
{
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *b = json_at(rows, i);

		line_label(l, i ? "" : "budgets");
		(void)line_value(l, "", b, "budget", "");
		(void)line_value(l, " (per ", b, "scope", "");
		(void)line_value(l, " ", b, "session", "");
		(void)line_value(l, " ", b, "owner", "");
		(void)line_value(l, ", ", b, "tool", "");
		(void)line_value(l, "): used ", b, "used", "");
		(void)line_value(l, ", this call ", b, "takes", "");
		(void)line_value(l, ", of ", b, "limit", "");
		(void)line_value(l, " and ", b, "granted", " granted");
		(void)line_value(l, " ", b, "unit", "");
		(void)line_value(l, ", whole again at ", b, "reset_at", "");
		line_end(l);
	}
}

static void review_lines(struct lines *l, const struct json *r)
{
	const struct json *asks = json_get(r, "asks");

	if (!r)
		return;
	line_label(l, "review");
	(void)line_value(l, "", r, "review", "");
	(void)line_value(l, ": ", r, "state", "");
	(void)line_value(l, " by ", r, "operator", "");
	(void)line_value(l, " (", r, "reason", ")");
	(void)line_value(l, ", since ", r, "since", "");
	(void)line_value(l, ", until ", r, "expires", "");
	(void)line_value(l, ", by ", r, "used_by", "");
	line_end(l);
	for (size_t i = 0; i < json_size(asks); i++) {
		line_label(l, i ? "" : "asks");
		(void)line_value(l, "", json_at(asks, i), "code", "");
		(void)line_value(l, " ", json_at(asks, i), "rule", "");
		(void)line_value(l, ", ", json_at(asks, i), "decision", " may have run");
		line_end(l);
	}
}

static void ended_lines(struct lines *l, const struct json *doc)
{
	const struct json *rows = json_get(doc, "settled");

	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *s = json_at(rows, i);

		line_label(l, i ? "" : "settled");
		(void)line_value(l, "", s, "outcome", "");
		if (line_value(l, ", charged ", s, "charged", " ") || line_value(l, ", late, charged another ", s, "added", " "))
			(void)line_value(l, "", s, "unit", "");
		(void)line_value(l, ", tokens ", s, "tokens", "");
		(void)line_value(l, ", returned ", s, "returned", "");
		(void)line_value(l, ": ", s, "how", "");
		(void)line_value(l, ", at ", s, "now", "");
		line_end(l);
	}
	if (rows && json_size(rows) == 0) {
		line_label(l, "settled");
		(void)line_value(l, "not yet; its lease ends at ", doc, "lease_until", "");
		line_end(l);
	}
}

static void reason_line(struct lines *l, const char *label, const struct json *verdict, const struct json *why)
{
	line_label(l, label);
	(void)line_value(l, "", verdict, "verdict", ": ");
	(void)line_value(l, "", why, "code", "");
	(void)line_value(l, ", rule ", why, "rule", "");
	(void)line_value(l, ", ", why, "counter", " of ");
	(void)line_value(l, "", why, "limit", " ");
	(void)line_value(l, "", why, "unit", "");
	(void)line_value(l, ", see ", why, "decision", "");
	if (json_string(json_get(why, "message")).n)
		(void)line_value(l, "\n          ", why, "message", "");
	line_end(l);
}

static void show(struct lines *l, const struct json *doc)
{
	const struct json *would = json_get(doc, "would"), *rules = json_get(doc, "rules");

	line_label(l, "decision");
	(void)line_value(l, "", doc, "decision", ": ");
	(void)line_value(l, "", doc, "verdict", "");
	(void)line_value(l, " (mode ", doc, "mode", ")");
	(void)line_value(l, ", at ", doc, "now", "");
	line_end(l);
	line_label(l, "call");
	(void)line_value(l, "", doc, "tool", "");
	(void)line_value(l, ", id ", doc, "call", "");
	(void)line_value(l, ", session ", doc, "session", "");
	(void)line_value(l, ", agent ", doc, "agent", "");
	line_end(l);
	if (json_get(doc, "args")) {
		line_label(l, "args");
		(void)line_value(l, "", doc, "args", "");
		line_end(l);
	}
	reason_line(l, "reason", NULL, json_get(doc, "reason"));
	if (would)
		reason_line(l, "would", would, json_get(would, "reason"));
	for (size_t i = 0; i < json_size(rules); i++) {
		line_label(l, i ? "" : "rules");
		(void)line_value(l, "", json_at(rules, i), "id", "");
		(void)line_value(l, " (", json_at(rules, i), "answer", ")");
		buf_puts(l->out, json_true(json_get(json_at(rules, i), "by_failure")) ? ": matched because a condition failed" : ": matched");
		line_end(l);
	}
	budgets_lines(l, json_get(doc, "budgets"));
	review_lines(l, json_get(doc, "review"));
	ended_lines(l, doc);
	if (json_string(json_get(doc, "passes")).n) {
		line_label(l, "passes");
		(void)line_value(l, would ? "enforced, with " : "with ", doc, "passes", "");
		line_end(l);
	}
}

/* ---- the verb ---- */

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl why d_N | s_N [--dir DIR] [--json]\n"
		    "Says of one decision what was asked (its arguments too, where the policy let them be recorded), the verdict, the rule, counter\n"
		    "and limit behind it, what it drew from, its review and who answered it, how it was settled, and what would make such a call\n"
		    "pass. Of a session how it went: opened, watched, what was stopped in it and why, ended. Reads the log's files; pawld may be\n"
		    "running.\n"
		    "Signatures are not checked: `pawl log verify`.\n\n"
		    "  --dir DIR   the log's folder, or the folder that `pawl init` made (default: $PAWL_DIR,\n"
		    "              /var/lib/pawl for root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --json      one JSON object\n"
		    "Exit status: 0 shown, 1 no such decision or session, or no readable log, 2 usage.\n",
		    out);
	return status;
}

/* As text: it may have been cut, and was chosen by an agent. */
static void put_recorded(struct buf *doc, const char *dir, uint64_t seq)
{
	struct buf args = BUF_MAX(PAWL_MAX_VALUE);
	struct recorded rc;

	recorded_open(&rc, "why", dir);
	if (recorded_get(&rc, seq, &args))
		key_text(doc, "args", buf_str(&args));
	doc->failed |= args.failed;
	recorded_close(&rc);
	buf_done(&args);
}

static int answer(struct why *y, const char *dir, bool json)
{
	struct buf doc = BUF_MAX(4u << 20);
	struct pawl_error err = { .code = PAWL_OK };
	int r = replay_log("why", dir, each, y, NULL, &err);

	if (r == 0 && !y->found)
		r = pawl_fail(&err, PAWL_E_MALFORMED, "there is no decision d_%llu in this log", (unsigned long long)y->seq);
	if (r < 0)
		return lines_fail("why", &err);
	buf_str_add(&doc, buf_str(&y->decision));
	put_recorded(&doc, dir, y->seq);
	if (y->review.n) {
		buf_key(&doc, "review");
		buf_str_add(&doc, buf_str(&y->review));
	}
	if (y->allowed) {
		buf_key(&doc, "settled");
		buf_putc(&doc, '[');
		buf_str_add(&doc, buf_str(&y->settle));
		buf_putc(&doc, ']');
	}
	buf_putc(&doc, '}');
	doc.failed |= y->decision.failed || y->settle.failed || y->review.failed;
	r = lines_answer("why", &doc, json, show);
	buf_done(&doc);
	return r;
}

int cli_why(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "dir", required_argument, NULL, 'd' }, { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
	};
	struct why y = { .decision = BUF_MAX(1u << 20), .settle = BUF_MAX(1u << 16), .review = BUF_MAX(1u << 16) };
	const char *dir = NULL;
	bool json = false;
	uint64_t session;
	int c, status;

	optind = 0;
	while ((c = getopt_long(argc, argv, "d:h", longs, NULL)) != -1) {
		if (c == 'd')
			dir = optarg;
		else if (c == 'j')
			json = true;
		else
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	}
	if (optind + 1 == argc && id_parse(str_of(argv[optind]), 's', &session) == 0)
		return why_session(dir, session, json);
	if (optind + 1 == argc && id_parse(str_of(argv[optind]), 'r', &y.seq) == 0) {
		(void)fprintf(stderr, "pawl why: %s is the card of a review: `pawl review show %s`, or `pawl why d_%llu` for the call that asks\n",
			      argv[optind], argv[optind], (unsigned long long)y.seq);
		return 2;
	}
	if (optind + 1 != argc || id_parse(str_of(argv[optind]), 'd', &y.seq) < 0)
		return usage(stderr, 2);
	status = answer(&y, dir, json);
	buf_done(&y.decision);
	buf_done(&y.settle);
	buf_done(&y.review);
	return status;
}
