/* daemon/log/chain.h - the hash chain of a log's entries, without their meaning: form, sequence, origin, and that each names the one before it. */
#ifndef PAWL_CHAIN_H
#define PAWL_CHAIN_H
#include "daemon/log/journal.h"
#include "daemon/log/note.h"

/* Is this entry the one that belongs at seq, behind the one that prev is the hash of? PAWL_E_TAMPERED says what is wrong. */
PAWL_MUST_USE int chain_check(const struct entry_view *v, uint64_t seq, struct str origin, const uint8_t prev[static 32], struct pawl_error *err);

struct chain {
	struct str origin; /* borrowed */
	uint8_t prev[32];  /* entry_hash() of the entry before the next one; zeroes before entry 0 */
};
/* Over the entries from `from` on and below `to`; PAWL_E_TAMPERED names the first that does not belong. prev moves along. Safe where
 * journal_walk() is. */
PAWL_MUST_USE int chain_walk(struct chain *c, struct journal *j, uint64_t from, uint64_t to, struct pawl_error *err);
/* Does it end in the hash that entry `next` names? */
PAWL_MUST_USE int chain_ends_in(const struct chain *c, const uint8_t hash[static 32], uint64_t next, struct pawl_error *err);
#endif
