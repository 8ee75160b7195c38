/* daemon/cli/why_session.c - `pawl why s_N`: what the log says of a session's life and of its processes: opened, watched, stopped and why, ended.
 * Single program starts are left out, `pawl log show --session` has them. Owns the texts it collects. */
#include "daemon/cli/escape.h"
#include "daemon/cli/lines.h"
#include "daemon/cli/log.h"
#include "daemon/cli/why.h"
#include "daemon/log/journal.h"
#include "daemon/log/note.h"

#include <stdio.h>

#define MAX_TEXT (64u << 20)

struct life {
	char name[32]; /* "s_5" */
	bool json;
	size_t n;
	struct buf out;
};

static bool tells(const struct life *l, const struct json *doc)
{
	static const char *const kinds[] = { "session", "resolve", "timeout", "watch" };
	struct str kind = json_string(json_get(doc, "kind"));
	bool of_it = str_is(json_string(json_get(doc, "session")), l->name), told = false;

	for (size_t i = 0; i < PAWL_LEN(kinds); i++)
		told |= str_is(kind, kinds[i]);
	return of_it && told && !str_is(json_string(json_get(doc, "action")), "execs");
}

static int visit(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct life *l = arg;
	struct json *doc = NULL;
	struct entry_view v;
	struct pawl_error why;

	if (entry_view_parse(note, &v, &why) < 0 || json_parse(v.body, PAWL_MAX_DEPTH, &doc, &why) < 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu: %s", (unsigned long long)seq, why.msg);
	if (tells(l, doc)) {
		if (l->json) {
			buf_puts(&l->out, l->n ? ",{\"seq\":" : "{\"seq\":");
			buf_u64(&l->out, seq);
			buf_puts(&l->out, ",\"body\":");
			escape_json(&l->out, v.body);
			buf_putc(&l->out, '}');
		} else {
			log_show_line(&l->out, seq, doc);
		}
		l->n++;
	}
	json_free(doc);
	return buf_ok(&l->out) ? 0 : pawl_fail(err, PAWL_E_LIMIT, "the answer is too long, or memory is short");
}

int why_session(const char *said, uint64_t id, bool json)
{
	struct life l = { .json = json, .out = BUF_MAX(MAX_TEXT) };
	struct journal_config cfg = { .read_only = true };
	struct journal_recovery rec = { .torn_bytes = 0 };
	struct pawl_error err = { .code = PAWL_OK };
	struct journal *j = NULL;
	char dir[4096];
	int r;

	(void)snprintf(l.name, sizeof(l.name), "s_%llu", (unsigned long long)id);
	cfg.dir = dir;
	if (json)
		buf_printf(&l.out, "{\"session\":\"%s\",\"entries\":[", l.name);
	r = log_folder(said, dir, &err);
	if (r == 0)
		r = journal_open(&cfg, visit, &l, &j, &rec, &err);
	journal_close(j);
	if (r == 0 && l.n == 0)
		r = pawl_fail(&err, PAWL_E_MALFORMED, "there is no session %s in this log", l.name);
	if (json)
		buf_puts(&l.out, "]}\n");
	if (r == 0 && (!buf_ok(&l.out) || fwrite(l.out.p, 1, l.out.n, stdout) != l.out.n || fflush(stdout) != 0))
		r = pawl_fail(&err, PAWL_E_SYS, "cannot write the answer");
	buf_done(&l.out);
	return r < 0 ? lines_fail("why", &err) : 0;
}
