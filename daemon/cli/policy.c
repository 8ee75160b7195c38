/* daemon/cli/policy.c - see policy.h. Borrows the loader that pawld uses, so that "ok" here is what "ok" is there.
 * Problems go to stdout, since they are the answer; what keeps the question from being asked goes to stderr. */
#include "daemon/cli/policy.h"

#include "daemon/cli/fsutil.h"
#include "pawl/policy.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>

#define MAX_POLICY_FILE (1u << 20)

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl policy check [--quiet] FILE...\n"
		    "Loads each FILE as pawld would and prints every problem as file:line:column: error|warning: text.\n"
		    "Exit status: 0 no error (warnings are none), 1 an error in a file or a file that cannot be read, 2 usage.\n"
		    "  --quiet   no line for a file without problems\n",
		    out);
	return status;
}

static int check_file(const char *path, bool quiet)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(MAX_POLICY_FILE), lines = BUF_MAX(1u << 20);
	PAWL_CLEANUP(policy_report_done) struct policy_report rep = { 0 };
	struct pawl_error err = { 0 };
	struct policy *pol = NULL;
	int r = fs_read(AT_FDCWD, path, &text, &err);

	if (r < 0) {
		(void)fprintf(stderr, "pawl policy check: %s\n", err.msg);
		return 1;
	}
	r = policy_load(buf_str(&text), path, &pol, &rep, &err);
	policy_report_text(&rep, &lines);
	if (lines.n)
		(void)fwrite(lines.p, 1, lines.n, stdout);
	if (r < 0 && rep.n == 0)
		(void)fprintf(stderr, "pawl policy check: %s: %s\n", path, err.msg);
	else if (r < 0)
		(void)printf("%s: refused: %zu error%s\n", path, rep.errors, rep.errors == 1 ? "" : "s");
	else if (!quiet)
		(void)printf("%s: ok: \"%.*s\", %zu rules, %zu budgets, %zu tools, %zu warning%s\n", path, STR_ARG(pol->name), pol->n_rules,
			     pol->n_budgets, pol->n_tools, rep.n, rep.n == 1 ? "" : "s");
	policy_free(pol);
	return r < 0 ? 1 : 0;
}

int cli_policy(int argc, char **argv)
{
	static const struct option longs[] = { { "quiet", no_argument, NULL, 'q' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	bool quiet = false;
	int c, status = 0;

	while ((c = getopt_long(argc, argv, "qh", longs, NULL)) != -1) {
		if (c != 'q')
			return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
		quiet = true;
	}
	if (optind + 1 >= argc || !str_is(str_of(argv[optind]), "check"))
		return usage(stderr, 2);
	for (int i = optind + 1; i < argc; i++)
		status |= check_file(argv[i], quiet);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		(void)fputs("pawl policy check: cannot write the answer\n", stderr);
		return 1;
	}
	return status;
}
