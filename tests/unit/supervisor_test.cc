// The supervisor's transitions, each as events in, actions out.
#include "launcher/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/run_contract.h"

namespace muster::supervise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kUserSignal1 = 10;

// An action as a word or two, so that a whole reaction is one comparison.
std::string word(const Action& action) {
  if (const auto* start = std::get_if<StartAttempt>(&action))
    return "start " + std::to_string(start->generation);
  if (const auto* stop = std::get_if<SendStop>(&action)) return "stop " + std::to_string(stop->generation);
  if (const auto* kill = std::get_if<KillAttempt>(&action)) return "kill " + std::to_string(kill->generation);
  if (const auto* journal = std::get_if<Journal>(&action)) return journal->event.at("event");
  if (const auto* timer = std::get_if<SetTimer>(&action)) {
    static const std::vector<std::string> kNames{"backoff", "startup", "grace", "kill"};
    return kNames.at(static_cast<std::size_t>(timer->kind)) + " " + std::to_string(timer->duration.count());
  }
  const auto& finish = std::get<Finish>(action);
  return "finish " + std::string(run_state_name(finish.state)) + " " + std::to_string(finish.exit_code);
}

std::vector<std::string> words(const std::vector<Action>& actions) {
  std::vector<std::string> result;
  for (const Action& action : actions) result.push_back(word(action));
  return result;
}

class SupervisorTest : public ::testing::Test {
 protected:
  static Options options() {
    Options options;
    options.world_size = 2;
    options.stop_signal = kUserSignal1;
    options.grace = std::chrono::milliseconds(5000);
    options.startup_timeout = std::chrono::milliseconds(120000);
    options.kill_timeout = std::chrono::milliseconds(60000);
    return options;
  }

  std::vector<std::string> on(const Event& event) { return words(supervisor_.on(event)); }
  void make(const Options& options) { supervisor_ = Supervisor(options); }
  // Up to all ranks running.
  void start_all() {
    on(Begin{});
    started();
  }
  void started() {
    const int generation = supervisor_.generation();
    on(AttemptStarted{generation});
    on(RankStarted{generation, 0, true});
    on(RankStarted{generation, 1, true});
  }
  AttemptExited exited(int code, int signal = 0) const {
    return {supervisor_.generation(), ExitStatus{code, signal}, {}, false};
  }
  // The attempt ends, the pause passes, the next one runs.
  void fail_and_restart(const AttemptExited& exit) {
    on(exit);
    on(TimerExpired{TimerKind::kBackoff, supervisor_.generation()});
    started();
  }

  Supervisor supervisor_{options()};
};

TEST_F(SupervisorTest, BeginsWithTheFirstAttempt) {
  EXPECT_THAT(on(Begin{}), ElementsAre("start 1"));
  EXPECT_THAT(on(Begin{}), ElementsAre());
  EXPECT_THAT(on(AttemptStarted{1}), ElementsAre("startup 120000"));
}

TEST_F(SupervisorTest, AContinuedRunGoesOnCounting) {
  Options continued = options();
  continued.first_generation = 4;
  make(continued);
  EXPECT_THAT(on(Begin{}), ElementsAre("start 4"));
  EXPECT_THAT(on(AttemptExited{3, {}, {}, false}), ElementsAre());
}

TEST_F(SupervisorTest, DoneWhenAllRanksStartedAndLeftWithZero) {
  start_all();
  EXPECT_THAT(on(exited(0)), ElementsAre("attempt_ended", "run_ended", "finish done 0"));
  EXPECT_TRUE(supervisor_.finished());
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre());
}

TEST_F(SupervisorTest, ZeroWithoutAllRanksIsALauncherError) {
  on(Begin{});
  on(AttemptStarted{1});
  on(RankStarted{1, 1, true});
  EXPECT_THAT(on(exited(0)), ElementsAre("attempt_ended", "backoff 1000"));
}

TEST_F(SupervisorTest, ATrainerIsDoneOnlyIfItSaysSo) {
  Options trainer = options();
  trainer.is_trainer = true;
  make(trainer);
  start_all();
  EXPECT_THAT(on(exited(0)), ElementsAre("attempt_ended", "backoff 1000"));
  on(TimerExpired{TimerKind::kBackoff, 1});
  started();
  on(Finished{2});
  EXPECT_THAT(on(exited(0)), ElementsAre("attempt_ended", "run_ended", "finish done 0"));
}

TEST_F(SupervisorTest, EventsOfAnOldGenerationChangeNothing) {
  start_all();
  fail_and_restart(exited(3));
  ASSERT_EQ(supervisor_.generation(), 2);
  EXPECT_THAT(on(AttemptStarted{1}), ElementsAre());
  EXPECT_THAT(on(AttemptExited{1, {0, 0}, {}, false}), ElementsAre());
  EXPECT_THAT(on(StartFailed{1, "old"}), ElementsAre());
  EXPECT_THAT(on(TimerExpired{TimerKind::kGrace, 1}), ElementsAre());
  EXPECT_THAT(on(TimerExpired{TimerKind::kStartup, 1}), ElementsAre());
  EXPECT_THAT(on(TimerExpired{TimerKind::kBackoff, 1}), ElementsAre());
  on(CheckpointCommitted{1, 500});
  EXPECT_EQ(supervisor_.committed_step(), -1);
  on(Finished{1});
  on(FaultReported{1, {0, "n", contract::kExitDoNotRetry, "old", std::nullopt}});
  EXPECT_THAT(on(exited(3)), ElementsAre("attempt_ended", "backoff 2000"));
}

TEST_F(SupervisorTest, ThreeCrashesInARowWithoutACheckpointEndTheRun) {
  start_all();
  fail_and_restart(exited(3));
  fail_and_restart(exited(3));
  EXPECT_THAT(on(exited(3)), ElementsAre("attempt_ended", "run_ended", "finish failed 3"));
}

TEST_F(SupervisorTest, ACommittedCheckpointResetsTheCrashesInARow) {
  start_all();
  for (int crash = 1; crash <= 10; ++crash) {
    on(CheckpointCommitted{supervisor_.generation(), 10 * crash});
    fail_and_restart(exited(3));
  }
  EXPECT_FALSE(supervisor_.finished());
  EXPECT_EQ(supervisor_.committed_step(), 100);
}

TEST_F(SupervisorTest, ACheckpointOfAStepThatWasCommittedBeforeIsNoProgress) {
  start_all();
  on(CheckpointCommitted{1, 10});
  fail_and_restart(exited(3));
  for (int crash = 0; crash < 2; ++crash) {
    on(CheckpointCommitted{supervisor_.generation(), 10});
    fail_and_restart(exited(3));
  }
  on(CheckpointCommitted{supervisor_.generation(), 10});
  EXPECT_THAT(on(exited(3)), ElementsAre("attempt_ended", "run_ended", "finish failed 3"));
}

TEST_F(SupervisorTest, AfterAFallbackRecommittingIsProgress) {
  Options continued = options();
  continued.last_checkpoint_step = 100;
  make(continued);
  start_all();
  on(Resumed{1, 50});
  EXPECT_EQ(supervisor_.committed_step(), 50);
  on(CheckpointCommitted{1, 60});
  EXPECT_EQ(supervisor_.committed_step(), 60);
}

TEST_F(SupervisorTest, AForeignProgramsProgressIsAChangedCheckpointDirectory) {
  start_all();
  for (int crash = 0; crash < 6; ++crash) {
    AttemptExited exit = exited(3);
    exit.checkpoints_changed = true;
    fail_and_restart(exit);
  }
  EXPECT_FALSE(supervisor_.finished());
}

TEST_F(SupervisorTest, TheTotalOfCrashesIsBoundedEvenWithProgress) {
  start_all();
  for (int crash = 1; crash < options().retry.crashes_total; ++crash) {
    on(CheckpointCommitted{supervisor_.generation(), crash});
    fail_and_restart(exited(3));
  }
  on(CheckpointCommitted{supervisor_.generation(), 1000});
  EXPECT_THAT(on(exited(3)), ElementsAre("attempt_ended", "run_ended", "finish failed 3"));
}

TEST_F(SupervisorTest, NodeFailuresHaveABudgetOfTheirOwn) {
  Options few = options();
  few.retry.node_failures = 5;
  make(few);
  start_all();
  for (int failure = 0; failure < 4; ++failure) fail_and_restart(exited(contract::kExitRetry));
  EXPECT_THAT(on(exited(contract::kExitRetry)),
              ElementsAre("attempt_ended", "run_ended", "finish failed 75"));
}

TEST_F(SupervisorTest, NodeFailuresDoNotUseUpTheCrashes) {
  start_all();
  fail_and_restart(exited(3));
  for (int failure = 0; failure < 10; ++failure) fail_and_restart(exited(contract::kExitRetry));
  fail_and_restart(exited(3));
  EXPECT_THAT(on(exited(3)), ElementsAre("attempt_ended", "run_ended", "finish failed 3"));
}

TEST_F(SupervisorTest, AnUnaskedRequeueWithProgressIsFree) {
  start_all();
  for (int requeue = 1; requeue <= 50; ++requeue) {
    on(CheckpointCommitted{supervisor_.generation(), requeue});
    fail_and_restart(exited(contract::kExitRequeue));
  }
  EXPECT_FALSE(supervisor_.finished());
}

TEST_F(SupervisorTest, AnUnaskedRequeueInVainIsBounded) {
  start_all();
  for (int requeue = 1; requeue < options().retry.node_failures; ++requeue) {
    fail_and_restart(exited(contract::kExitRequeue));
  }
  EXPECT_THAT(on(exited(contract::kExitRequeue)),
              ElementsAre("attempt_ended", "run_ended", "finish failed 85"));
}

TEST_F(SupervisorTest, DoNotRetryEndsTheRunAtOnce) {
  start_all();
  EXPECT_THAT(on(exited(contract::kExitDoNotRetry)),
              ElementsAre("attempt_ended", "run_ended", "finish failed 78"));
}

// Starting again would only redo the work.
TEST_F(SupervisorTest, AStateThatCouldNotBeSavedEndsTheRunAtOnce) {
  start_all();
  EXPECT_THAT(on(exited(contract::kExitNotStored)),
              ElementsAre("attempt_ended", "run_ended", "finish failed 74"));
}

TEST_F(SupervisorTest, ADoNotRetryFaultOutranksTheExitCodeOfAPeer) {
  start_all();
  on(FaultReported{1, {0, "n", contract::kExitRetry, "rank 1 went", 1}});
  on(FaultReported{1, {1, "n", contract::kExitDoNotRetry, "no such data set", std::nullopt}});
  const auto actions = supervisor_.on(exited(contract::kExitRetry));
  ASSERT_THAT(words(actions), ElementsAre("attempt_ended", "run_ended", "finish failed 78"));
  EXPECT_THAT(std::get<Finish>(actions.back()).verdict.explanation, HasSubstr("no such data set"));
}

TEST_F(SupervisorTest, OfTwoFaultsTheOneThatBlamesNobodyIsTheCause) {
  start_all();
  on(FaultReported{1, {0, "n", contract::kExitRetry, "rank 1 gave no sign of life", 1}});
  on(FaultReported{1, {1, "n", 4, "NaN in the loss", std::nullopt}});
  const auto actions = supervisor_.on(exited(contract::kExitRetry));
  const auto& verdict = std::get<Journal>(actions.front()).event.at("verdict");
  EXPECT_EQ(verdict.at("rank"), 1);
  EXPECT_EQ(verdict.at("cause"), "application_error");
  EXPECT_EQ(std::get<Journal>(actions.front()).event.at("evidence").at("faults").size(), 2U);
}

TEST_F(SupervisorTest, BackoffGrowsWithoutProgressAndHasAnEnd) {
  Options patient = options();
  patient.retry.node_failures = 100;
  make(patient);
  start_all();
  std::vector<std::string> pauses;
  for (int failure = 0; failure < 9; ++failure) {
    pauses.push_back(on(exited(contract::kExitRetry)).back());
    on(TimerExpired{TimerKind::kBackoff, supervisor_.generation()});
    started();
  }
  EXPECT_THAT(pauses,
              ElementsAre("backoff 1000", "backoff 2000", "backoff 4000", "backoff 8000", "backoff 16000",
                          "backoff 32000", "backoff 60000", "backoff 60000", "backoff 60000"));
  on(CheckpointCommitted{supervisor_.generation(), 1});
  EXPECT_EQ(on(exited(contract::kExitRetry)).back(), "backoff 1000");
}

TEST_F(SupervisorTest, StopAsksTheRanksAndEndsStopped) {
  start_all();
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre("signal", "stop 1", "grace 5000"));
  EXPECT_THAT(on(UserStop{"SIGTERM"}), ElementsAre());
  EXPECT_THAT(on(exited(contract::kExitRequeue)),
              ElementsAre("attempt_ended", "run_ended", "finish stopped 85"));
}

TEST_F(SupervisorTest, StopThenDoneIsDone) {
  start_all();
  on(UserStop{"SIGINT"});
  EXPECT_THAT(on(exited(0)), ElementsAre("attempt_ended", "run_ended", "finish done 0"));
}

TEST_F(SupervisorTest, StopThenCrashDoesNotStartAgain) {
  start_all();
  on(UserStop{"SIGTERM"});
  EXPECT_THAT(on(exited(3)), ElementsAre("attempt_ended", "run_ended", "finish stopped 3"));
}

TEST_F(SupervisorTest, StopOfAProgramThatDoesNotHandleTheSignal) {
  start_all();
  on(UserStop{"SIGINT"});
  AttemptExited exit = exited(128 + kUserSignal1);
  exit.launcher_lines = {
      "mpirun noticed that process rank 0 with PID 0 on node vm exited on signal 10 (User defined signal "
      "1)."};
  EXPECT_THAT(on(exit), ElementsAre("attempt_ended", "run_ended", "finish killed 130"));
}

TEST_F(SupervisorTest, AfterTheGraceComesTheKill) {
  start_all();
  on(UserStop{"SIGINT"});
  EXPECT_THAT(on(TimerExpired{TimerKind::kGrace, 1}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(1)), ElementsAre("attempt_ended", "run_ended", "finish killed 130"));
}

TEST_F(SupervisorTest, TheSecondSignalKills) {
  start_all();
  on(UserStop{"SIGINT"});
  EXPECT_THAT(on(UserKill{"SIGINT"}), ElementsAre("signal", "kill 1", "kill 60000"));
  EXPECT_THAT(on(TimerExpired{TimerKind::kGrace, 1}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(0, 9)), ElementsAre("attempt_ended", "run_ended", "finish killed 130"));
}

TEST_F(SupervisorTest, StopBeforeAllRanksHaveBegunKillsAndLosesNothing) {
  on(Begin{});
  on(AttemptStarted{1});
  on(RankStarted{1, 0, true});
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre("signal", "kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(1)), ElementsAre("attempt_ended", "run_ended", "finish stopped 85"));
}

TEST_F(SupervisorTest, ATrainersExecIsNotYetAHandlerForTheStopSignal) {
  Options trainer = options();
  trainer.is_trainer = true;
  make(trainer);
  on(Begin{});
  on(AttemptStarted{1});
  on(RankStarted{1, 0, false});
  on(RankStarted{1, 1, false});
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre("signal", "kill 1", "kill 60000"));
}

TEST_F(SupervisorTest, StopBetweenTheOrderToStartAndTheStart) {
  on(Begin{});
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre("signal"));
  EXPECT_THAT(on(AttemptStarted{1}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(1)), ElementsAre("attempt_ended", "run_ended", "finish stopped 85"));
}

TEST_F(SupervisorTest, KillBetweenTheOrderToStartAndTheStart) {
  on(Begin{});
  on(UserStop{"SIGINT"});
  EXPECT_THAT(on(UserKill{"SIGINT"}), ElementsAre("signal"));
  EXPECT_THAT(on(AttemptStarted{1}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(1)), ElementsAre("attempt_ended", "run_ended", "finish killed 130"));
}

TEST_F(SupervisorTest, StopDuringThePauseEndsAtOnce) {
  start_all();
  on(exited(3));
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre("signal", "run_ended", "finish stopped 85"));
  EXPECT_THAT(on(TimerExpired{TimerKind::kBackoff, 1}), ElementsAre());
}

TEST_F(SupervisorTest, StopWhoseStartFails) {
  on(Begin{});
  on(UserStop{"SIGINT"});
  EXPECT_THAT(on(StartFailed{1, "no"}), ElementsAre("attempt_ended", "run_ended", "finish stopped 69"));
}

TEST_F(SupervisorTest, RanksThatDoNotReportInTimeAreALauncherError) {
  Options two = options();
  two.retry.launcher_errors = 2;
  make(two);
  on(Begin{});
  on(AttemptStarted{1});
  on(RankStarted{1, 0, true});
  EXPECT_THAT(on(TimerExpired{TimerKind::kStartup, 1}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(1)), ElementsAre("attempt_ended", "backoff 1000"));
  EXPECT_THAT(on(TimerExpired{TimerKind::kBackoff, 1}), ElementsAre("start 2"));
  on(AttemptStarted{2});
  on(TimerExpired{TimerKind::kStartup, 2});
  EXPECT_THAT(on(exited(1)), ElementsAre("attempt_ended", "run_ended", "finish failed 69"));
}

TEST_F(SupervisorTest, TheStartupTimerIsHarmlessOnceAllRanksReported) {
  start_all();
  EXPECT_THAT(on(TimerExpired{TimerKind::kStartup, 1}), ElementsAre());
}

TEST_F(SupervisorTest, RanksOutsideTheWorldDoNotCount) {
  on(Begin{});
  on(AttemptStarted{1});
  on(RankStarted{1, 0, true});
  on(RankStarted{1, 2, true});
  on(RankStarted{1, -1, true});
  EXPECT_THAT(on(TimerExpired{TimerKind::kStartup, 1}), ElementsAre("kill 1", "kill 60000"));
}

TEST_F(SupervisorTest, AStartThatFailsIsChargedToTheLauncher) {
  on(Begin{});
  EXPECT_THAT(on(StartFailed{1, "no mpirun"}), ElementsAre("attempt_ended", "backoff 1000"));
  on(TimerExpired{TimerKind::kBackoff, 1});
  on(StartFailed{2, "no mpirun"});
  on(TimerExpired{TimerKind::kBackoff, 2});
  EXPECT_THAT(on(StartFailed{3, "no mpirun"}), ElementsAre("attempt_ended", "run_ended", "finish failed 69"));
}

TEST_F(SupervisorTest, ALostLeaseKillsAndWritesNothingMore) {
  start_all();
  EXPECT_THAT(on(LeaseLost{"taken"}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(UserStop{"SIGINT"}), ElementsAre());
  EXPECT_THAT(on(exited(1)), ElementsAre("finish lost 77"));
}

TEST_F(SupervisorTest, ALostLeaseDuringThePauseEndsAtOnce) {
  start_all();
  on(exited(3));
  EXPECT_THAT(on(LeaseLost{"taken"}), ElementsAre("finish lost 77"));
}

TEST_F(SupervisorTest, ALostLeaseBetweenTheOrderToStartAndTheStart) {
  on(Begin{});
  EXPECT_THAT(on(LeaseLost{"taken"}), ElementsAre());
  EXPECT_THAT(on(AttemptStarted{1}), ElementsAre("kill 1", "kill 60000"));
  EXPECT_THAT(on(exited(0)), ElementsAre("finish lost 77"));
}

TEST_F(SupervisorTest, AnAttemptThatCannotBeKilledEndsTheRun) {
  start_all();
  on(UserStop{"SIGINT"});
  on(UserKill{"SIGINT"});
  EXPECT_THAT(on(TimerExpired{TimerKind::kKill, 1}), ElementsAre("run_ended", "finish failed 69"));
}

TEST_F(SupervisorTest, AKilledLauncherIsANodeFailure) {
  start_all();
  const auto actions = supervisor_.on(exited(0, 9));
  ASSERT_THAT(words(actions), ElementsAre("attempt_ended", "backoff 1000"));
  EXPECT_EQ(std::get<Journal>(actions.front()).event.at("verdict").at("budget"), "node_failure");
}

}  // namespace
}  // namespace muster::supervise
