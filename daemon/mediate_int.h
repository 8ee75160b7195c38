/* daemon/mediate_int.h - what mediate.c (order, queue, recovery) lends to mediate_ops.c (one function an operation). */
#ifndef PAWL_MEDIATE_INT_H
#define PAWL_MEDIATE_INT_H
#include "daemon/mediate.h"

/* One entry on its way: rendered, room made everywhere, applied, pushed. Nothing has changed when it is refused. */
struct submission {
	struct entry *e; /* seq, now and wall are filled in by mediate_entry() */
	void *cookie;
	uint64_t tree;		/* with secret, value or record: for the private store */
	const uint8_t *secret;	/* NULL: none */
	struct str value;	/* a card's arguments, STR_NONE: none */
	struct str record;	/* what the policy keeps of arguments for people, STR_NONE: nothing */
};
PAWL_MUST_USE int mediate_submit(struct mediator *m, const struct submission *s, struct refusal *no);
/* The same entry again, as an answer to cookie, once it is durable. */
PAWL_MUST_USE int mediate_again(struct mediator *m, uint64_t seq, void *cookie, struct refusal *no);
struct entry mediate_entry(const struct mediator *m, enum entry_kind kind, int64_t now);
/* Entries of all deadlines <= now, in order; the log must be open. */
PAWL_MUST_USE int mediate_due(struct mediator *m, int64_t now, struct refusal *no);

/* Steps that every operation shares (mediate_ops.c). */
const struct session_state *mediate_who(struct mediator *m, uint64_t id, const uint8_t *token, int64_t now, struct live **ret_live, struct refusal *no);
PAWL_MUST_USE int mediate_ready(struct mediator *m, int64_t now, struct refusal *no);
PAWL_MUST_USE int mediate_throttle(struct mediator *m, struct bucket *mine, int64_t now, struct refusal *no);
/* What every question begins with: who asks, may they now, are all deadlines written, and the facts. *ret_who is live in m->state. */
struct asking {
	uint64_t session;
	const uint8_t *token;
	const struct request_call *call;
	int64_t now;
};
PAWL_MUST_USE int mediate_asked(struct mediator *m, const struct asking *a, const struct session_state **ret_who, struct live **ret_live,
				struct facts *ret, struct refusal *no);
/* The last look at arguments; *ret borrows from m->args until the next call. */
PAWL_MUST_USE int mediate_facts(struct mediator *m, const struct session_state *who, const struct live *lv, const struct request_call *call,
				struct facts *ret, struct refusal *no);
/* From a judgement to an entry on its way; card arguments go with it where a card opens. */
PAWL_MUST_USE int mediate_judged(struct mediator *m, const struct session_state *who, const struct live *lv, const struct request_call *call,
				 const struct facts *f, const struct judgement *j, int64_t now, void *cookie, struct refusal *no);

/* A digest that only who has the tree's secret can check; of no other entry (docs/audit-format.md, "Private values"). */
void mediate_private_mac(const uint8_t secret[static 32], uint64_t seq, const char *field, struct str value, uint8_t out[static 32]);

PAWL_PRINTF(3, 4) int refuse(struct refusal *no, enum reason_code code, const char *fmt, ...);
int refuse_err(struct refusal *no, const struct pawl_error *err); /* maps codes to reasons */
#endif
