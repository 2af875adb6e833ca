// The batch script of a run, as sbatch takes it and `muster plan --format sbatch` shows it.
// Pure.
//
// It asks for the allocation and becomes `muster supervise`, which starts the ranks in it. It names
// everything by absolute paths and needs no variable of the login shell. --export=ALL brings that environment
// along for the ranks, as sbatch and `muster run` do, without naming variables: sbatch would cut values at a
// comma. Variables SBATCH_* override these lines and SLURM_* of an enclosing job override options of steps,
// so whoever calls sbatch takes both out of its environment, but for SLURM_CONF.
#pragma once

#include <filesystem>
#include <string>

#include "common/status.h"
#include "launcher/plan.h"

namespace muster::slurm {

// A run's jobs are found again by their comment: this and the run id.
inline constexpr const char* kCommentPrefix = "muster:";

// What the supervisor gets shortly before the time limit (and at a preemption, where the site has
// PreemptParameters=send_user_signal), should its own clock fail. Not the task's stop signal, which is for
// ranks.
inline constexpr const char* kNoticeSignal = "USR1";

struct JobIdentity {
  std::string comment;                  // the prefix and the run id, with or without more
  std::filesystem::path run_directory;  // absolute
  std::string muster_executable;        // absolute
};

// As sbatch's options of the same names; empty: not given.
struct SubmitOptions {
  bool hold = false;
  std::string dependency;
  std::string array;
  std::string begin;
};

// `plan` is for Slurm. kInvalidArgument if a value holds what a line of the script cannot, naming the option.
Result<std::string> sbatch_script(const Plan& plan, const JobIdentity& job,
                                  const SubmitOptions& options = {});

}  // namespace muster::slurm
