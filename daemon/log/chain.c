/* daemon/log/chain.c - see chain.h. Owns nothing; reads what journal_walk() gives. */
#include "daemon/log/chain.h"

int chain_check(const struct entry_view *v, uint64_t seq, struct str origin, const uint8_t prev[static 32], struct pawl_error *err)
{
	const char *what = v->seq != seq ? "sequence" : !str_eq(v->origin, origin) ? "origin" : memcmp(v->prev, prev, 32) != 0 ? "chain" : NULL;

	return what ? pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not the one that belongs here (%s)", (unsigned long long)seq, what) : 0;
}

static int link_entry(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct chain *c = arg;
	struct entry_view v;
	int r;

	if (entry_view_parse(note, &v, err) < 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not a signed entry", (unsigned long long)seq);
	r = chain_check(&v, seq, c->origin, c->prev, err);
	if (r == 0)
		entry_hash(v.text, c->prev);
	return r;
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
