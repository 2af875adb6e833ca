#include "slurm/sbatch_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "launcher/shell_words.h"
#include "slurm/slurm_time.h"

namespace muster::slurm {
namespace {

using std::chrono::seconds;

// The #SBATCH lines, and the first thing that is wrong with one.
class Lines {
 public:
  void flag(std::string_view option) { text_ += fmt::format("#SBATCH {}\n", option); }

  // Nothing for an empty value.
  void option(std::string_view name, const std::string& value) {
    if (value.empty()) return;
    check(name, value);
    flag(fmt::format("{}={}", name, value));
  }
  void option(std::string_view name, int value) { option(name, std::to_string(value)); }

  void whole_option(const std::string& text) {
    check("a site's sbatch option", text);
    flag(text);
  }

  Result<std::string> take() && {
    if (error_.message.empty()) return std::move(text_);
    return tl::unexpected(std::move(error_));
  }

 private:
  void check(std::string_view name, const std::string& value) {
    const std::string fault = script_fault(value);
    if (fault.empty() || !error_.message.empty()) return;
    error_ = {ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, fault)};
  }

  std::string text_;
  Error error_;
};

// Mebibytes that hold the bytes: Slurm counts in those.
std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  return fmt::format("{}M", bytes / kMebibyte + (bytes % kMebibyte == 0 ? 0 : 1));
}

void add_sizes(const AllocationRequest& request, Lines& lines) {
  const auto cpus = static_cast<std::uint64_t>(request.cpus_per_worker);
  const std::uint64_t memory = request.memory_bytes;
  if (request.node_per_worker) {
    lines.option("--nodes", request.workers);
  } else if (request.nodes_max) {
    lines.option("--nodes", fmt::format("1-{}", *request.nodes_max));
    lines.flag("--use-min-nodes");  // Slurm takes as many nodes of a range as it can, otherwise
  }
  lines.option("--ntasks", request.workers);
  if (request.node_per_worker) lines.option("--ntasks-per-node", 1);
  lines.option("--cpus-per-task", request.cpus_per_worker);
  if (memory > 0 && request.node_per_worker) lines.option("--mem", mebibytes(memory));
  if (memory > 0 && !request.node_per_worker) {
    lines.option("--mem-per-cpu", mebibytes(memory / cpus + (memory % cpus == 0 ? 0 : 1)));
  }
  lines.option("--gres", gres_of(request));
  lines.option("--time", format_time_span(TimeSpan::finite(request.time_limit)));
}

void add_place(const AllocationRequest& request, Lines& lines) {
  lines.option("--qos", request.place.qos);
  lines.option("--partition", request.place.partition);
  lines.option("--account", request.place.account);
  if (request.place.nice) lines.option("--nice", *request.place.nice);
  lines.option("--constraint", request.constraint);
  lines.option("--exclude", fmt::format("{}", fmt::join(request.exclude, ",")));
}

void add_submission(const SubmitOptions& options, Lines& lines) {
  lines.option("--dependency", options.dependency);
  lines.option("--array", options.array);
  lines.option("--begin", options.begin);
  if (options.hold) lines.flag("--hold");
}

// Time for the grace and for saying so; in a short job at most half of it, or the signal would come at once.
seconds notice_before_end(const Plan& plan, const AllocationRequest& request) {
  constexpr seconds kMargin{30};
  constexpr seconds kMost{65'535};  // of sbatch
  return std::min({std::chrono::ceil<seconds>(plan.grace) + kMargin, request.time_limit / 2, kMost});
}

// A % begins a replacement in the name of a log.
std::string log_path(const JobIdentity& job, bool is_array) {
  std::string path;
  for (const char c : (job.run_directory / "logs").string()) path += c == '%' ? "%%" : std::string(1, c);
  return path + (is_array ? "/slurm-%A_%a.log" : "/slurm-%j.log");
}

}  // namespace

Result<std::string> sbatch_script(const Plan& plan, const JobIdentity& job, const SubmitOptions& options) {
  assert(plan.allocation);
  const AllocationRequest& request = *plan.allocation;
  Lines lines;
  lines.option("--job-name", request.job_name);
  lines.option("--comment", job.comment);
  add_sizes(request, lines);
  add_place(request, lines);
  add_submission(options, lines);
  lines.option("--chdir", job.run_directory.string());
  lines.option("--output", log_path(job, !options.array.empty()));
  lines.option("--open-mode", "append");  // a requeued job writes into the same log
  lines.flag("--requeue");
  lines.flag("--no-kill");
  const seconds notice = notice_before_end(plan, request);
  if (notice.count() > 0) lines.option("--signal", fmt::format("B:{}@{}", kNoticeSignal, notice.count()));
  lines.option("--export", "ALL");
  for (const std::string& option : request.extra_options) lines.whole_option(option);
  MUSTER_ASSIGN(const std::string text, std::move(lines).take());
  return fmt::format("#!/bin/sh\n{}\nexec {} supervise {}\n", text, shell_quoted(job.muster_executable),
                     shell_quoted(job.run_directory.string()));
}

}  // namespace muster::slurm
