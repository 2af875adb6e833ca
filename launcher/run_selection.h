// Which run `muster run` works on: the newest one of the task if it can be continued, or a new one.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/lease.h"
#include "launcher/plan.h"
#include "launcher/run_directory.h"
#include "launcher/run_history.h"

namespace muster {

struct RunSelectionOptions {
  bool start_new = false;       // --new
  bool accept_changes = false;  // --accept-changes
};

struct SelectedRun {
  RunDirectory run;
  Lease lease;
  RunHistory history;                              // of earlier attempts; empty for a new run
  bool is_new = false;                             // made just now
  std::vector<FingerprintDifference> differences;  // accepted ones; the run's files are not updated yet
};

// Finds or makes the run and takes its lease. Two calls at once for the same task agree on one run.
// kMismatch, showing what changed, if the task differs from the run's in a way that changes the result and
// neither option was given; kAlreadyExists if another muster holds the lease.
Result<SelectedRun> select_run(const Plan& plan, const std::string& task_text,
                               const RunSelectionOptions& options);

// Whether the run that select_run() would go on with has a checkpoint of its own. Only looks.
Result<bool> continues_from_checkpoint(const Plan& plan, const RunSelectionOptions& options);

}  // namespace muster
