/* daemon/base/watch_names.c - the words that entries, policies and people use for what include/pawl/watch.h numbers. */
#include "pawl/watch.h"

const char *watch_why_name(enum watch_why why)
{
	static const char *const names[WHY_COUNT] = {
		[WHY_NONE] = "none", [WHY_DENY_EXEC] = "deny_exec", [WHY_FILELESS] = "fileless", [WHY_LEFT] = "left", [WHY_NO_TAG] = "no_tag",
		[WHY_NO_TREE] = "no_tree", [WHY_PROCESSES] = "processes", [WHY_FORK_RATE] = "fork_rate", [WHY_EXEC_RATE] = "exec_rate",
		[WHY_CPU] = "cpu", [WHY_MEMORY] = "memory", [WHY_WALL] = "wall", [WHY_ABORT] = "abort", [WHY_ENDED] = "ended",
		[WHY_LAUNCHER] = "launcher", [WHY_STALE] = "stale",
	};

	return why > 0 && why < WHY_COUNT ? names[why] : names[WHY_NONE];
}

const char *watch_hold_name(uint32_t one_bit)
{
	switch (one_bit) {
	case HOLD_EXEC:
		return "deny_exec";
	case HOLD_PROCESSES:
		return "processes";
	case HOLD_FORK_RATE:
		return "fork_rate";
	case HOLD_EXEC_RATE:
		return "exec_rate";
	case HOLD_CPU:
		return "cpu";
	case HOLD_MEMORY:
		return "memory";
	case HOLD_WALL:
		return "wall";
	case HOLD_WRITES:
		return "writes_under";
	case HOLD_EVENTS:
		return "exec";
	default:
		return "?";
	}
}
