/* daemon/cli/review.c - see review.h. Decides nothing: it shows what pawld says and carries an answer. */
#include "daemon/cli/review.h"

#include "policy/canon.h"

#define REQUEST BUF_MAX(8192)
#define PAGE    200

#define LOOKED "Exit status: 0 done, 1 failed, 2 usage.\n"
#define EXITS "Exit status: 0 done, 1 refused or failed, 2 usage, 3 already answered.\n"
#define KEY_OPTIONS                                                                                              \
	"  --key FILE    the operator's key (default: $PAWL_KEY, else operator.key in $XDG_CONFIG_HOME/pawl or " \
	"~/.config/pawl)\n"                                                                                      \
	"  --as NAME     the name that the key is enrolled under (default: the key's own name)\n"

/* ---- what console.c shares ---- */

int review_page(const char *socket, bool all, uint64_t after, struct json **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf rq = REQUEST;

	buf_printf(&rq, "{\"v\":1,\"op\":\"review.list\",\"all\":%s,\"limit\":%d", all ? "true" : "false", PAGE);
	if (after)
		buf_printf(&rq, ",\"after\":\"r_%llu\"", (unsigned long long)after);
	buf_putc(&rq, '}');
	return door_ask(socket, buf_str(&rq), NULL, ret, err);
}

int review_fetch(const char *socket, uint64_t id, struct buf *raw, struct json **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf rq = REQUEST;

	buf_printf(&rq, "{\"v\":1,\"op\":\"review.show\",\"review\":\"r_%llu\"}", (unsigned long long)id);
	return door_ask(socket, buf_str(&rq), raw, ret, err);
}

int review_resolve(const char *socket, const struct signer *who, uint64_t id, const char *action, struct str reason,
		   bool tree, const struct card_amounts *shown, struct json **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf rq = REQUEST;

	buf_printf(&rq, "{\"v\":1,\"op\":\"review.resolve\",\"review\":\"r_%llu\",\"action\":\"%s\",\"reason\":",
		   (unsigned long long)id, action);
	buf_json(&rq, reason.p ? reason : STR(""));
	if (shown && shown->known) {
		buf_puts(&rq, ",\"shown\":{\"money\":");
		buf_json(&rq, str_of(shown->money));
		buf_printf(&rq, ",\"tokens\":%lld}", (long long)shown->tokens);
	}
	buf_puts(&rq, tree ? ",\"tree\":true}" : "}");
	return door_order(socket, who, buf_str(&rq), NULL, ret, err);
}

/* ---- reviews ---- */

static int list_all(struct asking *a, const struct card_view *view, struct buf *out, struct pawl_error *err)
{
	uint64_t after = 0, last = 0;
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		struct json *page = NULL;
		const struct json *rows;

		r = review_page(a->socket, a->all, after, &page, err);
		rows = json_get(page, "reviews");
		for (size_t i = 0; r == 0 && i < json_size(rows); i++) {
			last = card_id(json_at(rows, i));
			if (a->json) {
				buf_puts(out, out->n && out->p[out->n - 1] != '[' ? "," : "");
				canon_json(json_at(rows, i), NULL, 0, out);
			} else {
				card_row(view, json_at(rows, i), out);
			}
		}
		more = r == 0 && json_true(json_get(page, "more")) &&
		       last > after; /* a page that leads nowhere is the last */
		after = last;
		json_free(page);
	}
	return r;
}

int cli_reviews(int argc, char **argv)
{
	static const char usage[] =
	    "usage: pawl reviews [--all] [--json]\n"
	    "Lists the cards that wait for a person, oldest first: id, state, tool, agent, session, time left, "
	    "reason.\n\n"
	    "  --all         answered, timed-out and closed ones too, as far as their sessions are kept\n"
	    "  --json        {\"reviews\": [card, ...]}, in ASCII\n" LOOKED;
	struct asking a = { .verb = argv[0] };
	struct card_view view = CARD_VIEW_SHORT;
	struct pawl_error err = { .code = PAWL_OK };
	struct buf out = BUF_MAX(64u << 20), json = BUF_MAX(256u << 20);
	int status = 0;

	if (!ask_options(&a, argc, argv, ASK_JSON | ASK_ALL, usage, &status))
		return status;
	if (a.n_words)
		return ask_usage(stderr, usage, 2);
	if (a.json)
		buf_puts(&out, "{\"reviews\":[");
	else
		ask_view(&a, &view);
	if (list_all(&a, &view, &out, &err) < 0) {
		buf_done(&out);
		return ask_fail(a.verb, &err);
	}
	if (!a.json) {
		if (!out.n)
			buf_puts(&out, a.all ? "no card\n" : "nothing waits\n");
		return ask_print(a.verb, &out, 0);
	}
	buf_puts(&out, "]}");
	escape_json(&json, buf_str(&out));
	buf_putc(&json, '\n');
	json.failed |= !buf_ok(&out);
	buf_done(&out);
	return ask_print(a.verb, &json, 0);
}

/* The one id that a verb wants; false: usage. */
static bool only_id(const struct asking *a, int first, char letter, uint64_t *ret)
{
	if (a->n_words != first + 1)
		return false;
	*ret = card_id_parse(str_of(a->words[first]), letter, true);
	if (!*ret)
		(void)fprintf(stderr, "pawl %s: not an id such as %c_56\n", a->verb, letter);
	return *ret != 0;
}

int cli_review(int argc, char **argv)
{
	static const char usage[] =
	    "usage: pawl review show ID [--json]\n"
	    "Shows a card whole: what would happen, why it was held, who asks, the calls before.\n"
	    "Every character that hides, turns or imitates text is shown as \\u{hex}, and the card is marked.\n\n"
	    "  --json        pawld's reply, in ASCII\n" LOOKED;
	struct asking a = { .verb = "review show" };
	struct card_view view = CARD_VIEW_WHOLE;
	struct pawl_error err = { .code = PAWL_OK };
	struct buf raw = BUF_MAX(SIGN_MAX_REPLY), out = BUF_MAX(64u << 20);
	struct json *card = NULL;
	uint64_t id = 0;
	int status = 0;

	if (!ask_options(&a, argc, argv, ASK_JSON, usage, &status))
		return status;
	if (a.n_words < 1 || !str_is(str_of(a.words[0]), "show") || !only_id(&a, 1, 'r', &id))
		return ask_usage(stderr, usage, 2);
	if (!a.json)
		ask_view(&a, &view);
	if (review_fetch(a.socket, id, &raw, &card, &err) < 0)
		status = ask_fail(a.verb, &err);
	else if (a.json)
		status = ask_json(a.verb, buf_str(&raw));
	else
		card_show(&view, card, &out);
	buf_done(&raw);
	json_free(card);
	return status || a.json ? status : ask_print(a.verb, &out, 0);
}

/* ---- orders ---- */

/* Says what was done: subject, verb, and the entry that holds it. */
static int done(struct asking *a, const char *what, const struct json *reply)
{
	int64_t seq = json_int(json_get(json_get(reply, "log"), "seq"));

	(void)printf("%s", what);
	if (seq > 0)
		(void)printf("; log entry %lld", (long long)seq);
	(void)putchar('\n');
	return ask_end(a->verb, 0);
}

/* Someone was first: says what stands. */
static int too_late(struct asking *a, uint64_t id, const struct pawl_error *why)
{
	struct card_view view = CARD_VIEW_SHORT;
	struct buf line = BUF_MAX(8192);
	struct pawl_error err;
	struct json *card = NULL;
	int status = ask_fail(a->verb, why);

	view.mode = escape_mode_here();
	if (review_fetch(a->socket, id, NULL, &card, &err) == 0) {
		card_outcome(&view, card, &line);
		(void)fprintf(stderr, "pawl %s: nothing was changed: %.*s", a->verb, STR_ARG(buf_str(&line)));
	}
	json_free(card);
	buf_done(&line);
	return status;
}

int cli_answer(int argc, char **argv)
{
	static const char usage[] =
	    "usage: pawl resume ID [--reason TEXT]    this call may run, once, if nothing else refuses it by then\n"
	    "       pawl skip ID [--reason TEXT]      this call is not run; its session goes on\n"
	    "       pawl abort ID [--reason TEXT] [--tree]   its session ends with all below it (--tree: from the "
	    "root)\n"
	    "Answers a card, signed with the operator's key.\n\n"
	    "  --reason TEXT kept in the log\n" KEY_OPTIONS EXITS;
	struct asking a = { .verb = argv[0], .reason = STR("") };
	struct pawl_error err = { .code = PAWL_OK };
	struct json *reply = NULL;
	uint64_t id = 0;
	char what[64];
	int r, status = 0;
	bool abort_it = str_is(str_of(argv[0]), "abort"), skip = str_is(str_of(argv[0]), "skip");

	if (!ask_options(&a, argc, argv, ASK_KEY | ASK_REASON | (abort_it ? ASK_TREE : 0u), usage, &status))
		return status;
	if (!only_id(&a, 0, 'r', &id))
		return ask_usage(stderr, usage, 2);
	r = ask_unlock(&a, &err);
	if (r == 0)
		r = review_resolve(a.socket, &a.who, id, argv[0], a.reason, a.tree, NULL, &reply, &err);
	ask_done(&a);
	if (r < 0)
		return r == PAWL_E_CONFLICT ? too_late(&a, id, &err) : ask_fail(a.verb, &err);
	(void)snprintf(what, sizeof(what), "r_%llu %s", (unsigned long long)id,
		       abort_it ? "aborted"
		       : skip   ? "skipped"
				: "resumed");
	status = done(&a, what, reply);
	json_free(reply);
	return status;
}

/* Unlocks, orders, says what was done. Frees rq. */
static int order(struct asking *a, struct buf *rq, const char *what)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct json *reply = NULL;
	int status, r = buf_ok(rq) ? ask_unlock(a, &err) : pawl_fail(&err, PAWL_E_USAGE, "the request is too long");

	if (r == 0)
		r = door_order(a->socket, &a->who, buf_str(rq), NULL, &reply, &err);
	ask_done(a);
	buf_done(rq);
	status = r < 0 ? ask_fail(a->verb, &err) : done(a, what, reply);
	json_free(reply);
	return status;
}

int cli_session(int argc, char **argv)
{
	static const char usage[] = "usage: pawl session abort ID [--reason TEXT] [--tree]\n"
				    "Ends a session with all below it; its open calls settle at what they reserved.\n\n"
				    "  --tree        from the session's root\n"
				    "  --reason TEXT kept in the log\n" KEY_OPTIONS EXITS;
	struct asking a = { .verb = "session abort", .reason = STR("") };
	struct buf rq = REQUEST;
	uint64_t id = 0;
	char what[64];
	int status = 0;

	if (!ask_options(&a, argc, argv, ASK_KEY | ASK_REASON | ASK_TREE, usage, &status))
		return status;
	if (a.n_words < 1 || !str_is(str_of(a.words[0]), "abort") || !only_id(&a, 1, 's', &id))
		return ask_usage(stderr, usage, 2);
	buf_printf(&rq, "{\"v\":1,\"op\":\"session.abort\",\"session\":\"s_%llu\",\"reason\":", (unsigned long long)id);
	buf_json(&rq, a.reason);
	buf_puts(&rq, a.tree ? ",\"tree\":true}" : "}");
	(void)snprintf(what, sizeof(what), "s_%llu aborted", (unsigned long long)id);
	return order(&a, &rq, what);
}

static void member(struct buf *rq, const char *key, struct str value)
{
	if (!value.n)
		return;
	buf_key(rq, key);
	buf_json(rq, value);
}

int cli_breaker(int argc, char **argv)
{
	static const char usage[] =
	    "usage: pawl breaker reset ID [--session ID] [--owner NAME] [--tool TOOL] [--reason TEXT]\n"
	    "Closes a breaker. One that the policy keeps per session, agent or tool needs to be told whose.\n\n"
	    "  --session ID, --owner NAME, --tool TOOL    which one, as `session.state` and the log name it\n"
	    "  --reason TEXT kept in the log\n" KEY_OPTIONS EXITS;
	struct asking a = { .verb = "breaker reset", .reason = STR("") };
	struct buf rq = REQUEST;
	struct str id;
	uint64_t session = 0;
	int status = 0;

	if (!ask_options(&a, argc, argv, ASK_KEY | ASK_REASON | ASK_BREAKER, usage, &status))
		return status;
	if (a.session.n && !(session = card_id_parse(a.session, 's', true)))
		return ask_usage(stderr, usage, 2);
	if (a.n_words != 2 || !str_is(str_of(a.words[0]), "reset"))
		return ask_usage(stderr, usage, 2);
	id = str_of(a.words[1]);
	if (!id.n || id.n > PAWL_MAX_ID || !ask_reason_ok(id) || !ask_reason_ok(a.owner) || !ask_reason_ok(a.tool))
		return ask_usage(stderr, usage, 2);
	buf_puts(&rq, "{\"v\":1,\"op\":\"breaker.reset\"");
	member(&rq, "breaker", id);
	if (session)
		buf_printf(&rq, ",\"session\":\"s_%llu\"", (unsigned long long)session);
	member(&rq, "owner", a.owner);
	member(&rq, "tool", a.tool);
	buf_key(&rq, "reason");
	buf_json(&rq, a.reason);
	buf_putc(&rq, '}');
	return order(&a, &rq, "breaker reset");
}

static void problems(const struct json *list)
{
	for (size_t i = 0; i < json_size(list); i++) {
		const struct json *p = json_at(list, i);
		struct buf line = BUF_MAX(64u << 10);

		escape_text(&line, json_string(json_get(p, "message")), escape_mode_here(), 0, NULL);
		(void)printf("%lld:%lld: %s: %.*s\n", (long long)json_int(json_get(p, "line")),
			     (long long)json_int(json_get(p, "column")),
			     json_true(json_get(p, "warning")) ? "warning" : "error", STR_ARG(buf_str(&line)));
		buf_done(&line);
	}
}

int cli_reload(int argc, char **argv)
{
	static const char usage[] =
	    "usage: pawl reload [--reason TEXT]\n"
	    "Has pawld read its policy file again. A file with an error changes nothing.\n\n"
	    "  --reason TEXT kept in the log\n" KEY_OPTIONS
	    "Exit status: 0 loaded, 1 not loaded or refused, 2 usage.\n";
	PAWL_CLEANUP(buf_done) struct buf rq = REQUEST;
	struct asking a = { .verb = argv[0] };
	struct pawl_error err = { .code = PAWL_OK };
	struct json *reply = NULL;
	bool loaded;
	int r, status = 0;

	if (!ask_options(&a, argc, argv, ASK_KEY | ASK_REASON, usage, &status))
		return status;
	if (a.n_words)
		return ask_usage(stderr, usage, 2);
	buf_puts(&rq, "{\"v\":1,\"op\":\"policy.reload\"");
	member(&rq, "reason", a.reason);
	buf_putc(&rq, '}');
	r = ask_unlock(&a, &err);
	if (r == 0)
		r = door_order(a.socket, &a.who, buf_str(&rq), NULL, &reply, &err);
	ask_done(&a);
	if (r < 0)
		return ask_fail(a.verb, &err);
	loaded = json_true(json_get(reply, "loaded"));
	problems(json_get(reply, "problems"));
	status = done(&a, loaded ? "policy loaded" : "policy NOT loaded: the one before stays in force", reply);
	json_free(reply);
	return loaded ? status : 1;
}
