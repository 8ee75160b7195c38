/* daemon/log/entry_names.c - the words of every enum that an entry spells, and the functions that hand them to others.
 * Owns constant tables only. */
#include "daemon/log/entry.h"

#include "daemon/log/entry_fields.h"

#define N(lit)                       \
	{                            \
		lit, sizeof(lit) - 1 \
	}

static const struct str kinds[] = {
	[ENTRY_START] = N("start"),     [ENTRY_STOP] = N("stop"),         [ENTRY_POLICY] = N("policy"),
	[ENTRY_SESSION] = N("session"), [ENTRY_DECISION] = N("decision"), [ENTRY_SETTLE] = N("settle"),
	[ENTRY_CLAIM] = N("claim"),     [ENTRY_RESOLVE] = N("resolve"),   [ENTRY_BREAKER] = N("breaker"),
	[ENTRY_KEY] = N("key"),         [ENTRY_TIMEOUT] = N("timeout"),   [ENTRY_THROTTLE] = N("throttle"),
	[ENTRY_LOSS] = N("loss"),       [ENTRY_SNAPSHOT] = N("snapshot"),
	[ENTRY_WATCH] = N("watch")
};
static const struct str actions[] = { N("open"), N("close"), N("stale"), N("abort") };
static const struct str call_kinds[] = { N("tool"), N("llm"), N("delegate"), N("http"), N("code") };
static const struct str scopes[] = { N("session"), N("agent"), N("tenant"), N("global") };
static const struct str reaches[] = { N("session"), N("agent"), N("tenant"), N("global"), [SCOPE_COUNT] = N("all") };
static const struct str whats[] = { N("reservation_expired"), N("late_settle"), N("torn_tail") };
static const struct str verdicts[] = { N("deny"), N("allow"), N("review"), N("deny") }; /* unset is a deny, here too */
static const struct str outcomes[] = { [OUTCOME_OK] = N("ok"),
				       [OUTCOME_ERROR] = N("error"),
				       [OUTCOME_CANCELLED] = N("cancelled"),
				       [OUTCOME_NOT_RUN] = N("not_run"),
				       [OUTCOME_EXPIRED] = N("expired") };
static const struct str sticks[] = {
	[STICK_SESSION] = N("session"), [STICK_TREE] = N("tree"), [STICK_AGENT] = N("agent")
}; /* one that is not remembered is not written */
static const struct str modes[] = { N("closed"), N("open"), N("half_open") };
static const struct str answers[] = { N("resume"), N("skip"), N("abort"), N("close") };
static const struct str watched[] = { N("attach"), N("execs"), N("kill"), N("breach"), N("lost"), N("left"), N("end") };
static const struct str holds[] = { N("deny_exec"), N("processes"), N("fork_rate"), N("exec_rate"), N("cpu"), N("memory"), N("wall"),
				    N("writes_under"), N("exec") };
/* as watch_why_name() has them, which a test compares */
static const struct str whys[] = { [WHY_NONE] = N("none"),
				   [WHY_DENY_EXEC] = N("deny_exec"),
				   [WHY_FILELESS] = N("fileless"),
				   [WHY_LEFT] = N("left"),
				   [WHY_NO_TAG] = N("no_tag"),
				   [WHY_NO_TREE] = N("no_tree"),
				   [WHY_PROCESSES] = N("processes"),
				   [WHY_FORK_RATE] = N("fork_rate"),
				   [WHY_EXEC_RATE] = N("exec_rate"),
				   [WHY_CPU] = N("cpu"),
				   [WHY_MEMORY] = N("memory"),
				   [WHY_WALL] = N("wall"),
				   [WHY_ABORT] = N("abort"),
				   [WHY_ENDED] = N("ended"),
				   [WHY_LAUNCHER] = N("launcher"),
				   [WHY_STALE] = N("stale") };
static const struct str reasons[] = {
#define X(id, text) [REASON_##id] = N(text),
	PAWL_REASONS(X)
#undef X
};
_Static_assert(PAWL_LEN(kinds) == ENTRY_KIND_COUNT, "a kind has no name");
_Static_assert(PAWL_LEN(actions) == SESSION_ACTION_COUNT, "an action has no name");
_Static_assert(PAWL_LEN(call_kinds) == CALL_KIND_COUNT, "a kind of call has no name");
_Static_assert(PAWL_LEN(scopes) == SCOPE_COUNT && PAWL_LEN(reaches) == SCOPE_COUNT + 1, "a scope has no name");
_Static_assert(PAWL_LEN(whats) == LOSS_WHAT_COUNT, "a loss has no name");
_Static_assert(PAWL_LEN(outcomes) == OUTCOME_COUNT, "an outcome has no name");
_Static_assert(PAWL_LEN(sticks) == STICK_COUNT, "a stick has no name");
_Static_assert(PAWL_LEN(modes) == BREAKER_MODE_COUNT, "a breaker's mode has no name");
_Static_assert(PAWL_LEN(answers) == RESOLVE_ACTION_COUNT, "an answer has no name");
_Static_assert(PAWL_LEN(reasons) == REASON_COUNT, "a reason has no name");
_Static_assert(PAWL_LEN(watched) == WATCHED_ACTION_COUNT, "what the watch tells has no name");
_Static_assert(PAWL_LEN(holds) == WATCHED_HOLD_COUNT, "what the kernel holds has no name");
_Static_assert(PAWL_LEN(whys) == WHY_COUNT, "a cause of death has no name");
_Static_assert(sizeof(enum verdict) == 4 && sizeof(enum reason_code) == 4, "the tables read enums as unsigned");

#define NAMES(list)                    \
	{                              \
		(list), PAWL_LEN(list) \
	}
const struct names entry_kind_names = NAMES(kinds);
const struct names entry_action_names = NAMES(actions);
const struct names entry_call_kind_names = NAMES(call_kinds);
const struct names entry_scope_names = NAMES(scopes);
const struct names entry_reach_names = NAMES(reaches);
const struct names entry_what_names = NAMES(whats);
const struct names entry_verdict_names = NAMES(verdicts);
const struct names entry_outcome_names = NAMES(outcomes);
const struct names entry_stick_names = NAMES(sticks);
const struct names entry_mode_names = NAMES(modes);
const struct names entry_answer_names = NAMES(answers);
const struct names entry_reason_names = NAMES(reasons);
const struct names entry_watched_names = NAMES(watched);
const struct names entry_hold_names = NAMES(holds);
const struct names entry_why_names = NAMES(whys);

static const char *name_of(const struct names *names, unsigned v)
{
	return v < names->n ? names->names[v].p : NULL;
}

const char *entry_kind_name(enum entry_kind kind)
{
	return name_of(&entry_kind_names, kind);
}

const char *verdict_name(enum verdict v)
{
	return (unsigned)v < PAWL_LEN(verdicts) ? verdicts[v].p : "deny";
}

const char *scope_name(enum scope s)
{
	return name_of(&entry_scope_names, s);
}

const char *outcome_name(enum outcome o)
{
	return name_of(&entry_outcome_names, o);
}

const char *call_kind_name(enum call_kind k)
{
	return name_of(&entry_call_kind_names, k);
}

const char *stick_name(enum stick s)
{
	return name_of(&entry_stick_names, s);
}

const char *breaker_mode_name(enum breaker_mode m)
{
	return name_of(&entry_mode_names, m);
}

const char *resolve_action_name(enum resolve_action a)
{
	return name_of(&entry_answer_names, a);
}

const char *watched_hold_name(enum watched_hold h)
{
	return name_of(&entry_hold_names, h);
}

const char *watched_action_name(enum watched_action a)
{
	return name_of(&entry_watched_names, a);
}
