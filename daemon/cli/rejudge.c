/* daemon/cli/rejudge.c - see rejudge.h. The laws are policy/rejudge.c's; here is which policy and which version of the judge an entry was
 * made under, and the comparison byte for byte. */
#include "daemon/cli/rejudge.h"

#include "daemon/cli/differ.h"
#include "daemon/log/entry.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

int rejudging_init(struct rejudging *rj, struct pawl_error *err)
{
	*rj = (struct rejudging){ .body = BUF_MAX(PAWL_MAX_BODY), .shown = BUF_MAX(REJUDGE_MAX_SHOWN * 4 * PAWL_MAX_BODY) };
	rj->again = malloc(sizeof(*rj->again));
	/* all the room that an entry may take, now: a rendering that fails later is one that does not fit */
	if (!rj->again || !buf_room(&rj->body, PAWL_MAX_BODY))
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	return state_new(&rj->st, err);
}

void rejudging_done(struct rejudging *rj)
{
	for (size_t i = 0; i < rj->n_policies; i++)
		policy_free(rj->policies[i].pol);
	state_free(rj->st);
	free(rj->again);
	buf_done(&rj->body);
	buf_done(&rj->shown);
}

static struct rejudge_policy *policy_of_hash(struct rejudging *rj, const char *hash)
{
	for (size_t i = 0; i < rj->n_policies; i++)
		if (strcmp(rj->policies[i].hash, hash) == 0)
			return &rj->policies[i];
	return NULL;
}

int rejudging_policy(struct rejudging *rj, struct policy *pol, const char *file, struct pawl_error *err)
{
	struct rejudge_policy *p = &rj->policies[rj->n_policies];
	struct rejudge_policy row = { .pol = pol, .file = file };
	const struct rejudge_policy *same;

	(void)sodium_bin2hex(row.hash, sizeof(row.hash), pol->hash, sizeof(pol->hash));
	same = policy_of_hash(rj, row.hash);
	if (!same && rj->n_policies < REJUDGE_MAX_POLICIES) {
		*p = row;
		rj->n_policies++;
		return 0;
	}
	policy_free(pol);
	if (same)
		return pawl_fail(err, PAWL_E_USAGE, "%.100s and %.100s are the same policy, byte for byte", same->file, file);
	return pawl_fail(err, PAWL_E_USAGE, "more than %d policies", REJUDGE_MAX_POLICIES);
}

/* ---- what an entry was made under ---- */

static void in_force(struct rejudging *rj, struct str hash)
{
	rj->before = rj->now;
	(void)snprintf(rj->hash, sizeof(rj->hash), "%.*s", STR_ARG(hash));
	rj->now = policy_of_hash(rj, rj->hash);
}

static void take_over(struct rejudging *rj, const struct entry *e)
{
	if (e->kind == ENTRY_START) {
		rj->judge = e->start.judge;
		in_force(rj, e->start.policy_hash);
	} else if (e->kind == ENTRY_POLICY) {
		in_force(rj, e->policy.hash);
	}
}

/* ---- what came of it ---- */

static void skip(struct rejudging *rj, uint64_t seq, enum skip_why why, const char *text)
{
	struct rejudge_skip *s = rj->skips;

	rj->skipped++;
	while (s < rj->skips + rj->n_skips && (s->why != why || strcmp(s->text, text) != 0))
		s++;
	if (s == rj->skips + REJUDGE_MAX_SKIPS) { /* many policies were not given: the last row speaks for the rest */
		s--;
		(void)snprintf(s->text, sizeof(s->text), "and others");
	} else if (s == rj->skips + rj->n_skips) {
		*s = (struct rejudge_skip){ .why = why, .first = seq };
		(void)snprintf(s->text, sizeof(s->text), "%s", text);
		rj->n_skips++;
	}
	s->n++;
	s->last = seq;
}

/* again: STR_NONE when no entry would be written at all; why[] of the judgement says why not. */
static void differs(struct rejudging *rj, const struct entry *e, struct str logged, struct str again)
{
	struct buf *b = &rj->shown;
	size_t rows;

	if (rj->differ++ >= REJUDGE_MAX_SHOWN)
		return;
	buf_puts(b, b->n ? ",{" : "{");
	buf_key(b, "entry");
	buf_u64(b, e->seq);
	buf_key(b, "kind");
	buf_json(b, str_of(entry_kind_name(e->kind)));
	if (rj->again->why[0]) {
		buf_key(b, "why");
		buf_text(b, str_of(rj->again->why));
	}
	buf_key(b, "logged");
	buf_str_add(b, logged);
	if (again.p) {
		buf_key(b, "again");
		buf_str_add(b, again);
		buf_key(b, "fields");
		rows = differ_rows(logged, again, REJUDGE_MAX_FIELDS, b);
		buf_key(b, "differ");
		buf_u64(b, rows);
	}
	buf_putc(b, '}');
}

static bool comes_out(struct rejudging *rj, struct str logged)
{
	buf_reset(&rj->body);
	entry_render(&rj->again->e, &rj->body);
	return buf_ok(&rj->body) && str_eq(buf_str(&rj->body), logged);
}

static const struct policy *policy_or_null(const struct rejudge_policy *p)
{
	return p ? p->pol : NULL;
}

static enum rejudged_as make(struct rejudging *rj, const struct entry *e)
{
	return rejudge(rj->now->pol, policy_or_null(rj->before), rj->st, e, rj->again);
}

/* The other occasion on which a policy entry is written, which is not to be known from one that says too little. */
static bool is_told_again(struct rejudging *rj, const struct entry *e, struct str logged)
{
	if (e->kind != ENTRY_POLICY || !e->policy.loaded)
		return false;
	rejudge_policy_told(rj->now->pol, rj->st, e, rj->again);
	return comes_out(rj, logged);
}

static void judge_again(struct rejudging *rj, const struct entry *e, struct str logged)
{
	enum rejudged_as as = make(rj, e);
	bool same = as == REJUDGED_MADE && comes_out(rj, logged);

	rj->now->judged++;
	if (as == REJUDGED_GIVEN) {
		rj->given++;
	} else if (same) {
		rj->equal++;
	} else if (as == REJUDGED_LACKS) {
		skip(rj, e->seq, SKIP_LACKS, rj->again->why);
	} else if (as == REJUDGED_NEVER) {
		differs(rj, e, logged, STR_NONE);
	} else if (is_told_again(rj, e, logged)) {
		skip(rj, e->seq, SKIP_LACKS, "it lists no change of rules: as after a log that could not be written, or a reload that hides them");
	} else {
		(void)make(rj, e); /* is_told_again() may have made something else */
		(void)comes_out(rj, logged);
		if (!buf_ok(&rj->body))
			(void)snprintf(rj->again->why, sizeof(rj->again->why), "what this judge makes of it is no entry that can be written");
		differs(rj, e, logged, buf_ok(&rj->body) ? buf_str(&rj->body) : STR_NONE);
	}
}

static void look_at(struct rejudging *rj, const struct entry *e, struct str logged)
{
	char version[24];

	rj->entries++;
	take_over(rj, e);
	if (rj->judge != PAWL_JUDGE_VERSION) {
		(void)snprintf(version, sizeof(version), "%lld", (long long)rj->judge);
		skip(rj, e->seq, SKIP_JUDGE, version);
	} else if (!rj->now) {
		skip(rj, e->seq, SKIP_POLICY, rj->hash);
	} else {
		judge_again(rj, e, logged);
	}
}

int rejudging_entry(struct rejudging *rj, uint64_t seq, struct str body, struct pawl_error *err)
{
	struct entry_parsed p;
	int r = entry_parse(body, seq, &p, err);

	if (r < 0)
		return r;
	look_at(rj, &p.e, body);
	r = state_room(rj->st, &p.e, err);
	if (r == 0)
		state_apply(rj->st, &p.e);
	entry_parsed_done(&p);
	return r;
}
