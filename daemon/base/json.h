/* daemon/base/json.h - parsed JSON, read-only. json.c is the only file that includes <jansson.h>.
 * A struct json * from json_parse() is owned by the caller; every other one is borrowed from its root. */
#ifndef PAWL_JSON_H
#define PAWL_JSON_H
#include "pawl/error.h"

struct json; /* opaque */
/* libjansson has functions of these three names, and the dynamic linker would hand it ours: other names for the linker. */
#define json_string pawl_json_string
#define json_real pawl_json_real
#define json_true pawl_json_true

enum json_kind { JSON_KIND_NULL, JSON_KIND_BOOL, JSON_KIND_INT, JSON_KIND_REAL, JSON_KIND_STRING, JSON_KIND_ARRAY, JSON_KIND_OBJECT };

/* Strict: one value and nothing after it, UTF-8 without NUL (also not as \u0000), no lone surrogate, no repeated key, depth
 * <= max_depth (checked before the parser recurses), integers within int64, reals finite. On failure err->field is the
 * dotted path of the value at fault ("estimate.money", "args.list.3", "" when there is none) and msg says what is wrong. */
PAWL_MUST_USE int json_parse(struct str text, unsigned max_depth, struct json **ret, struct pawl_error *err);
void json_free(struct json *j); /* accepts NULL */

enum json_kind json_kind(const struct json *j);
struct json *json_get(const struct json *obj, const char *key); /* NULL: no such key, or not an object */
struct json *json_get_str(const struct json *obj, struct str key);
size_t json_size(const struct json *j); /* members or elements; 0 for the rest */
struct json *json_at(const struct json *arr, size_t i);
/* Members in the text's order: for (it = json_iter(o); it; it = json_iter_next(o, it)) */
void *json_iter(const struct json *obj);
void *json_iter_next(const struct json *obj, void *it);
struct str json_iter_key(void *it);
struct json *json_iter_value(void *it);
/* The first max of them at once, for who goes over whole documents; returns how many. */
struct json_member {
	struct str key;
	const struct json *value;
};
size_t json_members(const struct json *obj, struct json_member *out, size_t max);
/* All of a value that is no array or object, in one look: what is not of its kind is left as it was. */
struct json_scalar {
	struct str text;
	int64_t number;
	double real;
	bool yes;
};
enum json_kind json_look(const struct json *j, struct json_scalar *ret);
struct str json_string(const struct json *j); /* STR_NONE unless a string */
int64_t json_int(const struct json *j);	      /* 0 unless an integer */
double json_real(const struct json *j);	      /* of an integer or a real */
bool json_true(const struct json *j);

#endif
