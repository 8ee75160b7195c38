/* daemon/reload.h - a policy comes into force: what its entry says beside the name, who is told, and which questions to people
 * it closes. For mediate_ops.c alone. */
#ifndef PAWL_DAEMON_RELOAD_H
#define PAWL_DAEMON_RELOAD_H
#include "daemon/mediate_int.h"
#include "pawl/reload.h"

/* One line a change, what became looser as a warning. */
void reload_tell(const struct reload *r);
/* After m->policy has become the new one: pending cards that it answers in another way than `old` did are closed. */
void reload_cards(struct mediator *m, const struct policy *old, int64_t now);
#endif
