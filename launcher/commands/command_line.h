// What the subcommands share: reading their options, and telling errors in one form.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/variables_map.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/commands/commands.h"

namespace muster::commands {

// One subcommand's options. `positional` is the name of the option that takes the other arguments ("" if
// there are none), at most `positional_max` of them (-1: any number).
struct CommandLine {
  std::string usage;  // "muster plan FILE [OPTIONS]", then what it does
  boost::program_options::options_description options;
  std::string positional;
  int positional_max = 1;
  std::string positional_allowed = "the path of a task file";  // for messages
};

// The parsed options, or the exit code to leave with at once: --help was printed, or a usage error.
struct ParsedLine {
  boost::program_options::variables_map values;
  std::optional<int> exit_code;
};
// An empty argument or option value is a usage error: it is what an unset variable of a script leaves.
ParsedLine parse_command_line(CommandLine command_line, const Arguments& arguments);

// Prints each line of the message as "muster: …" on standard error and returns the exit code for the error.
int report_error(const Error& error);

// The exit code of `muster` for an error that ended a command (common/run_contract.h).
int exit_code_of(ErrorCode code);

}  // namespace muster::commands
