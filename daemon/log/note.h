/* daemon/log/note.h - C2SP signed notes, verifier keys and the entry's five lines. Pure, bounded, fuzzed;
 * audit-format.md is the law. */
#ifndef PAWL_NOTE_H
#define PAWL_NOTE_H
#include "daemon/base/buf.h"

#define ENTRY_PREV_TEXT 44 /* base64 of 32 bytes */
#define NOTE_SIG_TEXT   92 /* base64 of key ID and signature */

struct vkey {
	char name[PAWL_MAX_ORIGIN + 32];
	uint32_t id;
	uint8_t pub[32];
};
PAWL_MUST_USE int vkey_parse(struct str text, struct vkey *ret,
			     struct pawl_error *err); /* strict; a trailing newline is allowed */
void vkey_text(const struct vkey *k, struct buf *out);
uint32_t vkey_id(const char *name, const uint8_t pub[static 32]);
bool note_name_ok(struct str name); /* not empty, UTF-8, no white space, no control, no '+', fits struct vkey */

/* "name+<8 lower-case hex>+base64(0x01 || 32 bytes)", the shape that verifier and signer keys share. The bytes may be a
 * secret: nothing of them is left on the stack. */
struct keyed_name {
	struct str name;
	uint32_t id;
	uint8_t bytes[32];
};
bool keyed_name_parse(struct str text, struct keyed_name *ret);
void keyed_name_text(const char *name, uint32_t id, const uint8_t bytes[static 32], struct buf *out);

/* Standard alphabet, padded, and the one spelling only: spare bits must be zero. out_n is the exact length expected. */
bool b64_exact(struct str text, uint8_t *out, size_t out_n);
/* The same, many times quicker, for what is no secret: every entry has a signature and a hash. */
bool b64_public(struct str text, uint8_t *out, size_t out_n);
void buf_b64(struct buf *b, const uint8_t *p, size_t n);

struct entry_view {      /* borrowed from the note's bytes */
	struct str text; /* what is signed and chained: five lines, each with \n */
	struct str origin, body;
	uint64_t seq;
	uint8_t prev[32];
	struct str sig_name;
	uint32_t sig_id;
	uint8_t sig[64];
};
/* Appends the five lines. body must be one line of JSON. *ret_prev_at (may be NULL): where line 4 starts, so that the
 * chain can be filled in when the entry before is known. */
void entry_text(struct str origin, uint64_t seq, const uint8_t prev[static 32], struct str body, struct buf *out,
		size_t *ret_prev_at);
void entry_prev_text(const uint8_t prev[static 32], char out[static ENTRY_PREV_TEXT]);
size_t entry_note_bytes(struct str origin, const char *key_name,
			size_t body_bytes); /* upper bound of a whole signed entry */
/* Appends "\n— name base64\n". */
void note_sig_line(const char *name, uint32_t key_id, const uint8_t sig[static 64], struct buf *out);
/* A whole signed entry, strictly: exactly one signature line, canonical base64, valid UTF-8, no trailing bytes.
 * Signature not checked. */
PAWL_MUST_USE int entry_view_parse(struct str note, struct entry_view *ret, struct pawl_error *err);
/* PAWL_E_KEY when the line names another key, PAWL_E_TAMPERED when the signature is wrong. */
PAWL_MUST_USE int entry_view_verify(const struct entry_view *v, const struct vkey *k, struct pawl_error *err);
void entry_hash(struct str text, uint8_t out[static 32]); /* SHA-256 of the text: the next entry's `prev` */
#endif
