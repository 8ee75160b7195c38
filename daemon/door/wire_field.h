/* daemon/door/wire_field.h - one field of a request: its name, its type, its bounds, where its value goes. Private to
 * wire*.c. */
#ifndef PAWL_WIRE_FIELD_H
#define PAWL_WIRE_FIELD_H
#include "daemon/door/wire.h"

enum wire_type {
	WIRE_VERSION,  /* exactly 1 */
	WIRE_SEEN,     /* "op": read before */
	WIRE_TEXT,     /* struct str, 1 to max bytes, no control characters */
	WIRE_NOTE,     /* the same, may be empty */
	WIRE_PATH,     /* struct str, absolute, up to max bytes */
	WIRE_TOOL,     /* struct str: the letters of a tool name, either case */
	WIRE_ID,       /* uint64_t; letter */
	WIRE_HEX,      /* uint8_t[max], lower case */
	WIRE_WORD,     /* an enum: words[value], NULL = a value that may not be sent */
	WIRE_INT,      /* int64_t, min to max */
	WIRE_SPAN,     /* int64_t ns, min to max */
	WIRE_MONEY_UP, /* int64_t nano-units; finer decimals round up */
	WIRE_MONEY,    /* int64_t nano-units; finer decimals are malformed */
	WIRE_SHARE,    /* the same, or "25%": request_open's money limit or share_percent */
	WIRE_BOOL,
	WIRE_TOKENS,   /* int64_t: an integer, or the sum over an object of classes */
	WIRE_CURRENCY, /* the policy's, or malformed */
	WIRE_ARGS,     /* const struct json *: any object */
	WIRE_LABELS,   /* const struct json *: an object of texts */
	WIRE_OBJECT,   /* rows of its own */
};

#define WIRE_MAX_INT ((INT64_C(1) << 53) - 1) /* what every JSON reader can hold */
#define WIRE_NO_FLAG UINT16_MAX

struct wire_field {
	struct str name;
	enum wire_type type;
	bool required;
	char letter;
	uint16_t off, flag; /* in struct request; flag: a bool that says "given" */
	int64_t min, max;
	const char *const *words;
	const struct wire_field *rows; /* WIRE_OBJECT */
	size_t n;                      /* of words or rows */
};

struct wire_reader {
	struct request *rq;
	struct str currency;
	struct pawl_error *err;
	char path[96]; /* dotted, of the object being read; "" at the top */
};

/* Reads obj by its rows: unknown fields, missing ones and bad values are PAWL_E_MALFORMED with the path of the field.
 */
PAWL_MUST_USE int wire_read(struct wire_reader *r, const struct json *obj, const struct wire_field *rows, size_t n);
/* PAWL_E_MALFORMED for the field `name` of the object being read. */
PAWL_PRINTF(3, 4) int wire_bad(struct wire_reader *r, struct str name, const char *fmt, ...);
int wire_bad_kind(struct wire_reader *r, struct str name, const char *due, const struct json *v);
/* min to max bytes without control characters. */
PAWL_MUST_USE int wire_check_text(struct wire_reader *r, struct str name, struct str t, size_t min, size_t max);
/* Any type whose value is a JSON text; `at` is where the value goes. */
PAWL_MUST_USE int wire_read_string(struct wire_reader *r, const struct wire_field *f, const struct json *v, void *at);
/* Text of a peer for a message: printable ASCII, cut, the rest as \u{…}. */
#define WIRE_QUOTE 64
const char *wire_quote(struct str s, char out[static WIRE_QUOTE]);

/* The fields of an op (wire_ops.c). */
struct wire_op_def {
	struct str name;
	enum wire_op op;
	enum wire_door door;
	const struct wire_field *rows;
	size_t n;
};
extern const struct wire_op_def wire_ops[];
extern const size_t wire_n_ops;

#endif
