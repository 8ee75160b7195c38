/* daemon/cli/log_replay.c - `pawl log replay`: is every answer in this log the one that the judge gives today to the same facts, state and
 * policy? Checks the log as `verify` does on the way, and reads files alone: a copy will do, and pawld may be running. Owns what it loads. */
#include "daemon/cli/lines.h"
#include "daemon/cli/log.h"
#include "daemon/cli/policy.h"
#include "daemon/cli/rejudge.h"
#include "daemon/log/entry.h"
#include "daemon/log/verify.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum replay_status {
	REPLAY_EQUAL = 0,
	REPLAY_DIFFERS = 20,
	REPLAY_SKIPPED = 21,  /* what was compared is equal, and some was not compared */
	REPLAY_NOTHING = 22,  /* nothing could be compared */
	/* and of enum verify_status: 11 nothing to check, 12 tampered, 13 incomplete, 14 wrong key, 1 error */
};

struct replay_options {
	const char *dir, *key, *policies[REJUDGE_MAX_POLICIES];
	size_t n_policies;
	bool json;
};

struct replaying {
	struct rejudging rj;
	struct verify_report rep;
	bool shown; /* a line of progress */
};

static int replay_help(FILE *out, int status)
{
	(void)fputs("usage: pawl log replay [--dir DIR | DIR] --policy FILE... [--key FILE|VKEY] [--json]\n"
		    "Judges a log again, from entry 0: each decision, claim, settlement, expiry, person's answer and change of policy is made once\n"
		    "more from what its entry says was asked, the state before it and the policy then in force, and compared byte for byte.\n"
		    "Checks form, chain and signatures on the way. Reads files only; a daemon may be running.\n\n"
		    "  --policy FILE    a policy that was in force, any number of times; entries name theirs by the SHA-256 of its file.\n"
		    "                   Entries under one that is not given are left out, and said\n"
		    "  --dir DIR        the log's folder, or the folder that `pawl init` made (default: $PAWL_DIR,\n"
		    "                   /var/lib/pawl for root, else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --key FILE|VKEY  the entry key (default: entry.vkey beside or inside the log's folder)\n"
		    "  --json           one JSON object instead of words\n\n"
		    "exit status:  0 all equal   20 some differ   21 equal, but some left out   22 nothing could be compared\n"
		    "             11 nothing to check   12 tampered   13 incomplete   14 wrong key   1 could not check   2 usage\n",
		    out);
	return status;
}

/* 0, or -1 with the message printed. */
static int replay_parse(int argc, char **argv, struct replay_options *o, int *ret_status)
{
	static const struct option longs[] = {
		{ "dir", required_argument, NULL, 'd' }, { "key", required_argument, NULL, 'k' }, { "policy", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },	 { "help", no_argument, NULL, 'h' },	  { NULL, 0, NULL, 0 },
	};
	bool good = true;
	int c;

	optind = 0;
	while (good && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h') {
			*ret_status = replay_help(stdout, 0);
			return -1;
		}
		if (c == 'd')
			o->dir = optarg;
		else if (c == 'k')
			o->key = optarg;
		else if (c == 'j')
			o->json = true;
		else if (c == 'p' && o->n_policies < REJUDGE_MAX_POLICIES)
			o->policies[o->n_policies++] = optarg;
		else
			good = false;
		if (!good && c == 'p')
			(void)fprintf(stderr, "pawl log replay: at most %d policies\n", REJUDGE_MAX_POLICIES);
	}
	if (good && optind < argc && !o->dir)
		o->dir = argv[optind++];
	if (good && optind == argc && o->n_policies > 0)
		return 0;
	if (good && o->n_policies == 0)
		(void)fputs("pawl log replay: without a --policy there is nothing to judge by\n", stderr);
	*ret_status = replay_help(stderr, 2);
	return -1;
}

/* ---- reading ---- */

static int take_policy(struct rejudging *rj, const char *file, struct pawl_error *err)
{
	PAWL_CLEANUP(policy_report_done) struct policy_report rep = { 0 };
	PAWL_CLEANUP(buf_done) struct buf lines = BUF_MAX(1u << 20);
	struct policy *pol = NULL;
	int r = policy_read(file, &pol, &rep, err);

	if (r == 0)
		return rejudging_policy(rj, pol, file, err);
	policy_report_text(&rep, &lines);
	if (lines.n)
		(void)fwrite(lines.p, 1, lines.n, stderr);
	policy_free(pol);
	return r;
}

static int each(void *arg, const struct entry_view *v, struct pawl_error *err)
{
	struct replaying *rp = arg;
	struct pawl_error why = { .code = PAWL_OK };
	char number[32];
	int r, n;

	if (v->seq != state_next_seq(rp->rj.st)) /* the head is missing, so there is no state to judge in: verify says so in the end */
		return 0;
	r = rejudging_entry(&rp->rj, v->seq, v->body, &why);
	if (r == 0)
		return 0;
	n = snprintf(number, sizeof(number), "entry %llu ", (unsigned long long)v->seq); /* verify says that too */
	return pawl_fail(err, why.code, "%s", why.msg + (strncmp(why.msg, number, (size_t)n) == 0 ? n : 0));
}

static void progress(void *arg, uint64_t n)
{
	struct replaying *rp = arg;

	log_progress(&rp->shown, n);
}

/* ---- what it amounts to, worst first ---- */

static int64_t other_judge(const struct rejudging *rj)
{
	for (size_t i = 0; i < rj->n_skips; i++)
		if (rj->skips[i].why == SKIP_JUDGE)
			return strtoll(rj->skips[i].text, NULL, 10);
	return -1;
}

static int conclude(const struct replaying *rp, char message[static 512], const char **ret_word)
{
	const struct rejudging *rj = &rp->rj;
	enum verify_status v = rp->rep.status;
	int64_t judge = other_judge(rj);
	int n;

	*ret_word = verify_word(v);
	(void)snprintf(message, 512, "%s", rp->rep.message);
	if (v != VERIFY_OK && v != VERIFY_NO_ANCHOR && (v != VERIFY_INCOMPLETE || !rj->differ))
		return (int)v;
	if (rj->differ) {
		*ret_word = "differs";
		(void)snprintf(message, 512, "%llu entr%s not what this judge makes of the same facts", (unsigned long long)rj->differ,
			       rj->differ == 1 ? "y is" : "ies are");
		return REPLAY_DIFFERS;
	}
	if (!rj->skipped) {
		*ret_word = "equal";
		(void)snprintf(message, 512, "every answer judged again is the one in the log, byte for byte");
		return REPLAY_EQUAL;
	}
	*ret_word = rj->equal ? "skipped" : "nothing-compared";
	n = snprintf(message, 512, rj->equal ? "what was judged again is equal; %llu entries could not be" : "none of %llu entries could be judged again",
		     (unsigned long long)rj->skipped);
	if (judge >= 0)
		(void)snprintf(message + n, 512 - (size_t)n,
			       ". Refused: version %lld of the judge gave those answers, and this is version %d. What the entries did is in them, so the log "
			       "can be read and gone on with; only that version can judge them again",
			       (long long)judge, PAWL_JUDGE_VERSION);
	return rj->equal ? REPLAY_SKIPPED : REPLAY_NOTHING;
}

/* ---- the answer ---- */

static void key_num(struct buf *b, const char *key, uint64_t v)
{
	buf_key(b, key);
	buf_u64(b, v);
}

static void key_text(struct buf *b, const char *key, const char *text)
{
	buf_key(b, key);
	buf_text(b, str_of(text));
}

static void put_skips(struct buf *b, const struct rejudging *rj)
{
	static const char *const whys[] = { "policy", "judge", "lacks" };

	buf_key(b, "left_out");
	buf_putc(b, '[');
	for (size_t i = 0; i < rj->n_skips; i++) {
		const struct rejudge_skip *s = &rj->skips[i];

		buf_puts(b, i ? ",{" : "{");
		key_text(b, "why", whys[s->why]);
		key_text(b, "what", s->text);
		key_num(b, "entries", s->n);
		key_num(b, "first", s->first);
		key_num(b, "last", s->last);
		buf_putc(b, '}');
	}
	buf_putc(b, ']');
}

static void put_policies(struct buf *b, const struct rejudging *rj)
{
	buf_key(b, "policies");
	buf_putc(b, '[');
	for (size_t i = 0; i < rj->n_policies; i++) {
		buf_puts(b, i ? ",{" : "{");
		key_text(b, "file", rj->policies[i].file);
		key_text(b, "hash", rj->policies[i].hash);
		key_num(b, "entries", rj->policies[i].judged);
		buf_putc(b, '}');
	}
	buf_putc(b, ']');
}

static int put_answer(const struct replaying *rp, struct buf *b)
{
	const struct rejudging *rj = &rp->rj;
	char message[512];
	const char *word;
	int status = conclude(rp, message, &word);

	buf_putc(b, '{');
	key_text(b, "status", word);
	key_num(b, "exit", (uint64_t)status);
	key_text(b, "message", message);
	key_num(b, "judge", PAWL_JUDGE_VERSION);
	key_num(b, "entries", rp->rep.entries);
	key_num(b, "equal", rj->equal);
	key_num(b, "differ", rj->differ);
	key_num(b, "given", rj->given);
	key_num(b, "skipped", rj->skipped);
	if (rp->rep.has_bad)
		key_num(b, "bad", rp->rep.bad_seq);
	put_policies(b, rj);
	put_skips(b, rj);
	buf_key(b, "differences");
	buf_putc(b, '[');
	buf_str_add(b, buf_str(&rj->shown));
	buf_puts(b, "]}");
	b->failed |= rj->shown.failed;
	return status;
}

/* ---- words ---- */

static void value_text(struct lines *l, const struct json *field, const char *key)
{
	const struct json *v = json_get(field, key);

	if (json_kind(v) == JSON_KIND_NULL)
		buf_puts(l->out, "nothing");
	else if (json_kind(v) == JSON_KIND_OBJECT || json_kind(v) == JSON_KIND_ARRAY)
		buf_puts(l->out, json_kind(v) == JSON_KIND_ARRAY ? "a list" : "an object");
	else if (json_kind(v) == JSON_KIND_STRING)
		escape_text(l->out, json_string(v), l->mode, '"', NULL);
	else
		(void)line_value(l, "", field, key, "");
}

static void difference_lines(struct lines *l, const struct json *d)
{
	const struct json *fields = json_get(d, "fields");
	size_t n = json_size(fields);

	(void)line_value(l, "\nentry ", d, "entry", "");
	(void)line_value(l, ", ", d, "kind", "");
	(void)line_value(l, ": ", d, "why", "");
	line_end(l);
	for (size_t i = 0; i < n; i++) {
		(void)line_value(l, "  ", json_at(fields, i), "field", "");
		buf_puts(l->out, ": in the log ");
		value_text(l, json_at(fields, i), "logged");
		buf_puts(l->out, ", judged again ");
		value_text(l, json_at(fields, i), "again");
		line_end(l);
	}
	if (json_int(json_get(d, "differ")) > (int64_t)n)
		buf_printf(l->out, "  and %lld more\n", (long long)json_int(json_get(d, "differ")) - (long long)n);
}

static void skip_lines(struct lines *l, const struct json *rows)
{
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *s = json_at(rows, i);
		struct str why = json_string(json_get(s, "why"));

		line_label(l, i ? "" : "left out");
		(void)line_value(l, "", s, "entries", " entries, ");
		(void)line_value(l, "", s, "first", " to ");
		(void)line_value(l, "", s, "last", ": ");
		if (str_is(why, "policy"))
			(void)line_value(l, "no --policy has the SHA-256 ", s, "what", "");
		else if (str_is(why, "judge"))
			(void)line_value(l, "judged by version ", s, "what", "");
		else
			(void)line_value(l, "", s, "what", "");
		line_end(l);
	}
}

static void show(struct lines *l, const struct json *doc)
{
	const struct json *differences = json_get(doc, "differences"), *policies = json_get(doc, "policies");

	(void)line_value(l, "", doc, "status", ": ");
	(void)line_value(l, "", doc, "message", "\n");
	line_label(l, "entries");
	(void)line_value(l, "", doc, "entries", "");
	(void)line_value(l, ", judged again and equal ", doc, "equal", "");
	(void)line_value(l, ", different ", doc, "differ", "");
	(void)line_value(l, ", without anything to judge ", doc, "given", "");
	(void)line_value(l, ", left out ", doc, "skipped", "\n");
	for (size_t i = 0; i < json_size(policies); i++) {
		line_label(l, i ? "" : "policy");
		(void)line_value(l, "", json_at(policies, i), "file", "");
		(void)line_value(l, ", SHA-256 ", json_at(policies, i), "hash", "");
		(void)line_value(l, ": ", json_at(policies, i), "entries", " entries\n");
	}
	skip_lines(l, json_get(doc, "left_out"));
	for (size_t i = 0; i < json_size(differences); i++)
		difference_lines(l, json_at(differences, i));
	if (json_int(json_get(doc, "differ")) > (int64_t)json_size(differences))
		buf_printf(l->out, "\nand %lld more\n", (long long)json_int(json_get(doc, "differ")) - (long long)json_size(differences));
}

/* ---- the verb ---- */

static int replay(struct replaying *rp, const struct replay_options *o, struct pawl_error *err)
{
	char dir[4096], from[4128];
	struct vkey key;
	int r = rejudging_init(&rp->rj, err);

	for (size_t i = 0; i < o->n_policies && r == 0; i++)
		r = take_policy(&rp->rj, o->policies[i], err);
	if (r == 0)
		r = log_folder(o->dir, dir, err);
	if (r == 0)
		r = log_key(o->key, dir, &key, from, err);
	if (r == 0)
		r = log_verify_each(dir, &key, each, progress, rp, &rp->rep, err);
	if (rp->shown && isatty(STDERR_FILENO))
		(void)fputc('\n', stderr);
	return r;
}

int log_replay(int argc, char **argv)
{
	PAWL_CLEANUP(buf_done) struct buf doc = BUF_MAX(64u << 20);
	struct replay_options o = { .dir = NULL };
	struct pawl_error err = { .code = PAWL_OK };
	struct replaying *rp;
	int r, status;

	if (replay_parse(argc, argv, &o, &status) < 0)
		return status;
	rp = calloc(1, sizeof(*rp));
	r = rp ? replay(rp, &o, &err) : pawl_fail(&err, PAWL_E_NOMEM, "out of memory");
	if (r < 0) {
		status = lines_fail("log replay", &err);
	} else {
		status = put_answer(rp, &doc);
		if (lines_answer("log replay", &doc, o.json, show) != 0)
			status = 1; /* an answer that nobody could read is none */
	}
	if (rp)
		rejudging_done(&rp->rj);
	free(rp);
	return status;
}
