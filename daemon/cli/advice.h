/* daemon/cli/advice.h - what would make a refused call pass, in a sentence. Pure. */
#ifndef PAWL_ADVICE_H
#define PAWL_ADVICE_H
#include "pawl/reason.h"
#include "pawl/types.h"

/* "" for an allow; never NULL. */
const char *advice_of(enum reason_code code, enum verdict answer);
#endif
