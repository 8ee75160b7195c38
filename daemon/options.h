/* daemon/options.h - pawld's command line, and the paths that follow from it. Owns its strings. */
#ifndef PAWL_OPTIONS_H
#define PAWL_OPTIONS_H
#include "pawl/error.h"
#include "pawl/exit.h"

#include <sys/types.h>

#define PAWL_MAX_PATH 1024
struct options {
	char dir[PAWL_MAX_PATH];
	char policy[PAWL_MAX_PATH], state[PAWL_MAX_PATH], log[PAWL_MAX_PATH], key[PAWL_MAX_PATH];
	char socket[PAWL_MAX_PATH], operator_socket[PAWL_MAX_PATH], watch_socket[PAWL_MAX_PATH], pid_file[PAWL_MAX_PATH];
	char operators[PAWL_MAX_PATH];
	char user[64];
	gid_t own_group;	 /* whose right to write is ours (daemon/base/owner.h); not from the command line */
	uint64_t snapshot_every; /* entries; 0: the default */
	uint64_t watch_ring, watch_trees; /* bytes, trees; 0: the default */
	bool no_watch, check, probe, help, version;
};
/* PAWL_E_USAGE with a message on a bad line. */
PAWL_MUST_USE int options_parse(int argc, char **argv, struct options *ret, struct pawl_error *err);
void options_help(void); /* on stdout */

/* What is said of err to whoever started pawld: an exit_status. */
int exit_status_of(const struct pawl_error *err);
#endif
