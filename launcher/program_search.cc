#include "launcher/program_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "common/file_ops.h"

namespace muster {
namespace {

enum class Kind { kAbsent, kNotExecutable, kProgram };

Kind kind_of(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return Kind::kAbsent;
  return S_ISREG(info.st_mode) && ::access(file.c_str(), X_OK) == 0 ? Kind::kProgram : Kind::kNotExecutable;
}

tl::unexpected<Error> not_executable(std::string_view file) {
  return fail(ErrorCode::kInvalidArgument,
              "{} is not executable: it is a directory or lacks the x permission (chmod +x), or name its "
              "interpreter, as in `python3 {}`",
              file, file);
}

}  // namespace

Result<std::string> find_program(std::string_view name, std::string_view path) {
  if (name.empty()) return fail(ErrorCode::kNotFound, "the command's name is empty");
  if (name.find('/') != std::string_view::npos) {
    std::string file(name);
    switch (kind_of(file)) {
      case Kind::kProgram:
        return file;
      case Kind::kNotExecutable:
        return not_executable(name);
      case Kind::kAbsent:
        return fail(ErrorCode::kNotFound, "no such file: {}", name);
    }
  }
  std::string first_not_executable;
  for (std::string_view rest = path;;) {
    const std::size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    const std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    const Kind kind = kind_of(file);
    if (kind == Kind::kProgram) return file;
    if (kind == Kind::kNotExecutable && first_not_executable.empty()) first_not_executable = file;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (!first_not_executable.empty()) return not_executable(first_not_executable);
  return fail(ErrorCode::kNotFound, "no command '{}' in PATH={}", name, path);
}

std::string explain_exec_failure(const std::string& file, int error_number) {
  std::string first_line;
  std::ifstream in(file, std::ios::binary);
  std::getline(in, first_line);
  const bool has_shebang = first_line.starts_with("#!");
  std::string reason = errno_text(error_number);
  if (error_number == ENOEXEC && !has_shebang) {
    reason = "it is no program of this machine, and as a script it lacks a first line like #!/bin/sh";
  } else if (error_number == ENOENT && has_shebang) {
    reason = fmt::format("the interpreter of its first line is not there: {}", first_line);
  } else if (error_number == ENOENT) {
    reason = "the loader it was linked for is not there; was it built for another system?";
  }
  return fmt::format("cannot execute {}: {}", file, reason);
}

}  // namespace muster
