/* daemon/cli/differ.h - where two JSON values differ, for people and programs. Pure. */
#ifndef PAWL_DIFFER_H
#define PAWL_DIFFER_H
#include "daemon/base/buf.h"

/* Appends [{"field":"reason.code","logged":…,"again":…}, …]: a value that is on one side alone is null on the other. At most max rows, in
 * the texts' order; returns how many there are. A text that is no JSON is one row, "". */
size_t differ_rows(struct str logged, struct str again, size_t max, struct buf *out);
#endif
