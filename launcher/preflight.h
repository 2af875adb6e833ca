// A look at what a plan needs on this machine before anything is started: a missing program is one clear line
// instead of a crash of every rank.
#pragma once

#include "common/status.h"
#include "launcher/plan.h"

namespace muster {

// The program can be executed, a script can be read, the data is there, and so is the checkpoint to begin
// with, unless the run has one of its own (`has_checkpoint`): then nobody reads that. One line for each thing
// that is missing, with its place in the task file; kNotFound, or kUnavailable if all is there but may not be
// used. A plan with hosts is not checked: what lies on them cannot be seen from here.
Status check_inputs(const Plan& plan, bool has_checkpoint = false);

}  // namespace muster
