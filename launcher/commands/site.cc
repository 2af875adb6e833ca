// muster site show, muster site detect: what this site calls things.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "launcher/command_output.h"
#include "launcher/commands/command_line.h"
#include "launcher/site_profile.h"
#include "launcher/site_profile_format.h"
#include "launcher/units.h"
#include "slurm/site_detection.h"

namespace muster::commands {

namespace po = boost::program_options;

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kUsage =
    "usage: muster site show [--json]\n"
    "       muster site detect [--output FILE [--force]] [--timeout DURATION]\n\n"
    "show    prints the site profile that is in force, and where each value comes from\n"
    "detect  asks Slurm about this cluster and prints a site profile to begin with";

int show(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("json", "print JSON");
  const ParsedLine line = parse_command_line(
      {"usage: muster site show [--json]\n\nPrints the site profile that is in force, and where each value "
       "comes "
       "from: /etc/muster/site.yaml,\n~/.config/muster/site.yaml, and the file that $MUSTER_SITE names.",
       options, ""},
      arguments);
  if (line.exit_code) return *line.exit_code;
  const auto files = find_site_files();
  if (!files) return report_error(files.error());
  const auto profile = parse_site_profile(*files);
  if (!profile) return report_error(profile.error());
  std::vector<std::string> names;
  for (const SiteFile& file : *files) names.push_back(file.name);
  if (line.values.contains("json")) {
    fmt::print("{}\n", site_profile_to_json(*profile, names).dump(2));
  } else {
    fmt::print("{}", site_profile_to_text(*profile, names));
  }
  return contract::kMusterOk;
}

// Of the effective user, by which Slurm knows who asks; the environment may say anything.
std::string user_name() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(::geteuid());
}

slurm::RecordedOutput record(const std::vector<std::string>& words, milliseconds timeout) {
  const std::string shown = fmt::format("`{}`", fmt::join(words, " "));
  CommandOptions options;
  options.timeout = timeout;
  options.environment = {{"LC_ALL", "C"}};
  const auto output = run_command(words, options);
  if (!output) return {"", fmt::format("{}: {}", shown, output.error().message)};
  if (!output->succeeded()) {
    const std::string complaint = output->complaint();
    return {"", complaint.empty() ? fmt::format("{} failed with exit code {}", shown, output->exit_code)
                                  : fmt::format("{} said: {}", shown, complaint)};
  }
  return {output->out + output->err, ""};  // older versions of srun list on standard error
}

Status write_profile(const fs::path& path, const std::string& text, bool force) {
  std::error_code ignored;
  if (!force && fs::exists(fs::symlink_status(path, ignored)))
    return fail(ErrorCode::kAlreadyExists, "{} is there already; --force replaces it", path.string());
  return publish_file(posix_file_ops(), path, text);
}

Result<slurm::DetectedSite> detect_here(milliseconds timeout) {
  slurm::SiteOutputs outputs;
  outputs.user = user_name();
  bool any = false;
  for (const slurm::SiteCommand& command : slurm::site_commands(outputs.user)) {
    outputs.*command.output = record(command.words, timeout);
    any = any || (outputs.*command.output).failure.empty();
  }
  if (!any) return fail(ErrorCode::kUnavailable, "no Slurm answers here: {}", outputs.config.failure);
  slurm::DetectedSite site = slurm::detect_site(outputs);
  if (const auto profile = parse_site_profile({{"the detected profile", site.yaml}}); !profile)
    return fail(ErrorCode::kInternal, "{}", profile.error().message);
  return site;
}

int detect(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("output", po::value<std::string>(), "write to this file instead of standard output")(
      "force", "replace the file if it is there")("timeout", po::value<std::string>()->default_value("20s"),
                                                  "how long each of Slurm's commands may take");
  const ParsedLine line =
      parse_command_line({"usage: muster site detect [--output FILE [--force]] [--timeout DURATION]\n\n"
                          "Asks Slurm about this cluster (scontrol, sinfo, sacctmgr, srun --mpi=list) and "
                          "prints a site profile to "
                          "begin with:\nwhat is certain as keys, the rest as comments.",
                          options, ""},
                         arguments);
  if (line.exit_code) return *line.exit_code;
  const auto timeout = parse_duration(line.values["timeout"].as<std::string>());
  if (!timeout || *timeout <= milliseconds{0}) {
    fmt::print(stderr, "muster: --timeout: found '{}'; allowed: a duration such as {}\n",
               line.values["timeout"].as<std::string>(), kDurationForms);
    return contract::kMusterUsage;
  }
  const auto site = detect_here(*timeout);
  if (!site) return report_error(site.error());
  for (const std::string& unknown : site->unknown)
    fmt::print(stderr, "muster: could not find out: {}\n", unknown);
  if (!line.values.contains("output")) {
    fmt::print("{}", site->yaml);
    return contract::kMusterOk;
  }
  const std::string output = line.values["output"].as<std::string>();
  if (const Status written = write_profile(output, site->yaml, line.values.contains("force")); !written) {
    const int exit_code = report_error(written.error());
    return written.error().code == ErrorCode::kAlreadyExists ? contract::kMusterUsage : exit_code;
  }
  fmt::print("wrote {}\n", output);
  return contract::kMusterOk;
}

}  // namespace

int site(const Arguments& arguments) {
  const std::string action = arguments.empty() ? "" : arguments.front();
  const Arguments rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (action == "show") return show(rest);
  if (action == "detect") return detect(rest);
  if (action == "--help" || action == "-h") {
    fmt::print("{}\n", kUsage);
    return contract::kMusterOk;
  }
  fmt::print(stderr, "muster: {}\n\n{}\n",
             action.empty() ? "an action is missing" : fmt::format("unknown action '{}'", action), kUsage);
  return contract::kMusterUsage;
}

}  // namespace muster::commands
