/* tests/unit/test_policy.c - policy_load() from outside: vectors of good and bad files, what a good one becomes, and
 * what happens when memory is short. Runs from the top of the repository. */
#include "policy/condition.h"
#include "policy/redact.h"

#include "tests/support/fail_malloc.h"
#include "tests/support/policy_file.h"
#include "tests/support/zone_file.h"

#include <dirent.h>
#include <time.h>

static void show_rows(const char *name, const struct policy_report *rep)
{
	for (size_t i = 0; i < rep->n; i++)
		print_message("%s:%u:%u: %s: %s\n", name, rep->rows[i].line, rep->rows[i].column,
			      rep->rows[i].warning ? "warning" : "error", rep->rows[i].msg);
}

/* ---- vectors: what must be said stands behind the file's end line, as "#! line:column: error: text" ---- */

static void check_vector(const char *path, bool good)
{
	struct str text = read_file(path);
	struct loaded got = load(text);
	size_t row = 0;

	if ((got.r == 0) != good) {
		show_rows(path, &got.rep);
		fail_msg("%s: code %d, %s", path, got.r, got.err.msg);
	}
	for (const char *at = strstr(text.p, "\n#! "); at; at = strstr(at + 1, "\n#! "), row++) {
		const char *want = at + 4;
		size_t n = strcspn(want, "\n");
		char is[400] = "nothing";

		if (row < got.rep.n)
			(void)snprintf(is, sizeof(is), "%u:%u: %s: %s", got.rep.rows[row].line,
				       got.rep.rows[row].column, got.rep.rows[row].warning ? "warning" : "error",
				       got.rep.rows[row].msg);
		if (strncmp(is, want, n) != 0)
			fail_msg("%s: row %zu is \"%s\", wanted \"%.*s\"", path, row, is, (int)n, want);
	}
	if (row != got.rep.n) {
		show_rows(path, &got.rep);
		fail_msg("%s: %zu rows, %zu wanted", path, got.rep.n, row);
	}
	unload(&got);
	drop(text);
}

static size_t check_folder(const char *folder, bool good)
{
	DIR *d = opendir(folder);
	const struct dirent *e;
	char path[512];
	size_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len < 5 || strcmp(e->d_name + len - 5, ".yaml") != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", folder, e->d_name);
		check_vector(path, good);
		n++;
	}
	(void)closedir(d);
	return n;
}

static void test_vectors(void **state)
{
	(void)state;
	assert_true(check_folder(VECTORS "good/", true) >= 6);
	assert_true(check_folder(VECTORS "bad/", false) >= 25);
}

/* What is shipped as an example loads without a word. */
static void test_examples(void **state)
{
	(void)state;
	assert_true(check_folder("examples/policies/", true) >= 5);
}

/* ---- what a good file becomes ---- */

static const struct cond_field *field_named(const struct condition *c, const char *name)
{
	for (size_t i = 0; c && i < c->n_fields; i++)
		if (str_is(c->fields[i].name, name))
			return &c->fields[i];
	fail_msg("no field %s", name);
	return NULL;
}

static void check_conditions(const struct policy *pol)
{
	const struct cond_field *f = field_named(pol->rules[1].when, "args.url");

	assert_int_equal(pol->rules[1].when->n_fields, 3);
	assert_int_equal(f->subject, SUBJECT_ARGS);
	assert_true(str_is(f->path, "url"));
	assert_int_equal(f->n_tests, 5);
	assert_int_equal(f->tests[0].op, COND_GLOB);
	assert_int_equal(f->tests[0].glob.prefix_n, 7);
	assert_int_equal(f->tests[1].op, COND_REGEX);
	assert_int_equal(regex_match(f->tests[1].regex, STR("http://x?")), 1);
	assert_int_equal(f->tests[2].op, COND_NOT);
	assert_int_equal(f->tests[2].n_values, 2);
	assert_int_equal(f->tests[3].op, COND_BYTES_OVER);
	assert_int_equal(f->tests[3].bytes, 10);
	assert_int_equal(f->tests[4].op, COND_BYTES_BELOW);
	assert_int_equal(f->tests[4].bytes, 2048);
	f = field_named(pol->rules[1].when, "args.depth");
	assert_true(f->tests[0].op == COND_OVER && f->tests[0].bound == (fixed9)2500000000);
	assert_true(f->tests[1].op == COND_BELOW && f->tests[1].bound == (fixed9)10000000000);
	f = field_named(pol->rules[1].when, "args.n");
	assert_true(f->tests[0].op == COND_IN && f->tests[0].n_values == 5);
	assert_true(f->tests[0].values[1].kind == SCALAR_NUMBER && f->tests[0].values[1].number == (fixed9)-2500000000);
	assert_true(f->tests[0].values[2].kind == SCALAR_TEXT && str_is(f->tests[0].values[2].text, "3"));
	assert_true(f->tests[0].values[3].kind == SCALAR_BOOL && f->tests[0].values[3].truth);
	assert_true(f->tests[0].values[4].kind == SCALAR_TEXT);
	f = field_named(pol->rules[1].unless, "agent");
	assert_true(f->subject == SUBJECT_AGENT && f->tests[0].values[0].kind == SCALAR_TEXT);
	f = field_named(pol->rules[1].unless, "labels.team");
	assert_true(f->subject == SUBJECT_LABEL && str_is(f->path, "team"));
	assert_int_equal(field_named(pol->rules[1].unless, "estimate.money")->tests[0].bound, 500000000);
	assert_true(str_is(field_named(pol->rules[2].unless, "args.to.path")->tests[0].dir, "/srv"));
}

static void note_rule(void *arg, uint32_t rule)
{
	*(uint32_t *)arg |= UINT32_C(1) << rule;
}

static void check_index(const struct policy *pol)
{
	static const struct {
		const char *name, *canonical;
		uint32_t rules, budgets, breakers;
	} rows[] = { /* run 0, day 1, tokens 2, searches 3, files 4, age 5; search-api 0, all 1 */
		     { "search", "web.search", 1, 47, 3 },
		     { "query_web", "web.search", 1, 47, 3 },
		     { "web.search", "web.search", 1, 47, 3 },
		     { "write_file", "fs.write", 4, 55, 2 },
		     { "shell", "shell", 4, 39, 2 },
		     { "shell.x", "shell.x", 4, 39, 2 },
		     { "fs.read.all", "fs.read.all", 1, 55, 2 },
		     { "other", "other", 0, 39, 2 }
	};

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		const struct tool *def;
		struct str canonical = tool_canonical(pol, str_of(rows[i].name), &def);
		uint32_t rules = 0;
		struct index_hits hits = name_index_find(pol->index, canonical, def, note_rule, &rules);

		if (!str_is(canonical, rows[i].canonical) || rules != rows[i].rules ||
		    hits.budgets != rows[i].budgets || hits.breakers != rows[i].breakers)
			fail_msg("%s: %.*s, rules %x, budgets %x, breakers %x", rows[i].name, STR_ARG(canonical), rules,
				 hits.budgets, hits.breakers);
	}
}

/* The second half of the language: loops, breakers, reviews, what sticks. */
static void check_memory(const struct policy *p)
{
	static const struct breaker first = { .has_match = true,
					      .failures = 5,
					      .denials = 20,
					      .within_ns = 120 * NS_PER_SEC,
					      .cool_down_ns = 45 * NS_PER_SEC,
					      .sticky = true };
	const struct breaker *b = p->breakers;

	assert_true(p->cycle.on && p->cycle.period_min == 2 && p->cycle.period_max == 5 && p->cycle.limit == 3);
	assert_true(p->cycle.window == 30 && p->cycle.then == VERDICT_REVIEW);
	assert_true(p->errors.on && p->errors.limit == 4 && p->errors.window == 60 && p->errors.then == VERDICT_REVIEW);
	assert_true(p->stuck.on && p->stuck.limit == 5 && p->stuck.window == 70 && p->stuck.then == VERDICT_REVIEW);
	assert_int_equal(p->n_breakers, 2);
	assert_true(str_is(b[0].id, "search-api") && str_is(b[1].id, "all"));
	assert_true(b[0].has_match && b[0].failures == first.failures && b[0].denials == first.denials &&
		    b[0].within_ns == first.within_ns && b[0].cool_down_ns == first.cool_down_ns && b[0].sticky);
	assert_true(!b[0].has_scope && !b[0].per_tool);
	assert_true(b[1].has_scope && b[1].scope == SCOPE_AGENT && b[1].per_tool && !b[1].has_match && !b[1].sticky);
	assert_true(b[1].failures == 0 && b[1].denials == 32 && b[1].within_ns == 60 * NS_PER_SEC &&
		    b[1].cool_down_ns == 30 * NS_PER_SEC);
	assert_true(p->reviews.timeout_ns == 1200 * NS_PER_SEC && p->reviews.pending == 7 &&
		    p->reviews.abort_hold_ns == 90 * NS_PER_SEC);
	assert_true(p->budgets[0].grant_max == 2000000000 && p->budgets[1].grant_max == 0);
	assert_true(p->budgets[0].every.kind == WINDOW_NONE && p->budgets[1].every.kind == WINDOW_DAY &&
		    !p->budgets[1].every.zone);
	assert_true(p->budgets[3].every.kind == WINDOW_SPAN && p->budgets[3].every.span_ns == 5400 * NS_PER_SEC);
	assert_true(p->tools[1].n_fold == 2 && str_is(p->tools[1].fold_paths[1], "a.b"));
	assert_true(p->tools[4].polling && !p->tools[3].polling);
}

static void check_watch(const struct policy *p)
{
	const struct watch_policy *w = &p->watch;

	assert_true(w->on && w->exec == WATCH_EXEC_REQUIRED && w->n_deny_exec == 2 && w->n_writes_under == 3 && w->has_writes);
	assert_string_equal(w->deny_exec[0].p, "/usr/bin/nc");
	assert_string_equal(w->deny_exec[1].p, "/usr/bin/socat");
	assert_true(w->limits.processes == 32 && w->limits.fork_rate == 200 && w->limits.exec_rate == 20);
	assert_true(w->limits.cpu_ns == 90ull * NS_PER_SEC && w->limits.wall_ns == 600ull * NS_PER_SEC && w->limits.memory == 2ull << 30);
	assert_string_equal(w->writes_under[0].p, "workspace");
	assert_string_equal(w->writes_under[1].p, "/tmp/agent");
	assert_string_equal(w->writes_under[2].p, ".");
	assert_int_equal(watch_policy_needs(w), (HOLD_EVENTS << 1) - 1);
	assert_true(p->log.record_args == RECORD_REDACTED && p->log.redact && p->log.redact->n == 3);
	assert_true(str_is(p->log.redact->paths[1].text, "db.note") && !p->log.redact->paths[1].anywhere);
	assert_true(str_is(p->log.redact->paths[2].text, "api_key") && p->log.redact->paths[2].anywhere);
}

static void test_values(void **state)
{
	struct str text = read_file(VECTORS "good/every-built-key.yaml");
	struct loaded got = load(text);
	static const struct {
		const char *id;
		enum unit unit;
		enum scope scope;
		bool per_tool, match, zero_deny;
		int64_t limit, floor;
		enum verdict then;
	} budgets[] = {
		{ "run", UNIT_MONEY, SCOPE_SESSION, false, false, true, 5000000000, 50000000, VERDICT_REVIEW },
		{ "day", UNIT_MONEY, SCOPE_GLOBAL, false, false, false, 20000000001, 0, VERDICT_DENY },
		{ "tokens", UNIT_TOKENS, SCOPE_TENANT, false, false, false, 400000, 0, VERDICT_DENY },
		{ "searches", UNIT_CALLS, SCOPE_AGENT, true, true, false, 30, 0, VERDICT_DENY },
		{ "files", UNIT_CALLS, SCOPE_AGENT, false, true, false, 2000000, 0, VERDICT_DENY },
		{ "age", UNIT_TIME, SCOPE_SESSION, false, false, false, 900 * NS_PER_SEC, 0, VERDICT_DENY },
	};
	const struct policy *p = got.pol;

	(void)state;
	assert_int_equal(got.r, 0);
	assert_true(str_is(p->name, "every-built-key") && str_is(p->currency, "EUR"));
	assert_true(p->fallback == VERDICT_REVIEW && p->mode == MODE_ENFORCE && !p->attended);
	assert_int_equal(p->n_tools, 7);
	assert_true(str_is(p->tools[0].name, "web.search") && p->tools[0].has_cost && !p->tools[0].has_default_cost &&
		    p->tools[0].refund);
	assert_true(p->tools[0].cost == 2000000 && p->tools[0].lease_ns == 90 * NS_PER_SEC &&
		    p->tools[1].default_cost == 10000000);
	assert_true(p->tools[1].has_default_cost && !p->tools[1].refund && p->tools[1].lease_ns == 900 * NS_PER_SEC);
	assert_true(p->tools[0].n_volatile == 2 && str_is(p->tools[0].volatile_paths[1], "page.token"));
	assert_int_equal(p->n_rules, 6);
	assert_true(str_is(p->rules[2].id, "elsewhere") && p->rules[2].answer == VERDICT_DENY &&
		    p->rules[2].line == 37 && p->rules[2].sticky == STICK_TREE);
	assert_true(p->rules[4].sticky == STICK_SESSION && p->rules[5].sticky == STICK_NEVER &&
		    p->rules[0].sticky == STICK_NEVER && p->rules[3].sticky == STICK_NEVER);
	assert_true(p->rules[0].answer == VERDICT_ALLOW && !p->rules[0].when && !p->rules[0].unless &&
		    p->rules[1].answer == VERDICT_REVIEW);
	assert_int_equal(p->n_budgets, PAWL_LEN(budgets));
	for (size_t i = 0; i < PAWL_LEN(budgets); i++) {
		const struct budget *b = &p->budgets[i];

		if (!str_is(b->id, budgets[i].id) || b->unit != budgets[i].unit || b->scope != budgets[i].scope ||
		    b->per_tool != budgets[i].per_tool || b->has_match != budgets[i].match ||
		    b->zero_cost_deny != budgets[i].zero_deny || b->limit != budgets[i].limit ||
		    b->floor != budgets[i].floor || b->then != budgets[i].then)
			fail_msg("budget %s", budgets[i].id);
	}
	assert_true(p->repeat.on && p->repeat.same_args && p->repeat.limit == 3 && p->repeat.window == 40 &&
		    p->repeat.then == VERDICT_REVIEW);
	assert_true(p->repeat.n_ignore == 2 && str_is(p->repeat.ignore[1], "a.b"));
	assert_true(p->sessions.open == 8 && p->sessions.fresh == 50 &&
		    p->sessions.fresh_every_ns == 86400 * NS_PER_SEC);
	assert_true(p->sessions.depth == 3 && p->sessions.calls == 900 && p->sessions.lease_ns == 120 * NS_PER_SEC);
	assert_true(p->limits.per_second == 100 && p->limits.burst == 150);
	check_conditions(p);
	check_index(p);
	check_memory(p);
	check_watch(p);
	unload(&got);
	drop(text);
}

/* What is not written: the strict side, and the numbers of docs/policy.md. D20: no default means deny. */
static const struct {
	const char *watch;
	enum watch_exec exec;
	uint32_t needs;
} needs[] = {
	{ "{exec: none, wall: 1s}", WATCH_EXEC_NONE, HOLD_WALL },
	{ "{exec: log}", WATCH_EXEC_LOG, 0 },
	{ "{exec: required}", WATCH_EXEC_REQUIRED, HOLD_EXEC | HOLD_EVENTS },
	{ "{deny_exec: [/a]}", WATCH_EXEC_LOG, HOLD_EXEC },
	{ "{processes: 1}", WATCH_EXEC_LOG, HOLD_PROCESSES },
	{ "{fork_rate: 1/s}", WATCH_EXEC_LOG, HOLD_FORK_RATE },
	{ "{exec_rate: 1/s}", WATCH_EXEC_LOG, HOLD_EXEC_RATE },
	{ "{cpu: 1s}", WATCH_EXEC_LOG, HOLD_CPU },
	{ "{memory: 1MiB}", WATCH_EXEC_LOG, HOLD_MEMORY },
	{ "{writes_under: []}", WATCH_EXEC_LOG, HOLD_WRITES },
};

/* What is asked of the kernel, key by key; silence about `watch` asks nothing. */
static void test_watch_needs(void **state)
{
	struct loaded got = load(STR("{pawl: 1}\n...\n"));

	(void)state;
	assert_true(!got.pol->watch.on && got.pol->watch.exec == WATCH_EXEC_NONE && watch_policy_needs(&got.pol->watch) == 0);
	unload(&got);
	for (size_t i = 0; i < PAWL_LEN(needs); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "pawl: 1\nwatch: %s\n...\n", needs[i].watch);
		got = load(str_of(text));
		if (got.r || got.rep.n || !got.pol->watch.on || got.pol->watch.exec != needs[i].exec ||
		    watch_policy_needs(&got.pol->watch) != needs[i].needs)
			fail_msg("watch: %s", needs[i].watch);
		unload(&got);
	}
}

/* Lists that are as long as may be, and one more. */
static void test_watch_lists(void **state)
{
	static const struct {
		const char *key;
		int n, len;
		const char *says;
	} rows[] = {
		{ "deny_exec", PAWL_MAX_DENY_EXEC, 100, NULL },
		{ "deny_exec", PAWL_MAX_DENY_EXEC + 1, 10, "257 paths in deny_exec, at most 256" },
		{ "deny_exec", 200, 200, "the paths of deny_exec have 40200 bytes, at most 32768" },
		{ "deny_exec", 1, 1023, NULL },
		{ "deny_exec", 1, 1024, "is too long" },
		{ "writes_under", PAWL_MAX_WRITES_UNDER, 10, NULL },
		{ "writes_under", PAWL_MAX_WRITES_UNDER + 1, 10, "65 paths in writes_under, at most 64" },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct buf b = BUF_MAX(1u << 20);
		struct loaded got;

		buf_printf(&b, "pawl: 1\nwatch:\n  %s:\n", rows[i].key);
		for (int k = 0; k < rows[i].n; k++)
			buf_printf(&b, "    - /%0*d\n", rows[i].len - 1, k);
		buf_puts(&b, "...\n");
		got = load(buf_str(&b));
		if ((got.r == 0) != !rows[i].says || (rows[i].says && !strstr(got.err.msg, rows[i].says)))
			fail_msg("row %zu: %d, %s", i, got.r, got.err.msg);
		unload(&got);
		buf_done(&b);
	}
}

static int holds_srv(void *arg, const char *folder, const char *file, struct pawl_error *err)
{
	assert_string_equal(file, "t.yaml");
	++*(int *)arg;
	if (strcmp(folder, "/odd") == 0)
		return pawl_fail(err, PAWL_E_SYS, "odd");
	return strcmp(folder, "/srv") == 0;
}

/* Semantics of "not below any writes_under": asked for absolute folders only, and an unclear answer is a no. */
static void test_own_file(void **state)
{
	int asked = 0;
	struct policy_files files = { .holds = holds_srv, .arg = &asked };
	struct loaded got = { .pol = NULL };

	(void)state;
	got.r = policy_load_with(STR("pawl: 1\nwatch:\n  writes_under: [/a, w, /srv/,\n    /odd]\n...\n"), "t.yaml", &files, &got.pol, &got.rep, &got.err);
	assert_int_equal(got.r, PAWL_E_POLICY);
	assert_int_equal(asked, 3);
	assert_int_equal(got.rep.n, 2);
	assert_true(got.rep.rows[0].line == 3 && got.rep.rows[0].column == 25 && strstr(got.rep.rows[0].msg, "\"/srv\" holds this policy file"));
	assert_true(got.rep.rows[1].line == 4 && strstr(got.rep.rows[1].msg, "cannot tell whether \"/odd\" holds this policy: odd"));
	unload(&got);
}

static void test_defaults(void **state)
{
	static const uint8_t hash[] = { 0x8e, 0x24, 0xfc, 0xf4 };
	struct loaded got = load(STR("{pawl: 1}\n...\n"));
	const struct policy *p = got.pol;

	(void)state;
	assert_int_equal(got.rep.n, 0);
	assert_true(p->fallback == VERDICT_DENY && p->mode == MODE_ENFORCE && p->attended && !p->repeat.on);
	assert_true(str_is(p->currency, "USD") && p->n_rules == 0 && p->n_tools == 0 && p->n_budgets == 0);
	assert_true(p->sessions.open == 1024 && p->sessions.fresh == 0 && p->sessions.depth == 4 &&
		    p->sessions.calls == 10000);
	assert_true(p->sessions.lease_ns == 60 * NS_PER_SEC && p->limits.per_second == 200 && p->limits.burst == 400);
	assert_true(!p->cycle.on && !p->errors.on && !p->stuck.on && p->n_breakers == 0);
	assert_true(p->reviews.timeout_ns == 600 * NS_PER_SEC && p->reviews.pending == 20 &&
		    p->reviews.abort_hold_ns == 60 * NS_PER_SEC);
	assert_memory_equal(p->hash, hash, sizeof(hash)); /* printf '{pawl: 1}\n...\n' | sha256sum */
	unload(&got);
	got = load(STR("{pawl: 1, limits: {decide: 5/s}, loops: {repeat: {limit: 50}}}\n...\n"));
	assert_true(got.pol->limits.burst == 10 && got.pol->repeat.window == 50 && got.pol->repeat.same_args);
	assert_int_equal(got.pol->repeat.then, VERDICT_DENY);
	unload(&got);
	got = load(STR(
	    "{pawl: 1, loops: {cycle: {limit: 3}, errors: {limit: 3}, stuck: {limit: 5}}, rules: [{id: a, deny: [x], "
	    "when: {agent: {is: a}}}, {id: b, deny: [x], unless: {agent: {is: a}}}, {id: c, deny: [x]}]}\n...\n"));
	p = got.pol;
	assert_int_equal(got.rep.n, 0);
	assert_true(p->cycle.period_min == 2 && p->cycle.period_max == 8 && p->cycle.window == 50 &&
		    p->cycle.then == VERDICT_DENY);
	assert_true(p->errors.limit == 3 && p->errors.window == 50 && p->stuck.limit == 5 &&
		    p->stuck.then == VERDICT_DENY);
	assert_true(p->rules[0].sticky == STICK_NEVER && p->rules[1].sticky == STICK_NEVER &&
		    p->rules[2].sticky == STICK_SESSION);
	unload(&got);
}

/* ---- uses: what each tool reaches, and which denial reaches it ---- */

static const char uses_policy[] = "pawl: 1\n"
				  "tools:\n"
				  "  browse: {uses: [Fetch-Alias, screen]}\n"
				  "  fetch: {aliases: [fetch-alias], uses: [net, dns]}\n"
				  "  dns: {uses: [net, clock]}\n"
				  "  free: {}\n"
				  "  late: {uses: [browse, fetch, own]}\n"
				  "  self.only: {uses: [own]}\n"
				  "  clocked: {uses: [clock, net]}\n"
				  "rules:\n"
				  "  - {id: all, allow: [browse, fetch, free, late, self.only, clocked]}\n"
				  "  - {id: sometimes, deny: [own], when: {args.x: {is: 1}}}\n"
				  "  - {id: ask, review: [own, screen]}\n"
				  "  - {id: no-clock, deny: [\"cl?ck\"], sticky: never}\n"
				  "  - {id: no-net, deny: [\"n*\"]}\n"
				  "...\n";

static const struct {
	const char *tool, *closure;
	int32_t rule;
	const char *name;
} reaches[] = {
	/* D09, A04: nearest names first; denied through the closure, never the other way round */
	{ "browse", "fetch screen net dns clock", 3, "clock" },
	{ "fetch", "net dns clock", 3, "clock" },
	{ "dns", "net clock", 3, "clock" },
	{ "free", "", -1, "" },
	{ "late", "browse fetch own screen net dns clock", 3, "clock" },
	{ "self.only", "own", -1, "" }, /* a condition is asked of a call, and a capability is never called */
	{ "clocked", "clock net", 3, "clock" },
};

static void test_uses(void **state)
{
	struct loaded got = load(str_of(uses_policy));

	(void)state;
	assert_int_equal(got.r, 0);
	for (size_t i = 0; i < PAWL_LEN(reaches); i++) {
		const struct tool *t;
		struct buf b = BUF_MAX(1024);

		(void)tool_canonical(got.pol, str_of(reaches[i].tool), &t);
		assert_non_null(t);
		for (size_t k = 0; k < t->n_closure; k++)
			buf_printf(&b, "%s%.*s", k ? " " : "", STR_ARG(t->closure[k]));
		if (!str_is(buf_str(&b), reaches[i].closure) || t->denied_use != reaches[i].rule ||
		    !str_is(t->denied_name, reaches[i].name))
			fail_msg("%s: %.*s, rule %d on %.*s", reaches[i].tool, STR_ARG(buf_str(&b)), t->denied_use,
				 STR_ARG(t->denied_name));
		buf_done(&b);
	}
	unload(&got);
}

/* The first rule of the file is named, not the nearest name; and a stop-all rule reaches everything. */
static void test_uses_order(void **state)
{
	struct loaded got =
	    load(STR("pawl: 1\ntools: {a: {uses: [x, y]}}\nrules: [{id: p, deny: [y]}, {id: q, deny: [x]}]\n...\n"));

	(void)state;
	assert_true(got.pol->tools[0].denied_use == 0 && str_is(got.pol->tools[0].denied_name, "y"));
	unload(&got);
	got = load(STR("pawl: 1\ntools: {a: {uses: [x]}}\nrules: [{id: p, deny: [\"*\"]}]\n...\n"));
	assert_true(got.pol->tools[0].denied_use == 0 && str_is(got.pol->tools[0].denied_name, "x"));
	unload(&got);
}

/* A file of a megabyte with a chain of tools: a deep one is followed without recursion, one that reaches too much is
 * refused. */
static void test_uses_chain(void **state)
{
	static const struct {
		int n;
		bool good;
	} rows[] = { { 257, true }, { 258, false }, { 9000, false } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct buf b = BUF_MAX(1u << 20);
		struct loaded got;

		buf_puts(&b, "pawl: 1\ntools:\n");
		for (int k = 0; k < rows[i].n - 1; k++)
			buf_printf(&b, "  t%d: {uses: [t%d]}\n", k, k + 1);
		buf_printf(&b, "  t%d: {}\n...\n", rows[i].n - 1);
		got = load(buf_str(&b));
		if ((got.r == 0) != rows[i].good)
			fail_msg("a chain of %d: %d, %s", rows[i].n, got.r, got.err.msg);
		if (rows[i].good)
			assert_int_equal(got.pol->tools[0].n_closure, rows[i].n - 1);
		else
			assert_non_null(strstr(got.err.msg, "reaches more than 256 names"));
		unload(&got);
		buf_done(&b);
	}
}

/* ---- time zones: what is asked of the caller's files ---- */

struct shelf {
	const char *bytes;
	size_t n;
	int code;
	unsigned reads;
	char path[128];
};

static int shelf_read(void *arg, const char *path, char **ret, size_t *ret_n, struct pawl_error *err)
{
	struct shelf *s = arg;

	s->reads++;
	(void)snprintf(s->path, sizeof(s->path), "%s", path);
	if (s->code)
		return pawl_fail(err, (enum pawl_err)s->code, "not on the shelf");
	*ret = malloc(s->n + 1);
	if (!*ret)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	memcpy(*ret, s->bytes, s->n);
	*ret_n = s->n;
	return 0;
}

static struct loaded load_zones(struct shelf *s, const char *zone)
{
	struct policy_files files = { .read = shelf_read, .arg = s };
	struct loaded got = { .pol = NULL };
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "pawl: 1\nbudgets:\n  a: {per: agent, limit: 1 calls, every: day, zone: %s}\n"
		       "  b: {per: agent, limit: 1 calls, every: month, zone: %s}\n...\n",
		       zone, zone);
	got.r = policy_load_with(str_of(text), "t.yaml", &files, &got.pol, &got.rep, &got.err);
	return got;
}

static void test_zones(void **state)
{
	static const struct {
		const char *zone;
		int code;
		const char *bytes, *says; /* NULL: loads */
	} rows[] = {
		{ "Europe/Berlin", 0, TZIF_BERLIN, NULL },
		{ "Europe/Berln", PAWL_E_SYS, "", "zone \"Europe/Berln\" cannot be read: not on the shelf" },
		{ "Europe/Berlin", 0, "TZif", "zone \"Europe/Berlin\": not a TZif file of version 2 or later" },
		{ "../Berlin", 0, TZIF_BERLIN, "\"../Berlin\": a time zone is named like Europe/Berlin or UTC" },
		{ "/etc/passwd", 0, TZIF_BERLIN, "\"/etc/passwd\": a time zone is named" },
		{ "Europe//Berlin", 0, TZIF_BERLIN, "\"Europe//Berlin\": a time zone is named" },
		{ "Europe/", 0, TZIF_BERLIN, "\"Europe/\": a time zone is named" },
		{ "Europe/Berlin.tab", 0, TZIF_BERLIN, "\"Europe/Berlin.tab\": a time zone is named" },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct shelf s = { rows[i].bytes,
				   rows[i].bytes[0] == 'T' && rows[i].bytes[4] ? TZIF_BERLIN_N : strlen(rows[i].bytes),
				   rows[i].code, 0, "" };
		struct loaded got = load_zones(&s, rows[i].zone);

		if ((got.r == 0) != !rows[i].says ||
		    (rows[i].says && strncmp(got.err.msg, rows[i].says, strlen(rows[i].says)) != 0))
			fail_msg("%s: %d, %s", rows[i].zone, got.r, got.err.msg);
		if (got.r == 0) { /* read once, shared */
			assert_true(s.reads == 1 && got.pol->budgets[0].every.zone);
			assert_ptr_equal(got.pol->budgets[0].every.zone, got.pol->budgets[1].every.zone);
			assert_string_equal(s.path, "/usr/share/zoneinfo/Europe/Berlin");
		} else if (!rows[i].code && strncmp(rows[i].says, "zone", 4) != 0) {
			assert_int_equal(s.reads, 0); /* a name that leads elsewhere is never asked for */
		}
		unload(&got);
	}
}

static void test_error_place(void **state)
{
	struct buf out = BUF_MAX(4096);
	struct loaded got = load(STR("pawl: 1\ndefault: allow\nrules:\n  - {id: a, alow: [x]}\n...\n"));
	static const char want[] = "t.yaml:2:1: warning: default: allow lets every tool run that no rule names\n"
				   "t.yaml:4:13: error: unknown key \"alow\", did you mean \"allow\"?\n";

	(void)state;
	assert_int_equal(got.r, PAWL_E_POLICY);
	assert_int_equal(got.err.line, 4);
	assert_int_equal(got.err.column, 13);
	assert_string_equal(got.err.file, "t.yaml");
	assert_string_equal(got.err.msg, "unknown key \"alow\", did you mean \"allow\"?");
	policy_report_text(&got.rep, &out);
	assert_int_equal(out.n, strlen(want));
	assert_memory_equal(out.p, want, out.n);
	buf_done(&out);
	unload(&got);
}

/* Every allocation fails once: no memory is said, nothing is handed out, nothing leaks (the sanitizer and valgrind
 * look). */
static void test_no_memory(void **state)
{
	static const char *const files[] = { VECTORS "good/every-built-key.yaml", VECTORS "good/warnings.yaml",
					     VECTORS "bad/rules.yaml", VECTORS "bad/D09-uses.yaml" };
	long n = 1, refused = 0;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(files); i++) {
		struct str text = read_file(files[i]);
		bool failed = true;

		for (n = 1; failed; n++) {
			struct policy *pol = NULL;
			struct policy_report rep;
			struct pawl_error err;
			int r;

			fail_malloc_after(n);
			r = policy_load(text, files[i], &pol, &rep, &err);
			failed = fail_malloc_stop();
			refused += r == PAWL_E_NOMEM;
			if (failed && r == 0 && !pol) /* qsort() goes on without memory of its own */
				fail_msg("%s: allocation %ld: 0 and no policy", files[i], n);
			if (r == PAWL_E_NOMEM && pol)
				fail_msg("%s: allocation %ld: a policy without memory", files[i], n);
			policy_free(pol);
			policy_report_done(&rep);
		}
		drop(text);
	}
	policy_free(NULL);
	policy_report_done(NULL);
	assert_true(refused > 60);
}

/* L1: a thousand rules load in well under a second. */
static void test_thousand_rules(void **state)
{
	struct buf b = BUF_MAX(1u << 20);
	struct loaded got;
	clock_t start;

	(void)state;
	buf_puts(&b, "pawl: 1\nrules:\n");
	for (int i = 0; i < 1000; i++)
		buf_printf(&b,
			   "  - {id: r%d, deny: [\"svc%d.*\", get%d], when: {args.n: {over: %d}, args.q: {regex: "
			   "\"^a%d+$\"}}}\n",
			   i, i, i, i, i);
	buf_puts(&b, "...\n");
	start = clock();
	got = load(buf_str(&b));
	assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1.0);
	assert_int_equal(got.pol->n_rules, 1000);
	unload(&got);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),        cmocka_unit_test(test_examples),
		cmocka_unit_test(test_values),         cmocka_unit_test(test_defaults),    cmocka_unit_test(test_watch_needs), cmocka_unit_test(test_watch_lists), cmocka_unit_test(test_own_file),
		cmocka_unit_test(test_error_place),    cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_thousand_rules), cmocka_unit_test(test_uses),
		cmocka_unit_test(test_uses_order),     cmocka_unit_test(test_uses_chain),
		cmocka_unit_test(test_zones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
