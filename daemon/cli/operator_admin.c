/* daemon/cli/operator_admin.c - see operator_admin.h. Public keys only. */
#include "daemon/cli/operator_admin.h"

#include "daemon/base/home.h"
#include "daemon/cli/ask.h"
#include "daemon/cli/fsutil.h"
#include "daemon/cli/opkey.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX        ".vkey"
#define MAX_OPERATORS 64 /* pawld refuses a folder with more */

struct roster {
	const char *dir;
	int fd; /* DIR/operators, -1 = not there */
	struct row {
		char name[PAWL_MAX_ID + 1];
		struct vkey key;
		bool good;
	} row[MAX_OPERATORS];
	size_t n;
};

static int usage(FILE *out, int status)
{
	(void)fputs(
	    "usage: pawl operator add NAME VKEY|FILE [--dir DIR]\n"
	    "       pawl operator list [--dir DIR] [--json]\n"
	    "       pawl operator remove NAME [--dir DIR]\n"
	    "Says whose signature pawld takes for an answer. VKEY is the public line that `pawl key new` printed.\n"
	    "pawld reads DIR/operators at its start and at SIGHUP, and writes each change into the log.\n"
	    "Run it as root or as the user that pawld runs as.\n\n"
	    "  --dir DIR   pawld's folder (default: $PAWL_DIR, /var/lib/pawl for root,\n"
	    "              else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
	    "Exit status: 0 done, 1 failed, 2 usage.\n",
	    out);
	return status;
}

static void learn(void)
{
	(void)puts("pawld learns it at SIGHUP or at its next start");
}

/* ---- the folder ---- */

static bool name_of(const char *file, char out[static PAWL_MAX_ID + 1])
{
	size_t n = strlen(file), s = sizeof(SUFFIX) - 1;

	if (n <= s || strcmp(file + n - s, SUFFIX) != 0 || !opkey_name_ok((struct str){ file, n - s }))
		return false;
	memcpy(out, file, n - s);
	out[n - s] = '\0';
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int read_roster(struct roster *ro, struct pawl_error *err)
{
	int fd = openat(ro->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			(void)close(fd);
		return pawl_fail_errno(err, "%s/operators", ro->dir);
	}
	while (r == 0 && (e = readdir(d))) {
		struct buf text = BUF_MAX(512);
		struct pawl_error why;
		struct row row = { .good = false };

		if (!name_of(e->d_name, row.name))
			continue;
		if (ro->n == MAX_OPERATORS)
			r = pawl_fail(err, PAWL_E_LIMIT, "%s/operators has more than %d keys: pawld will not read it",
				      ro->dir, MAX_OPERATORS);
		else if (fs_read(ro->fd, e->d_name, &text, &why) == 0)
			row.good = vkey_parse(buf_str(&text), &row.key, NULL) == 0 && strcmp(row.key.name, row.name) == 0;
		if (r == 0)
			ro->row[ro->n++] = row;
		buf_done(&text);
	}
	(void)closedir(d);
	qsort(ro->row, ro->n, sizeof(ro->row[0]), by_name);
	return r;
}

/* Opens DIR/operators, made where `make` says so. ro->fd stays -1 where it is missing. */
static int open_roster(struct roster *ro, bool make, struct pawl_error *err)
{
	int top = open(ro->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	bool made = false;

	if (top < 0)
		return pawl_fail_errno(err, "%s: `pawl init` makes it", ro->dir);
	if (make) {
		r = fs_dir(NULL, top, "operators", 022, &ro->fd, &made, err);
		/* public keys; root may write what another uid reads */
		if (r == 0 && made && fchmod(ro->fd, 0755) < 0)
			r = pawl_fail_errno(err, "%s/operators", ro->dir);
		if (r == 0)
			r = fs_lock(ro->fd, err);
	} else {
		ro->fd = openat(top, "operators", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (ro->fd < 0 && errno != ENOENT)
			r = pawl_fail_errno(err, "%s/operators", ro->dir);
	}
	(void)close(top);
	return r;
}

static const struct row *find(const struct roster *ro, const char *name)
{
	for (size_t i = 0; i < ro->n; i++)
		if (strcmp(ro->row[i].name, name) == 0)
			return &ro->row[i];
	return NULL;
}

/* ---- add ---- */

/* A vkey as said, or the file that holds it. */
static int said_key(const char *said, struct vkey *ret, struct pawl_error *err)
{
	if (vkey_parse(str_of(said), ret, NULL) == 0)
		return 0;
	if (strncmp(said, "PRIVATE+KEY+", 12) == 0)
		return pawl_fail(
		    err, PAWL_E_KEY,
		    "that is a secret key, and now it is in your shell's history: make another; enrol the public line");
	return vkey_load(said, ret, err);
}

/* A key has one job, and one person: signatures would otherwise not say who it was. */
static int other_use(const struct roster *ro, const char *name, const struct vkey *key, struct pawl_error *err)
{
	char path[PATH_MAX];
	struct vkey entry;
	int n = snprintf(path, sizeof(path), "%s/entry.vkey", ro->dir);

	if (n > 0 && (size_t)n < sizeof(path) && vkey_load(path, &entry, NULL) == 0 &&
	    memcmp(entry.pub, key->pub, sizeof(entry.pub)) == 0)
		return pawl_fail(err, PAWL_E_KEY,
				 "this key signs the log; an operator has a key of their own: `pawl key new`");
	for (size_t i = 0; i < ro->n; i++)
		if (ro->row[i].good && strcmp(ro->row[i].name, name) != 0 &&
		    memcmp(ro->row[i].key.pub, key->pub, sizeof(key->pub)) == 0)
			return pawl_fail(err, PAWL_E_KEY, "this key is enrolled as %s already", ro->row[i].name);
	if (strcmp(key->name, name) != 0)
		return pawl_fail(err, PAWL_E_KEY,
				 "that key is another name's (what stands before its first '+'): enrol it under that one");
	return 0;
}

static int add(struct roster *ro, const char *name, const char *said, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf line = BUF_MAX(512);
	char file[PAWL_MAX_ID + sizeof(SUFFIX)];
	const struct row *old;
	struct vkey key;
	bool made = false;
	int r = said_key(said, &key, err);

	if (r == 0)
		r = open_roster(ro, true, err);
	if (r == 0)
		r = read_roster(ro, err);
	if (r == 0)
		r = other_use(ro, name, &key, err);
	if (r < 0)
		return r;
	old = find(ro, name);
	if (!old && ro->n == MAX_OPERATORS)
		return pawl_fail(err, PAWL_E_LIMIT, "%d operators are enrolled: no more fit", MAX_OPERATORS);
	vkey_text(&key, &line);
	buf_putc(&line, '\n');
	(void)snprintf(file, sizeof(file), "%s" SUFFIX, name);
	r = buf_ok(&line) ? fs_write_new(NULL, ro->fd, file, buf_str(&line), 0644, &made, err)
			  : pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	if (r < 0)
		return r;
	if (!made && !(old && old->good && strcmp(old->key.name, key.name) == 0 &&
		       memcmp(old->key.pub, key.pub, sizeof(key.pub)) == 0))
		return pawl_fail(err, PAWL_E_BUSY, "%s is enrolled with another key: `pawl operator remove %s` first",
				 name, name);
	(void)printf(made ? "enrolled %s: %.*s" : "%s is enrolled already: %.*s", name, STR_ARG(buf_str(&line)));
	learn();
	return 0;
}

/* ---- remove, list ---- */

static int take_out(struct roster *ro, const char *name, struct pawl_error *err)
{
	char file[PAWL_MAX_ID + sizeof(SUFFIX)];
	int r = open_roster(ro, false, err);

	if (r < 0)
		return r;
	(void)snprintf(file, sizeof(file), "%s" SUFFIX, name);
	if (ro->fd < 0)
		return pawl_fail(err, PAWL_E_KEY, "nobody is enrolled as %s", name);
	if (unlinkat(ro->fd, file, 0) < 0)
		return errno == ENOENT ? pawl_fail(err, PAWL_E_KEY, "nobody is enrolled as %s", name)
				       : pawl_fail_errno(err, "cannot remove %s/operators/%s", ro->dir, file);
	r = fs_sync(NULL, ro->fd, "operators", err);
	if (r == 0) {
		(void)printf("removed %s\n", name);
		learn();
	}
	return r;
}

static int list(struct roster *ro, bool json, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf out = BUF_MAX(256u << 10), ascii = BUF_MAX(1u << 20);
	int r = open_roster(ro, false, err);

	if (r == 0 && ro->fd >= 0)
		r = read_roster(ro, err);
	for (size_t i = 0; r == 0 && i < ro->n; i++) {
		struct row *row = &ro->row[i];
		struct buf key = BUF_MAX(512);

		if (row->good)
			vkey_text(&row->key, &key);
		if (json) {
			buf_puts(&out, i ? ",{" : "{");
			buf_key(&out, "operator");
			buf_json(&out, str_of(row->name));
			buf_key(&out, "key");
			if (row->good)
				buf_json(&out, buf_str(&key));
			buf_puts(&out, row->good ? "}" : "null}");
		} else {
			buf_printf(&out, "%-16s ", row->name);
			if (row->good)
				escape_text(&out, buf_str(&key), escape_mode_here(), 0, NULL);
			else
				buf_puts(&out, "! not the vkey line of that name: pawld will let nobody new in");
			buf_putc(&out, '\n');
		}
		buf_done(&key);
	}
	if (r < 0)
		return r;
	if (json) {
		escape_json(&ascii, buf_str(&out));
		(void)printf("{\"operators\":[%.*s]}\n", STR_ARG(buf_str(&ascii)));
	} else if (ro->n) {
		(void)printf("%.*s", STR_ARG(buf_str(&out)));
	} else {
		(void)puts("nobody is enrolled");
	}
	return buf_ok(&out) && buf_ok(&ascii) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");
}

/* ---- the command line ---- */

static int run(struct roster *ro, char **words, int n, bool json, struct pawl_error *err)
{
	struct str what = str_of(words[0]);
	bool adds = str_is(what, "add") && n == 3, removes = str_is(what, "remove") && n == 2;

	if (str_is(what, "list") && n == 1)
		return list(ro, json, err);
	if ((!adds && !removes) || json)
		return pawl_fail(err, PAWL_E_USAGE, "`pawl operator --help` says how");
	if (!opkey_name_ok(str_of(words[1])))
		return pawl_fail(err, PAWL_E_USAGE, "not a name (letters, digits, '-', '_', '.'; at most %d bytes)",
				 PAWL_MAX_ID);
	return adds ? add(ro, words[1], words[2], err) : take_out(ro, words[1], err);
}

int cli_operator_admin(int argc, char **argv)
{
	static const struct option longs[] = { { "dir", required_argument, NULL, 'd' },
					       { "json", no_argument, NULL, 'j' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	struct pawl_error err = { .code = PAWL_OK };
	struct roster *ro;
	char home[1024];
	const char *dir = NULL;
	bool json = false;
	int c, r;

	while ((c = getopt_long(argc, argv, "d:jh", longs, NULL)) != -1) {
		if (c == 'd')
			dir = optarg;
		else if (c == 'j')
			json = true;
		else
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	}
	if (optind == argc)
		return usage(stderr, 2);
	if (!dir && home_dir(home, sizeof(home), &err) < 0)
		return ask_fail("operator", &err);
	ro = calloc(1, sizeof(*ro));
	if (!ro)
		return 1;
	ro->fd = -1;
	ro->dir = dir ? dir : home;
	r = run(ro, argv + optind, argc - optind, json, &err);
	if (ro->fd >= 0)
		(void)close(ro->fd);
	free(ro);
	return r < 0 ? ask_fail("operator", &err) : ask_end("operator", 0);
}
