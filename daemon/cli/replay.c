/* daemon/cli/replay.c - see replay.h. Owns the journal and the state while it reads. */
#include "daemon/cli/replay.h"

#include "daemon/cli/log.h"
#include "daemon/log/entry.h"
#include "daemon/log/journal.h"
#include "daemon/log/note.h"

#include <stdio.h>

struct replay {
	struct state *st;
	replay_each *each;
	void *arg;
};

static int visit(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct replay *rp = arg;
	struct entry_parsed p;
	struct entry_view v;
	struct pawl_error why = { .code = PAWL_OK };
	int r = entry_view_parse(note, &v, &why);

	if (r == 0)
		r = entry_parse(v.body, seq, &p, &why);
	if (r < 0)
		return pawl_fail(err, why.code, "entry %llu: %.200s", (unsigned long long)seq, why.msg);
	r = state_room(rp->st, &p.e, err);
	if (r == 0) {
		state_apply(rp->st, &p.e);
		r = rp->each(rp->arg, &p.e, rp->st, err);
	}
	entry_parsed_done(&p);
	return r;
}

int replay_log(const char *verb, const char *dir, replay_each *each, void *arg, struct state **ret_state, struct pawl_error *err)
{
	struct journal_recovery rec = { .torn_bytes = 0 };
	struct replay rp = { .each = each, .arg = arg };
	struct journal *j = NULL;
	char folder[4096];
	struct journal_config cfg = { .dir = folder, .read_only = true };
	int r = log_folder(dir, folder, err);

	if (r == 0)
		r = state_new(&rp.st, err);
	if (r == 0)
		r = journal_open(&cfg, visit, &rp, &j, &rec, err);
	if (r == 0 && rec.next_seq == 0)
		r = pawl_fail(err, PAWL_E_INCOMPLETE, "%.150s holds no entry", folder);
	journal_close(j);
	if (r == 0 && rec.torn_bytes)
		(void)fprintf(stderr, "pawl %s: %lld bytes at the end of the log are not a whole batch\n", verb, (long long)rec.torn_bytes);
	if (r < 0 || !ret_state)
		state_free(rp.st);
	else
		*ret_state = rp.st;
	return r;
}
