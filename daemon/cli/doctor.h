/* daemon/cli/doctor.h - `pawl doctor`: what this machine lacks for pawl, and how to get it. Looks and asks, changes nothing.
 * doctor.c has the command line, the rules of the policy against what holds here, and the answer; doctor_look.c the folder and the
 * machine; doctor_child.c the programs that are asked. What pawld and other programs say is input. */
#ifndef PAWL_DOCTOR_H
#define PAWL_DOCTOR_H
#include "daemon/base/buf.h"
#include "pawl/policy.h"

#include <limits.h>
#include <sys/types.h>

#define DOCTOR_MAX_ROWS 64
#define DOCTOR_MAX_PROBES 32

enum doctor_group { DOCTOR_KERNEL, DOCTOR_POLICY, DOCTOR_FOLDER, DOCTOR_DOORS, DOCTOR_HERE, DOCTOR_GROUPS };
struct doctor_row {
	enum doctor_group group;
	char name[32];
	enum watch_state state;
	bool missing; /* what the policy needs is not there: the exit status is 1 */
	char why[256], get[256];
};
struct doctor {
	const char *dir, *pawld_opt, *operator_opt, *policy_opt; /* as said; dir resolved */
	gid_t own_group; /* whose right to write is the folder's owner's (daemon/base/owner.h) */
	int64_t began_ms;
	bool said; /* that it takes longer */
	char pawld[PATH_MAX];
	char tier[8], says[160], running[64]; /* running: "" or the pid of a pawld that answers, in words */
	struct watch_probe probe[DOCTOR_MAX_PROBES];
	size_t n_probes;
	bool from_running; /* the probes are those of the pawld that answers, not of one that we started */
	struct policy *policy; /* NULL: not there, not readable or refused */
	struct doctor_row row[DOCTOR_MAX_ROWS + 1]; /* one more: where rows beyond the bound are written, and not shown */
	size_t n;
	struct doctor_row *at; /* the newest */
};

/* A row; what does not fit is cut, rows above the bound are dropped. The next doctor_get() is about it. */
PAWL_PRINTF(5, 6) void doctor_row(struct doctor *d, enum doctor_group group, const char *name, enum watch_state state, const char *why, ...);
PAWL_PRINTF(2, 3) void doctor_get(struct doctor *d, const char *get, ...);
void doctor_missing(struct doctor *d); /* the last row is one that the policy needs */

/* Runs argv[0], a path or a name on PATH, in folder cwd with nothing on its standard input; takes at most out->max bytes of what it prints
 * and the first line of what it complains. *ret_status: 0..255, or 128 + the signal. PAWL_E_SYS: could not be started, or took too long. */
PAWL_MUST_USE int doctor_child(struct doctor *d, char *const argv[], const char *cwd, int timeout_ms, struct buf *out, char complaint[static 160],
			       int *ret_status, struct pawl_error *err);
int64_t doctor_now_ms(void);

void doctor_find_pawld(struct doctor *d);
void doctor_probe(struct doctor *d); /* pawld --probe: fills tier, says, probe */
void doctor_doors(struct doctor *d); /* asks the pawld that runs; what it found at its start is believed before a probe of ours */
void doctor_folder(struct doctor *d);
void doctor_here(struct doctor *d);

/* argv[0] is "doctor". Exit status: 0, 1 something that the policy needs is missing, 2 usage. */
int cli_doctor(int argc, char **argv);
#endif
