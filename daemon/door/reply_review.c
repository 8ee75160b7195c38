/* daemon/door/reply_review.c - what operators are told: cards, and what their signed requests did. Owns nothing; pure.
 */
#include "daemon/door/reply_part.h"

#include "daemon/log/entry.h"

#include <stdio.h>

const char *card_mode_name(enum card_mode mode)
{
	static const char *const names[] = {
		[CARD_PENDING] = "pending", [CARD_RESUMED] = "resumed", [CARD_SPENT] = "spent",
		[CARD_SKIPPED] = "skipped", [CARD_ABORTED] = "aborted", [CARD_TIMED_OUT] = "timeout",
		[CARD_CLOSED] = "closed",
	};
	_Static_assert(PAWL_LEN(names) == CARD_MODE_COUNT, "a card's mode has no name");

	return (unsigned)mode < CARD_MODE_COUNT ? names[mode] : NULL;
}

/* ---- cards ---- */

static void card_why(const struct reply_card *c, struct buf *out)
{
	buf_puts(out, ",\"reason\":{\"message\":");
	buf_text(out, c->message);
	if (c->has_numbers) {
		reply_key_amount(out, "counter", c->unit, c->counter);
		reply_key_amount(out, "limit", c->unit, c->limit);
		reply_key_text(out, "unit", unit_text(c->unit, c->currency));
	}
	buf_putc(out, '}');
}

static void card_before(const struct reply_before *rows, size_t n, struct buf *out)
{
	buf_puts(out, ",\"before\":[");
	for (size_t i = 0; i < n; i++) {
		const char *outcome = outcome_name(rows[i].outcome);

		buf_puts(out, i ? ",{\"decision\":" : "{\"decision\":");
		buf_id(out, 'd', rows[i].decision);
		reply_key_text(out, "tool", rows[i].tool);
		reply_key_text(out, "verdict", str_of(verdict_name(rows[i].answer)));
		reply_key_text(out, "outcome", outcome ? str_of(outcome) : STR_NONE);
		reply_key_time(out, "now", rows[i].now);
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

/* The members of a card, the first one with its key written. */
static void card(const struct reply_card *c, struct buf *out)
{
	buf_id(out, 'r', c->review);
	reply_key_id(out, "session", 's', c->session);
	reply_key_text(out, "agent", c->agent);
	reply_key_text(out, "tool", c->tool);
	reply_key_text(out, "state", str_of(card_mode_name(c->mode)));
	reply_key_time(out, "opened", c->opened);
	reply_key_time(out, "expires", c->expires);
	reply_asks(c->asks, c->n_asks, out);
	card_why(c, out);
	reply_key_text(out, "args", c->args);
	reply_key_int(out, "args_bytes", c->args_bytes);
	reply_key_hex(out, "args_mac", c->args_mac, sizeof(c->args_mac));
	reply_key_amount(out, "money", UNIT_MONEY, c->money);
	reply_key_int(out, "tokens", c->tokens);
	reply_key_int(out, "joined", c->joined);
	reply_key_text(out, "operator", c->operator);
	reply_key_text(out, "operator_reason", c->reason);
	card_before(c->before, c->n_before, out);
}

void reply_review_list(const struct reply_card *rows, size_t n, bool more, struct str mode, struct buf *out)
{
	reply_head(OP_REVIEW_LIST, out);
	buf_puts(out, ",\"reviews\":[");
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ",{\"review\":" : "{\"review\":");
		card(&rows[i], out);
		buf_putc(out, '}');
	}
	buf_puts(out, more ? "],\"more\":true" : "],\"more\":false");
	reply_key_text(out, "mode", mode);
	buf_putc(out, '}');
}

void reply_review_show(const struct reply_card *c, struct buf *out)
{
	reply_head(OP_REVIEW_SHOW, out);
	buf_puts(out, ",\"review\":");
	card(c, out);
	buf_putc(out, '}');
}

/* ---- what a signed request did ---- */

void reply_nonce(const uint8_t nonce[static 32], int64_t expires, struct buf *out)
{
	reply_head(OP_NONCE, out);
	reply_key_hex(out, "nonce", nonce, 32);
	reply_key_time(out, "expires", expires);
	buf_putc(out, '}');
}

void reply_review_resolve(uint64_t review, enum card_mode mode, uint64_t seq, struct buf *out)
{
	reply_head(OP_REVIEW_RESOLVE, out);
	reply_key_id(out, "review", 'r', review);
	reply_key_text(out, "state", str_of(card_mode_name(mode)));
	reply_key_seq(out, seq);
	buf_putc(out, '}');
}

void reply_session_abort(uint64_t session, uint64_t seq, struct buf *out)
{
	reply_head(OP_SESSION_ABORT, out);
	reply_key_id(out, "session", 's', session);
	reply_key_seq(out, seq);
	buf_putc(out, '}');
}

void reply_breaker_reset(struct str breaker, uint64_t seq, struct buf *out)
{
	reply_head(OP_BREAKER_RESET, out);
	reply_key_text(out, "breaker", breaker);
	reply_key_seq(out, seq);
	buf_putc(out, '}');
}

void reply_policy_reload(bool loaded, const struct policy_report *problems, uint64_t seq, struct buf *out)
{
	reply_head(OP_POLICY_RELOAD, out);
	buf_puts(out, loaded ? ",\"loaded\":true,\"problems\":[" : ",\"loaded\":false,\"problems\":[");
	for (size_t i = 0; i < problems->n; i++) {
		const struct policy_problem *p = &problems->rows[i];
		char line[sizeof(problems->file) + sizeof(p->msg) + 48];

		(void)snprintf(line, sizeof(line), "%s:%u:%u: %s: %s", problems->file, p->line, p->column,
			       p->warning ? "warning" : "error", p->msg);
		if (i)
			buf_putc(out, ',');
		buf_text(out, str_of(line));
	}
	buf_putc(out, ']');
	reply_key_seq(out, seq);
	buf_putc(out, '}');
}
