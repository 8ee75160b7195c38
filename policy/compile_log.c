/* policy/compile_log.c - `log`: what is kept of arguments beside their digests, and which of them are never kept. */
#include "policy/compile.h"
#include "policy/redact.h"

#define MAX_REDACT 256

/* "args.password" -> there; "*.api_key" -> anywhere */
static bool redact_path(struct loader *ld, const struct ynode *at, struct redact_path *ret)
{
	struct str s = at->kind == YNODE_TEXT ? at->text : STR("");
	bool anywhere = s.n > 2 && memcmp(s.p, "*.", 2) == 0;
	size_t head = anywhere ? 2 : 5;
	struct str path = { s.p + head, s.n > head ? s.n - head : 0 };

	if (path.n == 0 || (!anywhere && memcmp(s.p, "args.", 5) != 0) || !value_path(path) || memchr(path.p, '*', path.n)) {
		ld_error(ld, at, "redact names arguments: args.NAME.NAME, or *.NAME wherever it stands");
		return false;
	}
	*ret = (struct redact_path){ ld_text(ld, path), anywhere };
	return ret->text.p != NULL;
}

void set_redact(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct log_policy *log = obj;
	struct redact_set *set = ld_array(ld, 1, sizeof(*set));

	if (v->node->n > MAX_REDACT) {
		ld_error(ld, v->node, "%zu names in redact, at most %d", v->node->n, MAX_REDACT);
		return;
	}
	if (!set || !(set->paths = ld_array(ld, v->node->n, sizeof(*set->paths))))
		return;
	for (const struct ynode *e = v->node->first; e; e = e->next)
		if (redact_path(ld, e, &set->paths[set->n]))
			set->n++;
	log->redact = set;
}

void compile_log(struct loader *ld)
{
	const struct ynode *map = ld->part[PART_LOG];
	struct log_policy *log = &ld->pol->log;

	if (!map)
		return;
	schema_walk(ld, "log", map, log);
	if (log->record_args == RECORD_FULL) {
		ld_warn(ld, map, "record_args: full keeps arguments as they are, passwords too");
		if (log->redact)
			ld_warn(ld, map, "redact takes nothing out of what record_args: full keeps");
	}
}
