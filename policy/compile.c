/* policy/compile.c - policy_load(): text to struct policy, or every problem of the file with its place.
 * A policy is handed out only when there was no error at all; what it holds lives in one box. Nothing here reads a file
 * (but through the caller's struct policy_files) or a clock. */
#include "policy/compile.h"

#include "daemon/base/buf.h"

#include <sodium.h>
#include <stdio.h>

/* ---- setters of the top level ---- */

void set_version(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)obj;
	ld->has_version = true;
	if (v->node->kind != YNODE_TEXT || !v->node->plain || !str_is(v->node->text, "1"))
		ld_error(ld, v->node, "this pawld reads policies of version 1: write pawl: 1");
}

void set_name(struct loader *ld, void *obj, const struct schema_value *v)
{
	struct str s = v->node->text;
	bool good = s.n <= PAWL_MAX_ID;

	(void)obj;
	for (size_t i = 0; i < s.n; i++) /* it is shown on terminals and written into the log */
		good = good && (unsigned char)s.p[i] >= 0x20 && s.p[i] != 0x7f;
	if (!good || !utf8_valid(s))
		ld_error(ld, v->node, "a policy's name is at most %d bytes without control characters", PAWL_MAX_ID);
	else
		ld->pol->name = ld_text(ld, s);
}

void set_default(struct loader *ld, void *obj, const struct schema_value *v)
{
	static const enum verdict answers[] = { VERDICT_ALLOW, VERDICT_REVIEW,
						VERDICT_DENY }; /* the words' order in the schema */

	(void)obj;
	ld->pol->fallback = answers[v->number];
	if (ld->pol->fallback == VERDICT_ALLOW)
		ld_warn(ld, v->key, "default: allow lets every tool run that no rule names");
}

void set_mode(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)obj;
	ld->pol->mode = v->number ? MODE_SHADOW : MODE_ENFORCE; /* the words' order in the schema */
	if (ld->pol->mode == MODE_SHADOW)
		ld_warn(ld, v->key, "mode: shadow lets every call run: what would have been answered is only told");
}

void set_part(struct loader *ld, void *obj, const struct schema_value *v)
{
	(void)obj;
	ld->part[v->row->number] = v->node;
}

/* ---- the whole ---- */

static void compile_currency(struct loader *ld)
{
	const struct ynode *node = ld->part[PART_CURRENCY];
	bool good = !node || node->text.n == 3;

	for (size_t i = 0; good && node && i < 3; i++)
		good = node->text.p[i] >= 'A' && node->text.p[i] <= 'Z';
	if (!good)
		ld_error(ld, node, "a currency is three capital letters such as USD, not %s", QUOTED(node->text));
	ld->pol->currency = ld_text(ld, good && node ? node->text : STR("USD"));
}

static void compile_all(struct loader *ld, const struct ynode *root)
{
	struct policy *pol = ld->pol;

	pol->name = ld_text(ld, STR("unnamed"));
	pol->fallback = VERDICT_DENY;
	pol->mode = MODE_ENFORCE;
	pol->attended = true;
	pol->sessions = (struct session_caps){ .open = 1024, .depth = 4, .calls = 10000, .lease_ns = 60 * NS_PER_SEC };
	pol->limits = (struct rate_limit){ .per_second = 200, .burst = 400 };
	pol->reviews =
	    (struct review_rules){ .timeout_ns = 600 * NS_PER_SEC, .pending = 20, .abort_hold_ns = 60 * NS_PER_SEC };
	if (root->kind != YNODE_MAP) {
		ld_error(ld, root, "a policy is a map that starts with pawl: 1");
		return;
	}
	schema_walk(ld, "", root, pol);
	if (!ld->has_version)
		ld_error(ld, root, "pawl: 1 is missing: it says which policy language this is");
	compile_currency(ld);
	compile_tools(ld);
	compile_uses(ld);
	compile_rules(ld);
	compile_budgets(ld);
	compile_breakers(ld);
	compile_loops(ld);
	compile_sessions(ld);
	compile_watch(ld);
	compile_log(ld);
	if (!ld->nomem && ld->rep->errors == 0)
		lint_policy(ld);
}

static int index_build(struct loader *ld, struct pawl_error *err)
{
	struct index_entry *rows = arena_array(&ld->tmp, ld->n_entries, sizeof(*rows));
	struct alias_row *aliases = arena_array(&ld->tmp, ld->n_names, sizeof(*aliases));
	int r;

	if (!rows || !aliases)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	for (size_t i = 0; i < ld->n_entries; i++)
		rows[i] = ld->entries[i].ix;
	for (size_t i = 0; i < ld->n_names; i++)
		aliases[i] = (struct alias_row){ ld->names[i].name, ld->names[i].tool };
	r = name_index_new(ld->pol, rows, ld->n_entries, &ld->pol->index, err);
	return r ? r : name_index_aliases(ld->pol->index, aliases, ld->n_names, err);
}

/* Names times patterns is the index's work at load; a file that is small can still ask for hours of it. */
#define MAX_NAMES_BY_GLOBS 20000000

static void refuse_heavy(struct loader *ld, const struct ynode *root)
{
	size_t globs = 0;

	for (size_t i = 0; i < ld->n_entries; i++)
		globs += ld->entries[i].ix.pattern.prefix_n < ld->entries[i].ix.pattern.text.n;
	if (globs > 0 && ld->n_names > MAX_NAMES_BY_GLOBS / globs)
		ld_error(ld, root, "%zu patterns on %zu names of tools are more than can be indexed", globs,
			 ld->n_names);
}

static int load(struct loader *ld, struct str text, struct pawl_error *err)
{
	struct ynode *root = NULL;
	int r = yaml_read(text, &ld->tmp, ld->rep, &root);

	if (r == 0)
		compile_all(ld, root);
	if (r == 0 && ld->rep->errors == 0)
		refuse_heavy(ld, root);
	if (r == PAWL_E_NOMEM || ld->nomem || ld->tmp.failed || ld->box->arena.failed)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	if (ld->rep->errors)
		return PAWL_E_POLICY;
	r = index_build(ld, err);
	if (r == PAWL_E_NOMEM)
		return r;
	if (r) {
		ld_error(ld, root, "%s", err->msg);
	} else {
		uses_denied(ld);
		lint_index(ld);
		(void)crypto_hash_sha256(ld->pol->hash, (const unsigned char *)text.p, text.n);
	}
	if (ld->nomem || ld->tmp.failed)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	return r ? PAWL_E_POLICY : 0;
}

/* The first error row, with its place, for callers that show one line. */
static int first_error(const struct policy_report *rep, struct pawl_error *err)
{
	const struct policy_problem *row = rep->rows;

	if (rep->n == 0) /* cannot be: no error without a row */
		return pawl_fail(err, PAWL_E_POLICY, "not acceptable");
	while (row < rep->rows + rep->n - 1 && row->warning)
		row++;
	(void)pawl_fail(err, PAWL_E_POLICY, "%s", row->msg);
	if (err) {
		err->line = row->line;
		err->column = row->column;
		(void)snprintf(err->file, sizeof(err->file), "%s", rep->file);
	}
	return PAWL_E_POLICY;
}

int policy_load(struct str text, const char *file, struct policy **ret, struct policy_report *rep,
		struct pawl_error *err)
{
	return policy_load_with(text, file, NULL, ret, rep, err);
}

int policy_load_with(struct str text, const char *file, const struct policy_files *files, struct policy **ret,
		     struct policy_report *rep, struct pawl_error *err)
{
	struct loader ld = { .rep = rep, .files = files, .file = file };
	struct pawl_error inner;
	int r;

	report_init(rep, file);
	ld.box = calloc(1, sizeof(*ld.box));
	if (!ld.box)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	ld.pol = &ld.box->pol;
	ld.pol->arena = ld.box;
	r = load(&ld, text, &inner);
	report_sort(rep);
	free(ld.entries);
	arena_done(&ld.tmp);
	if (r == 0) {
		*ret = ld.pol;
		return 0;
	}
	policy_free(ld.pol);
	return r == PAWL_E_POLICY ? first_error(rep, err) : pawl_fail(err, r, "%s", inner.msg);
}

void policy_free(struct policy *pol)
{
	struct policy_box *box = pol ? pol->arena : NULL;

	if (!box)
		return;
	name_index_free(pol->index);
	for (struct regex_link *l = box->regexes; l; l = l->next)
		regex_free(l->regex);
	arena_done(&box->arena);
	free(box);
}
