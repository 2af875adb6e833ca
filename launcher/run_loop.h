// The run loop: the thin shell around the supervisor. It waits (epoll) for signals, events of ranks, output
// and the end of the attempt, timers and the lease's renewal; hands each to the supervisor as an event; and
// carries out the actions. It is the journal's only writer.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "common/journal.h"
#include "common/status.h"
#include "launcher/event_server.h"
#include "launcher/lease.h"
#include "launcher/plan.h"
#include "launcher/process_launcher.h"
#include "launcher/progress.h"
#include "launcher/run_directory.h"
#include "launcher/scheduler.h"
#include "launcher/supervisor.h"

namespace muster {

// While it lives, the signals that ask muster to stop (SIGINT, SIGTERM, SIGHUP, and what batch systems send
// as a notice: SIGUSR1, SIGUSR2) wait to be read (signalfd) instead of ending the process, and SIGPIPE is
// ignored: a closed terminal or pipe does not end a run.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_{};
  sigset_t before_{};
  void (*pipe_before_)(int) = nullptr;
};

// Everything the loop works with; all of it outlives the loop.
struct RunLoopParts {
  const Plan& plan;
  const RunDirectory& run;
  const Allocation& allocation;
  ProcessLauncher& launcher;
  EventServer& events;
  Lease& lease;
  JournalWriter& journal;
  Console& console;
  const StopSignals& signals;
  std::uint64_t log_bytes_max;
  supervise::Options supervision;
};

struct RunLoopResult {
  supervise::Finish finish;
  // Of the rank that the verdict names, or of the launcher:
  int failed_rank = -1;
  std::string failed_log;
  std::vector<std::string> failed_output;  // the last lines
};

// Blocks until the run ends. Fails only if the loop itself cannot work.
Result<RunLoopResult> run_supervised(const RunLoopParts& parts);

}  // namespace muster
