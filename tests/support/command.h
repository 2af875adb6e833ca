// Runs a program to its end and keeps what it printed.
#pragma once

#include <string>
#include <vector>

namespace muster::testing {

struct CommandResult {
  int exit_code = -1;  // 128 + N for signal N
  std::string output;  // standard output
  std::string errors;  // standard error
};

// argv[0] is looked up in PATH. No shell.
CommandResult run_command(const std::vector<std::string>& argv);

// The built executable of that name.
std::string built_program(const std::string& name);

}  // namespace muster::testing
