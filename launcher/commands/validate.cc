// muster validate FILE…: checks task files and says everything that is wrong with them.
#include <fmt/format.h>

#include "common/run_contract.h"
#include "launcher/commands/command_line.h"
#include "launcher/commands/commands.h"
#include "launcher/task_spec.h"

namespace muster::commands {

int validate(const Arguments& arguments) {
  constexpr int kAnyNumber = -1;
  const ParsedLine line =
      parse_command_line({"usage: muster validate FILE...\n\n"
                          "Checks task files and reports every error in each; starts nothing. Exit code: 0 "
                          "if all are good, 65 if\n"
                          "one has errors, 66 if one is not there.",
                          boost::program_options::options_description("Options"), "FILE", kAnyNumber},
                         arguments);
  if (line.exit_code) return *line.exit_code;
  int exit_code = contract::kMusterOk;
  for (const std::string& file : line.values["FILE"].as<std::vector<std::string>>()) {
    const auto spec = load_task_file(file);
    if (spec) {
      fmt::print("{}: ok\n", file);
      continue;
    }
    const int code = report_error(spec.error());
    if (exit_code == contract::kMusterOk) exit_code = code;
  }
  return exit_code;
}

}  // namespace muster::commands
