/* daemon/cli/explain_text.c - the object of explain.c as lines. Pure; every text of it is escaped by lines.c. */
#include "daemon/cli/explain.h"

#include <stdio.h>

static void tests_text(struct lines *l, const struct json *rule, const char *key)
{
	const struct json *tests = json_get(rule, key);

	for (size_t i = 0; i < json_size(tests); i++) {
		const struct json *t = json_at(tests, i);

		line_label(l, "");
		buf_printf(l->out, "    %-7s", key);
		(void)line_value(l, "", t, "test", "");
		(void)line_value(l, ": ", t, "result", "");
		if (str_is(json_string(json_get(t, "result")), "failed"))
			buf_puts(l->out, " (missing, of another type, or not to be resolved)");
		line_end(l);
	}
}

static void rules_text(struct lines *l, const struct json *rules)
{
	for (size_t i = 0; i < json_size(rules); i++) {
		const struct json *r = json_at(rules, i);

		line_label(l, i ? "" : "rules");
		(void)line_value(l, "", r, "id", "");
		(void)line_value(l, " (", r, "answer", "");
		(void)line_value(l, ", line ", r, "line", "): ");
		(void)line_value(l, "", r, "result", "");
		if (json_true(json_get(r, "decides")))
			buf_puts(l->out, "; it decides");
		if (str_is(json_string(json_get(r, "result")), "matched"))
			(void)line_value(l, "; remembered for the ", r, "sticks", "");
		line_end(l);
		tests_text(l, r, "when");
		tests_text(l, r, "unless");
	}
	if (json_size(rules) == 0) {
		line_label(l, "rules");
		buf_puts(l->out, "none names this tool");
		line_end(l);
	}
}

static void budgets_text(struct lines *l, const struct json *rows)
{
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *b = json_at(rows, i);

		line_label(l, i ? "" : "budgets");
		(void)line_value(l, "", b, "budget", "");
		(void)line_value(l, " (per ", b, "scope", "");
		(void)line_value(l, ", ", b, "tool", "");
		buf_puts(l->out, "): ");
		if (!line_value(l, "takes ", b, "takes", " of "))
			buf_puts(l->out, json_get(b, "takes") ? "takes what is not known, of " : "open for ");
		(void)line_value(l, "", b, "limit", " ");
		(void)line_value(l, "", b, "unit", "");
		(void)line_value(l, ", whole again at ", b, "reset_at", "");
		line_end(l);
	}
}

static void loops_text(struct lines *l, const struct json *rows)
{
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *r = json_at(rows, i);

		line_label(l, i ? "" : "loops");
		(void)line_value(l, "", r, "rule", "");
		(void)line_value(l, ": limit ", r, "limit", "");
		(void)line_value(l, " in the last ", r, "window", " executions");
		(void)line_value(l, ", then ", r, "then", "");
		line_end(l);
	}
}

static void breakers_text(struct lines *l, const struct json *rows)
{
	for (size_t i = 0; i < json_size(rows); i++) {
		const struct json *b = json_at(rows, i);

		line_label(l, i ? "" : "breakers");
		(void)line_value(l, "", b, "breaker", ": opens after");
		(void)line_value(l, " ", b, "failures", " failures");
		if (json_get(b, "failures") && json_get(b, "denials"))
			buf_puts(l->out, " or");
		(void)line_value(l, " ", b, "denials", " denials");
		if (json_get(b, "failures") || json_get(b, "denials"))
			buf_puts(l->out, json_get(b, "breaches") ? " in a row or" : " in a row");
		(void)line_value(l, " ", b, "breaches", " breaches of the watch");
		(void)line_value(l, " within ", b, "within", "");
		(void)line_value(l, ", for ", b, "cool_down", "");
		(void)line_value(l, ", until ", b, "until", "");
		line_end(l);
	}
}

static void answer_text(struct lines *l, const char *label, const struct json *answer)
{
	const struct json *why = json_get(answer, "reason");

	line_label(l, label);
	(void)line_value(l, "", answer, "verdict", "");
	if (str_is(json_string(json_get(answer, "mode")), "shadow"))
		buf_puts(l->out, " (mode shadow)");
	if (json_string(json_get(why, "message")).n)
		(void)line_value(l, "\n          ", why, "message", "");
	line_end(l);
}

static void reason_text(struct lines *l, const struct json *why)
{
	line_label(l, "reason");
	(void)line_value(l, "", why, "code", "");
	(void)line_value(l, ", rule ", why, "rule", "");
	(void)line_value(l, ", ", why, "counter", " of ");
	(void)line_value(l, "", why, "limit", " ");
	(void)line_value(l, "", why, "unit", "");
	line_end(l);
}

void explain_text(struct lines *l, const struct json *doc)
{
	const struct json *would = json_get(doc, "would");

	answer_text(l, "verdict", doc);
	if (would)
		answer_text(l, "would", would);
	reason_text(l, json_get(would ? would : doc, "reason"));
	line_label(l, "tool");
	(void)line_value(l, "", doc, "tool", "");
	buf_puts(l->out, json_true(json_get(doc, "listed")) ? "" : " (not listed in `tools`)");
	line_end(l);
	rules_text(l, json_get(doc, "rules"));
	budgets_text(l, json_get(doc, "budgets"));
	loops_text(l, json_get(doc, "loops"));
	breakers_text(l, json_get(doc, "breakers"));
	if (json_string(json_get(doc, "passes")).n) {
		line_label(l, "passes");
		(void)line_value(l, would ? "enforced, with " : "with ", doc, "passes", "");
		line_end(l);
	}
	buf_puts(l->out, "\nAs the first call of a new session: nothing is spent, remembered or open yet.\n");
}
