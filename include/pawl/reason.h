/* include/pawl/reason.h - why: the closed list of reason codes. docs/wire.md and the Python enum are tested against it.
 * The order of rows is no rank; policy/judge.c holds the rank. */
#ifndef PAWL_REASON_H
#define PAWL_REASON_H

#define PAWL_REASONS(X)                                                        \
	X(OK, "ok")                                                            \
	X(DEFAULT, "default")                                                  \
	X(RULE, "rule")                                                        \
	X(STICKY_DENIAL, "sticky_denial")                                      \
	X(TRANSITIVE, "transitive")                                            \
	X(BUDGET, "budget")                                                    \
	X(FLOOR, "floor")                                                      \
	X(LOOP_REPEAT, "loop_repeat")                                          \
	X(LOOP_CYCLE, "loop_cycle")                                            \
	X(LOOP_SIMILAR, "loop_similar")                                        \
	X(LOOP_ERROR, "loop_error")                                            \
	X(LOOP_RESULT, "loop_result")                                          \
	X(BREAKER_OPEN, "breaker_open")                                        \
	X(REVIEW_REQUIRED, "review_required")                                  \
	X(REVIEW_SKIPPED, "review_skipped")                                    \
	X(REVIEW_ABORTED, "review_aborted")                                    \
	X(REVIEW_TIMEOUT, "review_timeout")                                    \
	X(SESSION_ABORTED, "session_aborted")                                  \
	X(SESSION_CLOSED, "session_closed")                                    \
	X(STALE_SESSION, "stale_session")                                      \
	X(RESULT_WITHHELD, "result_withheld")                                  \
	X(IN_DOUBT, "in_doubt")                                                \
	X(ALREADY_SETTLED, "already_settled")                                  \
	X(ALREADY_CLAIMED, "already_claimed")                                  \
	X(SESSION_LIMIT, "session_limit")                                      \
	X(THROTTLED, "throttled")                                              \
	X(POLICY_CHANGED, "policy_changed")                                    \
	X(MALFORMED, "malformed")                                              \
	X(UNAUTHENTICATED, "unauthenticated")                                  \
	X(REPLAY_CONFLICT, "replay_conflict")                                  \
	X(LOG_UNAVAILABLE, "log_unavailable")                                  \
	X(UNAVAILABLE, "unavailable")                                          \
	X(WATCH_REQUIRED, "watch_required")

enum reason_code {
#define X(id, text) REASON_##id,
	PAWL_REASONS(X)
#undef X
	REASON_COUNT
};

const char *reason_name(enum reason_code code); /* "ok" …; "unavailable" for a value out of range */

#endif
