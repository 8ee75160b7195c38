/* daemon/startup_entry.c - what this machine has and what it lacks, as probes; and the start entry that says so. Owns nothing. */
#include "daemon/startup_int.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

void startup_folder_of(const char *path, char out[static PAWL_MAX_PATH])
{
	char *slash;

	(void)snprintf(out, PAWL_MAX_PATH, "%s", path);
	slash = strrchr(out, '/');
	if (!slash)
		(void)snprintf(out, PAWL_MAX_PATH, ".");
	else if (slash != out)
		*slash = '\0';
	else
		out[1] = '\0';
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct probe *)a)->name, ((const struct probe *)b)->name);
}

static void add_probe(struct daemon *d, const char *name, enum probe_state state, const char *why)
{
	struct probe *p = &d->probes[d->n_probes++];

	p->name = name;
	p->state = state;
	(void)snprintf(p->why, sizeof(p->why), "%s", why);
}

/* One of the whole, and one of each that the watcher has tried; what is off says how to get it. */
static void probe_the_watch(struct daemon *d)
{
	static const enum probe_state states[] = { [WATCH_OFF] = PROBE_OFF, [WATCH_PARTIAL] = PROBE_PARTIAL, [WATCH_ON] = PROBE_ON };
	const struct watch_probes *p = d->watch_probes;
	char why[sizeof(d->probes[0].why)];

	if (!p) {
		add_probe(d, "watch", PROBE_OFF, d->opt->no_watch ? "--no-watch" : "there is no watcher");
		return;
	}
	(void)snprintf(why, sizeof(why), "tier %c: %s", p->tier, p->says);
	add_probe(d, "watch", p->tier == 'A' || p->tier == 'B' ? PROBE_ON : p->tier == 'C' ? PROBE_PARTIAL : PROBE_OFF, why);
	for (size_t i = 0; i < WP_COUNT; i++) {
		const struct watch_probe *row = &p->row[i];
		const char *get = row->state == WATCH_ON ? "" : row->get;

		if (!row->name[0])
			continue;
		(void)snprintf(d->watch_names[i], sizeof(d->watch_names[i]), "watch.%s", row->name);
		(void)snprintf(why, sizeof(why), "%s%s%s", row->why, get[0] ? "; " : "", get);
		add_probe(d, d->watch_names[i], states[row->state <= WATCH_ON ? row->state : WATCH_OFF], why);
	}
}

void startup_probe(struct daemon *d)
{
	char folder[PAWL_MAX_PATH];
	struct rlimit lim;
	struct stat st;

	startup_folder_of(d->opt->socket, folder);
	d->same_uid = stat(folder, &st) < 0 || !(st.st_mode & 077);
	add_probe(d, "agent_uid", d->same_uid ? PROBE_PARTIAL : PROBE_ON,
		  d->same_uid ? "agents run under the uid that owns log, keys and policy: P4, P6, P7 hold against mistakes, not against them"
			      : "agents reach the socket from other uids");
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < MAX_DESCRIPTORS)
		add_probe(d, "descriptors", PROBE_PARTIAL, "the hard limit of open files is below what both doors may hold; fewer streams fit");
	else
		add_probe(d, "descriptors", PROBE_ON, "as many as both doors may hold");
	probe_the_watch(d);
	qsort(d->probes, d->n_probes, sizeof(d->probes[0]), by_name);
}

int startup_entry(struct daemon *d, struct pawl_error *err)
{
	struct buf probes = BUF_MAX(24u << 10);
	struct refusal no = { .err.msg = "out of memory" };
	char hex[65];
	struct entry_start start = { .version = STR(PAWL_VERSION), .judge = PAWL_JUDGE_VERSION, .policy_name = d->m.policy->name,
				     .policy_hash = { hex, 64 }, .mode = policy_mode_word(d->m.policy->mode) };
	int r;

	(void)sodium_bin2hex(hex, sizeof(hex), d->m.policy->hash, 32);
	start.fallback = d->m.policy->fallback == VERDICT_ALLOW ? STR("allow") : d->m.policy->fallback == VERDICT_REVIEW ? STR("review") : STR("deny");
	buf_putc(&probes, '{');
	for (size_t i = 0; i < d->n_probes; i++) {
		buf_key(&probes, d->probes[i].name);
		buf_puts(&probes, "{\"state\":");
		buf_json(&probes, str_of(probe_state_name(d->probes[i].state)));
		buf_puts(&probes, ",\"why\":");
		buf_json(&probes, str_of(d->probes[i].why));
		buf_putc(&probes, '}');
	}
	buf_putc(&probes, '}');
	start.probes_text = buf_str(&probes);
	r = buf_ok(&probes) ? mediate_start(&d->m, &start, &no) : PAWL_E_NOMEM;
	if (r == 0 && d->recovery.torn_bytes > 0)
		r = mediate_torn(&d->m, d->recovery.torn_bytes, &no);
	buf_done(&probes);
	if (r < 0)
		return pawl_fail(err, PAWL_E_SYS, "the start entry cannot be written: %s", no.err.msg);
	while (mediate_owed(&d->m)) {
		struct pollfd p = { committer_fd(d->committer), POLLIN, 0 };

		if (poll(&p, 1, 1000) > 0)
			mediate_reap(&d->m);
	}
	if (!d->m.open)
		return pawl_fail(err, PAWL_E_SYS, "the start entry cannot be written: %s", d->m.closed_why);
	return 0;
}
