/* tests/unit/test_console.c - the console's pure core: cards in, text out; lines in, orders out. A16 and A10 as a
 * person meets them. */
#include "daemon/cli/ask.h"
#include "daemon/cli/console.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* 2026-11-29T18:41:10Z, counted with date -d */
#define NOW 1795977670

struct desk {
	struct console *c;
	struct buf out;
	struct console_order order;
};

static struct card_view narrow(void)
{
	struct card_view view = CARD_VIEW_SHORT;

	view.mode = ESCAPE_UTF8;
	view.now_s = NOW;
	return view;
}

static void open_desk(struct desk *d, bool can_answer)
{
	struct card_view view = narrow();
	struct pawl_error err;

	*d = (struct desk){ .out = BUF_MAX(8u << 20) };
	assert_int_equal(console_new(&view, can_answer, &d->c, &err), 0);
}

static void close_desk(struct desk *d)
{
	console_free(d->c);
	buf_done(&d->out);
}

static struct json *parse(const char *text)
{
	struct pawl_error err;
	struct json *doc = NULL;

	if (json_parse(str_of(text), PAWL_MAX_DEPTH, &doc, &err) < 0)
		fail_msg("the test's own JSON: %s: %.100s", err.msg, text);
	return doc;
}

/* ids: "56 57", those that wait. Fetches what the core wants, as the loop does; a missing card is one of the ids from
 * 900 on. */
static void waiting(struct desk *d, const char *ids)
{
	char list[2048], card[512];
	struct json *doc;
	size_t n = (size_t)snprintf(list, sizeof(list), "[");
	uint64_t id;

	for (const char *p = ids; *p; p += strcspn(p, " "), p += strspn(p, " "))
		n += (size_t)snprintf(list + n, sizeof(list) - n,
				      "%s{\"review\":\"r_%.*s\",\"tool\":\"t.%.*s\",\"state\":\"pending\"}",
				      n > 1 ? "," : "", (int)strcspn(p, " "), p, (int)strcspn(p, " "), p);
	(void)snprintf(list + n, sizeof(list) - n, "]");
	doc = parse(list);
	console_list_begin(d->c);
	console_list_page(d->c, doc);
	console_list_end(d->c, false, &d->out);
	json_free(doc);
	while ((id = console_wants(d->c))) {
		(void)snprintf(card, sizeof(card),
			       "{\"review\":\"r_%llu\",\"state\":\"pending\",\"tool\":\"t\",\"agent\":\"crew\","
			       "\"session\":\"s_1\",\"args\":\"{}\"}",
			       (unsigned long long)id);
		doc = id < 900 ? parse(card) : NULL;
		console_card(d->c, id, doc, &d->out);
		json_free(doc);
	}
}

static void type(struct desk *d, const char *line)
{
	console_line(d->c, str_of(line), &d->order, &d->out);
}

/* ---- lines → orders ---- */

/* A script: "+IDS" what waits now; ">LINE" a line typed; "!ID" that order went through; "~ID" somebody was first. Then
 * what the last line must have ordered ("" nothing), and a piece of all that was printed. */
static const struct {
	const char *name;
	const char *steps[12];
	const char *order, *says;
} scripts[] = {
	{ "resume without a reason", { "+56", ">r", ">" }, "resume r_56", NULL },
	{ "skip with one", { "+56", ">s", ">not today" }, "skip r_56 not today", NULL },
	{ "abort", { "+56", ">a", ">x" }, "abort r_56 x", NULL },
	{ "abort the tree", { "+56", ">a tree", ">x" }, "abort r_56 tree x", NULL },
	{ "abort another's tree", { "+56 57", ">a r_57 tree", ">" }, "abort r_57 tree", NULL },
	{ "whole words", { "+56", ">  resume  56 ", ">ok" }, "resume r_56 ok", NULL },
	{ "another card", { "+56 57", ">s r_57", ">" }, "skip r_57", NULL },
	{ "CR at the end, from a raw terminal", { "+56", ">r\r", ">ok\r" }, "resume r_56 ok", NULL },
	{ "quit", { "+56", ">q" }, "quit", NULL },
	{ "quit with nothing", { ">quit" }, "quit", NULL },

	{ "a key alone sends nothing", { "+56", ">r" }, "", NULL },
	{ "think again", { "+56", ">r", ">." }, "", "nothing was sent for r_56" },
	{ "and then another key", { "+56", ">r", ">.", ">s", ">" }, "skip r_56", NULL },
	{ "a reason that looks like a key is a reason", { "+56", ">s", ">r" }, "skip r_56 r", NULL },
	{ "a reason that looks like quit is one", { "+56", ">s", ">q" }, "skip r_56 q", NULL },
	{ "a reason with ESC", { "+56", ">r", ">\x1b[2J" }, "", "a reason has at most 256 bytes" },
	{ "and then a good one", { "+56", ">r", ">\x1b[2J", ">fine" }, "resume r_56 fine", NULL },
	{ "a reason that is no UTF-8", { "+56", ">r", ">\xff" }, "", "a reason has" },
	{ "upper case is no key", { "+56", ">R" }, "", "not understood" },
	{ "a reason behind the key is not taken", { "+56", ">r looks good" }, "", "nothing was sent" },
	{ "tree is for abort", { "+56", ">s tree" }, "", "nothing was sent" },
	{ "no such card", { "+56", ">r r_99" }, "", "no such card" },
	{ "a session is no card", { "+56", ">r s_56" }, "", "no such card" },
	{ "not a number", { "+56", ">r r_5x" }, "", "no such card" },
	{ "a leading zero", { "+56", ">r r_056" }, "", "no such card" },
	{ "nothing waits", { "+", ">r" }, "", "nothing waits" },
	{ "an empty line is nothing", { "+56", ">", ">" }, "", NULL },
	{ "help", { ">?" }, "", "the call may run, once" },
	{ "list", { "+56 57", ">l" }, "", "* r_56  t.56\n  r_57  t.57\n" },

	{ "answered: the next takes its place, shown again",
	  { "+56 57", ">r", ">", "!56", "+57", ">s", ">" },
	  "skip r_57",
	  "r_56 done" },
	{ "gone by itself: a key typed for it answers no other",
	  { "+56 57", "+57", ">r" },
	  "",
	  "r_56 waits no more and nothing was sent" },
	{ "not even one that comes at that moment", { "+56", "+57", ">r" }, "", "nothing was sent" },
	{ "nor on the line after it", { "+56", "+57", ">r", ">r", ">" }, "", "no card is chosen" },
	{ "named, it can be", { "+56 57", "+57", ">r", ">r 57", ">" }, "resume r_57", NULL },
	{ "a line later there is still none chosen", { "+56 57", "+57", ">r", ">r" }, "", "no card is chosen" },
	{ "v chooses", { "+56 57", "+57", ">v 57", "+57", ">r", ">" }, "resume r_57", NULL },
	{ "gone while the reason is typed: the order goes out, pawld says no",
	  { "+56 57", ">r", "+57", ">q" },
	  "resume r_56 q",
	  NULL },
	{ "A10 somebody was first: told, and the next comes",
	  { "+56 57", ">r", ">", "~56", "+57", ">s", ">" },
	  "skip r_57",
	  "r_56 NOT answered" },
	{ "refused: it waits on and is still the one",
	  { "+56 57", ">r", ">", "=56", "+56 57", ">s", ">" },
	  "skip r_56",
	  "r_56 NOT answered" },
	{ "a new card does not take the place of one",
	  { "+56", "+56 57", ">r", ">" },
	  "resume r_56",
	  "to answer it: r, s or a with r_57" },
	{ "a card that could not be had is not answered unseen",
	  { "+901", ">r 901", ">" },
	  "",
	  "cannot be answered unseen" },
	{ "nor as the only one", { "+901", ">r", ">" }, "", "no card is chosen" },
};

static void describe(const struct console_order *o, struct buf *out)
{
	if (o->what == CONSOLE_QUIT)
		buf_puts(out, "quit");
	if (o->what != CONSOLE_ANSWER)
		return;
	buf_printf(out, "%s r_%llu%s", o->action, (unsigned long long)o->id, o->tree ? " tree" : "");
	if (o->reason.n) {
		buf_putc(out, ' ');
		buf_str_add(out, o->reason);
	}
}

static void step(struct desk *d, const char *s)
{
	uint64_t id = strtoull(s + 1, NULL, 10);

	d->order = (struct console_order){ .what = CONSOLE_NOTHING };
	if (*s == '+')
		waiting(d, s + 1);
	else if (*s == '>')
		type(d, s + 1);
	else
		console_answered(d->c, id, *s != '=', *s == '!' ? STR("done") : STR("NOT answered"), &d->out);
}

static void card_now(struct desk *d, const char *money)
{
	char text[256];
	struct json *doc;

	(void)snprintf(text, sizeof(text), "{\"review\":\"r_56\",\"state\":\"pending\",\"tool\":\"t\",\"args\":\"{}\",\"money\":\"%s\",\"tokens\":7}", money);
	doc = parse(text);
	console_card(d->c, 56, doc, &d->out);
	json_free(doc);
}

/* The amounts that lay before the person when they chose go along with a yes, whatever the card has grown to since. */
static void test_a_yes_says_what_was_shown(void **state)
{
	struct desk d;

	(void)state;
	open_desk(&d, true);
	waiting(&d, "56"); /* a card without amounts */
	type(&d, "r");
	type(&d, "");
	assert_true(d.order.what == CONSOLE_ANSWER && !d.order.shown.known);
	card_now(&d, "0.2");
	type(&d, "r");
	card_now(&d, "0.9");
	type(&d, "fine");
	assert_true(d.order.what == CONSOLE_ANSWER && d.order.shown.known && d.order.shown.tokens == 7);
	assert_string_equal(d.order.shown.money, "0.2");
	type(&d, "s");
	type(&d, "");
	assert_true(d.order.what == CONSOLE_ANSWER && !d.order.shown.known); /* a no is one to any amount */
	close_desk(&d);
}

static void test_scripts(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(scripts); i++) {
		struct buf got = BUF_MAX(512);
		struct desk d;

		open_desk(&d, true);
		for (size_t k = 0; k < PAWL_LEN(scripts[i].steps) && scripts[i].steps[k]; k++)
			step(&d, scripts[i].steps[k]);
		describe(&d.order, &got);
		buf_putc(&d.out, '\0');
		if (!str_is(buf_str(&got), scripts[i].order))
			fail_msg("%s: ordered \"%.*s\", expected \"%s\"", scripts[i].name, STR_ARG(buf_str(&got)),
				 scripts[i].order);
		if (scripts[i].says && !strstr(d.out.p, scripts[i].says))
			fail_msg("%s: \"%s\" is not in:\n%s", scripts[i].name, scripts[i].says, d.out.p);
		buf_done(&got);
		close_desk(&d);
	}
}

static void test_watch_only(void **state)
{
	struct desk d;

	(void)state;
	open_desk(&d, false);
	waiting(&d, "56");
	type(&d, "r");
	assert_int_equal(d.order.what, CONSOLE_NOTHING);
	assert_false(console_asking(d.c));
	type(&d, "");
	assert_int_equal(d.order.what, CONSOLE_NOTHING);
	buf_putc(&d.out, '\0');
	assert_non_null(strstr(d.out.p, "only watches"));
	close_desk(&d);
}

/* The prompt names what an answer would be for. */
/* Shadow mode is said when the console finds it, and its end; not again and again, and nothing where pawld does not tell. */
static void test_mode(void **state)
{
	static const struct {
		const char *mode, *says; /* "": nothing */
	} rows[] = {
		{ NULL, "" },	    { "enforce", "" }, { "shadow", "MODE SHADOW: pawld refuses nothing" }, { "shadow", "" },
		{ NULL, "" }, { "enforce", "mode enforce" }, { "enforce", "" },
	};
	struct desk d;

	(void)state;
	open_desk(&d, true);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		buf_reset(&d.out);
		console_mode(d.c, str_of(rows[i].mode), &d.out);
		if (rows[i].says[0] ? !memmem(d.out.p, d.out.n, rows[i].says, strlen(rows[i].says)) : d.out.n != 0)
			fail_msg("row %zu: %.*s", i, STR_ARG(buf_str(&d.out)));
	}
	close_desk(&d);
}

static void test_prompt(void **state)
{
	struct desk d;

	(void)state;
	open_desk(&d, true);
	waiting(&d, "56 57");
	buf_reset(&d.out);
	console_prompt(d.c, &d.out);
	assert_true(str_is(buf_str(&d.out), "r_56 t.56, 2 waiting [r s a v l ? q]: "));
	type(&d, "a r_57 tree");
	buf_reset(&d.out);
	console_prompt(d.c, &d.out);
	assert_true(str_is(buf_str(&d.out), "abort the whole tree of r_57 t.57: reason (Enter sends, . does not): "));
	close_desk(&d);
}

/* Cards beyond the table are said, not lost: they come as others go. */
static void test_many(void **state)
{
	char *list = malloc(128 * 1024);
	struct json *doc;
	struct desk d;
	size_t n = 0;

	(void)state;
	assert_non_null(list);
	for (int i = 1; i <= CONSOLE_MAX_CARDS + 5; i++)
		n += (size_t)snprintf(list + n, 128 * 1024 - n, "%s{\"review\":\"r_%d\",\"tool\":\"t\"}",
				      i > 1 ? "," : "[", i);
	(void)snprintf(list + n, 128 * 1024 - n, "]");
	doc = parse(list);
	open_desk(&d, true);
	console_list_begin(d.c);
	console_list_page(d.c, doc);
	console_list_end(d.c, false, &d.out);
	type(&d, "l");
	buf_putc(&d.out, '\0');
	assert_non_null(strstr(d.out.p, "more than 1000 wait"));
	assert_null(strstr(d.out.p, "r_1001"));
	json_free(doc);
	free(list);
	close_desk(&d);
}

/* ---- cards → text ---- */

#define HEAD                                                                                                          \
	"\"review\":\"r_56\",\"session\":\"s_12\",\"agent\":\"crew\",\"tool\":\"bank.refund\",\"state\":\"pending\"," \
	"\"opened\":\"2026-11-29T18:40:10.000000000Z\",\"expires\":\"2026-11-29T18:50:22.000000000Z\""
#define WHY                                                                                        \
	",\"asks\":[{\"code\":\"budget\",\"rule\":\"run\"},{\"code\":\"rule\",\"rule\":\"ask\"}]," \
	"\"reason\":{\"message\":\"over the budget\",\"counter\":\"4.999\",\"limit\":\"5\",\"unit\":\"USD\"}"
#define REST ",\"money\":\"4800\",\"tokens\":12,\"joined\":2,\"operator\":null,\"operator_reason\":null"

static const struct {
	const char *name, *card;
	const char *has[8]; /* pieces, in this order */
} cards[] = {
	{ "all that a person needs",
	  "{" HEAD WHY REST ",\"args\":\"{\\\"amount\\\":4800,\\\"to\\\":[\\\"x\\\",null,true,1.5]}\",\"before\":[{"
			    "\"decision\":\"d_51\",\"tool\":\"web.search\","
	  "\"verdict\":\"allow\",\"outcome\":\"ok\",\"now\":\"2026-11-29T18:40:00.000000000Z\"}]}",
	  { "== r_56 ==\nstate    | pending, 9m 12s left, until 2026-11-29T18:50:22Z\n",
	    "who      | agent \"crew\", session s_12, asked at 2026-11-29T18:40:10Z\n", "tool     | bank.refund\n",
	    "amount   | money 4800, tokens 12, calls that ask 2\n",
	    "args     | {\n         |   \"amount\": 4800\n         |   \"to\": [\n         |     \"x\"\n         |     "
	    "null\n         |     true\n         |     1.5\n"
	    "         |   ]\n         | }\n         | (40 bytes, SHA-256 ",
	    "why      | over the budget\n         | counter 4.999, limit 5 USD\n         | budget, rule run\n         "
	    "| and rule ask\n",
	    "before   | 2026-11-29T18:40:00Z  d_51  web.search  allow  ok\n" } },
	{ "nothing before, nothing known",
	  "{" HEAD "}",
	  { "money not said", "args     | not kept here", "why      | held for a person",
	    "before   | nothing: the session's first call" } },
	{ "no longer pending",
	  "{\"review\":\"r_56\",\"state\":\"resumed\",\"operator\":\"anna\",\"operator_reason\":\"ok \\u001b[1m\"}",
	  { "state    | resumed: r_56 is resumed by anna: ok \\u{1b}[1m\n" } },
	{ "A16 ESC, bidi and zero width in arguments",
	  "{" HEAD ",\"args\":\"{\\\"f\\\":\\\"a\\\\u001b[2J\\\\u202e\\u200bz\\\"}\"}",
	  { "\"f\": \"a\\u{1b}[2J\\u{202e}\\u{200b}z\"\n",
	    "! MARKED | characters shown as \\u{...}: 1 control, 2 hidden or turning\n" } },
	{ "A16 in a name of an argument",
	  "{" HEAD ",\"args\":\"{\\\"\\u202ea\\\":1}\"}",
	  { "\"\\u{202e}a\": 1\n", "! MARKED" } },
	{ "A16 in the agent's name",
	  "{\"review\":\"r_56\",\"state\":\"pending\",\"agent\":\"a\\u0430\\nwho | agent root\"}",
	  { "who      | agent \"a\\u{430}\\u{a}who | agent root\"\n", "! MARKED" } },
	{ "A16 in the message",
	  "{\"review\":\"r_56\",\"state\":\"pending\",\"reason\":{\"message\":\"\\u009b31m\"}}",
	  { "why      | \\u{9b}31m\n", "! MARKED" } },
	{ "A16 in what came before",
	  "{\"review\":\"r_56\",\"state\":\"pending\",\"before\":[{\"tool\":\"\\u001bc\"}]}",
	  { "before   | \\u{1b}c\n", "! MARKED" } },
	{ "a text that would end its quotes",
	  "{" HEAD ",\"args\":\"{\\\"a\\\":\\\"x\\\\\\\", \\\\\\\"b\\\"}\"}",
	  { "\"a\": \"x\\\", \\\"b\"\n" } },
	{ "arguments that pawld cut",
	  "{" HEAD ",\"args\":\"{\\\"a\\\":\\\"x\",\"args_bytes\":100000}",
	  { "args     | \"{\\\"a\\\":\\\"x\"\n", "(7 bytes, SHA-256 ",
	    "! CUT    | pawld kept the first 7 bytes of 100000: " } },
	{ "cut, and not said how much",
	  "{" HEAD ",\"args\":\"{\\\"a\\\":\\\"x\"}",
	  { "! CUT    | pawld kept the first 7 bytes of more: " } },
	{ "not a card", "{\"review\":\"s_1\"}", { "no card" } },
	{ "an id with a tail", "{\"review\":\"r_1\\u001b\"}", { "no card" } },
	{ "types that are not those",
	  "{\"review\":\"r_56\",\"state\":7,\"agent\":[1],\"tool\":{},\"expires\":9,\"asks\":{},\"before\":3,"
	  "\"reason\":\"x\",\"args\":5}",
	  { "== r_56 ==", "args     | not kept here" } },
};

static void test_cards(void **state)
{
	struct card_view view = narrow();

	(void)state;
	view.width = 120;
	for (size_t i = 0; i < PAWL_LEN(cards); i++) {
		struct buf out = BUF_MAX(1u << 20);
		struct json *doc = parse(cards[i].card);
		const char *at;

		card_show(&view, doc, &out);
		buf_putc(&out, '\0');
		assert_true(buf_ok(&out));
		at = out.p;
		for (size_t k = 0; k < PAWL_LEN(cards[i].has) && cards[i].has[k]; k++) {
			at = strstr(at, cards[i].has[k]);
			if (!at)
				fail_msg("%s: \"%s\" is not there, or not there in its order:\n%s", cards[i].name,
					 cards[i].has[k], out.p);
		}
		json_free(doc);
		buf_done(&out);
	}
}

/* Every line is the header's, or has our label and bar at its beginning; none is wider than the terminal; no byte moves
 * a cursor. */
static void check_lines(const struct buf *out, size_t width)
{
	const char *p = out->p, *end = out->p + out->n;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : 0;

		assert_non_null(nl);
		if (n && !(n > 6 && memcmp(p, "== r_", 5) == 0) && (n < 11 || p[9] != '|' || p[10] != ' '))
			fail_msg("a line that is not ours: %.*s", (int)n, p);
		if (n > width)
			fail_msg("%zu columns in %zu: %.*s", n, width, (int)n, p);
		for (size_t i = 0; i < n; i++)
			assert_true(p[i] >= 0x20 && p[i] < 0x7f);
		p = nl + 1;
	}
}

/* 100 kB of blanks, a forged card, then the harmful end: bounded, wrapped behind the bar, with length and digest, the
 * end shown. */
static void test_long(void **state)
{
	static const char forged[] = "== r_57 ==                 state    | pending";
	static const size_t widths[] = { 0, 40, 80, 133 };
	struct buf text = BUF_MAX(1u << 20), out = BUF_MAX(1u << 20), whole = BUF_MAX(8u << 20);
	struct card_view view = narrow();
	struct json *doc;

	(void)state;
	buf_puts(&text, "{" HEAD ",\"args\":\"{\\\"a\\\":\\\"");
	for (int i = 0; i < 2000; i++)
		buf_puts(&text,
			 i % 2 ? forged : "                                                                    ");
	buf_puts(&text, "rm -rf /\\\"}\"}");
	buf_putc(&text, '\0');
	doc = parse(text.p);
	for (size_t i = 0; i < PAWL_LEN(widths); i++) {
		view.width = widths[i];
		buf_reset(&out);
		card_show(&view, doc, &out);
		check_lines(&out, view.width < 40 ? 40 : view.width);
		assert_true(buf_ok(&out) && out.n < 4096);
	}
	buf_putc(&out, '\0');
	assert_non_null(strstr(out.p, "rm -rf /\" (cut: "));
	assert_non_null(strstr(out.p, "not all is shown: `pawl review show r_56` shows all"));
	view = CARD_VIEW_WHOLE;
	card_show(&view, doc, &whole);
	check_lines(&whole, 80);
	assert_true(whole.n > 100000);
	json_free(doc);
	buf_done(&text);
	buf_done(&out);
	buf_done(&whole);
}

/* A thousand members: the lines are bounded, and how many are left out is said. */
static void test_many_members(void **state)
{
	struct buf text = BUF_MAX(1u << 20), out = BUF_MAX(1u << 20);
	struct card_view view = narrow();
	struct json *doc;

	(void)state;
	buf_puts(&text, "{" HEAD ",\"args\":\"{");
	for (int i = 0; i < 1000; i++)
		buf_printf(&text, "%s\\\"k%d\\\":[{}]", i ? "," : "", i);
	buf_puts(&text, "}\"}");
	buf_putc(&text, '\0');
	doc = parse(text.p);
	card_show(&view, doc, &out);
	check_lines(&out, 80);
	buf_putc(&out, '\0');
	assert_true(out.n < 4096);
	assert_non_null(strstr(out.p, "! "));
	assert_non_null(strstr(out.p, "2962 lines are left out")); /* 3002 less 40 */
	json_free(doc);
	buf_done(&text);
	buf_done(&out);
}

static void test_rows(void **state)
{
	static const struct {
		const char *card, *want;
	} rows[] = {
		{ "{" HEAD WHY "}", "r_56  pending  bank.refund  crew  s_12  9m 12s left  budget run\n" },
		{ "{\"review\":\"r_7\",\"state\":\"skipped\",\"tool\":\"t\",\"agent\":\"a\\u001b\",\"session\":\"s_1\","
		  "\"operator\":\"bob\"}",
		  "r_7  skipped  t  a\\u{1b}  s_1  by bob  ! 1 control\n" },
		{ "{}", "-  -  -  -  -  -\n" },
	};
	struct card_view view = narrow();

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct buf out = BUF_MAX(4096);
		struct json *doc = parse(rows[i].card);

		card_row(&view, doc, &out);
		if (!str_is(buf_str(&out), rows[i].want))
			fail_msg("row %zu: %.*s", i, STR_ARG(buf_str(&out)));
		json_free(doc);
		buf_done(&out);
	}
}

static void test_time(void **state)
{
	static const struct {
		struct str s;
		int64_t want;
	} rows[] = {
		/* date -u -d … +%s */
		{ STR("1970-01-01T00:00:01Z"), 1 },
		{ STR("2026-11-29T18:41:10.123456789Z"), NOW },
		{ STR("2024-02-29T23:59:59.0Z"), 1709251199 },
		{ STR("2000-03-01T00:00:00Z"), 951868800 },
		{ STR("2026-13-01T00:00:00Z"), 0 },
		{ STR("2026-11-29 18:41:10Z"), 0 },
		{ STR("2026-11-29T18:41:10"), 0 },
		{ STR(""), 0 },
		{ STR_NONE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (card_time(rows[i].s) != rows[i].want)
			fail_msg("row %zu: %lld", i, (long long)card_time(rows[i].s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_yes_says_what_was_shown), cmocka_unit_test(test_scripts),      cmocka_unit_test(test_watch_only), cmocka_unit_test(test_mode), cmocka_unit_test(test_prompt),
		cmocka_unit_test(test_many),         cmocka_unit_test(test_cards),      cmocka_unit_test(test_long),
		cmocka_unit_test(test_many_members), cmocka_unit_test(test_rows),       cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
