/* policy/space.h - texts that differ in white space alone become equal: for arguments that a tool's `fold_space` names.
 * Pure. */
#ifndef PAWL_SPACE_H
#define PAWL_SPACE_H
#include "daemon/base/buf.h"

/* b->p[at .. b->n) is a text as buf_json() wrote it, quotes included. Each run of white space (Unicode's White_Space)
 * in it becomes one blank, and none is left at its ends. */
void space_fold(struct buf *b, size_t at);
#endif
