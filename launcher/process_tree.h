// Finding and ending processes by kinship (/proc), whatever session or process group they fled to.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "common/clock.h"

namespace muster {

// All children, grandchildren … of a process, zombies included; not the process itself.
std::vector<pid_t> descendants_of(pid_t ancestor);
// Only the direct ones.
std::vector<pid_t> children_of(pid_t parent);

// SIGKILLs and reaps descendants of the calling process until none is left. If the caller is a child
// subreaper (PR_SET_CHILD_SUBREAPER), nothing that it ever started escapes. Blocks until the deadline at
// most; returns what could not be ended (a process stuck in the kernel).
std::vector<pid_t> end_all_descendants(Deadline deadline);

// This user's processes on this machine that carry MUSTER_RUN_ID=<run id>, except the caller, its ancestors
// and its descendants: what a supervisor that died together with its guard may have left.
std::vector<pid_t> processes_of_run(std::string_view run_id);

// Waits until processes_of_run() is empty: lets a guard that is still clearing away finish, then SIGKILLs.
// Returns what is left at the deadline.
std::vector<pid_t> end_processes_of_run(std::string_view run_id, std::chrono::milliseconds patience,
                                        Deadline deadline);

}  // namespace muster
