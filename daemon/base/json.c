/* daemon/base/json.c - see json.h. The only file that includes <jansson.h>.
 * The text comes from a peer, and a parser that recurses must not be the first to see it: json_scan.c is. */
#include <jansson.h> /* first: json.h gives three of its names another meaning */

#include "daemon/base/json.h"

#include "daemon/base/json_scan.h"

#include <stddef.h>
#include <stdlib.h>

/* What the scanner leaves to jansson: repeated keys and reals beyond a double. The place is the token that ends where
 * it stopped. */
static int refuse(struct str text, unsigned max_depth, const json_error_t *je, struct pawl_error *err)
{
	enum json_error_code code = json_error_code(je);

	if (code != json_error_duplicate_key && code != json_error_numeric_overflow)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory while reading JSON");
	return json_scan_blame(text, max_depth, je->position > 0 ? (size_t)je->position : 0,
			       code == json_error_duplicate_key ? "a repeated key" : "not a finite number", err);
}

/* ---- memory: each document lives in blocks of its own, since it is made at once, read and dropped as a whole ---- */

#define MIN_BLOCK 512u
#define MAX_BLOCK (64u << 10) /* but for what is larger itself */
#define EXPECTED  10 /* bytes a byte of text: one block does for most requests */

struct block {
	struct block *next;
	size_t at, n; /* used, and in all, this head among it */
};

/* Of the thread alone, and only within json_parse(). starved: when jansson's text buffer cannot grow it drops a byte and goes on, and a
 * shortened text would be judged. So every failure of its allocator is noted here, and nothing parsed meanwhile is believed. */
static _Thread_local struct block *blocks;
static _Thread_local size_t block_bytes; /* of the next one */
static _Thread_local bool starved;

static size_t aligned(size_t n)
{
	return (n + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

static void *block_alloc(size_t n)
{
	size_t head = aligned(sizeof(struct block)), size = block_bytes;
	struct block *b = blocks;
	char *p;

	if (n > SIZE_MAX / 2) {
		starved = true;
		return NULL;
	}
	n = aligned(n);
	if (!b || b->n - b->at < n) {
		size = size > head + n ? size : head + n;
		b = malloc(size);
		if (!b) {
			starved = true;
			return NULL;
		}
		*b = (struct block){ .next = blocks, .at = head, .n = size };
		blocks = b;
	}
	p = (char *)b + b->at;
	b->at += n;
	return p;
}

static void block_keep(void *p) /* what jansson frees goes with the document */
{
	(void)p;
}

static void blocks_free(struct block *b)
{
	while (b) {
		struct block *next = b->next;

		free(b);
		b = next;
	}
}

static void blocks_start(size_t text_bytes)
{
	block_bytes = text_bytes < MAX_BLOCK / EXPECTED ? text_bytes * EXPECTED : MAX_BLOCK;
	if (block_bytes < MIN_BLOCK)
		block_bytes = MIN_BLOCK;
	blocks = NULL;
	starved = false;
}

#define SHARED SIZE_MAX /* jansson's count for true, false and null, which belong to nobody */

int json_parse(struct str text, unsigned max_depth, struct json **ret, struct pawl_error *err)
{
	json_error_t je;
	json_t *j;
	int r;

	r = json_scan(text, max_depth, err);
	if (r < 0)
		return r;
	json_set_alloc_funcs(block_alloc, block_keep);
	blocks_start(text.n);
	j = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
	if (j && !starved && j->refcount != SHARED) {
		j->refcount = (uintptr_t)blocks; /* nobody counts references here: the root's count says where its memory is */
		blocks = NULL;
	}
	blocks_free(blocks);
	blocks = NULL;
	if (starved)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory while reading JSON");
	if (!j)
		return refuse(text, max_depth, &je, err);
	*ret = (struct json *)j;
	return 0;
}

static json_t *raw(const struct json *j)
{
	return (json_t *)(uintptr_t)j; /* jansson's getters are const in fact, not all of them in type */
}

void json_free(struct json *j)
{
	if (j && raw(j)->refcount != SHARED)
		blocks_free((struct block *)(uintptr_t)raw(j)->refcount);
}

enum json_kind json_kind(const struct json *j)
{
	switch (json_typeof(raw(j))) {
	case JSON_OBJECT:
		return JSON_KIND_OBJECT;
	case JSON_ARRAY:
		return JSON_KIND_ARRAY;
	case JSON_STRING:
		return JSON_KIND_STRING;
	case JSON_INTEGER:
		return JSON_KIND_INT;
	case JSON_REAL:
		return JSON_KIND_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return JSON_KIND_BOOL;
	case JSON_NULL:
	default:
		return JSON_KIND_NULL;
	}
}

enum json_kind json_look(const struct json *j, struct json_scalar *ret)
{
	switch (json_typeof(raw(j))) {
	case JSON_STRING:
		ret->text = (struct str){ json_string_value(raw(j)), json_string_length(raw(j)) };
		return JSON_KIND_STRING;
	case JSON_INTEGER:
		ret->number = json_integer_value(raw(j));
		return JSON_KIND_INT;
	case JSON_REAL:
		ret->real = json_real_value(raw(j));
		return JSON_KIND_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		ret->yes = json_is_true(raw(j));
		return JSON_KIND_BOOL;
	case JSON_ARRAY:
		return JSON_KIND_ARRAY;
	case JSON_OBJECT:
		return JSON_KIND_OBJECT;
	case JSON_NULL:
	default:
		return JSON_KIND_NULL;
	}
}

size_t json_members(const struct json *obj, struct json_member *out, size_t max)
{
	json_t *o = raw(obj);
	size_t n = 0;

	for (void *it = json_object_iter(o); it && n < max; it = json_object_iter_next(o, it))
		out[n++] = (struct json_member){ { json_object_iter_key(it), json_object_iter_key_len(it) },
						 (struct json *)json_object_iter_value(it) };
	return n;
}

struct json *json_get(const struct json *obj, const char *key)
{
	return (struct json *)json_object_get(raw(obj), key);
}

struct json *json_get_str(const struct json *obj, struct str key)
{
	return key.p ? (struct json *)json_object_getn(raw(obj), key.p, key.n) : NULL;
}

size_t json_size(const struct json *j)
{
	return json_is_object(raw(j)) ? json_object_size(raw(j)) : json_array_size(raw(j));
}

struct json *json_at(const struct json *arr, size_t i)
{
	return (struct json *)json_array_get(raw(arr), i);
}

void *json_iter(const struct json *obj)
{
	return json_object_iter(raw(obj));
}

void *json_iter_next(const struct json *obj, void *it)
{
	return json_object_iter_next(raw(obj), it);
}

struct str json_iter_key(void *it)
{
	return (struct str){ json_object_iter_key(it), json_object_iter_key_len(it) };
}

struct json *json_iter_value(void *it)
{
	return (struct json *)json_object_iter_value(it);
}

struct str json_string(const struct json *j)
{
	const char *p = json_string_value(raw(j));

	return p ? (struct str){ p, json_string_length(raw(j)) } : STR_NONE;
}

int64_t json_int(const struct json *j)
{
	return json_integer_value(raw(j));
}

double json_real(const struct json *j)
{
	return json_number_value(raw(j));
}

bool json_true(const struct json *j)
{
	return json_is_true(raw(j));
}
