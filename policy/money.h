/* policy/money.h - decimal text <-> int64 nano-units; never through a double. */
#ifndef PAWL_MONEY_H
#define PAWL_MONEY_H
#include "pawl/error.h"

enum money_round { MONEY_EXACT /* > 9 decimals are malformed: limits, policy */, MONEY_UP /* estimates and costs */ };
/* [0-9]+(\.[0-9]+)? and nothing else: no sign, exponent, blank, NaN. PAWL_E_MALFORMED with a message that quotes the text (escaped, cut). */
PAWL_MUST_USE int money_parse(struct str text, enum money_round round, int64_t *ret, struct pawl_error *err);
#define MONEY_TEXT 32
size_t money_text(int64_t nano, char out[static MONEY_TEXT]); /* shortest: "5", "0.002", "-0.1"; NUL-terminated, returns length */
/* "30s", "250ms", "5m", "1h", "7d", "1w", "1.5h"; whole ns, >= 0, int64. */
PAWL_MUST_USE int span_parse(struct str text, int64_t *ret_ns, struct pawl_error *err);
size_t span_text(int64_t ns, char out[static MONEY_TEXT]); /* in the largest unit that divides it, else seconds with decimals */
#endif
