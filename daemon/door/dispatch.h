/* daemon/door/dispatch.h - operation x door -> handler; what is not listed is refused. Owns the doors and the requests whose answers are owed. */
#ifndef PAWL_DISPATCH_H
#define PAWL_DISPATCH_H
#include "daemon/daemon.h"

PAWL_MUST_USE int dispatch_open(struct daemon *d, struct pawl_error *err);
void dispatch_close(struct daemon *d); /* after the last answer */
int dispatch_fd(const struct daemon *d, int which);
bool dispatch_serve(struct daemon *d, int which);
/* Answers held-back reviews that are due at now; returns when the next one is (INT64_MAX: none). */
int64_t dispatch_wake(struct daemon *d, int64_t now);
/* The spine's answer to a job of ours. */
mediate_done dispatch_done;
#endif
