// The parts of make_plan. Private to the plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "launcher/plan.h"
#include "launcher/plan_findings.h"
#include "launcher/task_spec.h"

namespace muster::planning {

// One setting of the trainer: its name below `trainer.`, the flag it becomes, its resolved value.
struct TrainerSetting {
  std::string name;
  std::string flag;
  std::string value;
  bool decides_result;  // another value may lead to other weights
};
std::vector<TrainerSetting> trainer_settings(const TrainerSpec& trainer);

// What cannot be done for this target: one line each, in file order.
std::vector<std::string> refusals(const TaskSpec& spec, const PlanOptions& options);
// What it has no use for, or understands in a way that might surprise.
std::vector<std::string> notices(const TaskSpec& spec, const PlanOptions& options);

// For Slurm: the parts of the two that no other target has, and the request for a task that was not refused.
void refuse_on_slurm(const TaskSpec& spec, const SiteProfile& site, Findings& findings);
void notice_on_slurm(const TaskSpec& spec, const SiteProfile& site, Findings& findings);
AllocationRequest allocation_request(const TaskSpec& spec, const SiteProfile& site);

// The task's variables and, on Slurm, the site's that it does not set itself.
std::vector<EnvironmentVariable> program_environment(const TaskSpec& spec, const PlanOptions& options);
std::string network_interface(const TaskSpec& spec, const PlanOptions& options);

std::vector<std::pair<std::string, std::string>> result_fingerprint(const TaskSpec& spec,
                                                                    const PlanOptions& options);

}  // namespace muster::planning
