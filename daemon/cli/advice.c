/* daemon/cli/advice.c - see advice.h. Owns one constant table. A code without a row gets a sentence that is true of all. */
#include "daemon/cli/advice.h"

static const char *const rows[REASON_COUNT] = {
	[REASON_DEFAULT] = "an allow rule that names the tool and whose conditions hold for this call",
	[REASON_RULE] = "other arguments, where the rule has conditions; else only a change of that rule in the policy",
	[REASON_STICKY_DENIAL] = "a new session where the rule sticks for the session or tree; for the agent, only a change of the policy",
	[REASON_TRANSITIVE] = "a change of the rule that denies what the tool uses, or of the tool's `uses`",
	[REASON_BUDGET] = "a higher limit in the policy (or of the caller's own), a smaller call, an estimate where the cost is unknown, or the "
			  "window's end where there is one",
	[REASON_FLOOR] = "a person's resume, a smaller call, or a lower floor",
	[REASON_LOOP_REPEAT] = "other arguments, other calls in between until the window has moved on, or a higher limit of the loop rule",
	[REASON_LOOP_CYCLE] = "another tool or other arguments than those of the cycle; its members stay refused in this tree",
	[REASON_LOOP_SIMILAR] = "a call that differs more from those before",
	[REASON_LOOP_ERROR] = "calls that end otherwise until the window has moved on, or a higher limit of the loop rule",
	[REASON_LOOP_RESULT] = "a settled result that differs, or a higher limit of the loop rule",
	[REASON_BREAKER_OPEN] = "the end of the cool-down, after which one call may try; or an operator's `pawl breaker reset`",
	[REASON_REVIEW_REQUIRED] = "answers to the reviews that wait already (`pawl reviews`), or a higher reviews.pending",
	[REASON_REVIEW_SKIPPED] = "other arguments: a person skipped this exact call for this session",
	[REASON_REVIEW_ABORTED] = "a new session, once the hold is over",
	[REASON_REVIEW_TIMEOUT] = "the same call asked again with `decide`: it opens a new review",
	[REASON_SESSION_ABORTED] = "a new session, once the hold is over",
	[REASON_SESSION_CLOSED] = "a new session",
	[REASON_STALE_SESSION] = "a new session; heartbeats keep one alive",
	[REASON_RESULT_WITHHELD] = "nothing: the result stays where it is",
	[REASON_IN_DOUBT] = "the report (settle) of the process that was allowed this call, or a person's resume",
	[REASON_ALREADY_SETTLED] = "a new call id: this call was answered and reported",
	[REASON_ALREADY_CLAIMED] = "a new call id: the permit was handed out already",
	[REASON_SESSION_LIMIT] = "a new session, or higher caps in `sessions:`",
	[REASON_THROTTLED] = "asking more slowly, or a higher rate in `limits:`",
	[REASON_POLICY_CHANGED] = "the same call asked again: the policy has changed since",
	[REASON_LOG_UNAVAILABLE] = "a log that can be written; `pawl status` says why it cannot",
	[REASON_WATCH_REQUIRED] = "a session that runs under watch: `pawl run -- CMD`; `pawl doctor` says what this machine can watch",
	[REASON_UNAVAILABLE] = "a pawld that answers",
};

const char *advice_of(enum reason_code code, enum verdict answer)
{
	if (answer == VERDICT_ALLOW)
		return "";
	if (answer == VERDICT_REVIEW && code != REASON_BUDGET && code != REASON_FLOOR && code != REASON_IN_DOUBT)
		return "a person's resume (`pawl resume`), which lets this exact call run once";
	if (answer == VERDICT_REVIEW && code == REASON_BUDGET)
		return "a person's resume, which adds exactly what is missing (at most the budget's grant_max); or a smaller call";
	return (unsigned)code < REASON_COUNT && rows[code] ? rows[code] : "a change of what the message names";
}
