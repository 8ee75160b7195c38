/* daemon/door/reply.h - replies as bytes (docs/wire.md). Pure: values in, JSON appended to out; a failure is only
 * out->failed. Owns nothing. Knows no daemon, no policy and, but for its enums, no state: the handlers fill these plain
 * structs. */
#ifndef PAWL_REPLY_H
#define PAWL_REPLY_H
#include "daemon/base/buf.h"
#include "daemon/door/wire.h"
#include "pawl/state.h"

/* The answers that must be the same bytes after a restart: made of the entry (as judged or as read back) and its signed
 * note. A decision's or a claim's (op "claim"); a review's card is pending. */
void reply_decide(const struct entry *e, struct str note, struct buf *out);
/* The same, for a review that was waited for: how its card is now. */
void reply_reviewed(const struct entry *e, struct str note, enum card_mode card, struct buf *out);
void reply_settle(const struct entry *e, struct str note,
		  struct buf *out); /* a settle entry, or the loss of a late one */
/* The only verdict without an entry: the log cannot be written. call: STR_NONE when not known. message "": a stock one.
 */
void reply_unavailable_decide(struct str call, const char *message, struct buf *out);

void reply_unavailable_claim(struct str call, const char *message, struct buf *out);

/* op OP_NONE: null. field "" or NULL: null. retry_after_ns 0: none. */
void reply_error(enum wire_op op, enum reason_code code, const char *field, const char *message, int64_t retry_after_ns,
		 struct buf *out);

struct reply_open {
	uint64_t session, seq;
	uint8_t token[32];
	int64_t expires, lease_ns;
	struct str mode; /* "enforce", "shadow" */
};
void reply_open(const struct reply_open *o, struct buf *out);
void reply_close(uint64_t session, uint64_t seq, struct buf *out);
void reply_heartbeat(uint64_t session, int64_t expires, struct buf *out);

struct reply_fact { /* a promise or a probe: name -> {"state":…,"why":…} */
	struct str name, state, why;
};
struct reply_log {
	struct str origin, key; /* key: the entry vkey */
	uint64_t seq;           /* the next one */
	bool unavailable;       /* status only */
	struct str why;         /* status only */
};
struct reply_hello {
	struct str policy_name, policy_hash /* hex */, currency, mode;
	enum verdict fallback; /* `default` */
	bool attended;
	struct reply_log log;
	struct str watch_state, watch_why;
	const struct reply_fact *promises;
	size_t n_promises;
};
void reply_hello(const struct reply_hello *h, struct buf *out);

/* "pending", "resumed", "spent" (operators only; agents are told "resumed"), "skipped", "aborted", "timeout", "closed"
 */
const char *card_mode_name(enum card_mode mode);
struct reply_wait { /* review.wait */
	uint64_t review;
	enum card_mode mode;
	int64_t expires;             /* 0: null */
	struct str operator, reason; /* STR_NONE: null, nobody has answered */
};
void reply_review_wait(const struct reply_wait *w, struct buf *out);

struct reply_review {
	uint64_t card;
	int64_t expires; /* 0: null */
	enum card_mode mode;
};
struct reply_watch { /* the processes of a session, or of one above it that it runs in */
	uint64_t session; /* whose tree it is; 0: none ever was */
	struct tree_state tree;
	bool has_now;
	struct watch_now now; /* as the watcher told it last */
};
struct reply_state {
	uint64_t session;
	struct str agent;
	int64_t opened, expires;
	struct str ended; /* "closed", "stale", "aborted" or STR_NONE */
	int64_t decisions, executions;
	const struct draw *ledgers; /* used as of now; amount is not looked at */
	size_t n_ledgers;
	struct str currency;
	const uint64_t *open; /* decisions */
	size_t n_open;
	const struct reply_review *reviews;
	size_t n_reviews;
	const struct stick_fact *denials;
	size_t n_denials;
	const struct breaker_row *breakers;
	size_t n_breakers;
	const struct reply_watch *watch;
};
void reply_state(const struct reply_state *s, struct buf *out);

/* ---- operator door ---- */
struct reply_status {
	int64_t watcher_pid /* 0: none */, rest_pid;
	int64_t started, now, wall, policy_loaded;
	struct str policy_name, policy_hash, mode;
	enum verdict fallback;
	struct reply_log log;
	uint64_t live, kept; /* sessions */
	uint64_t allow, review, deny, would_review, would_deny, settles, malformed, unauthenticated, throttled, oversized;
	uint64_t rows, snapshot, unread; /* of the projector */
	struct str rows_problem;
	const struct reply_fact *probes, *promises;
	size_t n_probes, n_promises;
	struct str watch_state, watch_why;
	char tier[2]; /* "" without a watcher */
	uint64_t trees, trees_asked, trees_over, trees_refused, watch_lost, watch_nonsense;
};
void reply_status(const struct reply_status *s, struct buf *out);

struct reply_money { /* of the money ledger in reach that has the least left */
	struct str budget; /* STR_NONE: there is none */
	int64_t used, left;
};
struct reply_session {
	uint64_t session;
	struct str agent;
	int64_t opened, expires;
	struct str ended;
	int64_t decisions, executions, reservations, reviews;
	struct reply_money money;
	struct reply_watch watch; /* its own */
};
void reply_session_list(const struct reply_session *rows, size_t n, bool more, struct str currency, struct buf *out);

struct reply_policy {
	struct str name, hash, file, text;
};
void reply_policy_show(const struct reply_policy *p, struct buf *out);

struct reply_before { /* one of the session's decisions before the card */
	uint64_t decision;
	struct str tool;
	enum verdict answer;
	enum outcome outcome; /* OUTCOME_NONE: null */
	int64_t now;
};
struct reply_card {
	uint64_t review, session;
	struct str agent, tool;
	enum card_mode mode;
	int64_t opened, expires; /* expires 0: null */
	const struct ask *asks;
	size_t n_asks;
	struct str message; /* why a person is asked (`reason`), with its numbers */
	bool has_numbers;
	enum unit unit;
	int64_t counter, limit;
	struct str currency;
	struct str
	    args; /* canonical JSON, sent as a text; STR_NONE: null (not known any more, or not shown in a list) */
	int64_t args_bytes; /* of the whole; args may be cut */
	uint8_t args_mac[32];
	int64_t money, tokens;       /* the largest of the calls that joined */
	int64_t joined;              /* calls */
	struct str operator, reason; /* the answer's (`operator_reason`); STR_NONE: null */
	const struct reply_before *before;
	size_t n_before;
};
/* mode: "enforce", "shadow": why no card comes. */
void reply_review_list(const struct reply_card *rows, size_t n, bool more, struct str mode, struct buf *out);
void reply_review_show(const struct reply_card *card, struct buf *out);
void reply_nonce(const uint8_t nonce[static 32], int64_t expires, struct buf *out);
void reply_review_resolve(uint64_t review, enum card_mode mode, uint64_t seq, struct buf *out);
void reply_session_abort(uint64_t session, uint64_t seq, struct buf *out);
void reply_breaker_reset(struct str breaker, uint64_t seq, struct buf *out);
/* problems: told as "file:line:column: error|warning: text"; rows may be none. */
void reply_policy_reload(bool loaded, const struct policy_report *problems, uint64_t seq, struct buf *out);

/* Shared by reply*.c. The budgets of rows[0..n) (of `stride` bytes each, a struct draw first) as one object; of several
 * ledgers of one budget the tightest is shown. taken: amount counts as used. */
void reply_remaining(const void *rows, size_t stride, size_t n, bool taken, struct str currency, struct buf *out);
void reply_head(enum wire_op op, struct buf *out); /* {"v":1,"op":…  */
#endif
