/* daemon/cli/ask.c - see ask.h. */
#include "daemon/cli/ask.h"

#include "daemon/base/home.h"
#include "daemon/cli/passphrase.h"

#include <sodium.h>

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char common[] = "  --dir DIR     pawld's folder (default: $PAWL_DIR, /var/lib/pawl for root,\n"
			     "                else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
			     "  --operator-socket PATH\n"
			     "                pawld's operator door, when it is not DIR/run/operator/operator.sock\n";

int ask_usage(FILE *out, const char *usage, int status)
{
	(void)fprintf(out, "%s\n%s", usage, common);
	return status;
}

static const struct option longs[] = {
	{ "dir", required_argument, NULL, 'd' },
	{ "operator-socket", required_argument, NULL, 'S' },
	{ "json", no_argument, NULL, 'j' },
	{ "all", no_argument, NULL, 'A' },
	{ "key", required_argument, NULL, 'k' },
	{ "as", required_argument, NULL, 'a' },
	{ "reason", required_argument, NULL, 'r' },
	{ "tree", no_argument, NULL, 't' },
	{ "session", required_argument, NULL, 's' },
	{ "owner", required_argument, NULL, 'o' },
	{ "tool", required_argument, NULL, 'T' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Which options a verb must allow for this one to be taken. */
static unsigned needs(int c)
{
	switch (c) {
	case 'j':
		return ASK_JSON;
	case 'A':
		return ASK_ALL;
	case 'k':
	case 'a':
		return ASK_KEY;
	case 'r':
		return ASK_REASON;
	case 't':
		return ASK_TREE;
	case 's':
	case 'o':
	case 'T':
		return ASK_BREAKER;
	default:
		return 0;
	}
}

static void set(struct asking *a, int c, const char *value)
{
	switch (c) {
	case 'd':
		a->dir = value;
		return;
	case 'S':
		a->socket_opt = value;
		return;
	case 'k':
		a->key_file = value;
		return;
	case 'a':
		a->as = value;
		return;
	case 'r':
		a->reason = str_of(value);
		return;
	case 's':
		a->session = str_of(value);
		return;
	case 'o':
		a->owner = str_of(value);
		return;
	case 'T':
		a->tool = str_of(value);
		return;
	default:
		a->json |= c == 'j';
		a->all |= c == 'A';
		a->tree |= c == 't';
		return;
	}
}

static int find_socket(struct asking *a, struct pawl_error *err)
{
	char home[1024];
	int n, r = 0;

	if (!a->socket_opt && !a->dir) {
		r = home_dir(home, sizeof(home), err);
		if (r < 0)
			return r;
	}
	if (a->socket_opt)
		n = snprintf(a->socket, sizeof(a->socket), "%s", a->socket_opt);
	else
		n = snprintf(a->socket, sizeof(a->socket), "%s/run/operator/operator.sock", a->dir ? a->dir : home);
	if (n < 0 || (size_t)n >= sizeof(a->socket))
		return pawl_fail(err, PAWL_E_USAGE, "the path is too long");
	return 0;
}

bool ask_options(struct asking *a, int argc, char **argv, unsigned allowed, const char *usage, int *ret_status)
{
	struct pawl_error err = { .code = PAWL_OK };
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "d:h", longs, NULL)) != -1) {
		bool stray = needs(c) && !(needs(c) & allowed);

		if (stray)
			(void)fprintf(stderr, "pawl %s: takes no such option\n", a->verb);
		if (c == 'h' || c == '?' || stray) {
			*ret_status = ask_usage(c == 'h' ? stdout : stderr, usage, c == 'h' ? 0 : 2);
			return false;
		}
		set(a, c, optarg);
	}
	a->words = argv + optind;
	a->n_words = argc - optind;
	if (!ask_reason_ok(a->reason))
		(void)pawl_fail(&err, PAWL_E_USAGE, "a reason has at most %d bytes of text without control characters",
				PAWL_MAX_TEXT);
	else
		(void)find_socket(a, &err);
	if (err.code == PAWL_OK)
		return true;
	*ret_status = ask_fail(a->verb, &err);
	return false;
}

static int open_key(const char *path, struct sign_key **ret, struct pawl_error *err)
{
	char text[OPKEY_MAX], pass[OPKEY_MAX_PASS], prompt[160];
	bool sealed = false;
	size_t n = 0, pass_n = 0;
	struct vkey pub;
	int r = opkey_read(path, text, &n, err);

	if (r == 0)
		r = opkey_public((struct str){ text, n }, &pub, &sealed, err);
	if (r == 0 && sealed) {
		/* the file's name for itself is input */
		(void)snprintf(prompt, sizeof(prompt), "passphrase of %.100s",
			       opkey_name_ok(str_of(pub.name)) ? pub.name : "the key");
		r = passphrase_read(prompt, false, pass, &pass_n, err);
	}
	if (r == 0)
		r = opkey_open((struct str){ text, n }, (struct str){ pass, pass_n }, ret, err);
	sodium_memzero(text, sizeof(text));
	sodium_memzero(pass, sizeof(pass));
	return r;
}

int ask_unlock(struct asking *a, struct pawl_error *err)
{
	const char *file = a->key_file;
	char path[PATH_MAX];
	int r = file ? 0 : opkey_default(path, sizeof(path), err);

	if (r == 0)
		r = open_key(file ? file : path, &a->key, err);
	if (r < 0)
		return r;
	a->who = (struct signer){ a->key, str_of(a->as ? a->as : sign_key_vkey(a->key)->name) };
	if (!opkey_name_ok(a->who.name))
		return pawl_fail(err, PAWL_E_USAGE, "\"%.64s\" is no operator's name: give --as NAME", a->who.name.p);
	return 0;
}

void ask_done(struct asking *a)
{
	sign_key_free(a->key);
	a->key = NULL;
}

bool ask_reason_ok(struct str s)
{
	if (s.n > PAWL_MAX_TEXT || !utf8_valid(s))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	return true;
}

void ask_view(struct asking *a, struct card_view *view)
{
	struct pawl_error unused;
	struct json *status = NULL;
	struct winsize ws = { 0 };

	view->mode = escape_mode_here();
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		view->width = ws.ws_col;
	if (door_ask(a->socket, STR("{\"v\":1,\"op\":\"status\"}"), NULL, &status, &unused) == 0)
		view->now_s = card_time(json_string(json_get(status, "now")));
	json_free(status);
}

int ask_fail(const char *verb, const struct pawl_error *err)
{
	struct buf line = BUF_MAX(8192);

	escape_text(&line, str_of(err->msg), escape_mode_here(), 0, NULL);
	(void)fprintf(stderr, "pawl %s: %.*s\n", verb, STR_ARG(buf_str(&line)));
	buf_done(&line);
	return err->code == PAWL_E_USAGE ? 2 : err->code == PAWL_E_CONFLICT ? ASK_STATUS_CONFLICT : 1;
}

int ask_end(const char *verb, int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	(void)fprintf(stderr, "pawl %s: cannot write the answer\n", verb);
	return status ? status : 1;
}

int ask_print(const char *verb, struct buf *text, int status)
{
	bool ok = buf_ok(text);

	if (ok && text->n)
		(void)fwrite(text->p, 1, text->n, stdout);
	buf_done(text);
	if (!ok) {
		(void)fprintf(stderr, "pawl %s: out of memory\n", verb);
		return 1;
	}
	return ask_end(verb, status);
}

int ask_json(const char *verb, struct str reply)
{
	struct buf out = BUF_MAX(6 * SIGN_MAX_REPLY + 1);

	escape_json(&out, reply);
	buf_putc(&out, '\n');
	return ask_print(verb, &out, 0);
}
