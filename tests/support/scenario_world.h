/* tests/support/scenario_world.h - the world in which a scenario runs on the library: entries as the log would hold them, names, sessions,
 * questions. All in a header: only tests/unit/test_scenario.c wants it. */
#ifndef PAWL_TESTS_SCENARIO_WORLD_H
#define PAWL_TESTS_SCENARIO_WORLD_H
#include "tests/support/scenario_file.h"
#include "tests/support/state_reread.h"

#include "daemon/base/json.h"
#include "daemon/log/entry.h"
#include "daemon/cli/rejudge.h"
#include "pawl/settle.h"
#include "policy/laws.h"
#include "policy/money.h"

#include <sodium.h>

#define KEY STR("ann+12345678+AAAA")

struct named {
	char name[32];
	uint64_t seq, session;
};
struct world {
	const char *file;
	const struct ynode *root;
	int step;
	struct policy *pol;
	struct state *st;
	struct rejudging again; /* all of it judged once more, from the entries alone */
	int64_t now;
	char **bodies; /* every entry as the log would hold it */
	size_t n_bodies;
	size_t kinds[ENTRY_KIND_COUNT];
	struct named calls[64], sessions[16];
	struct json *labels[16];
	size_t n_calls, n_sessions, at; /* at: the session spoken of */
	struct {
		uint64_t seq;
		int64_t until;
	} waits[16]; /* held replies */
	size_t n_waits;
	uint64_t open[256];		/* allowed and not settled */
	size_t n_open;
	int n_asked;
	struct buf scratch;
};

#define FAIL(w, ...)                                               \
	do {                                                       \
		print_error("%s, step %d: ", (w)->file, (w)->step); \
		fail_msg(__VA_ARGS__);                             \
	} while (0)

static const uint8_t secret[32] = { 9, 8, 7 };

static inline struct policy *load(const struct world *w, const char *key, struct pawl_error *err)
{
	struct policy_report rep = { .rows = NULL };
	struct buf text = BUF_MAX(1 << 20);
	struct policy *pol = NULL;
	const char *body = text_of(w->root, key);

	if (!body)
		FAIL(w, "no policy %s", key);
	buf_puts(&text, "pawl: 1\nname: scenario\n");
	buf_puts(&text, body);
	buf_puts(&text, "...\n");
	if (policy_load(buf_str(&text), w->file, &pol, &rep, err) != 0)
		pol = NULL;
	policy_report_done(&rep);
	buf_done(&text);
	return pol;
}

/* ---- entries ---- */

static inline struct entry blank(const struct world *w, enum entry_kind kind)
{
	return (struct entry){ .kind = kind, .seq = state_next_seq(w->st), .now = w->now, .wall = w->now };
}

static inline void put(struct world *w, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct buf body = BUF_MAX(PAWL_MAX_BODY);

	entry_render(e, &body);
	if (!buf_ok(&body))
		FAIL(w, "an entry of kind %s is not rendered", entry_kind_name(e->kind));
	if (rejudging_entry(&w->again, e->seq, buf_str(&body), &err) < 0)
		FAIL(w, "%s", err.msg);
	buf_putc(&body, '\0');
	w->bodies = realloc(w->bodies, (w->n_bodies + 1) * sizeof(*w->bodies));
	assert_non_null(w->bodies);
	w->bodies[w->n_bodies++] = strdup(body.p);
	buf_done(&body);
	if (state_room(w->st, e, &err) != 0)
		FAIL(w, "%s: %s", entry_kind_name(e->kind), err.msg);
	state_apply(w->st, e);
	w->kinds[e->kind]++;
}

/* old: the policy before a reload; NULL: it says which is in force. The second judge has files of its own. */
static inline void put_policy(struct world *w, const struct policy *old, const char *refused_why)
{
	static struct reload diff;
	struct entry e = blank(w, ENTRY_POLICY);
	char hex[65];

	(void)sodium_bin2hex(hex, sizeof(hex), w->pol->hash, 32);
	e.policy = (struct entry_policy){ .loaded = refused_why[0] == '\0', .name = w->pol->name, .hash = { hex, 64 }, .message = str_of(refused_why) };
	policy_diff(old, w->st, w->pol, &diff);
	if (e.policy.loaded) {
		e.policy.budgets = diff.budgets;
		e.policy.mode = policy_mode_word(w->pol->mode);
	}
	put(w, &e);
}

static inline void put_start(struct world *w)
{
	static struct reload diff;
	struct entry e = blank(w, ENTRY_START);
	char hex[65];

	(void)sodium_bin2hex(hex, sizeof(hex), w->pol->hash, 32);
	policy_diff(NULL, w->st, w->pol, &diff);
	e.start = (struct entry_start){ .version = STR("0"), .policy_name = w->pol->name, .policy_hash = { hex, 64 }, .mode = policy_mode_word(w->pol->mode),
					.fallback = STR("deny"), .judge = PAWL_JUDGE_VERSION, .probes_text = STR("{}"), .budgets = diff.budgets };
	if (w->pol->fallback != VERDICT_DENY)
		e.start.fallback = w->pol->fallback == VERDICT_ALLOW ? STR("allow") : STR("review");
	put(w, &e);
}

/* What a restart does: the log's own bytes, read into a fresh state, make the state that was there. */
static inline void restart(struct world *w)
{
	struct pawl_error err = { .code = PAWL_OK };
	uint8_t was[32], is_now[32];
	struct state *fresh;

	assert_int_equal(state_new(&fresh, NULL), 0);
	for (size_t i = 0; i < w->n_bodies; i++) {
		struct entry_parsed p;

		if (entry_parse(str_of(w->bodies[i]), i, &p, &err) != 0)
			FAIL(w, "%s: %s", w->bodies[i], err.msg);
		if (state_room(fresh, &p.e, &err) != 0)
			FAIL(w, "%s: %s", w->bodies[i], err.msg);
		state_apply(fresh, &p.e);
		entry_parsed_done(&p);
	}
	state_digest(w->st, was);
	state_digest(fresh, is_now);
	assert_memory_equal(was, is_now, sizeof(was));
	state_free(w->st);
	w->st = fresh;
}

/* Callers that waited for an answer and do not any more, while the card still waits. */
static inline void write_left(struct world *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n_waits; i++) {
		const struct card_state *card = state_card_by_id(w->st, w->waits[i].seq);
		struct entry e = blank(w, ENTRY_TIMEOUT);

		if (w->waits[i].until > w->now) {
			w->waits[kept++] = w->waits[i];
		} else if (card && card->mode == CARD_PENDING && !card->claim_only) {
			e.timeout = (struct entry_timeout){ .session = card->session, .card = card->id, .waiter = true };
			put(w, &e);
		}
	}
	w->n_waits = kept;
}

/* As the spine does: what is due at now is written before anything is judged. */
static inline void write_due(struct world *w)
{
	static struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct deadline due;

	while (state_next_deadline(w->st, &due) && due.at <= w->now) {
		struct entry e = blank(w, due.kind == DEADLINE_CARD ? ENTRY_TIMEOUT : ENTRY_LOSS);

		if (due.kind == DEADLINE_CARD)
			e.timeout = (struct entry_timeout){ .session = due.session, .card = due.id };
		else
			e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = due.session, .decision = due.id, .breakers = rows,
						      .n_breakers = breaker_report(w->pol, w->st, state_decision(w->st, due.id), OUTCOME_EXPIRED, w->now, rows) };
		put(w, &e);
	}
	write_left(w);
}

/* ---- names ---- */

static inline uint64_t session_id(const struct world *w, const char *name)
{
	for (size_t i = w->n_sessions; i > 0; i--)
		if (!name || strcmp(w->sessions[i - 1].name, name) == 0)
			return w->sessions[name ? i - 1 : w->at].seq;
	FAIL(w, "no session %s", name ? name : "at all");
	return 0;
}

static inline uint64_t call_id(const struct world *w, const char *name)
{
	for (size_t i = w->n_calls; name && i > 0; i--)
		if (strcmp(w->calls[i - 1].name, name) == 0)
			return w->calls[i - 1].seq;
	FAIL(w, "nothing is named %s", name ? name : "(no name)");
	return 0;
}

static inline void name_it(struct world *w, const char *name, uint64_t seq)
{
	size_t i = 0;

	while (i < w->n_calls && strcmp(w->calls[i].name, name) != 0)
		i++;
	assert_true(i < PAWL_LEN(w->calls));
	w->n_calls += i == w->n_calls;
	w->calls[i].seq = seq;
	(void)snprintf(w->calls[i].name, sizeof(w->calls[i].name), "%s", name);
}

static inline const struct card_state *card_named(const struct world *w, const struct ynode *s, const char *key)
{
	const struct card_state *card = state_card_by_id(w->st, call_id(w, text_of(s, key)));

	if (!card)
		FAIL(w, "%s is no card", text_of(s, key));
	return card;
}

/* The step wanted this refusal, or none when code is "". */
static inline bool refused(const struct world *w, const struct ynode *s, const char *code)
{
	const char *want = text_of(s, "refuse");

	if (strcmp(want ? want : "", code) != 0)
		FAIL(w, "refused with \"%s\", not \"%s\"", code, want ? want : "");
	return code[0] != '\0';
}

/* ---- sessions ---- */

static inline struct json *labels_of(const char *text)
{
	struct buf b = BUF_MAX(4096);
	struct json *doc = NULL;
	const char *eq = text ? strchr(text, '=') : NULL;

	if (eq) {
		buf_printf(&b, "{\"%.*s\":\"%s\"}", (int)(eq - text), text, eq + 1);
		assert_int_equal(json_parse(buf_str(&b), 4, &doc, NULL), 0);
	}
	buf_done(&b);
	return doc;
}

static inline void do_open(struct world *w, const struct ynode *s)
{
	const struct session_state *parent = text_of(s, "parent") ? state_session(w->st, session_id(w, text_of(s, "parent"))) : NULL;
	const char *money = text_of(s, "money");
	struct entry e = blank(w, ENTRY_SESSION);
	struct reason why;
	int64_t end = 0;

	why.code = REASON_OK;
	if (refused(w, s, session_may_open(w->pol, w->st, parent, STR("local"), w->now, &end, &why) ? "" : reason_name(why.code)))
		return;
	e.session = (struct entry_session){ .session = e.seq, .parent = parent ? parent->id : 0, .root = parent ? parent->root : e.seq, .agent = STR("local"),
					    .labels_text = STR("{}"), .lease_ns = w->pol->sessions.lease_ns, .fresh_end = end };
	if (money && money[strlen(money) - 1] == '%')
		e.session.limit[UNIT_MONEY] = share_of_rest(w->pol, w->st, parent, w->now, (int)strtol(money, NULL, 10));
	else if (money)
		assert_int_equal(money_parse(str_of(money), MONEY_EXACT, &e.session.limit[UNIT_MONEY], NULL), 0);
	e.session.has_limit[UNIT_MONEY] = money != NULL;
	put(w, &e);
	assert_true(w->n_sessions < PAWL_LEN(w->sessions));
	w->at = w->n_sessions++;
	w->labels[w->at] = labels_of(text_of(s, "labels"));
	w->sessions[w->at].seq = e.seq;
	(void)snprintf(w->sessions[w->at].name, sizeof(w->sessions[0].name), "%s", text_of(s, "open"));
}

static inline void do_use(struct world *w, const char *name)
{
	uint64_t id = session_id(w, name);

	while (w->sessions[w->at].seq != id)
		w->at = (w->at + 1) % w->n_sessions;
}

static inline void do_close(struct world *w, const struct ynode *s)
{
	struct entry e = blank(w, ENTRY_SESSION);

	e.session = (struct entry_session){ .action = SESSION_CLOSE, .session = session_id(w, text_of(s, "close")) };
	put(w, &e);
}

/* ---- ask and claim ---- */

static inline int64_t left_in(const struct judgement *j, const char *budget, size_t n, enum unit *unit)
{
	int64_t least = -1;

	for (size_t i = 0; i < j->n_draws; i++) {
		const struct draw *d = &j->draws[i];
		int64_t left = d->limit + d->granted - d->used - (j->answer == VERDICT_ALLOW ? d->amount : 0);

		if (d->key.budget.n != n || memcmp(d->key.budget.p, budget, n) != 0)
			continue;
		*unit = d->unit;
		left = left < 0 ? 0 : left;
		least = least < 0 || left < least ? left : least;
	}
	return least;
}

static inline void check_amount(const struct world *w, const char *what, const char *want, enum unit unit, int64_t got)
{
	char text[32];

	(void)amount_text(unit, got, text);
	if (strcmp(want, text) != 0)
		FAIL(w, "%s is %s, not %s", what, text, want);
}

static inline void check_answer(const struct world *w, const struct ynode *s, const struct judgement *j, uint64_t seq)
{
	const char *code = text_of(s, "code"), *rule = text_of(s, "rule"), *left = text_of(s, "left"), *review = text_of(s, "review");
	const struct reason *why = j->would ? &j->would_why : &j->why;
	enum unit unit = UNIT_MONEY;

	if (!is(s, "want", verdict_name(j->answer)) || (code && strcmp(code, reason_name(why->code)) != 0) || (rule && !str_is(why->rule, rule)))
		FAIL(w, "%s, %s by \"%.*s\": %s", verdict_name(j->answer), reason_name(why->code), STR_ARG(why->rule), why->message);
	if (j->would ? !is(s, "would", verdict_name(j->would)) : text_of(s, "would") != NULL)
		FAIL(w, "would %s", j->would ? verdict_name(j->would) : "be the same");
	if (text_of(s, "counter"))
		check_amount(w, "counter", text_of(s, "counter"), why->unit, why->counter);
	if (text_of(s, "limit"))
		check_amount(w, "limit", text_of(s, "limit"), why->unit, why->limit);
	if (review && (j->card ? j->card : seq) != call_id(w, review))
		FAIL(w, "card %llu", (unsigned long long)(j->card ? j->card : seq));
	if (left) {
		size_t n = strcspn(left, "=");
		int64_t got = left_in(j, left, n, &unit);

		check_amount(w, left, left + n + 1, unit, got);
	}
}

static inline void call_of(struct world *w, const struct ynode *s, const char *tool, char id[static 64], struct request_call *rq, struct json **ret_args)
{
	const char *money = text_of(s, "money"), *args = text_of(s, "args"), *client = text_of(s, "client");

	(void)snprintf(id, 64, "c-%d", w->n_asked++);
	assert_int_equal(json_parse(str_of(args ? args : "{}"), PAWL_MAX_DEPTH, ret_args, NULL), 0);
	*rq = (struct request_call){ .call = str_of(text_of(s, "call") ? text_of(s, "call") : id), .tool = str_of(tool), .args = *ret_args,
				     .has_money = money != NULL, .kind = is(s, "kind", "delegate") ? CALL_DELEGATE : CALL_TOOL };
	rq->client[0] = (uint8_t)(client ? client[0] : 0);
	if (money)
		assert_int_equal(money_parse(str_of(money), MONEY_UP, &rq->money, NULL), 0);
}

static inline enum verdict ask_once(struct world *w, const struct ynode *s, const char *tool, uint64_t claim, bool look)
{
	static struct judgement j;
	const struct session_state *who = state_session(w->st, w->sessions[w->at].seq);
	struct caller me = { .session = who->id, .root = who->root, .agent = who->agent, .labels = w->labels[w->at], .secret = secret };
	struct pawl_error err = { .code = PAWL_OK };
	struct request_call rq;
	struct json *args = NULL;
	struct facts f;
	struct entry e;
	char id[64];

	call_of(w, s, tool, id, &rq, &args);
	if (facts_of(w->pol, &rq, &me, NULL, &w->scratch, &f, &err) != 0)
		FAIL(w, "%s", err.msg);
	if (claim && refused(w, s, claim_prepare(w->st, claim, &f, &err) < 0 ? "malformed" : "")) {
		json_free(args);
		return VERDICT_UNSET;
	}
	if (claim)
		judge_claim(w->pol, w->st, &f, claim, w->now, &j);
	else
		judge(w->pol, w->st, &f, w->now, &j);
	if (!j.replay && text_of(s, "as"))
		name_it(w, text_of(s, "as"), j.answer == VERDICT_REVIEW && j.card ? j.card : state_next_seq(w->st));
	if (look && !j.replay)
		check_answer(w, s, &j, state_next_seq(w->st));
	else if (look && !is(s, "want", verdict_name(j.answer)))
		FAIL(w, "%s again", verdict_name(j.answer));
	if (!j.replay) {
		entry_from_judgement(w->pol, &rq, &f, &j, w->now, w->now, state_next_seq(w->st), &e);
		put(w, &e);
		if (j.answer == VERDICT_ALLOW) {
			assert_true(w->n_open < PAWL_LEN(w->open));
			w->open[w->n_open++] = e.seq;
		}
		if (text_of(s, "wait") && j.answer == VERDICT_REVIEW) {
			assert_true(w->n_waits < PAWL_LEN(w->waits));
			w->waits[w->n_waits].seq = j.card ? j.card : e.seq;
			w->waits[w->n_waits++].until = w->now + strtol(text_of(s, "wait"), NULL, 10) * NS_PER_SEC;
		}
	}
	json_free(args);
	return j.answer;
}

static inline void do_ask(struct world *w, const struct ynode *s)
{
	int together = number_of(s, "at_once", 0), times = number_of(s, "times", 1), got[4] = { 0 };
	const char *claim = text_of(s, "claim"), *tool = text_of(s, claim ? "tool" : "ask");

	write_due(w);
	for (int i = 0; i < together; i++)
		got[ask_once(w, s, tool, 0, false)]++;
	if (got[VERDICT_ALLOW] != number_of(s, "allow", 0) || got[VERDICT_REVIEW] != number_of(s, "review", 0) || got[VERDICT_DENY] != number_of(s, "deny", 0))
		FAIL(w, "%d allow, %d review, %d deny", got[VERDICT_ALLOW], got[VERDICT_REVIEW], got[VERDICT_DENY]);
	for (int i = 0; i < times && !together; i++)
		(void)ask_once(w, s, tool, claim ? call_id(w, claim) : 0, true);
}

static inline void world_done(struct world *w)
{
	for (size_t i = 0; i < w->n_bodies; i++)
		free(w->bodies[i]);
	free(w->bodies);
	for (size_t i = 0; i < w->n_sessions; i++)
		json_free(w->labels[i]);
	state_free(w->st);
	rejudging_done(&w->again);
	policy_free(w->pol);
	buf_done(&w->scratch);
}

#endif
