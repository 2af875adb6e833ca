// The command lines of muster-train's subcommands: flags, and positional arguments that must all be there.
#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster::commands {

struct CommandLine {
  boost::program_options::variables_map flags;
  std::vector<std::string> arguments;
  std::optional<int> exit_code;  // there: the command has nothing more to do
};

// argv[0] is the subcommand's name. Help goes to standard output, an error (with exit code 78) to standard
// error.
CommandLine parse_command_line(const std::string& usage, boost::program_options::options_description flags,
                               std::size_t arguments_needed, int argc, const char* const* argv);

}  // namespace muster::commands
