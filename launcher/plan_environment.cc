// The environment of every rank, as far as the plan decides it.
#include <algorithm>

#include "launcher/plan_parts.h"

namespace muster::planning {

namespace {

// The programs' own names for "use this interface": NCCL and Gloo (PyTorch) do not read mpirun's options.
constexpr const char* kInterfaceVariables[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"};

void add_unless_set(EnvironmentVariable variable, std::vector<EnvironmentVariable>& environment) {
  const bool is_set = std::any_of(environment.begin(), environment.end(),
                                  [&](const EnvironmentVariable& set) { return set.name == variable.name; });
  if (!is_set) environment.push_back(std::move(variable));
}

}  // namespace

std::string network_interface(const TaskSpec& spec, const PlanOptions& options) {
  if (!spec.network.interface.empty() || options.slurm_site == nullptr) return spec.network.interface;
  return options.slurm_site->network_interface;
}

std::vector<EnvironmentVariable> program_environment(const TaskSpec& spec, const PlanOptions& options) {
  std::vector<EnvironmentVariable> environment = spec.env;
  environment.insert(environment.end(), spec.network.variables.begin(), spec.network.variables.end());
  // An interface that the task names goes before the site's variables, one that the site names after them.
  const auto add_interface = [&](const std::string& interface) {
    if (interface.empty()) return;
    for (const char* name : kInterfaceVariables) add_unless_set({name, interface, false}, environment);
  };
  add_interface(spec.network.interface);
  if (options.slurm_site == nullptr) return environment;
  for (const EnvironmentVariable& variable : options.slurm_site->environment) {
    add_unless_set(variable, environment);
  }
  add_interface(options.slurm_site->network_interface);
  return environment;
}

}  // namespace muster::planning
