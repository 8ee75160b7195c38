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
	ENTRY_CLAIM,	/* a decision that an approved card was presented for; body: decision */
	ENTRY_RESOLVE,	/* a person's answer to a card */
	ENTRY_BREAKER,	/* an operator's reset */
	ENTRY_KEY,	/* operators enrolled or revoked */
	ENTRY_TIMEOUT,	/* a review card's deadline passed */
	ENTRY_THROTTLE, /* one summary a second */
	ENTRY_LOSS,	/* expired reservation, late settlement, torn tail cut */
	ENTRY_SNAPSHOT, /* the whole state after some entry is kept in bytes with this digest: a start may go on from there */
	ENTRY_WATCH,	/* what the kernel saw of a session's tree of processes, and what was done about it */
	ENTRY_KIND_COUNT
};

/* A budget as ledgers see it, in the entry that puts a policy in force: the next policy is compared with these rows, also across a
 * restart, and what a reload does to ledgers is stated here. */
struct budget_row {
	struct str id;
	struct str from; /* a budget of equal unit, scope, match and window that is gone: its ledgers are this one's from here on */
	enum unit unit;
	enum scope scope;
	bool per_tool, windowed;
	bool life;	  /* new and without a window: starts at what each scope has spent in its life */
	uint8_t like[16]; /* of match and window */
	int64_t limit;
};
struct entry_budgets {
	const struct budget_row *rows; /* all of the policy, in its order; at most PAWL_MAX_BUDGETS */
	size_t n;
	bool none;		   /* the policy has none, where n == 0 alone would be an entry that does not say */
	const struct str *changes; /* for people: what became looser first, then tighter, then different */
	size_t n_changes;	   /* at most PAWL_MAX_CHANGES */
};

struct entry_start {
	struct str version, policy_name, policy_hash /* hex */;
	struct str mode; /* "shadow"; "enforce" also ends what shadow mode remembered; "" does not say */
	struct str fallback; /* "deny" … */
	int64_t judge;
	const struct json *probes; /* object: name -> {"state":"on|off|partial","why":"…"}; see spine */
	struct str probes_text;	   /* canonical JSON of the same; what is rendered */
	struct entry_budgets budgets;
};

struct entry_stop {
	struct str why;
};

struct entry_policy {
	bool loaded;
	struct str name, hash, message; /* message: the first error of a refused file, or "" */
	struct str mode;		/* loaded: as in a start entry */
	struct entry_budgets budgets;	/* loaded */
	bool ordered;			/* an operator asked for it; else a signal, or the log is open again */
	struct str operator, key, reason;
	uint8_t signed_hash[32]; /* SHA-256 of the bytes that the operator signed */
	uint8_t signature[64];
};

enum session_action { SESSION_OPEN, SESSION_CLOSE, SESSION_STALE, SESSION_ABORT /* with its descendants; open holds settle */, SESSION_ACTION_COUNT };
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
	/* abort only: */
	struct str operator, key, reason; /* who, with which vkey, and why */
	uint8_t signed_hash[32];	  /* SHA-256 of the bytes that the operator signed */
	uint8_t signature[64];
	int64_t hold_until;	     /* new sessions of the agent are refused until then */
	const struct breaker_row *breakers; /* as they are after this entry */
	size_t n_breakers;
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
	struct call_limits asked; /* the caller's own, as it sent them: what holds is in guard_* and lease_until */
	uint64_t claims;	/* claim: the card that is presented; 0 in a decision, and in claims of logs that do not say it */
	bool limits_ignored;	/* the caller asked for limits looser than its earlier ones: those stand */
	/* the answer */
	bool shadow;		/* judged in shadow mode: its sticks and trips bind nothing */
	enum verdict answer;
	struct reason why;
	enum verdict would;	/* shadow: what would have been answered instead of allow; UNSET = the same */
	struct reason would_why;
	struct str money_unit;	/* the policy's currency, so that a reply can be rendered from the entry alone */
	const struct draw *draws; /* amounts are reserved only when answer is allow */
	size_t n_draws;
	int64_t lease_until;	/* allow: the reservation's deadline, else 0 */
	uint64_t card;		/* review: the card; == seq when this entry opens it */
	int64_t card_until;	/* its deadline */
	struct ask asks[PAWL_MAX_ASKS]; /* review: what the card asks */
	size_t n_asks;
	uint64_t spends;	/* allow: the approved card that is used up */
	bool ends_cards;	/* and with it every other card of this very call that waits or holds an approval */
	const struct breaker_row *breakers; /* as they are after this entry */
	size_t n_breakers;
	bool has_guard_money;	/* the (session, tool) limits in force after this call; fixed by every answer */
	int64_t guard_money, guard_repeat; /* repeat 0 = none */
	struct stick_fact sticks[PAWL_MAX_STICKS];
	size_t n_sticks;
	uint8_t trips[PAWL_MAX_PERIOD][16];
	size_t n_trips;
	bool polling;		/* of the tool, when this execution was decided; so are the next two */
	bool has_price, refund; /* allow: a fixed `cost` a call; what did not run gives its reservation back */
	int64_t price;
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
	bool has_result_token, has_error_token;
	uint8_t result_token[16]; /* keyed, equal inside the tree for equal results; an absent result has none */
	uint8_t error_token[16];  /* keyed, of kind and digest */
	const struct breaker_row *breakers; /* as they are after this entry */
	size_t n_breakers;
	uint8_t same[16];    /* keyed digest of the whole report: tells a repeated settle from a different one */
};

enum resolve_action { RESOLVE_RESUME, RESOLVE_SKIP, RESOLVE_ABORT, RESOLVE_CLOSE /* policy_changed */, RESOLVE_ACTION_COUNT };
struct grant {
	struct ledger_key key;
	int64_t amount;
};
struct entry_resolve {
	uint64_t session, card;
	enum resolve_action action;
	struct str operator; /* key name; "" for RESOLVE_CLOSE */
	struct str key;	     /* the operator's vkey */
	struct str reason;
	struct str money_unit;
	struct grant grants[PAWL_MAX_ASKS]; /* resume of a budget review: exactly the shortfall */
	size_t n_grants;
	uint64_t ends;	     /* abort: the session that ends with its descendants (the tree's root with --tree) */
	int64_t hold_until;
	const struct breaker_row *breakers; /* abort: forced open */
	size_t n_breakers;
	uint8_t signed_hash[32]; /* SHA-256 of the bytes that the operator signed */
	uint8_t signature[64];
};

struct entry_breaker {
	struct str operator, key, reason;
	struct breaker_row row;
	uint8_t signed_hash[32]; /* SHA-256 of the bytes that the operator signed */
	uint8_t signature[64];
};

struct entry_key {
	bool enrolled; /* false: revoked */
	struct str operator, key;
};

struct entry_timeout {
	uint64_t session, card;
	bool waiter; /* a caller's wait was over before the answer: the card goes on, but only a claim can spend its approval */
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
	const struct breaker_row *breakers; /* an expired probe is a failure */
	size_t n_breakers;
	int64_t bytes;		  /* LOSS_TORN_TAIL: cut */
};

struct entry_snapshot {
	int64_t at;	/* the state that entries below this one make */
	int64_t bytes;	/* of state_write() */
	uint8_t sha256[32]; /* over them: state_digest() */
};

/* The words of policies and people for the HOLD_ bits, in their order. */
enum watched_hold { WATCHED_DENY_EXEC, WATCHED_PROCESSES, WATCHED_FORK_RATE, WATCHED_EXEC_RATE, WATCHED_CPU, WATCHED_MEMORY, WATCHED_WALL, WATCHED_WRITES,
		    WATCHED_EVENTS, WATCHED_HOLD_COUNT };
_Static_assert(HOLD_EVENTS == 1u << WATCHED_EVENTS && HOLD_EXEC == 1u << WATCHED_DENY_EXEC, "a bit each");
struct watched_limits { /* struct watch_limits as entries have it; 0: none */
	int64_t processes, fork_rate, exec_rate, cpu_ns, memory, wall_ns;
};
#define PAWL_MAX_PROGRAMS 32 /* that one entry names; the rest are counted */
struct watched_program { /* starts of one program with the same arguments */
	struct str path;     /* as the caller typed it: for people, never compared */
	bool path_cut;
	uint64_t dev, ino;   /* what it is; dev as the kernel has it */
	int64_t pid;	     /* of the first start */
	struct str comm;     /* of a kill: the name that the process had */
	int64_t count;
	bool has_argv;
	uint8_t argv_mac[32]; /* HMAC-SHA-256 with this entry's own salt, over the arguments as the kernel saw them, NUL between them */
};
struct watched_dead { /* ended with its tree */
	int64_t pid;
	struct str comm;
};
enum watched_action {
	WATCHED_ATTACH, /* from here on the tree is watched */
	WATCHED_EXECS,	/* programs started, at most one entry a second */
	WATCHED_KILL,	/* processes killed one by one, or in shadow mode let live */
	WATCHED_BREACH, /* a limit: all of it is being killed */
	WATCHED_LOST,	/* events that nobody will ever see */
	WATCHED_LEFT,	/* moved out of its cgroup from outside; it is still the tree's */
	WATCHED_END,	/* nobody of it lives */
	WATCHED_ACTION_COUNT
};
struct entry_watch {
	enum watched_action action;
	uint64_t session;
	enum watch_why why; /* kill, breach, end */
	bool log_only;	    /* attach, kill, breach: shadow mode, nothing is killed */
	int64_t pid;	    /* attach: the tree's first process; breach, left: who did it */
	struct str comm;    /* breach, left: its name */
	/* attach */
	int64_t uid, start_ns; /* start_ns: since boot; names the process together with pid */
	bool run;	       /* by `pawl run`: it ends with its first process, and is ended when its session ends */
	struct str tier;       /* "A" … "D" */
	struct str message;    /* what holds only in part; STR_NONE: nothing */
	enum watched_hold held[WATCHED_HOLD_COUNT]; /* in their order */
	size_t n_held;
	struct watched_limits limits;
	/* execs, kill */
	const struct watched_program *programs;
	size_t n_programs;
	int64_t unlisted, total; /* starts or kills of no row above; all of them */
	/* breach, end */
	bool has_measured;
	int64_t measured, limit; /* in the limit's own unit: a count, bytes, nanoseconds */
	/* lost */
	int64_t events;
	/* end */
	int64_t peak, forks, execs, cpu_ns, memory_peak, wall_ns, lost;
	int64_t killed;			/* by us, when it was ended */
	const struct watched_dead *dead; /* of them those that are named, at most PAWL_MAX_ENDED */
	size_t n_dead;
	const struct breaker_row *breakers; /* kill, breach, lost: as they are after this entry */
	size_t n_breakers;
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
		struct entry_resolve resolve;
		struct entry_breaker breaker;
		struct entry_key key;
		struct entry_timeout timeout;
		struct entry_throttle throttle;
		struct entry_loss loss;
		struct entry_snapshot snapshot;
		struct entry_watch watch;
	};
};

#endif
