// The parts of make_plan. Private to the plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "launcher/plan.h"
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

// What `muster run` on bare metal cannot do: one line each, in file order.
std::vector<std::string> refusals(const TaskSpec& spec);
// What it has no use for.
std::vector<std::string> notices(const TaskSpec& spec);

std::vector<std::pair<std::string, std::string>> result_fingerprint(const TaskSpec& spec,
                                                                    const PlanOptions& options);

}  // namespace muster::planning
