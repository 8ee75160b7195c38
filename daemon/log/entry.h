/* daemon/log/entry.h - a typed entry body <-> its one line of canonical JSON (keys sorted, RFC 8785). Pure, bounded,
 * fuzzed. */
#ifndef PAWL_LOG_ENTRY_H
#define PAWL_LOG_ENTRY_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "pawl/entry.h"

/* Appends the body of e. Fails only by .failed: no memory, over PAWL_MAX_BODY, or a value that entry_parse() would
 * refuse (an enum without a name, a negative amount, id 0 where an id is due). A late settlement's ids and breakers are
 * those of struct entry_loss. A breaker's probe that is "this entry's own" is written, and so read back, as e's number.
 */
void entry_render(const struct entry *e, struct buf *out);

/* A body read back. Owns what e borrows. */
struct entry_parsed {
	struct entry e;
	char *bytes;      /* the body's copy: all text of e points here */
	void *rows[2];    /* e's draws or charges; its breakers */
	struct json *doc; /* start: the probes */
};
/* Takes exactly what entry_render() writes: rendering *ret again gives the same bytes. Unknown kinds and fields, wrong
 * types, another order or spelling and values out of range are PAWL_E_TAMPERED: we wrote every byte of it. */
PAWL_MUST_USE int entry_parse(struct str body, uint64_t seq, struct entry_parsed *ret, struct pawl_error *err);
void entry_parsed_done(struct entry_parsed *p);

/* "s_12" and friends. prefix is 's', 'd' or 'r'. */
void buf_id(struct buf *b, char prefix, uint64_t seq); /* with quotes */
/* Strict: no leading zero, no sign, 1 to 2^63 - 1 (entry 0 is always `start`, so 0 names nothing). */
PAWL_MUST_USE int id_parse(struct str text, char prefix, uint64_t *ret);
/* An amount as decimal text: money and time have 9 decimals inside, counts none. NUL-terminated; returns the length. */
size_t amount_text(enum unit unit, int64_t v, char out[static 32]);
/* A JSON string of any bytes: what is not UTF-8, and NUL, becomes '?'. */
void buf_text(struct buf *b, struct str s);

/* The words that entries, replies and requests share; "" never comes out, an unknown value gives NULL. */
const char *entry_kind_name(enum entry_kind k); /* NULL for ENTRY_NONE */
const char *verdict_name(enum verdict v);       /* unset is "deny" */
const char *scope_name(enum scope s);
const char *outcome_name(enum outcome o); /* NULL for OUTCOME_NONE */
const char *call_kind_name(enum call_kind k);
const char *stick_name(enum stick s); /* NULL for STICK_NEVER */
const char *breaker_mode_name(enum breaker_mode m);
const char *resolve_action_name(enum resolve_action a);
const char *watched_hold_name(enum watched_hold h);
const char *watched_action_name(enum watched_action a);
struct str unit_text(enum unit unit, struct str currency); /* the currency, "calls", "tokens" or "s" */
#endif
