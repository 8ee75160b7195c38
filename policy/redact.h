/* policy/redact.h - takes what looks like a secret out of arguments and command lines, before they are kept for people. Pure; no regex,
 * time linear in the text, no recursion below 32 levels. By name at any depth, by the policy's own paths, and by what known kinds of
 * secrets look like inside longer texts. What it cannot know, a secret under a name and of a look that nobody has told it, stays. */
#ifndef PAWL_REDACT_H
#define PAWL_REDACT_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "pawl/policy.h"

#define REDACTED "[redacted]"

struct redact_path { /* args.a.b: exactly there (lists do not count as a level); *.a.b: wherever a path ends so */
	struct str text; /* a.b */
	bool anywhere;
};
struct redact_set { /* what a policy adds to the built-in names and looks; lives in its arena */
	struct redact_path *paths;
	size_t n;
};

/* set may be NULL: the built-in names and looks alone. All append to out and fail only by .failed in it. */
void redact_json(const struct redact_set *set, const struct json *args, struct buf *out);
/* A list of texts as JSON. argv: arguments with a NUL behind each, any bytes (what is no UTF-8 is written as \xNN); one that has none is
 * the beginning of an argument that was cut, and may be that of a secret. redact false: the same text, whole. */
void redact_argv(const struct redact_set *set, struct str argv, bool redact, struct buf *out);
/* One text, written raw. */
void redact_text(const struct redact_set *set, struct str text, bool cut, struct buf *out);

/* The first PAWL_MAX_VALUE bytes of s, or fewer: never half a character. */
struct str redact_fit(struct str s);
/* What is kept of a call's arguments, or of a program's: STR_NONE, or a JSON text of at most PAWL_MAX_VALUE bytes, borrowed from scratch,
 * which is reset; a longer one is cut, at a character. canon: the arguments' canonical text. PAWL_E_NOMEM: also where scratch is too small. */
PAWL_MUST_USE int record_args(const struct log_policy *log, const struct json *args, struct str canon, struct buf *scratch, struct str *ret);
/* Of several programs, a list each, null where argv is STR_NONE. */
PAWL_MUST_USE int record_argv(const struct log_policy *log, const struct str *argv, size_t n, struct buf *scratch, struct str *ret);

/* ---- redact_name.c ---- */
/* Weak names are also words of plain sentences: session, token. */
enum secret_name { NAME_PLAIN, NAME_WEAK, NAME_STRONG };
enum secret_name secret_name(const struct redact_set *set, struct str name);
/* Equal but for case, and for - _ and other marks between letters. */
bool secret_name_eq(struct str a, struct str b);

/* ---- redact_look.c ---- */
bool secret_alnum(char c);
bool secret_in_word(char c);
bool secret_in_token(char c); /* base64, and all that is in words */
bool secret_has_digit(struct str s);
/* Where a token of a known look that begins at i, i <= text.n, ends; i: none does. cut: the text goes on, as for redact_text(). */
size_t secret_token(struct str text, size_t i, bool cut);

/* ---- redact_option.c ---- */
enum secret_option { OPTION_PLAIN, OPTION_SECRET, OPTION_NO_PORTS /* a secret, but for 27017:27017 */, OPTION_ACCOUNT /* name:secret */ };
/* Which known programs' name the text begins with, a bit each. */
unsigned secret_programs(struct str text);
/* What one of these programs reads in word, or, if *ret_at is the word's end, in the next one. */
enum secret_option secret_option(unsigned programs, struct str word, size_t *ret_at);
/* 1000:1000, a user and a group or two ports. */
bool secret_numbers(struct str s);
/* Says of a command line that it gives a value to a name: aws configure set NAME VALUE. */
bool secret_setter(struct str word);
/* The same of the words before the name at i in a text. */
bool secret_set_before(struct str text, size_t i);
#endif
