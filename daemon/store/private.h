/* daemon/store/private.h - tree secrets, and values that redaction may erase: what cards show, what a policy records. Not the projection: deleting it
 * loses what cards can show and the power to compare new calls of old trees, never a verdict already given. SQLite,
 * synchronous, mode 0600. */
#ifndef PAWL_PRIVATE_H
#define PAWL_PRIVATE_H
#include "daemon/log/committer.h" /* struct private_row */

struct private_store;
PAWL_MUST_USE int private_open(const char *path, struct private_store **ret, struct pawl_error *err);
void private_close(struct private_store *ps); /* accepts NULL */
/* Replaces rows with the same tree: a sequence that was never answered may come again. Durable on 0.
 * store is a struct private_store: the shape is commit_put_secrets. */
PAWL_MUST_USE int private_put(void *store, const struct private_row *rows, size_t n, struct pawl_error *err);
/* Deletes the values of these entries, all or none; what is not there is no fault. The shape is commit_drop_values. */
PAWL_MUST_USE int private_drop(void *store, const uint64_t *seqs, size_t n, struct pawl_error *err);
/* Every row, in order of tree. Rows above next_seq were never answered: private_open()'s caller drops them with
 * private_trim(). */
/* private_each() gives secrets, private_values() values, in order of (tree) or (seq). */
typedef int private_visit(void *arg, const struct private_row *row, struct pawl_error *err);
PAWL_MUST_USE int private_each(struct private_store *ps, private_visit *visit, void *arg, struct pawl_error *err);
PAWL_MUST_USE int private_values(struct private_store *ps, private_visit *visit, void *arg, struct pawl_error *err);
PAWL_MUST_USE int private_trim(struct private_store *ps, uint64_t next_seq,
			       struct pawl_error *err); /* deletes tree or seq >= next_seq */
/* Overwrites a tree's secret, what its cards show and what was recorded of it: what its entries' digests were made from cannot be guessed
 * any more. All or none; *ret_rows: how many there were, 0 for a tree that is not there. */
PAWL_MUST_USE int private_forget(struct private_store *ps, uint64_t tree, size_t *ret_rows, struct pawl_error *err);
/* How many entries the log is known to have had: start and stop write it down, so that a log that was cut or emptied meanwhile is seen.
 * 0: never written. Not while another thread uses the store. */
PAWL_MUST_USE int private_mark(struct private_store *ps, uint64_t entries, struct pawl_error *err);
PAWL_MUST_USE int private_marked(struct private_store *ps, uint64_t *ret, struct pawl_error *err);
/* At most so many pages (of 4 KiB) in the file; beyond it private_put() is PAWL_E_FULL. Tests see a full disk by it. */
PAWL_MUST_USE int private_limit(struct private_store *ps, int64_t pages, struct pawl_error *err);

/* daemon/store/private_read.c: what was recorded, for people, while pawld may be running. Changes nothing. */
struct private_reader;
/* *ret NULL and 0: there is no file, or one from before there were records. */
PAWL_MUST_USE int private_reader_open(const char *path, struct private_reader **ret, struct pawl_error *err);
void private_reader_close(struct private_reader *pr); /* accepts NULL */
/* 1: found, appended to out; 0: nothing was recorded of this entry, or it is forgotten. pr may be NULL. */
PAWL_MUST_USE int private_record(struct private_reader *pr, uint64_t seq, struct buf *out, struct pawl_error *err);
#endif
