/* daemon/log/chain.c - see chain.h. Owns nothing; reads what journal_walk() gives. */
#include "daemon/log/chain.h"

#include "daemon/log/note.h"

static int link_entry(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct chain *c = arg;
	struct entry_view v;

	if (entry_view_parse(note, &v, err) < 0 || v.seq != seq || !str_eq(v.origin, c->origin) || memcmp(v.prev, c->prev, sizeof(c->prev)) != 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not the one that belongs there", (unsigned long long)seq);
	entry_hash(v.text, c->prev);
	return 0;
}

int chain_walk(struct chain *c, struct journal *j, uint64_t from, uint64_t to, struct pawl_error *err)
{
	return journal_walk(j, from, to, link_entry, c, err);
}

int chain_ends_in(const struct chain *c, const uint8_t hash[static 32], uint64_t next, struct pawl_error *err)
{
	return memcmp(c->prev, hash, sizeof(c->prev)) == 0
		   ? 0
		   : pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not the one that the next one names", (unsigned long long)next - 1);
}
