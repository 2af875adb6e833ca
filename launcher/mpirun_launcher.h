// Starts the ranks of an attempt with Open MPI's mpirun, under a guard (guard.h): muster → guard → mpirun →
// ranks. Output comes back through --tag-output (tagged_output.h).
//
// The stop signal: mpirun itself passes SIGUSR1 and SIGUSR2 on to the ranks of all hosts; at others it ends
// them, so make_plan refuses those.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/process_launcher.h"

namespace muster {

// muster_executable: absolute; it is what every rank starts with (`muster exec`), and the guard.
std::unique_ptr<ProcessLauncher> make_mpirun_launcher(std::string muster_executable);

// SIGUSR1 → 10; 0 for an unknown name.
int signal_number(const std::string& name);

// The content of attempts/N/environment.json: what `muster exec` gives to every rank. Pure.
nlohmann::json attempt_environment(const Plan& plan, const RunDirectory& run, const AttemptRequest& request);

// The environment for mpirun, from muster's own: without what an enclosing mpirun or Slurm job left there
// (the ranks of this run would take themselves for ranks of that), but with the user's OMPI_MCA_* settings
// and SLURM_CONF. Pure; entries are NAME=value.
std::vector<std::string> launcher_environment(const std::vector<std::string>& own);

}  // namespace muster
