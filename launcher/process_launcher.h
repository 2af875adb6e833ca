// SEAM: how the ranks of one attempt are started and ended. Implementation: mpirun (mpirun_launcher.h).
// Threads: used by the supervisor's thread only. Nothing here blocks longer than it takes to start a process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "launcher/plan.h"
#include "launcher/run_directory.h"

namespace muster {

struct AttemptRequest {
  int generation = 1;
  std::vector<Host> hosts;     // empty: this machine
  std::string events_address;  // tcp://ADDRESS:PORT
};

// How the process that stands for the attempt (mpirun) ended.
struct ExitStatus {
  int exit_code = 0;    // meaningful if signal == 0
  int term_signal = 0;  // 0: it exited
  bool operator==(const ExitStatus&) const = default;
};

// One started attempt. Destroying it kills whatever of it is left.
class LaunchedAttempt {
 public:
  virtual ~LaunchedAttempt() = default;
  virtual int generation() const = 0;
  // Readable file descriptors for the event loop: output of the ranks, and the end of the attempt.
  virtual int output_fd() const = 0;
  virtual int exit_fd() const = 0;
  // Call when output_fd() is readable: hands each complete line to the sink. False at end of file.
  using LineSink =
      std::function<void(int rank /* -1: the launcher itself */, bool is_stderr, std::string_view line)>;
  virtual bool read_output(const LineSink& sink) = 0;
  // The status once the attempt and every process of it are gone.
  virtual std::optional<ExitStatus> poll_exit() = 0;
  // Passes the task's stop signal to every rank.
  virtual Status send_stop() = 0;
  // Ends every process of this generation, asynchronously; poll_exit() tells when it is done.
  virtual void kill() = 0;
};

class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  virtual Result<std::unique_ptr<LaunchedAttempt>> start(const Plan& plan, const RunDirectory& run,
                                                         const AttemptRequest& request) = 0;
};

}  // namespace muster
