/* daemon/cli/log.c - `pawl log verify`, and the words that its verbs share. Reads files; owns nothing but its options.
 */
#include "daemon/cli/log.h"

#include "daemon/base/home.h"
#include "daemon/cli/fsutil.h"
#include "daemon/log/keys.h"
#include "daemon/log/verify.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int log_complain(const char *verb, const struct pawl_error *err)
{
	(void)fprintf(stderr, "pawl log %s: %s\n", verb, err->msg);
	return err->code == PAWL_E_USAGE ? 2 : 1;
}

int log_folder(const char *given, char out[static 4096], struct pawl_error *err)
{
	char home[4000];
	struct stat st;
	int r;

	if (!given) {
		r = home_dir(home, sizeof(home), err);
		if (r < 0)
			return r;
		given = home;
	}
	if (strlen(given) > 4000)
		return pawl_fail(err, PAWL_E_USAGE, "the folder's name is too long");
	(void)snprintf(out, 4096, "%s/log", given);
	if (stat(out, &st) != 0 || !S_ISDIR(st.st_mode))
		(void)snprintf(out, 4096, "%s", given);
	return 0;
}

int log_key(const char *given, const char *dir, struct vkey *ret, char from[static 4128], struct pawl_error *err)
{
	static const char *const places[] = { "/../entry.vkey", "/entry.vkey" };

	if (given && strchr(given, '+') && access(given, F_OK) != 0) {
		(void)snprintf(from, 4128, "the command line");
		return vkey_parse(str_of(given), ret, err);
	}
	if (given) {
		(void)snprintf(from, 4128, "%s", given);
		return vkey_load(given, ret, err);
	}
	for (size_t i = 0; i < PAWL_LEN(places); i++) {
		(void)snprintf(from, 4128, "%s%s", dir, places[i]);
		if (access(from, F_OK) == 0)
			return vkey_load(from, ret, err);
	}
	if (access(dir, F_OK) != 0)
		return pawl_fail_errno(err, "log folder %s", dir);
	return pawl_fail(err, PAWL_E_KEY, "no --key given, and no entry.vkey beside or inside %.150s", dir);
}

void log_progress(bool *shown, uint64_t n)
{
	*shown = true;
	(void)fprintf(stderr, isatty(STDERR_FILENO) ? "\r%llu entries checked" : "%llu entries checked\n",
		      (unsigned long long)n);
	(void)fflush(stderr);
}

/* ---- verify ---- */

struct verify_options {
	const char *dir, *key, *anchor;
	bool json;
};

static int verify_help(FILE *out, int status)
{
	(void)fputs(
	    "usage: pawl log verify [--dir DIR | DIR] [--key FILE|VKEY] [--at-least SEQ:HASH] [--json]\n"
	    "Checks every entry of a log: form, signature, hash chain, sequence, origin. Reads files only; a daemon "
	    "may be running.\n\n"
	    "  --dir DIR            the log's folder, or the folder that `pawl init` made (default: $PAWL_DIR,\n"
	    "                       /var/lib/pawl for root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
	    "  --key FILE|VKEY      the entry key to verify with (default: entry.vkey beside or inside the log's "
	    "folder).\n"
	    "                       A key that came with the log proves only that the log fits itself: keep your own "
	    "copy\n"
	    "  --at-least SEQ:HASH  an anchor: what an earlier run printed as `last`. Without one nothing can tell\n"
	    "                       whether the newest entries were cut off\n"
	    "  --json               one JSON object instead of words\n\n"
	    "exit status:  0 OK, with the anchor   10 OK, but no anchor given   11 nothing to check   12 tampered\n"
	    "             13 incomplete            14 wrong key                  1 could not check     2 usage\n",
	    out);
	return status;
}

/* 0, or -1 with the message printed. */
static int verify_parse(int argc, char **argv, struct verify_options *o, int *ret_status)
{
	static const struct option longs[] = {
		{ "dir", required_argument, NULL, 'd' },      { "key", required_argument, NULL, 'k' },
		{ "at-least", required_argument, NULL, 'a' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },           { NULL, 0, NULL, 0 },
	};
	int c;

	optind = 0; /* a fresh start: the verb before this one may have parsed */
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			o->dir = optarg;
			break;
		case 'k':
			o->key = optarg;
			break;
		case 'a':
			o->anchor = optarg;
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			*ret_status = verify_help(stdout, 0);
			return -1;
		default:
			*ret_status = verify_help(stderr, 2);
			return -1;
		}
	}
	if (argc - optind > 1 || (argc - optind == 1 && o->dir)) {
		(void)fputs("pawl log verify: one folder at a time\n", stderr);
		*ret_status = 2;
		return -1;
	}
	if (optind < argc)
		o->dir = argv[optind];
	return 0;
}

static const char *headline(enum verify_status s)
{
	switch (s) {
	case VERIFY_OK:
		return "OK";
	case VERIFY_NO_ANCHOR:
		return "OK, BUT NO ANCHOR";
	case VERIFY_NOTHING:
		return "NOTHING TO CHECK";
	case VERIFY_TAMPERED:
		return "TAMPERED";
	case VERIFY_INCOMPLETE:
		return "INCOMPLETE";
	case VERIFY_WRONG_KEY:
		return "WRONG KEY";
	case VERIFY_ERROR:
		break;
	}
	return "ERROR";
}

static void print_words(const struct verify_report *rep, const char *dir, const struct vkey *key, const char *from)
{
	struct buf hash = BUF_MAX(128);

	buf_hex(&hash, rep->last_hash, 32);
	(void)printf("%s: %s\n", headline(rep->status), rep->message);
	(void)printf("log      %s%s%s\n", dir, rep->origin[0] ? ", origin " : "", rep->origin);
	(void)printf("key      %s+%08x, from %s\n", key->name, key->id, from);
	if (rep->entries) {
		(void)printf("checked  %llu entries, %llu to %llu\n", (unsigned long long)rep->entries,
			     (unsigned long long)rep->first_seq, (unsigned long long)rep->last_seq);
		if (rep->status == VERIFY_OK || rep->status == VERIFY_NO_ANCHOR)
			(void)printf(
			    "last     %llu:%.*s\n         keep this line elsewhere; it is the next --at-least\n",
			    (unsigned long long)rep->last_seq, STR_ARG(buf_str(&hash)));
	}
	buf_done(&hash);
}

static void print_json(const struct verify_report *rep, const struct vkey *key)
{
	struct buf b = BUF_MAX(4096);
	struct buf k = BUF_MAX(512);

	vkey_text(key, &k);
	buf_printf(&b, "{\"status\":\"%s\",\"exit\":%d,\"entries\":%llu", verify_word(rep->status), (int)rep->status,
		   (unsigned long long)rep->entries);
	if (rep->entries) {
		buf_printf(&b, ",\"first\":%llu,\"last\":%llu,\"last_hash\":\"", (unsigned long long)rep->first_seq,
			   (unsigned long long)rep->last_seq);
		buf_hex(&b, rep->last_hash, 32);
		buf_puts(&b, "\",\"origin\":");
		buf_json(&b, str_of(rep->origin));
	}
	if (rep->has_bad)
		buf_printf(&b, ",\"bad\":%llu", (unsigned long long)rep->bad_seq);
	buf_printf(&b, ",\"torn_bytes\":%lld,\"live\":%s,\"key\":", (long long)rep->torn_bytes,
		   rep->live ? "true" : "false");
	buf_json(&b, buf_str(&k));
	buf_puts(&b, ",\"message\":");
	buf_json(&b, str_of(rep->message));
	buf_puts(&b, "}\n");
	(void)fwrite(b.p, 1, b.n, stdout);
	buf_done(&b);
	buf_done(&k);
}

static void progress(void *arg, uint64_t n)
{
	log_progress(arg, n);
}

static int verify_main(int argc, char **argv)
{
	struct verify_options o = { .dir = NULL };
	struct verify_anchor anchor;
	struct verify_report rep = { .status = VERIFY_ERROR };
	struct pawl_error err = { .code = PAWL_OK };
	char dir[4096], from[4128] = "";
	struct vkey key = { .id = 0 };
	bool shown = false;
	int r, status;

	if (verify_parse(argc, argv, &o, &status) < 0)
		return status;
	r = log_folder(o.dir, dir, &err);
	if (r == 0 && o.anchor)
		r = verify_anchor_parse(str_of(o.anchor), &anchor, &err);
	if (r == 0)
		r = log_key(o.key, dir, &key, from, &err);
	if (r == 0)
		r = log_verify(dir, &key, o.anchor ? &anchor : NULL, progress, &shown, &rep, &err);
	if (shown && isatty(STDERR_FILENO))
		(void)fputc('\n', stderr);
	if (r < 0)
		return log_complain("verify", &err);
	if (o.json)
		print_json(&rep, &key);
	else
		print_words(&rep, dir, &key, from);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		(void)fprintf(stderr, "pawl log verify: output: %s\n", strerror(errno));
		return 1; /* an answer that nobody could read is none */
	}
	return (int)rep.status;
}

/* ---- the verbs ---- */

static int help(FILE *out, int status)
{
	(void)fputs("usage: pawl log replay|show|verify [OPTION...]\n\n"
		    "  replay     judge every entry again and say which come out otherwise\n"
		    "  show       print entries, one a line\n"
		    "  verify     check signatures, chain and sequence; its exit status tells the outcomes apart\n\n"
		    "`pawl log replay --help` and so on say more.\n",
		    out);
	return status;
}

int cli_log(int argc, char **argv)
{
	struct str verb = argc > 1 ? str_of(argv[1]) : STR_NONE;

	if (str_is(verb, "verify"))
		return verify_main(argc - 1, argv + 1);
	if (str_is(verb, "replay"))
		return log_replay(argc - 1, argv + 1);
	if (str_is(verb, "show"))
		return log_show(argc - 1, argv + 1);
	if (str_is(verb, "--help") || str_is(verb, "-h") || str_is(verb, "help"))
		return help(stdout, 0);
	if (argc > 1)
		(void)fprintf(stderr, "pawl log: unknown verb \"%.40s\"\n", argv[1]);
	return help(stderr, 2);
}
