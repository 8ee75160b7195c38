/* daemon/door/reply_watch.c - see reply_watch.h. Owns nothing; pure. */
#include "daemon/door/reply_watch.h"

#include "daemon/door/reply_part.h"
#include "daemon/log/entry.h"

static void holds(struct buf *out, const char *key, uint32_t bits)
{
	buf_key(out, key);
	buf_putc(out, '[');
	for (unsigned i = 0; i < WATCHED_HOLD_COUNT; i++) {
		if (!(bits >> i & 1))
			continue;
		if (out->n && out->p[out->n - 1] != '[')
			buf_putc(out, ',');
		buf_json(out, str_of(watched_hold_name((enum watched_hold)i)));
	}
	buf_putc(out, ']');
}

static void texts(struct buf *out, const char *key, const struct str *rows, size_t n)
{
	buf_key(out, key);
	buf_putc(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ',');
		buf_text(out, rows[i]);
	}
	buf_putc(out, ']');
}

static void rlimits(const struct reply_rlimits *l, struct buf *out)
{
	if (!l->cpu_ns && !l->memory && !l->processes)
		return;
	buf_key(out, "rlimits");
	buf_putc(out, '{');
	if (l->cpu_ns)
		reply_key_span(out, "cpu", l->cpu_ns);
	if (l->memory)
		reply_key_int(out, "memory", l->memory);
	if (l->processes)
		reply_key_int(out, "processes", l->processes);
	buf_putc(out, '}');
}

void reply_run(const struct reply_run *r, struct buf *out)
{
	const char tier[2] = { r->tier, '\0' };
	uint32_t missing = r->need & ~r->held;

	reply_head(r->op, out);
	reply_key_id(out, "session", 's', r->session);
	if (r->op == OP_RUN)
		reply_key_hex(out, "token", r->token, sizeof(r->token));
	reply_key_seq(out, r->session);
	buf_key(out, "watch");
	buf_putc(out, '{');
	reply_key_text(out, "state", r->unwatched || (!r->held && missing) ? STR("off") : missing ? STR("partial") : STR("on"));
	reply_key_text(out, "tier", str_of(tier));
	holds(out, "held", r->held);
	holds(out, "missing", missing);
	buf_key(out, "message");
	buf_text(out, r->message);
	buf_putc(out, '}');
	if (r->op == OP_RUN) {
		buf_key(out, "launch");
		buf_putc(out, '{');
		texts(out, "hide", r->hide, r->n_hide);
		if (r->has_writes)
			texts(out, "writes_under", r->writes, r->n_writes);
		else
			reply_key_text(out, "writes_under", STR_NONE);
		reply_key_text(out, "agent_socket", r->agent_socket);
		rlimits(&r->rlimits, out);
		buf_putc(out, '}');
	}
	buf_putc(out, '}');
}

void reply_watch_done(enum wire_op op, uint64_t session, struct buf *out)
{
	reply_head(op, out);
	reply_key_id(out, "session", 's', session);
	buf_putc(out, '}');
}

static int64_t bounded(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* Told without being asked, so it is no reply to an op that there is. */
void reply_ended(const struct watch_ended *end, struct buf *out)
{
	buf_puts(out, "{\"v\":1,\"op\":\"ended\"");
	reply_key_id(out, "session", 's', end->last.session);
	reply_key_text(out, "why", str_of(watch_why_name((enum watch_why)end->last.killed)));
	reply_key_int(out, "measured", bounded(end->measured));
	reply_key_int(out, "limit", bounded(end->limit));
	reply_key_int(out, "killed", end->n_killed);
	buf_putc(out, '}');
}

static void used(struct buf *out, const char *key, uint64_t v, uint64_t limit)
{
	buf_key(out, key);
	buf_putc(out, '{');
	reply_key_int(out, "used", bounded(v));
	if (limit)
		reply_key_int(out, "limit", bounded(limit));
	else
		reply_key_text(out, "limit", STR_NONE);
	buf_putc(out, '}');
}

static void used_time(struct buf *out, const char *key, uint64_t ns, uint64_t limit)
{
	buf_key(out, key);
	buf_putc(out, '{');
	reply_key_amount(out, "used", UNIT_TIME, bounded(ns));
	if (limit)
		reply_key_amount(out, "limit", UNIT_TIME, bounded(limit));
	else
		reply_key_text(out, "limit", STR_NONE);
	buf_putc(out, '}');
}

void reply_tree(const struct reply_watch *w, struct buf *out)
{
	const struct watch_now *now = w->has_now ? &w->now : NULL;
	const struct tree_state *t = &w->tree;
	enum watch_why why = t->why != WHY_NONE || !now ? t->why : (enum watch_why)now->killed;
	bool over = t->mode == TREE_ENDED, stopped = why != WHY_NONE;

	buf_key(out, "watch");
	if (t->mode == TREE_NONE) {
		buf_puts(out, "null");
		return;
	}
	buf_putc(out, '{');
	reply_key_id(out, "session", 's', w->session);
	reply_key_text(out, "state", over ? STR("ended") : stopped ? STR("stopping") : STR("live"));
	holds(out, "held", t->held);
	if (now) {
		used(out, "processes", now->processes, now->limits.processes);
		used_time(out, "cpu", now->cpu_ns, now->limits.cpu_ns);
		used(out, "memory", now->memory, now->limits.memory);
		used_time(out, "wall", now->wall_ns, now->limits.wall_ns);
		reply_key_int(out, "peak", bounded(now->peak));
	}
	reply_key_int(out, "execs", now ? bounded(now->execs) : t->execs);
	reply_key_int(out, "kills", t->kills);
	reply_key_int(out, "lost", now ? bounded(now->lost) : t->lost);
	buf_key(out, "killed");
	if (stopped) {
		buf_putc(out, '{');
		reply_key_text(out, "why", str_of(watch_why_name(why)));
		reply_key_int(out, "measured", t->measured);
		reply_key_int(out, "limit", t->limit);
		buf_putc(out, '}');
	} else {
		buf_puts(out, "null");
	}
	buf_putc(out, '}');
}
