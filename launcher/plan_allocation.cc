// A task for Slurm: what is asked for, what a site does not know or allow, and what might surprise.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/nearest_name.h"
#include "launcher/plan_parts.h"
#include "launcher/site_profile.h"
#include "launcher/units.h"

namespace muster::planning {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const char* name_of(Priority priority) {
  switch (priority) {
    case Priority::kLow:
      return "low";
    case Priority::kHigh:
      return "high";
    case Priority::kNormal:
      break;
  }
  return "normal";
}

bool is_said(const PriorityClass& place) {
  return !place.qos.empty() || !place.partition.empty() || !place.account.empty() || place.nice.has_value();
}

bool has_node_per_worker(const TaskSpec& spec) { return spec.gpu_per_worker > 0 || spec.num_workers == 1; }

// Without a word about CPUs: one for each thread that muster-train computes with, one for any other rank.
int cpus_per_worker(const TaskSpec& spec) {
  if (spec.resources.cpus_per_worker > 0) return spec.resources.cpus_per_worker;
  return spec.ranks_per_worker * (spec.trainer ? spec.trainer->threads : 1);
}

std::string unknown_gpu(const std::string& name, const SiteProfile& site) {
  if (site.gpus.empty()) {
    return fmt::format(
        "found '{}'; the site profile names no GPUs: remove the key, or add it to the profile's gpus", name);
  }
  std::vector<std::string> known;
  std::vector<std::string> names;  // aliases, too
  for (const auto& [gpu, type] : site.gpus) {
    known.push_back(gpu);
    names.push_back(gpu);
    names.insert(names.end(), type.aliases.begin(), type.aliases.end());
  }
  const auto nearest = nearest_name(name, names);
  return fmt::format("found '{}'; known at this site: {}{}", name, fmt::join(known, ", "),
                     nearest ? fmt::format("; did you mean '{}'?", *nearest) : "");
}

void refuse_sizes(const TaskSpec& spec, const SiteProfile& site, Findings& findings) {
  const int cpus = spec.resources.cpus_per_worker;
  findings.add("resources.cpus_per_worker", cpus > 0 && cpus < spec.ranks_per_worker,
               fmt::format("found {}; allowed on Slurm: at least one for each of the {} ranks of a worker",
                           cpus, spec.ranks_per_worker));
  const auto& limit = spec.resources.time_limit;
  const auto& limit_max = site.limits.max_time;
  findings.add("resources.time_limit", limit && limit_max && *limit > *limit_max,
               fmt::format("found {}; allowed at this site: at most {}",
                           format_duration(limit.value_or(milliseconds{0})),
                           format_duration(limit_max.value_or(milliseconds{0}))));
  const int nodes_max = site.limits.max_nodes.value_or(spec.num_workers);
  findings.add("num_workers", spec.gpu_per_worker > 0 && spec.num_workers > nodes_max,
               fmt::format("found {}; each worker with GPUs has a node of its own, and this site allows {} "
                           "nodes: have fewer workers, with more GPUs each",
                           spec.num_workers, nodes_max));
}

void refuse_names(const TaskSpec& spec, const SiteProfile& site, Findings& findings) {
  const std::string& gpu_type = spec.resources.gpu_type;
  if (!gpu_type.empty() && site.find_gpu(gpu_type) == nullptr) {
    findings.add("resources.gpu_type", true, unknown_gpu(gpu_type, site));
  }
  const Priority priority = spec.schedule.priority;
  findings.add("schedule.priority", priority != Priority::kNormal && !is_said(site.priority(priority)),
               fmt::format("found '{0}'; the site profile gives it no QOS, partition, account or nice value: "
                           "remove the key, or add priority.{0} to the profile",
                           name_of(priority)));
}

// Texts that become part of the batch script.
void refuse_texts(const TaskSpec& spec, Findings& findings) {
  const auto check = [&](const char* key, const std::string& value) {
    const std::string fault = script_fault(value);
    findings.add(key, !fault.empty(), fault);
  };
  check("checkpoint_path", spec.checkpoint_path);
  check("resources.constraint", spec.resources.constraint);
  for (const std::string& nodes : spec.resources.exclude) check("resources.exclude", nodes);
}

}  // namespace

void refuse_on_slurm(const TaskSpec& spec, const SiteProfile& site, Findings& findings) {
  refuse_sizes(spec, site, findings);
  refuse_names(spec, site, findings);
  refuse_texts(spec, findings);
  const bool gpu_trainer = spec.trainer && spec.trainer->device == "cuda" && !spec.has("trainer.device");
  findings.add(
      "gpu_per_worker", gpu_trainer,
      fmt::format("found {}; muster-train does not compute on GPUs yet: remove the key, or make it 0",
                  spec.gpu_per_worker));
}

void notice_on_slurm(const TaskSpec& spec, const SiteProfile& site, Findings& findings) {
  const bool unlimited = spec.has("resources.time_limit") && !spec.resources.time_limit;
  findings.add("resources.time_limit", unlimited,
               fmt::format("a job without an end waits behind every maintenance, so each allocation asks for "
                           "the site's {}",
                           format_duration(site.limits.default_time)));
  findings.add("num_workers", spec.gpu_per_worker > 0 && spec.num_workers > 1,
               "each worker with GPUs has a node of its own; GPUs that may lie on one node belong to one "
               "worker: make gpu_per_worker larger and num_workers smaller");
  findings.add("gpu_per_worker", spec.gpu_per_worker > 0 && spec.resources.cpus_per_worker == 0,
               fmt::format("resources.cpus_per_worker is not given; a worker asks for {} CPUs, one a rank",
                           cpus_per_worker(spec)));
  findings.add(
      "schedule.preemptible", spec.schedule.preemptible,
      "on Slurm the QOS or partition decides what is preempted; here it is that of schedule.priority");
  const auto& grace = site.preemption.grace;
  findings.add(
      "schedule.grace", spec.has("schedule.grace") && grace && *grace < spec.schedule.grace,
      fmt::format("found {}; a preempted job is killed {} after the notice at this site",
                  format_duration(spec.schedule.grace), format_duration(grace.value_or(milliseconds{0}))));
}

AllocationRequest allocation_request(const TaskSpec& spec, const SiteProfile& site) {
  AllocationRequest request;
  request.job_name = spec.task_name;
  request.workers = spec.num_workers;
  request.node_per_worker = has_node_per_worker(spec);
  if (!request.node_per_worker && site.limits.max_nodes.value_or(spec.num_workers) < spec.num_workers) {
    request.nodes_max = site.limits.max_nodes;
  }
  request.cpus_per_worker = cpus_per_worker(spec);
  request.gpus_per_worker = spec.gpu_per_worker;
  if (const GpuType* gpu = site.find_gpu(spec.resources.gpu_type)) request.gres_type = gpu->gres_type;
  request.memory_bytes = spec.resources.memory_bytes;
  const milliseconds site_time =
      std::min(site.limits.default_time, site.limits.max_time.value_or(milliseconds::max()));
  request.time_limit = std::chrono::ceil<seconds>(spec.resources.time_limit.value_or(site_time));
  request.place = site.priority(spec.schedule.priority);
  request.constraint = spec.resources.constraint;
  request.exclude = spec.resources.exclude;
  request.extra_options = site.sbatch_options;
  request.process_start = site.process_start;
  return request;
}

}  // namespace muster::planning
