/* daemon/base/near.h - how far one short word is from another: for "did you mean". Pure. */
#ifndef PAWL_NEAR_H
#define PAWL_NEAR_H
#include "pawl/types.h"

#define NEAR_MAX 32 /* bytes; a longer word is near nothing */

/* Edits from a to b: insert, delete, replace, swap of two neighbours. NEAR_MAX when either is longer than that. */
size_t near_edits(struct str a, struct str b);

#endif
