/* tests/support/projection_world.h - a state and a projection that are fed the same entries, and questions in SQL to the file, over a
 * connection of its own as a person has it. */
#ifndef PAWL_TESTS_PROJECTION_WORLD_H
#define PAWL_TESTS_PROJECTION_WORLD_H
#include "tests/support/log_fixture.h"
#include "tests/support/state_feed.h"

#include "daemon/store/projection.h"

#include <sqlite3.h>

#define STR_INIT(lit) { (lit), sizeof(lit) - 1 }

static char dir[64];

static inline int projection_setup(void **state)
{
	(void)state;
	fx_dir(dir);
	return 0;
}

static inline int projection_teardown(void **state)
{
	(void)state;
	fx_remove(dir);
	return 0;
}

struct world {
	struct feed f;
	struct projection *p;
	char path[512];
	bool begun;
};

static inline struct projection *open_good(const char *path)
{
	struct projection *p = NULL;
	struct pawl_error err = { .code = PAWL_OK };

	if (projection_open(path, &p, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

static inline void world_open(struct world *w, const char *name)
{
	*w = (struct world){ .f = { .now = 1000 * SEC } };
	assert_int_equal(state_new(&w->f.st, NULL), 0);
	fx_path(dir, name, w->path);
	w->p = open_good(w->path);
}

static inline void world_commit(struct world *w)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (w->begun && projection_commit(w->p, w->f.st, &err) < 0)
		fail_msg("%s", err.msg);
	w->begun = false;
}

static inline void world_done(struct world *w)
{
	projection_close(w->p);
	state_free(w->f.st);
}

static inline void give(struct world *w, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	put(&w->f, e);
	if (!w->begun && projection_begin(w->p, &err) < 0)
		fail_msg("%s", err.msg);
	w->begun = true;
	if (projection_entry(w->p, e, &err) < 0)
		fail_msg("entry %llu: %s", (unsigned long long)e->seq, err.msg);
}

static inline uint64_t give_allow(struct world *w, uint64_t session, uint64_t call, int64_t money)
{
	struct draw d[2] = { draw_of(session, "run", UNIT_MONEY, money), draw_of(0, "all", UNIT_CALLS, 1) };
	struct entry e = decision(&w->f, session, call, call, VERDICT_ALLOW, d, 2);

	e.decision.cost_known = true;
	e.decision.money = money;
	give(w, &e);
	return e.seq;
}

static inline void give_settle(struct world *w, uint64_t session, uint64_t dec, int64_t money, bool late)
{
	struct charge c[2];
	struct entry e = settling(&w->f, session, dec, c, money, late);

	*(late ? &e.loss.late.charged_money : &e.settle.charged_money) = money;
	give(w, &e);
}

static inline uint64_t give_review(struct world *w, uint64_t session, uint64_t call, uint64_t args, int64_t money)
{
	struct entry e = decision(&w->f, session, call, args, VERDICT_REVIEW, NULL, 0);
	const struct card_state *card = state_card(w->f.st, session, e.decision.card_token);

	if (card && card->mode == CARD_PENDING) {
		e.decision.card = card->id;
		e.decision.card_until = card->until;
	}
	e.decision.why = (struct reason){ .code = REASON_REVIEW_REQUIRED, .rule = STR("r2") };
	e.decision.cost_known = true;
	e.decision.money = money;
	e.decision.asks[0] = (struct ask){ .code = REASON_REVIEW_REQUIRED, .rule = STR("r2") };
	e.decision.n_asks = 1;
	give(w, &e);
	return e.seq;
}

/* Rows as lines, values with | between; the caller frees. */
static inline char *answer(const char *path, const char *sql)
{
	struct buf out = BUF_MAX(64u << 20);
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			if (i)
				buf_putc(&out, '|');
			buf_add(&out, sqlite3_column_blob(st, i), (size_t)sqlite3_column_bytes(st, i));
		}
		buf_putc(&out, '\n');
	}
	if (sqlite3_finalize(st) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
	buf_puts(&out, "");
	if (!out.n)
		buf_putc(&out, '\0');
	assert_true(buf_ok(&out));
	return buf_take(&out, NULL);
}

/* What somebody does to the file. */
static inline void edit(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	char *why = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

#endif
