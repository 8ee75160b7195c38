/* daemon/startup.c - the start of the judging process: checks, replay of the log into the state, the start entry; and reload.
 * Everything here may fail with a sentence; nothing here answers anybody. */
#include "daemon/daemon.h"

#include "daemon/base/oplog.h"
#include "daemon/base/files.h"
#include "daemon/operator_key.h"
#include "daemon/reading.h"
#include "daemon/required.h"
#include "daemon/safe.h"
#include "daemon/startup_int.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_POLICY_FILE (1u << 20)
#define GAP_NS (3600 * NS_PER_SEC)

/* ---- policy ---- */

static int load_policy(struct daemon *d, struct policy **ret, char **ret_text, size_t *ret_n, struct policy_report *rep, struct pawl_error *err)
{
	struct policy_files files = policy_files_system(d->opt->own_group);
	struct policy *pol = NULL;
	char *text = NULL;
	size_t n = 0;
	int r = safe_file(d->opt->policy, d->opt->own_group, err);

	if (r == 0)
		r = safe_read(d->opt->policy, MAX_POLICY_FILE, d->opt->own_group, &text, &n, err);
	if (r == 0)
		r = policy_load_with((struct str){ text, n }, d->opt->policy, &files, &pol, rep, err);
	for (size_t i = 0; i < rep->n; i++)
		oplog(rep->rows[i].warning ? OPLOG_WARN : OPLOG_ERROR, "%s:%u:%u: %s", rep->file, rep->rows[i].line, rep->rows[i].column,
		      rep->rows[i].msg);
	if (r != 0) {
		policy_free(pol);
		free(text);
		return r;
	}
	*ret = pol;
	*ret_text = text;
	*ret_n = n;
	return 0;
}

int daemon_load_policy(struct daemon *d, struct policy **ret, char **ret_text, size_t *ret_n, struct pawl_error *err)
{
	struct policy_report rep = { .rows = NULL };
	int r = load_policy(d, ret, ret_text, ret_n, &rep, err);

	policy_report_done(&rep);
	return r;
}

static void key_changed(void *arg, bool enrolled, struct str name, struct str vkey)
{
	struct daemon *d = arg;
	struct refusal no;

	oplog(OPLOG_INFO, "operator %.*s is %s", STR_ARG(name), enrolled ? "enrolled" : "revoked");
	if (mediate_key(&d->m, enrolled, name, vkey, &no) < 0)
		oplog(OPLOG_ERROR, "the change of operators is not in the log: %s", no.err.msg);
}

/* What is asked of the kernel is the same for all that runs, old trees too. */
static bool watch_differs(const struct watch_policy *a, const struct watch_policy *b)
{
	if (a->exec != b->exec || memcmp(&a->limits, &b->limits, sizeof(a->limits)) != 0 || a->n_deny_exec != b->n_deny_exec)
		return true;
	for (size_t i = 0; i < a->n_deny_exec; i++)
		if (!str_eq(a->deny_exec[i], b->deny_exec[i]))
			return true;
	return false;
}

static int take_policy(struct daemon *d, struct policy *pol, char *text, size_t n, const struct reload_order *order, void *cookie, struct refusal *no)
{
	bool renew = pol->mode != d->m.policy->mode || watch_differs(&pol->watch, &d->m.policy->watch);

	if (mediate_policy(&d->m, pol, STR_NONE, order, cookie, no) < 0) {
		oplog(OPLOG_ERROR, "the policy stays as it was: %s", no->err.msg);
		policy_free(pol);
		free(text);
		return no->err.code;
	}
	free(d->policy_text);
	d->policy_text = text;
	d->policy_text_n = n;
	d->policy_loaded_ns = clock_now(&d->clock);
	if (renew && d->watched)
		watched_renew(d->watched);
	oplog(OPLOG_INFO, "policy %.*s loaded", STR_ARG(d->m.policy->name));
	return 0;
}

int daemon_reload(struct daemon *d, struct policy_report *rep, const struct reload_order *order, void *cookie, struct refusal *no)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct policy *pol = NULL;
	char *text = NULL, why[1400];
	size_t n = 0;

	if (operators_load(d->operators, d->opt->operators, d->opt->own_group, key_changed, d, &err) < 0)
		oplog_error("the operators stay as they were", &err);
	if (load_policy(d, &pol, &text, &n, rep, &err) == 0) {
		if (required_check(pol, d->watch_probes, &err) == 0)
			return take_policy(d, pol, text, n, order, cookie, no);
		policy_free(pol);
		free(text);
	}
	if (err.line)
		(void)snprintf(why, sizeof(why), "%s:%u:%u: %s", err.file[0] ? err.file : d->opt->policy, err.line, err.column, err.msg);
	else /* of the file, and not of a line in it */
		(void)snprintf(why, sizeof(why), "%s", err.msg);
	oplog(OPLOG_ERROR, "the policy stays as it was: %s", why);
	return mediate_policy(&d->m, NULL, str_of(why), order, cookie, no);
}

/* ---- key and log ---- */

static int load_key(struct daemon *d, struct pawl_error *err)
{
	static const char suffix[] = "/entry";
	const char *name;
	size_t n;
	int r = safe_file(d->opt->key, d->opt->own_group, err); /* its folders too */

	if (r == 0)
		r = sign_key_load(d->opt->key, &d->key, err);

	if (r < 0)
		return r;
	name = sign_key_vkey(d->key)->name;
	n = strlen(name);
	if (n <= sizeof(suffix) - 1 || strcmp(name + n - (sizeof(suffix) - 1), suffix) != 0 || n - (sizeof(suffix) - 1) > PAWL_MAX_ORIGIN)
		return pawl_fail(err, PAWL_E_KEY, "%s: the key's name \"%s\" is not ORIGIN%s", d->opt->key, name, suffix);
	memcpy(d->origin, name, n - (sizeof(suffix) - 1));
	d->origin[n - (sizeof(suffix) - 1)] = '\0';
	return 0;
}

/* ---- sessions that outlived the last process ---- */

struct secrets {
	struct daemon *d;
	const struct state *st;
	int64_t now;
	uint64_t *gone; /* values that no card needs */
	size_t n_gone, room;
};

static int take_secret(void *arg, const struct private_row *row, struct pawl_error *err)
{
	struct secrets *s = arg;
	const struct session_state *who = state_session(s->st, row->tree);

	if (!who) /* ended and dropped: nothing of it can be asked any more */
		return 0;
	return sessions_add(s->d->sessions, who->id, row->secret, add_sat(s->now, who->lease_ns), err);
}

/* One secret serves the whole tree: when the roots have theirs, all below them take it. */
static int take_children(struct secrets *s, struct pawl_error *err)
{
	const struct session_state *who;
	const struct live *root;
	int r = 0;

	for (uint64_t after = 0; r == 0 && (who = state_session_after(s->st, after)); after = who->id) {
		root = who->parent ? sessions_get(s->d->sessions, who->root) : NULL;
		if (root)
			r = sessions_add(s->d->sessions, who->id, root->secret, add_sat(s->now, who->lease_ns), err);
	}
	return r;
}

static int take_value(void *arg, const struct private_row *row, struct pawl_error *err)
{
	struct secrets *s = arg;

	if (reviews_needs(s->st, row->seq))
		return reviews_args_put(s->d->reviews, row->seq, row->value, err);
	if (s->n_gone == s->room) {
		uint64_t *bigger = realloc(s->gone, (s->room * 2 + 64) * sizeof(*bigger));

		if (!bigger)
			return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
		s->gone = bigger;
		s->room = s->room * 2 + 64;
	}
	s->gone[s->n_gone++] = row->seq;
	return 0;
}

static int take_values(struct secrets *s, struct pawl_error *err)
{
	struct pawl_error why = { .code = PAWL_OK };
	int r = private_values(s->d->priv, take_value, s, err);

	if (r == 0 && s->n_gone && private_drop(s->d->priv, s->gone, s->n_gone, &why) < 0)
		oplog_error("arguments of cards that nobody needs stay in the private store", &why);
	free(s->gone);
	return r;
}

/* A live session without its secret could no longer compare its calls with those before: it ends instead of starting over. */
static int end_strangers(struct daemon *d, struct pawl_error *err)
{
	const uint8_t unknown[32] = { 0 };
	const struct session_state *who;

	for (uint64_t after = 0; (who = state_session_after(d->m.state, after)); after = who->id) {
		if (who->end != SESSION_LIVE || sessions_get(d->sessions, who->id))
			continue;
		oplog(OPLOG_WARN, "session s_%llu has no secret in the private store any more; it is ended", (unsigned long long)who->id);
		/* a lease that is over already: the first tick, before the first question, writes the entry */
		if (sessions_add(d->sessions, who->id, unknown, 0, err) < 0)
			return (int)err->code;
	}
	return 0;
}

/* ---- all of it, in order ---- */

static int check_folders(struct daemon *d, struct pawl_error *err)
{
	char folder[PAWL_MAX_PATH];
	int r = safe_private_dir(d->opt->state, d->opt->own_group, err);

	if (r == 0)
		r = safe_private_dir(d->opt->log, d->opt->own_group, err);
	startup_folder_of(d->opt->operator_socket, folder);
	if (r == 0)
		r = safe_private_dir(folder, d->opt->own_group, err); /* whoever enters it is the operator */
	startup_folder_of(d->opt->socket, folder);
	if (r == 0)
		r = safe_dir(folder, d->opt->own_group, err);
	return r;
}

/* A log shorter than it was known to be was cut, emptied or restored from a copy: it would give spent budgets back. */
static int check_mark(struct daemon *d, struct pawl_error *err)
{
	uint64_t had = 0;
	int r = private_marked(d->priv, &had, err);

	if (r == 0 && d->recovery.next_seq < had)
		r = pawl_fail(err, PAWL_E_TAMPERED, "the log has %llu entries and had at least %llu: it was rolled back (docs/threat-model.md)",
			      (unsigned long long)d->recovery.next_seq, (unsigned long long)had);
	return r;
}

static int start_projector(struct daemon *d, const struct reading *rd, struct pawl_error *err)
{
	struct projector_config cfg = { .journal = d->journal, .path = d->projection, .snapshot_every = d->opt->snapshot_every,
					.snapshot_at = rd->from, .unread = rd->unread, .origin = str_of(d->origin) };
	int r = state_clone(rd->st, &cfg.state, err);

	memcpy(cfg.chain, rd->chain, sizeof(cfg.chain));
	if (r == 0)
		r = projector_new(&cfg, &d->projector, err);
	if (r < 0)
		state_free(cfg.state);
	return r;
}

static int open_rest(struct daemon *d, struct reading *rd, mediate_done *done, struct resolver resolver, struct policy *pol, struct pawl_error *err)
{
	struct committer_config cc = { .journal = d->journal, .key = d->key, .origin = str_of(d->origin), .next_seq = d->recovery.next_seq,
				       .put_secrets = private_put, .drop_values = private_drop, .put_arg = d->priv };
	struct secrets secrets = { .d = d, .st = rd->st };
	int r;

	memcpy(cc.prev, rd->prev, 32);
	clock_init(&d->clock, state_now(rd->st));
	if (state_now(rd->st) && clock_wall(&d->clock) - state_now(rd->st) > GAP_NS)
		oplog(OPLOG_WARN, "the log's newest entry is %lld minutes old", (long long)((clock_wall(&d->clock) - state_now(rd->st)) / (60 * NS_PER_SEC)));
	secrets.now = clock_now(&d->clock);
	r = private_trim(d->priv, d->recovery.next_seq, err);
	if (r == 0)
		r = sessions_new(&d->sessions, err);
	if (r == 0)
		r = reviews_new(&d->reviews, err);
	if (r == 0)
		r = operators_new(&d->operators, err);
	if (r == 0)
		r = private_each(d->priv, take_secret, &secrets, err);
	if (r == 0)
		r = take_children(&secrets, err);
	if (r == 0)
		r = take_values(&secrets, err);
	if (r == 0)
		r = committer_new(&cc, &d->committer, err);
	if (r == 0)
		r = start_projector(d, rd, err);
	if (r < 0)
		return r;
	d->m = (struct mediator){ .clock = &d->clock, .journal = d->journal, .committer = d->committer, .sessions = d->sessions, .reviews = d->reviews,
				  .projector = d->projector, .resolver = resolver, .done = done, .policy = pol, .state = rd->st };
	mediate_init(&d->m);
	d->m_up = true;
	rd->st = NULL;
	return 0;
}

static int open_watch(struct daemon *d, const struct door_calls *doors, struct pawl_error *err)
{
	const struct watched_config cfg = { .m = &d->m, .channel = doors->channel(d), .news = doors->news(d), .probes = d->watch_probes };
	int r = watched_new(&cfg, &d->watched, err);

	if (r == 0) {
		d->m.over = watched_over;
		d->m.over_arg = d->watched;
	}
	return r;
}

int daemon_open(struct daemon *d, const struct door_calls *doors, mediate_done *done, struct resolver resolver, struct pawl_error *err)
{
	struct reading rd = { .st = NULL };
	struct policy *pol = NULL;
	char path[PAWL_MAX_PATH + 32];
	int r = check_folders(d, err);

	(void)snprintf(path, sizeof(path), "%s/private.sqlite", d->opt->state);
	(void)snprintf(d->projection, sizeof(d->projection), "%s/projection.sqlite", d->opt->state);
	if (r == 0)
		r = load_key(d, err);
	if (r == 0)
		r = daemon_load_policy(d, &pol, &d->policy_text, &d->policy_text_n, err);
	if (r == 0)
		r = required_check(pol, d->watch_probes, err);
	if (r == 0)
		r = private_open(path, &d->priv, err);
	d->m.policy = pol; /* the doors speak its currency */
	if (r == 0)
		r = reading_open(&rd, d, doors, err);
	if (r == 0)
		r = check_mark(d, err);
	if (r == 0)
		r = reading_run(&rd, d->projection, err);
	if (r == 0)
		r = open_rest(d, &rd, done, resolver, pol, err);
	if (r == 0)
		r = open_watch(d, doors, err);
	if (r == 0) {
		d->started_ns = d->policy_loaded_ns = clock_now(&d->clock);
		startup_probe(d);
		r = end_strangers(d, err);
	}
	if (r == 0)
		r = startup_entry(d, err);
	if (r == 0)
		r = private_mark(d->priv, d->m.durable, err); /* the committer's queue is empty: the store is ours */
	if (r == 0)
		r = operators_load(d->operators, d->opt->operators, d->opt->own_group, key_changed, d, err);
	if (!d->m_up)
		policy_free(pol);
	reading_done(&rd);
	return r;
}

void daemon_close(struct daemon *d)
{
	struct pawl_error err = { .code = PAWL_OK };

	committer_free(d->committer); /* commits what is queued; the store is ours again */
	if (d->m_up && private_mark(d->priv, d->m.durable, &err) < 0)
		oplog_error("the end of the log is not written down", &err);
	if (d->m_up)
		mediate_end(&d->m);
	watched_free(d->watched); /* after the spine, which has refused what was on its way */
	projector_free(d->projector);
	sessions_free(d->sessions);
	reviews_free(d->reviews);
	operators_free(d->operators);
	journal_close(d->journal);
	private_close(d->priv);
	sign_key_free(d->key);
	free(d->policy_text);
}

int daemon_check(struct daemon *d, struct pawl_error *err)
{
	struct reading rd = { .st = NULL };
	struct policy *pol = NULL;
	int r = check_folders(d, err);

	if (r == 0)
		r = load_key(d, err);
	if (r == 0)
		r = daemon_load_policy(d, &pol, &d->policy_text, &d->policy_text_n, err);
	if (r == 0)
		r = reading_open(&rd, d, NULL, err);
	if (r == 0)
		r = reading_run(&rd, NULL, err);
	if (r == 0)
		(void)printf("policy %.*s: %zu rules, %zu budgets\nlog %s: %llu entries%s\n", STR_ARG(pol->name), pol->n_rules, pol->n_budgets, d->origin,
			     (unsigned long long)d->recovery.next_seq, d->recovery.torn_bytes ? ", a torn tail that the next start cuts" : "");
	policy_free(pol);
	reading_done(&rd);
	return r;
}
