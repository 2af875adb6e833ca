// What a plan needs to know of this machine and of the command line: the I/O that make_plan leaves to others.
#pragma once

#include <string>

#include "common/status.h"
#include "launcher/plan.h"
#include "launcher/task_spec.h"

namespace muster {

struct PlanRequest {
  std::string hostfile;   // empty: this machine
  std::string rsh_agent;  // empty: mpirun's own choice
};

// Reads the host file; looks for muster-train beside the running executable, and for the checkpoint that the
// task wants to begin with (marker and manifest alone). Runs of tasks without a checkpoint_path go below the
// state directory's `work`.
Result<PlanOptions> plan_options_here(const PlanRequest& request, const TaskSpec& spec);

}  // namespace muster
