/* daemon/cli/store.c - see store.h. A rebuild reads the log from entry 0 as pawld does at its start, chain and newest signature checked, and
 * lets the new file take the old one's place only when all of it was right. It holds the private store meanwhile, so that no pawld starts.
 * Snapshots are pawld's: it signs what vouches for them. A rebuilt file has none. */
#include "daemon/cli/store.h"

#include "daemon/base/home.h"
#include "daemon/cli/lines.h"
#include "daemon/cli/log.h"
#include "daemon/log/chain.h"
#include "daemon/log/entry.h"
#include "daemon/log/journal.h"
#include "daemon/log/verify.h"
#include "daemon/store/private.h"
#include "daemon/store/projection.h"
#include "pawl/exit.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BATCH	  5000 /* entries a transaction */

struct store_options {
	const char *dir, *state, *log, *key;
	uint64_t session;
	bool json;
};
struct places {
	char state[4096], log[4096], projection[4128], private[4128];
};

static int find_places(const struct store_options *o, struct places *ret, struct pawl_error *err)
{
	char home[4000];
	struct stat st;
	int r = 0;

	if (o->dir && strlen(o->dir) >= sizeof(home))
		return pawl_fail(err, PAWL_E_USAGE, "the folder's name is too long");
	if (o->dir)
		(void)snprintf(home, sizeof(home), "%s", o->dir);
	else if (!o->state || !o->log)
		r = home_dir(home, sizeof(home), err);
	if (r < 0)
		return r;
	r = log_folder(o->log ? o->log : home, ret->log, err);
	if (r < 0)
		return r;
	if (o->state)
		(void)snprintf(ret->state, sizeof(ret->state), "%s", o->state);
	else
		(void)snprintf(ret->state, sizeof(ret->state), "%s/state", home);
	if (stat(ret->state, &st) != 0 || !S_ISDIR(st.st_mode))
		return pawl_fail(err, PAWL_E_SYS, "there is no state folder %.180s", ret->state);
	(void)snprintf(ret->projection, sizeof(ret->projection), "%s/projection.sqlite", ret->state);
	(void)snprintf(ret->private, sizeof(ret->private), "%s/private.sqlite", ret->state);
	return 0;
}

/* ---- rebuild ---- */

struct rebuild {
	struct projection *p;
	struct state *st;
	struct vkey key;
	uint8_t prev[32];
	struct buf last; /* the newest note: its signature is checked at the end */
	uint64_t entries;
	struct str origin; /* of the key's name */
	int64_t shown_ns;
};

/* A line a second. */
static void progress(struct rebuild *rb, uint64_t seq)
{
	struct timespec t;
	int64_t now;

	if (seq % 1024 || clock_gettime(CLOCK_MONOTONIC, &t) != 0)
		return;
	now = (int64_t)t.tv_sec * NS_PER_SEC + t.tv_nsec;
	if (seq && now - rb->shown_ns < NS_PER_SEC)
		return;
	rb->shown_ns = now;
	if (seq)
		(void)fprintf(stderr, "pawl store: %llu entries read\n", (unsigned long long)seq);
}

static int take(struct rebuild *rb, const struct entry *e, struct pawl_error *err)
{
	int r = 0;

	if (e->seq % BATCH == 0) {
		if (e->seq)
			r = projection_commit(rb->p, NULL, err);
		if (r == 0)
			r = projection_begin(rb->p, err);
	}
	if (r == 0)
		r = state_room(rb->st, e, err);
	if (r < 0)
		return r;
	state_apply(rb->st, e);
	return projection_entry(rb->p, e, err);
}

static int visit(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct rebuild *rb = arg;
	struct entry_parsed p;
	struct entry_view v;
	int r;

	if (seq != rb->entries)
		return pawl_fail(err, PAWL_E_INCOMPLETE, "the log starts at entry %llu: its head is missing", (unsigned long long)seq);
	if (entry_view_parse(note, &v, err) < 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not a signed entry", (unsigned long long)seq);
	if (!str_is(v.sig_name, rb->key.name) || v.sig_id != rb->key.id)
		return pawl_fail(err, PAWL_E_KEY, "entry %llu is signed by another key", (unsigned long long)seq);
	r = chain_check(&v, seq, rb->origin, rb->prev, err);
	if (r == 0)
		r = entry_parse(v.body, seq, &p, err);
	if (r != 0)
		return r;
	r = take(rb, &p.e, err);
	entry_parsed_done(&p);
	if (r < 0)
		return r;
	entry_hash(v.text, rb->prev);
	buf_reset(&rb->last);
	buf_str_add(&rb->last, note);
	rb->entries++;
	progress(rb, seq);
	return buf_ok(&rb->last) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");
}

static int check_newest(const struct rebuild *rb, struct pawl_error *err)
{
	struct entry_view v;
	int r;

	if (!rb->entries)
		return 0;
	r = entry_view_parse(buf_str(&rb->last), &v, err);
	if (r == 0)
		r = entry_view_verify(&v, &rb->key, err);
	if (r == PAWL_E_TAMPERED)
		r = pawl_fail(err, PAWL_E_TAMPERED, "entry %llu: the signature does not fit the text", (unsigned long long)(rb->entries - 1));
	return r;
}

static int origin_of(struct rebuild *rb, struct pawl_error *err)
{
	static const char suffix[] = "/entry";
	size_t n = strlen(rb->key.name), m = sizeof(suffix) - 1;

	if (n <= m || strcmp(rb->key.name + n - m, suffix) != 0)
		return pawl_fail(err, PAWL_E_KEY, "the key's name \"%.100s\" is not ORIGIN%s", rb->key.name, suffix);
	rb->origin = (struct str){ rb->key.name, n - m };
	return 0;
}

static int busy(struct pawl_error *err)
{
	return pawl_fail(err, PAWL_E_BUSY, "a pawld is running on this folder: it keeps the projection itself; stop it first");
}

/* A pawld has it open from its start to its end, so that this is also how it is kept from starting. Where there is none, none ever ran. */
static int hold_state(const struct places *at, struct private_store **ret, struct pawl_error *err)
{
	struct stat st;
	int r;

	if (lstat(at->private, &st) != 0)
		return 0;
	r = private_open(at->private, ret, err);
	return r == PAWL_E_BUSY ? busy(err) : r;
}

static int read_log(struct rebuild *rb, const struct places *at, struct journal_recovery *rec, struct pawl_error *err)
{
	struct journal_config cfg = { .dir = at->log, .read_only = true };
	struct journal *j = NULL;
	int r = journal_open(&cfg, visit, rb, &j, rec, err);

	journal_close(j);
	if (r == 0 && rec->live)
		r = busy(err);
	if (r == 0)
		r = check_newest(rb, err);
	if (r == 0 && rb->entries)
		r = projection_commit(rb->p, rb->st, err);
	return r;
}

static int rebuild(const struct places *at, struct rebuild *rb, struct journal_recovery *rec, struct pawl_error *err)
{
	struct private_store *held = NULL;
	int r = hold_state(at, &held, err);

	if (r == 0)
		r = state_new(&rb->st, err);
	if (r == 0)
		r = projection_build(at->projection, &rb->p, err);
	if (r == 0)
		r = read_log(rb, at, rec, err);
	if (r == 0 && rb->entries) {
		r = projection_install(rb->p, err);
		rb->p = NULL;
	}
	projection_close(rb->p);
	state_free(rb->st);
	private_close(held);
	return r;
}

static int status_of(const struct pawl_error *err)
{
	switch ((int)err->code) {
	case PAWL_E_TAMPERED:
		return VERIFY_TAMPERED;
	case PAWL_E_INCOMPLETE:
		return VERIFY_INCOMPLETE;
	case PAWL_E_KEY:
		return VERIFY_WRONG_KEY;
	case PAWL_E_BUSY:
		return EXIT_BUSY;
	case PAWL_E_USAGE:
		return 2;
	default:
		return 1;
	}
}

static void show_rebuilt(struct lines *l, const struct json *doc)
{
	(void)line_value(l, "", doc, "message", "");
	line_end(l);
	(void)line_value(l, "entries   ", doc, "entries", "\n");
	(void)line_value(l, "file      ", doc, "projection", "\n");
}

static int rebuild_answer(const struct store_options *o, const struct places *at, const struct rebuild *rb, int64_t torn)
{
	struct buf b = BUF_MAX(64u << 10);
	int status = rb->entries ? 0 : VERIFY_NOTHING, r;

	buf_printf(&b, "{\"status\":\"%s\",\"exit\":%d,\"entries\":%llu,\"torn_bytes\":%lld,\"projection\":", status ? "nothing-to-do" : "ok", status,
		   (unsigned long long)rb->entries, (long long)torn);
	buf_text(&b, str_of(at->projection));
	buf_puts(&b, ",\"message\":");
	buf_text(&b, status ? STR("the log has no entry: nothing to do")
		     : torn ? STR("rebuilt up to the last whole batch; pawld cuts the torn end at its next start")
			    : STR("rebuilt; without snapshots, which pawld makes"));
	buf_putc(&b, '}');
	r = lines_answer("store rebuild", &b, o->json, show_rebuilt);
	buf_done(&b);
	return r ? r : status;
}

static int rebuild_main(const struct store_options *o, const struct places *at)
{
	struct rebuild rb = { .last = BUF_MAX(PAWL_MAX_NOTE) };
	struct journal_recovery rec = { .torn_bytes = 0 };
	struct pawl_error err = { .code = PAWL_OK };
	char from[4128];
	int r = log_key(o->key, at->log, &rb.key, from, &err);

	if (r == 0)
		r = origin_of(&rb, &err);
	if (r < 0)
		return lines_fail("store rebuild", &err);
	r = rebuild(at, &rb, &rec, &err);
	buf_done(&rb.last);
	if (r == 0)
		return rebuild_answer(o, at, &rb, rec.torn_bytes);
	(void)lines_fail("store rebuild", &err);
	return status_of(&err);
}

/* ---- status ---- */

static uint64_t file_bytes(const char *path, const char *suffix)
{
	char name[4200];
	struct stat st;

	(void)snprintf(name, sizeof(name), "%s%s", path, suffix);
	return lstat(name, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

static void put_snapshots(struct buf *b, const struct projection_snapshot *s, size_t n)
{
	buf_puts(b, ",\"snapshots\":[");
	for (size_t i = 0; i < n; i++) {
		buf_printf(b, "%s{\"at\":%llu,\"entry\":", i ? "," : "", (unsigned long long)s[i].at);
		if (s[i].entry)
			buf_u64(b, s[i].entry);
		else
			buf_puts(b, "null");
		buf_printf(b, ",\"bytes\":%llu,\"sha256\":\"", (unsigned long long)s[i].bytes);
		buf_hex(b, s[i].sha256, sizeof(s[i].sha256));
		buf_puts(b, "\"}");
	}
	buf_putc(b, ']');
}

static int put_rows(struct buf *b, struct projection *p, struct pawl_error *err)
{
	uint64_t n = 0;
	int r = 0;

	buf_puts(b, ",\"rows\":{");
	for (size_t i = 0; r == 0 && projection_table(i); i++) {
		r = projection_rows(p, i, &n, err);
		buf_printf(b, "%s\"%s\":%llu", i ? "," : "", projection_table(i), (unsigned long long)n);
	}
	buf_putc(b, '}');
	return r;
}

static int log_entries(const struct places *at, uint64_t *ret, struct pawl_error *err)
{
	struct journal_config cfg = { .dir = at->log, .read_only = true };
	struct journal_recovery rec = { .torn_bytes = 0 };
	struct journal *j = NULL;
	int r = journal_open(&cfg, NULL, NULL, &j, &rec, err);

	journal_close(j);
	*ret = rec.next_seq;
	return r;
}

/* The log is read last: with a pawld writing, it is then never behind the rows. */
static int put_status(struct buf *b, const struct places *at, struct projection *p, struct pawl_error *err)
{
	struct projection_snapshot s[4];
	uint64_t applied = projection_applied(p), entries = 0;
	size_t n = 0;
	int r;

	buf_puts(b, "{\"projection\":");
	buf_text(b, str_of(at->projection));
	buf_printf(b, ",\"bytes\":%llu,\"wal_bytes\":%llu", (unsigned long long)file_bytes(at->projection, ""),
		   (unsigned long long)file_bytes(at->projection, "-wal"));
	r = put_rows(b, p, err);
	if (r == 0)
		r = projection_snapshots(p, s, PAWL_LEN(s), &n, err);
	if (r == 0)
		r = log_entries(at, &entries, err);
	if (r < 0)
		return r;
	put_snapshots(b, s, n);
	buf_printf(b, ",\"applied\":%llu,\"entries\":%llu,\"behind\":%lld}", (unsigned long long)applied, (unsigned long long)entries,
		   (long long)(entries - applied));
	return 0;
}

static void show_status(struct lines *l, const struct json *doc)
{
	const struct json *rows = json_get(doc, "rows"), *snapshots = json_get(doc, "snapshots");

	(void)line_value(l, "file      ", doc, "projection", "\n");
	(void)line_value(l, "size      ", doc, "bytes", " bytes");
	(void)line_value(l, " and ", doc, "wal_bytes", " in its WAL\n");
	(void)line_value(l, "applied   ", doc, "applied", "");
	(void)line_value(l, " of ", doc, "entries", " entries of the log");
	(void)line_value(l, ", ", doc, "behind", " behind\n");
	if (json_int(json_get(doc, "behind")) < 0)
		buf_puts(l->out, "          it is ahead of the log: the log was rolled back, or somebody edited this\n");
	line_label(l, "rows");
	for (size_t i = 0; projection_table(i); i++) {
		buf_puts(l->out, i ? ", " : "");
		buf_puts(l->out, projection_table(i));
		(void)line_value(l, " ", rows, projection_table(i), "");
	}
	line_end(l);
	for (size_t i = 0; i < json_size(snapshots); i++) {
		const struct json *s = json_at(snapshots, i);

		line_label(l, "snapshot");
		(void)line_value(l, "before entry ", s, "at", "");
		(void)line_value(l, ", ", s, "bytes", " bytes");
		if (!line_value(l, ", vouched for by entry ", s, "entry", "\n"))
			buf_puts(l->out, ", no entry vouches for it\n");
	}
	if (!json_size(snapshots))
		buf_puts(l->out, "snapshot  none\n");
}

static int status_main(const struct store_options *o, const struct places *at)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct projection *p = NULL;
	struct buf b = BUF_MAX(64u << 10);
	int r = projection_open_readonly(at->projection, &p, &err), status;

	if (r == 0)
		r = put_status(&b, at, p, &err);
	status = r == 0 ? lines_answer("store status", &b, o->json, show_status) : lines_fail("store status", &err);
	projection_close(p);
	buf_done(&b);
	return r == PAWL_E_INCOMPLETE ? VERIFY_NOTHING : status;
}

/* ---- the verbs ---- */

static int forget_main(const struct store_options *o, const struct places *at)
{
	struct pawl_error err;

	if (o->session)
		return store_forget(at->private, o->session, o->json);
	(void)pawl_fail(&err, PAWL_E_USAGE, "forget whom? --session s_N");
	return lines_fail("store forget", &err);
}

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl store rebuild|status|forget [--dir DIR] [--state DIR] [--log DIR] [--key FILE|VKEY] [--json]\n"
		    "projection.sqlite in the state folder holds the log as tables, for questions in SQL (docs/store.md). pawld keeps it and\n"
		    "believes nothing in it.\n\n"
		    "  rebuild     make it anew from entry 0 of the log, chain and newest signature checked, while no pawld runs; the old\n"
		    "              file stays until the new one is whole\n"
		    "  status      how many entries it covers and how many the log has, its rows, snapshots, size; pawld may be running\n\n"
		    "  forget      overwrite what is kept in readable form of one tree of sessions (--session s_N, its first one): its\n"
		    "              secret, recorded arguments, what its cards show; while no pawld runs\n\n"
		    "  --dir DIR   the folder that `pawl init` made (default: $PAWL_DIR, /var/lib/pawl for root, else\n"
		    "              $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --state, --log DIR   where pawld was told that these are (default: DIR/state, DIR/log)\n"
		    "  --key FILE|VKEY      rebuild: the key that signs the log (default: entry.vkey beside or inside the log's folder)\n"
		    "  --json      one JSON object\n\n"
		    "exit status:  0 done    11 nothing to do (no entry; status: no projection)    12 the log is tampered with\n"
		    "             13 its head is missing    14 signed by another key    75 a pawld is running    1 failed    2 usage\n",
		    out);
	return status;
}

/* 0, or -1 with the exit status. */
static int parse(int argc, char **argv, struct store_options *o, int *ret_status)
{
	static const struct option longs[] = { { "dir", required_argument, NULL, 'd' }, { "state", required_argument, NULL, 's' },
					       { "log", required_argument, NULL, 'l' }, { "key", required_argument, NULL, 'k' },
					       { "json", no_argument, NULL, 'j' },	{ "help", no_argument, NULL, 'h' },
					       { "session", required_argument, NULL, 'i' },
					       { NULL, 0, NULL, 0 } };
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'j') {
			o->json = true;
		} else if (c == 'i' && id_parse(str_of(optarg), 's', &o->session) == 0) {
			continue;
		} else if (c == 'd' || c == 's' || c == 'l' || c == 'k') {
			*(c == 'd' ? &o->dir : c == 's' ? &o->state : c == 'l' ? &o->log : &o->key) = optarg;
		} else {
			*ret_status = c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
			return -1;
		}
	}
	if (optind < argc) {
		*ret_status = usage(stderr, 2);
		return -1;
	}
	return 0;
}

int cli_store(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct store_options *, const struct places *);
	} verbs[] = { { "rebuild", rebuild_main }, { "status", status_main }, { "forget", forget_main } };
	struct str verb = argc > 1 ? str_of(argv[1]) : STR_NONE;
	struct store_options o = { .dir = NULL };
	struct pawl_error err = { .code = PAWL_OK };
	struct places at;
	int status;
	size_t i;

	if (str_is(verb, "--help") || str_is(verb, "-h") || str_is(verb, "help"))
		return usage(stdout, 0);
	for (i = 0; i < PAWL_LEN(verbs) && !str_is(verb, verbs[i].name);)
		i++;
	if (i == PAWL_LEN(verbs))
		return usage(stderr, 2);
	if (parse(argc - 1, argv + 1, &o, &status) < 0)
		return status;
	if (find_places(&o, &at, &err) < 0)
		return lines_fail("store", &err);
	return verbs[i].run(&o, &at);
}
