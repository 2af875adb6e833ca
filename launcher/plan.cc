#include "launcher/plan.h"

#include <fmt/format.h>

#include "launcher/plan_parts.h"
#include "launcher/task_spec.h"

namespace muster {

namespace {

using planning::TrainerSetting;

Result<std::vector<std::string>> program_argv(const TaskSpec& spec, const PlanOptions& options) {
  std::vector<std::string> argv;
  if (spec.trainer) {
    if (options.trainer_executable.empty()) {
      return fail(ErrorCode::kUnavailable,
                  "the task needs muster-train, which is not installed beside muster; build or install it");
    }
    argv.push_back(options.trainer_executable);
    for (const TrainerSetting& setting : planning::trainer_settings(*spec.trainer)) {
      argv.push_back(setting.flag);
      argv.push_back(setting.value);
    }
  } else {
    if (spec.entry_point.ends_with(".py")) argv.emplace_back("python3");
    argv.push_back(spec.entry_point);
  }
  argv.insert(argv.end(), spec.args.begin(), spec.args.end());
  return argv;
}

std::map<std::string, std::string> places_of(const TaskSpec& spec) {
  std::map<std::string, std::string> places;
  for (const char* key : {"entry_point", "data_path", "checkpoint_path", "trainer.init_from"}) {
    const auto position = spec.positions.find(key);
    if (position == spec.positions.end()) continue;
    places[key] = fmt::format("{}:{}:{}", spec.shown_file, position->second.line, position->second.column);
  }
  return places;
}

}  // namespace

Result<Plan> make_plan(const TaskSpec& spec, const PlanOptions& options) {
  const std::vector<std::string> refused = planning::refusals(spec, options);
  if (!refused.empty()) return fail(ErrorCode::kUnavailable, "{}", fmt::join(refused, "\n"));
  Plan plan;
  plan.task_name = spec.task_name;
  plan.task_file = spec.file;
  plan.num_workers = spec.num_workers;
  plan.ranks_per_worker = spec.ranks_per_worker;
  plan.world_size = spec.num_workers * spec.ranks_per_worker;
  MUSTER_ASSIGN(plan.argv, program_argv(spec, options));
  plan.environment = planning::program_environment(spec, options);
  plan.working_directory = spec.directory;
  plan.checkpoint_root =
      spec.checkpoint_path.empty() ? options.default_checkpoint_root : spec.checkpoint_path;
  plan.data_path = spec.data_path;
  if (spec.trainer) plan.init_from = spec.trainer->init_from;
  plan.stop_signal = spec.schedule.stop_signal;
  plan.grace = spec.schedule.grace;
  plan.network_interface = planning::network_interface(spec, options);
  plan.rdma_allowed = spec.network.rdma.value_or(true);
  plan.retry = spec.schedule.retry;
  plan.hosts = options.hosts;
  if (!options.hosts.empty()) {
    MUSTER_ASSIGN(plan.placement, place_workers(options.hosts, spec.num_workers, spec.ranks_per_worker));
  }
  plan.run_as_root = options.run_as_root;
  plan.rsh_agent = options.rsh_agent;
  plan.is_trainer = spec.is_trainer();
  if (options.slurm_site != nullptr) {
    plan.allocation = planning::allocation_request(spec, *options.slurm_site);
  }
  plan.result_fingerprint = planning::result_fingerprint(spec, options);
  plan.notices = planning::notices(spec, options);
  plan.places = places_of(spec);
  return plan;
}

}  // namespace muster
