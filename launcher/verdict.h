// The verdict: why an attempt ended, from evidence, never from elapsed time. Pure.
// It decides which retry budget pays, and goes into the journal together with the evidence.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process_launcher.h"

namespace muster {

enum class Cause {
  kDone,
  kStopped,           // left with kExitRequeue, or ended after it was asked to stop
  kApplicationError,  // a rank left with a code of its own
  kKilledBySignal,    // a rank died by a signal that muster did not send
  kPeerLost,          // ranks left because another one gave no sign of life (kExitRetry)
  kDoNotRetry,        // kExitDoNotRetry: starting again cannot help
  kNotStored,         // kExitNotStored: work is done that could not be saved
  kLauncherError,     // the ranks could not all be started
  kNodeFailure,       // a node, or the launcher itself, went away
  kUnknown
};

// Which of RetryBudgets an end is charged to.
enum class Budget { kNone, kCrash, kNodeFailure, kLauncherError };

// What muster itself did to end the attempt, if it did.
enum class KillReason { kNone, kUser, kStoppedEarly, kGraceOver, kStartupTimeout, kLeaseLost };

// A rank's `fault` event.
struct RankFault {
  int rank = -1;
  std::string node;
  int exit_code = 0;
  std::string reason;
  std::optional<int> peer;  // the rank it blames
};

struct Evidence {
  int world_size = 1;
  int ranks_started = 0;
  bool needs_finished_event = false;  // a muster-train that is done says so
  bool finished_event = false;
  ExitStatus exit;  // of the launcher's process
  bool stop_asked = false;
  int stop_signal = 0;
  KillReason killed = KillReason::kNone;
  std::vector<RankFault> faults;            // in the order of their arrival
  std::vector<std::string> launcher_lines;  // the last lines that mpirun itself wrote
};

struct Verdict {
  Cause cause = Cause::kUnknown;
  int rank = -1;  // the rank it began with; -1: none or not known
  std::string node;
  int exit_code = 0;        // the one `muster run` gives if this end is final
  std::string explanation;  // one sentence
  Budget budget = Budget::kNone;
};

Verdict judge(const Evidence& evidence);

std::string_view cause_name(Cause cause);
std::string_view budget_name(Budget budget);
nlohmann::json verdict_to_json(const Verdict& verdict);
// Without the launcher's lines if they are empty.
nlohmann::json evidence_to_json(const Evidence& evidence);

// What Open MPI's mpirun says about an end in words. Pure; exposed for tests.
struct LauncherReport {
  enum class Kind {
    kNothing,
    kRankSignal,    // "mpirun noticed that process rank R … exited on signal N"
    kRankExit,      // "The first process to do so was: … [[…],R] … Exit code: N"
    kRankAbort,     // "MPI_ABORT was invoked on rank R … with errorcode N"
    kRankImproper,  // "mpirun has exited due to process rank R … exiting improperly": 0, but no MPI_Finalize
    kNotEnoughSlots,
    kCannotExecute,  // the executable is missing or not executable
    kDaemonFailed,   // "ORTE was unable to reliably start one or more daemons", a missing rsh agent
    kDaemonLost      // "ORTE has lost communication with a remote daemon"
  };
  Kind kind = Kind::kNothing;
  int rank = -1;
  std::string node;
  int number = 0;  // the signal or exit code
  std::string line;
};
LauncherReport read_launcher_report(const std::vector<std::string>& lines);

}  // namespace muster
