/* daemon/cli/pawl.c - main of `pawl`: finds the verb and hands it its own argv. Owns the table of verbs and nothing else.
 * Exit statuses: 0 done, 1 failed, 2 the command line is wrong; `pawl log verify` has more, in its man page. */
#include "daemon/base/near.h"
#include "daemon/cli/console.h"
#include "daemon/cli/doctor.h"
#include "daemon/cli/init.h"
#include "daemon/cli/key.h"
#include "daemon/cli/log.h"
#include "daemon/cli/operator.h"
#include "daemon/cli/operator_admin.h"
#include "daemon/cli/policy.h"
#include "daemon/cli/review.h"
#include "daemon/cli/run.h"
#include "daemon/cli/spend.h"
#include "daemon/cli/store.h"
#include "daemon/cli/top.h"
#include "daemon/cli/why.h"
#include "daemon/resolve.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>

/* Paths are resolved as pawld does it; the verbs' room does not reach that far. */
static int policy(int argc, char **argv)
{
	struct resolver res = resolve_kernel();

	return cli_policy(argc, argv, &res);
}

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *line;
} verbs[] = {
	{ "abort", cli_answer, "answer a review: its session ends" },
	{ "breaker", cli_breaker, "reset a circuit breaker" },
	{ "console", cli_console, "watch reviews as they come, and answer them" },
	{ "doctor", cli_doctor, "what this machine lacks for pawl, and how to get it" },
	{ "init", cli_init, "make a folder with a starter policy, keys, state, log" },
	{ "key", cli_key, "make or show an operator's key" },
	{ "log", cli_log, "show, verify or judge again the signed log" },
	{ "operator", cli_operator_admin, "say who may answer: add, list, remove" },
	{ "policy", policy, "check a policy file, or ask it about one call" },
	{ "reload", cli_reload, "have a running pawld read its policy again" },
	{ "resume", cli_answer, "answer a review: this call may run, once" },
	{ "review", cli_review, "show one review" },
	{ "reviews", cli_reviews, "list what waits for a person" },
	{ "run", cli_run, "run a command as a watched tree" },
	{ "session", cli_session, "abort a session" },
	{ "sessions", cli_operator, "list the sessions of a running pawld" },
	{ "skip", cli_answer, "answer a review: this call is not run" },
	{ "spend", cli_spend, "what was spent, by tool, agent, day or session, from the log" },
	{ "status", cli_operator, "how a running pawld is: policy, log, sessions, probes" },
	{ "store", cli_store, "the log as SQL tables: made anew, or how it is" },
	{ "top", cli_top, "the sessions of a running pawld, again each second" },
	{ "why", cli_why, "why a decision was what it was, and what became of it, from the log" },
};

static int help(FILE *out, int status)
{
	(void)fputs("usage: pawl VERB [OPTION...]\n\n", out);
	for (size_t i = 0; i < PAWL_LEN(verbs); i++)
		(void)fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].line);
	(void)fputs("\n`pawl VERB --help` says more; `pawl --version` names the version. The daemon is pawld(8).\n", out);
	return status;
}

static int unknown(const char *word)
{
	const struct verb *near = NULL;
	size_t best = 3; /* further than two edits is another word */

	for (size_t i = 0; i < PAWL_LEN(verbs); i++) {
		size_t far = near_edits(str_of(word), str_of(verbs[i].name));

		if (far < best) {
			best = far;
			near = &verbs[i];
		}
	}
	(void)fprintf(stderr, "pawl: unknown verb \"%.40s\"", word);
	if (near)
		(void)fprintf(stderr, ", did you mean \"%s\"?", near->name);
	(void)fputs("\n`pawl --help` lists them\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	(void)signal(SIGPIPE, SIG_IGN); /* a closed pager is a failed write, with its own word and status */
	if (argc < 2)
		return help(stderr, 2);
	if (str_is(str_of(argv[1]), "--help") || str_is(str_of(argv[1]), "-h") || str_is(str_of(argv[1]), "help"))
		return help(stdout, 0);
	if (str_is(str_of(argv[1]), "--version") || str_is(str_of(argv[1]), "version")) {
		(void)puts("pawl " PAWL_VERSION);
		return 0;
	}
	for (size_t i = 0; i < PAWL_LEN(verbs); i++)
		if (str_is(str_of(argv[1]), verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	return unknown(argv[1]);
}
