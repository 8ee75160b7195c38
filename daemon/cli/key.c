/* daemon/cli/key.c - see key.h. Makes one file and never touches one that is there; the secret is printed nowhere. */
#include "daemon/cli/key.h"

#include "daemon/cli/ask.h"
#include "daemon/cli/fsutil.h"
#include "daemon/cli/passphrase.h"

#include <sodium.h>

#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct key_new {
	const char *out, *name;
	bool plain;
};

static int usage(FILE *out, int status)
{
	(void)fputs(
	    "usage: pawl key new [--out FILE] [--name NAME] [--no-passphrase]\n"
	    "       pawl key show [FILE]\n"
	    "new makes an operator's key and prints its public line; the secret stays in FILE (mode 0600), sealed with "
	    "a\n"
	    "passphrase that is asked for at the terminal, or read as one line from the descriptor "
	    "$PAWL_PASSPHRASE_FD.\n"
	    "show prints the public line of FILE, for `pawl operator add`; it asks for nothing.\n\n"
	    "  --out FILE         default: $PAWL_KEY, else operator.key in $XDG_CONFIG_HOME/pawl or ~/.config/pawl.\n"
	    "                     A file that is there is never overwritten\n"
	    "  --name NAME        the key's name, best the one to be enrolled under (default: $USER)\n"
	    "  --no-passphrase    whoever can read FILE can answer for you\n\n"
	    "Exit status: 0 done, 1 failed, 2 usage.\n",
	    out);
	return status;
}

static int write_file(const char *path, struct str text, struct pawl_error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char dir[PATH_MAX];
	int n = slash ? snprintf(dir, sizeof(dir), "%.*s", (int)(slash == path ? 1 : slash - path), path)
		      : snprintf(dir, sizeof(dir), "."),
	    fd, r;
	bool made = false;

	if (n < 0 || (size_t)n >= sizeof(dir) || !*name)
		return pawl_fail(err, PAWL_E_USAGE, "not a file's name: %.200s", path);
	r = fs_parents(path, err);
	if (r < 0)
		return r;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return pawl_fail_errno(err, "%s", dir);
	r = fs_lock(fd, err);
	if (r == 0)
		r = fs_write_new(NULL, fd, name, text, 0600, &made, err);
	if (r == 0 && !made)
		r = pawl_fail(err, PAWL_E_BUSY, "%s is there already and stays as it is", path);
	(void)close(fd);
	return r;
}

/* The file's bytes: the signer line, or the sealed form. */
static int key_text(const struct key_new *opt, const struct sign_key *key, struct buf *out, struct pawl_error *err)
{
	char pass[OPKEY_MAX_PASS];
	size_t n = 0;
	int r;

	if (opt->plain) {
		sign_key_text(key, out);
		return buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for the key's text");
	}
	r = passphrase_read("passphrase for the new key", true, pass, &n, err);
	if (r == 0)
		r = opkey_seal(key, (struct str){ pass, n }, out, err);
	sodium_memzero(pass, sizeof(pass));
	return r;
}

static int make(const struct key_new *opt, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(OPKEY_MAX), line = BUF_MAX(512);
	struct sign_key *key = NULL;
	int r = sign_key_new(opt->name, &key, err);

	if (r == 0)
		r = key_text(opt, key, &text, err);
	if (r == 0)
		r = write_file(opt->out, buf_str(&text), err);
	if (text.p)
		sodium_memzero(text.p, text.cap);
	if (r == 0) {
		vkey_text(sign_key_vkey(key), &line);
		(void)fprintf(stderr,
			      "pawl key new: made %s (secret%s). Have the public line below enrolled:\n  pawl operator "
			      "add %s '%.*s'\n",
			      opt->out, opt->plain ? ", without a passphrase" : "", opt->name, STR_ARG(buf_str(&line)));
		(void)printf("%.*s\n", STR_ARG(buf_str(&line)));
	}
	sign_key_free(key);
	return r;
}

static int new_key(int argc, char **argv)
{
	static const struct option longs[] = { { "out", required_argument, NULL, 'o' },
					       { "name", required_argument, NULL, 'n' },
					       { "no-passphrase", no_argument, NULL, 'p' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	struct key_new opt = { .name = getenv("USER") };
	struct pawl_error err = { .code = PAWL_OK };
	char path[PATH_MAX];
	int c;

	while ((c = getopt_long(argc, argv, "o:n:h", longs, NULL)) != -1) {
		if (c == 'o')
			opt.out = optarg;
		else if (c == 'n')
			opt.name = optarg;
		else if (c == 'p')
			opt.plain = true;
		else
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	}
	if (optind < argc)
		return usage(stderr, 2);
	if (!opt.name || !*opt.name)
		opt.name = "operator";
	if (!opkey_name_ok(str_of(opt.name))) {
		(void)fprintf(
		    stderr,
		    "pawl key new: not a name (letters, digits, '-', '_', '.'; at most %d bytes): give --name NAME\n",
		    PAWL_MAX_ID);
		return 2;
	}
	if (!opt.out && opkey_default(path, sizeof(path), &err) < 0)
		return ask_fail("key new", &err);
	if (!opt.out)
		opt.out = path;
	return make(&opt, &err) < 0 ? ask_fail("key new", &err) : ask_end("key new", 0);
}

static int show_key(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	PAWL_CLEANUP(buf_done) struct buf line = BUF_MAX(512);
	struct pawl_error err = { .code = PAWL_OK };
	char path[PATH_MAX], text[OPKEY_MAX];
	const char *file = path;
	struct vkey pub;
	bool sealed = false;
	size_t n = 0;
	int c, r;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	if (optind + 1 < argc)
		return usage(stderr, 2);
	if (optind < argc)
		file = argv[optind];
	else if (opkey_default(path, sizeof(path), &err) < 0)
		return ask_fail("key show", &err);
	r = opkey_read(file, text, &n, &err);
	if (r == 0)
		r = opkey_public((struct str){ text, n }, &pub, &sealed, &err);
	sodium_memzero(text, sizeof(text));
	if (r < 0)
		return ask_fail("key show", &err);
	vkey_text(&pub, &line);
	(void)printf("%.*s\n", STR_ARG(buf_str(&line)));
	if (!sealed)
		(void)fprintf(stderr, "pawl key show: %s has no passphrase\n", file);
	return ask_end("key show", 0);
}

int cli_key(int argc, char **argv)
{
	struct str what = argc > 1 ? str_of(argv[1]) : STR_NONE;

	if (str_is(what, "new"))
		return new_key(argc - 1, argv + 1);
	if (str_is(what, "show"))
		return show_key(argc - 1, argv + 1);
	return str_is(what, "--help") || str_is(what, "-h") ? usage(stdout, 0) : usage(stderr, 2);
}
