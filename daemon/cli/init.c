/* daemon/cli/init.c - see init.h. Holds the secret key only while it is written; it never prints it.
 * Must not decide anything that pawld decides: it writes files and stops. */
#include "daemon/cli/init.h"

#include "daemon/base/home.h"
#include "daemon/log/keys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY_SUFFIX "/entry" /* the entry key's name is the origin with this behind it */
#define KEY_PATH "keys/entry.key"

static const char starter_policy[] =
#include "starter_policy.h" /* made from examples/policies/starter.yaml by the build */
	;

enum folder { TOP, KEYS, STATE, LOG, RUN, OPERATOR, FOLDER_COUNT };
static const struct {
	const char *name, *shown;
	enum folder parent;
	mode_t refuse; /* run/ may be opened to the agents' users by hand; the rest is nobody else's business */
} folders[FOLDER_COUNT] = {
	[TOP] = { NULL, "", TOP, 022 },
	[KEYS] = { "keys", "keys/", TOP, 077 },
	[STATE] = { "state", "state/", TOP, 077 },
	[LOG] = { "log", "log/", TOP, 077 },
	[RUN] = { "run", "run/", TOP, 022 },
	[OPERATOR] = { "operator", "run/operator/", RUN, 077 },
};

struct init {
	const struct init_options *opt;
	const struct fs_io *io;
	FILE *out;
	int fd[FOLDER_COUNT];
};

static void say(const struct init *in, bool made, const char *path, const char *what)
{
	(void)fprintf(in->out, "%-13s %s/%-*s%s\n", made ? "made" : "already there", in->opt->dir, *what ? 18 : 0, path, what);
}

static int make_folders(struct init *in, struct pawl_error *err)
{
	for (enum folder f = TOP; f < FOLDER_COUNT; f++) {
		int at = f == TOP ? AT_FDCWD : in->fd[folders[f].parent];
		const char *name = f == TOP ? in->opt->dir : folders[f].name;
		bool made = false;
		int r = fs_dir(in->io, at, name, folders[f].refuse, &in->fd[f], &made, err);

		if (r == 0 && f == TOP)
			r = fs_lock(in->fd[TOP], err);
		if (r < 0)
			return r;
		say(in, made, folders[f].shown, "");
	}
	return 0;
}

static int random_origin(struct buf *out, struct pawl_error *err)
{
	char host[65] = "";
	uint8_t id[4];

	if (gethostname(host, sizeof(host) - 1) < 0 || !note_name_ok(str_of(host)))
		(void)snprintf(host, sizeof(host), "localhost");
	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return pawl_fail_errno(err, "no random bytes");
	buf_printf(out, "%s/pawl/", host);
	buf_hex(out, id, sizeof(id));
	return 0;
}

/* The name of the entry key: the origin that was asked for, or a fresh one. */
static int key_name(const struct init *in, struct buf *out, struct pawl_error *err)
{
	int r = 0;

	if (in->opt->name)
		buf_puts(out, in->opt->name);
	else
		r = random_origin(out, err);
	if (r < 0)
		return r;
	if (!buf_ok(out) || out->n > PAWL_MAX_ORIGIN || !note_name_ok(buf_str(out)))
		return pawl_fail(err, PAWL_E_USAGE, "not a log's name: \"%.140s\" (1 to %d bytes, no space, no '+'; such as host.example/pawl/1)",
				 in->opt->name ? in->opt->name : "", PAWL_MAX_ORIGIN);
	buf_puts(out, ENTRY_SUFFIX);
	buf_putc(out, '\0');
	return buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for the key's name");
}

/* A log without its key cannot be gone on with, and a fresh key would only hide that. */
static int refuse_orphans(const struct init *in, struct pawl_error *err)
{
	DIR *dir;
	const struct dirent *de;
	bool vkey = false, entries = false;
	int fd, r = fs_exists(in->fd[TOP], "entry.vkey", &vkey, err);

	if (r < 0)
		return r;
	fd = openat(in->fd[LOG], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		r = pawl_fail_errno(err, "cannot read %s/log/", in->opt->dir);
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while ((de = readdir(dir)) && !entries)
		entries = de->d_name[0] != '.';
	(void)closedir(dir);
	if (vkey || entries)
		return pawl_fail(err, PAWL_E_KEY, "%s/" KEY_PATH " is gone, but %s/%s is there: bring the key back, or start in a new folder", in->opt->dir,
				 in->opt->dir, vkey ? "entry.vkey" : "log/");
	return 0;
}

static int make_key(const struct init *in, struct sign_key **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf name = BUF_MAX(512), text = BUF_MAX(1024);
	struct sign_key *key = NULL;
	bool made = false;
	int r = refuse_orphans(in, err);

	if (r == 0)
		r = key_name(in, &name, err);
	if (r == 0)
		r = sign_key_new(name.p, &key, err);
	if (r < 0)
		return r;
	sign_key_text(key, &text);
	if (buf_ok(&text) && text.p[text.n - 1] != '\n')
		buf_putc(&text, '\n');
	r = buf_ok(&text) ? fs_write_new(in->io, in->fd[KEYS], "entry.key", buf_str(&text), 0600, &made, err) :
			    pawl_fail(err, PAWL_E_NOMEM, "no memory for the key's text");
	if (text.p)
		explicit_bzero(text.p, text.cap);
	if (r == 0 && !made)
		r = pawl_fail(err, PAWL_E_BUSY, "%s/" KEY_PATH " came into being while we made one", in->opt->dir);
	if (r < 0) {
		sign_key_free(key);
		return r;
	}
	say(in, true, KEY_PATH, "signs the log; secret");
	*ret = key;
	return 0;
}

static int load_key(const struct init *in, struct sign_key **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf want = BUF_MAX(512);
	char path[PATH_MAX];
	struct sign_key *key = NULL;
	int r, n = snprintf(path, sizeof(path), "%s/" KEY_PATH, in->opt->dir);

	if (n < 0 || (size_t)n >= sizeof(path))
		return pawl_fail(err, PAWL_E_USAGE, "the folder's name is too long");
	r = in->opt->name ? key_name(in, &want, err) : 0;
	if (r == 0)
		r = sign_key_load(path, &key, err);
	if (r < 0)
		return r;
	if (in->opt->name && strcmp(want.p, sign_key_vkey(key)->name) != 0) {
		r = pawl_fail(err, PAWL_E_CONFLICT, "%s is of \"%.160s\", not of \"%.160s\"; it stays as it is", path, sign_key_vkey(key)->name, want.p);
		sign_key_free(key);
		return r;
	}
	say(in, false, KEY_PATH, "signs the log; secret");
	*ret = key;
	return 0;
}

/* What the log is verified with; an old one must be of this key. */
static int write_vkey(const struct init *in, const struct sign_key *key, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(1024), old = BUF_MAX(1024);
	bool made = false;
	int r;

	vkey_text(sign_key_vkey(key), &text);
	if (buf_ok(&text) && text.p[text.n - 1] != '\n')
		buf_putc(&text, '\n');
	if (!buf_ok(&text))
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the verifier key");
	r = fs_write_new(in->io, in->fd[TOP], "entry.vkey", buf_str(&text), 0644, &made, err);
	if (r == 0 && !made)
		r = fs_read(in->fd[TOP], "entry.vkey", &old, err);
	if (r == 0 && !made && !str_eq(buf_str(&old), buf_str(&text)))
		r = pawl_fail(err, PAWL_E_KEY, "%s/entry.vkey does not belong to " KEY_PATH, in->opt->dir);
	if (r == 0)
		say(in, made, "entry.vkey", "the log is verified with it; give it away");
	return r;
}

static int init_steps(struct init *in, struct pawl_error *err)
{
	struct sign_key *key = NULL;
	bool made = false, have_key = false;
	int r = fs_parents(in->opt->dir, err);

	if (r == 0)
		r = make_folders(in, err);
	if (r == 0)
		r = fs_write_new(in->io, in->fd[TOP], "policy.yaml", (struct str){ starter_policy, sizeof(starter_policy) - 1 }, 0600, &made, err);
	if (r == 0) {
		say(in, made, "policy.yaml", "what agents may do; edit it");
		r = fs_exists(in->fd[KEYS], "entry.key", &have_key, err);
	}
	if (r == 0)
		r = have_key ? load_key(in, &key, err) : make_key(in, &key, err);
	if (r == 0)
		r = write_vkey(in, key, err);
	sign_key_free(key);
	return r;
}

int init_run(const struct init_options *opt, const struct fs_io *io, FILE *out, struct pawl_error *err)
{
	struct init in = { .opt = opt, .io = io, .out = out };
	int r;

	for (enum folder f = TOP; f < FOLDER_COUNT; f++)
		in.fd[f] = -1;
	r = init_steps(&in, err);
	for (enum folder f = TOP; f < FOLDER_COUNT; f++)
		if (in.fd[f] >= 0)
			(void)close(in.fd[f]);
	return r;
}

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl init [--dir] [DIR] [--name ORIGIN]\n"
		    "Makes DIR with a starter policy, the log's key and the folders that pawld needs. Default: $PAWL_DIR, /var/lib/pawl for\n"
		    "root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl.\n"
		    "Nothing that is there already is changed.\n"
		    "  --name ORIGIN   the log's name, such as host.example/pawl/1 (default: this host's name and a random number)\n",
		    out);
	return status;
}

int cli_init(int argc, char **argv)
{
	static const struct option longs[] = { { "dir", required_argument, NULL, 'd' },
					       { "name", required_argument, NULL, 'n' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	char home[PATH_MAX];
	struct init_options opt = { 0 };
	struct pawl_error err = { 0 };
	int c, r = 0;

	while ((c = getopt_long(argc, argv, "d:n:h", longs, NULL)) != -1) {
		if (c == 'd')
			opt.dir = optarg;
		else if (c == 'n')
			opt.name = optarg;
		else
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	}
	if (optind + 1 == argc && !opt.dir)
		opt.dir = argv[optind++];
	if (optind < argc)
		return usage(stderr, 2);
	if (!opt.dir) {
		r = home_dir(home, sizeof(home), &err);
		opt.dir = home;
	}
	if (r == 0)
		r = init_run(&opt, NULL, stdout, &err);
	if (r < 0) {
		(void)fprintf(stderr, "pawl init: %s\n", err.msg);
		return r == PAWL_E_USAGE ? 2 : 1;
	}
	(void)printf("\nNow:  pawld --dir %s\n      pawl policy check %s/policy.yaml       after each change\n"
		     "      export PAWL_SOCKET=%s/run/agent.sock   where agents ask\n",
		     opt.dir, opt.dir, opt.dir);
	return fflush(stdout) == 0 ? 0 : 1;
}
