// The RUN argument of status, logs and rm.
#pragma once

#include <optional>

#include "common/status.h"
#include "launcher/commands/command_line.h"
#include "launcher/run_directory.h"

namespace muster::commands {

// Name of the positional option.
inline constexpr const char* kRunArgument = "RUN";

// What RUN may be.
inline constexpr const char* kRunArgumentForms =
    "a run id, a unique beginning of one past the task's name, a task's name (its newest run) or a run "
    "directory";
// The same for --help.
std::string run_argument_help();

// The run that the command line names, or the exit code to leave with after having told why there is none.
struct NamedRun {
  RunDirectory run;
  std::optional<int> exit_code;
};
NamedRun named_run(const ParsedLine& line);

// Like report_error(), for errors about a run: an argument that fits no single run is a usage error, and
// somebody else's lease has a code of its own.
int report_run_error(const Error& error);

}  // namespace muster::commands
