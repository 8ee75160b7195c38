/* daemon/cli/doctor.c - see doctor.h. Owns the rows, the rules of the policy against what holds here, and the answer. */
#include "daemon/cli/doctor.h"

#include "daemon/base/owner.h"
#include "daemon/base/home.h"
#include "daemon/cli/lines.h"
#include "policy/money.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- rows ---- */

void doctor_row(struct doctor *d, enum doctor_group group, const char *name, enum watch_state state, const char *why, ...)
{
	struct doctor_row *row = &d->row[d->n];
	va_list ap;

	if (d->n < DOCTOR_MAX_ROWS)
		d->n++;
	d->at = row;
	*row = (struct doctor_row){ .group = group, .state = state };
	(void)snprintf(row->name, sizeof(row->name), "%s", name);
	va_start(ap, why);
	(void)vsnprintf(row->why, sizeof(row->why), why, ap);
	va_end(ap);
}

void doctor_get(struct doctor *d, const char *get, ...)
{
	va_list ap;

	va_start(ap, get);
	(void)vsnprintf(d->at->get, sizeof(d->at->get), get, ap);
	va_end(ap);
}

void doctor_missing(struct doctor *d)
{
	d->at->missing = true;
}

/* ---- what holds here ---- */

static void kernel(struct doctor *d)
{
	for (size_t i = 0; i < d->n_probes; i++) {
		const struct watch_probe *p = &d->probe[i];

		doctor_row(d, DOCTOR_KERNEL, p->name, (enum watch_state)p->state, "%s", p->why);
		if (p->state != WATCH_ON)
			doctor_get(d, "%s", p->get);
	}
}

static const struct watch_probe *probe(const struct doctor *d, const char *name)
{
	for (size_t i = 0; name && i < d->n_probes; i++)
		if (strcmp(d->probe[i].name, name) == 0)
			return &d->probe[i];
	return NULL;
}

/* must: without it the rule is not held, and a run whose policy needs it is refused; instead: what holds it then, less well. helps: without
 * it the rule is held with a gap. As daemon/watch/attach.c has it. */
static const struct held_by {
	uint32_t hold;
	const char *must, *instead, *worse, *helps, *gap;
} rules[] = {
	{ HOLD_EVENTS, "tracing", NULL, NULL, "pins", "while pawld is down program starts are not recorded" },
	{ HOLD_EXEC, "tracing", NULL, NULL, "pins", "while pawld is down nothing is stopped" },
	{ HOLD_PROCESSES, "tracing", "pids", "by the pids controller, which counts threads too and refuses the fork", "pins", "while pawld is down nothing is stopped" },
	{ HOLD_FORK_RATE, "tracing", NULL, NULL, "pins", "while pawld is down nothing is stopped" },
	{ HOLD_EXEC_RATE, "tracing", NULL, NULL, "pins", "while pawld is down nothing is stopped" },
	{ HOLD_CPU, "cgroup", NULL, NULL, "sampler", "while pawld is down nobody looks" },
	{ HOLD_MEMORY, "memory", NULL, NULL, NULL, NULL },
	{ HOLD_WALL, NULL, NULL, NULL, "sampler", "while pawld is down nobody looks" },
	{ HOLD_WRITES, "landlock", NULL, NULL, NULL, NULL },
};

static void value(const struct watch_policy *w, uint32_t hold, char out[static 64])
{
	char span[MONEY_TEXT];

	switch (hold) {
	case HOLD_EVENTS:
		(void)snprintf(out, 64, "%s", w->exec == WATCH_EXEC_REQUIRED ? "required" : "log");
		return;
	case HOLD_EXEC:
		(void)snprintf(out, 64, "%zu program%s", w->n_deny_exec, w->n_deny_exec == 1 ? "" : "s");
		return;
	case HOLD_PROCESSES:
		(void)snprintf(out, 64, "%llu", (unsigned long long)w->limits.processes);
		return;
	case HOLD_FORK_RATE:
	case HOLD_EXEC_RATE:
		(void)snprintf(out, 64, "%llu/s", (unsigned long long)(hold == HOLD_FORK_RATE ? w->limits.fork_rate : w->limits.exec_rate));
		return;
	case HOLD_CPU:
	case HOLD_WALL:
		(void)snprintf(out, 64, "%.*s", (int)span_text((int64_t)(hold == HOLD_CPU ? w->limits.cpu_ns : w->limits.wall_ns), span), span);
		return;
	case HOLD_MEMORY:
		(void)snprintf(out, 64, "%llu MiB", (unsigned long long)(w->limits.memory >> 20));
		return;
	default:
		(void)snprintf(out, 64, "%zu folder%s", w->n_writes_under, w->n_writes_under == 1 ? "" : "s");
	}
}

static void one_rule(struct doctor *d, const struct held_by *r, bool needed)
{
	const struct watch_probe *must = probe(d, r->must), *helps = probe(d, r->helps), *instead = probe(d, r->instead);
	const char *name = watch_hold_name(r->hold);
	char said[64];

	value(&d->policy->watch, r->hold, said);
	if (r->must && (!must || must->state == WATCH_OFF) && instead && instead->state != WATCH_OFF) {
		doctor_row(d, DOCTOR_POLICY, name, WATCH_PARTIAL, "%s: %s", said, r->worse);
		doctor_get(d, "%s", must ? must->get : "");
	} else if (r->must && (!must || must->state == WATCH_OFF)) {
		doctor_row(d, DOCTOR_POLICY, name, WATCH_OFF, "%s: needs %s%s", said, r->must, must ? ", which is off" : ", and nothing was found out about it");
		doctor_get(d, "%s", must ? must->get : "");
		if (needed)
			doctor_missing(d);
	} else if (r->must && must->state == WATCH_PARTIAL) {
		doctor_row(d, DOCTOR_POLICY, name, WATCH_PARTIAL, "%s: %s is partial: %s", said, r->must, must->why);
		doctor_get(d, "%s", must->get);
	} else if (r->helps && (!helps || helps->state != WATCH_ON)) {
		doctor_row(d, DOCTOR_POLICY, name, WATCH_PARTIAL, "%s: %s", said, r->gap);
		doctor_get(d, "%s", helps ? helps->get : "");
	} else {
		doctor_row(d, DOCTOR_POLICY, name, WATCH_ON, "%s", said);
	}
}

static void watch_rules(struct doctor *d)
{
	uint32_t needs, asks;

	if (!d->policy)
		return;
	if (!d->policy->watch.on) {
		doctor_row(d, DOCTOR_POLICY, "watch", WATCH_ON, "the policy has no `watch` section: it asks nothing of the kernel");
		return;
	}
	needs = watch_policy_needs(&d->policy->watch);
	asks = needs | (d->policy->watch.exec == WATCH_EXEC_NONE ? 0u : HOLD_EVENTS); /* `exec: log` would like to, and runs without */
	for (size_t i = 0; i < PAWL_LEN(rules); i++)
		if (asks & rules[i].hold)
			one_rule(d, &rules[i], needs & rules[i].hold);
	if (d->policy->mode == MODE_SHADOW) {
		doctor_row(d, DOCTOR_POLICY, "mode", WATCH_PARTIAL, "shadow: what would be stopped is recorded and goes on");
		doctor_get(d, "take `mode: shadow` out of the policy when it has been tried");
	}
}

/* ---- the answer ---- */

static const char *const group_words[DOCTOR_GROUPS] = { "kernel", "policy", "folder", "doors", "machine" };
static const char *const state_words[] = { [WATCH_OFF] = "off", [WATCH_PARTIAL] = "partial", [WATCH_ON] = "on" };

/* What others said may have been cut in the middle of a letter, and names of files are any bytes. */
static void member(struct buf *out, const char *key, const char *z)
{
	struct buf plain = BUF_MAX(8192);
	struct str s = str_of(z);

	for (int i = 0; i < 3 && s.n && !utf8_valid(s); i++)
		s.n--;
	if (!utf8_valid(s)) {
		escape_text(&plain, str_of(z), ESCAPE_ASCII, 0, NULL);
		s = buf_str(&plain);
	}
	buf_key(out, key);
	buf_json(out, s.p ? s : STR(""));
	out->failed |= plain.failed;
	buf_done(&plain);
}

static void put(const struct doctor *d, struct buf *out)
{
	size_t missing = 0;

	buf_putc(out, '{');
	member(out, "tier", d->tier);
	member(out, "says", d->says);
	member(out, "from", d->from_running ? d->running : d->n_probes ? d->pawld : "");
	member(out, "dir", d->dir);
	buf_key(out, "uid");
	buf_u64(out, geteuid());
	buf_puts(out, ",\"rows\":[");
	for (enum doctor_group g = DOCTOR_KERNEL; g < DOCTOR_GROUPS; g++)
		for (size_t i = 0; i < d->n; i++) {
			const struct doctor_row *row = &d->row[i];

			if (row->group != g)
				continue;
			if (out->p[out->n - 1] == '}')
				buf_putc(out, ',');
			buf_putc(out, '{');
			member(out, "group", group_words[g]);
			member(out, "name", row->name);
			member(out, "state", state_words[row->state]);
			member(out, "why", row->why);
			member(out, "get", row->state == WATCH_ON ? "" : row->get);
			buf_key(out, "missing");
			buf_puts(out, row->missing ? "true}" : "false}");
			missing += row->missing;
		}
	buf_puts(out, "],\"missing\":");
	buf_u64(out, missing);
	buf_putc(out, '}');
}

static void show_row(struct lines *l, const struct json *row)
{
	size_t at = l->out->n;

	(void)line_value(l, "  ", row, "state", "");
	while (buf_ok(l->out) && l->out->n - at < 11)
		buf_putc(l->out, ' ');
	at = l->out->n;
	(void)line_value(l, "", row, "name", "");
	do
		buf_putc(l->out, ' ');
	while (buf_ok(l->out) && l->out->n - at < 16);
	(void)line_value(l, "", row, "why", "");
	line_end(l);
	if (json_string(json_get(row, "get")).n) {
		(void)line_value(l, "             get it: ", row, "get", "");
		line_end(l);
	}
}

static void show(struct lines *l, const struct json *doc)
{
	const struct json *rows = json_get(doc, "rows");
	struct str group = STR_NONE;
	long long missing = (long long)json_int(json_get(doc, "missing"));

	if (json_string(json_get(doc, "tier")).n) {
		(void)line_value(l, "tier ", doc, "tier", "");
		if (json_string(json_get(doc, "says")).n)
			(void)line_value(l, ": ", doc, "says", "");
		line_end(l);
	}
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *row = json_at(rows, i);
		struct str own = json_string(json_get(row, "group"));

		if (!str_eq(own, group)) {
			(void)line_value(l, "", row, "group", "");
			if (str_is(own, "kernel") && json_string(json_get(doc, "from")).n)
				(void)line_value(l, ", as found by ", doc, "from", "");
			line_end(l);
		}
		group = own;
		show_row(l, row);
	}
	if (missing)
		buf_printf(l->out, "%lld thing%s that the policy needs %s missing\n", missing, missing == 1 ? "" : "s", missing == 1 ? "is" : "are");
	else
		buf_puts(l->out, "all that the policy needs is there\n");
}

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl doctor [--dir DIR] [--policy FILE] [--pawld FILE] [--operator-socket PATH] [--json]\n"
		    "Says what this machine has for pawl and what it lacks, each with its reason and how to get it: what the kernel lets pawld do\n"
		    "(found by doing it), which rules of the policy's `watch` section hold with that, pawld's folder, the pawld that runs, the\n"
		    "Python package. Changes nothing. Run it as the user that pawld runs as: another may find more, or less.\n\n"
		    "  --dir DIR     pawld's folder (default: $PAWL_DIR, /var/lib/pawl for root,\n"
		    "                else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --policy FILE default DIR/policy.yaml\n"
		    "  --pawld FILE  default: beside pawl, in ../sbin from it, on PATH\n"
		    "  --operator-socket PATH\n"
		    "                pawld's operator door, when it is not DIR/run/operator/operator.sock\n"
		    "  --json        one JSON object\n"
		    "Exit status: 0 all that the policy needs is there, 1 some of it is not, 2 usage.\n",
		    out);
	return status;
}

static int look(struct doctor *d, bool json)
{
	struct buf doc = BUF_MAX(1u << 20);
	int status;

	doctor_folder(d); /* loads the policy: what is missing is what that needs */
	doctor_find_pawld(d);
	doctor_probe(d);
	doctor_doors(d);
	doctor_here(d); /* after the doors: what the pawld that runs says of its user goes first */
	kernel(d);
	watch_rules(d);
	put(d, &doc);
	status = lines_answer("doctor", &doc, json, show);
	buf_done(&doc);
	for (size_t i = 0; i < d->n; i++)
		if (d->row[i].missing)
			status = 1;
	return status;
}

static bool options(struct doctor *d, int argc, char **argv, bool *json, int *ret_status)
{
	static const struct option longs[] = { { "dir", required_argument, NULL, 'd' },
					       { "policy", required_argument, NULL, 'p' },
					       { "pawld", required_argument, NULL, 'w' },
					       { "operator-socket", required_argument, NULL, 's' },
					       { "json", no_argument, NULL, 'j' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "d:h", longs, NULL)) != -1) {
		if (c == 'd')
			d->dir = optarg;
		else if (c == 'p')
			d->policy_opt = optarg;
		else if (c == 'w')
			d->pawld_opt = optarg;
		else if (c == 's')
			d->operator_opt = optarg;
		else if (c == 'j')
			*json = true;
		else {
			*ret_status = c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
			return false;
		}
	}
	if (optind == argc)
		return true;
	*ret_status = usage(stderr, 2);
	return false;
}

int cli_doctor(int argc, char **argv)
{
	struct doctor *d = calloc(1, sizeof(*d));
	struct pawl_error err = { .code = PAWL_OK };
	char home[PATH_MAX];
	bool json = false;
	int status = 1;

	if (!d)
		return 1;
	d->own_group = OWNER_NO_GROUP;
	d->began_ms = doctor_now_ms();
	d->at = &d->row[0];
	if (options(d, argc, argv, &json, &status)) {
		if (!d->dir && home_dir(home, sizeof(home), &err) < 0) {
			status = lines_fail("doctor", &err);
		} else {
			d->dir = d->dir ? d->dir : home;
			status = look(d, json);
		}
	}
	policy_free(d->policy);
	free(d);
	return status;
}
