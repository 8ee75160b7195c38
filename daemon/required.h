/* daemon/required.h - does this machine have what a policy cannot do without? Pure. */
#ifndef PAWL_REQUIRED_H
#define PAWL_REQUIRED_H
#include "pawl/policy.h"

/* 0, or PAWL_E_UNSAFE and the probes that are missing: `watch.exec: required` on a machine (probes NULL: without a watcher) where programs cannot
 * be watched and stopped. Quietly going on without would be the failure that the word is there to prevent. */
PAWL_MUST_USE int required_check(const struct policy *pol, const struct watch_probes *probes, struct pawl_error *err);
#endif
