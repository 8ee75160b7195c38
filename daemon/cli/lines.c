/* daemon/cli/lines.c - see lines.h. Owns nothing that outlives a call. */
#include "daemon/cli/lines.h"

#include <stdio.h>

void line_label(struct lines *l, const char *label)
{
	buf_printf(l->out, "%-10s", label);
}

bool line_value(struct lines *l, const char *before, const struct json *doc, const char *key, const char *after)
{
	const struct json *v = json_get(doc, key);

	if (!v || json_kind(v) == JSON_KIND_NULL)
		return false;
	buf_puts(l->out, before);
	switch (json_kind(v)) {
	case JSON_KIND_STRING:
		escape_text(l->out, json_string(v), l->mode, 0, NULL);
		break;
	case JSON_KIND_INT:
		buf_i64(l->out, json_int(v));
		break;
	case JSON_KIND_BOOL:
		buf_puts(l->out, json_true(v) ? "yes" : "no");
		break;
	case JSON_KIND_NULL:
	case JSON_KIND_REAL:
	case JSON_KIND_ARRAY:
	case JSON_KIND_OBJECT:
		buf_puts(l->out, "?");
		break;
	}
	buf_puts(l->out, after);
	return true;
}

void line_end(struct lines *l)
{
	buf_putc(l->out, '\n');
}

int lines_fail(const char *verb, const struct pawl_error *err)
{
	struct buf line = BUF_MAX(8192);

	if (err->field[0]) {
		escape_text(&line, str_of(err->field), ESCAPE_ASCII, 0, NULL);
		buf_puts(&line, ": ");
	}
	escape_text(&line, str_of(err->msg), escape_mode_here(), 0, NULL);
	(void)fprintf(stderr, "pawl %s: %.*s\n", verb, STR_ARG(buf_str(&line)));
	buf_done(&line);
	return err->code == PAWL_E_USAGE ? 2 : 1;
}

int lines_answer(const char *verb, const struct buf *doc_text, bool as_json, void (*show)(struct lines *l, const struct json *doc))
{
	struct buf out = BUF_MAX(64u << 20);
	struct lines l = { &out, escape_mode_here() };
	struct pawl_error err = { .code = PAWL_OK };
	struct json *doc = NULL;
	int status = 0;

	if (!buf_ok(doc_text)) {
		(void)pawl_fail(&err, PAWL_E_NOMEM, "the answer is too long, or memory is short");
	} else if (as_json) {
		escape_json(&out, buf_str(doc_text));
		buf_putc(&out, '\n');
	} else if (json_parse(buf_str(doc_text), PAWL_MAX_DEPTH, &doc, &err) == 0) {
		show(&l, doc);
	}
	if (err.code == PAWL_OK && !buf_ok(&out))
		(void)pawl_fail(&err, PAWL_E_NOMEM, "the answer is too long, or memory is short");
	if (err.code == PAWL_OK && (fwrite(out.p, 1, out.n, stdout) != out.n || fflush(stdout) != 0))
		(void)pawl_fail_errno(&err, "cannot write the answer");
	if (err.code != PAWL_OK)
		status = lines_fail(verb, &err);
	json_free(doc);
	buf_done(&out);
	return status;
}
