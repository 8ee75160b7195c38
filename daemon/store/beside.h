/* daemon/store/beside.h - what lies beside a database. */
#ifndef PAWL_BESIDE_H
#define PAWL_BESIDE_H
#include "pawl/error.h"

/* Before SQLite opens path: its journals, if there are any, are regular files. PAWL_E_UNSAFE: they are not. */
PAWL_MUST_USE int beside_check(const char *path, struct pawl_error *err);
#endif
