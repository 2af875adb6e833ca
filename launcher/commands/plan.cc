// muster plan FILE: shows what `muster run FILE` would start; starts and writes nothing.
#include "launcher/plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/run_contract.h"
#include "launcher/commands/command_line.h"
#include "launcher/commands/commands.h"
#include "launcher/plan_options.h"
#include "launcher/task_spec.h"

namespace muster::commands {

namespace po = boost::program_options;

namespace {

Result<Plan> plan_file(const std::string& file, const std::string& hostfile) {
  MUSTER_ASSIGN(const TaskSpec spec, load_task_file(file));
  MUSTER_ASSIGN(const PlanOptions options, plan_options_here({hostfile, ""}, spec));
  return make_plan(spec, options);
}

}  // namespace

int plan(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("format", po::value<std::string>()->default_value("text"), "text or json")(
      "hostfile", po::value<std::string>()->default_value(""), "hosts to run on, one `name slots=N` a line");
  const ParsedLine line = parse_command_line({"usage: muster plan FILE [OPTIONS]\n\n"
                                              "Shows what `muster run FILE` would start, where, and with "
                                              "which environment; starts and writes nothing.\n"
                                              "Secrets are shown as ***.",
                                              options, "FILE"},
                                             arguments);
  if (line.exit_code) return *line.exit_code;
  const std::string format = line.values["format"].as<std::string>();
  if (format != "text" && format != "json") {
    fmt::print(stderr, "muster: --format: found '{}'; allowed: text, json\n", format);
    return contract::kMusterUsage;
  }
  const auto plan = plan_file(line.values["FILE"].as<std::vector<std::string>>().front(),
                              line.values["hostfile"].as<std::string>());
  if (!plan) return report_error(plan.error());
  fmt::print("{}", format == "json" ? plan_to_json(*plan).dump(2) + "\n" : plan_to_text(*plan));
  return contract::kMusterOk;
}

}  // namespace muster::commands
