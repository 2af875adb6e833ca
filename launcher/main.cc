// muster: the launcher. This file only finds the subcommand.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string_view>

#include "common/file_ops.h"
#include "common/run_contract.h"
#include "common/version.h"
#include "launcher/commands/commands.h"

namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const muster::commands::Arguments&);
  // Its exit code tells what became of a run, not whether that could be printed.
  bool outlives_output = false;
};

constexpr std::array kCommands{
    Command{"run", "run a task file to its end on this machine or on the hosts of a host file",
            muster::commands::run, true},
    Command{"validate", "check task files", muster::commands::validate},
    Command{"plan", "show what a task file would start; start nothing", muster::commands::plan},
    Command{"exec", "give a rank its environment and become the program", muster::commands::exec},
    Command{"list", "list runs", muster::commands::list},
    Command{"status", "show what became of a run", muster::commands::status},
    Command{"logs", "show the output of a run's ranks", muster::commands::logs},
    Command{"rm", "remove a run and everything it stored", muster::commands::rm},
    Command{"checkpoint", "list, show, verify or hash checkpoints, or save one now",
            muster::commands::checkpoint},
    Command{"site", "show what this site calls things, or ask Slurm about it", muster::commands::site},
};

// Started by muster itself, not by people.
constexpr Command kGuard{"guard", "", muster::commands::guard};

void print_usage(std::FILE* out) {
  fmt::print(out, "usage: muster COMMAND [OPTIONS]\n\n");
  for (const Command& command : kCommands) fmt::print(out, "  {:<11} {}\n", command.name, command.summary);
  fmt::print(out, "\n`muster COMMAND --help` tells more. Exit codes: docs/errors.md.\n");
}

// What was printed must have arrived: half a list must not look like a list (a full disk, a closed file).
int after_output(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  fmt::print(stderr, "muster: cannot write to standard output: {}\n", muster::errno_text(errno));
  return exit_code == muster::contract::kMusterOk ? muster::contract::kMusterIo : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_usage(stderr);
    return muster::contract::kMusterUsage;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return after_output(muster::contract::kMusterOk);
  }
  if (name == "--version") {
    fmt::print("muster {}\n", muster::kVersion);
    return after_output(muster::contract::kMusterOk);
  }
  const Command* command =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return c.name == name; });
  if (name == kGuard.name) command = &kGuard;
  if (command == kCommands.end()) {
    fmt::print(stderr, "muster: unknown command '{}'; `muster --help` lists them\n", name);
    return muster::contract::kMusterUsage;
  }
  try {
    const int exit_code = command->run(muster::commands::Arguments(argv + 2, argv + argc));
    return command->outlives_output ? exit_code : after_output(exit_code);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return after_output(muster::contract::kMusterOk);
    fmt::print(stderr, "muster: internal error: {}\n", error.what());
    return muster::contract::kMusterInternal;
  }
}
