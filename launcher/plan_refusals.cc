// What a task may ask for and `muster run` on bare metal cannot give. A requested thing is never dropped in
// silence: it is refused where the task would otherwise run differently, and noticed where it would not.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/plan_parts.h"
#include "launcher/units.h"

namespace muster::planning {

namespace {

class Findings {
 public:
  explicit Findings(const TaskSpec& spec) : spec_(spec) {}

  void add(const std::string& key, bool applies, const std::string& message) {
    if (!applies) return;
    const auto given = spec_.positions.find(key);
    findings_.emplace_back(given == spec_.positions.end() ? SourcePosition{} : given->second,
                           fmt::format("{}: {}", key, message));
  }

  std::vector<std::string> lines() {
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> lines;
    for (const auto& [position, message] : findings_) {
      lines.push_back(fmt::format("{}:{}:{}: {}", spec_.shown_file, position.line, position.column, message));
    }
    return lines;
  }

 private:
  const TaskSpec& spec_;
  std::vector<std::pair<SourcePosition, std::string>> findings_;
};

void refuse_resources(const TaskSpec& spec, Findings& findings) {
  const ResourcesSpec& resources = spec.resources;
  findings.add("resources.gpu_type", !resources.gpu_type.empty(),
               fmt::format("found '{}'; `muster run` does not start GPU jobs yet: remove the key",
                           resources.gpu_type));
  findings.add("resources.time_limit", resources.time_limit.has_value(),
               fmt::format("found {}; `muster run` enforces no time limit: remove the key, or say unlimited",
                           format_duration(resources.time_limit.value_or(std::chrono::milliseconds{0}))));
  findings.add(
      "resources.constraint", !resources.constraint.empty(),
      fmt::format("found '{}'; only a scheduler knows node features: remove the key, or name the hosts with "
                  "--hostfile",
                  resources.constraint));
  findings.add(
      "resources.exclude", !resources.exclude.empty(),
      "found nodes to leave out; `muster run` uses exactly the hosts of --hostfile: remove the key, and the "
      "nodes from the host file");
}

void refuse_schedule(const TaskSpec& spec, Findings& findings) {
  const ScheduleSpec& schedule = spec.schedule;
  findings.add(
      "schedule.min_workers", schedule.min_workers != spec.num_workers,
      fmt::format("found {}; `muster run` cannot go on with fewer workers yet: remove the key, or make it "
                  "num_workers, which is {}",
                  schedule.min_workers, spec.num_workers));
  findings.add(
      "schedule.max_workers", schedule.max_workers != spec.num_workers,
      fmt::format("found {}; `muster run` cannot grow a run yet: remove the key, or make it num_workers, "
                  "which is {}",
                  schedule.max_workers, spec.num_workers));
  findings.add("schedule.spare_workers", schedule.spare_workers != 0,
               fmt::format("found {}; `muster run` holds no spare workers yet: remove the key, or make it 0",
                           schedule.spare_workers));
}

// The ranks get it from mpirun, which ends itself at other signals.
void refuse_stop_signal(const TaskSpec& spec, Findings& findings) {
  const std::string& signal = spec.schedule.stop_signal;
  findings.add("schedule.stop_signal", signal != "SIGUSR1" && signal != "SIGUSR2",
               fmt::format("found {}, which mpirun does not pass on to the ranks: make it SIGUSR1 or SIGUSR2",
                           signal));
}

void refuse_trainer(const TaskSpec& spec, Findings& findings) {
  if (!spec.trainer) return;
  findings.add("trainer.precision", spec.trainer->precision != "fp32",
               fmt::format("found '{}'; muster-train computes in fp32 only as yet: make it fp32",
                           spec.trainer->precision));
  findings.add("trainer.device", spec.trainer->device == "cuda" && spec.has("trainer.device"),
               "found 'cuda'; muster-train does not compute on GPUs yet: make it cpu");
}

void refuse_hooks(const TaskSpec& spec, Findings& findings) {
  const auto refuse = [&](const char* key, const std::vector<std::string>& commands) {
    findings.add(key, !commands.empty(), "found a hook; `muster run` does not run hooks yet: remove the key");
  };
  refuse("hooks.on_preempt", spec.hooks.on_preempt);
  refuse("hooks.on_end", spec.hooks.on_end);
  refuse("hooks.before", spec.hooks.before);
  refuse("hooks.after", spec.hooks.after);
}

}  // namespace

std::vector<std::string> refusals(const TaskSpec& spec) {
  Findings findings(spec);
  findings.add(
      "image", !spec.image.empty(),
      fmt::format("found '{}'; `muster run` does not start containers yet: remove the key", spec.image));
  findings.add("gpu_per_worker", spec.gpu_per_worker > 0,
               fmt::format("found {}; `muster run` does not start GPU jobs yet: remove the key, or make it 0",
                           spec.gpu_per_worker));
  findings.add("mounts", !spec.mounts.empty(),
               "found mounts; without a container there is nothing to mount into: remove the key");
  findings.add(
      "network.rdma", spec.network.rdma.value_or(false),
      "found true; `muster run` cannot promise RDMA: remove the key (Open MPI then uses it if it can), or "
      "make it false");
  refuse_resources(spec, findings);
  refuse_schedule(spec, findings);
  refuse_stop_signal(spec, findings);
  refuse_trainer(spec, findings);
  refuse_hooks(spec, findings);
  return findings.lines();
}

std::vector<std::string> notices(const TaskSpec& spec) {
  Findings findings(spec);
  findings.add("resources.cpus_per_worker", spec.resources.cpus_per_worker > 0,
               "no scheduler reserves CPUs on bare metal; the ranks share all of them");
  findings.add("resources.memory_per_worker", spec.resources.memory_bytes > 0,
               "no scheduler limits memory on bare metal; the ranks share all of it");
  findings.add("schedule.priority", spec.schedule.priority != Priority::kNormal,
               "there is no queue on bare metal; the run starts at once");
  findings.add("schedule.preemptible", spec.schedule.preemptible, "nothing preempts a run on bare metal");
  return findings.lines();
}

}  // namespace muster::planning
