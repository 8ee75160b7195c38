/* daemon/cli/policy.c - see policy.h. Borrows the loader that pawld uses, so that "ok" here is what "ok" is there.
 * Problems go to stdout, since they are the answer; what keeps the question from being asked goes to stderr. */
#include "daemon/cli/policy.h"

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/owner.h"
#include "daemon/cli/explain.h"
#include "daemon/cli/fsutil.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_POLICY_FILE (1u << 20)

enum { EXIT_REVIEW = 3, EXIT_DENY = 4 };

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl policy check [--quiet] FILE...\n"
		    "       pawl policy explain [--json] FILE REQUEST.json\n\n"
		    "check    loads each FILE as pawld would and prints every problem as file:line:column: error|warning: text.\n"
		    "           --quiet   no line for a file without problems\n"
		    "         Exit status: 0 no error (warnings are none), 1 an error in a file or a file that cannot be read, 2 usage.\n\n"
		    "explain  asks FILE about one call, as the first of a new session, and says which rules name its tool and what each of\n"
		    "         their conditions came to, what it would draw from, what watches it, the verdict, and what would make it pass.\n"
		    "         REQUEST.json (- is standard input): {\"tool\": …} and, as clients send them, args, kind, model, estimate,\n"
		    "         limits; and of its session agent, labels, root (below which relative paths lie).\n"
		    "           --json    one JSON object\n"
		    "         Exit status: 0 allow, 3 review, 4 deny, 1 the question could not be answered, 2 usage.\n",
		    out);
	return status;
}

int policy_read(const char *path, struct policy **ret, struct policy_report *rep, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(MAX_POLICY_FILE);
	const struct policy_files files = policy_files_system(owner_group(geteuid()));
	int r = fs_read(AT_FDCWD, path, &text, err);

	return r < 0 ? r : policy_load_with(buf_str(&text), path, &files, ret, rep, err);
}

/* ", watch (exec required, 2 programs denied, processes, memory)": what is asked of the kernel, in a few words. */
static void watch_text(const struct watch_policy *w, struct buf *out)
{
	static const char *const words[WATCH_EXEC_COUNT] = { "none", "log", "required" };
	uint32_t needs = watch_policy_needs(w) & ~(uint32_t)(HOLD_EXEC | HOLD_EVENTS);

	if (!w->on)
		return;
	buf_printf(out, ", watch (exec %s", words[w->exec]);
	if (w->n_deny_exec)
		buf_printf(out, ", %zu program%s denied", w->n_deny_exec, w->n_deny_exec == 1 ? "" : "s");
	for (; needs; needs &= needs - 1)
		buf_printf(out, ", %s", watch_hold_name(needs & -needs));
	buf_putc(out, ')');
}

static int check_file(const char *path, bool quiet)
{
	PAWL_CLEANUP(buf_done) struct buf lines = BUF_MAX(1u << 20);
	PAWL_CLEANUP(policy_report_done) struct policy_report rep = { 0 };
	struct pawl_error err = { 0 };
	struct policy *pol = NULL;
	int r = policy_read(path, &pol, &rep, &err);

	policy_report_text(&rep, &lines);
	if (lines.n)
		(void)fwrite(lines.p, 1, lines.n, stdout);
	if (r < 0 && rep.n == 0)
		(void)lines_fail("policy check", &err);
	else if (r < 0)
		(void)printf("%s: refused: %zu error%s\n", path, rep.errors, rep.errors == 1 ? "" : "s");
	else if (!quiet) {
		buf_reset(&lines);
		escape_text(&lines, pol->name, escape_mode_here(), '"', NULL);
		buf_printf(&lines, ", %zu rules, %zu budgets, %zu tools", pol->n_rules, pol->n_budgets, pol->n_tools);
		watch_text(&pol->watch, &lines);
		(void)printf("%s: ok: %.*s, %zu warning%s\n", path, STR_ARG(buf_str(&lines)), rep.n, rep.n == 1 ? "" : "s");
	}
	policy_free(pol);
	return r < 0 ? 1 : 0;
}

static int check(int n, char **files, bool quiet)
{
	int status = 0;

	for (int i = 0; i < n; i++)
		status |= check_file(files[i], quiet);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		(void)fputs("pawl policy check: cannot write the answer\n", stderr);
		return 1;
	}
	return status;
}

static int read_request(const char *name, struct buf *text, struct pawl_error *err)
{
	char chunk[4096];
	size_t n;

	if (!str_is(str_of(name), "-"))
		return fs_read(AT_FDCWD, name, text, err);
	while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
		buf_add(text, chunk, n);
	if (ferror(stdin))
		return pawl_fail_errno(err, "standard input");
	return buf_ok(text) ? 0 : pawl_fail(err, PAWL_E_LIMIT, "standard input is larger than %zu bytes", text->max);
}

static int explain(const char *file, const char *request, bool json, const struct resolver *res)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(PAWL_MAX_MESSAGE), doc = BUF_MAX(16u << 20), lines = BUF_MAX(1u << 20);
	PAWL_CLEANUP(policy_report_done) struct policy_report rep = { 0 };
	struct pawl_error err = { .code = PAWL_OK };
	enum verdict answer = VERDICT_DENY;
	struct clock clock = { .base_ns = 0 };
	struct policy *pol = NULL;
	int r = policy_read(file, &pol, &rep, &err);

	if (r < 0 && rep.n) { /* as `check` tells them, but not as the answer */
		policy_report_text(&rep, &lines);
		(void)fwrite(lines.p, 1, lines.n, stderr);
	}
	if (r == 0)
		r = read_request(request, &text, &err);
	if (r == 0)
		r = explain_json(pol, buf_str(&text), res, clock_wall(&clock), &doc, &answer, &err);
	policy_free(pol);
	if (r < 0)
		return lines_fail("policy explain", &err);
	if (lines_answer("policy explain", &doc, json, explain_text) != 0)
		return 1;
	return answer == VERDICT_ALLOW ? 0 : answer == VERDICT_REVIEW ? EXIT_REVIEW : EXIT_DENY;
}

int cli_policy(int argc, char **argv, const struct resolver *res)
{
	static const struct option longs[] = {
		{ "quiet", no_argument, NULL, 'q' }, { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
	};
	bool quiet = false, json = false;
	struct str verb;
	int c, n;

	while ((c = getopt_long(argc, argv, "qh", longs, NULL)) != -1) {
		if (c != 'q' && c != 'j')
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
		*(c == 'q' ? &quiet : &json) = true;
	}
	n = argc - optind - 1;
	verb = n >= 0 ? str_of(argv[optind]) : STR_NONE;
	if (str_is(verb, "check") && n >= 1 && !json)
		return check(n, argv + optind + 1, quiet);
	if (str_is(verb, "explain") && n == 2 && !quiet)
		return explain(argv[optind + 1], argv[optind + 2], json, res);
	return usage(stderr, 2);
}
