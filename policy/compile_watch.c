/* policy/compile_watch.c - `watch`: what is asked of the kernel for every tree of processes. Knows how paths are written, not what
 * they lead to: whether a program is there, and which one, is looked at by whoever holds it against the file system. */
#include "policy/compile.h"

#include <stdio.h>

#define MAX_WATCH_PATH 1023
#define MAX_DENY_BYTES (32u << 10) /* the whole list crosses to the watcher in one message */

uint32_t watch_policy_needs(const struct watch_policy *w)
{
	const struct watch_limits *l = &w->limits;
	uint32_t need = 0;

	if (w->exec == WATCH_EXEC_REQUIRED)
		need |= HOLD_EXEC | HOLD_EVENTS;
	if (w->n_deny_exec)
		need |= HOLD_EXEC;
	need |= (l->processes ? HOLD_PROCESSES : 0) | (l->fork_rate ? HOLD_FORK_RATE : 0) | (l->exec_rate ? HOLD_EXEC_RATE : 0);
	need |= (l->cpu_ns ? HOLD_CPU : 0) | (l->memory ? HOLD_MEMORY : 0) | (l->wall_ns ? HOLD_WALL : 0);
	return need | (w->has_writes ? HOLD_WRITES : 0);
}

void set_watch_rate(struct loader *ld, void *obj, const struct schema_value *v)
{
	static const char *const periods[] = { "s" };
	int64_t n = 0;
	size_t period;

	if (v->node->kind != YNODE_TEXT || !value_count_per(v->node->text, periods, 1, "/", &n, &period) || n < v->row->min || n > v->row->max)
		ld_error(ld, v->node, "%s is written like 200/s, at most %lld/s", v->row->key, (long long)v->row->max);
	else
		memcpy((char *)obj + v->row->offset, &n, sizeof(n));
}

void set_watch_memory(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct watch_policy *w = obj;
	int64_t n;

	if (!value_bytes(ld, v->node, &n))
		return;
	if (n < v->row->min || n > v->row->max)
		ld_error(ld, v->node, "memory is at least 1MiB and at most 1024GiB, not %s", QUOTED(v->node->text));
	else
		w->limits.memory = (uint64_t)n;
}

/* ---- paths ---- */

/* What one may think is read into it, and is not. */
static const char *misread(struct str s)
{
	if (s.n > MAX_WATCH_PATH)
		return "is too long";
	if (s.n && (s.p[0] == '~' || s.p[0] == '$'))
		return "starts with what a shell would replace; write the path out";
	for (size_t i = 0; i < s.n; i++) {
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return "has a control character";
		if (s.p[i] == '*' || s.p[i] == '?')
			return "is a pattern; paths are written out here";
	}
	return NULL;
}

/* /a//b/./c/ -> /a/b/c; a/ -> a; ./ -> . ; false: it has a part `..` */
static bool path_clean(struct str s, char out[static MAX_WATCH_PATH + 2])
{
	size_t n = 0;

	if (s.n && s.p[0] == '/')
		out[n++] = '/';
	for (size_t at = 0, end; at < s.n; at = end + 1) {
		const char *slash = memchr(s.p + at, '/', s.n - at);
		struct str part = { s.p + at, (slash ? (size_t)(slash - s.p) : s.n) - at };

		end = at + part.n;
		if (str_is(part, ".."))
			return false;
		if (part.n == 0 || str_is(part, "."))
			continue;
		if (n > 0 && out[n - 1] != '/')
			out[n++] = '/';
		memcpy(out + n, part.p, part.n);
		n += part.n;
	}
	if (n == 0)
		out[n++] = '.';
	out[n] = '\0';
	return true;
}

static bool path_of(struct loader *ld, const struct ynode *at, const char *key, struct str *ret)
{
	struct str s = at->kind == YNODE_TEXT ? at->text : STR("");
	char clean[MAX_WATCH_PATH + 2];
	const char *why = misread(s);

	if (s.n == 0)
		ld_error(ld, at, "%s is a list of paths", key);
	else if (why)
		ld_error(ld, at, "%s: %s %s", key, QUOTED(s), why);
	else if (!path_clean(s, clean))
		ld_error(ld, at, "%s: %s goes up by ..; write the path without", key, QUOTED(s));
	else {
		*ret = ld_text(ld, str_of(clean));
		return ret->p != NULL;
	}
	return false;
}

static bool there_already(const struct str *rows, size_t n, struct str s)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(rows[i], s))
			return true;
	return false;
}

static bool list_fits(struct loader *ld, const struct schema_value *v)
{
	if (v->node->n <= (size_t)v->row->max)
		return true;
	ld_error(ld, v->node, "%zu paths in %s, at most %lld", v->node->n, v->row->key, (long long)v->row->max);
	return false;
}

/* A program is a file: /usr/bin/ and bin/nc are not what deny_exec can hold. */
static bool names_program(struct str s)
{
	return s.n > 1 && s.p[0] == '/' && s.p[s.n - 1] != '/' && !(s.n > 1 && s.p[s.n - 1] == '.' && s.p[s.n - 2] == '/');
}

void set_deny_exec(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct watch_policy *w = obj;
	struct str *rows;
	size_t bytes = 0;

	if (v->node->n == 0) {
		ld_error(ld, v->node, "deny_exec is empty: leave it out");
		return;
	}
	if (!list_fits(ld, v) || !(rows = ld_array(ld, v->node->n, sizeof(*rows))))
		return;
	for (const struct ynode *e = v->node->first; e; e = e->next) {
		struct str s;

		if (!path_of(ld, e, v->row->key, &s))
			continue;
		if (!names_program(e->text))
			ld_error(ld, e, "deny_exec names programs by their whole path, such as /usr/bin/nc, not %s", QUOTED(e->text));
		else if (there_already(rows, w->n_deny_exec, s))
			ld_error(ld, e, "%s is in this list already", QUOTED(e->text));
		else
			rows[w->n_deny_exec++] = s;
		bytes += s.n + 1;
	}
	if (bytes > MAX_DENY_BYTES)
		ld_error(ld, v->node, "the paths of deny_exec have %zu bytes, at most %u", bytes, MAX_DENY_BYTES);
	w->deny_exec = rows;
}

/* What a tree may write must not hold the file that judges it. Asked of the caller, since only it knows the file system; a folder
 * below a session's root is known when there is a session. */
static void refuse_own_file(struct loader *ld, const struct ynode *at, struct str folder)
{
	struct pawl_error err = { .code = PAWL_OK };
	int in;

	if (!ld->files || !ld->files->holds || folder.p[0] != '/')
		return;
	in = ld->files->holds(ld->files->arg, folder.p, ld->file, &err);
	if (in < 0)
		ld_error(ld, at, "writes_under: cannot tell whether %s holds this policy: %s", QUOTED(folder), err.msg);
	else if (in)
		ld_error(ld, at, "writes_under: %s holds this policy file: what is watched could change it", QUOTED(folder));
}

void set_writes_under(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct watch_policy *w = obj;
	struct str *rows;

	if (!list_fits(ld, v) || !(rows = ld_array(ld, v->node->n, sizeof(*rows))))
		return;
	for (const struct ynode *e = v->node->first; e; e = e->next) {
		struct str s;

		if (!path_of(ld, e, v->row->key, &s))
			continue;
		if (there_already(rows, w->n_writes_under, s)) {
			ld_error(ld, e, "%s is in this list already", QUOTED(e->text));
			continue;
		}
		if (str_is(s, "/"))
			ld_warn(ld, e, "writes_under: / limits nothing");
		refuse_own_file(ld, e, s);
		rows[w->n_writes_under++] = s;
	}
	w->writes_under = rows;
	w->has_writes = true;
}

void compile_watch(struct loader *ld)
{
	const struct ynode *map = ld->part[PART_WATCH];
	struct watch_policy *w = &ld->pol->watch;

	if (!map)
		return;
	w->on = true;
	w->exec = WATCH_EXEC_LOG;
	schema_walk(ld, "watch", map, w);
	if (w->exec == WATCH_EXEC_NONE && watch_policy_needs(w) == 0)
		ld_warn(ld, map, "this watch neither records nor limits anything");
}
