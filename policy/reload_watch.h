/* policy/reload_watch.h - what a reload makes looser or tighter of `watch` and `log`. Pure. */
#ifndef PAWL_RELOAD_WATCH_H
#define PAWL_RELOAD_WATCH_H
#include "pawl/policy.h"

enum reload_way { LOOSER, TIGHTER, OTHER, WAY_COUNT };
typedef void reload_say(void *arg, enum reload_way way, const char *text);
void reload_watch(const struct watch_policy *old, const struct watch_policy *pol, reload_say *say, void *arg);
void reload_log(const struct log_policy *old, const struct log_policy *pol, reload_say *say, void *arg);
#endif
