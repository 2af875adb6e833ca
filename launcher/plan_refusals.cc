// What a task may ask for and muster cannot give: anywhere yet, or on bare metal. A requested thing is never
// dropped in silence: it is refused where the task would otherwise run differently, and noticed where it
// would not.
#include <fmt/format.h>

#include "launcher/plan_findings.h"
#include "launcher/plan_parts.h"
#include "launcher/site_profile.h"
#include "launcher/units.h"

namespace muster::planning {

namespace {

void refuse_on_bare_metal(const TaskSpec& spec, Findings& findings) {
  const ResourcesSpec& resources = spec.resources;
  findings.add("gpu_per_worker", spec.gpu_per_worker > 0,
               fmt::format("found {}; `muster run` does not start GPU jobs yet: remove the key, or make it 0",
                           spec.gpu_per_worker));
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

void refuse_schedule(const TaskSpec& spec, std::string_view command, Findings& findings) {
  const ScheduleSpec& schedule = spec.schedule;
  findings.add("schedule.min_workers", schedule.min_workers != spec.num_workers,
               fmt::format("found {}; {} cannot go on with fewer workers yet: remove the key, or make it "
                           "num_workers, which is {}",
                           schedule.min_workers, command, spec.num_workers));
  findings.add("schedule.max_workers", schedule.max_workers != spec.num_workers,
               fmt::format("found {}; {} cannot grow a run yet: remove the key, or make it num_workers, "
                           "which is {}",
                           schedule.max_workers, command, spec.num_workers));
  findings.add("schedule.spare_workers", schedule.spare_workers != 0,
               fmt::format("found {}; {} holds no spare workers yet: remove the key, or make it 0",
                           schedule.spare_workers, command));
}

// Where mpirun starts the ranks, they get it from mpirun, which ends itself at other signals.
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

void refuse_hooks(const TaskSpec& spec, std::string_view command, Findings& findings) {
  const auto refuse = [&](const char* key, const std::vector<std::string>& commands) {
    findings.add(key, !commands.empty(),
                 fmt::format("found a hook; {} does not run hooks yet: remove the key", command));
  };
  refuse("hooks.on_preempt", spec.hooks.on_preempt);
  refuse("hooks.on_end", spec.hooks.on_end);
  refuse("hooks.before", spec.hooks.before);
  refuse("hooks.after", spec.hooks.after);
}

void refuse_everywhere(const TaskSpec& spec, std::string_view command, Findings& findings) {
  findings.add(
      "image", !spec.image.empty(),
      fmt::format("found '{}'; {} does not start containers yet: remove the key", spec.image, command));
  findings.add("mounts", !spec.mounts.empty(),
               "found mounts; without a container there is nothing to mount into: remove the key");
  findings.add("network.rdma", spec.network.rdma.value_or(false),
               fmt::format("found true; {} cannot promise RDMA: remove the key (Open MPI then uses it if it "
                           "can), or make it false",
                           command));
  refuse_schedule(spec, command, findings);
  refuse_trainer(spec, findings);
  refuse_hooks(spec, command, findings);
}

void notice_on_bare_metal(const TaskSpec& spec, Findings& findings) {
  findings.add("resources.cpus_per_worker", spec.resources.cpus_per_worker > 0,
               "no scheduler reserves CPUs on bare metal; the ranks share all of them");
  findings.add("resources.memory_per_worker", spec.resources.memory_bytes > 0,
               "no scheduler limits memory on bare metal; the ranks share all of it");
  findings.add("schedule.priority", spec.schedule.priority != Priority::kNormal,
               "there is no queue on bare metal; the run starts at once");
  findings.add("schedule.preemptible", spec.schedule.preemptible, "nothing preempts a run on bare metal");
}

}  // namespace

std::vector<std::string> refusals(const TaskSpec& spec, const PlanOptions& options) {
  Findings findings(spec);
  const SiteProfile* site = options.slurm_site;
  refuse_everywhere(spec, site == nullptr ? "`muster run`" : "muster under Slurm", findings);
  if (site == nullptr) {
    refuse_on_bare_metal(spec, findings);
  } else {
    refuse_on_slurm(spec, *site, findings);
  }
  const bool by_mpirun = site == nullptr || site->process_start == ProcessStart::kMpirun;
  if (by_mpirun) refuse_stop_signal(spec, findings);
  return findings.lines();
}

std::vector<std::string> notices(const TaskSpec& spec, const PlanOptions& options) {
  Findings findings(spec);
  if (options.slurm_site == nullptr) {
    notice_on_bare_metal(spec, findings);
  } else {
    notice_on_slurm(spec, *options.slurm_site, findings);
  }
  return findings.lines();
}

}  // namespace muster::planning
