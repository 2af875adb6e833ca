#include "trainer/commands/command_line.h"

#include <fmt/format.h>

#include <sstream>

#include "common/run_contract.h"
#include "trainer/standard_output.h"

namespace muster::commands {

namespace po = boost::program_options;

CommandLine parse_command_line(const std::string& usage, po::options_description flags,
                               std::size_t arguments_needed, int argc, const char* const* argv) {
  CommandLine line;
  flags.add_options()("help,h", "show this help");
  po::options_description all;
  all.add(flags).add_options()("arguments", po::value(&line.arguments));
  po::positional_options_description positional;
  positional.add("arguments", -1);
  const auto refuse = [&](const std::string& why) {
    fmt::print(stderr, "muster-train {}: {}\n{}\n", argv[0], why, usage);
    line.exit_code = contract::kExitDoNotRetry;
  };
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).style(style).run(),
              line.flags);
    po::notify(line.flags);
  } catch (const po::error& error) {
    refuse(error.what());
    return line;
  }
  if (line.flags.count("help") != 0) {
    std::ostringstream text;
    text << flags;
    line.exit_code = print_result(fmt::format("{}\n\n{}", usage, text.str()));
  } else if (line.arguments.size() != arguments_needed) {
    refuse(fmt::format("found {} argument{}; needed: {}", line.arguments.size(),
                       line.arguments.size() == 1 ? "" : "s", arguments_needed));
  }
  return line;
}

}  // namespace muster::commands
