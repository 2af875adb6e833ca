// muster: the launcher. This file only finds the subcommand.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "common/run_contract.h"
#include "common/version.h"
#include "launcher/commands/commands.h"

namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const muster::commands::Arguments&);
};

constexpr std::array kCommands{
    Command{"run", "run a task file to its end on this machine or on the hosts of a host file",
            muster::commands::run},
    Command{"validate", "check task files", muster::commands::validate},
    Command{"plan", "show what a task file would start; start nothing", muster::commands::plan},
    Command{"exec", "give a rank its environment and become the program", muster::commands::exec},
    Command{"list", "list runs", muster::commands::list},
    Command{"status", "show what became of a run", muster::commands::status},
    Command{"logs", "show the output of a run's ranks", muster::commands::logs},
    Command{"rm", "remove a run and everything it stored", muster::commands::rm},
    Command{"checkpoint", "list, show, verify or hash checkpoints, or save one now",
            muster::commands::checkpoint},
};

// Started by muster itself, not by people.
constexpr Command kGuard{"guard", "", muster::commands::guard};

void print_usage(std::FILE* out) {
  fmt::print(out, "usage: muster COMMAND [OPTIONS]\n\n");
  for (const Command& command : kCommands) fmt::print(out, "  {:<11} {}\n", command.name, command.summary);
  fmt::print(out, "\n`muster COMMAND --help` tells more. Exit codes: docs/errors.md.\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name.empty()) {
    print_usage(stderr);
    return muster::contract::kMusterUsage;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return muster::contract::kMusterOk;
  }
  if (name == "--version") {
    fmt::print("muster {}\n", muster::kVersion);
    return muster::contract::kMusterOk;
  }
  const Command* command =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return c.name == name; });
  if (name == kGuard.name) command = &kGuard;
  if (command == kCommands.end()) {
    fmt::print(stderr, "muster: unknown command '{}'; `muster --help` lists them\n", name);
    return muster::contract::kMusterUsage;
  }
  try {
    return command->run(muster::commands::Arguments(argv + 2, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "muster: internal error: {}\n", error.what());
    return muster::contract::kMusterInternal;
  }
}
