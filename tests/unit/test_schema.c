/* tests/unit/test_schema.c - the schema's table against files: P05 a misspelt key in each section, P15 every letter of
 * every key, P10 every cut, and that a key whose room is not built is refused and not ignored. */
#include "policy/schema.h"

#include "tests/support/policy_file.h"

/* P05: one misspelt key in each section; each is refused for that key. */
static const struct {
	const char *section, *text, *key;
} misspelt[] = {
	{ "top", "min_levl: 3\n", "min_levl" },
	{ "tools", "tools: {a: {refnd: true}}\n", "refnd" },
	{ "rules", "rules: [{id: a, deny: [x], stiky: tree}]\n", "stiky" },
	{ "when", "rules: [{id: a, deny: [x], when: {agnt: {is: a}}}]\n", "agnt" },
	{ "unless", "rules: [{id: a, deny: [x], unless: {arg.x: {is: a}}}]\n", "arg.x" },
	{ "a condition", "rules: [{id: a, deny: [x], when: {args.x: {belw: 1}}}]\n", "belw" },
	{ "bytes", "rules: [{id: a, deny: [x], when: {args.x: {bytes: {ovr: 1}}}}]\n", "ovr" },
	{ "budgets", "budgets: {a: {per: agent, limit: 5 USD, flor: 1 USD}}\n", "flor" },
	{ "loops", "loops: {repet: {limit: 3}}\n", "repet" },
	{ "loops.repeat", "loops: {repeat: {limit: 3, windw: 5}}\n", "windw" },
	{ "loops.cycle", "loops: {cycle: {perod: 3}}\n", "perod" },
	{ "loops.similar", "loops: {similar: {sme: [tool]}}\n", "sme" },
	{ "loops.errors", "loops: {errors: {limt: 3}}\n", "limt" },
	{ "loops.stuck", "loops: {stuck: {thn: deny}}\n", "thn" },
	{ "tools, second half", "tools: {a: {poling: true}}\n", "poling" },
	{ "tools, uses", "tools: {a: {use: [net]}}\n", "use" },
	{ "budgets, windows", "budgets: {a: {per: agent, limit: 5 USD, evry: day}}\n", "evry" },
	{ "rules, headless", "rules: [{id: a, review: [x], headles: deny}]\n", "headles" },
	{ "sessions, abort", "sessions: {abort_hld: 1m}\n", "abort_hld" },
	{ "breakers", "breakers: {a: {cooldown: 3s}}\n", "cooldown" },
	{ "breakers.open", "breakers: {a: {open: {failure: 3}}}\n", "failure" },
	{ "reviews", "reviews: {timout: 3s}\n", "timout" },
	{ "results", "results: {secret: withhold}\n", "secret" },
	{ "sessions", "sessions: {opn: 3}\n", "opn" },
	{ "limits", "limits: {decid: 3/s}\n", "decid" },
	{ "prices", "prices: {m: {inpt: 3}}\n", "inpt" },
	{ "watch", "watch: {deny_exce: [rm]}\n", "deny_exce" },
	{ "watch.egress", "watch: {egress: {alow: [a]}}\n", "alow" },
	{ "log", "log: {redct: [a]}\n", "redct" },
};

static bool unknown_row(const struct policy_report *rep, unsigned line, unsigned column, const char *key)
{
	char want[128];

	(void)snprintf(want, sizeof(want), "unknown key \"%s\"", key);
	for (size_t i = 0; i < rep->n; i++)
		if (!rep->rows[i].warning &&
		    (line == 0 || (rep->rows[i].line == line && rep->rows[i].column == column)) &&
		    strncmp(rep->rows[i].msg, want, strlen(want)) == 0)
			return true;
	return false;
}

static void test_misspelt(void **state)
{
	char text[256];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(misspelt); i++) {
		struct loaded got;

		(void)snprintf(text, sizeof(text), "pawl: 1\n%s...\n", misspelt[i].text);
		got = load(str_of(text));
		if (got.r != PAWL_E_POLICY || !unknown_row(&got.rep, 0, 0, misspelt[i].key))
			fail_msg("P05 %s: %s is not refused", misspelt[i].section, misspelt[i].key);
		unload(&got);
	}
}

/* ---- P15: every key of the language, one letter less, one at a time ---- */

struct sweep {
	struct str text;
	const char *name;
	bool seen[256]; /* rows of the schema that the file has */
	size_t tries;
};

static size_t offset_of(struct str text, unsigned line, unsigned column)
{
	size_t at = 0;

	for (; line > 1; line--)
		at += strcspn(text.p + at, "\n") + 1;
	return at + column - 1; /* the vectors are ASCII */
}

static void drop_letters(struct sweep *s, const struct schema_key *row, const struct ynode *key)
{
	size_t at = offset_of(s->text, key->line, key->column), n = strlen(row->key);
	char *text = malloc(s->text.n), wrong[128];

	assert_non_null(text);
	assert_memory_equal(s->text.p + at, row->key, n);
	for (size_t i = 0; i < n; i++, s->tries++) {
		struct loaded got;

		memcpy(text, s->text.p, at + i);
		memcpy(text + at + i, s->text.p + at + i + 1, s->text.n - at - i - 1);
		(void)snprintf(wrong, sizeof(wrong), "%.*s%.*s", (int)i, key->text.p, (int)(key->text.n - i - 1),
			       key->text.p + i + 1);
		got = load((struct str){ text, s->text.n - 1 });
		if (got.r != PAWL_E_POLICY || !unknown_row(&got.rep, key->line, key->column, wrong))
			fail_msg("P15 %s:%u:%u: \"%s\" for %s of section \"%s\" is not refused", s->name, key->line,
				 key->column, wrong, row->key, row->section);
		unload(&got);
	}
	free(text);
}

static void sweep_map(struct sweep *s, const char *section, const struct ynode *map)
{
	size_t n;

	for (const struct ynode *key = map->first; key; key = key->next) {
		const struct schema_key *row = schema_find(section, key->text);
		char below[64] = "";

		if (!row)
			fail_msg("%s: the schema has no %s in section \"%s\"", s->name, key->text.p, section);
		s->seen[row - schema_rows(&n)] = true;
		drop_letters(s, row, key);
		if (row->type == SCHEMA_FIELDS)
			sweep_map(s, "condition", key->value);
		else if (row->type == SCHEMA_TESTS)
			sweep_map(s, "test", key->value);
		else if (strcmp(section, "test") == 0 && str_is(key->text, "bytes"))
			sweep_map(s, "test.bytes", key->value);
		else if (schema_below(row, below) && row->type == SCHEMA_SECTION)
			sweep_map(s, below, key->value);
		else if (*below)
			for (const struct ynode *c = key->value->first; c; c = c->next)
				sweep_map(s, below, c->value ? c->value : c);
	}
}

static void sweep_file(const char *path, bool built_only)
{
	struct sweep s = { .text = read_file(path), .name = path };
	const struct schema_key *rows = schema_rows(&(size_t){ 0 });
	struct policy_report rep;
	struct arena mem = { 0 };
	struct ynode *root;
	size_t n;

	(void)schema_rows(&n);
	assert_true(n < PAWL_LEN(s.seen));
	report_init(&rep, path);
	assert_int_equal(yaml_read(s.text, &mem, &rep, &root), 0);
	sweep_map(&s, "", root);
	for (size_t i = 0; i < n; i++)
		if (!s.seen[i] && (rows[i].built || !built_only))
			fail_msg("%s lacks %s of section \"%s\"", path, rows[i].key, rows[i].section);
	assert_true(s.tries > 300);
	arena_done(&mem);
	policy_report_done(&rep);
	drop(s.text);
}

static void test_every_letter(void **state)
{
	(void)state;
	sweep_file(VECTORS "whole-language.yaml", false);
	sweep_file(VECTORS "good/every-built-key.yaml", true);
}

/* Does the section lie inside one that is not built? Its keys go with it. */
static bool inside_unbuilt(const char *section)
{
	size_t n;
	const struct schema_key *rows = schema_rows(&n);

	for (size_t i = 0; i < n; i++) {
		char below[64];

		if (schema_below(&rows[i], below) && strcmp(below, section) == 0)
			return !rows[i].built || inside_unbuilt(rows[i].section);
	}
	return false;
}

/* Every key that is not built is refused by name, where it stands; and nothing else of that file is. */
static void test_not_built(void **state)
{
	struct str text = read_file(VECTORS "whole-language.yaml");
	const struct schema_key *rows;
	struct loaded got = load(text);
	size_t n;

	(void)state;
	assert_int_equal(got.r, PAWL_E_POLICY);
	for (size_t i = 0; i < got.rep.n; i++)
		if (!got.rep.rows[i].warning && strncmp(got.rep.rows[i].msg, "not built yet: ", 15) != 0)
			fail_msg("line %u: %s", got.rep.rows[i].line, got.rep.rows[i].msg);
	rows = schema_rows(&n);
	for (size_t i = 0; i < n; i++) {
		char want[64];
		bool told = rows[i].built || inside_unbuilt(rows[i].section);

		(void)snprintf(want, sizeof(want), "not built yet: %s", rows[i].key);
		for (size_t k = 0; k < got.rep.n && !told; k++)
			told = strncmp(got.rep.rows[k].msg, want, strlen(want)) == 0;
		if (!told)
			fail_msg("%s of section \"%s\" is not told", rows[i].key, rows[i].section);
	}
	unload(&got);
	drop(text);
}

/* P10: a file cut at any byte, and so at any line, is refused. Only the last newline may be missing. */
static void test_every_cut(void **state)
{
	struct str text = read_file(VECTORS "good/every-built-key.yaml");
	size_t cut = 0, lines = 0;

	(void)state;
	assert_memory_equal(text.p + text.n - 5, "\n...\n", 5);
	for (; cut < text.n - 1; cut++) {
		char *copy = malloc(cut + 1); /* its own bytes, so that a read beyond them shows */
		struct loaded got;
		bool said = false;

		assert_non_null(copy);
		memcpy(copy, text.p, cut);
		got = load((struct str){ copy, cut });
		if (got.r != PAWL_E_POLICY)
			fail_msg("P10: the first %zu of %zu bytes load", cut, text.n);
		for (size_t i = 0; i < got.rep.n; i++)
			said = said || strstr(got.rep.rows[i].msg, "cut short?");
		if (!said)
			fail_msg("P10: at %zu bytes nothing is said about a cut", cut);
		lines += cut > 0 && text.p[cut - 1] == '\n';
		unload(&got);
		free(copy);
	}
	assert_true(lines > 40);
	drop(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_misspelt),
		cmocka_unit_test(test_every_letter),
		cmocka_unit_test(test_not_built),
		cmocka_unit_test(test_every_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
