#include "launcher/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launcher/run_history.h"
#include "tests/support/run_fixture.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::RunFixture;

json run_started(const char* time) {
  return {{"event", "run_started"}, {"run", "r"}, {"task", "t"}, {"time", time}};
}
json attempt_started(int attempt, const char* time) {
  return {{"event", "attempt_started"}, {"attempt", attempt}, {"hosts", {"n1", "n2"}}, {"time", time}};
}
json attempt_ended(int attempt, const char* cause, int rank = -1) {
  return {{"event", "attempt_ended"},
          {"attempt", attempt},
          {"time", "end"},
          {"verdict", {{"cause", cause}, {"explanation", "because"}, {"budget", "crash"}, {"rank", rank}}}};
}
json step(int attempt, int number) {
  return {{"event", "step"}, {"generation", attempt}, {"step", number}, {"total_steps", 100}, {"loss", 0.5}};
}
json run_ended(const char* state, int exit_code) {
  return {{"event", "run_ended"}, {"state", state}, {"exit_code", exit_code}, {"time", "the end"}};
}

TEST(RunSummary, ARunInProgress) {
  const RunSummary summary = summarize({run_started("T0"),
                                        attempt_started(1, "T1"),
                                        step(1, 7),
                                        {{"event", "evaluation"}, {"accuracy", 0.9}},
                                        {{"event", "checkpoint"}, {"step", 5}},
                                        step(1, 9)},
                                       true);
  EXPECT_EQ(summary.condition, RunCondition::kRunning);
  EXPECT_EQ(summary.started, "T0");
  EXPECT_EQ(summary.step, 9);
  EXPECT_EQ(summary.total_steps, 100);
  EXPECT_EQ(summary.last_evaluation.at("accuracy"), 0.9);
  EXPECT_EQ(summary.last_checkpoint.at("step"), 5);
  ASSERT_EQ(summary.attempts.size(), 1u);
  EXPECT_THAT(summary.attempts[0].hosts, ElementsAre("n1", "n2"));
  EXPECT_TRUE(summary.attempts[0].ended.empty());
}

// The summary once named a checkpoint that had been put into quarantine since.
TEST(RunSummary, AQuarantinedCheckpointIsNoLongerTheLastOne) {
  const std::vector<json> damaged = {
      attempt_started(1, "T1"),
      {{"event", "checkpoint"}, {"generation", 1}, {"step", 5}, {"path", "/c/step-5"}},
      {{"event", "checkpoint"}, {"generation", 1}, {"step", 9}, {"path", "/c/step-9"}},
      attempt_started(2, "T2"),
      {{"event", "checkpoint_quarantined"}, {"generation", 2}, {"path", "/c/quarantine/step-9"}}};
  EXPECT_TRUE(summarize(damaged, true).last_checkpoint.is_null());
  EXPECT_EQ(read_history(damaged).last_checkpoint, "");
  std::vector<json> resumed = damaged;
  resumed.push_back({{"event", "resumed"}, {"generation", 2}, {"step", 5}, {"checkpoint", "/c/step-5"}});
  EXPECT_EQ(summarize(resumed, true).last_checkpoint.at("path"), "/c/step-5");
  EXPECT_EQ(summarize(resumed, true).last_checkpoint.at("step"), 5);
  EXPECT_EQ(read_history(resumed).last_checkpoint, "/c/step-5");
}

TEST(RunSummary, WithoutALeaseTheSameJournalMeansInterrupted) {
  EXPECT_EQ(summarize({run_started("T0"), attempt_started(1, "T1")}, false).condition,
            RunCondition::kInterrupted);
  EXPECT_EQ(summarize({}, false).condition, RunCondition::kInterrupted);
  EXPECT_EQ(summarize({}, true).condition, RunCondition::kRunning);
}

TEST(RunSummary, HowARunEnded) {
  const auto condition = [](const char* state) {
    return summarize({run_started("T0"), run_ended(state, 3)}, false).condition;
  };
  EXPECT_EQ(condition("done"), RunCondition::kCompleted);
  EXPECT_EQ(condition("completed"), RunCondition::kCompleted);
  EXPECT_EQ(condition("stopped"), RunCondition::kStopped);
  EXPECT_EQ(condition("killed"), RunCondition::kStopped);
  EXPECT_EQ(condition("failed"), RunCondition::kFailed);
  const RunSummary summary = summarize({run_started("T0"), run_ended("failed", 3)}, false);
  EXPECT_EQ(summary.exit_code, 3);
  EXPECT_EQ(summary.ended, "the end");
}

TEST(RunSummary, AContinuationBeginsAnew) {
  const RunSummary summary = summarize({run_started("T0"),
                                        attempt_started(1, "T1"),
                                        step(1, 40),
                                        run_ended("stopped", 85),
                                        run_started("T2"),
                                        attempt_started(2, "T3"),
                                        {{"event", "resumed"}, {"generation", 2}, {"step", 30}}},
                                       true);
  EXPECT_EQ(summary.condition, RunCondition::kRunning);
  EXPECT_EQ(summary.started, "T0");
  EXPECT_FALSE(summary.exit_code);
  EXPECT_TRUE(summary.ended.empty());
  EXPECT_EQ(summary.step, 30);  // not 40: those steps are being done again
  ASSERT_EQ(summary.attempts.size(), 2u);
  EXPECT_EQ(summary.attempts[1].resumed_step, 30);
}

TEST(RunSummary, VerdictsAndResults) {
  const RunSummary summary =
      summarize({attempt_started(1, "T1"),
                 attempt_ended(1, "killed_by_signal", 1),
                 attempt_started(2, "T2"),
                 {{"event", "checkpoint_quarantined"}},
                 {{"event", "checkpoint_failed"}},
                 {{"event", "finished"}, {"step", 100}, {"result", {{"accuracy", 0.97}}}},
                 attempt_ended(2, "done"),
                 run_ended("done", 0)},
                false);
  ASSERT_EQ(summary.attempts.size(), 2u);
  EXPECT_EQ(summary.attempts[0].cause, "killed_by_signal");
  EXPECT_EQ(summary.attempts[0].rank, 1);
  EXPECT_EQ(summary.attempts[0].budget, "crash");
  EXPECT_EQ(summary.attempts[1].cause, "done");
  EXPECT_FALSE(summary.attempts[1].rank);
  EXPECT_EQ(summary.result.at("accuracy"), 0.97);
  EXPECT_EQ(summary.checkpoints_quarantined, 1);
  EXPECT_EQ(summary.checkpoints_failed, 1);
}

TEST(RunSummary, FieldsOfAnotherTypeAreLeftOut) {
  const RunSummary summary = summarize({json("text"),
                                        json::array(),
                                        {{"event", 7}},
                                        {{"event", "step"}, {"step", "nine"}, {"total_steps", 1.5}},
                                        {{"event", "attempt_started"}, {"attempt", "one"}, {"hosts", "n1"}},
                                        {{"event", "attempt_ended"}, {"verdict", "bad"}},
                                        {{"event", "run_ended"}, {"state", 1}},
                                        {{"event", "future_event"}}},
                                       false);
  EXPECT_FALSE(summary.step);
  EXPECT_FALSE(summary.total_steps);
  EXPECT_EQ(summary.condition, RunCondition::kFailed);
}

TEST(RunSummary, AReportOfARunOnDisk) {
  RunFixture fixture;
  const RunDirectory run = fixture.create();
  auto report = report_run(run);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->summary.condition, RunCondition::kInterrupted);  // no journal yet
  RunFixture::write_journal(run, {run_started("T0"), attempt_started(1, "T1"), step(1, 3)});
  std::ofstream(run.journal(), std::ios::app) << "{\"event\":\"st";
  report = report_run(run);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->journal_torn);
  const json shown = report_to_json(*report);
  EXPECT_EQ(shown.at("state"), "INTERRUPTED");
  EXPECT_EQ(shown.at("step"), 3);
  EXPECT_EQ(shown.at("task"), "mnist");
  EXPECT_EQ(shown.at("attempts").size(), 1u);
  EXPECT_TRUE(shown.at("holder").is_null());
  EXPECT_EQ(report_run({"none", fixture.root() / "none"}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster
