/* daemon/base/json_scan.h - is this text one strict JSON value? For json.c alone: what json_parse() promises, less repeated keys and reals
 * beyond a double. */
#ifndef PAWL_JSON_SCAN_H
#define PAWL_JSON_SCAN_H
#include "pawl/error.h"

/* 0, or PAWL_E_MALFORMED with the path of the value at fault. */
PAWL_MUST_USE int json_scan(struct str text, unsigned max_depth, struct pawl_error *err);
/* Refuses a text that json_scan() took: `what` is wrong with the key or scalar that ends at offset `end`, which is named. */
int json_scan_blame(struct str text, unsigned max_depth, size_t end, const char *what, struct pawl_error *err);
#endif
