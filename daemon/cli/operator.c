/* daemon/cli/operator.c - see operator.h. Speaks only the wire; what comes back is input, shown with control bytes escaped. */
#include "daemon/cli/operator.h"

#include "daemon/base/home.h"
#include "daemon/base/json.h"
#include "daemon/cli/ask.h"
#include "daemon/cli/escape.h"
#include "daemon/cli/sp.h"
#include "daemon/cli/top.h"

#include <getopt.h>
#include <stdio.h>

#define TIMEOUT_MS 5000
#define MAX_REPLY (2u << 20)

struct asked {
	const char *verb, *dir, *socket;
	bool json;
};

static int usage(const char *verb, FILE *out, int status)
{
	(void)fprintf(out,
		      "usage: pawl %s [--dir DIR | --operator-socket PATH] [--json]\n"
		      "%s\n"
		      "  --dir DIR   pawld's folder (default: $PAWL_DIR, /var/lib/pawl for root,\n"
		      "              else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		      "  --operator-socket PATH\n"
		      "              pawld's operator door, when it is not DIR/run/operator/operator.sock\n"
		      "  --json      what pawld replied\n"
		      "Exit status: 0 done, 1 pawld could not be asked, 2 usage.\n",
		      verb,
		      str_is(str_of(verb), "sessions") ? "Lists the sessions that pawld holds." : "Says how pawld is: policy, log, sessions, counters, probes.");
	return status;
}

/* A text of the reply, safe for a terminal. */
static void show(struct str s)
{
	struct buf safe = BUF_MAX(MAX_REPLY);

	escape_text(&safe, s, escape_mode_here(), 0, NULL);
	(void)fwrite(safe.p ? safe.p : "", 1, safe.n, stdout);
	buf_done(&safe);
}

static void show_value(const struct json *j)
{
	switch (json_kind(j)) {
	case JSON_KIND_STRING:
		show(json_string(j));
		break;
	case JSON_KIND_INT:
		(void)printf("%lld", (long long)json_int(j));
		break;
	case JSON_KIND_REAL:
		(void)printf("%g", json_real(j));
		break;
	case JSON_KIND_BOOL:
		(void)fputs(json_true(j) ? "yes" : "no", stdout);
		break;
	case JSON_KIND_NULL:
		(void)putchar('-');
		break;
	case JSON_KIND_ARRAY: /* of words, as what a tree is held by */
		for (size_t i = 0; i < json_size(j); i++) {
			(void)fputs(i ? ", " : "", stdout);
			show(json_string(json_at(j, i)));
		}
		if (json_size(j) == 0)
			(void)putchar('-');
		break;
	case JSON_KIND_OBJECT:
		(void)printf("(%zu)", json_size(j));
		break;
	}
}

/* {state, why} and nothing else: a probe, a promise. */
static bool is_fact(const struct json *j)
{
	return json_size(j) == 2 && json_get(j, "state") && json_get(j, "why");
}

/* name: value lines, objects indented below their name. The reply's depth is bounded by the parser. */
static void show_object(const struct json *j, int indent)
{
	for (void *it = json_iter(j); it; it = json_iter_next(j, it)) {
		const struct json *v = json_iter_value(it);

		(void)printf("%*s", indent, "");
		show(json_iter_key(it));
		if (json_kind(v) == JSON_KIND_OBJECT && is_fact(v)) {
			(void)fputs(": ", stdout);
			show(json_string(json_get(v, "state")));
			(void)fputs(json_string(json_get(v, "why")).n ? ", " : "", stdout);
			show(json_string(json_get(v, "why")));
			(void)putchar('\n');
			continue;
		}
		if (json_kind(v) == JSON_KIND_OBJECT) {
			(void)puts(":");
			show_object(v, indent + 2);
			continue;
		}
		(void)fputs(": ", stdout);
		show_value(v);
		(void)putchar('\n');
	}
}

/* What a session's processes use of what they may, and what stopped them. */
static void show_watch(const struct json *watch)
{
	static const struct {
		const char *key;
		enum top_kind kind;
	} columns[] = { { "processes", TOP_COUNT }, { "cpu", TOP_SECONDS }, { "memory", TOP_BYTES },
			{ "wall", TOP_SECONDS },    { "execs", TOP_COUNT }, { "kills", TOP_COUNT } };
	struct buf text = BUF_MAX(4096);

	if (!watch || json_kind(watch) != JSON_KIND_OBJECT) {
		(void)fputs("\t-\t-\t-\t-\t-\t-\t-\t-", stdout);
		return;
	}
	(void)putchar('\t');
	show(json_string(json_get(watch, "state")));
	for (size_t c = 0; c < PAWL_LEN(columns); c++) {
		buf_putc(&text, '\t');
		top_number(json_get(watch, columns[c].key), columns[c].kind, escape_mode_here(), &text);
	}
	buf_putc(&text, '\t');
	if (top_stopped(watch))
		top_killed(json_get(watch, "killed"), escape_mode_here(), &text);
	else
		buf_putc(&text, '-');
	(void)fwrite(text.p ? text.p : "", 1, text.n, stdout);
	buf_done(&text);
}

static bool any_watched(const struct json *rows)
{
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *watch = json_get(json_at(rows, i), "watch");

		if (watch && json_kind(watch) == JSON_KIND_OBJECT)
			return true;
	}
	return false;
}

static void show_sessions(const struct json *reply)
{
	static const char *const columns[] = { "session", "agent", "opened", "ended", "decisions", "executions", "reservations", "reviews" };
	const struct json *rows = json_get(reply, "sessions");
	bool watched = any_watched(rows);

	for (size_t c = 0; c < PAWL_LEN(columns); c++)
		(void)printf("%s%s", c ? "\t" : "", columns[c]);
	(void)puts(watched ? "\twatch\tprocesses\tcpu\tmemory\twall\texecs\tkills\tstopped" : "");
	for (size_t i = 0; i < json_size(rows); i++) {
		for (size_t c = 0; c < PAWL_LEN(columns); c++) {
			const struct json *v = json_get(json_at(rows, i), columns[c]);

			(void)fputs(c ? "\t" : "", stdout);
			if (v)
				show_value(v);
			else
				(void)putchar('-');
		}
		if (watched)
			show_watch(json_get(json_at(rows, i), "watch"));
		(void)putchar('\n');
	}
	if (json_true(json_get(reply, "more")))
		(void)puts("… more; --json with the wire's `after` shows the rest");
}

static int answer(const struct asked *a, struct str body)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct json *reply = NULL;
	int status = 0;

	if (json_parse(body, PAWL_MAX_DEPTH + 2, &reply, &err) < 0) {
		(void)fprintf(stderr, "pawl %s: not an answer of pawld: %s\n", a->verb, err.msg);
		return 1;
	}
	if (json_get(reply, "error")) {
		struct str said = json_string(json_get(json_get(reply, "error"), "message"));
		struct buf safe = BUF_MAX(4096);

		escape_text(&safe, said.n ? said : STR("refused"), escape_mode_here(), 0, NULL);
		(void)fprintf(stderr, "pawl %s: %.*s\n", a->verb, (int)safe.n, safe.p ? safe.p : "");
		buf_done(&safe);
		status = 1;
	} else if (a->json) {
		status = ask_json(a->verb, body);
	} else if (str_is(str_of(a->verb), "sessions")) {
		show_sessions(reply);
	} else {
		show_object(reply, 0);
	}
	json_free(reply);
	if (fflush(stdout) != 0 || ferror(stdout))
		status = 1;
	return status;
}

static int ask(const struct asked *a)
{
	struct buf out = BUF_MAX(MAX_REPLY), path = BUF_MAX(1100);
	struct pawl_error err = { .code = PAWL_OK };
	struct str body = str_is(str_of(a->verb), "sessions") ? STR("{\"v\":1,\"op\":\"session.list\",\"limit\":1000}") :
								STR("{\"v\":1,\"op\":\"status\"}");
	int status = 1;

	if (a->socket)
		buf_puts(&path, a->socket);
	else
		buf_printf(&path, "%s/run/operator/operator.sock", a->dir);
	buf_putc(&path, '\0');
	if (!buf_ok(&path))
		(void)fprintf(stderr, "pawl %s: the path is too long\n", a->verb);
	else if (sp_request(path.p, body, TIMEOUT_MS, &out, &err) < 0)
		(void)fprintf(stderr, "pawl %s: %s\n", a->verb, err.msg);
	else
		status = answer(a, buf_str(&out));
	buf_done(&out);
	buf_done(&path);
	return status;
}

int cli_operator(int argc, char **argv)
{
	static const struct option longs[] = { { "dir", required_argument, NULL, 'd' }, { "operator-socket", required_argument, NULL, 's' },
					       { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	struct asked a = { .verb = argv[0] };
	struct pawl_error err = { .code = PAWL_OK };
	char home[1024];
	int c;

	while ((c = getopt_long(argc, argv, "d:jh", longs, NULL)) != -1) {
		if (c == 'd')
			a.dir = optarg;
		else if (c == 's')
			a.socket = optarg;
		else if (c == 'j')
			a.json = true;
		else
			return c == 'h' ? usage(argv[0], stdout, 0) : usage(argv[0], stderr, 2);
	}
	if (optind < argc)
		return usage(argv[0], stderr, 2);
	if (!a.dir && !a.socket) {
		if (home_dir(home, sizeof(home), &err) < 0) {
			(void)fprintf(stderr, "pawl %s: %s\n", a.verb, err.msg);
			return 2;
		}
		a.dir = home;
	}
	return ask(&a);
}
