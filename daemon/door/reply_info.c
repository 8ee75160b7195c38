/* daemon/door/reply_info.c - replies that tell how things are: hello, sessions, status. Owns nothing; pure. */
#include "daemon/door/reply.h"

#include "daemon/log/entry.h"
#include "policy/money.h"

static void text(struct buf *out, const char *key, struct str s)
{
	buf_key(out, key);
	if (s.p)
		buf_text(out, s);
	else
		buf_puts(out, "null");
}

static void time_at(struct buf *out, const char *key, int64_t ns)
{
	buf_key(out, key);
	buf_time(out, ns);
}

static void number(struct buf *out, const char *key, int64_t v)
{
	buf_key(out, key);
	buf_i64(out, v);
}

static void count(struct buf *out, const char *key, uint64_t v)
{
	buf_key(out, key);
	buf_u64(out, v);
}

static void id(struct buf *out, const char *key, char letter, uint64_t v)
{
	buf_key(out, key);
	buf_id(out, letter, v);
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
		text(out, "state", rows[i].state);
		text(out, "why", rows[i].why);
		buf_putc(out, '}');
	}
	buf_putc(out, '}');
}

void reply_hello(const struct reply_hello *h, struct buf *out)
{
	reply_head(OP_HELLO, out);
	text(out, "server", STR("pawld " PAWL_VERSION));
	number(out, "protocol", 1);
	open_object(out, "policy");
	text(out, "name", h->policy_name);
	text(out, "hash", h->policy_hash);
	buf_putc(out, '}');
	text(out, "currency", h->currency);
	text(out, "mode", h->mode);
	text(out, "default", str_of(verdict_name(h->fallback)));
	buf_key(out, "attended");
	buf_puts(out, h->attended ? "true" : "false");
	open_object(out, "log");
	text(out, "origin", h->log.origin);
	text(out, "key", h->log.key);
	count(out, "seq", h->log.seq);
	buf_putc(out, '}');
	open_object(out, "watch");
	text(out, "state", h->watch_state);
	text(out, "why", h->watch_why);
	buf_putc(out, '}');
	facts(out, "promises", h->promises, h->n_promises);
	buf_putc(out, '}');
}

void reply_open(const struct reply_open *o, struct buf *out)
{
	char lease[MONEY_TEXT];

	reply_head(OP_SESSION_OPEN, out);
	id(out, "session", 's', o->session);
	buf_key(out, "token");
	buf_putc(out, '"');
	buf_hex(out, o->token, sizeof(o->token));
	buf_putc(out, '"');
	time_at(out, "expires", o->expires);
	text(out, "lease", (struct str){ lease, span_text(o->lease_ns, lease) });
	text(out, "mode", o->mode);
	open_object(out, "log");
	count(out, "seq", o->seq);
	buf_puts(out, "}}");
}

void reply_close(uint64_t session, uint64_t seq, struct buf *out)
{
	reply_head(OP_SESSION_CLOSE, out);
	id(out, "session", 's', session);
	open_object(out, "log");
	count(out, "seq", seq);
	buf_puts(out, "}}");
}

void reply_heartbeat(uint64_t session, int64_t expires, struct buf *out)
{
	reply_head(OP_HEARTBEAT, out);
	id(out, "session", 's', session);
	time_at(out, "expires", expires);
	buf_putc(out, '}');
}

void reply_state(const struct reply_state *s, struct buf *out)
{
	reply_head(OP_SESSION_STATE, out);
	id(out, "session", 's', s->session);
	text(out, "agent", s->agent);
	time_at(out, "opened", s->opened);
	time_at(out, "expires", s->expires);
	text(out, "ended", s->ended);
	number(out, "decisions", s->decisions);
	number(out, "executions", s->executions);
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
		id(out, "review", 'r', s->reviews[i].card);
		time_at(out, "expires", s->reviews[i].expires);
		buf_putc(out, '}');
	}
	buf_puts(out, "],\"denials\":[],\"breakers\":[]}"); /* their rooms are not built yet: none can exist */
}

static void status_log(const struct reply_log *log, struct buf *out)
{
	open_object(out, "log");
	text(out, "origin", log->origin);
	text(out, "key", log->key);
	count(out, "seq", log->seq);
	text(out, "state", log->unavailable ? STR("unavailable") : STR("ok"));
	text(out, "why", log->why);
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
	count(out, "settle", s->settles);
	count(out, "malformed", s->malformed);
	count(out, "unauthenticated", s->unauthenticated);
	count(out, "throttled", s->throttled);
	count(out, "oversized", s->oversized);
	buf_putc(out, '}');
}

void reply_status(const struct reply_status *s, struct buf *out)
{
	reply_head(OP_STATUS, out);
	text(out, "server", STR("pawld " PAWL_VERSION));
	open_object(out, "pid");
	buf_key(out, "watcher");
	if (s->watcher_pid)
		buf_i64(out, s->watcher_pid);
	else
		buf_puts(out, "null");
	number(out, "rest", s->rest_pid);
	buf_putc(out, '}');
	time_at(out, "started", s->started);
	time_at(out, "now", s->now);
	time_at(out, "wall", s->wall);
	text(out, "mode", s->mode);
	text(out, "default", str_of(verdict_name(s->fallback)));
	open_object(out, "policy");
	text(out, "name", s->policy_name);
	text(out, "hash", s->policy_hash);
	time_at(out, "loaded", s->policy_loaded);
	buf_putc(out, '}');
	status_log(&s->log, out);
	open_object(out, "sessions");
	count(out, "live", s->live);
	count(out, "kept", s->kept);
	buf_putc(out, '}');
	status_counters(s, out);
	facts(out, "probes", s->probes, s->n_probes);
	facts(out, "promises", s->promises, s->n_promises);
	buf_putc(out, '}');
}

void reply_session_list(const struct reply_session *rows, size_t n, bool more, struct buf *out)
{
	reply_head(OP_SESSION_LIST, out);
	buf_key(out, "sessions");
	buf_putc(out, '[');
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ",{" : "{");
		id(out, "session", 's', rows[i].session);
		text(out, "agent", rows[i].agent);
		time_at(out, "opened", rows[i].opened);
		time_at(out, "expires", rows[i].expires);
		text(out, "ended", rows[i].ended);
		number(out, "decisions", rows[i].decisions);
		number(out, "executions", rows[i].executions);
		number(out, "reservations", rows[i].reservations);
		number(out, "reviews", rows[i].reviews);
		buf_putc(out, '}');
	}
	buf_puts(out, more ? "],\"more\":true}" : "],\"more\":false}");
}

void reply_policy_show(const struct reply_policy *p, struct buf *out)
{
	reply_head(OP_POLICY_SHOW, out);
	text(out, "name", p->name);
	text(out, "hash", p->hash);
	text(out, "file", p->file);
	text(out, "text", p->text);
	buf_putc(out, '}');
}
