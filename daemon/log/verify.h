/* daemon/log/verify.h - is this log complete and genuine? Reads files only. */
#ifndef PAWL_VERIFY_H
#define PAWL_VERIFY_H
#include "daemon/log/note.h"

/* Exit statuses of `pawl log verify`, in docs and the man page. */
enum verify_status {
	VERIFY_OK = 0, /* complete, and it contains the anchor that was given */
	VERIFY_NO_ANCHOR =
	    10, /* everything present is genuine; nothing outside the folder says that nothing was cut off */
	VERIFY_NOTHING = 11, /* no entry to check */
	VERIFY_TAMPERED = 12,
	VERIFY_INCOMPLETE = 13, /* torn tail, first sequence not 0, shorter than --at-least */
	VERIFY_WRONG_KEY = 14,
	VERIFY_ERROR = 1, /* could not read */
};
struct verify_anchor {
	uint64_t seq;
	uint8_t hash[32]; /* SHA-256 of that entry's signed text */
};
/* "SEQ:HASH", HASH as 64 hex digits, or as the base64 of the fourth line of the entry after it. PAWL_E_USAGE. */
PAWL_MUST_USE int verify_anchor_parse(struct str text, struct verify_anchor *ret, struct pawl_error *err);

struct verify_report {
	enum verify_status status;
	uint64_t entries, first_seq, last_seq; /* first and last mean something when entries > 0 */
	bool has_bad;                          /* the fault is at, or just behind, entry bad_seq */
	uint64_t bad_seq;
	uint8_t last_hash[32];
	int64_t torn_bytes;
	bool live; /* a daemon was writing meanwhile: a torn tail may be its batch in the making */
	char origin[PAWL_MAX_ORIGIN + 1];
	char message[512];
};
const char *verify_word(enum verify_status s); /* "ok", "ok-no-anchor", "nothing-to-check", "tampered", "incomplete",
						  "wrong-key", "error" */

/* progress(arg, entries so far) about once a second of work, may be NULL. Returns 0 when a report could be made. Of
 * several faults the worst is reported: tampered, wrong key, incomplete. */
PAWL_MUST_USE int log_verify(const char *dir, const struct vkey *key, const struct verify_anchor *anchor,
			     void (*progress)(void *arg, uint64_t n), void *arg, struct verify_report *ret,
			     struct pawl_error *err);
/* The same without an anchor, with a visitor for each entry that was found to be what it says, in order. A negative return of it ends the
 * walk: PAWL_E_TAMPERED is a finding about this log, like verify's own; any other is handed back. The view is borrowed. */
typedef int verify_each(void *arg, const struct entry_view *v, struct pawl_error *err);
PAWL_MUST_USE int log_verify_each(const char *dir, const struct vkey *key, verify_each *each,
				  void (*progress)(void *arg, uint64_t n), void *arg, struct verify_report *ret,
				  struct pawl_error *err);
#endif
