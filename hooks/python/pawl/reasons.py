"""Why a call was refused: the closed list of codes, and for each a few words about what would help.

The list is the one of include/pawl/reason.h; tests/python/test_reasons.py compares the two. A code from a newer pawld
that is not here stays text: it is shown as it came and changes nothing, since only the verdict lets a call run.
"""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class ReasonCode(StrEnum):
    OK = "ok"
    DEFAULT = "default"
    RULE = "rule"
    STICKY_DENIAL = "sticky_denial"
    TRANSITIVE = "transitive"
    BUDGET = "budget"
    FLOOR = "floor"
    LOOP_REPEAT = "loop_repeat"
    LOOP_CYCLE = "loop_cycle"
    LOOP_SIMILAR = "loop_similar"
    LOOP_ERROR = "loop_error"
    LOOP_RESULT = "loop_result"
    BREAKER_OPEN = "breaker_open"
    REVIEW_REQUIRED = "review_required"
    REVIEW_SKIPPED = "review_skipped"
    REVIEW_ABORTED = "review_aborted"
    REVIEW_TIMEOUT = "review_timeout"
    SESSION_ABORTED = "session_aborted"
    SESSION_CLOSED = "session_closed"
    STALE_SESSION = "stale_session"
    RESULT_WITHHELD = "result_withheld"
    IN_DOUBT = "in_doubt"
    ALREADY_SETTLED = "already_settled"
    ALREADY_CLAIMED = "already_claimed"
    SESSION_LIMIT = "session_limit"
    THROTTLED = "throttled"
    POLICY_CHANGED = "policy_changed"
    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    REPLAY_CONFLICT = "replay_conflict"
    LOG_UNAVAILABLE = "log_unavailable"
    UNAVAILABLE = "unavailable"
    WATCH_REQUIRED = "watch_required"


# What a person could change. Codes that speak for themselves have no row.
HINTS: dict[str, str] = {
    ReasonCode.DEFAULT: "no rule of the policy names this tool; check the spelling, or add it to an allow rule",
    ReasonCode.RULE: "a rule of the policy says no; the rule, or the arguments, must change",
    ReasonCode.STICKY_DENIAL: "an earlier denial of this tool still binds the session; asking again does not lift it",
    ReasonCode.TRANSITIVE: "this tool uses something that is denied",
    ReasonCode.BUDGET: "raise the limit in the policy (or the guard's budget=), ask for less, or wait for the reset",
    ReasonCode.FLOOR: "the call fits, but would leave less than the budget's floor",
    ReasonCode.LOOP_REPEAT: "the same call ran too often; change its arguments, or raise the limit",
    ReasonCode.LOOP_CYCLE: "the same calls keep coming round; do something else",
    ReasonCode.LOOP_ERROR: "the tool keeps failing in the same way; find out why before it is called again",
    ReasonCode.LOOP_RESULT: "the tool's results no longer change; do something else",
    ReasonCode.BREAKER_OPEN: "too much went wrong in a row; one call may try again after retry_after",
    ReasonCode.REVIEW_REQUIRED: "a person answers it: `pawl reviews`, `pawl resume | skip | abort`",
    ReasonCode.REVIEW_SKIPPED: "a person decided against this call; go on without it",
    ReasonCode.REVIEW_ABORTED: "a person ended this session",
    ReasonCode.REVIEW_TIMEOUT: "nobody answered in time; the call may ask again",
    ReasonCode.SESSION_ABORTED: "a person ended this session; a new one opens when the policy's abort_hold is over",
    ReasonCode.ALREADY_CLAIMED: "its approval was spent, once; a new call asks again",
    ReasonCode.POLICY_CHANGED: "the policy changed while it waited; ask again",
    ReasonCode.STALE_SESSION: "the session's lease ran out; open a new Session",
    ReasonCode.SESSION_CLOSED: "open a new Session",
    ReasonCode.UNAUTHENTICATED: "pawld does not know this session and token, or this agent; open a new Session, "
    "with agent='local' where no agents are enrolled",
    ReasonCode.SESSION_LIMIT: "close sessions that are no longer used, or raise `sessions:` in the policy",
    ReasonCode.THROTTLED: "ask more slowly; the policy's `limits:` gives the rate",
    ReasonCode.IN_DOUBT: "an equal call was allowed to another process and has not been settled; it may have run",
    ReasonCode.ALREADY_SETTLED: "this call id was used up; a new call needs a new id",
    ReasonCode.LOG_UNAVAILABLE: "pawld cannot write its log (a full disk?); `pawl status` says why",
}
