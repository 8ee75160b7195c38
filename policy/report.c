/* policy/report.c - all problems of one policy file, kept in the file's order. Owns its rows. */
#include "policy/report.h"

#include "daemon/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void report_init(struct policy_report *rep, const char *file)
{
	*rep = (struct policy_report){ .rows = NULL };
	(void)snprintf(rep->file, sizeof(rep->file), "%s", file ? file : "policy");
}

void policy_report_done(struct policy_report *rep)
{
	if (!rep)
		return;
	free(rep->rows);
	rep->rows = NULL;
	rep->n = 0;
	rep->errors = 0;
}

/* Negative: a comes first. Rows are compared by place; an error before a warning of the same place. */
static int by_place(const struct policy_problem *a, const struct policy_problem *b)
{
	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	if (a->column != b->column)
		return a->column < b->column ? -1 : 1;
	return (int)a->warning - (int)b->warning;
}

/* The row to give up for p when all are taken, or NULL when p itself is the least useful one. */
static struct policy_problem *least_useful(struct policy_report *rep, const struct policy_problem *p)
{
	struct policy_problem *worst = NULL;
	const struct policy_problem *than = p;

	for (size_t i = 0; i < rep->n; i++) {
		struct policy_problem *row = &rep->rows[i];

		if (row->warning != than->warning ? row->warning : by_place(row, than) > 0)
			than = worst = row;
	}
	return worst;
}

static struct policy_problem *row_for(struct policy_report *rep, const struct policy_problem *p, bool *ret_nomem)
{
	struct policy_problem *rows;

	if (rep->n == REPORT_MAX_ROWS)
		return least_useful(rep, p);
	if (rep->n % 16 == 0) {
		rows = realloc(rep->rows, (rep->n + 16) * sizeof(*rows));
		if (!rows) {
			*ret_nomem = true;
			return NULL;
		}
		rep->rows = rows;
	}
	return &rep->rows[rep->n++];
}

int report_add(struct policy_report *rep, bool warning, unsigned line, unsigned column, const char *fmt, ...)
{
	struct policy_problem p = { .warning = warning, .line = line, .column = column };
	struct policy_problem *row;
	bool nomem = false;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p.msg, sizeof(p.msg), fmt, ap);
	va_end(ap);
	row = row_for(rep, &p, &nomem);
	if (nomem)
		return PAWL_E_NOMEM;
	if (row)
		*row = p;
	if (!warning)
		rep->errors++;
	return 0;
}

/* Insertion, because rows mostly come in order, equal places must keep theirs, and there are at most 200. */
void report_sort(struct policy_report *rep)
{
	for (size_t i = 1; i < rep->n; i++) {
		struct policy_problem p = rep->rows[i];
		size_t k = i;

		for (; k > 0 && by_place(&p, &rep->rows[k - 1]) < 0; k--)
			rep->rows[k] = rep->rows[k - 1];
		rep->rows[k] = p;
	}
}

const char *report_quote(struct str s, char out[static REPORT_QUOTE])
{
	const size_t room = REPORT_QUOTE - 6; /* for the last escape's tail, the ellipsis and the quotes */
	size_t n = 0, i = 0;

	out[n++] = '"';
	for (; i < s.n && n + 4 <= room; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >= 0x20 && c < 0x7f)
			out[n++] = (char)c;
		else
			n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
	}
	(void)snprintf(out + n, REPORT_QUOTE - n, "%s\"", i < s.n ? "..." : "");
	return out;
}

void policy_report_text(const struct policy_report *rep, struct buf *out)
{
	size_t shown = 0;

	for (size_t i = 0; i < rep->n; i++) {
		const struct policy_problem *p = &rep->rows[i];

		buf_printf(out, "%s:%u:%u: %s: %s\n", rep->file, p->line, p->column, p->warning ? "warning" : "error",
			   p->msg);
		shown += !p->warning;
	}
	if (rep->errors > shown)
		buf_printf(out, "%s: error: %zu more errors are not shown\n", rep->file, rep->errors - shown);
}
