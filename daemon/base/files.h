/* daemon/base/files.h - the files beside a policy that its loader may ask for, read from this machine. */
#ifndef PAWL_FILES_H
#define PAWL_FILES_H
#include "pawl/policy.h"

#include <sys/types.h>

/* For policy_load_with(). Reads regular files of at most 64 KiB that root or this user owns and nobody else can write (own_group: daemon/base/owner.h); tells whether
 * a folder holds the policy's own file. */
struct policy_files policy_files_system(gid_t own_group);
#endif
