/* include/pawl/entry.h - typed entry bodies: what an entry states, and so all that state_apply() may know.
 * Text is borrowed from the request, the policy or the parsed entry, whichever made it; the maker keeps that alive as long as
 * the entry. daemon/log/entry.c turns a body into its one line of canonical JSON and back; docs/audit-format.md lists every field. */
#ifndef PAWL_ENTRY_H
#define PAWL_ENTRY_H
#include "pawl/policy.h"

enum entry_kind {
	ENTRY_NONE,
	ENTRY_START,	/* a pawld took the log: versions, policy, probes */
	ENTRY_STOP,
	ENTRY_POLICY,	/* reload: done, or refused and why */
	ENTRY_SESSION,	/* open, close, stale */
	ENTRY_DECISION,
	ENTRY_SETTLE,
	ENTRY_TIMEOUT,	/* a review card's deadline passed */
	ENTRY_THROTTLE, /* one summary a second */
	ENTRY_LOSS,	/* expired reservation, late settlement, torn tail cut */
	ENTRY_KIND_COUNT
};

struct entry_start {
	struct str version, policy_name, policy_hash /* hex */, mode, fallback /* "deny" … */;
	int64_t judge;
	const struct json *probes; /* object: name -> {"state":"on|off|partial","why":"…"}; see spine */
	struct str probes_text;	   /* canonical JSON of the same; what is rendered */
};

struct entry_stop {
	struct str why;
};

struct entry_policy {
	bool loaded;
	struct str name, hash, message; /* message: the first error of a refused file, or "" */
};

enum session_action { SESSION_OPEN, SESSION_CLOSE, SESSION_STALE, SESSION_ACTION_COUNT };
struct entry_session {
	enum session_action action;
	uint64_t session; /* open: this entry's own sequence */
	/* open only: */
	uint64_t parent, root; /* parent 0 with root == session: a root. Entry 0 is always `start`, so 0 names no session */
	struct str agent, root_dir;
	struct str labels_text; /* canonical JSON object, "{}" when none */
	uint8_t token_hash[32];
	int64_t lease_ns;
	int64_t fresh_end; /* end of the tumbling window of sessions.new that this open counts in; 0 = none */
	bool has_limit[UNIT_COUNT]; /* the caller's own, tighter limits (ledgers "@session") */
	int64_t limit[UNIT_COUNT];
};

struct entry_decision {
	uint64_t session, root;
	struct str call, tool, model;
	enum call_kind kind;
	uint8_t client[16];
	uint64_t call_hash;
	uint8_t key[16], card_token[16], same[16], repeat[16];
	bool has_repeat;	/* a loop rule was in force: repeat[] is a token */
	uint8_t args_mac[32];	/* HMAC-SHA-256 with this entry's own salt */
	struct str rules[4];	/* by verdict: id of the first rule that matched, STR_NONE */
	bool rule_failed[4];
	bool cost_known, tokens_known;
	int64_t money, tokens;
	struct fact_path paths[8];
	size_t n_paths;
	bool call_reused;
	bool limits_ignored;	/* the caller asked for limits looser than its earlier ones: those stand */
	/* the answer */
	enum verdict answer;
	struct reason why;
	struct str money_unit;	/* the policy's currency, so that a reply can be rendered from the entry alone */
	const struct draw *draws; /* amounts are reserved only when answer is allow */
	size_t n_draws;
	int64_t lease_until;	/* allow: the reservation's deadline, else 0 */
	uint64_t card;		/* review: the card; == seq when this entry opens it */
	int64_t card_until;	/* its deadline */
	bool has_guard_money;	/* the (session, tool) limits in force after this call; fixed by every answer */
	int64_t guard_money, guard_repeat; /* repeat 0 = none */
	enum outcome settled;	/* already_settled: how the earlier call ended, else NONE */
	bool has_settled_result;
	uint8_t settled_result[32];
};

struct charge { /* what settling did to one ledger */
	struct draw draw;  /* key, unit, used (after), limit, granted */
	int64_t reserved;  /* released */
	int64_t charged;   /* added to spent */
};

struct entry_settle { /* also the body of a late settlement, which is a loss entry: reserved 0, charged what is added */
	uint64_t session, decision;
	enum outcome outcome;
	struct str money_unit;
	const struct charge *charges;
	size_t n_charges;
	bool has_money, has_tokens, has_result, has_error;
	int64_t money, tokens; /* as reported */
	int64_t returned, charged_money, charged_tokens;
	uint8_t result_mac[32];
	int64_t result_bytes;
	struct str error_kind;
	uint8_t error_mac[32];
	int64_t duration_ns; /* -1 = not said */
	uint8_t same[16];    /* keyed digest of the whole report: tells a repeated settle from a different one */
};

struct entry_timeout {
	uint64_t session, card;
};

struct entry_throttle {
	struct str agent;
	uint64_t session; /* 0: several */
	int64_t count;
};

enum loss_what { LOSS_RESERVATION_EXPIRED, LOSS_LATE_SETTLE, LOSS_TORN_TAIL, LOSS_WHAT_COUNT };
struct entry_loss {
	enum loss_what what;
	uint64_t session, decision;
	struct entry_settle late; /* LOSS_LATE_SETTLE */
	int64_t bytes;		  /* LOSS_TORN_TAIL: cut */
};

struct entry {
	enum entry_kind kind;
	uint64_t seq;
	int64_t now, wall; /* log time; wall clock beside it */
	union {
		struct entry_start start;
		struct entry_stop stop;
		struct entry_policy policy;
		struct entry_session session;
		struct entry_decision decision;
		struct entry_settle settle;
		struct entry_timeout timeout;
		struct entry_throttle throttle;
		struct entry_loss loss;
	};
};

#endif
