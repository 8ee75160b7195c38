/* policy/report.h - collecting the problems of a policy file. The public half is in pawl/policy.h.
 * Text from the file is quoted through report_quote(), so that a file cannot write to a terminal through its own
 * errors. */
#ifndef PAWL_REPORT_H
#define PAWL_REPORT_H
#include "pawl/policy.h"

#define REPORT_MAX_ROWS 200
#define REPORT_QUOTE    56

void report_init(struct policy_report *rep, const char *file);
/* 0, or PAWL_E_NOMEM. Above REPORT_MAX_ROWS the rows that stand first in the file are kept, errors before warnings. */
PAWL_PRINTF(5, 6)
int report_add(struct policy_report *rep, bool warning, unsigned line, unsigned column, const char *fmt, ...);
void report_sort(struct policy_report *rep);
/* s in double quotes, bytes outside printable ASCII as \xNN, cut with an ellipsis; returns out. */
const char *report_quote(struct str s, char out[static REPORT_QUOTE]);
#define QUOTED(s) report_quote((s), (char[REPORT_QUOTE]){ 0 })

#endif
