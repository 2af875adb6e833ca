// muster plan FILE: shows what `muster run FILE` would start, or the batch script that FILE becomes on Slurm;
// starts and writes nothing.
#include "launcher/plan.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "launcher/commands/command_line.h"
#include "launcher/commands/commands.h"
#include "launcher/plan_options.h"
#include "launcher/site_profile.h"
#include "launcher/task_spec.h"
#include "slurm/sbatch_script.h"

namespace muster::commands {

namespace {

namespace po = boost::program_options;

// What stands for the id that a run gets when it is made.
constexpr const char* kRunIdPlaceholder = "RUN_ID";

Result<std::string> plan_for_bare_metal(const std::string& file, const std::string& hostfile, bool as_json) {
  MUSTER_ASSIGN(const TaskSpec spec, load_task_file(file));
  MUSTER_ASSIGN(const PlanOptions options, plan_options_here({hostfile, ""}, spec));
  MUSTER_ASSIGN(const Plan plan, make_plan(spec, options));
  return as_json ? plan_to_json(plan).dump(2) + "\n" : plan_to_text(plan);
}

// The script is on standard output, word for word; notices are not part of it.
Result<std::string> script_for_slurm(const std::string& file) {
  MUSTER_ASSIGN(const TaskSpec spec, load_task_file(file));
  MUSTER_ASSIGN(PlanOptions options, plan_options_here({}, spec));
  MUSTER_ASSIGN(const SiteProfile site, load_site_profile());
  options.slurm_site = &site;
  MUSTER_ASSIGN(const Plan plan, make_plan(spec, options));
  for (const std::string& notice : plan.notices) fmt::print(stderr, "muster: {}\n", notice);
  slurm::JobIdentity job;
  job.comment = fmt::format("{}{}", slurm::kCommentPrefix, kRunIdPlaceholder);
  job.run_directory = std::filesystem::path(plan.checkpoint_root) / kRunIdPlaceholder;
  std::error_code error;
  job.muster_executable = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return fail(ErrorCode::kIo, "cannot read /proc/self/exe: {}", error.message());
  return slurm::sbatch_script(plan, job);
}

int usage_error(const std::string& message) {
  fmt::print(stderr, "muster: {}\n", message);
  return contract::kMusterUsage;
}

}  // namespace

int plan(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("format", po::value<std::string>()->default_value("text"), "text, json or sbatch")(
      "hostfile", po::value<std::string>()->default_value(""), "hosts to run on, one `name slots=N` a line");
  const ParsedLine line =
      parse_command_line({"usage: muster plan FILE [OPTIONS]\n\n"
                          "Shows what `muster run FILE` would start, where, and with "
                          "which environment; starts and writes nothing.\n"
                          "Secrets are shown as ***. --format sbatch shows the batch script "
                          "for Slurm instead, with RUN_ID for the run's id.",
                          options, "FILE"},
                         arguments);
  if (line.exit_code) return *line.exit_code;
  const std::string format = line.values["format"].as<std::string>();
  const std::string file = line.values["FILE"].as<std::vector<std::string>>().front();
  const std::string hostfile = line.values["hostfile"].as<std::string>();
  if (format != "text" && format != "json" && format != "sbatch") {
    return usage_error(fmt::format("--format: found '{}'; allowed: text, json, sbatch", format));
  }
  if (format == "sbatch" && !hostfile.empty()) {
    return usage_error("--hostfile: Slurm chooses the hosts; allowed: --format text, --format json");
  }
  const auto shown =
      format == "sbatch" ? script_for_slurm(file) : plan_for_bare_metal(file, hostfile, format == "json");
  if (!shown) return report_error(shown.error());
  fmt::print("{}", *shown);
  return contract::kMusterOk;
}

}  // namespace muster::commands
