// Runs a short command to its end and takes what it prints: no shell, a deadline, and nothing left behind.
// Blocks the calling thread until then. Any thread may call it, but none may wait for children it did not
// start.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace muster {

struct CommandOutput {
  int exit_code = -1;   // -1: a signal ended it
  int term_signal = 0;  // 0: it exited
  std::string out;
  std::string err;

  bool succeeded() const { return exit_code == 0; }
  // The first line of `err`, or of `out` if nothing was said there: what to show of a failure.
  std::string complaint() const;
};

struct CommandOptions {
  std::chrono::milliseconds timeout{std::chrono::seconds{20}};
  std::size_t output_bytes_max = std::size_t{64} << 20;          // of each stream
  std::vector<std::pair<std::string, std::string>> environment;  // besides this process's own
};

// argv[0] is looked for on PATH. The command gets no input, a process group of its own, and default signal
// handling. At the deadline its whole group is killed. What it started and left in its group is killed when
// it ends. kNotFound: there is no such program. kDeadlineExceeded. kIo: it cannot be started, or prints too
// much.
Result<CommandOutput> run_command(const std::vector<std::string>& argv,
                                  const CommandOptions& options = CommandOptions());

}  // namespace muster
