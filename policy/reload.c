/* policy/reload.c - see reload.h. Two halves: which ledgers move and which start at a scope's life (what state_reload.c then
 * does), and what became looser, tighter or merely different, in short texts. Looser ones come first, so that a long list never
 * hides one. Owns nothing. */
#include "pawl/reload.h"

#include "policy/money.h"
#include "policy/reload_watch.h"
#include "policy/zone.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- ledgers ---- */

static void budget_like(const struct budget *b, uint8_t out[static 16])
{
	const int64_t window[] = { b->every.kind, b->every.kind == WINDOW_SPAN ? b->every.span_ns : 0 };
	crypto_generichash_state h;

	(void)crypto_generichash_init(&h, NULL, 0, 16);
	(void)crypto_generichash_update(&h, b->match, sizeof(b->match));
	(void)crypto_generichash_update(&h, (const uint8_t *)window, sizeof(window));
	if (b->every.zone)
		(void)crypto_generichash_update(&h, (const uint8_t *)b->every.zone->name.p, b->every.zone->name.n);
	(void)crypto_generichash_final(&h, out, 16);
}

static bool same_scope(const struct budget_row *a, const struct budget_row *b)
{
	return a->unit == b->unit && a->scope == b->scope && a->per_tool == b->per_tool;
}

/* The one whose ledgers this one goes on with: of its own name and scope. */
static const struct budget_row *same_ledgers(const struct budget_row *row, const struct budget_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(rows[i].id, row->id) && same_scope(&rows[i], row))
			return &rows[i];
	return NULL;
}

static const struct budget_row *taken_over(const struct reload *r, const struct budget_row *gone)
{
	for (size_t i = 0; i < r->budgets.n; i++)
		if (r->rows[i].from.n && str_eq(r->rows[i].from, gone->id) && same_scope(&r->rows[i], gone))
			return &r->rows[i];
	return NULL;
}

static struct str find_rename(const struct reload *r, const struct budget_row *row, const struct budget_row *old, size_t n_old)
{
	for (size_t i = 0; i < n_old; i++)
		if (same_scope(&old[i], row) && memcmp(old[i].like, row->like, sizeof(row->like)) == 0 && !str_eq(old[i].id, row->id) &&
		    !same_ledgers(&old[i], r->rows, r->budgets.n) && !taken_over(r, &old[i]))
			return old[i].id;
	return STR_NONE;
}

static void plan_ledgers(struct reload *r, const struct policy *pol, const struct budget_row *old, size_t n_old, bool known)
{
	r->budgets = (struct entry_budgets){ .rows = r->rows, .n = pol->n_budgets, .none = pol->n_budgets == 0, .changes = r->changes };
	for (size_t i = 0; i < pol->n_budgets; i++) {
		const struct budget *b = &pol->budgets[i];

		r->rows[i] = (struct budget_row){ .id = b->id, .unit = b->unit, .scope = b->scope, .per_tool = b->per_tool, .limit = b->limit,
						  .windowed = b->every.kind != WINDOW_NONE };
		budget_like(b, r->rows[i].like);
	}
	for (size_t i = 0; known && i < pol->n_budgets; i++) {
		struct budget_row *row = &r->rows[i];
		const struct budget_row *before = same_ledgers(row, old, n_old);

		if (!before)
			row->from = find_rename(r, row, old, n_old);
		row->life = !row->windowed && !row->from.n && row->unit != UNIT_TIME && (!before || before->windowed);
	}
}

/* ---- texts ---- */

struct teller {
	struct reload *r;
	enum reload_way now; /* of the three rounds: only these are written */
	const struct policy *old, *pol;
	const struct budget_row *rows; /* the budgets before */
	size_t n_rows;
	enum policy_mode mode; /* the one before, which the state knows across a restart too */
};

PAWL_PRINTF(3, 4) static void tell(struct teller *t, enum reload_way way, const char *fmt, ...)
{
	static const char *const words[WAY_COUNT] = { "loosened: ", "tightened: ", "changed: " };
	struct reload *r = t->r;
	size_t at, n;
	va_list ap;

	if (way != t->now)
		return;
	*(way == LOOSER ? &r->loosened : way == TIGHTER ? &r->tightened : &r->changed) += 1;
	at = r->budgets.n_changes;
	if (at == PAWL_MAX_CHANGES) {
		r->left_out++;
		return;
	}
	n = (size_t)snprintf(r->text[at], PAWL_CHANGE_TEXT, "%s", words[way]);
	va_start(ap, fmt);
	(void)vsnprintf(r->text[at] + n, PAWL_CHANGE_TEXT - n, fmt, ap);
	va_end(ap);
	r->changes[at] = str_of(r->text[at]);
	r->budgets.n_changes++;
}

bool change_loosens(struct str change)
{
	return change.n >= 9 && memcmp(change.p, "loosened:", 9) == 0;
}

static const char *amount(enum unit unit, int64_t v, char out[static MONEY_TEXT])
{
	if (unit == UNIT_MONEY)
		(void)money_text(v, out);
	else if (unit == UNIT_TIME)
		(void)span_text(v, out);
	else
		(void)snprintf(out, MONEY_TEXT, "%lld", (long long)v);
	return out;
}

/* A number of which more is looser. */
static void tell_amount(struct teller *t, const char *what, struct str id, const char *key, enum unit unit, int64_t a, int64_t b)
{
	char from[MONEY_TEXT], to[MONEY_TEXT];

	if (a != b)
		tell(t, b > a ? LOOSER : TIGHTER, "%s%.*s %s %s -> %s", what, STR_ARG(id), key, amount(unit, a, from), amount(unit, b, to));
}

/* One of which less is looser: more of it asks or holds back more. */
static void tell_brake(struct teller *t, const char *what, struct str id, const char *key, enum unit unit, int64_t a, int64_t b)
{
	char from[MONEY_TEXT], to[MONEY_TEXT];

	if (a != b)
		tell(t, b < a ? LOOSER : TIGHTER, "%s%.*s %s %s -> %s", what, STR_ARG(id), key, amount(unit, a, from), amount(unit, b, to));
}

static const char *verdict_word(enum verdict v)
{
	return v == VERDICT_ALLOW ? "allow" : v == VERDICT_REVIEW ? "review" : "deny";
}

static void tell_verdict(struct teller *t, const char *what, struct str id, enum verdict a, enum verdict b)
{
	if (a != b) /* the enum goes from lax to strict */
		tell(t, b < a ? LOOSER : TIGHTER, "%s%.*s %s -> %s", what, STR_ARG(id), verdict_word(a), verdict_word(b));
}

/* ---- budgets ---- */

static const struct budget *budget_named(const struct policy *pol, struct str id)
{
	for (size_t i = 0; pol && i < pol->n_budgets; i++)
		if (str_eq(pol->budgets[i].id, id))
			return &pol->budgets[i];
	return NULL;
}

/* What the rows do not have is known from the old policy only. */
static void tell_budget_more(struct teller *t, struct str before, struct str id)
{
	const struct budget *a = budget_named(t->old, before), *b = budget_named(t->pol, id);

	if (!a || !b)
		return;
	tell_brake(t, "budget ", id, "floor", b->unit, a->floor, b->floor);
	tell_amount(t, "budget ", id, "grant_max", b->unit, a->grant_max, b->grant_max);
	tell_verdict(t, "budget ", id, a->then, b->then);
	if (a->zero_cost_deny != b->zero_cost_deny)
		tell(t, b->zero_cost_deny ? TIGHTER : LOOSER, "budget %.*s zero_cost: %s", STR_ARG(id), b->zero_cost_deny ? "deny" : "allow");
}

static void tell_new(struct teller *t, const struct budget_row *row)
{
	tell(t, TIGHTER, "budget %.*s is new%s", STR_ARG(row->id), row->life ? ", starts at what was spent" : "");
}

static void tell_budget(struct teller *t, const struct budget_row *row)
{
	const struct budget_row *before = same_ledgers(row, t->rows, t->n_rows);

	if (row->from.n) {
		for (size_t i = 0; i < t->n_rows && !before; i++)
			if (str_eq(t->rows[i].id, row->from) && same_scope(&t->rows[i], row))
				before = &t->rows[i];
		tell(t, OTHER, "budget %.*s is now %.*s; its spend moves", STR_ARG(row->from), STR_ARG(row->id));
	}
	if (!before) {
		tell_new(t, row);
		return;
	}
	tell_amount(t, "budget ", row->id, "limit", row->unit, before->limit, row->limit);
	if (before->windowed != row->windowed)
		tell(t, row->windowed ? LOOSER : TIGHTER, "budget %.*s %s", STR_ARG(row->id), row->windowed ? "has a window now" : "has no window any more");
	else if (memcmp(before->like, row->like, sizeof(row->like)) != 0)
		tell(t, OTHER, "budget %.*s: other match or window", STR_ARG(row->id));
	tell_budget_more(t, before->id, row->id);
}

static void tell_budgets(struct teller *t)
{
	for (size_t i = 0; i < t->r->budgets.n; i++)
		tell_budget(t, &t->r->rows[i]);
	for (size_t i = 0; i < t->n_rows; i++)
		if (!same_ledgers(&t->rows[i], t->r->rows, t->r->budgets.n) && !taken_over(t->r, &t->rows[i]))
			tell(t, LOOSER, "budget %.*s is gone", STR_ARG(t->rows[i].id));
}

/* ---- rules and tools ---- */

static const struct rule *rule_named(const struct policy *pol, struct str id)
{
	for (size_t i = 0; i < pol->n_rules; i++)
		if (str_eq(pol->rules[i].id, id))
			return &pol->rules[i];
	return NULL;
}

static void tell_rules(struct teller *t)
{
	for (size_t i = 0; i < t->pol->n_rules; i++) {
		const struct rule *b = &t->pol->rules[i], *a = rule_named(t->old, b->id);

		if (!a)
			tell(t, b->answer == VERDICT_ALLOW ? LOOSER : TIGHTER, "rule %.*s (%s) is new", STR_ARG(b->id), verdict_word(b->answer));
		else if (a->answer != b->answer)
			tell_verdict(t, "rule ", b->id, a->answer, b->answer);
		else if (memcmp(a->print, b->print, sizeof(b->print)) != 0)
			tell(t, OTHER, "rule %.*s (%s)", STR_ARG(b->id), verdict_word(b->answer));
	}
	for (size_t i = 0; i < t->old->n_rules; i++) {
		const struct rule *a = &t->old->rules[i];

		if (!rule_named(t->pol, a->id))
			tell(t, a->answer == VERDICT_ALLOW ? TIGHTER : LOOSER, "rule %.*s (%s) is gone", STR_ARG(a->id), verdict_word(a->answer));
	}
}

static const struct tool *tool_named(const struct policy *pol, struct str name)
{
	for (size_t i = 0; i < pol->n_tools; i++)
		if (str_eq(pol->tools[i].name, name))
			return &pol->tools[i];
	return NULL;
}

static void tell_tools(struct teller *t)
{
	for (size_t i = 0; i < t->pol->n_tools; i++) {
		const struct tool *b = &t->pol->tools[i], *a = tool_named(t->old, b->name);

		if (!a || memcmp(a->print, b->print, sizeof(b->print)) != 0)
			tell(t, OTHER, "tool %.*s%s", STR_ARG(b->name), a ? "" : " is new");
	}
	for (size_t i = 0; i < t->old->n_tools; i++)
		if (!tool_named(t->pol, t->old->tools[i].name))
			tell(t, OTHER, "tool %.*s is gone", STR_ARG(t->old->tools[i].name));
}

/* ---- loops, breakers, caps ---- */

static struct loop_rule of_repeat(const struct loop_repeat *r)
{
	return (struct loop_rule){ .on = r->on, .limit = r->limit, .window = r->window, .then = r->then };
}

static bool same_texts(const struct str *a, size_t n_a, const struct str *b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (!str_eq(a[i], b[i]))
			return false;
	return true;
}

static void tell_loop(struct teller *t, const char *name, const struct loop_rule *a, const struct loop_rule *b)
{
	if (!a->on || !b->on) {
		if (a->on != b->on)
			tell(t, b->on ? TIGHTER : LOOSER, "loops.%s is %s", name, b->on ? "on" : "off");
		return;
	}
	tell_amount(t, "loops.", str_of(name), "limit", UNIT_CALLS, a->limit, b->limit);
	tell_brake(t, "loops.", str_of(name), "window", UNIT_CALLS, a->window, b->window);
	tell_verdict(t, "loops.", str_of(name), a->then, b->then);
	if (a->period_min != b->period_min || a->period_max != b->period_max)
		tell(t, b->period_min <= a->period_min && b->period_max >= a->period_max ? TIGHTER : LOOSER, "loops.%s period", name);
}

static void tell_loops(struct teller *t)
{
	const struct policy *a = t->old, *b = t->pol;
	struct loop_rule ra = of_repeat(&a->repeat), rb = of_repeat(&b->repeat);

	tell_loop(t, "repeat", &ra, &rb);
	if (ra.on && rb.on && a->repeat.same_args != b->repeat.same_args)
		tell(t, b->repeat.same_args ? LOOSER : TIGHTER, "loops.repeat same: %s", b->repeat.same_args ? "[tool, args]" : "[tool]");
	if (!same_texts(a->repeat.ignore, a->repeat.n_ignore, b->repeat.ignore, b->repeat.n_ignore))
		tell(t, OTHER, "loops.repeat ignore");
	tell_loop(t, "cycle", &a->cycle, &b->cycle);
	tell_loop(t, "errors", &a->errors, &b->errors);
	tell_loop(t, "stuck", &a->stuck, &b->stuck);
}

static const struct breaker *breaker_named(const struct policy *pol, struct str id)
{
	for (size_t i = 0; i < pol->n_breakers; i++)
		if (str_eq(pol->breakers[i].id, id))
			return &pol->breakers[i];
	return NULL;
}

static int64_t or_never(int64_t count)
{
	return count ? count : INT64_MAX;
}

static void tell_breaker(struct teller *t, const struct breaker *a, const struct breaker *b)
{
	if (or_never(a->failures) != or_never(b->failures))
		tell(t, or_never(b->failures) > or_never(a->failures) ? LOOSER : TIGHTER, "breaker %.*s failures %lld -> %lld", STR_ARG(b->id),
		     (long long)a->failures, (long long)b->failures);
	if (or_never(a->denials) != or_never(b->denials))
		tell(t, or_never(b->denials) > or_never(a->denials) ? LOOSER : TIGHTER, "breaker %.*s denials %lld -> %lld", STR_ARG(b->id),
		     (long long)a->denials, (long long)b->denials);
	if (or_never(a->breaches) != or_never(b->breaches))
		tell(t, or_never(b->breaches) > or_never(a->breaches) ? LOOSER : TIGHTER, "breaker %.*s breaches %lld -> %lld", STR_ARG(b->id),
		     (long long)a->breaches, (long long)b->breaches);
	tell_brake(t, "breaker ", b->id, "within", UNIT_TIME, a->within_ns, b->within_ns);
	tell_brake(t, "breaker ", b->id, "cool_down", UNIT_TIME, a->cool_down_ns, b->cool_down_ns);
	if (a->sticky != b->sticky)
		tell(t, b->sticky ? TIGHTER : LOOSER, "breaker %.*s sticky: %s", STR_ARG(b->id), b->sticky ? "true" : "false");
	if (a->has_scope != b->has_scope || a->per_tool != b->per_tool || a->scope != b->scope ||
	    memcmp(a->match, b->match, sizeof(b->match)) != 0)
		tell(t, OTHER, "breaker %.*s: other per or match", STR_ARG(b->id));
}

static void tell_breakers(struct teller *t)
{
	for (size_t i = 0; i < t->pol->n_breakers; i++) {
		const struct breaker *b = &t->pol->breakers[i], *a = breaker_named(t->old, b->id);

		if (a)
			tell_breaker(t, a, b);
		else
			tell(t, TIGHTER, "breaker %.*s is new", STR_ARG(b->id));
	}
	for (size_t i = 0; i < t->old->n_breakers; i++)
		if (!breaker_named(t->pol, t->old->breakers[i].id))
			tell(t, LOOSER, "breaker %.*s is gone", STR_ARG(t->old->breakers[i].id));
}

static void tell_caps(struct teller *t)
{
	const struct policy *a = t->old, *b = t->pol;

	tell_amount(t, "sessions.", STR("open"), "", UNIT_CALLS, a->sessions.open, b->sessions.open);
	if (or_never(a->sessions.fresh) != or_never(b->sessions.fresh))
		tell(t, or_never(b->sessions.fresh) > or_never(a->sessions.fresh) ? LOOSER : TIGHTER, "sessions.new %lld -> %lld",
		     (long long)a->sessions.fresh, (long long)b->sessions.fresh);
	if (a->sessions.fresh && b->sessions.fresh)
		tell_brake(t, "sessions.", STR("new"), "per", UNIT_TIME, a->sessions.fresh_every_ns, b->sessions.fresh_every_ns);
	tell_amount(t, "sessions.", STR("depth"), "", UNIT_CALLS, a->sessions.depth, b->sessions.depth);
	tell_amount(t, "sessions.", STR("calls"), "", UNIT_CALLS, a->sessions.calls, b->sessions.calls);
	tell_amount(t, "sessions.", STR("lease"), "", UNIT_TIME, a->sessions.lease_ns, b->sessions.lease_ns);
	tell_brake(t, "sessions.", STR("abort_hold"), "", UNIT_TIME, a->reviews.abort_hold_ns, b->reviews.abort_hold_ns);
	tell_amount(t, "reviews.", STR("pending"), "", UNIT_CALLS, a->reviews.pending, b->reviews.pending);
	tell_amount(t, "reviews.", STR("timeout"), "", UNIT_TIME, a->reviews.timeout_ns, b->reviews.timeout_ns);
	tell_amount(t, "limits.", STR("decide"), "", UNIT_CALLS, a->limits.per_second, b->limits.per_second);
	tell_amount(t, "limits.", STR("burst"), "", UNIT_CALLS, a->limits.burst, b->limits.burst);
}

static void tell_watched(void *arg, enum reload_way way, const char *text)
{
	tell(arg, way, "%s", text);
}

static void tell_mode(struct teller *t)
{
	if (t->mode != t->pol->mode)
		tell(t, t->pol->mode == MODE_SHADOW ? LOOSER : TIGHTER, "mode %s -> %s%s", policy_mode_word(t->mode).p, policy_mode_word(t->pol->mode).p,
		     t->pol->mode == MODE_SHADOW ? ": nothing is refused any more" : ": what shadow mode remembered is cleared");
}

static void tell_all(struct teller *t)
{
	tell_mode(t);
	if (t->old) {
		tell_verdict(t, "default", STR(""), t->old->fallback, t->pol->fallback);
		if (t->old->attended != t->pol->attended)
			tell(t, t->pol->attended ? LOOSER : TIGHTER, "attended: %s", t->pol->attended ? "true" : "false");
		if (!str_eq(t->old->currency, t->pol->currency))
			tell(t, OTHER, "currency %.*s -> %.*s", STR_ARG(t->old->currency), STR_ARG(t->pol->currency));
		tell_rules(t);
	}
	tell_budgets(t);
	if (!t->old)
		return;
	tell_loops(t);
	tell_breakers(t);
	tell_caps(t);
	reload_watch(&t->old->watch, &t->pol->watch, tell_watched, t);
	reload_log(&t->old->log, &t->pol->log, tell_watched, t);
	tell_tools(t);
}

void policy_diff(const struct policy *old, const struct state *st, const struct policy *pol, struct reload *ret)
{
	struct budget_row rows[PAWL_MAX_BUDGETS];
	struct teller t = { .r = ret, .old = old, .pol = pol, .rows = rows, .mode = state_mode(st) };
	struct reload *r = ret;
	bool known;

	r->loosened = r->tightened = r->changed = r->left_out = 0;
	t.n_rows = state_budgets(st, rows, &known);
	plan_ledgers(r, pol, rows, t.n_rows, known);
	if (known)
		for (t.now = LOOSER; t.now < WAY_COUNT; t.now++)
			tell_all(&t);
	if (r->left_out) /* the last one is no loosening unless all are */
		(void)snprintf(r->text[PAWL_MAX_CHANGES - 1], PAWL_CHANGE_TEXT, "%s: and %zu more",
			       r->loosened > PAWL_MAX_CHANGES - 1 ? "loosened" : "changed", r->left_out + 1);
	if (r->left_out)
		r->changes[PAWL_MAX_CHANGES - 1] = str_of(r->text[PAWL_MAX_CHANGES - 1]);
}
