/* daemon/cli/explain.h - what a policy says to one request, and why: without a daemon, on a state where nothing has happened yet.
 * Pure but for the resolver it is given. */
#ifndef PAWL_EXPLAIN_H
#define PAWL_EXPLAIN_H
#include "daemon/cli/lines.h"
#include "pawl/policy.h"

/* request: {tool, args, kind, model, estimate, limits} as a decide has them and {agent, labels, root} as session.open has them; only
 * `tool` is required. Writes one JSON object into out; it is docs/policy.md's words ("Asking a policy"). PAWL_E_MALFORMED names the
 * field. */
PAWL_MUST_USE int explain_json(const struct policy *pol, struct str request, const struct resolver *res, int64_t now, struct buf *out,
			       enum verdict *ret_answer, struct pawl_error *err);
/* The same object as lines for people (explain_text.c); nothing that the request or the policy says can move a cursor. */
void explain_text(struct lines *l, const struct json *doc);
#endif
