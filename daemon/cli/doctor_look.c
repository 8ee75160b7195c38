/* daemon/cli/doctor_look.c - pawld's folder and this machine: owners, modes, key, policy, operators, room, Python. Owns d->policy from here
 * on. Names are looked at, never opened through; secrets are not read. */
#include "daemon/cli/doctor.h"

#include "daemon/base/owner.h"
#include "daemon/cli/policy.h"
#include "daemon/log/keys.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PYTHON_MS 10000
#define CALL_BYTES 2008u	       /* a decision and its settlement in the log: docs/operations.md, "Disk" */
#define ROOM_LITTLE (1024ull << 20)
#define ROOM_NONE (64ull << 20)	       /* four of the log's pieces */

/* ---- the folder ---- */

static bool below(const struct doctor *d, const char *name, char out[static PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%s%s%s", d->dir, *name ? "/" : "", name);

	return n > 0 && n < PATH_MAX;
}

/* Whoever may write to a folder above may put another in place of this one. */
static bool chain_ok(struct doctor *d, uid_t owner)
{
	char *full = realpath(d->dir, NULL), *slash;
	bool ok = full != NULL;

	while (ok && (slash = strrchr(full, '/'))) {
		struct stat st;

		slash[slash == full ? 1 : 0] = '\0';
		ok = stat(full, &st) == 0 && (st.st_uid == 0 || st.st_uid == owner) && (owner_only(&st, d->own_group, full, -1) || (st.st_mode & S_ISVTX));
		if (!ok) {
			doctor_row(d, DOCTOR_FOLDER, "folder", WATCH_OFF, "%s, above it, can be changed by others (uid %u, mode %04o)", full, st.st_uid,
				   st.st_mode & 07777u);
			doctor_get(d, "chmod go-w %s, or move pawld's folder (docs/operations.md, \"Moving\")", full);
			doctor_missing(d);
		}
		if (full[1] == '\0')
			break;
	}
	free(full);
	return ok;
}

static bool top(struct doctor *d, struct stat *st)
{
	int e = lstat(d->dir, st) < 0 ? errno : S_ISDIR(st->st_mode) ? 0 : ENOTDIR;

	if (e) {
		doctor_row(d, DOCTOR_FOLDER, "folder", WATCH_OFF, "%s: %s", d->dir, strerror(e));
		if (e == EACCES)
			doctor_get(d, "run `pawl doctor` as root or as pawld's user");
		else
			doctor_get(d, "pawl init --dir %.200s", d->dir);
		doctor_missing(d);
		return false;
	}
	d->own_group = owner_group(st->st_uid);
	if (!chain_ok(d, st->st_uid))
		return false;
	if (!owner_only(st, d->own_group, d->dir, -1)) {
		doctor_row(d, DOCTOR_FOLDER, "folder", WATCH_OFF, "%s can be written by others (mode %04o)", d->dir, st->st_mode & 07777u);
		doctor_get(d, "chmod go-w %.200s", d->dir);
		doctor_missing(d);
		return false;
	}
	doctor_row(d, DOCTOR_FOLDER, "folder", WATCH_ON, "%s, uid %u, mode %04o", d->dir, st->st_uid, st->st_mode & 07777u);
	return true;
}

/* false: not looked further. */
static bool part(struct doctor *d, const char *name, mode_t kind, mode_t refuse, uid_t owner, const char *get)
{
	char path[PATH_MAX];
	struct stat st;
	bool there = below(d, name, path) && lstat(path, &st) == 0;

	if (!there && errno == EACCES) {
		doctor_row(d, DOCTOR_FOLDER, name, WATCH_PARTIAL, "cannot be looked at by uid %u", geteuid());
		doctor_get(d, "run `pawl doctor` as root or as pawld's user");
	} else if (!there || (st.st_mode & S_IFMT) != kind) {
		doctor_row(d, DOCTOR_FOLDER, name, WATCH_OFF, "%s", there ? "is something else" : "is not there");
		doctor_get(d, "%s", get);
		doctor_missing(d);
	} else if (st.st_uid != owner && st.st_uid != 0) {
		doctor_row(d, DOCTOR_FOLDER, name, WATCH_OFF, "belongs to uid %u, the folder to uid %u", st.st_uid, owner);
		doctor_get(d, "chown %u %.200s", owner, path);
		doctor_missing(d);
	} else if (!owner_closed(&st, refuse, d->own_group, path, -1)) {
		doctor_row(d, DOCTOR_FOLDER, name, WATCH_OFF, "is open to others (mode %04o)", st.st_mode & 07777u);
		doctor_get(d, "chmod %04o %.200s", st.st_mode & 07777u & ~refuse, path);
		doctor_missing(d);
	} else {
		return true;
	}
	return false;
}

static void parts(struct doctor *d, uid_t owner)
{
	static const struct {
		const char *name;
		mode_t refuse;
	} folders[] = { { "keys", 077 }, { "state", 077 }, { "log", 077 }, { "run", 022 } };
	bool good = true;

	for (size_t i = 0; i < PAWL_LEN(folders); i++)
		good &= part(d, folders[i].name, S_IFDIR, folders[i].refuse, owner, "`pawl init` makes what is missing and changes nothing else");
	if (good)
		doctor_row(d, DOCTOR_FOLDER, "parts", WATCH_ON, "keys, state, log and run are there, and nobody else's");
	if (part(d, "keys/entry.key", S_IFREG, 077, owner, "`pawl init` makes one for a new log; that of a log there is must be brought back"))
		doctor_row(d, DOCTOR_FOLDER, "key", WATCH_ON, "keys/entry.key signs the log");
}

static void policy(struct doctor *d)
{
	PAWL_CLEANUP(policy_report_done) struct policy_report rep = { 0 };
	char own[PATH_MAX];
	const char *file = d->policy_opt ? d->policy_opt : below(d, "policy.yaml", own) ? own : "";
	struct pawl_error err = { .code = PAWL_OK };
	struct stat st;

	if (policy_read(file, &d->policy, &rep, &err) < 0) {
		d->policy = NULL;
		doctor_row(d, DOCTOR_FOLDER, "policy", WATCH_OFF, "%s", err.msg);
		doctor_get(d, rep.errors ? "`pawl policy check %.200s` names every mistake" : "`pawl init` writes one to start from; --policy FILE names another than %.150s", file);
		doctor_missing(d);
	} else if (stat(file, &st) == 0 && !owner_only(&st, d->own_group, file, -1)) {
		doctor_row(d, DOCTOR_FOLDER, "policy", WATCH_OFF, "%s can be written by others (mode %04o)", file, st.st_mode & 07777u);
		doctor_get(d, "chmod go-w %.200s", file);
		doctor_missing(d);
	} else {
		doctor_row(d, DOCTOR_FOLDER, "policy", rep.n ? WATCH_PARTIAL : WATCH_ON, "%s: %.*s, %zu rules, %zu warning%s", file, STR_ARG(d->policy->name),
			   d->policy->n_rules, rep.n, rep.n == 1 ? "" : "s");
		if (rep.n)
			doctor_get(d, "`pawl policy check %.200s` says what they are", file);
	}
}

static void operators(struct doctor *d)
{
	char path[PATH_MAX];
	DIR *dir = below(d, "operators", path) ? opendir(path) : NULL;
	const struct dirent *e;
	size_t n = 0;

	while (dir && (e = readdir(dir))) {
		size_t len = strlen(e->d_name);

		n += len > 5 && strcmp(e->d_name + len - 5, ".vkey") == 0;
	}
	if (dir)
		(void)closedir(dir);
	if (n || (d->policy && !d->policy->attended)) {
		doctor_row(d, DOCTOR_FOLDER, "operators", WATCH_ON, n ? "%zu enrolled" : "%zu enrolled; the policy is for where nobody is (attended: false)", n);
		return;
	}
	doctor_row(d, DOCTOR_FOLDER, "operators", WATCH_PARTIAL, "nobody is enrolled: a call that gets `review` waits until its time is over");
	doctor_get(d, "pawl key new --name NAME, then pawl operator add NAME VKEY");
}

/* Where no pawld runs that has said it itself. */
static void one_uid(struct doctor *d)
{
	char path[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->row[i].name, "agent_uid") == 0)
			return;
	if (!below(d, "run", path) || lstat(path, &st) < 0)
		return;
	if (st.st_mode & 077) {
		doctor_row(d, DOCTOR_FOLDER, "agent_uid", WATCH_ON, "other users than pawld's may reach the agent door (run has mode %04o)", st.st_mode & 07777u);
		return;
	}
	doctor_row(d, DOCTOR_FOLDER, "agent_uid", WATCH_PARTIAL, "agents run under the uid that owns log, keys and policy (%u): P4, P6, P7 hold against mistakes", st.st_uid);
	doctor_get(d, "give pawld a user of its own and run/ a group that the agents are in: docs/operations.md, \"systemd\"");
}

static void room(struct doctor *d)
{
	char path[PATH_MAX];
	struct statvfs vfs;
	unsigned long long left;

	if (!below(d, "log", path) || statvfs(path, &vfs) < 0)
		return;
	left = vfs.f_files && !vfs.f_favail ? 0 : (unsigned long long)vfs.f_bavail * vfs.f_frsize; /* no inode left: no new piece either */
	doctor_row(d, DOCTOR_FOLDER, "room", left < ROOM_NONE ? WATCH_OFF : left < ROOM_LITTLE ? WATCH_PARTIAL : WATCH_ON,
		   "%llu MiB free for the log, some %llu thousand calls", left >> 20, left / CALL_BYTES / 1000);
	if (left >= ROOM_LITTLE)
		return;
	doctor_get(d, "make room elsewhere on that file system, never in log/: a full one denies every call");
	if (left < ROOM_NONE)
		doctor_missing(d);
}

void doctor_folder(struct doctor *d)
{
	struct stat st;
	bool there = top(d, &st);

	if (there)
		parts(d, st.st_uid);
	if (there || d->policy_opt)
		policy(d);
	if (!there)
		return;
	operators(d);
	room(d);
}

/* ---- the machine ---- */

/* Looked for in PYTHONPATH as it was said: what is relative there is relative to here. Nothing is run from here. */
static bool on_python_path(struct doctor *d)
{
	const char *path = getenv("PYTHONPATH");
	char file[PATH_MAX];

	while (path && *path) {
		size_t len = strcspn(path, ":");
		int n = snprintf(file, sizeof(file), "%.*s/pawl/__init__.py", (int)len, path);

		if (len && n > 0 && (size_t)n < sizeof(file) && access(file, R_OK) == 0) {
			doctor_row(d, DOCTOR_HERE, "python", WATCH_ON, "%s, by PYTHONPATH", file);
			return true;
		}
		path += len + (path[len] == ':');
	}
	return false;
}

/* find_spec() does not run the package. Started in /: Python looks for modules in the current folder first, and that may be an agent's. */
static void python(struct doctor *d)
{
	char name[] = "python3", c[] = "-c", complaint[160] = "";
	char script[] = "import importlib.util as u\ns = u.find_spec('pawl')\nprint(s.origin if s else '', end='')";
	char *argv[] = { name, c, script, NULL };
	struct buf out = BUF_MAX(PATH_MAX);
	struct pawl_error err = { .code = PAWL_OK };
	int status = 0, r;

	if (on_python_path(d))
		return;
	r = doctor_child(d, argv, "/", PYTHON_MS, &out, complaint, &status, &err);
	if (r < 0 || status != 0) {
		doctor_row(d, DOCTOR_HERE, "python", WATCH_OFF, "%s", r < 0 ? err.msg : complaint);
		doctor_get(d, "apt-get install python3, for agents that are written in Python");
	} else if (out.n == 0) {
		doctor_row(d, DOCTOR_HERE, "python", WATCH_OFF, "python3 is there and finds no package pawl");
		doctor_get(d, "PYTHONPATH=PREFIX/share/pawl/python where pawl was installed, hooks/python where it was built");
	} else {
		doctor_row(d, DOCTOR_HERE, "python", WATCH_ON, "%.*s", STR_ARG(buf_str(&out)));
	}
	buf_done(&out);
}

void doctor_here(struct doctor *d)
{
	one_uid(d);
	python(d);
}
