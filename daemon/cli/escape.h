/* daemon/cli/escape.h - text that others chose, made safe and honest for a terminal. Pure.
 * A control byte, a mark that hides or turns text, and whatever is not on the short list of plain letters comes out as
 * \u{hex}; a byte that is no UTF-8 as \x{hex}; a backslash as \\, so that an escape cannot be forged. */
#ifndef PAWL_ESCAPE_H
#define PAWL_ESCAPE_H
#include "daemon/base/buf.h"

/* UTF8: letters that look like no ASCII (accented Latin, kana, Han, Hangul) and a few signs stay as they are. ASCII:
 * for a terminal that is not known to read UTF-8, where the second byte of a letter may be a control of its own. */
enum escape_mode { ESCAPE_ASCII, ESCAPE_UTF8 };
enum escape_mode escape_mode_of(const char *locale); /* "C.UTF-8"; NULL or anything else: ASCII */
enum escape_mode escape_mode_here(void); /* from LC_ALL, LC_CTYPE, LANG, as the terminal's own programs do */

struct escape_seen { /* what was escaped; added up, so zero it first */
	size_t control, hidden, rare, invalid;
};
bool escape_any(const struct escape_seen *seen);
/* "2 control, 1 hidden" … for the line that marks a card; nothing when nothing was seen. */
void escape_summary(const struct escape_seen *seen, struct buf *out);

/* quote: 0, or the character around the text, which is escaped inside and written at both ends. seen may be NULL. */
void escape_text(struct buf *out, struct str s, enum escape_mode mode, char quote, struct escape_seen *seen);
/* The same in double quotes; of more than max bytes the beginning and the end, with the length and SHA-256 of the
 * whole. Returns true when it was cut. */
bool escape_cut(struct buf *out, struct str s, size_t max, enum escape_mode mode, struct escape_seen *seen);
/* JSON text with every byte outside printable ASCII as \uXXXX: the same JSON, for a terminal and for a program. */
void escape_json(struct buf *out, struct str text);

/* How many bytes one piece (a character or a whole escape) of escaped text has, and how many columns it may take. s.n >
 * 0. */
size_t escape_piece(struct str s, size_t *ret_columns);
#endif
