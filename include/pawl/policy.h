/* include/pawl/policy.h - a loaded policy, the facts of one call, and the judge.
 * Everything here is a value: no clock, no descriptor, no SQL. Times and spans are int64 ns, money int64 nano-units. */
#ifndef PAWL_POLICY_H
#define PAWL_POLICY_H
#include "pawl/error.h"
#include "pawl/reason.h"
#include "pawl/watch.h"

struct json;
struct state;
struct buf;

/* ---- a policy, as policy/compile.c builds it. Text is NUL-terminated and owned by the policy. ---- */

enum policy_mode { MODE_ENFORCE, MODE_SHADOW /* answers are judged and told as `would`; the call runs */ };
static inline struct str policy_mode_word(enum policy_mode m)
{
	return m == MODE_SHADOW ? STR("shadow") : STR("enforce");
}

struct tool {
	struct str name;	     /* canonical: folded to lower case */
	bool has_cost, has_default_cost, refund;
	int64_t cost, default_cost;  /* nano-units a call */
	int64_t lease_ns;	     /* default 15 min */
	bool polling;		     /* equal calls with changing results are no loop */
	struct str *fold_paths;	     /* fold_space: runs of white space in these texts compare as one blank */
	size_t n_fold;
	struct str *closure;	     /* every name that `uses` reaches from here, itself left out; tools and capabilities */
	size_t n_closure;
	int32_t denied_use;	     /* first unconditional deny rule on a name of the closure, -1 = none */
	struct str denied_name;	     /* that name */
	struct str *volatile_paths;  /* "since": dotted, below args, left out of every comparison */
	size_t n_volatile;
	uint8_t print[16];	     /* of all that the file says about it: tells whether a reload changed it */
};

struct condition; /* opaque: policy/facts.c evaluates, policy/compile.c builds */
struct rule {
	struct str id;
	enum verdict answer;
	unsigned line;
	struct condition *when, *unless; /* NULL = none */
	enum stick sticky; /* a deny rule's: SESSION without a condition, NEVER with one, unless said */
	uint8_t print[16]; /* of all that the file says about it */
};

/* Tumbling windows of a budget. */
enum window_kind { WINDOW_NONE, WINDOW_SPAN, WINDOW_HOUR, WINDOW_DAY, WINDOW_WEEK /* from Monday */, WINDOW_MONTH };
struct zone; /* opaque: a time zone's transitions, read at load and frozen; NULL = UTC */
struct window {
	enum window_kind kind;
	int64_t span_ns; /* WINDOW_SPAN: counted from 1970 UTC */
	const struct zone *zone;
};
/* When the window that holds `now` ends (the first ns that is not in it); 0 for WINDOW_NONE. policy/window.c */
int64_t window_end(const struct window *w, int64_t now);

struct budget {
	struct str id;
	enum unit unit;
	enum scope scope;    /* the one that `per` names beside `tool` */
	bool per_tool;
	bool has_match;	     /* match: which tools draw from it; compile.c keeps the globs */
	uint8_t match[16];   /* of those globs: equal when they are, in any order */
	int64_t limit;	     /* > 0 */
	int64_t floor;	     /* 0 = none */
	bool zero_cost_deny; /* zero_cost: deny; the default is allow */
	enum verdict then;   /* DENY unless said */
	struct window every;
	int64_t grant_max;   /* what a person may add at a resume; 0 = nothing */
};

struct loop_repeat {
	bool on, same_args;  /* same: [tool, args] or [tool] */
	int64_t limit;	     /* n executions run, n + 1 gets `then` */
	int64_t window;	     /* executions looked back on, <= PAWL_MAX_WINDOW, default 50 */
	enum verdict then;
	struct str *ignore;  /* dotted paths below args */
	size_t n_ignore;
};

/* cycle: n whole periods of a block with two distinct members (tool and args) run, any member after that gets `then`. errors: n settled errors
 * of one kind and digest of a tool among the window. stuck: the last n executions of a tool, whatever their arguments, had one result. */
struct loop_rule {
	bool on;
	int64_t limit, window;		/* window: as for repeat; default 50 */
	int64_t period_min, period_max; /* cycle; default 2..8 */
	enum verdict then;
};

/* A circuit breaker: opened by failures or by denials in a row, all within `within_ns`; after cool_down one probe at a time. */
struct breaker {
	struct str id;
	bool has_scope, per_tool;  /* `per`: one row a scope (as for budgets) and tool; without it one for all */
	enum scope scope;
	bool has_match;
	uint8_t match[16];	   /* as a budget's */
	int64_t failures, denials; /* 0 = does not count them; <= PAWL_MAX_STREAK */
	int64_t breaches;	   /* the same, of the watch: kills, broken limits, lost events of a session in its scope */
	int64_t within_ns, cool_down_ns;
	bool sticky;		   /* stays open until an operator resets it */
};

struct review_rules {
	int64_t timeout_ns;  /* default 10 min */
	int64_t pending;     /* cards a session may have waiting; default 20 */
	int64_t abort_hold_ns; /* new sessions of an aborted agent are refused that long; sessions.abort_hold, default 1 min */
};

struct session_caps {	     /* an agent's, unless said */
	int64_t open;	     /* default 1024 */
	int64_t fresh;	     /* `new`; 0 = unlimited (default) */
	int64_t fresh_every_ns; /* tumbling window of `new`, counted from 1970 UTC */
	int64_t depth;	     /* default 4; the root is 1 */
	int64_t calls;	     /* decisions a session; default 10000 */
	int64_t lease_ns;    /* default 60 s */
};

struct rate_limit {
	int64_t per_second, burst; /* defaults 200, 400 */
};

struct name_index; /* opaque: rule and budget globs by literal prefix, so that 1,000 rules cost what 50 do */
/* `watch`: what is asked of the kernel for every tree that runs under this policy. */
enum watch_exec {
	WATCH_EXEC_NONE,     /* program starts are not recorded; limits and deny_exec hold all the same */
	WATCH_EXEC_LOG,
	WATCH_EXEC_REQUIRED, /* and: pawld does not start where programs cannot be watched and stopped, and calls of sessions that
			      * are not watched are denied (watch_required) */
	WATCH_EXEC_COUNT
};
struct watch_policy {
	bool on; /* the file has a `watch` section */
	enum watch_exec exec;
	struct str *deny_exec; /* absolute paths, each NUL-terminated in the arena */
	size_t n_deny_exec;
	struct watch_limits limits;
	bool has_writes; /* writes_under was said: an empty list lets nothing be written */
	struct str *writes_under; /* absolute, or relative to the session's root; NUL-terminated */
	size_t n_writes_under;
};
/* HOLD_ bits (pawl/watch.h) that it needs. `exec: log` needs none: what the machine cannot record it says, and goes on. */
uint32_t watch_policy_needs(const struct watch_policy *w);

/* `log`: what is kept of arguments beside their digests, in the private store, never in an entry. */
enum record_args { RECORD_DIGEST, RECORD_REDACTED, RECORD_FULL, RECORD_COUNT };
struct log_policy {
	enum record_args record_args;
	struct redact_set *redact; /* policy/redact.c's; the built-in names and patterns when the file says nothing */
};

struct policy {
	struct str name;
	struct str currency; /* three letters; "USD" unless said */
	uint8_t hash[32];    /* SHA-256 of the file's bytes */
	enum verdict fallback; /* `default`; DENY when not written */
	enum policy_mode mode;
	bool attended;	       /* false: a review becomes deny */
	struct tool *tools;
	size_t n_tools;
	struct rule *rules;
	size_t n_rules;
	struct budget *budgets;
	size_t n_budgets;
	struct loop_repeat repeat;
	struct loop_rule cycle, errors, stuck;
	struct breaker *breakers;
	size_t n_breakers;
	struct review_rules reviews;
	struct session_caps sessions;
	struct rate_limit limits;
	struct watch_policy watch;
	struct log_policy log;
	bool agent_sticks;     /* some deny rule is `sticky: agent` */
	struct name_index *index;
	void *arena; /* all of the above; compile.c's business */
};

/* All problems of one file, in the file's order. Owns its rows. */
struct policy_problem {
	bool warning;
	unsigned line, column;
	char msg[256];
};
struct policy_report {
	char file[128];
	struct policy_problem *rows;
	size_t n, errors; /* rows above 200 are counted in errors, not kept */
};
void policy_report_done(struct policy_report *rep);
/* Writes "file:line:column: error|warning: text" lines. */
void policy_report_text(const struct policy_report *rep, struct buf *out);

/* text is the whole file (<= 1 MiB); file names it in messages. 0 with or without warnings in *rep; PAWL_E_POLICY with at least
 * one error row and the first one in *err. The caller owns *ret (policy_free) and *rep (policy_report_done), both on failure too. */
PAWL_MUST_USE int policy_load(struct str text, const char *file, struct policy **ret, struct policy_report *rep, struct pawl_error *err);
/* The loader opens nothing by itself: what it needs beside the text (`zone`) it asks for here. path is absolute, below /usr/share/zoneinfo/;
 * the loader frees *ret. daemon/base/files.h has one that reads. policy_load() has none: every zone but UTC is then an error. */
struct policy_files {
	int (*read)(void *arg, const char *path, char **ret, size_t *ret_n, struct pawl_error *err);
	void *arg;
	/* Does folder (absolute) hold the policy's own file, as named or as resolved? 1 yes, 0 no, negative: cannot tell. NULL: not asked. */
	int (*holds)(void *arg, const char *folder, const char *file, struct pawl_error *err);
};
PAWL_MUST_USE int policy_load_with(struct str text, const char *file, const struct policy_files *files, struct policy **ret,
				   struct policy_report *rep, struct pawl_error *err);
void policy_free(struct policy *pol); /* accepts NULL */

/* policy/name.c: folds to lower-case ASCII into out (NUL-terminated), checks [a-z0-9_.:/-]{1,128}. PAWL_E_MALFORMED else. */
PAWL_MUST_USE int tool_name_fold(struct str raw, char out[static PAWL_MAX_TOOL + 1], struct pawl_error *err);
/* The canonical name behind a folded name: an alias's tool, else the name itself. *ret_tool is the row in pol->tools or NULL. */
struct str tool_canonical(const struct policy *pol, struct str folded, const struct tool **ret_tool);

/* ---- one call ---- */

/* What a client may ask to be held to, tighter only. 0 = not asked. Money 0 is a real limit: has_money. */
struct call_limits {
	bool has_money;
	int64_t money, repeat, lease_ns;
};

struct request_call { /* of a decide, as wire.c parsed it; text borrowed from the request */
	uint8_t client[16];
	struct str call;
	enum call_kind kind;
	struct str tool;	  /* as sent */
	struct str model;	  /* kind llm; else STR_NONE */
	const struct json *args;  /* an object */
	bool has_money, has_tokens;
	int64_t money, tokens;	  /* estimate, >= 0 */
	struct call_limits limits;
};

struct caller { /* who asks, from the session; borrowed */
	uint64_t session, root;
	struct str agent;
	const struct json *labels; /* object of strings or NULL */
	struct str root_dir;	   /* absolute, or STR_NONE */
	const uint8_t *secret;	   /* 32 bytes, the tree's */
};

/* Real paths for `under`: the spine does the I/O. Returns 0 and the resolved absolute path of what exists of `path` (plus the rest,
 * lexically clean) in out, or a negative error = unresolved. root_dir and path as given; called at most once a distinct path. */
struct resolver {
	int (*resolve)(void *arg, struct str root_dir, struct str path, char *out, size_t out_size);
	void *arg;
};

struct fact_path { /* one `under` subject, as resolved or not: goes into the entry */
	struct str subject;  /* "args.path", owned by the policy */
	bool resolved;
};

struct rule_hit {
	int32_t rule;	/* index, -1 = none */
	bool by_failure; /* matched because an attribute was missing or a condition failed: never sticks */
};

struct facts {
	struct str tool;	    /* canonical, borrowed from the policy or from folded[] */
	char folded[PAWL_MAX_TOOL + 1];
	const struct tool *def;	    /* NULL: the policy's `tools` has no such row */
	enum call_kind kind;
	uint64_t session, root;	    /* root: the tree's */
	struct str agent;
	struct rule_hit hit[4];	    /* by verdict: the first row in the file that matched */
	uint32_t budgets;	    /* bit i: pol->budgets[i] matches this tool */
	uint32_t breakers;	    /* bit i: pol->breakers[i] matches this tool */
	bool cost_known;	    /* false: no estimate, no price, no default */
	int64_t money;		    /* to reserve: max(estimate, fixed cost), else the estimate, else default_cost */
	bool tokens_known;
	int64_t tokens;
	int64_t tool_lease_ns;	    /* the tool's own */
	int64_t lease_ns;	    /* max(tool's, caller's) as semantics 4 has it */
	struct call_limits limits;
	uint8_t client[16];
	uint64_t call_hash;	    /* keyed, of the call id: finds call_reused */
	uint8_t key[16];	    /* idempotency key: (session, call, tool, canonical args), keyed */
	uint8_t card[16];	    /* (session, tool, canonical args), keyed: what a review card belongs to */
	uint8_t same[16];	    /* tool and args less volatile, keyed: every execution carries it */
	uint8_t repeat[16];	    /* the loop rule's own token, less its `ignore` too */
	uint16_t sticks[PAWL_MAX_STICKS]; /* deny rules that truly matched and are sticky */
	size_t n_sticks;
	struct fact_path paths[8];
	size_t n_paths;
	struct str canon_args;	    /* canonical JSON text of args, borrowed from the scratch buffer */
};

/* The last look at arguments. scratch is reset and then holds canon_args. PAWL_E_MALFORMED names the field (tool, args…). */
PAWL_MUST_USE int facts_of(const struct policy *pol, const struct request_call *rq, const struct caller *who, const struct resolver *res,
			   struct buf *scratch, struct facts *ret, struct pawl_error *err);

/* ---- the judge ---- */

struct reason {
	enum reason_code code;
	struct str rule;	/* rule, budget or loop id; borrowed from the policy, or a literal such as "@guard" */
	char message[200];
	bool has_numbers;
	enum unit unit;
	int64_t counter, limit; /* in unit; UNIT_CALLS for counts of executions */
	int64_t retry_after_ns; /* 0 = none */
	uint64_t refers;	/* already_settled, in_doubt: sequence of the decision spoken of; else 0 */
};

struct ledger_key { /* one ledger: a budget in one scope. Text borrowed. */
	struct str budget;  /* policy id, or "@session", "@guard" for a client's own limits */
	enum scope scope;
	enum unit unit;	    /* a reload that gives a budget's id another unit starts another ledger: sums never mix */
	uint64_t session;   /* SCOPE_SESSION, else 0 */
	struct str owner;   /* agent or tenant name; else STR_NONE */
	struct str tool;    /* per_tool, else STR_NONE */
};

struct draw { /* what a call takes from (or shows of) one ledger */
	struct ledger_key key;
	enum unit unit;	    /* == key.unit */
	int64_t amount;	    /* to reserve; 0 = shown only */
	int64_t used;	    /* spent + reserved before this call */
	int64_t limit, granted;
	int64_t window_end; /* of the window that is drawn from; 0 = the ledger has none */
};

struct stick_fact { /* a denial that is remembered */
	enum stick how;
	struct str tool; /* the name that is denied */
	struct str rule;
	bool would; /* of state_denial_next() alone: remembered in shadow mode, binds nothing */
};

struct ask { /* one reason for which a person is asked */
	enum reason_code code;
	struct str rule;
	uint64_t refers; /* in_doubt: the decision that may have run; a yes to it says nothing of another */
};

/* A breaker's row after this entry, whole: state_apply() needs no policy to follow it. */
enum breaker_mode { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN /* a probe is out */, BREAKER_MODE_COUNT };
struct breaker_row {
	struct str id, owner, tool;
	enum scope scope;	    /* SCOPE_COUNT: one for all */
	uint64_t session;
	bool would;		    /* part of the key: the row that shadow mode keeps beside the one that binds */
	enum breaker_mode mode;
	bool sticky;
	int64_t generation;	    /* goes up when it opens; results of an older one are ignored */
	int64_t until;		    /* open: when a probe may go */
	uint64_t probe;		    /* half open: the decision that is the probe, UINT64_MAX = this entry's own */
	int64_t fails[PAWL_MAX_STREAK], denies[PAWL_MAX_STREAK], breaches[PAWL_MAX_STREAK]; /* log times of the row, oldest first */
	uint32_t n_fails, n_denies, n_breaches;
};

struct judgement {
	enum verdict answer;
	struct reason why;
	enum verdict would;	/* shadow mode: what enforce would have answered where answer is allow all the same; else UNSET */
	struct reason would_why;
	bool replay;		/* same key, same client, unsettled: send entry `why.refers` again and write nothing */
	bool call_reused;
	uint64_t card;		/* review: the pending card an equal call joins, 0 = open a new one */
	int64_t card_until;	/* of that card */
	bool has_guard_money;	/* the caller's own limits for (session, tool) that hold from this call on */
	int64_t guard_money, guard_repeat; /* repeat 0 = none */
	bool limits_ignored;	/* it asked for looser ones than before */
	enum outcome settled;	/* already_settled: how that call ended, as far as the state knows */
	struct draw draws[PAWL_MAX_LEDGERS]; /* every ledger that matches, also when nothing is drawn */
	size_t n_draws;
	struct stick_fact sticks[PAWL_MAX_STICKS];
	size_t n_sticks;
	uint8_t trips[PAWL_MAX_PERIOD][16]; /* `same` tokens of a cycle that was found complete: all stay refused in the tree */
	size_t n_trips;
	struct ask asks[PAWL_MAX_ASKS]; /* every review reason that was found, answered ones left out */
	size_t n_asks;
	uint64_t spends;	/* allow: the approved card that this call uses up, 0 = none */
	struct breaker_row breakers[PAWL_MAX_BREAKERS];
	size_t n_breakers;	/* those that change */
	uint64_t claim;		/* the card that a claim names; 0 = the question was a decide */
};

/* Pure: no I/O, no allocation, no clock. *ret is written whole (draws up to n_draws). */
void judge(const struct policy *pol, const struct state *st, const struct facts *f, int64_t now, struct judgement *ret);
/* The same laws for one who presents card `card` (claim_prepare() in policy/laws.h has found it to be this call's). */
void judge_claim(const struct policy *pol, const struct state *st, const struct facts *f, uint64_t card, int64_t now, struct judgement *ret);

#endif
