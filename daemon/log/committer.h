/* daemon/log/committer.h - the thread that owns chain, signing and the journal: takes (sequence, body), signs, syncs
 * whole batches, hands back the signed notes in order. Bytes only, so that it can become a process of its own. */
#ifndef PAWL_COMMITTER_H
#define PAWL_COMMITTER_H
#include "daemon/log/journal.h"
#include "daemon/log/keys.h"

#define COMMIT_MAX_ENTRIES 256u /* a batch: what is more waits for the next sync, so that nobody waits for a crowd */
#define COMMIT_MAX_BYTES   (1u << 20)  /* a batch */
#define COMMIT_MAX_WAITING (64u << 20) /* bytes reserved and not yet reaped */

/* A tree's secret on its way to the private store. private_put() comes in as a pointer, since the store is a room above
 * this one. */
struct private_row {
	uint64_t tree; /* the root session */
	uint8_t secret[32];
	uint64_t seq;	  /* 0: the row is a secret. Else a value (a card's arguments) that belongs to entry seq of the tree */
	struct str value; /* borrowed */
	bool record;	  /* a value for people, which stays until its tree is forgotten; a card's goes with the card */
};
typedef int commit_put_secrets(void *store, const struct private_row *rows, size_t n,
			       struct pawl_error *err); /* durable on 0 */

typedef int commit_drop_values(void *store, const uint64_t *seqs, size_t n, struct pawl_error *err);

struct committer;
struct committer_config {
	struct journal *journal; /* borrowed; only the thread appends, journal_read() stays open to the owner */
	const struct sign_key *key;
	struct str origin;
	uint64_t next_seq;
	uint8_t prev[32]; /* entry_hash() of the last entry, zeroes for none */
	commit_put_secrets *
	    put_secrets; /* private_put; called by the thread, synced before the entries. NULL: a secret is a failure */
	commit_drop_values *drop_values; /* private_drop; called by the thread. NULL: nothing is ever dropped */
	void *put_arg;   /* the struct private_store; only the thread writes to it after start */
	size_t max_queue; /* entries reserved and not yet reaped; 0 = 4096 */
};
PAWL_MUST_USE int committer_new(const struct committer_config *cfg, struct committer **ret, struct pawl_error *err);
/* Commits what is queued, joins the thread. Results not reaped are dropped. Accepts NULL. */
void committer_free(struct committer *c);

struct commit_slot {
	void *item;       /* opaque */
	bool last_resort; /* set before the push: may use the room kept for a full disk (stop, loss) */
};
/* Room and memory for one entry of up to body_bytes; nothing has changed when it fails (PAWL_E_FULL, PAWL_E_NOMEM). */
PAWL_MUST_USE int committer_reserve(struct committer *c, size_t body_bytes, struct commit_slot *ret,
				    struct pawl_error *err);
void committer_cancel(struct committer *c, struct commit_slot *slot); /* accepts an empty slot */
/* A value for the private store under (tree, the entry's sequence), synced before the entry; copied. At most one a slot that is a record,
 * and one that is none. Its bytes count as the entry's do (PAWL_E_FULL). */
PAWL_MUST_USE int committer_attach(struct committer *c, struct commit_slot *slot, uint64_t tree, struct str value, bool record,
				   struct pawl_error *err);
/* Cannot fail. body is copied. secret: 32 bytes for the private store under `tree`, synced before the entry, or NULL.
 */
void committer_push(struct committer *c, struct commit_slot *slot, uint64_t seq, struct str body, uint64_t tree,
		    const uint8_t *secret, void *cookie);

/* The values of these entries are not needed any more once the entries before `after` are durable: they are deleted behind whatever waits
 * to be answered, many at a time. Forgotten where memory or the store fails, or the entries do: the next start looks again. */
#define COMMIT_MAX_DROPS 4096u
void committer_drop(struct committer *c, const uint64_t *seqs, size_t n, uint64_t after);

int committer_fd(const struct committer *c); /* readable when results wait */
struct commit_result {
	uint64_t seq;
	void *cookie;
	bool durable; /* false: this entry and all behind it failed; see err */
	char *note;   /* malloc'd signed note when durable; the caller frees */
	size_t note_n;
	struct pawl_error err; /* why, when not durable */
};
size_t committer_reap(struct committer *c, struct commit_result *out,
		      size_t max); /* in order of push; drains the fd when empty */

/* After a failure the thread refuses everything queued (results with durable = false) until the owner has reaped it all
 * and calls this, which tries journal_ready(), or as a last resort (a stop entry on a full disk) journal_repair() alone.
 * next_seq and chain go back to the last durable entry by themselves. 0 =
 * open again. Blocking file I/O. PAWL_E_BUSY: results still wait to be reaped. */
PAWL_MUST_USE int committer_recover(struct committer *c, bool last_resort, uint64_t *ret_next_seq, struct pawl_error *err);
bool committer_failed(const struct committer *c);
#endif
