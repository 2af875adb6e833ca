// Runs a program with an environment of its own and a deadline, and tells everything about its end.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"
#include "tests/support/command.h"

namespace muster::testing {

struct ProgramOptions {
  std::vector<std::pair<std::string, std::string>> set;  // environment variables
  std::vector<std::string> unset;
  std::chrono::seconds timeout{60};  // then it is killed
};

struct ProgramResult {
  int exit_code = -1;   // -1: it did not exit by itself
  int term_signal = 0;  // 0: it was not killed
  bool timed_out = false;
  std::string out;
  std::string err;
};

// For failed expectations.
inline std::ostream& operator<<(std::ostream& stream, const ProgramResult& result) {
  return stream << "exit code " << result.exit_code << ", signal " << result.term_signal
                << (result.timed_out ? ", timed out" : "") << "\n--- stdout\n"
                << result.out << "--- stderr\n"
                << result.err;
}

// In a forked child: becomes the program.
[[noreturn]] inline void become(const std::vector<std::string>& command, const ProgramOptions& options) {
  for (const std::string& name : options.unset) ::unsetenv(name.c_str());
  for (const auto& [name, value] : options.set) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

namespace internal {

struct Stream {
  UniqueFd reader;
  std::string* text;

  void read_some() {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
    if (got > 0) text->append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0) reader.reset();
  }
};

}  // namespace internal

inline ProgramResult run_program(const std::vector<std::string>& command,
                                 const ProgramOptions& options = ProgramOptions()) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot make a pipe");
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::setpgid(0, 0);
    become(command, options);
  }
  ::close(out[1]);
  ::close(err[1]);
  ProgramResult result;
  std::array<internal::Stream, 2> streams{internal::Stream{UniqueFd(out[0]), &result.out},
                                          internal::Stream{UniqueFd(err[0]), &result.err}};
  const Deadline deadline = Deadline::after(options.timeout);
  while (streams[0].reader || streams[1].reader) {
    std::array<pollfd, 2> entries{pollfd{streams[0].reader.get(), POLLIN, 0},
                                  pollfd{streams[1].reader.get(), POLLIN, 0}};
    ::poll(entries.data(), entries.size(), static_cast<int>(deadline.remaining().count()));
    if (deadline.expired()) {
      result.timed_out = true;
      ::kill(-pid, SIGKILL);
      break;
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (entries[i].revents != 0) streams[i].read_some();
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.term_signal = WTERMSIG(status);
  return result;
}

}  // namespace muster::testing
