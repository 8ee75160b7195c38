/* daemon/session.h - who is asking: proves tokens against struct state and holds what is not state: tree secrets, leases that any message
 * renews, token buckets. All of it can be lost with the process; the secrets come back from the private store.
 * Owns its rows. Borrows the state on each call (it is replaced after a failed batch). Must not touch sockets, SQL or policy text. */
#ifndef PAWL_SESSION_H
#define PAWL_SESSION_H
#include "daemon/base/json.h"
#include "pawl/state.h"

struct bucket { /* a token bucket; level in billionths of a token */
	int64_t level, last_ns;
};
/* Takes one token. false: empty, and *ret_wait_ns says until when. A zeroed bucket is full. */
bool bucket_take(struct bucket *b, const struct rate_limit *rate, int64_t now, int64_t *ret_wait_ns);

struct live {
	uint64_t id;
	uint8_t secret[32];
	int64_t lease_until;	/* volatile: not in the log */
	struct bucket bucket;
};

struct sessions; /* opaque */
PAWL_MUST_USE int sessions_new(struct sessions **ret, struct pawl_error *err);
void sessions_free(struct sessions *ss); /* wipes secrets */

/* A row for a session of the state. PAWL_E_NOMEM leaves nothing behind. */
PAWL_MUST_USE int sessions_add(struct sessions *ss, uint64_t id, const uint8_t secret[static 32], int64_t lease_until, struct pawl_error *err);
void sessions_drop(struct sessions *ss, uint64_t id);
struct live *sessions_get(struct sessions *ss, uint64_t id); /* borrowed until the next add or drop */
/* The labels of a session that has a row, parsed; NULL = none. Those of the sessions that asked lately are kept. Borrowed until the next call of
 * this or drop. */
PAWL_MUST_USE int sessions_labels(struct sessions *ss, const struct session_state *who, const struct json **ret, struct pawl_error *err);
/* Drops every row whose session the state no longer knows. */
void sessions_sweep(struct sessions *ss, const struct state *st);

/* The session when the token is its own, in the same time whatever is wrong; NULL else. *ret_live is never NULL with it. */
const struct session_state *sessions_auth(struct sessions *ss, const struct state *st, uint64_t id, const uint8_t token[static 32],
					  struct live **ret_live);
/* What an ended session's caller is told. */
enum reason_code session_end_reason(enum session_end end);
void session_token_hash(const uint8_t token[static 32], uint8_t out[static 32]);

void sessions_renew(struct live *lv, int64_t lease_ns, int64_t now);
/* The next session whose lease (or latest reservation, whichever is later) is over at now: false when there is none.
 * The row stays; the caller writes the entry that ends the session. */
bool sessions_next_stale(struct sessions *ss, const struct state *st, int64_t now, uint64_t *ret_id);
/* When to look again; INT64_MAX when no session is live. */
int64_t sessions_next_lease(const struct sessions *ss);
#endif
