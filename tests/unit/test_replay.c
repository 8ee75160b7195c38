/* tests/unit/test_replay.c - a log judged again: a small one with every kind of answer in it comes out whole; then one thing is changed, in
 * an entry or in what it is judged by, and exactly that must be found. The scenarios do the first on 30 logs more (test_scenario.c). */
#include "daemon/base/json.h"
#include "daemon/cli/differ.h"
#include "daemon/cli/rejudge.h"
#include "daemon/log/entry.h"
#include "pawl/settle.h"
#include "policy/laws.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/replay_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define SEC NS_PER_SEC
struct log {
	struct policy *pol;
	struct state *st;
	int64_t now;
	char *bodies[64];
	uint64_t n;
	struct buf scratch;
};
static const uint8_t secret[32] = { 1, 2, 3 };

static struct policy *load(const char *text)
{
	struct policy_report rep = { .rows = NULL };
	struct pawl_error err = { .code = PAWL_OK };
	struct policy *pol = NULL;

	if (policy_load(str_of(text), "again.yaml", &pol, &rep, &err) != 0)
		fail_msg("%u:%u: %s", err.line, err.column, err.msg);
	policy_report_done(&rep);
	return pol;
}

/* ---- a log, written as the hall writes one ---- */

static struct entry blank(const struct log *l, enum entry_kind kind)
{
	return (struct entry){ .kind = kind, .seq = state_next_seq(l->st), .now = l->now, .wall = l->now + 1 };
}

static uint64_t put(struct log *l, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct buf body = BUF_MAX(PAWL_MAX_BODY);

	assert_int_equal(e->seq, l->n);
	assert_true(l->n < PAWL_LEN(l->bodies));
	entry_render(e, &body);
	l->bodies[l->n] = buf_take(&body, NULL);
	assert_non_null(l->bodies[l->n]);
	if (state_room(l->st, e, &err) < 0)
		fail_msg("%s", err.msg);
	state_apply(l->st, e);
	return l->n++;
}

static void start(struct log *l)
{
	static struct reload diff;
	struct entry e = blank(l, ENTRY_START);
	char hex[65];

	(void)sodium_bin2hex(hex, sizeof(hex), l->pol->hash, 32);
	policy_diff(NULL, l->st, l->pol, &diff);
	e.start = (struct entry_start){ .version = STR("0"), .policy_name = l->pol->name, .policy_hash = { hex, 64 }, .mode = policy_mode_word(l->pol->mode),
					.fallback = STR("deny"), .judge = PAWL_JUDGE_VERSION, .probes_text = STR("{}"), .budgets = diff.budgets };
	(void)put(l, &e);
}

static uint64_t open_of(struct log *l, struct str agent)
{
	struct entry e = blank(l, ENTRY_SESSION);
	struct reason why;

	e.session = (struct entry_session){ .session = e.seq, .root = e.seq, .agent = agent, .labels_text = STR("{\"a\":\"b\"}"),
					    .lease_ns = l->pol->sessions.lease_ns };
	assert_true(session_may_open(l->pol, l->st, NULL, agent, l->now, &e.session.fresh_end, &why));
	return put(l, &e);
}

static uint64_t open_one(struct log *l)
{
	return open_of(l, STR("local"));
}

struct asks {
	const char *tool, *args, *money;
	struct call_limits limits;
	uint64_t claim;
	const char *call; /* NULL: a new id */
	enum verdict would; /* in shadow mode; `code` is then that verdict's */
};

static uint64_t ask(struct log *l, struct asks a, enum verdict want, enum reason_code code)
{
	static struct judgement j;
	const struct caller me = { .session = 1, .root = 1, .agent = STR("local"), .secret = secret };
	struct request_call rq = { .tool = str_of(a.tool), .limits = a.limits, .has_money = a.money != NULL, .money = a.money ? strtol(a.money, NULL, 10) * MONEY_PER_UNIT : 0 };
	struct pawl_error err = { .code = PAWL_OK };
	struct json *args;
	struct facts f;
	struct entry e;
	char id[16];
	uint64_t seq;

	(void)snprintf(id, sizeof(id), "c-%llu", (unsigned long long)l->n);
	rq.call = str_of(a.call ? a.call : id);
	assert_int_equal(json_parse(str_of(a.args ? a.args : "{}"), 8, &args, NULL), 0);
	rq.args = args;
	if (facts_of(l->pol, &rq, &me, NULL, &l->scratch, &f, &err) < 0 || (a.claim && claim_prepare(l->st, a.claim, &f, &err) < 0))
		fail_msg("%s", err.msg);
	if (a.claim)
		judge_claim(l->pol, l->st, &f, a.claim, l->now, &j);
	else
		judge(l->pol, l->st, &f, l->now, &j);
	if (j.answer != want || j.would != a.would || (j.would ? j.would_why.code : j.why.code) != code || j.replay)
		fail_msg("entry %llu: %s, %s, would %d %s", (unsigned long long)l->n, verdict_name(j.answer), reason_name(j.why.code), j.would,
			 reason_name(j.would_why.code));
	entry_from_judgement(l->pol, &rq, &f, &j, l->now, l->now + 1, l->n, &e);
	seq = put(l, &e);
	json_free(args);
	return seq;
}

static void settle(struct log *l, uint64_t seq, enum outcome outcome, int64_t money)
{
	static struct charge charges[PAWL_MAX_LEDGERS];
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	const struct call_state *call = state_decision(l->st, seq);
	const struct report rep = { .outcome = outcome, .has_money = money >= 0, .money = money };
	struct entry_settle body = { .session = 1, .decision = seq, .outcome = outcome, .has_money = money >= 0, .money = money, .duration_ns = -1,
				     .money_unit = l->pol->currency, .same = { 7 } };
	struct entry e = blank(l, call->settled ? ENTRY_LOSS : ENTRY_SETTLE);

	assert_int_equal(settle_charges(l->pol, l->st, call, &rep, l->now, charges, rows, &body, NULL), 0);
	if (outcome == OUTCOME_ERROR)
		body.has_error = body.has_error_token = true;
	if (call->settled)
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = 1, .decision = seq, .late = body };
	else
		e.settle = body;
	(void)put(l, &e);
}

static void resume(struct log *l, uint64_t card)
{
	struct entry e = blank(l, ENTRY_RESOLVE);

	e.resolve = (struct entry_resolve){ .session = 1, .card = card, .action = RESOLVE_RESUME, .operator = STR("ann"), .key = STR("k"), .reason = STR(""),
					    .money_unit = l->pol->currency };
	assert_int_equal(review_grants(l->pol, l->st, state_card_by_id(l->st, card), l->now, e.resolve.grants, &e.resolve.n_grants, NULL), 0);
	(void)put(l, &e);
}

static void due(struct log *l)
{
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct deadline d;

	while (state_next_deadline(l->st, &d) && d.at <= l->now) {
		struct entry e = blank(l, d.kind == DEADLINE_CARD ? ENTRY_TIMEOUT : ENTRY_LOSS);

		if (d.kind == DEADLINE_CARD)
			e.timeout = (struct entry_timeout){ .session = d.session, .card = d.id };
		else
			e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = d.session, .decision = d.id, .breakers = rows,
						      .n_breakers = breaker_report(l->pol, l->st, state_decision(l->st, d.id), OUTCOME_EXPIRED, l->now, rows) };
		(void)put(l, &e);
	}
}

/* old NULL: which policy is in force is told again. */
static void reload(struct log *l, const struct policy *old)
{
	static struct reload diff;
	struct entry e = blank(l, ENTRY_POLICY);
	char hex[65];

	(void)sodium_bin2hex(hex, sizeof(hex), l->pol->hash, 32);
	policy_diff(old, l->st, l->pol, &diff);
	e.policy = (struct entry_policy){ .loaded = true, .name = l->pol->name, .hash = { hex, 64 }, .mode = policy_mode_word(l->pol->mode),
					.budgets = diff.budgets };
	(void)put(l, &e);
}

/* What is at which number; the changes below count on it. */
enum { GUARDED = 2, SETTLED, FORBIDDEN, HELD, RESUMED, CLAIMED, CLAIM_SETTLED, TOO_BIG, TOO_MUCH, GRANTED, BOUGHT, WEB_1, WEB_1_FAILED, WEB_2, BROKEN,
       WEB_3, HELD_AGAIN, CLAIMED_EARLY, STUCK, LOOSER, TIMED_OUT_1, TIMED_OUT_2, EXPIRED, LATE, AGAIN, RESET, ENDED, STOPPED, ENTRIES };

static void end(struct log *l)
{
	struct entry e = blank(l, ENTRY_BREAKER);
	const struct breaker_row key = { .id = STR("web"), .scope = SCOPE_COUNT };

	e.breaker = (struct entry_breaker){ .operator = STR("ann"), .key = STR("k"), .reason = STR("mended") };
	assert_true(breaker_reset(l->st, &key, l->now, &e.breaker.row));
	(void)put(l, &e);
	e = blank(l, ENTRY_SESSION);
	e.session = (struct entry_session){ .action = SESSION_ABORT, .session = 1, .operator = STR("ann"), .key = STR("k"), .reason = STR(""),
					    .hold_until = l->now + l->pol->reviews.abort_hold_ns };
	(void)put(l, &e);
	e = blank(l, ENTRY_STOP);
	e.stop.why = STR("told to stop");
	(void)put(l, &e);
}

static void write_log(struct log *l)
{
	const struct call_limits own = { .has_money = true, .money = 100 * MONEY_PER_UNIT, .repeat = 9, .lease_ns = 20 * 60 * SEC };
	const struct call_limits looser = { .repeat = 10 };

	*l = (struct log){ .pol = load(policy_text), .now = 1000000 * SEC, .scratch = BUF_MAX(1 << 20) };
	assert_int_equal(state_new(&l->st, NULL), 0);
	start(l);
	(void)open_one(l);
	(void)ask(l, (struct asks){ .tool = "fixed", .limits = own }, VERDICT_ALLOW, REASON_OK);
	settle(l, GUARDED, OUTCOME_OK, 600000000);
	(void)ask(l, (struct asks){ .tool = "danger" }, VERDICT_DENY, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "held" }, VERDICT_REVIEW, REASON_RULE);
	resume(l, HELD);
	(void)ask(l, (struct asks){ .tool = "held", .claim = HELD }, VERDICT_ALLOW, REASON_OK);
	settle(l, CLAIMED, OUTCOME_OK, -1);
	(void)ask(l, (struct asks){ .tool = "free", .args = "{\"n\":11}" }, VERDICT_DENY, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "fixed", .money = "3" }, VERDICT_REVIEW, REASON_BUDGET);
	resume(l, TOO_MUCH);
	(void)ask(l, (struct asks){ .tool = "fixed", .claim = TOO_MUCH }, VERDICT_ALLOW, REASON_OK);
	(void)ask(l, (struct asks){ .tool = "web.a" }, VERDICT_ALLOW, REASON_OK);
	settle(l, WEB_1, OUTCOME_ERROR, -1);
	(void)ask(l, (struct asks){ .tool = "web.a" }, VERDICT_ALLOW, REASON_OK);
	settle(l, WEB_2, OUTCOME_ERROR, -1);
	(void)ask(l, (struct asks){ .tool = "web.b" }, VERDICT_DENY, REASON_BREAKER_OPEN);
	(void)ask(l, (struct asks){ .tool = "held", .args = "{\"x\":1}" }, VERDICT_REVIEW, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "held", .args = "{\"x\":1}", .claim = HELD_AGAIN }, VERDICT_REVIEW, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "free", .args = "{\"n\":1}" }, VERDICT_DENY, REASON_STICKY_DENIAL);
	(void)ask(l, (struct asks){ .tool = "fixed", .args = "{\"y\":1}", .limits = looser, .call = "late" }, VERDICT_REVIEW, REASON_BUDGET);
	l->now += 30 * 60 * SEC;
	due(l);
	settle(l, BOUGHT, OUTCOME_OK, 4 * MONEY_PER_UNIT);
	(void)ask(l, (struct asks){ .tool = "fixed", .claim = 0, .money = "3", .call = "c-12" }, VERDICT_DENY, REASON_ALREADY_SETTLED);
	end(l);
	assert_int_equal(l->n, ENTRIES);
}

static void log_done(struct log *l)
{
	for (uint64_t i = 0; i < l->n; i++)
		free(l->bodies[i]);
	policy_free(l->pol);
	state_free(l->st);
	buf_done(&l->scratch);
}

/* ---- judging it again ---- */

/* The bodies of l, `from` replaced by `to` in entry `at`. 0, or where it stopped. */
static int judge_bodies(const struct log *l, uint64_t at, const char *from, const char *to, struct rejudging *rj, struct pawl_error *err)
{
	int r = 0;

	for (uint64_t i = 0; i < l->n && r == 0; i++) {
		struct buf body = BUF_MAX(PAWL_MAX_BODY);
		const char *hit = from && i == at ? strstr(l->bodies[i], from) : NULL;

		if (from && i == at && !hit)
			fail_msg("entry %llu has no %s: %s", (unsigned long long)i, from, l->bodies[i]);
		if (hit) {
			buf_add(&body, l->bodies[i], (size_t)(hit - l->bodies[i]));
			buf_puts(&body, to);
			buf_puts(&body, hit + strlen(from));
		} else {
			buf_puts(&body, l->bodies[i]);
		}
		r = rejudging_entry(rj, i, buf_str(&body), err);
		buf_done(&body);
	}
	return r;
}

/* pol is handed over; NULL: none is given. */
static int judge_log(const struct log *l, uint64_t at, const char *from, const char *to, struct policy *pol, struct rejudging *rj, struct pawl_error *err)
{
	assert_int_equal(rejudging_init(rj, err), 0);
	if (pol)
		assert_int_equal(rejudging_policy(rj, pol, "again.yaml", err), 0);
	return judge_bodies(l, at, from, to, rj, err);
}

static void test_whole(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct log l;

	(void)state;
	write_log(&l);
	if (judge_log(&l, 0, NULL, NULL, load(policy_text), &rj, &err) < 0)
		fail_msg("%s", err.msg);
	if (rj.differ || rj.skipped)
		fail_msg("%.*s", STR_ARG(buf_str(&rj.shown)));
	assert_int_equal(rj.given, 1); /* stop */
	assert_int_equal(rj.equal, ENTRIES - 1);
	assert_int_equal(rj.policies[0].judged, ENTRIES);
	rejudging_done(&rj);
	log_done(&l);
}

/* One thing in one entry is not what was written. `field`: among those that are told. More than one may differ, for what follows was judged
 * in a state that this entry did not make. */
struct lie {
	const char *name;
	uint64_t at;
	const char *from, *to, *field;
	bool contradicts; /* and the state does not take it */
	bool more;	  /* others may differ too */
};
static const struct lie doctored[] = {
	{ "the message", FORBIDDEN, "rule never denies", "rule never allows", "\"reason.message\"", false, false },
	{ "the code", STUCK, "\"code\":\"sticky_denial\"", "\"code\":\"default\"", "\"reason.code\"", false, false },
	{ "a rule that always matches is hidden", GUARDED, "\"rules\":{\"allow\":\"ok\"},", "", "\"rules\"", false, false },
	{ "another rule is named", FORBIDDEN, "\"deny\":\"never\"", "\"deny\":\"big\"", "\"rules.deny\"", false, false },
	{ "a denial that stays is hidden", FORBIDDEN, ",\"sticks\":[{\"how\":\"session\",\"rule\":\"never\",\"tool\":\"danger\"}]", "", "\"sticks\"", false, false },
	{ "it stays less far", TOO_BIG, "\"how\":\"tree\"", "\"how\":\"session\"", "\"sticks.0.how\"", false, false },
	{ "a deny becomes an allow", WEB_3, "\"verdict\":\"deny\"", "\"verdict\":\"allow\"", "\"verdict\"", true, false },
	{ "a review becomes a deny", LOOSER, "\"verdict\":\"review\"", "\"verdict\":\"deny\"", "\"verdict\"", true, false },
	{ "less than the fixed price", GUARDED, "\"facts\":{\"money\":\"0.5\"", "\"facts\":{\"money\":\"0.4\"", "\"facts.money\"", true, false },
	{ "no fixed price", GUARDED, "\"price\":\"0.5\",", "", "\"price\"", false, false },
	{ "a yes that stays", CLAIMED, "\"ends_cards\":true,", "", "\"ends_cards\"", false, true },
	{ "judged in shadow mode", FORBIDDEN, "\"session\":\"s_1\",", "\"session\":\"s_1\",\"shadow\":true,", "\"shadow\"", true, false },
	{ "less is reserved", GUARDED, "{\"amount\":\"0.5\",\"budget\":\"run\"", "{\"amount\":\"0.4\",\"budget\":\"run\"", "\"draws.0.amount\"", true, true },
	{ "a limit", GUARDED, "\"limit\":\"2\"", "\"limit\":\"3\"", "\"draws.0.limit\"", false, false },
	{ "the lease", GUARDED, "\"lease\":\"20m\"", "\"lease\":\"19m\"", "\"lease_until\"", false, false },
	{ "the caller's limit", GUARDED, "\"asked\":{\"lease\":\"20m\",\"money\":\"100\"", "\"asked\":{\"lease\":\"20m\",\"money\":\"99\"", "\"guard.money\"", false, false },
	{ "nothing was ignored", LOOSER, "\"limits_ignored\":true,", "", "\"limits_ignored\"", false, false },
	{ "the claim of another card", CLAIMED_EARLY, "\"claims\":\"r_18\"", "\"claims\":\"r_5\"", "another tool or of other arguments", false, false },
	{ "the claim of no card", CLAIMED, "\"claims\":\"r_5\"", "\"claims\":\"r_4\"", "not a review of this session", false, false },
	{ "less is charged", SETTLED, "\"charged\":{\"money\":\"0.6\"", "\"charged\":{\"money\":\"0.1\"", "\"charged.money\"", false, false },
	{ "a ledger is charged less", SETTLED, "\"charged\":\"0.6\"", "\"charged\":\"0.1\"", "\"ledgers.0.charged\"", false, true },
	{ "more was reported", SETTLED, "\"reported\":{\"money\":\"0.6\"}", "\"reported\":{\"money\":\"0.7\"}", "\"charged.money\"", false, false },
	{ "a probe was no failure", BROKEN, "\"mode\":\"open\"", "\"mode\":\"closed\"", "\"breakers.0.mode\"", false, true },
	{ "a larger grant", GRANTED, "{\"amount\":\"1.6\"", "{\"amount\":\"1.7\"", "\"grants.0.amount\"", false, true },
	{ "another deadline", EXPIRED, "\"decision\":\"d_12\"", "\"decision\":\"d_2\"", "d_2 is not the next deadline", true, false },
	{ "a late report of more", LATE, "\"charged\":{\"money\":\"1\"", "\"charged\":{\"money\":\"2\"", "\"charged.money\"", false, false },
	{ "the breaker stays open", RESET, "\"mode\":\"closed\"", "\"mode\":\"open\"", "\"breaker.mode\"", false, false },
	{ "a shorter hold", ENDED, "\"hold_until\":\"1970-01-12T14:17:40", "\"hold_until\":\"1970-01-12T14:17:39", "\"hold_until\"", false, false },
	{ "another lease of the session", 1, "\"lease\":\"1m\"", "\"lease\":\"2m\"", "\"lease\"", false, false },
	{ "another default", 0, "\"default\":\"deny\"", "\"default\":\"allow\"", "\"default\"", false, false },
	{ "a budget's limit in force", 0, "\"limit\":\"2\"", "\"limit\":\"1\"", "\"budgets.0.limit\"", false, false },
};

static void check_found(const struct rejudging *rj, const struct lie *lie, int r, const struct pawl_error *err)
{
	char first[32];

	if (r != (lie->contradicts ? PAWL_E_TAMPERED : 0))
		fail_msg("%s: %d %s: %.*s", lie->name, r, err->msg, STR_ARG(buf_str(&rj->shown)));
	(void)snprintf(first, sizeof(first), "{\"entry\":%llu,", (unsigned long long)lie->at);
	if (rj->differ == 0 || (rj->differ > 1 && !lie->more) || rj->skipped || rj->shown.n < strlen(first) ||
	    memcmp(rj->shown.p, first, strlen(first)) != 0 || !memmem(rj->shown.p, rj->shown.n, lie->field, strlen(lie->field)))
		fail_msg("%s: %llu differ, %llu skipped: %.*s", lie->name, (unsigned long long)rj->differ, (unsigned long long)rj->skipped,
			 STR_ARG(buf_str(&rj->shown)));
}

static void test_doctored(void **state)
{
	struct log l;

	(void)state;
	write_log(&l);
	for (size_t i = 0; i < PAWL_LEN(doctored); i++) {
		struct pawl_error err = { .code = PAWL_OK };
		struct rejudging rj;
		int r = judge_log(&l, doctored[i].at, doctored[i].from, doctored[i].to, load(policy_text), &rj, &err);

		check_found(&rj, &doctored[i], r, &err);
		rejudging_done(&rj);
	}
	log_done(&l);
}

/* Entries of logs that do not say all they were made of: left out by name, unless what they say is enough. */
static const struct {
	const char *name;
	uint64_t at;
	const char *from, *to, *lacks; /* NULL: it is judged again all the same, and equal */
} older[] = {
	{ "limits that left a mark", GUARDED, "\"asked\":{\"lease\":\"20m\",\"money\":\"100\",\"repeat\":9},", "", "which limits the caller asked for" },
	{ "looser limits", LOOSER, "\"asked\":{\"repeat\":10},", "", "which limits the caller asked for" },
	{ "a claim that was refused", CLAIMED_EARLY, "\"claims\":\"r_18\",", "", "which review was presented" },
	{ "a claim that was allowed names its card", CLAIMED, "\"claims\":\"r_5\",", "", NULL },
};

static void test_older(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct log l;

	(void)state;
	write_log(&l);
	for (size_t i = 0; i < PAWL_LEN(older); i++) {
		size_t n = older[i].lacks != NULL;

		if (judge_log(&l, older[i].at, older[i].from, older[i].to, load(policy_text), &rj, &err) < 0)
			fail_msg("%s: %s", older[i].name, err.msg);
		if (rj.differ || rj.skipped != n || rj.n_skips != n || rj.equal != ENTRIES - 1 - n)
			fail_msg("%s: %.*s", older[i].name, STR_ARG(buf_str(&rj.shown)));
		if (n && (rj.skips[0].why != SKIP_LACKS || !strstr(rj.skips[0].text, older[i].lacks) || rj.skips[0].first != older[i].at))
			fail_msg("%s: %s", older[i].name, rj.skips[0].text);
		rejudging_done(&rj);
	}
	log_done(&l);
}

/* ---- shadow mode ---- */

enum { S_FINE = 2, S_FORBIDDEN, S_TOO_BIG, S_STUCK, S_HELD, S_TOO_MUCH, S_WEB_1, S_WEB_1_FAILED, S_WEB_2, S_BROKEN, S_SHUT, S_RESET, S_SWITCH,
       S_ENFORCED, S_FREE, S_ENTRIES };

static void reset_web(struct log *l)
{
	const struct breaker_row key = { .id = STR("web"), .scope = SCOPE_COUNT };
	struct entry e = blank(l, ENTRY_BREAKER);

	e.breaker = (struct entry_breaker){ .operator = STR("ann"), .key = STR("k"), .reason = STR("mended") };
	assert_true(breaker_reset(l->st, &key, l->now, &e.breaker.row));
	(void)put(l, &e);
}

/* Each would-be answer once, then enforce. */
static void write_shadow_log(struct log *l)
{
	struct policy *trial;

	*l = (struct log){ .pol = load(shadow_text), .now = 1000000 * SEC, .scratch = BUF_MAX(1 << 20) };
	assert_int_equal(state_new(&l->st, NULL), 0);
	start(l);
	(void)open_one(l);
	(void)ask(l, (struct asks){ .tool = "fixed" }, VERDICT_ALLOW, REASON_OK);
	(void)ask(l, (struct asks){ .tool = "danger", .would = VERDICT_DENY }, VERDICT_ALLOW, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "free", .args = "{\"n\":11}", .would = VERDICT_DENY }, VERDICT_ALLOW, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "free", .args = "{\"n\":1}", .would = VERDICT_DENY }, VERDICT_ALLOW, REASON_STICKY_DENIAL);
	(void)ask(l, (struct asks){ .tool = "held", .would = VERDICT_REVIEW }, VERDICT_ALLOW, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "fixed", .money = "3", .args = "{\"x\":1}", .would = VERDICT_REVIEW }, VERDICT_ALLOW, REASON_BUDGET);
	(void)ask(l, (struct asks){ .tool = "web.a" }, VERDICT_ALLOW, REASON_OK);
	settle(l, S_WEB_1, OUTCOME_ERROR, -1);
	(void)ask(l, (struct asks){ .tool = "web.a" }, VERDICT_ALLOW, REASON_OK);
	settle(l, S_WEB_2, OUTCOME_ERROR, -1);
	(void)ask(l, (struct asks){ .tool = "web.b", .would = VERDICT_DENY }, VERDICT_ALLOW, REASON_BREAKER_OPEN);
	reset_web(l);
	trial = l->pol;
	l->pol = load(policy_text);
	reload(l, trial);
	policy_free(trial);
	(void)ask(l, (struct asks){ .tool = "danger", .args = "{\"x\":1}" }, VERDICT_DENY, REASON_RULE);
	(void)ask(l, (struct asks){ .tool = "free", .args = "{\"n\":2}" }, VERDICT_ALLOW, REASON_OK);
	assert_int_equal(l->n, S_ENTRIES);
}

static int judge_shadow_log(const struct log *l, const struct lie *lie, struct rejudging *rj, struct pawl_error *err)
{
	assert_int_equal(rejudging_init(rj, err), 0);
	assert_int_equal(rejudging_policy(rj, load(shadow_text), "shadow.yaml", err), 0);
	assert_int_equal(rejudging_policy(rj, load(policy_text), "enforce.yaml", err), 0);
	return judge_bodies(l, lie->at, lie->from, lie->to, rj, err);
}

#define FORBIDDEN_WOULD ",\"would\":{\"reason\":{\"code\":\"rule\",\"message\":\"rule never denies danger\",\"rule\":\"never\"},\"verdict\":\"deny\"}}"
#define NEVER_STICKS	",\"sticks\":[{\"how\":\"session\",\"rule\":\"never\",\"tool\":\"danger\"}]"
#define SWITCH_TOLD	"\"tightened: mode shadow -> enforce: what shadow mode remembered is cleared\""

static const struct lie shadow_lies[] = {
	{ "a would-be review is hidden", S_HELD,
	  ",\"would\":{\"reason\":{\"code\":\"rule\",\"message\":\"rule ask asks a person about held\",\"rule\":\"ask\"},\"verdict\":\"review\"}}", "}",
	  "\"would\"", false, false },
	{ "a would-be denial is hidden, what stays of it is not", S_FORBIDDEN, FORBIDDEN_WOULD, "}", "\"would\"", true, false },
	{ "what stays of it is hidden", S_FORBIDDEN, NEVER_STICKS, "", "\"sticks\"", false, false },
	{ "the call that was fine would have been denied", S_FINE, "00001Z\"}", "00001Z\"" FORBIDDEN_WOULD, "\"would\"", false, false },
	{ "it would have been denied, and not asked about", S_TOO_MUCH, "\"verdict\":\"review\"}}", "\"verdict\":\"deny\"}}", "\"would.verdict\"", false, false },
	{ "for another reason", S_SHUT, "\"code\":\"breaker_open\"", "\"code\":\"default\"", "\"would.reason.code\"", false, false },
	{ "by another rule", S_STUCK, "\"rule\":\"big\"", "\"rule\":\"never\"", "\"would.reason.rule\"", false, false },
	{ "with another number", S_TOO_MUCH, "\"counter\":\"0.5\"", "\"counter\":\"0.4\"", "\"would.reason.counter\"", false, false },
	{ "it would stay less far", S_TOO_BIG, "\"how\":\"tree\"", "\"how\":\"session\"", "\"sticks.0.how\"", false, false },
	{ "its rule is hidden", S_TOO_BIG, "\"deny\":\"big\"", "\"deny\":\"never\"", "\"rules.deny\"", false, false },
	{ "it was denied after all", S_STUCK, "\"verdict\":\"allow\"", "\"verdict\":\"deny\"", "\"verdict\"", true, false },
	{ "the mode is hidden", S_FINE, "\"shadow\":true,", "", "\"shadow\"", true, false },
	{ "less is held of a call over the limit", S_TOO_MUCH, "{\"amount\":\"3\"", "{\"amount\":\"2\"", "\"draws.0.amount\"", false, true },
	{ "the breaker that would open is one that binds", S_BROKEN, ",\"would\":true}", "}", "\"breakers.0.would\"", false, true },
	{ "and a person's reset reached it", S_RESET, ",\"would\":true}", "}", "\"breaker.would\"", false, true },
	{ "it started under enforce", 0, "\"mode\":\"shadow\"", "\"mode\":\"enforce\"", "\"mode\"", true, true },
	{ "the switch says no mode", S_SWITCH, "\"mode\":\"enforce\",", "", "\"mode\"", true, true },
	{ "the switch is not told", S_SWITCH, "\"changes\":[" SWITCH_TOLD "],", "", "\"changes\"", false, true },
	{ "still in shadow mode", S_ENFORCED, "\"session\":\"s_1\",", "\"session\":\"s_1\",\"shadow\":true,", "\"shadow\"", true, false },
};

static void test_shadow(void **state)
{
	static const struct lie none = { .name = "none" };
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct log l;

	(void)state;
	write_shadow_log(&l);
	if (judge_shadow_log(&l, &none, &rj, &err) < 0)
		fail_msg("%s", err.msg);
	if (rj.differ || rj.skipped || rj.given || rj.equal != S_ENTRIES)
		fail_msg("%.*s", STR_ARG(buf_str(&rj.shown)));
	rejudging_done(&rj);
	for (size_t i = 0; i < PAWL_LEN(shadow_lies); i++) {
		int r;

		err = (struct pawl_error){ .code = PAWL_OK };
		r = judge_shadow_log(&l, &shadow_lies[i], &rj, &err);
		check_found(&rj, &shadow_lies[i], r, &err);
		rejudging_done(&rj);
	}
	log_done(&l);
}

/* Policy entries had no mode when there was but one. */
static void test_older_mode(void **state)
{
	static const char looser[] = "pawl: 1\nname: again\nrules:\n  - {id: all, allow: ['*']}\n...\n";
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct policy *old;
	struct log l;

	(void)state;
	write_log(&l);
	old = l.pol;
	l.pol = load(looser);
	reload(&l, old);
	reload(&l, NULL);
	policy_free(old);
	for (uint64_t at = ENTRIES; at < l.n; at++) {
		assert_int_equal(rejudging_init(&rj, &err), 0);
		assert_int_equal(rejudging_policy(&rj, load(looser), "b", &err), 0);
		assert_int_equal(rejudging_policy(&rj, load(policy_text), "a", &err), 0);
		assert_int_equal(judge_bodies(&l, at, "\"mode\":\"enforce\",", "", &rj, &err), 0);
		if (rj.differ || rj.skipped || rj.equal != l.n - 1)
			fail_msg("%.*s", STR_ARG(buf_str(&rj.shown)));
		rejudging_done(&rj);
	}
	log_done(&l);
}

/* The same entries under other laws: the hash is the file's, so only a wrong reader of it, or a wrong judge, can come to this. */
static void more_money(struct policy *pol)
{
	pol->budgets[0].limit = 3 * MONEY_PER_UNIT;
}

static void no_rule(struct policy *pol)
{
	pol->rules[0].answer = VERDICT_REVIEW;
}

static void longer_loops(struct policy *pol)
{
	pol->breakers[0].failures = 3;
}

static void longer_leases(struct policy *pol)
{
	pol->tools[0].lease_ns *= 2;
}

static void test_other_laws(void **state)
{
	static const struct {
		void (*change)(struct policy *);
		uint64_t first;
		const char *field;
	} rows[] = { { more_money, 0, "budgets.0.limit" }, { no_rule, FORBIDDEN, "verdict" }, { longer_loops, BROKEN, "breakers.0.mode" },
		     { longer_leases, GUARDED, "lease_until" } };
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	char want[64];
	struct log l;

	(void)state;
	write_log(&l);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct policy *pol = load(policy_text);

		rows[i].change(pol);
		assert_int_equal(judge_log(&l, 0, NULL, NULL, pol, &rj, &err), 0);
		(void)snprintf(want, sizeof(want), "{\"entry\":%llu,", (unsigned long long)rows[i].first);
		if (rj.differ == 0 || memcmp(rj.shown.p, want, strlen(want)) != 0 || !memmem(rj.shown.p, rj.shown.n, rows[i].field, strlen(rows[i].field)))
			fail_msg("row %zu: %.*s", i, STR_ARG(buf_str(&rj.shown)));
		rejudging_done(&rj);
	}
	log_done(&l);
}

/* ---- which policy, which judge ---- */

static void test_policies(void **state)
{
	static const char looser[] = "pawl: 1\nname: again\nrules:\n  - {id: all, allow: ['*']}\n...\n";
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct policy *old;
	struct log l;

	(void)state;
	write_log(&l);
	old = l.pol;
	l.pol = load(looser);
	reload(&l, old);
	reload(&l, NULL); /* as after a disk that was full: which policy is in force, again */
	(void)open_of(&l, STR("other")) /* `local` was aborted a moment ago */;
	/* none given: all is left out, each policy by its name */
	assert_int_equal(judge_log(&l, 0, NULL, NULL, NULL, &rj, &err), 0);
	assert_true(rj.equal == 0 && rj.differ == 0 && rj.given == 0 && rj.skipped == l.n && rj.n_skips == 2);
	assert_true(rj.skips[0].why == SKIP_POLICY && strlen(rj.skips[0].text) == 64 && rj.skips[0].n == ENTRIES && rj.skips[1].n == 3);
	rejudging_done(&rj);
	/* the second alone: what became looser cannot be told again, that it is in force can */
	assert_int_equal(judge_log(&l, 0, NULL, NULL, load(looser), &rj, &err), 0);
	assert_true(rj.equal == 2 && rj.differ == 0 && rj.skipped == ENTRIES + 1 && rj.skips[1].why == SKIP_LACKS && rj.skips[1].first == ENTRIES);
	rejudging_done(&rj);
	/* both */
	assert_int_equal(rejudging_init(&rj, &err), 0);
	assert_int_equal(rejudging_policy(&rj, load(looser), "b", &err), 0);
	assert_int_equal(rejudging_policy(&rj, load(policy_text), "a", &err), 0);
	assert_int_equal(rejudging_policy(&rj, load(looser), "c", &err), PAWL_E_USAGE);
	for (uint64_t i = 0; i < l.n; i++)
		assert_int_equal(rejudging_entry(&rj, i, str_of(l.bodies[i]), &err), 0);
	if (rj.differ || rj.skipped || rj.equal != l.n - 1)
		fail_msg("%.*s", STR_ARG(buf_str(&rj.shown)));
	rejudging_done(&rj);
	policy_free(old);
	log_done(&l);
}

/* An entry that changes the policy and lists no change: a reload that was lost with a full disk looks so, and one that hides them too. */
static void test_silent_reload(void **state)
{
	static const char looser[] = "pawl: 1\nname: again\nrules:\n  - {id: all, allow: ['*']}\n...\n";
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct policy *old;
	struct log l;

	(void)state;
	write_log(&l);
	old = l.pol;
	l.pol = load(looser);
	reload(&l, NULL);
	assert_int_equal(rejudging_init(&rj, &err), 0);
	assert_int_equal(rejudging_policy(&rj, load(looser), "b", &err), 0);
	assert_int_equal(rejudging_policy(&rj, load(policy_text), "a", &err), 0);
	for (uint64_t i = 0; i < l.n; i++)
		assert_int_equal(rejudging_entry(&rj, i, str_of(l.bodies[i]), &err), 0);
	assert_true(rj.differ == 0 && rj.skipped == 1 && rj.skips[0].why == SKIP_LACKS && rj.skips[0].first == ENTRIES);
	rejudging_done(&rj);
	policy_free(old);
	log_done(&l);
}

static void test_judge_versions(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct log l;

	(void)state;
	write_log(&l);
	start(&l); /* another pawld goes on */
	(void)open_of(&l, STR("other")) /* `local` was aborted a moment ago */;
	assert_int_equal(judge_log(&l, 0, "\"judge\":1", "\"judge\":7", load(policy_text), &rj, &err), 0);
	assert_true(rj.skipped == ENTRIES && rj.n_skips == 1 && rj.skips[0].why == SKIP_JUDGE && strcmp(rj.skips[0].text, "7") == 0);
	assert_true(rj.equal == 2 && rj.differ == 0 && rj.skips[0].first == 0 && rj.skips[0].last == ENTRIES - 1);
	rejudging_done(&rj);
	assert_int_equal(judge_log(&l, ENTRIES, "\"judge\":1", "\"judge\":2", load(policy_text), &rj, &err), 0);
	assert_true(rj.skipped == 2 && rj.equal == ENTRIES - 1 && rj.differ == 0 && rj.skips[0].first == ENTRIES);
	rejudging_done(&rj);
	log_done(&l);
}

/* An answer that came before the deadlines up to it were written is none of pawld's. */
static void test_overdue(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct rejudging rj;
	struct log l = { .pol = load(policy_text), .now = 1000000 * SEC, .scratch = BUF_MAX(1 << 20) };

	(void)state;
	assert_int_equal(state_new(&l.st, NULL), 0);
	start(&l);
	(void)open_one(&l);
	(void)ask(&l, (struct asks){ .tool = "fixed" }, VERDICT_ALLOW, REASON_OK);
	l.now += 30 * 60 * SEC;
	(void)ask(&l, (struct asks){ .tool = "free" }, VERDICT_DENY, REASON_RULE); /* args.n is missing: its condition failed */
	assert_int_equal(judge_log(&l, 0, NULL, NULL, load(policy_text), &rj, &err), 0);
	assert_true(rj.differ == 1 && memmem(rj.shown.p, rj.shown.n, "the deadline of d_2 had passed", 30));
	rejudging_done(&rj);
	log_done(&l);
}

/* ---- the rest ---- */

/* Memory that is short is an error, and never a difference or an equal one. */
static void test_no_memory(void **state)
{
	struct log l;
	long n;

	(void)state;
	write_log(&l);
	for (n = 1;; n++) {
		struct policy *pol = load(policy_text);
		struct pawl_error err = { .code = PAWL_OK };
		struct rejudging rj;
		bool failed;
		int r;

		fail_malloc_after(n);
		r = rejudging_init(&rj, &err);
		if (r == 0)
			r = rejudging_policy(&rj, pol, "p", &err);
		else
			policy_free(pol);
		for (uint64_t i = 0; i < l.n && r == 0; i++)
			r = rejudging_entry(&rj, i, str_of(l.bodies[i]), &err);
		failed = fail_malloc_stop();
		if (r != (failed ? PAWL_E_NOMEM : 0) || rj.differ || rj.skipped)
			fail_msg("allocation %ld: %d %s %.*s", n, r, err.msg, STR_ARG(buf_str(&rj.shown)));
		rejudging_done(&rj);
		if (!failed)
			break;
	}
	assert_true(n > 30);
	log_done(&l);
}

static void test_differ_without_memory(void **state)
{
	(void)state;
	for (long n = 1;; n++) {
		struct buf out = BUF_MAX(4096);
		bool failed;

		fail_malloc_after(n);
		(void)differ_rows(STR("{\"a\":[1,2]}"), STR("{\"a\":[1,3]}"), 8, &out);
		failed = fail_malloc_stop();
		assert_true(buf_ok(&out) != failed);
		if (!failed)
			assert_true(str_is(buf_str(&out), "[{\"field\":\"a.1\",\"logged\":2,\"again\":3}]"));
		buf_done(&out);
		if (!failed)
			return;
	}
}

static void test_differ(void **state)
{
	static const struct {
		const char *a, *b, *rows;
	} cases[] = {
		{ "{\"a\":1}", "{\"a\":1}", "[]" },
		{ "{\"a\":1,\"b\":{\"c\":\"x\"}}", "{\"a\":2,\"b\":{\"c\":\"y\",\"d\":true}}",
		  "[{\"field\":\"a\",\"logged\":1,\"again\":2},{\"field\":\"b.c\",\"logged\":\"x\",\"again\":\"y\"},{\"field\":\"b.d\",\"logged\":null,\"again\":true}]" },
		{ "{\"l\":[1,{\"x\":1}]}", "{\"l\":[1,{\"x\":2},3]}",
		  "[{\"field\":\"l.1.x\",\"logged\":1,\"again\":2},{\"field\":\"l.2\",\"logged\":null,\"again\":3}]" },
		{ "{\"o\":{\"x\":1}}", "{\"o\":\"t\"}", "[{\"field\":\"o\",\"logged\":{\"x\":1},\"again\":\"t\"}]" },
		{ "{\"o\":{\"x\":1}}", "{}", "[{\"field\":\"o\",\"logged\":{\"x\":1},\"again\":null}]" },
		{ "no JSON", "{}", "[{\"field\":\"\",\"logged\":null,\"again\":null}]" },
	};
	struct buf out = BUF_MAX(4096);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		buf_reset(&out);
		(void)differ_rows(str_of(cases[i].a), str_of(cases[i].b), 8, &out);
		if (!str_is(buf_str(&out), cases[i].rows))
			fail_msg("%s, %s: %.*s", cases[i].a, cases[i].b, STR_ARG(buf_str(&out)));
	}
	buf_reset(&out);
	assert_int_equal(differ_rows(STR("[1,2,3]"), STR("[4,5,6]"), 1, &out), 3);
	assert_true(str_is(buf_str(&out), "[{\"field\":\"0\",\"logged\":1,\"again\":4}]"));
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	 cmocka_unit_test(test_doctored),	cmocka_unit_test(test_older),	cmocka_unit_test(test_other_laws),
		cmocka_unit_test(test_silent_reload), cmocka_unit_test(test_policies), cmocka_unit_test(test_judge_versions), cmocka_unit_test(test_overdue), cmocka_unit_test(test_differ),
		cmocka_unit_test(test_shadow), cmocka_unit_test(test_older_mode),
		cmocka_unit_test(test_no_memory), cmocka_unit_test(test_differ_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
