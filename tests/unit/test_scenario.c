/* tests/unit/test_scenario.c - the files of tests/scenario/ on the library: policy, facts, judge and state under a clock that the script moves.
 * What each leaves is judged again. The same files run over the wire in tests/scenario/test_scenarios.py. */
#include "tests/support/scenario_world.h"

/* ---- settle ---- */

/* As the spine does with keyed digests: equal text, equal token; an absent one has none. */
static bool token_of(const char *text, uint8_t *out)
{
	uint64_t h = UINT64_C(1469598103934665603);

	for (const char *p = text; p && *p; p++)
		h = (h ^ (uint8_t)*p) * UINT64_C(1099511628211);
	memset(out, 0, 16);
	if (text)
		memcpy(out, &h, sizeof(h));
	return text != NULL;
}

static void settle_one(struct world *w, const struct ynode *s, uint64_t seq)
{
	static struct charge charges[PAWL_MAX_LEDGERS];
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	static const char *const keys[] = { "outcome", "result", "error", "money" };
	const struct call_state *call = state_decision(w->st, seq);
	struct report rep = { .outcome = OUTCOME_OK, .has_money = text_of(s, "money") != NULL };
	struct entry_settle body = { .session = call ? call->session : 0, .decision = seq, .duration_ns = -1, .money_unit = w->pol->currency };
	struct entry e = blank(w, call && call->settled ? ENTRY_LOSS : ENTRY_SETTLE);
	struct buf whole = BUF_MAX(4096);
	bool again, same;

	assert_non_null(call);
	for (enum outcome o = OUTCOME_OK; o < OUTCOME_COUNT; o++)
		rep.outcome = is(s, "outcome", outcome_name(o)) ? o : rep.outcome;
	for (size_t i = 0; i < PAWL_LEN(keys); i++)
		buf_printf(&whole, "%s=%s;", keys[i], text_of(s, keys[i]) ? text_of(s, keys[i]) : "");
	buf_putc(&whole, '\0');
	(void)token_of(whole.p, body.same);
	buf_done(&whole);
	again = call->reported;
	same = again && memcmp(&call->settle_same, body.same, sizeof(call->settle_same)) == 0;
	if (refused(w, s, again && !same ? "replay_conflict" : "") || same)
		return;
	if (rep.has_money)
		assert_int_equal(money_parse(str_of(text_of(s, "money")), MONEY_UP, &rep.money, NULL), 0);
	assert_int_equal(settle_charges(w->pol, w->st, call, &rep, w->now, charges, rows, &body, NULL), 0);
	body.outcome = rep.outcome;
	body.has_money = rep.has_money;
	body.money = rep.money;
	body.has_result = body.has_result_token = token_of(text_of(s, "result"), body.result_token);
	body.has_error = body.has_error_token = token_of(text_of(s, "error"), body.error_token);
	body.error_kind = body.has_error ? STR("e") : STR_NONE;
	if (call->settled)
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = call->session, .decision = seq, .late = body };
	else
		e.settle = body;
	put(w, &e);
}

static void do_settle(struct world *w, const struct ynode *s)
{
	write_due(w);
	if (!is(s, "settle", "all")) {
		uint64_t seq = call_id(w, text_of(s, "settle"));
		size_t kept = 0;

		settle_one(w, s, seq);
		for (size_t i = 0; i < w->n_open; i++)
			if (w->open[i] != seq)
				w->open[kept++] = w->open[i];
		w->n_open = kept;
		return;
	}
	while (w->n_open)
		settle_one(w, s, w->open[--w->n_open]);
}

/* ---- operators ---- */

static void do_resolve(struct world *w, const struct ynode *s, enum resolve_action action)
{
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	const struct card_state *card = card_named(w, s, "review");
	const struct session_state *who = state_session(w->st, card->session);
	struct entry e = blank(w, ENTRY_RESOLVE);
	struct entry_resolve *r = &e.resolve;
	const char *no = card->mode != CARD_PENDING ? "replay_conflict" : who->end != SESSION_LIVE ? "session_closed" : "";

	*r = (struct entry_resolve){ .session = card->session, .card = card->id, .action = action, .operator = STR("ann"), .key = KEY,
				     .reason = STR("asked"), .money_unit = w->pol->currency };
	if (!no[0] && action == RESOLVE_RESUME && review_grants(w->pol, w->st, card, w->now, r->grants, &r->n_grants, NULL) < 0)
		no = "budget";
	if (refused(w, s, no))
		return;
	if (action == RESOLVE_ABORT) {
		r->ends = is(s, "tree", "true") ? who->root : who->id;
		r->hold_until = w->now + w->pol->reviews.abort_hold_ns;
		r->breakers = rows;
		r->n_breakers = breaker_force(w->pol, w->st, who, card->tool, w->now, rows);
	}
	put(w, &e);
}

static void do_end(struct world *w, const struct ynode *s)
{
	const struct session_state *who = state_session(w->st, session_id(w, text_of(s, "session")));
	struct entry e = blank(w, ENTRY_SESSION);

	if (is(s, "tree", "true"))
		who = state_session(w->st, who->root);
	if (refused(w, s, who->end != SESSION_LIVE ? "session_closed" : ""))
		return;
	e.session = (struct entry_session){ .action = SESSION_ABORT, .session = who->id, .operator = STR("ann"), .reason = STR("asked"),
					    .hold_until = w->now + w->pol->reviews.abort_hold_ns };
	put(w, &e);
}

static const struct breaker_row *breaker_named(const struct world *w, const char *name, bool would)
{
	struct breaker_row key = { .id = str_of(name), .scope = SCOPE_COUNT, .would = would };

	return state_breaker(w->st, &key);
}

static void do_reset(struct world *w, const struct ynode *s)
{
	struct breaker_row key = { .id = str_of(text_of(s, "breaker")), .scope = SCOPE_COUNT };
	struct entry e = blank(w, ENTRY_BREAKER);

	e.breaker = (struct entry_breaker){ .operator = STR("ann"), .key = KEY, .reason = STR("asked") };
	if (!refused(w, s, breaker_reset(w->st, &key, w->now, &e.breaker.row) ? "" : "malformed"))
		put(w, &e);
}

static void do_operator(struct world *w, const struct ynode *s)
{
	write_due(w);
	if (is(s, "operator", "end"))
		do_end(w, s);
	else if (is(s, "operator", "reset"))
		do_reset(w, s);
	else
		do_resolve(w, s, is(s, "operator", "resume") ? RESOLVE_RESUME : is(s, "operator", "skip") ? RESOLVE_SKIP : RESOLVE_ABORT);
}

/* ---- reload, and what is expected ---- */

/* To the second judge, once. */
static void give(struct world *w, const char *key)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (rejudging_policy(&w->again, load(w, key, &err), key, &err) < 0 && err.code != PAWL_E_USAGE)
		FAIL(w, "%s", err.msg);
}

static void do_restart(struct world *w, const struct ynode *s)
{
	struct pawl_error err = { .code = PAWL_OK };

	restart(w);
	if (!text_of(s, "policy"))
		return;
	policy_free(w->pol);
	w->pol = load(w, text_of(s, "policy"), &err);
	if (!w->pol)
		FAIL(w, "%s", err.msg);
	give(w, text_of(s, "policy"));
	write_due(w);
	put_start(w);
}

static void do_reload(struct world *w, const struct ynode *s)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct policy *pol = load(w, text_of(s, "reload"), &err), *old;
	bool want = !is(s, "loaded", "false");

	if (want != (pol != NULL))
		FAIL(w, "loaded: %d: %s", pol != NULL, err.msg);
	write_due(w);
	if (!pol) {
		put_policy(w, NULL, err.msg);
		return;
	}
	give(w, text_of(s, "reload"));
	old = w->pol;
	w->pol = pol;
	put_policy(w, old, "");
	policy_free(old);
}

static size_t waiting(const struct world *w, uint64_t session)
{
	const struct card_state *card;
	size_t n = 0;

	for (uint64_t after = 0; (card = state_card_after(w->st, session, after)); after = card->id)
		n++;
	return n;
}

/* What is left, or with over how much more than the limit is used; one of them is 0. */
static void check_left(const struct world *w, const struct ynode *s)
{
	uint64_t session = w->sessions[w->at].seq;
	int64_t left;

	for (size_t i = 0; i < w->pol->n_budgets; i++) {
		const struct budget *b = &w->pol->budgets[i];
		struct ledger_key key = { .budget = b->id, .scope = b->scope, .unit = b->unit };
		struct ledger_state led;

		if (!is(s, "budget", b->id.p))
			continue;
		key.session = b->scope == SCOPE_SESSION ? state_session(w->st, session)->root : 0;
		key.owner = b->scope == SCOPE_AGENT ? STR("local") : STR_NONE;
		led = state_ledger(w->st, &key, w->now);
		left = b->limit + led.granted - led.spent - led.reserved;
		left = is(s, "expect", "over") ? -left : left;
		check_amount(w, text_of(s, "budget"), text_of(s, "is"), b->unit, left > 0 ? left : 0);
		return;
	}
	FAIL(w, "no budget %s", text_of(s, "budget"));
}

static struct str denied_by(const struct world *w, const struct ynode *s)
{
	struct stick_fact k;
	uint32_t at = 0;

	while (state_denial_next(w->st, state_session(w->st, w->sessions[w->at].seq), &at, &k))
		if (str_is(k.tool, text_of(s, "tool")) && k.would == is(s, "would", "true"))
			return k.rule;
	return STR_NONE;
}

static const char *state_word(const struct world *w, const struct ynode *s)
{
	static const char *const cards[] = { "pending", "resumed", "spent", "skipped", "aborted", "timeout", "closed" };
	static const char *const ends[] = { "live", "closed", "stale", "aborted" };
	const struct breaker_row *row;

	if (is(s, "expect", "card"))
		return cards[card_named(w, s, "review")->mode];
	if (is(s, "expect", "session"))
		return ends[state_session(w->st, session_id(w, text_of(s, "session")))->end];
	row = breaker_named(w, text_of(s, "breaker"), is(s, "would", "true"));
	return row ? breaker_mode_name(row->mode) : "closed";
}

static void do_expect(struct world *w, const struct ynode *s)
{
	uint64_t session = w->sessions[w->at].seq;
	int n = number_of(s, "n", 0);

	write_due(w);
	if (is(s, "expect", "entries")) {
		for (int k = ENTRY_NONE + 1; k < ENTRY_KIND_COUNT; k++)
			if (is(s, "kind", entry_kind_name((enum entry_kind)k)) && w->kinds[k] != (size_t)n)
				FAIL(w, "%zu entries", w->kinds[k]);
	} else if (is(s, "expect", "mode")) {
		if (!str_is(policy_mode_word(state_mode(w->st)), text_of(s, "is")))
			FAIL(w, "mode %s", policy_mode_word(state_mode(w->st)).p);
	} else if (is(s, "expect", "waiting")) {
		if (waiting(w, session) != (size_t)n || state_session(w->st, session)->pending_cards != (uint32_t)n)
			FAIL(w, "%zu wait", waiting(w, session));
	} else if (is(s, "expect", "denied")) {
		struct str by = denied_by(w, s);

		if (!str_is(by, text_of(s, "by") ? text_of(s, "by") : ""))
			FAIL(w, "denied by \"%.*s\"", STR_ARG(by));
	} else if (is(s, "expect", "left") || is(s, "expect", "over")) {
		check_left(w, s);
	} else if (!is(s, "state", state_word(w, s))) {
		FAIL(w, "%s", state_word(w, s));
	}
}

/* ---- all of it ---- */

static int64_t span_of(const char *text)
{
	return strtol(text, NULL, 10) * NS_PER_SEC; /* whole seconds alone: real ones pass over the wire */
}

static void do_step(struct world *w, const struct ynode *s)
{
	const char *op = s->first->text.p;

	if (strcmp(op, "open") == 0)
		do_open(w, s);
	else if (strcmp(op, "use") == 0)
		do_use(w, text_of(s, op));
	else if (strcmp(op, "close") == 0)
		do_close(w, s);
	else if (strcmp(op, "ask") == 0 || strcmp(op, "claim") == 0)
		do_ask(w, s);
	else if (strcmp(op, "settle") == 0)
		do_settle(w, s);
	else if (strcmp(op, "pass") == 0)
		w->now += span_of(text_of(s, op));
	else if (strcmp(op, "operator") == 0)
		do_operator(w, s);
	else if (strcmp(op, "restart") == 0)
		do_restart(w, s);
	else if (strcmp(op, "reload") == 0)
		do_reload(w, s);
	else if (strcmp(op, "expect") == 0)
		do_expect(w, s);
	else if (strcmp(op, "agent") != 0) /* the library has no doors */
		FAIL(w, "no such step: %s", op);
}

/* P5: every answer comes out of its entry, the state and the policy once more, byte for byte. */
static void judged_again(const struct world *w)
{
	const struct rejudging *a = &w->again;

	if (a->differ || a->skipped || a->equal == 0 || a->equal + a->given != w->n_bodies)
		FAIL(w, "judged again: %llu equal, %llu differ, %llu skipped: %.*s", (unsigned long long)a->equal, (unsigned long long)a->differ,
		     (unsigned long long)a->skipped, STR_ARG(buf_str(&a->shown)));
}

static void run_file(const char *path, bool rereading)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct world w = { .file = path, .now = 1000000 * NS_PER_SEC, .scratch = BUF_MAX(4 << 20) };
	struct scenario sc;
	const struct ynode *steps;

	scenario_read(path, &sc);
	w.root = sc.root;
	w.pol = load(&w, "policy", &err);
	if (!w.pol)
		fail_msg("%s: %s", path, err.msg);
	assert_int_equal(state_new(&w.st, NULL), 0);
	assert_int_equal(rejudging_init(&w.again, NULL), 0);
	give(&w, "policy");
	put_start(&w);
	steps = node_of(sc.root, "steps");
	assert_non_null(steps);
	assert_true(steps->n > 1);
	for (const struct ynode *s = steps->first; s; s = s->next) {
		w.step++;
		do_step(&w, s);
		if (rereading)
			reread(&w.st);
	}
	restart(&w); /* whatever happened: the log alone says it all */
	judged_again(&w);
	world_done(&w);
	scenario_done(&sc);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void run_all(bool rereading)
{
	char path[512], *names[256];
	const struct dirent *e;
	DIR *d = opendir("tests/scenario");
	size_t n = 0;

	if (!d)
		fail_msg("run this where tests/scenario is");
	while ((e = readdir(d)) && n < PAWL_LEN(names))
		if (strlen(e->d_name) > 5 && strcmp(e->d_name + strlen(e->d_name) - 5, ".yaml") == 0)
			names[n++] = strdup(e->d_name);
	(void)closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "tests/scenario/%s", names[i]);
		run_file(path, rereading);
		free(names[i]);
	}
	assert_true(n >= 30); /* a folder that lost its files must not pass */
}

static void every_scenario_holds_on_the_library(void **state)
{
	(void)state;
	run_all(false);
}

/* After each step the state is written as bytes, and the rest runs on what was read. */
static void every_scenario_holds_on_a_state_that_was_read(void **state)
{
	(void)state;
	run_all(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_scenario_holds_on_the_library),
		cmocka_unit_test(every_scenario_holds_on_a_state_that_was_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
