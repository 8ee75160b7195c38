/* daemon/cli/doctor_probe.c - what holds on this machine, in pawld's own words: of one that is started only to find out (`pawld --probe`),
 * and of the one that runs. Owns nothing; both answers are input: bounded, and escaped where they are shown. */
#include "daemon/base/json.h"
#include "daemon/cli/doctor.h"
#include "daemon/cli/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_MS 30000
#define MAX_ANSWER (256u << 10)

static bool try_pawld(struct doctor *d, const char *folder, size_t n, const char *below)
{
	struct stat st;
	int len = snprintf(d->pawld, sizeof(d->pawld), "%.*s%s", (int)n, folder, below);

	if (len > 0 && (size_t)len < sizeof(d->pawld) && stat(d->pawld, &st) == 0 && S_ISREG(st.st_mode) && access(d->pawld, X_OK) == 0)
		return true;
	d->pawld[0] = '\0';
	return false;
}

/* Beside this very program, where it was installed, or on PATH; of PATH only absolute folders: the current one may be an agent's. */
static bool search(struct doctor *d)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *path = getenv("PATH");

	if (n > 0) {
		char *slash;

		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && (try_pawld(d, self, (size_t)(slash - self), "/pawld") || try_pawld(d, self, (size_t)(slash - self), "/../sbin/pawld")))
			return true;
	}
	while (path && *path) {
		size_t len = strcspn(path, ":");

		if (*path == '/' && try_pawld(d, path, len, "/pawld"))
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

void doctor_find_pawld(struct doctor *d)
{
	if (d->pawld_opt ? try_pawld(d, d->pawld_opt, strlen(d->pawld_opt), "") : search(d)) {
		doctor_row(d, DOCTOR_HERE, "pawld", WATCH_ON, "%s", d->pawld);
		return;
	}
	doctor_row(d, DOCTOR_HERE, "pawld", WATCH_OFF, "%s", d->pawld_opt ? "what --pawld names is no program" :
			   "not beside pawl, not in ../sbin from it, not on PATH");
	doctor_get(d, "`make` builds it, `make install` puts it in place; --pawld FILE names it");
	doctor_missing(d);
}

/* ---- pawld --probe ---- */

static enum watch_state state_of(struct str word)
{
	return str_is(word, "on") ? WATCH_ON : str_is(word, "partial") ? WATCH_PARTIAL : WATCH_OFF;
}

static void text(char *out, size_t size, struct str s)
{
	(void)snprintf(out, size, "%.*s", (int)(s.n < size ? s.n : size - 1), s.p ? s.p : "");
}

static int read_probes(struct doctor *d, struct str said, struct pawl_error *err)
{
	const struct json *rows;
	struct json *doc = NULL;
	int r = json_parse(said, PAWL_MAX_DEPTH, &doc, err);

	if (r < 0)
		return r;
	rows = json_get(doc, "probes");
	if (!rows || json_kind(rows) != JSON_KIND_ARRAY || json_size(rows) == 0)
		r = pawl_fail(err, PAWL_E_MALFORMED, "it printed no probes");
	text(d->tier, sizeof(d->tier), json_string(json_get(doc, "tier")));
	text(d->says, sizeof(d->says), json_string(json_get(doc, "says")));
	for (size_t i = 0; r == 0 && i < json_size(rows) && d->n_probes < DOCTOR_MAX_PROBES; i++) {
		const struct json *row = json_at(rows, i);
		struct watch_probe *p = &d->probe[d->n_probes];

		if (json_string(json_get(row, "name")).n == 0)
			continue;
		text(p->name, sizeof(p->name), json_string(json_get(row, "name")));
		text(p->why, sizeof(p->why), json_string(json_get(row, "why")));
		text(p->get, sizeof(p->get), json_string(json_get(row, "get")));
		p->state = state_of(json_string(json_get(row, "state")));
		p->os_errno = (int32_t)json_int(json_get(row, "errno"));
		d->n_probes++;
	}
	json_free(doc);
	return r;
}

void doctor_probe(struct doctor *d)
{
	char option[] = "--probe", complaint[160] = "";
	char *argv[] = { d->pawld, option, NULL };
	struct buf out = BUF_MAX(MAX_ANSWER);
	struct pawl_error err = { .code = PAWL_OK };
	int status = 0, r;

	if (!d->pawld[0])
		return;
	r = doctor_child(d, argv, ".", PROBE_MS, &out, complaint, &status, &err);
	if (r == 0)
		r = read_probes(d, buf_str(&out), &err);
	buf_done(&out);
	if (r == 0)
		return;
	doctor_row(d, DOCTOR_KERNEL, "probe", WATCH_OFF, "%s --probe: exit status %d: %s", d->pawld, status, complaint[0] ? complaint : err.msg);
	doctor_get(d, "run that command by hand; a pawld of another version may not know it");
	if (d->policy && d->policy->watch.on)
		doctor_missing(d);
}

/* ---- the pawld that runs ---- */

/* The row of a probe of the kernel, made where `pawld --probe` said nothing of it. NULL: it is about something else. */
static struct watch_probe *known(struct doctor *d, struct str name)
{
	static const char *const names[] = { "tracing", "pins", "sampler", "iterator", "cgroup", "memory", "pids", "pid_namespace",
					     "landlock", "seccomp", "lsm", "mount_namespace" };

	for (size_t i = 0; i < d->n_probes; i++)
		if (str_is(name, d->probe[i].name))
			return &d->probe[i];
	for (size_t i = 0; i < PAWL_LEN(names) && d->n_probes < DOCTOR_MAX_PROBES; i++)
		if (str_is(name, names[i])) {
			text(d->probe[d->n_probes].name, sizeof(d->probe[0].name), name);
			return &d->probe[d->n_probes++];
		}
	return NULL;
}

/* What it found at its start is what binds: it may be another user, in another container. */
static void believe(struct doctor *d, const struct json *status)
{
	const struct json *probes = json_get(status, "probes"), *watch = json_get(status, "watch");

	for (void *it = json_iter(probes); it; it = json_iter_next(probes, it)) {
		const struct json *row = json_iter_value(it);
		struct str name = json_iter_key(it), why = json_string(json_get(row, "why"));
		const struct str own = STR("watch.");
		enum watch_state state = state_of(json_string(json_get(row, "state")));
		struct watch_probe *p = NULL;

		if (name.n > own.n && memcmp(name.p, own.p, own.n) == 0) /* its own landlock is another thing than the watch's */
			p = known(d, (struct str){ name.p + own.n, name.n - own.n });

		if (!p) {
			char safe[32];

			text(safe, sizeof(safe), name);
			doctor_row(d, DOCTOR_DOORS, safe, state, "%.*s", STR_ARG(why));
			if (state != WATCH_ON && str_is(name, "agent_uid"))
				doctor_get(d, "run pawld as a user of its own: docs/operations.md, \"systemd\"");
			continue;
		}
		if (why.n > strlen(p->get) + 2 && p->get[0] && memcmp(why.p + why.n - strlen(p->get), p->get, strlen(p->get)) == 0)
			why.n -= strlen(p->get) + 2; /* "; " and the advice, which has a line of its own */
		if (p->state != state || why.n)
			text(p->why, sizeof(p->why), why);
		p->state = state;
		d->from_running = true;
	}
	if (json_string(json_get(watch, "tier")).n)
		text(d->tier, sizeof(d->tier), json_string(json_get(watch, "tier")));
}

static void answers(struct doctor *d, const struct json *status)
{
	struct str log = json_string(json_get(json_get(status, "log"), "state"));
	long long pid = (long long)json_int(json_get(json_get(status, "pid"), "rest"));

	(void)snprintf(d->running, sizeof(d->running), "pid %lld", pid);
	doctor_row(d, DOCTOR_DOORS, "running", WATCH_ON, "%.*s answers, pid %lld, mode %.*s", STR_ARG(json_string(json_get(status, "server"))), pid,
		   STR_ARG(json_string(json_get(status, "mode"))));
	if (str_is(json_string(json_get(status, "mode")), "shadow")) {
		doctor_row(d, DOCTOR_DOORS, "mode", WATCH_PARTIAL, "shadow: nothing is refused and nothing is killed, it is only recorded");
		doctor_get(d, "take `mode: shadow` out of the policy, then `pawl reload`");
	}
	if (str_is(log, "ok"))
		return;
	doctor_row(d, DOCTOR_DOORS, "log", WATCH_OFF, "every call is denied: %.*s", STR_ARG(json_string(json_get(json_get(status, "log"), "why"))));
	doctor_get(d, "docs/operations.md, \"Disk\"");
	doctor_missing(d);
}

/* `pawl run` asks there. */
static void watch_door(struct doctor *d)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/run/watch.sock", d->dir);

	if (d->operator_opt || n < 0 || (size_t)n >= sizeof(path)) /* the doors are elsewhere */
		return;
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		doctor_row(d, DOCTOR_DOORS, "watch_door", WATCH_ON, "%s", path);
		return;
	}
	doctor_row(d, DOCTOR_DOORS, "watch_door", WATCH_OFF, "the pawld that runs has no %s: `pawl run` cannot reach it", path);
	doctor_get(d, "start it without --no-watch");
	if (d->policy && d->policy->watch.on)
		doctor_missing(d);
}

void doctor_doors(struct doctor *d)
{
	char path[PATH_MAX];
	struct json *status = NULL;
	struct pawl_error err = { .code = PAWL_OK };
	int n = d->operator_opt ? snprintf(path, sizeof(path), "%s", d->operator_opt) : snprintf(path, sizeof(path), "%s/run/operator/operator.sock", d->dir);
	int r = n < 0 || (size_t)n >= sizeof(path) ? pawl_fail(&err, PAWL_E_USAGE, "the path is too long") :
						    door_ask(path, STR("{\"v\":1,\"op\":\"status\"}"), NULL, &status, &err);

	if (r < 0) {
		doctor_row(d, DOCTOR_DOORS, "running", WATCH_OFF, "no pawld answers: %s", err.msg);
		doctor_get(d, "pawld --dir %.200s, or `systemctl start pawld`", d->dir);
		return;
	}
	answers(d, status);
	believe(d, status);
	watch_door(d);
	json_free(status);
}
