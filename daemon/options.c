/* daemon/options.c - see options.h. */
#include "daemon/options.h"

#include "daemon/base/home.h"
#include "daemon/base/owner.h"

#include "pawl/watch.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#define MAX_COUNT 1000000000u
#define MIN_RING 4096u
#define MAX_RING (1u << 30)

enum {
	OPT_POLICY = 256, OPT_STATE, OPT_LOG, OPT_KEY, OPT_SOCKET, OPT_OPERATOR, OPT_WATCH, OPT_PID, OPT_OPERATORS, OPT_USER,
	OPT_SNAPSHOT, OPT_RING, OPT_TREES, OPT_NO_WATCH, OPT_CHECK, OPT_PROBE, OPT_FOREGROUND
};

static const struct option long_options[] = {
	{ "dir", required_argument, NULL, 'd' },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "state", required_argument, NULL, OPT_STATE },
	{ "log", required_argument, NULL, OPT_LOG },
	{ "key", required_argument, NULL, OPT_KEY },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "operator-socket", required_argument, NULL, OPT_OPERATOR },
	{ "watch-socket", required_argument, NULL, OPT_WATCH },
	{ "pid-file", required_argument, NULL, OPT_PID },
	{ "operators", required_argument, NULL, OPT_OPERATORS },
	{ "user", required_argument, NULL, OPT_USER },
	{ "snapshot-every", required_argument, NULL, OPT_SNAPSHOT },
	{ "watch-ring", required_argument, NULL, OPT_RING },
	{ "watch-trees", required_argument, NULL, OPT_TREES },
	{ "no-watch", no_argument, NULL, OPT_NO_WATCH },
	{ "foreground", no_argument, NULL, OPT_FOREGROUND },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "probe", no_argument, NULL, OPT_PROBE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

void options_help(void)
{
	(void)puts("usage: pawld [options]\n"
		   "\n"
		   "Answers agents' calls from a policy and signs every answer into a log. Stays in the foreground.\n"
		   "\n"
		   "  -d, --dir DIR           the folder that `pawl init` made (default: $PAWL_DIR, /var/lib/pawl for root,\n"
		   "                          else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		   "      --policy FILE       default DIR/policy.yaml\n"
		   "      --state DIR         default DIR/state\n"
		   "      --log DIR           default DIR/log\n"
		   "      --key FILE          the entry key; default DIR/keys/entry.key\n"
		   "      --socket PATH       agent door; default DIR/run/agent.sock\n"
		   "      --operator-socket PATH  default DIR/run/operator/operator.sock\n"
		   "      --watch-socket PATH watch door, for `pawl run`; default DIR/run/watch.sock\n"
		   "      --pid-file FILE     default DIR/run/pawld.pid\n"
		   "      --operators DIR     enrolled operators, NAME.vkey each; default DIR/operators\n"
		   "      --user NAME         run as NAME after the start (needs root)\n"
		   "      --snapshot-every N  entries between two snapshots that a start may go on from; default 50000\n"
		   "      --watch-ring BYTES  room for events that the kernel has not told yet, a power of two; default 8388608\n"
		   "      --watch-trees N     how many can be watched at the same time; default 1024\n"
		   "      --no-watch          without the supervising process: nothing starts pawld again after a crash\n"
		   "      --foreground        stay in the foreground, which is the default\n"
		   "      --check             check policy, key, folders and all of the log, then exit\n"
		   "      --probe             say as JSON what this machine has for watching processes, then exit\n"
		   "  -h, --help   -V, --version\n"
		   "\n"
		   "Signals: TERM, INT drain, write a stop entry and exit; HUP loads the policy again, whole or not at all.\n"
		   "Exit: 0 done, 64 usage, 65 the log cannot be continued, 70 internal, 75 busy, 78 policy, key or permissions.");
}

int exit_status_of(const struct pawl_error *err)
{
	switch (err->code) {
	case PAWL_OK:
		return EXIT_DONE;
	case PAWL_E_USAGE:
		return EXIT_USAGE;
	case PAWL_E_TAMPERED:
	case PAWL_E_INCOMPLETE:
		return EXIT_LOG;
	case PAWL_E_BUSY:
		return EXIT_BUSY;
	case PAWL_E_POLICY:
	case PAWL_E_KEY:
	case PAWL_E_UNSAFE:
		return EXIT_CONFIG;
	case PAWL_E_NOMEM:
	case PAWL_E_SYS:
	case PAWL_E_MALFORMED:
	case PAWL_E_AUTH:
	case PAWL_E_LIMIT:
	case PAWL_E_FULL:
	case PAWL_E_CONFLICT:
		break;
	}
	return EXIT_SOFTWARE;
}

static int put(char out[static PAWL_MAX_PATH], const char *a, const char *b, struct pawl_error *err)
{
	int n = snprintf(out, PAWL_MAX_PATH, "%s%s", a, b);

	if (n < 0 || n >= PAWL_MAX_PATH)
		return pawl_fail(err, PAWL_E_USAGE, "path is longer than %d bytes: %.60s…", PAWL_MAX_PATH - 1, a);
	return 0;
}

/* A whole number from least to most, and nothing else. */
static int count(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *ret, struct pawl_error *err)
{
	uint64_t n = 0;
	const char *p = text;

	while (*p >= '0' && *p <= '9' && n <= most)
		n = n * 10 + (uint64_t)(*p++ - '0');
	if (*p || p == text || n < least || n > most)
		return pawl_fail(err, PAWL_E_USAGE, "--%s takes a number from %" PRIu64 " to %" PRIu64 ", not %.20s", option, least, most, text);
	*ret = n;
	return 0;
}

/* What the kernel takes for a ring: a power of two, whole pages. */
static int ring_size(const char *text, uint64_t *ret, struct pawl_error *err)
{
	uint64_t n = 0;
	int r = count("watch-ring", text, MIN_RING, MAX_RING, &n, err);

	if (r == 0 && (n & (n - 1)))
		r = pawl_fail(err, PAWL_E_USAGE, "--watch-ring takes a power of two, not %.20s", text);
	if (r == 0)
		*ret = n;
	return r;
}

static int take_option(struct options *o, int c, struct pawl_error *err)
{
	char *const paths[] = { o->policy, o->state, o->log, o->key, o->socket, o->operator_socket, o->watch_socket, o->pid_file, o->operators };

	if ((c == 'd' || (c >= OPT_POLICY && c <= OPT_USER)) && optarg[0] == '\0') /* --user "$UNSET" must not mean root */
		return pawl_fail(err, PAWL_E_USAGE, "an option has an empty value; see pawld --help");
	if (c >= OPT_POLICY && c <= OPT_OPERATORS)
		return put(paths[c - OPT_POLICY], optarg, "", err);
	switch (c) {
	case 'd':
		return put(o->dir, optarg, "", err);
	case OPT_USER:
		if (strlen(optarg) >= sizeof(o->user))
			return pawl_fail(err, PAWL_E_USAGE, "user name is too long");
		memcpy(o->user, optarg, strlen(optarg) + 1);
		break;
	case OPT_SNAPSHOT:
		return count("snapshot-every", optarg, 1, MAX_COUNT, &o->snapshot_every, err);
	case OPT_RING:
		return ring_size(optarg, &o->watch_ring, err);
	case OPT_TREES:
		return count("watch-trees", optarg, 1, PAWL_MAX_TREES, &o->watch_trees, err);
	case OPT_NO_WATCH:
		o->no_watch = true;
		break;
	case OPT_CHECK:
		o->check = true;
		break;
	case OPT_PROBE:
		o->probe = true;
		break;
	case OPT_FOREGROUND: /* what it always does */
		break;
	case 'h':
		o->help = true;
		break;
	case 'V':
		o->version = true;
		break;
	default:
		return pawl_fail(err, PAWL_E_USAGE, "unknown or incomplete option; see pawld --help");
	}
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret, struct pawl_error *err)
{
	static const char *const below[] = { "/policy.yaml", "/state", "/log", "/keys/entry.key", "/run/agent.sock", "/run/operator/operator.sock",
					     "/run/watch.sock", "/run/pawld.pid", "/operators" };
	struct options o = { .dir = "", .own_group = OWNER_NO_GROUP };
	char *const paths[] = { o.policy, o.state, o.log, o.key, o.socket, o.operator_socket, o.watch_socket, o.pid_file, o.operators };
	int c, r = 0;

	optind = 1;
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "d:hV", long_options, NULL)) != -1)
		r = take_option(&o, c, err);
	if (r == 0 && optind < argc)
		r = pawl_fail(err, PAWL_E_USAGE, "unexpected argument \"%.60s\"; see pawld --help", argv[optind]);
	if (r == 0 && !o.dir[0] && !o.help && !o.version && !o.probe)
		r = home_dir(o.dir, sizeof(o.dir), err);
	for (size_t i = 0; i < PAWL_LEN(below) && r == 0; i++)
		if (!paths[i][0])
			r = put(paths[i], o.dir, below[i], err);
	if (r == 0)
		*ret = o;
	return r;
}
