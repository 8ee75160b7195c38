/* daemon/startup_int.h - what startup.c (order, log, policy) and startup_entry.c (probes, the start entry) share. */
#ifndef PAWL_STARTUP_INT_H
#define PAWL_STARTUP_INT_H
#include "daemon/daemon.h"

void startup_folder_of(const char *path, char out[static PAWL_MAX_PATH]);
void startup_probe(struct daemon *d); /* the rest's own probes and the watcher's, sorted */
PAWL_MUST_USE int startup_entry(struct daemon *d, struct pawl_error *err); /* durable when it returns 0 */
#endif
