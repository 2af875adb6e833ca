// Environments of an attempt: the ranks' (environment.json) and mpirun's own.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/run_contract.h"
#include "launcher/mpirun_launcher.h"

namespace muster {
namespace {

bool has_name(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
    return entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=';
  });
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

}  // namespace

nlohmann::json attempt_environment(const Plan& plan, const RunDirectory& run, const AttemptRequest& request) {
  nlohmann::json variables = nlohmann::json::object();
  for (const EnvironmentVariable& variable : plan.environment) variables[variable.name] = variable.value;
  variables[contract::kRunId] = run.run_id;
  variables[contract::kAttempt] = std::to_string(request.generation);
  variables[contract::kRunDir] = run.path.string();
  variables[contract::kCheckpointDir] = run.checkpoints().string();
  variables[contract::kStopSignal] = plan.stop_signal;
  variables[contract::kEvents] = request.events_address;
  if (!plan.data_path.empty()) variables[contract::kDataDir] = plan.data_path;
  if (!plan.network_interface.empty()) variables[contract::kNetworkInterface] = plan.network_interface;
  return {{"variables", std::move(variables)}};
}

std::vector<std::string> launcher_environment(const std::vector<std::string>& own) {
  const bool inside_mpirun = has_name(own, "OMPI_COMM_WORLD_RANK") || has_name(own, "PMIX_RANK");
  const bool inside_slurm = has_name(own, "SLURM_JOB_ID") || has_name(own, "SLURM_JOBID");
  std::vector<std::string> kept;
  for (const std::string& entry : own) {
    // What the run contract sets must not come from an enclosing run.
    if (starts_with_any(
            entry, {"MUSTER_RUN_ID=", "MUSTER_ATTEMPT=", "MUSTER_RUN_DIR=", "MUSTER_CHECKPOINT_DIR=",
                    "MUSTER_DATA_DIR=", "MUSTER_STOP_SIGNAL=", "MUSTER_EVENTS=", "MUSTER_NETWORK_INTERFACE=",
                    "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "NODE_RANK=", "MASTER_ADDR=",
                    "MASTER_PORT="})) {
      continue;
    }
    if (inside_mpirun && starts_with_any(entry, {"OMPI_", "PMIX_", "PMI_", "ORTE_"})) continue;
    if (inside_slurm && starts_with_any(entry, {"SLURM_", "PMI_", "PMIX_"}) &&
        !entry.starts_with("SLURM_CONF=")) {
      continue;
    }
    kept.push_back(entry);
  }
  return kept;
}

}  // namespace muster
