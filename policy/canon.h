/* policy/canon.h - RFC 8785 text, with one superset: integers within int64 keep their exact digits. Pure. */
#ifndef PAWL_CANON_H
#define PAWL_CANON_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"

/* Appends the canonical text of j. drop: dotted paths below j ("since", "a.b"; a path through an array applies to each element)
 * whose members are left out; n_drop 0 = none. Fails only by .failed in out. */
void canon_json(const struct json *j, const struct str *drop, size_t n_drop, struct buf *out);
/* The same; a text at one of the fold paths is written with each run of white space as one blank and none at its ends. */
void canon_json_fold(const struct json *j, const struct str *drop, size_t n_drop, const struct str *fold, size_t n_fold, struct buf *out);
/* ECMAScript Number::toString of a finite double. */
size_t canon_double(double d, char out[static 32]);
#endif
