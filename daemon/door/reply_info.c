/* daemon/door/reply_info.c - replies that tell how things are: hello, sessions, status. Owns nothing; pure. */
#include "daemon/door/reply_part.h"
#include "daemon/door/reply_watch.h"

#include "daemon/log/entry.h"
#include "policy/money.h"

static void count(struct buf *out, const char *key, uint64_t v)
{
	buf_key(out, key);
	buf_u64(out, v);
}

static void open_object(struct buf *out, const char *key)
{
	buf_key(out, key);
	buf_putc(out, '{');
}

static void facts(struct buf *out, const char *key, const struct reply_fact *rows, size_t n)
{
	open_object(out, key);
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ',');
		buf_text(out, rows[i].name);
		buf_puts(out, ":{");
		reply_key_text(out, "state", rows[i].state);
		reply_key_text(out, "why", rows[i].why);
		buf_putc(out, '}');
	}
	buf_putc(out, '}');
}

void reply_hello(const struct reply_hello *h, struct buf *out)
{
	reply_head(OP_HELLO, out);
	reply_key_text(out, "server", STR("pawld " PAWL_VERSION));
	reply_key_int(out, "protocol", 1);
	open_object(out, "policy");
	reply_key_text(out, "name", h->policy_name);
	reply_key_text(out, "hash", h->policy_hash);
	buf_putc(out, '}');
	reply_key_text(out, "currency", h->currency);
	reply_key_text(out, "mode", h->mode);
	reply_key_text(out, "default", str_of(verdict_name(h->fallback)));
	buf_key(out, "attended");
	buf_puts(out, h->attended ? "true" : "false");
	open_object(out, "log");
	reply_key_text(out, "origin", h->log.origin);
	reply_key_text(out, "key", h->log.key);
	count(out, "seq", h->log.seq);
	buf_putc(out, '}');
	open_object(out, "watch");
	reply_key_text(out, "state", h->watch_state);
	reply_key_text(out, "why", h->watch_why);
	buf_putc(out, '}');
	facts(out, "promises", h->promises, h->n_promises);
	buf_putc(out, '}');
}

void reply_open(const struct reply_open *o, struct buf *out)
{
	char lease[MONEY_TEXT];

	reply_head(OP_SESSION_OPEN, out);
	reply_key_id(out, "session", 's', o->session);
	reply_key_hex(out, "token", o->token, sizeof(o->token));
	reply_key_time(out, "expires", o->expires);
	reply_key_text(out, "lease", (struct str){ lease, span_text(o->lease_ns, lease) });
	reply_key_text(out, "mode", o->mode);
	reply_key_seq(out, o->seq);
	buf_putc(out, '}');
}

void reply_close(uint64_t session, uint64_t seq, struct buf *out)
{
	reply_head(OP_SESSION_CLOSE, out);
	reply_key_id(out, "session", 's', session);
	reply_key_seq(out, seq);
	buf_putc(out, '}');
}

void reply_heartbeat(uint64_t session, int64_t expires, struct buf *out)
{
	reply_head(OP_HEARTBEAT, out);
	reply_key_id(out, "session", 's', session);
	reply_key_time(out, "expires", expires);
	buf_putc(out, '}');
}

static void state_denials(const struct stick_fact *rows, size_t n, struct buf *out)
{
	buf_puts(out, ",\"denials\":[");
	for (size_t i = 0; i < n; i++) {
		const char *how = stick_name(rows[i].how);

		buf_puts(out, i ? ",{\"tool\":" : "{\"tool\":");
		buf_text(out, rows[i].tool);
		reply_key_text(out, "rule", rows[i].rule);
		reply_key_text(out, "sticky", how ? str_of(how) : STR_NONE);
		if (rows[i].would)
			buf_puts(out, ",\"would\":true");
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

static void state_breakers(const struct breaker_row *rows, size_t n, struct buf *out)
{
	buf_puts(out, ",\"breakers\":[");
	for (size_t i = 0; i < n; i++) {
		const char *mode = breaker_mode_name(rows[i].mode);

		buf_puts(out, i ? ",{\"breaker\":" : "{\"breaker\":");
		buf_text(out, rows[i].id);
		if (rows[i].tool.p) /* one a tool: without it several rows would look alike */
			reply_key_text(out, "tool", rows[i].tool);
		reply_key_text(out, "state", mode ? str_of(mode) : STR_NONE);
		reply_key_time(out, "until", rows[i].until);
		if (rows[i].would)
			buf_puts(out, ",\"would\":true");
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

void reply_state(const struct reply_state *s, struct buf *out)
{
	reply_head(OP_SESSION_STATE, out);
	reply_key_id(out, "session", 's', s->session);
	reply_key_text(out, "agent", s->agent);
	reply_key_time(out, "opened", s->opened);
	reply_key_time(out, "expires", s->expires);
	reply_key_text(out, "ended", s->ended);
	reply_key_int(out, "decisions", s->decisions);
	reply_key_int(out, "executions", s->executions);
	buf_key(out, "remaining");
	reply_remaining(s->ledgers, sizeof(*s->ledgers), s->n_ledgers, false, s->currency, out);
	buf_key(out, "open");
	buf_putc(out, '[');
	for (size_t i = 0; i < s->n_open; i++) {
		if (i)
			buf_putc(out, ',');
		buf_id(out, 'd', s->open[i]);
	}
	buf_putc(out, ']');
	buf_key(out, "reviews");
	buf_putc(out, '[');
	for (size_t i = 0; i < s->n_reviews; i++) {
		buf_puts(out, i ? ",{" : "{");
		reply_key_id(out, "review", 'r', s->reviews[i].card);
		reply_key_text(out, "state", reply_card_state(s->reviews[i].mode));
		reply_key_time(out, "expires", s->reviews[i].expires);
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
	state_denials(s->denials, s->n_denials, out);
	state_breakers(s->breakers, s->n_breakers, out);
	reply_tree(s->watch, out);
	buf_putc(out, '}');
}

static void status_log(const struct reply_log *log, struct buf *out)
{
	open_object(out, "log");
	reply_key_text(out, "origin", log->origin);
	reply_key_text(out, "key", log->key);
	count(out, "seq", log->seq);
	reply_key_text(out, "state", log->unavailable ? STR("unavailable") : STR("ok"));
	reply_key_text(out, "why", log->why);
	buf_putc(out, '}');
}

static void status_counters(const struct reply_status *s, struct buf *out)
{
	open_object(out, "counters");
	open_object(out, "decide");
	count(out, "allow", s->allow);
	count(out, "review", s->review);
	count(out, "deny", s->deny);
	buf_putc(out, '}');
	open_object(out, "would"); /* of those allowed, in shadow mode */
	count(out, "review", s->would_review);
	count(out, "deny", s->would_deny);
	buf_putc(out, '}');
	count(out, "settle", s->settles);
	count(out, "malformed", s->malformed);
	count(out, "unauthenticated", s->unauthenticated);
	count(out, "throttled", s->throttled);
	count(out, "oversized", s->oversized);
	buf_putc(out, '}');
}

static void status_store(const struct reply_status *s, struct buf *out)
{
	open_object(out, "store");
	count(out, "rows", s->rows);
	count(out, "snapshot", s->snapshot);
	count(out, "unread", s->unread);
	reply_key_text(out, "problem", s->rows_problem);
	buf_putc(out, '}');
}

static void status_watch(const struct reply_status *s, struct buf *out)
{
	open_object(out, "watch");
	reply_key_text(out, "state", s->watch_state);
	reply_key_text(out, "why", s->watch_why);
	reply_key_text(out, "tier", str_of(s->tier));
	count(out, "trees", s->trees);
	count(out, "asked", s->trees_asked);
	count(out, "over", s->trees_over);
	count(out, "refused", s->trees_refused);
	count(out, "lost", s->watch_lost);
	count(out, "nonsense", s->watch_nonsense);
	buf_putc(out, '}');
}

void reply_status(const struct reply_status *s, struct buf *out)
{
	reply_head(OP_STATUS, out);
	reply_key_text(out, "server", STR("pawld " PAWL_VERSION));
	open_object(out, "pid");
	buf_key(out, "watcher");
	if (s->watcher_pid)
		buf_i64(out, s->watcher_pid);
	else
		buf_puts(out, "null");
	reply_key_int(out, "rest", s->rest_pid);
	buf_putc(out, '}');
	reply_key_time(out, "started", s->started);
	reply_key_time(out, "now", s->now);
	reply_key_time(out, "wall", s->wall);
	reply_key_text(out, "mode", s->mode);
	reply_key_text(out, "default", str_of(verdict_name(s->fallback)));
	open_object(out, "policy");
	reply_key_text(out, "name", s->policy_name);
	reply_key_text(out, "hash", s->policy_hash);
	reply_key_time(out, "loaded", s->policy_loaded);
	buf_putc(out, '}');
	status_log(&s->log, out);
	open_object(out, "sessions");
	count(out, "live", s->live);
	count(out, "kept", s->kept);
	buf_putc(out, '}');
	status_watch(s, out);
	status_store(s, out);
	status_counters(s, out);
	facts(out, "probes", s->probes, s->n_probes);
	facts(out, "promises", s->promises, s->n_promises);
	buf_putc(out, '}');
}

static void session_money(const struct reply_money *m, struct str currency, struct buf *out)
{
	buf_key(out, "money");
	if (!m->budget.p) {
		buf_puts(out, "null");
		return;
	}
	buf_putc(out, '{');
	reply_key_text(out, "budget", m->budget);
	reply_key_amount(out, "used", UNIT_MONEY, m->used);
	reply_key_amount(out, "remaining", UNIT_MONEY, m->left > 0 ? m->left : 0);
	reply_key_text(out, "unit", currency);
	buf_putc(out, '}');
}

void reply_session_list(const struct reply_session *rows, size_t n, bool more, struct str currency, struct buf *out)
{
	reply_head(OP_SESSION_LIST, out);
	buf_key(out, "sessions");
	buf_putc(out, '[');
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ",{" : "{");
		reply_key_id(out, "session", 's', rows[i].session);
		reply_key_text(out, "agent", rows[i].agent);
		reply_key_time(out, "opened", rows[i].opened);
		reply_key_time(out, "expires", rows[i].expires);
		reply_key_text(out, "ended", rows[i].ended);
		reply_key_int(out, "decisions", rows[i].decisions);
		reply_key_int(out, "executions", rows[i].executions);
		reply_key_int(out, "reservations", rows[i].reservations);
		reply_key_int(out, "reviews", rows[i].reviews);
		session_money(&rows[i].money, currency, out);
		reply_tree(&rows[i].watch, out);
		buf_putc(out, '}');
	}
	buf_puts(out, more ? "],\"more\":true}" : "],\"more\":false}");
}

void reply_policy_show(const struct reply_policy *p, struct buf *out)
{
	reply_head(OP_POLICY_SHOW, out);
	reply_key_text(out, "name", p->name);
	reply_key_text(out, "hash", p->hash);
	reply_key_text(out, "file", p->file);
	reply_key_text(out, "text", p->text);
	buf_putc(out, '}');
}
