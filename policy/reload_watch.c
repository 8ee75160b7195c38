/* policy/reload_watch.c - see reload_watch.h. A limit that is not written is no limit, so its appearance tightens; a list of what may
 * be written is the other way round than one of what may not be run. */
#include "policy/reload_watch.h"

#include "policy/money.h"
#include "policy/redact.h"
#include "policy/report.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT 200

struct side {
	const struct watch_policy *old, *pol;
	reload_say *say;
	void *arg;
};

PAWL_PRINTF(3, 4) static void say(const struct side *s, enum reload_way way, const char *fmt, ...)
{
	char text[TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->say(s->arg, way, text);
}

/* ---- limits ---- */

enum form { FORM_COUNT, FORM_RATE, FORM_SPAN, FORM_BYTES };

static const char *limit_text(enum form form, uint64_t v, char out[static MONEY_TEXT])
{
	static const char *const units[] = { "", "KiB", "MiB", "GiB" };
	size_t unit = 0;

	if (v == 0)
		(void)snprintf(out, MONEY_TEXT, "no limit");
	else if (form == FORM_SPAN)
		(void)span_text((int64_t)v, out);
	else {
		for (; form == FORM_BYTES && unit + 1 < PAWL_LEN(units) && v % 1024 == 0; v /= 1024)
			unit++;
		(void)snprintf(out, MONEY_TEXT, "%llu%s", (unsigned long long)v, form == FORM_RATE ? "/s" : units[unit]);
	}
	return out;
}

static uint64_t or_never(uint64_t limit)
{
	return limit ? limit : UINT64_MAX;
}

static void say_limit(const struct side *s, const char *key, enum form form, uint64_t a, uint64_t b)
{
	char from[MONEY_TEXT], to[MONEY_TEXT];

	if (a != b)
		say(s, or_never(b) > or_never(a) ? LOOSER : TIGHTER, "watch.%s %s -> %s", key, limit_text(form, a, from), limit_text(form, b, to));
}

static void say_limits(const struct side *s)
{
	const struct watch_limits *a = &s->old->limits, *b = &s->pol->limits;

	say_limit(s, "processes", FORM_COUNT, a->processes, b->processes);
	say_limit(s, "fork_rate", FORM_RATE, a->fork_rate, b->fork_rate);
	say_limit(s, "exec_rate", FORM_RATE, a->exec_rate, b->exec_rate);
	say_limit(s, "cpu", FORM_SPAN, a->cpu_ns, b->cpu_ns);
	say_limit(s, "memory", FORM_BYTES, a->memory, b->memory);
	say_limit(s, "wall", FORM_SPAN, a->wall_ns, b->wall_ns);
}

/* ---- lists ---- */

static bool in_list(struct str s, const struct str *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(rows[i], s))
			return true;
	return false;
}

/* Rows of a that b has not. Quoted: a text of a path must not write to a terminal, nor be cut inside a character. */
static void say_missing(const struct side *s, enum reload_way way, const char *what, const struct str *a, size_t n_a, const struct str *b, size_t n_b)
{
	for (size_t i = 0; i < n_a; i++)
		if (!in_list(a[i], b, n_b))
			say(s, way, "watch.%s %s", what, QUOTED(a[i]));
}

static void say_writes(const struct side *s)
{
	const struct watch_policy *a = s->old, *b = s->pol;

	if (a->has_writes != b->has_writes) {
		say(s, b->has_writes ? TIGHTER : LOOSER, "watch.writes_under %s", b->has_writes ? "limits what is written" : "is gone");
		return;
	}
	say_missing(s, TIGHTER, "writes_under has no more", a->writes_under, a->n_writes_under, b->writes_under, b->n_writes_under);
	say_missing(s, LOOSER, "writes_under has", b->writes_under, b->n_writes_under, a->writes_under, a->n_writes_under);
}

void reload_watch(const struct watch_policy *old, const struct watch_policy *pol, reload_say *tell, void *arg)
{
	static const char *const words[WATCH_EXEC_COUNT] = { "none", "log", "required" };
	struct side s = { old, pol, tell, arg };

	if (old->on != pol->on) {
		say(&s, pol->on ? TIGHTER : LOOSER, "watch is %s", pol->on ? "on" : "off");
		return;
	}
	if (old->exec != pol->exec) /* the enum goes from lax to strict */
		say(&s, pol->exec < old->exec ? LOOSER : TIGHTER, "watch.exec %s -> %s", words[old->exec], words[pol->exec]);
	say_limits(&s);
	say_missing(&s, LOOSER, "deny_exec has no more", old->deny_exec, old->n_deny_exec, pol->deny_exec, pol->n_deny_exec);
	say_missing(&s, TIGHTER, "deny_exec has", pol->deny_exec, pol->n_deny_exec, old->deny_exec, old->n_deny_exec);
	say_writes(&s);
}

/* ---- log ---- */

static bool in_set(const struct redact_path *row, const struct redact_set *set)
{
	for (size_t i = 0; set && i < set->n; i++)
		if (set->paths[i].anywhere == row->anywhere && str_eq(set->paths[i].text, row->text))
			return true;
	return false;
}

static void say_redact(const struct side *s, enum reload_way way, const char *what, const struct redact_set *a, const struct redact_set *b)
{
	for (size_t i = 0; a && i < a->n; i++)
		if (!in_set(&a->paths[i], b))
			say(s, way, "log.redact %s %s %s", what, a->paths[i].anywhere ? "anywhere" : "args", QUOTED(a->paths[i].text));
}

void reload_log(const struct log_policy *old, const struct log_policy *pol, reload_say *tell, void *arg)
{
	static const char *const words[RECORD_COUNT] = { "digest", "redacted", "full" };
	struct side s = { .say = tell, .arg = arg };

	if (old->record_args != pol->record_args) /* the enum goes from little to all */
		say(&s, pol->record_args > old->record_args ? LOOSER : TIGHTER, "log.record_args %s -> %s", words[old->record_args],
		    words[pol->record_args]);
	say_redact(&s, LOOSER, "has no more", old->redact, pol->redact);
	say_redact(&s, TIGHTER, "has", pol->redact, old->redact);
}
