/* policy/state_mode.c - enforce or shadow, as the entry that puts a policy in force says. What shadow mode made the state remember
 * (denials, tripped cycles, rows of breakers) is marked where it lies and ends with the entry that says enforce: the state knows no
 * policy, and a restart with another file is the same as a reload. What enforce mode had made is never touched. */
#include "policy/state_int.h"

enum policy_mode state_mode(const struct state *st)
{
	return st->shadow ? MODE_SHADOW : MODE_ENFORCE;
}

/* STR_NONE: this entry does not say. */
static struct str mode_of(const struct entry *e)
{
	if (e->kind == ENTRY_START)
		return e->start.mode;
	return e->kind == ENTRY_POLICY && e->policy.loaded ? e->policy.mode : STR_NONE;
}

int room_mode(const struct entry *e, struct pawl_error *err)
{
	struct str mode = mode_of(e);

	if (e->kind == ENTRY_POLICY && !e->policy.loaded && e->policy.mode.n)
		return contradiction(e, err, "a policy that was refused sets the mode");
	if (mode.n && !str_eq(mode, policy_mode_word(MODE_SHADOW)) && !str_eq(mode, policy_mode_word(MODE_ENFORCE)))
		return contradiction(e, err, "a mode that is neither enforce nor shadow");
	return 0;
}

static void end_shadow(struct state *st)
{
	denials_end_shadow(st);
	for (uint32_t h = st->list.breaks_first, next; h; h = next) {
		next = break_at(st, h)->next;
		if (break_at(st, h)->pub.would)
			break_free(st, h);
	}
}

void mode_apply(struct state *st, const struct entry *e)
{
	struct str mode = mode_of(e);

	if (!mode.n)
		return;
	if (st->shadow && str_eq(mode, policy_mode_word(MODE_ENFORCE)))
		end_shadow(st);
	st->shadow = str_eq(mode, policy_mode_word(MODE_SHADOW));
}
