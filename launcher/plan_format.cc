// A plan for people and for programs. Secrets are *** in both.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/plan.h"
#include "launcher/shell_words.h"
#include "launcher/units.h"

namespace muster {

namespace {

using nlohmann::json;

constexpr const char* kMask = "***";

std::string shown_value(const EnvironmentVariable& variable) {
  return variable.secret ? kMask : variable.value;
}

// mpirun's command with words in capitals for what only the attempt knows.
std::vector<std::string> shown_command(const Plan& plan, std::vector<std::string> program) {
  Plan shown = plan;
  shown.argv = std::move(program);
  return mpirun_argv(shown, "muster", "ENVIRONMENT_FILE", plan.hosts.empty() ? "" : "HOST_FILE");
}

// A new line for each flag, so that a flag and its value stand together.
std::string program_text(const std::vector<std::string>& argv) {
  std::string text = shell_quoted(argv.front());
  for (std::size_t i = 1; i < argv.size(); ++i) {
    text += argv[i].starts_with("-") ? " \\\n    " : " ";
    text += shell_quoted(argv[i]);
  }
  return text;
}

std::string allocation_text(const AllocationRequest& request) {
  std::string text = fmt::format("Slurm: {} worker{}, ", request.workers, request.workers == 1 ? "" : "s");
  text += request.node_per_worker ? "each on a node of its own" : "sharing nodes as they fit";
  text +=
      fmt::format(", each with {} CPU{}", request.cpus_per_worker, request.cpus_per_worker == 1 ? "" : "s");
  if (request.gpus_per_worker > 0) text += fmt::format(", {}", gres_of(request));
  if (request.memory_bytes > 0) text += fmt::format(", {}", format_memory(request.memory_bytes));
  return text + fmt::format("; for {}", format_duration(request.time_limit));
}

std::string place_text(const Plan& plan) {
  if (plan.allocation) return allocation_text(*plan.allocation);
  if (plan.placement.empty()) return "this machine";
  std::string text;
  for (const Host& host : plan.placement) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host.name, host.slots);
  }
  return text;
}

const char* name_of(ProcessStart start) {
  switch (start) {
    case ProcessStart::kSrunPmi2:
      return "srun_pmi2";
    case ProcessStart::kMpirun:
      return "mpirun";
    case ProcessStart::kSrunPmix:
      break;
  }
  return "srun_pmix";
}

json allocation_json(const AllocationRequest& request) {
  return {{"job_name", request.job_name},
          {"workers", request.workers},
          {"node_per_worker", request.node_per_worker},
          {"nodes_max", request.nodes_max ? json(*request.nodes_max) : json()},
          {"cpus_per_worker", request.cpus_per_worker},
          {"gres_per_worker", gres_of(request)},
          {"memory_bytes", request.memory_bytes},
          {"time_limit_s", request.time_limit.count()},
          {"qos", request.place.qos},
          {"partition", request.place.partition},
          {"account", request.place.account},
          {"nice", request.place.nice ? json(*request.place.nice) : json()},
          {"constraint", request.constraint},
          {"exclude", request.exclude},
          {"extra_options", request.extra_options},
          {"process_start", name_of(request.process_start)}};
}

json hosts_json(const std::vector<Host>& hosts, const char* count_name) {
  json list = json::array();
  for (const Host& host : hosts) list.push_back({{"name", host.name}, {count_name, host.slots}});
  return list;
}

}  // namespace

json environment_to_json(const Plan& plan) {
  json environment = json::object();
  for (const EnvironmentVariable& variable : plan.environment)
    environment[variable.name] = shown_value(variable);
  return environment;
}

json plan_to_json(const Plan& plan) {
  json fingerprint = json::object();
  for (const auto& [key, value] : plan.result_fingerprint) fingerprint[key] = value;
  json shown = {{"task_name", plan.task_name},
                {"task_file", plan.task_file},
                {"num_workers", plan.num_workers},
                {"ranks_per_worker", plan.ranks_per_worker},
                {"world_size", plan.world_size},
                {"argv", plan.argv},
                {"environment", environment_to_json(plan)},
                {"working_directory", plan.working_directory},
                {"checkpoint_root", plan.checkpoint_root},
                {"data_path", plan.data_path},
                {"stop_signal", plan.stop_signal},
                {"grace_ms", plan.grace.count()},
                {"network_interface", plan.network_interface},
                {"rdma_allowed", plan.rdma_allowed},
                {"retry",
                 {{"crashes_without_progress", plan.retry.crashes_without_progress},
                  {"crashes_total", plan.retry.crashes_total},
                  {"node_failures", plan.retry.node_failures},
                  {"launcher_errors", plan.retry.launcher_errors}}},
                {"hosts", hosts_json(plan.hosts, "slots")},
                {"placement", hosts_json(plan.placement, "ranks")},
                {"result_fingerprint", fingerprint},
                {"notices", plan.notices}};
  if (plan.allocation) {
    shown["allocation"] = allocation_json(*plan.allocation);
  } else {
    shown["launch"] = shown_command(plan, plan.argv);
  }
  return shown;
}

std::string plan_to_text(const Plan& plan) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<13} {}\n", name, value);
  };
  line("task", fmt::format("{} ({})", plan.task_name, plan.task_file));
  line("ranks",
       fmt::format("{} ({} workers of {})", plan.world_size, plan.num_workers, plan.ranks_per_worker));
  line("on", place_text(plan));
  line("folder", plan.working_directory);
  line("data", plan.data_path.empty() ? "none" : plan.data_path);
  line("runs below", plan.checkpoint_root);
  line("stop", fmt::format("{}, then {} until the kill", plan.stop_signal, format_duration(plan.grace)));
  line("retries", fmt::format("{} crashes without progress, {} crashes, {} node failures, {} launcher errors",
                              plan.retry.crashes_without_progress, plan.retry.crashes_total,
                              plan.retry.node_failures, plan.retry.launcher_errors));
  if (!plan.network_interface.empty()) line("interface", plan.network_interface);
  if (!plan.environment.empty()) text += "environment\n";
  for (const EnvironmentVariable& variable : plan.environment) {
    text += fmt::format("  {}={}\n", variable.name, variable.secret ? kMask : shell_quoted(variable.value));
  }
  text += fmt::format("program\n  {}\n", program_text(plan.argv));
  if (!plan.allocation)
    text += fmt::format("launch\n  {}\n", shell_command(shown_command(plan, {"PROGRAM"})));
  for (const std::string& notice : plan.notices) line("notice", notice);
  return text;
}

}  // namespace muster
