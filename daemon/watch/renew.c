/* daemon/watch/renew.c - new limits and a new list for a tree that lives, after a reload. */
#include "daemon/base/oplog.h"
#include "daemon/watch/trees_int.h"

/* err is of the first step that failed. */
static int first_of(int before, int r, const struct pawl_error *e, struct pawl_error *err)
{
	if (before == 0 && r < 0)
		*err = *e;
	return before < 0 ? before : r;
}

/* The list first: a program that is new on it is denied from here on. What fails keeps nothing else from being done. */
static int renew_guard(struct trees *t, struct tree *tr, bool fewer, struct pawl_error *err)
{
	struct guard_file files[DENY_MAX];
	struct pawl_error e = { .code = PAWL_OK };
	size_t n = deny_look(&tr->deny, files);
	int r = n ? guard_deny(t->guard, tr->session, files, n, err) : 0;

	if (r < 0)
		tr->deny.n_last = 0; /* none is known: the next look tries all of them again */
	if (fewer)
		r = first_of(r, guard_deny_only(t->guard, tr->session, files, n, &e), &e, err);
	return first_of(r, guard_tree_set(t->guard, tr->session, &tr->limits, tr->flags, &e), &e, err);
}

static int renew(struct trees *t, const struct watch_renew *a, const char *paths, size_t bytes, struct pawl_error *err)
{
	struct tree *tr = trees_find(t, a->session);
	struct pawl_error e = { .code = PAWL_OK };
	struct deny list;
	bool fewer;
	int r;

	if (a->zero || (a->flags & ~ATTACH_FLAGS_ALL) || a->deny_bytes != bytes || deny_check(paths, bytes, a->n_deny, err) < 0)
		return pawl_fail(err, PAWL_E_MALFORMED, "new limits of %zu bytes are malformed", bytes);
	if (!tr || tr->over || tr->ending)
		return 0; /* it ended while the message was on its way */
	r = deny_init(&list, paths, bytes, a->n_deny, err);
	if (r < 0)
		return r;
	fewer = deny_lacks(&list, &tr->deny);
	deny_done(&tr->deny);
	tr->deny = list;
	tr->limits = tr->ended.last.limits = a->limits;
	tr->flags = tr->ended.last.flags = (a->flags & ~ATTACH_RUN) | (tr->flags & ATTACH_RUN); /* how it began does not change */
	tr->reported = 0;
	if (tr->guarded)
		r = renew_guard(t, tr, fewer, err);
	tr->limits_due = tree_write_limits(t, tr, &e) < 0;
	r = first_of(r, tr->limits_due ? e.code : 0, &e, err);
	return first_of(r, saved_write(t, tr, &e), &e, err);
}

void trees_renew(struct trees *t, const void *payload, size_t n)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct watch_renew a;
	int r;

	if (n < sizeof(a)) {
		r = pawl_fail(&err, PAWL_E_MALFORMED, "new limits of %zu bytes are malformed", n);
	} else {
		memcpy(&a, payload, sizeof(a));
		r = renew(t, &a, (const char *)payload + sizeof(a), n - sizeof(a), &err);
	}
	if (r == PAWL_E_MALFORMED)
		trees_malformed(t, "new limits", n);
	else if (r < 0)
		oplog_error("new limits for a tree", &err);
}
