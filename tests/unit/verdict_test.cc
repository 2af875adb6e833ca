// Verdicts from evidence. The launcher's texts are recorded from Open MPI 4.1.4.
#include "launcher/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "common/run_contract.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAborted = R"(--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
)";

constexpr const char* kExit3 = R"(--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[29025,1],1]
  Exit code:    3
--------------------------------------------------------------------------
)";

constexpr const char* kExit75 = R"(
  Process name: [[27522,1],0]
  Exit code:    75
)";

constexpr const char* kExit85 = R"(mpirun: Forwarding signal 10 to job
  Process name: [[29560,1],0]
  Exit code:    85
)";

constexpr const char* kSignal9 =
    "mpirun noticed that process rank 1 with PID 1756 on node nodeB exited on signal 9 (Killed).\n";
constexpr const char* kSignal11 =
    "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 11 (Segmentation fault).\n";
constexpr const char* kSignal10 =
    "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 10 (User defined signal 1).\n";

constexpr const char* kAbort7 = R"(--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 7.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
)";

constexpr const char* kImproper =
    R"(--------------------------------------------------------------------------
mpirun has exited due to process rank 1 with PID 0 on
node vm exiting improperly. There are three reasons this could occur:
)";

constexpr const char* kNoSlots = R"(--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 4
slots that were requested by the application:
)";

constexpr const char* kNoDaemon = R"(ssh: Could not resolve hostname nohost1: Name or service not known
--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:
)";

constexpr const char* kNoAgent = R"(--------------------------------------------------------------------------
The value of the MCA parameter "plm_rsh_agent" was set to a path
that could not be found:

  plm_rsh_agent: /nonexist/agent.sh
)";

constexpr const char* kNoProgram =
    R"(--------------------------------------------------------------------------
mpirun was unable to launch the specified application as it could not access
or execute an executable:

Executable: /nonexistent/prog
Node: vm

while attempting to start process rank 0.
--------------------------------------------------------------------------
2 total processes failed to start
)";

constexpr const char* kLostDaemon =
    R"(--------------------------------------------------------------------------
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[27252,0],0] on node vm
  Remote daemon: [[27252,0],2] on node nodeB

This is usually due to either a failure of the TCP network
)";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Evidence of an end with all of two ranks started.
Evidence ended(int code, const std::string& launcher_text = "") {
  Evidence evidence;
  evidence.world_size = 2;
  evidence.ranks_started = 2;
  evidence.exit.exit_code = code;
  evidence.launcher_lines = lines_of(launcher_text);
  evidence.stop_signal = 10;
  return evidence;
}

struct Case {
  std::string name;
  Evidence evidence;
  Cause cause;
  int rank;
  std::string node;
  int exit_code;
  Budget budget;
  std::string explanation_part;
};

Evidence with_faults(Evidence evidence, std::vector<RankFault> faults) {
  evidence.faults = std::move(faults);
  return evidence;
}
Evidence with_kill(Evidence evidence, KillReason reason) {
  evidence.killed = reason;
  return evidence;
}
Evidence with_started(Evidence evidence, int ranks) {
  evidence.ranks_started = ranks;
  return evidence;
}
Evidence with_stop(Evidence evidence) {
  evidence.stop_asked = true;
  return evidence;
}
Evidence with_trainer(Evidence evidence, bool finished) {
  evidence.needs_finished_event = true;
  evidence.finished_event = finished;
  return evidence;
}
Evidence launcher_killed(int signal) {
  Evidence evidence = ended(0);
  evidence.exit.term_signal = signal;
  return evidence;
}

RankFault lost_peer(int rank, int peer) { return {rank, "a", contract::kExitRetry, "no sign of life", peer}; }

std::vector<Case> cases() {
  const std::string aborted = kAborted;
  return {
      {"done", ended(0), Cause::kDone, -1, "", 0, Budget::kNone, "exit code 0"},
      {"trainer_done", with_trainer(ended(0), true), Cause::kDone, -1, "", 0, Budget::kNone, ""},
      {"trainer_without_result", with_trainer(ended(0), false), Cause::kApplicationError, -1, "", 70,
       Budget::kCrash, "without having reported"},
      {"silent_singletons", with_started(ended(0), 1), Cause::kLauncherError, -1, "", 69,
       Budget::kLauncherError, "only 1 of 2"},
      {"exit_3", ended(3, aborted + kExit3), Cause::kApplicationError, 1, "", 3, Budget::kCrash, "rank 1"},
      {"exit_3_without_words", ended(3), Cause::kApplicationError, -1, "", 3, Budget::kCrash, "exit code 3"},
      {"exit_3_with_fault", with_faults(ended(3, aborted + kExit3), {{1, "b", 3, "NaN in the loss", {}}}),
       Cause::kApplicationError, 1, "b", 3, Budget::kCrash, "NaN in the loss"},
      {"signal_9", ended(137, aborted + kSignal9), Cause::kKilledBySignal, 1, "nodeB", 137, Budget::kCrash,
       "signal 9 (SIGKILL)"},
      {"signal_11", ended(139, aborted + kSignal11), Cause::kKilledBySignal, 1, "vm", 139, Budget::kCrash,
       "SIGSEGV"},
      {"signal_9_seen_by_a_witness_first", with_faults(ended(137, aborted + kSignal9), {lost_peer(0, 1)}),
       Cause::kKilledBySignal, 1, "nodeB", 137, Budget::kCrash, "SIGKILL"},
      {"exit_137_without_words_is_a_code", ended(137), Cause::kApplicationError, -1, "", 137, Budget::kCrash,
       "137"},
      {"peer_lost_names_the_peer", with_faults(ended(75, kExit75), {lost_peer(0, 1)}), Cause::kPeerLost, 1,
       "", 75, Budget::kNodeFailure, "lost rank 1"},
      {"retry_without_fault", ended(75, kExit75), Cause::kPeerLost, 0, "", 75, Budget::kNodeFailure,
       "outside"},
      {"own_failure_outranks_witnesses",
       with_faults(ended(75, kExit75), {lost_peer(0, 1), {1, "b", 4, "disk full", {}}}),
       Cause::kApplicationError, 1, "b", 4, Budget::kCrash, "disk full"},
      {"do_not_retry", with_faults(ended(78), {{0, "a", 78, "no such data", {}}}), Cause::kDoNotRetry, 0, "a",
       78, Budget::kNone, "no such data"},
      {"not_stored", with_faults(ended(74), {{0, "a", 74, "disk full", {}}}), Cause::kNotStored, 0, "a", 74,
       Budget::kNone, "could not be saved): disk full"},
      {"do_not_retry_without_fault", ended(78), Cause::kDoNotRetry, -1, "", 78, Budget::kNone, ""},
      {"requeue_asked", with_stop(ended(85, kExit85)), Cause::kStopped, 0, "", 85, Budget::kNone,
       "saved its state"},
      {"requeue_unasked", ended(85, kExit85), Cause::kStopped, 0, "", 85, Budget::kNone, ""},
      {"stop_signal_not_handled", with_stop(ended(138, aborted + kSignal10)), Cause::kStopped, 0, "vm", 130,
       Budget::kNone, "does not handle"},
      {"same_signal_unasked", ended(138, aborted + kSignal10), Cause::kKilledBySignal, 0, "vm", 138,
       Budget::kCrash, "SIGUSR1"},
      {"crash_after_stop", with_stop(ended(139, aborted + kSignal11)), Cause::kKilledBySignal, 1, "vm", 139,
       Budget::kCrash, ""},
      {"mpi_abort", ended(7, aborted + kAbort7), Cause::kApplicationError, 1, "", 7, Budget::kCrash,
       "exit code 7"},
      {"no_finalize", ended(1, kImproper), Cause::kApplicationError, 1, "", 1, Budget::kCrash,
       "MPI_Finalize"},
      {"not_enough_slots", with_started(ended(1, kNoSlots), 0), Cause::kLauncherError, -1, "", 69,
       Budget::kLauncherError, "not enough slots"},
      {"no_daemon", with_started(ended(255, kNoDaemon), 0), Cause::kLauncherError, -1, "", 69,
       Budget::kLauncherError, "ORTE was unable"},
      {"no_agent", with_started(ended(243, kNoAgent), 0), Cause::kLauncherError, -1, "", 69,
       Budget::kLauncherError, "plm_rsh_agent"},
      {"no_program", with_started(ended(132, kNoProgram), 0), Cause::kLauncherError, -1, "", 69,
       Budget::kLauncherError, "/nonexistent/prog"},
      {"no_rank_and_no_words", with_started(ended(127), 0), Cause::kLauncherError, -1, "", 69,
       Budget::kLauncherError, "before any rank"},
      {"no_mpirun", with_started(ended(127, "cannot start mpirun: No such file\n-----\n"), 0),
       Cause::kLauncherError, -1, "", 69, Budget::kLauncherError, "cannot start mpirun"},
      {"daemon_lost", ended(205, kLostDaemon), Cause::kNodeFailure, -1, "nodeB", 69, Budget::kNodeFailure,
       "nodeB"},
      {"daemon_lost_early", ended(205, kNoDaemon), Cause::kNodeFailure, -1, "", 69, Budget::kNodeFailure,
       "lost node"},
      {"launcher_killed", launcher_killed(9), Cause::kNodeFailure, -1, "", 137, Budget::kNodeFailure,
       "launcher itself"},
      {"launcher_terminated", ended(1), Cause::kUnknown, -1, "", 1, Budget::kCrash, "named no rank"},
      {"killed_by_user", with_kill(launcher_killed(9), KillReason::kUser), Cause::kStopped, -1, "", 130,
       Budget::kNone, "second stop signal"},
      {"grace_over", with_kill(ended(137, kSignal9), KillReason::kGraceOver), Cause::kStopped, -1, "", 130,
       Budget::kNone, "grace"},
      {"stopped_early", with_started(with_kill(ended(1), KillReason::kStoppedEarly), 1), Cause::kStopped, -1,
       "", 85, Budget::kNone, "1 of 2"},
      {"startup_timeout", with_started(with_kill(ended(1), KillReason::kStartupTimeout), 1),
       Cause::kLauncherError, -1, "", 69, Budget::kLauncherError, "only 1 of 2"},
      {"lease_lost", with_kill(ended(1), KillReason::kLeaseLost), Cause::kStopped, -1, "", 77, Budget::kNone,
       ""},
  };
}

class VerdictTest : public ::testing::TestWithParam<Case> {};

TEST_P(VerdictTest, FollowsFromTheEvidence) {
  const Case& expected = GetParam();
  const Verdict verdict = judge(expected.evidence);
  EXPECT_EQ(cause_name(verdict.cause), cause_name(expected.cause));
  EXPECT_EQ(verdict.rank, expected.rank);
  EXPECT_EQ(verdict.node, expected.node);
  EXPECT_EQ(verdict.exit_code, expected.exit_code);
  EXPECT_EQ(budget_name(verdict.budget), budget_name(expected.budget));
  EXPECT_THAT(verdict.explanation, HasSubstr(expected.explanation_part));
  EXPECT_FALSE(verdict.explanation.empty());
}

INSTANTIATE_TEST_SUITE_P(Table, VerdictTest, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(VerdictJson, CarriesTheEvidence) {
  const Evidence evidence = with_faults(ended(137, kSignal9), {lost_peer(0, 1)});
  const nlohmann::json json = evidence_to_json(evidence);
  EXPECT_EQ(json.at("launcher_exit_code"), 137);
  EXPECT_EQ(json.at("faults").at(0).at("peer"), 1);
  EXPECT_EQ(json.at("launcher_lines").size(), 1U);
  EXPECT_EQ(verdict_to_json(judge(evidence)).at("cause"), "killed_by_signal");
  EXPECT_EQ(evidence_to_json(launcher_killed(9)).at("launcher_signal"), 9);
  EXPECT_EQ(evidence_to_json(with_kill(ended(1), KillReason::kGraceOver)).at("killed_by_muster"),
            "grace_over");
}

}  // namespace
}  // namespace muster
