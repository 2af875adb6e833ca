// Finds the file that execve(2) needs for a command, as a shell would, but tells why if there is none.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace muster {

// What a shell's exit codes say about a command that could not be run.
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// A name with a slash is taken as it is; any other is looked up in `path` (PATH's value). kNotFound: no such
// file. kInvalidArgument: a file of that name, but not executable, or a directory.
Result<std::string> find_program(std::string_view name, std::string_view path);

// Why execve of a file that exists failed with `error_number`, in words for its user: a script without a #!
// line, an interpreter that is not there, another machine's binary.
std::string explain_exec_failure(const std::string& file, int error_number);

}  // namespace muster
