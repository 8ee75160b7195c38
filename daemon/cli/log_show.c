/* daemon/cli/log_show.c - `pawl log show`: entries for people, one a line, or their bytes. Shows what is there and
 * checks framing only; whether it is genuine is verify's question. What an entry quotes was chosen by an agent: control
 * bytes never reach the terminal. */
#include "daemon/base/json.h"
#include "daemon/cli/log.h"
#include "daemon/cli/recorded.h"
#include "daemon/cli/watch_line.h"
#include "daemon/log/journal.h"
#include "daemon/log/note.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum show_form { SHOW_LINE, SHOW_JSON, SHOW_RAW };
struct show {
	const char *dir, *kind, *session;
	uint64_t from, to;
	enum show_form form;
	struct buf out;
	bool args;
	struct recorded recorded;
	bool past; /* beyond `to`: the walk was stopped on purpose */
};

static int show_help(FILE *out, int status)
{
	(void)fputs("usage: pawl log show [--dir DIR | DIR] [--from SEQ] [--to SEQ] [--kind K] [--session s_N] [--args] [--json "
		    "| --raw]\n"
		    "Prints the entries of a log: sequence, time, kind, verdict, tool, reason. Signatures are not "
		    "checked: `pawl log verify`.\n\n"
		    "  --dir DIR      the log's folder, or the folder that `pawl init` made (default: $PAWL_DIR,\n"
		    "                 /var/lib/pawl for root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --from, --to   first and last sequence to print\n"
		    "  --kind K       decision, claim, settle, session, resolve, breaker, key,\n"
		    "                 start, stop, policy, timeout, throttle, loss, snapshot, watch\n"
		    "  --session s_N  entries that name this session\n"
		    "  --args         under an entry what was recorded of its arguments, if anything (log: {record_args: …} of the policy)\n"
		    "  --json         the JSON bodies, one a line; arguments as {\"recorded\":SEQ,\"args\":TEXT} behind theirs\n"
		    "  --raw          the signed entries as they are\n",
		    out);
	return status;
}

/* ---- text for people ---- */

/* Escapes what moves a cursor, hides or turns text: C0, DEL, C1, and the invisible and bidirectional marks of Unicode.
 */
static void plain(struct buf *out, struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;

	for (size_t i = 0; i < s.n;) {
		unsigned cp = p[i];
		size_t len = cp < 0x80 ? 1 : cp < 0xe0 ? 2 : cp < 0xf0 ? 3 : 4; /* the entry was valid UTF-8 */

		if (len > s.n - i)
			len = 1;
		if (len > 1)
			cp &= 0xffu >> (len + 1);
		for (size_t k = 1; k < len; k++)
			cp = cp << 6 | (p[i + k] & 0x3fu);
		if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0xad || cp == 0x61c || cp == 0x180e ||
		    (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
		    (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff || (cp >= 0xe0000 && cp <= 0xe0fff))
			buf_printf(out, "\\u{%x}", cp);
		else
			buf_add(out, p + i, len);
		i += len;
	}
}

static void word(struct buf *out, struct str s)
{
	if (s.n == 0)
		return;
	buf_putc(out, ' ');
	plain(out, s);
}

static void named(struct buf *out, const char *name, const struct json *doc, const char *key)
{
	struct str s = json_string(json_get(doc, key));

	if (s.n == 0)
		return;
	buf_printf(out, " %s=", name);
	plain(out, s);
}

static void flag(struct buf *out, const struct json *doc, const char *key, const char *yes, const char *no)
{
	const struct json *v = json_get(doc, key);

	if (v && json_kind(v) == JSON_KIND_BOOL)
		buf_printf(out, " %s", json_true(v) ? yes : no);
}

void log_show_line(struct buf *out, uint64_t seq, const struct json *doc)
{
	const struct json *would = json_get(doc, "would"), *reason = json_get(would ? would : doc, "reason");
	struct str now = json_string(json_get(doc, "now"));

	buf_printf(out, "%8llu ", (unsigned long long)seq);
	plain(out, now.n ? now : STR("-"));
	word(out, json_string(json_get(doc, "kind")));
	if (str_is(json_string(json_get(doc, "kind")), "watch")) {
		buf_putc(out, ' ');
		watch_line(out, doc, escape_mode_here());
		buf_putc(out, '\n');
		return;
	}
	word(out, json_string(json_get(doc, "action")));
	word(out, json_string(json_get(doc, "what")));
	word(out, json_string(json_get(doc, "verdict")));
	named(out, "would", json_get(doc, "would"), "verdict");
	word(out, json_string(json_get(doc, "outcome")));
	word(out, json_string(json_get(doc, "tool")));
	named(out, "session", doc, "session");
	named(out, "decision", doc, "decision");
	named(out, "agent", doc, "agent");
	named(out, "charged", json_get(doc, "charged"), "money");
	named(out, "card", doc, "card");
	named(out, "card", json_get(doc, "card"), "id");
	named(out, "policy", json_get(doc, "policy"), "name");
	named(out, "name", doc, "name");
	named(out, "mode", doc, "mode");
	flag(out, doc, "loaded", "loaded", "refused");
	flag(out, doc, "enrolled", "enrolled", "revoked");
	named(out, "operator", doc, "operator");
	named(out, "breaker", json_get(doc, "breaker"), "id");
	named(out, "why", doc, "why");
	named(out, "reason", reason, "code");
	named(out, "rule", reason, "rule");
	if (json_string(json_get(reason, "message")).n)
		buf_putc(out, ':');
	word(out, json_string(json_get(reason, "message")));
	word(out, json_string(json_get(doc, "message")));
	if (json_string(reason).n)
		buf_putc(out, ':');
	word(out, json_string(reason)); /* an operator's own words */
	buf_putc(out, '\n');
}

static void show_recorded(struct show *sh, uint64_t seq)
{
	PAWL_CLEANUP(buf_done) struct buf args = BUF_MAX(PAWL_MAX_VALUE);

	if (!sh->args || sh->form == SHOW_RAW || !recorded_get(&sh->recorded, seq, &args))
		return;
	if (sh->form == SHOW_JSON) {
		buf_printf(&sh->out, "{\"recorded\":%llu,\"args\":", (unsigned long long)seq);
		buf_json(&sh->out, buf_str(&args));
		buf_puts(&sh->out, "}\n");
	} else {
		buf_puts(&sh->out, "         args ");
		plain(&sh->out, buf_str(&args));
		buf_putc(&sh->out, '\n');
	}
}

/* ---- the walk ---- */

static bool wanted(const struct show *sh, const struct json *doc)
{
	if (sh->kind && !str_is(json_string(json_get(doc, "kind")), sh->kind))
		return false;
	if (!sh->session)
		return true;
	return str_is(json_string(json_get(doc, "session")), sh->session) ||
	       str_is(json_string(json_get(doc, "root")), sh->session) ||
	       str_is(json_string(json_get(doc, "parent")), sh->session);
}

static int flush(struct show *sh, struct pawl_error *err)
{
	if (!buf_ok(&sh->out))
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a line");
	if (fwrite(sh->out.p, 1, sh->out.n, stdout) != sh->out.n)
		return pawl_fail_errno(err, "output");
	buf_reset(&sh->out);
	return 0;
}

static int visit(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct show *sh = arg;
	struct entry_view v;
	struct json *doc = NULL;
	struct pawl_error why;
	int r = 0;

	if (seq > sh->to) {
		sh->past = true;
		return pawl_fail(err, PAWL_E_LIMIT, "enough");
	}
	if (seq < sh->from)
		return 0;
	if (entry_view_parse(note, &v, &why) < 0 || json_parse(v.body, PAWL_MAX_DEPTH, &doc, &why) < 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu: %s", (unsigned long long)seq, why.msg);
	if (wanted(sh, doc)) {
		if (sh->form == SHOW_LINE)
			log_show_line(&sh->out, seq, doc);
		else
			buf_str_add(&sh->out, sh->form == SHOW_RAW ? note : v.body);
		if (sh->form != SHOW_LINE)
			buf_putc(&sh->out, '\n'); /* raw: an empty line between notes */
		show_recorded(sh, seq);
		r = flush(sh, err);
	}
	json_free(doc);
	return r;
}

static bool number(const char *text, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9' || strlen(text) > 18)
		return false;
	*ret = strtoull(text, &end, 10);
	return *end == '\0';
}

/* 0, or -1 with the message printed and the exit status set. */
static int show_parse(int argc, char **argv, struct show *sh, int *ret_status)
{
	static const struct option longs[] = {
		{ "dir", required_argument, NULL, 'd' },
		{ "from", required_argument, NULL, 'f' },
		{ "to", required_argument, NULL, 't' },
		{ "kind", required_argument, NULL, 'k' },
		{ "session", required_argument, NULL, 's' },
		{ "args", no_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'j' },
		{ "raw", no_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool good = true;
	int c;

	optind = 0;
	while (good && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h') {
			*ret_status = show_help(stdout, 0);
			return -1;
		}
		if (c == 'd')
			sh->dir = optarg;
		else if (c == 'k')
			sh->kind = optarg;
		else if (c == 's')
			sh->session = optarg;
		else if (c == 'f' || c == 't')
			good = number(optarg, c == 'f' ? &sh->from : &sh->to);
		else if (c == 'a')
			sh->args = true;
		else if (c == 'j' || c == 'r')
			sh->form = c == 'j' ? SHOW_JSON : SHOW_RAW;
		else
			good = false;
	}
	if (good && optind < argc && !sh->dir)
		sh->dir = argv[optind++];
	if (!good || optind < argc) {
		*ret_status = show_help(stderr, 2);
		return -1;
	}
	return 0;
}

int log_show(int argc, char **argv)
{
	struct show sh = { .to = INT64_MAX, .out = BUF_MAX(1u << 20) };
	struct journal_config cfg = { .read_only = true };
	struct journal_recovery rec = { .torn_bytes = 0 };
	struct pawl_error err = { .code = PAWL_OK };
	struct journal *j = NULL;
	char dir[4096];
	int r, status;

	if (show_parse(argc, argv, &sh, &status) < 0)
		return status;
	cfg.dir = dir;
	if (sh.args)
		recorded_open(&sh.recorded, "log show", sh.dir);
	r = log_folder(sh.dir, dir, &err);
	if (r == 0)
		r = journal_open(&cfg, visit, &sh, &j, &rec, &err);
	if (r < 0 && sh.past)
		r = 0;
	journal_close(j);
	recorded_close(&sh.recorded);
	buf_done(&sh.out);
	if (fflush(stdout) != 0 && r == 0)
		r = pawl_fail_errno(&err, "output");
	if (r < 0)
		return log_complain("show", &err);
	if (rec.torn_bytes)
		(void)fprintf(stderr, "pawl log show: %lld bytes at the end are not a whole batch\n",
			      (long long)rec.torn_bytes);
	return 0;
}
