#include "tests/support/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "common/file_ops.h"
#include "tests/support/temporary_directory.h"

namespace muster::testing {

CommandResult run_command(const std::vector<std::string>& argv) {
  // Files rather than pipes: neither can fill up while the other is read.
  const TemporaryDirectory directory;
  const std::string out = (directory.path() / "out").string();
  const std::string err = (directory.path() / "err").string();
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const bool redirected = std::freopen(out.c_str(), "w", stdout) != nullptr &&
                            std::freopen(err.c_str(), "w", stderr) != nullptr;
    if (redirected) ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = read_text_file(out).value_or("");
  result.errors = read_text_file(err).value_or("");
  return result;
}

std::string built_program(const std::string& name) {
  const char* directory = std::getenv("MUSTER_BIN_DIR");
  if (directory == nullptr) throw std::runtime_error("MUSTER_BIN_DIR is not set; run the test through ctest");
  return std::string(directory) + "/" + name;
}

}  // namespace muster::testing
