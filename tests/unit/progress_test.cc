#include "launcher/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/run_contract.h"
#include "launcher/run_history.h"
#include "launcher/step_sampler.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json step_event(int step, double loss = 0.5) {
  return {{"event", "step"}, {"step", step}, {"total_steps", 100},
          {"epoch", 2},      {"loss", loss}, {"samples_per_s", 1234.4}};
}

TEST(FormatDuration, PicksItsUnits) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(-3), "0:00");
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(11107), "3:05:07");
  EXPECT_EQ(format_duration(2 * 86400 + 3 * 3600 + 5 * 60), "2 d 03:05");
}

TEST(ProgressLine, ShowsWhatTheTrainerTells) {
  Progress progress;
  progress.begin_attempt(1, 0);
  progress.add(step_event(10), 5);
  progress.add(step_event(30, 0.25), 9);
  progress.add({{"event", "evaluation"}, {"accuracy", 0.9512}}, 9);
  EXPECT_EQ(progress.line(10, 200),
            "epoch 2 · step 30/100 (30 %) · loss 0.2500 · accuracy 95.12 % · 1234 samples/s · ETA 0:14");
}

TEST(ProgressLine, HasNoEtaBeforeThereIsAPace) {
  Progress progress;
  progress.begin_attempt(2, 0);
  progress.add(step_event(10), 5);
  EXPECT_THAT(progress.line(6, 200), HasSubstr("attempt 2 · epoch 2 · step 10/100"));
  EXPECT_THAT(progress.line(6, 200), Not(HasSubstr("ETA")));
  EXPECT_FALSE(progress.eta_s());
}

TEST(ProgressLine, OfAProgramWithoutEventsIsItsLastLine) {
  Progress progress;
  progress.begin_attempt(1, 100);
  EXPECT_EQ(progress.line(165, 200), "running 1:05");
  progress.add_output("loading\x1b[2J data");
  progress.add_output("");
  EXPECT_EQ(progress.line(165, 200), "running 1:05 · rank 0: loading [2J data");
}

// While the first step took its time, the line showed an event as JSON.
TEST(ProgressLine, OfATrainerBeforeItsFirstStepSaysWhereItBegins) {
  Progress progress;
  progress.begin_attempt(1, 0);
  progress.add_output("loading libraries");
  EXPECT_EQ(progress.line(2, 200), "running 0:02 · rank 0: loading libraries");
  progress.add({{"event", "configuration"}, {"total_steps", 240}}, 3);
  EXPECT_EQ(progress.line(4, 200), "running 0:04 · step 0/240 (0 %), none reported yet");
  progress.add({{"event", "resumed"}, {"step", 60}, {"checkpoint", "/c/step-60"}}, 4);
  EXPECT_EQ(progress.line(5, 200), "running 0:05 · step 60/240 (25 %), none reported yet");
  progress.add(step_event(70), 6);
  EXPECT_EQ(progress.line(6, 60), "epoch 2 · step 70/100 (70 %) · loss 0.5000 · 1234 samples/s");
}

TEST(EventLine, IsAnObjectWithAnEvent) {
  EXPECT_TRUE(is_event_line(R"({"event":"resumed","step":60})"));
  EXPECT_TRUE(is_event_line(R"({"configuration":{"seed":1},"event":"configuration"})"));
  for (const char* line : {"", "{", "muster-train: rank 0: no", R"({"event":7})", R"({"loss":0.5})",
                           R"(["event"])", R"({"event":"resumed")", R"(step {"event":"x"})"}) {
    EXPECT_FALSE(is_event_line(line)) << line;
  }
}

TEST(ProgressLine, IsCutBetweenCharacters) {
  Progress progress;
  progress.begin_attempt(1, 0);
  progress.add(step_event(10), 5);
  EXPECT_EQ(progress.line(6, 10), "epoch 2 · ");
  EXPECT_EQ(progress.line(6, 9), "epoch 2 ·");
}

TEST(ProgressLine, SurvivesMembersOfTheWrongType) {
  Progress progress;
  progress.begin_attempt(1, 0);
  progress.add({{"event", "step"}, {"step", "ten"}, {"loss", nullptr}, {"epoch", json::array()}}, 1);
  EXPECT_EQ(progress.line(2, 200), "epoch 0 · step 0");
}

TEST(Outcome, OfADoneRunShowsTheResult) {
  RunOutcome outcome;
  outcome.run_id = "digits-0a1b2c3d";
  outcome.state = "done";
  outcome.history.result = json{{"accuracy", 0.97}, {"loss", 0.123456789}, {"nested", {{"a", 1}}}};
  outcome.history.last_step = 300;
  outcome.history.attempts = 2;
  outcome.history.wall_s = 75;
  outcome.history.last_checkpoint = "/c/step-300";
  outcome.journal = "/r/journal.jsonl";
  outcome.logs = "/r/logs/attempt-2";
  EXPECT_EQ(format_outcome(outcome),
            "muster: done\n"
            "  run               digits-0a1b2c3d\n"
            "  accuracy          0.97\n"
            "  loss              0.123457\n"
            "  steps             300\n"
            "  attempts          2\n"
            "  wall time         1:15\n"
            "  checkpoint        /c/step-300\n"
            "  journal           /r/journal.jsonl\n"
            "  logs              /r/logs/attempt-2\n");
}

TEST(Outcome, OfAFailedRunSaysWhyAndWhere) {
  RunOutcome outcome;
  outcome.state = "failed";
  outcome.exit_code = 3;
  outcome.explanation = "rank 1 left with exit code 3";
  outcome.failed_rank = 1;
  outcome.failed_log = "/r/logs/attempt-3/rank-1.log";
  outcome.failed_output = {"Traceback", "ValueError\x07"};
  EXPECT_THAT(format_outcome(outcome), HasSubstr("\nwhy: rank 1 left with exit code 3\n"
                                                 "last lines of rank 1 (/r/logs/attempt-3/rank-1.log):\n"
                                                 "  | Traceback\n  | ValueError \nexit code: 3\n"));
}

RunOutcome stopped_outcome() {
  RunOutcome outcome;
  outcome.state = "stopped";
  outcome.exit_code = contract::kMusterStopped;
  outcome.explanation = "rank 0 left with 85: it saved its state and asks to be started again";
  outcome.command = "muster run 'my task.yaml'";
  outcome.failed_output = {"mpirun detected that one or more processes exited with non-zero status"};
  return outcome;
}

TEST(Outcome, OfAnOrderlyStopNamesTheSaveAndBlamesNobody) {
  RunOutcome outcome = stopped_outcome();
  outcome.history = read_history({{{"event", "attempt_started"}, {"attempt", 1}},
                                  {{"event", "checkpoint"}, {"step", 20}, {"path", "/c/20"}},
                                  {{"event", "stop_seen"}, {"step", 27}},
                                  {{"event", "checkpoint"}, {"step", 27}, {"path", "/c/27"}}});
  EXPECT_THAT(format_outcome(outcome),
              EndsWith("\n\nstopped as asked; saved at step 27; continue with: muster run 'my task.yaml'\n"
                       "exit code: 85\n"));
}

// A step that had been saved already is not saved again.
TEST(Outcome, OfAStopRightAfterASaveNamesThat) {
  RunOutcome outcome = stopped_outcome();
  outcome.history = read_history({{{"event", "attempt_started"}, {"attempt", 1}},
                                  {{"event", "checkpoint"}, {"step", 20}, {"path", "/c/20"}},
                                  {{"event", "stop_seen"}, {"step", 20}}});
  EXPECT_THAT(format_outcome(outcome), HasSubstr("stopped as asked; saved at step 20; continue with: "));
}

TEST(Outcome, OfAStopWithoutASavePromisesNone) {
  RunOutcome outcome = stopped_outcome();
  EXPECT_THAT(format_outcome(outcome),
              HasSubstr("\nstopped as asked (rank 0 left with 85: it saved its state and asks to be started "
                        "again); continue with: muster run 'my task.yaml'\nexit code: 85\n"));
  // An earlier attempt's stop says nothing of this one.
  outcome.history = read_history({{{"event", "attempt_started"}, {"attempt", 1}},
                                  {{"event", "stop_seen"}, {"step", 20}},
                                  {{"event", "checkpoint"}, {"step", 20}, {"path", "/c/20"}},
                                  {{"event", "attempt_started"}, {"attempt", 2}}});
  outcome.explanation = "asked to stop when 1 of 2 ranks had started: there was nothing to save";
  EXPECT_THAT(
      format_outcome(outcome),
      HasSubstr("\nstopped as asked (asked to stop when 1 of 2 ranks had started: there was nothing to "
                "save); the last checkpoint is of step 20; continue with: "));
}

TEST(Outcome, OfAKilledRunSaysWhereItGoesOn) {
  RunOutcome outcome = stopped_outcome();
  outcome.state = "killed";
  outcome.exit_code = contract::kMusterKilled;
  outcome.explanation = "killed by the user's second stop signal";
  outcome.history.committed_step = 20;
  EXPECT_THAT(
      format_outcome(outcome),
      HasSubstr("\nkilled (killed by the user's second stop signal); the last checkpoint is of step 20; "
                "continue with: muster run 'my task.yaml'\n"));
}

// Killed in the middle of its own end, mpirun crashes; `muster rm --force` once left its stack trace on the
// terminal of the run.
TEST(Outcome, OfARunThatMusterEndedDoesNotQuoteMpirun) {
  RunOutcome outcome = stopped_outcome();
  outcome.failed_output = {"mpirun: abort is already in progress", "*** Process received signal ***"};
  outcome.failed_log = "/r/logs/attempt-1/launcher.log";
  for (const auto& [state, exit_code] : {std::pair<const char*, int>{"stopped", contract::kMusterStopped},
                                         {"stopped", contract::kMusterKilled},
                                         {"killed", contract::kMusterKilled},
                                         {"lost", contract::kMusterLeaseHeld}}) {
    outcome.state = state;
    outcome.exit_code = exit_code;
    EXPECT_THAT(format_outcome(outcome), Not(HasSubstr("launcher"))) << state << " " << exit_code;
  }
  outcome.state = "failed";
  outcome.exit_code = contract::kMusterUnavailable;
  EXPECT_THAT(format_outcome(outcome), HasSubstr("last lines of the launcher"));
  // What a rank said when it was killed may matter.
  outcome.state = "stopped";
  outcome.exit_code = contract::kMusterKilled;
  outcome.failed_rank = 1;
  EXPECT_THAT(format_outcome(outcome), HasSubstr("last lines of rank 1"));
}

// What a terminal of `columns` columns gets when `write` runs with it as standard output and error.
template <class Write>
std::string on_a_terminal(unsigned short columns, const Write& write) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    write();
    std::fflush(nullptr);
    ::_exit(0);
  }
  std::string text;
  char buffer[4096];
  // Ends with EIO once the child is gone and all is read.
  for (ssize_t n = 0; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

TEST(ConsoleTest, RedrawsOneLineOfATerminalAndClearsItForEverythingElse) {
  const std::string text = on_a_terminal(40, [] {
    Console console(OutputMode::kNormal);
    Progress progress;
    progress.begin_attempt(1, 0);
    progress.add(step_event(100), 1);
    console.progress(progress, 1);
    progress.add(step_event(150), 1.1);
    console.progress(progress, 1.1);  // too soon
    progress.add(step_event(200), 2);
    console.progress(progress, 2);
    console.notice("something happened");
    console.progress(progress, 3);
    RunOutcome outcome;
    outcome.state = "done";
    console.outcome(outcome);
  });
  constexpr std::string_view kRedraw = "\r\x1b[K";
  std::vector<std::string> pieces;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + kRedraw.size()) {
    end = std::min(text.find(kRedraw, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
  }
  ASSERT_EQ(pieces.size(), 6U) << text;
  EXPECT_EQ(pieces[0], "");
  EXPECT_THAT(pieces[1], HasSubstr("step 100"));
  EXPECT_THAT(pieces[2], HasSubstr("step 200"));
  EXPECT_THAT(pieces[3], StartsWith("muster: something happened\r\n"));  // on a line of its own
  EXPECT_THAT(pieces[4], HasSubstr("step 200"));
  EXPECT_THAT(pieces[5], StartsWith("muster: done\r\n"));
  for (const std::size_t line : {1U, 2U, 4U}) {
    const auto columns = std::count_if(pieces[line].begin(), pieces[line].end(),
                                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    EXPECT_LT(columns, 40) << "a line that wraps cannot be redrawn: " << pieces[line];
  }
}

TEST(StepSamplerTest, WritesOneAnIntervalAndKeepsTheLast) {
  StepSampler sampler(1.0);
  EXPECT_TRUE(sampler.offer(step_event(1), 10.0));
  EXPECT_FALSE(sampler.offer(step_event(2), 10.2));
  EXPECT_FALSE(sampler.offer(step_event(3), 10.9));
  const auto next = sampler.offer(step_event(4), 11.1);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->at("step"), 4);
  EXPECT_FALSE(sampler.take_waiting()) << "an older step must not follow a newer one";
  EXPECT_FALSE(sampler.offer(step_event(5), 11.2));
  const auto last = sampler.take_waiting();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->at("step"), 5);
  EXPECT_FALSE(sampler.take_waiting());
}

TEST(History, IsReadFromTheJournalAlone) {
  const RunHistory history = read_history({
      {{"event", "run_started"}},
      {{"event", "attempt_started"}, {"attempt", 1}},
      {{"event", "checkpoint"}, {"step", 10}, {"path", "/c/10"}},
      {{"event", "checkpoint"}, {"step", 20}, {"path", "/c/20"}},
      {{"event", "attempt_ended"}, {"attempt", 1}},
      {{"event", "run_ended"}, {"state", "failed"}, {"exit_code", 3}, {"wall_s", 10.5}},
      {{"event", "attempt_started"}, {"attempt", 2}},
      {{"event", "resumed"}, {"step", 10}},
      step_event(15, 0.2),
      {{"event", "evaluation"}, {"accuracy", 0.9}, {"loss", 0.3}},
      {{"event", "finished"}, {"step", 100}, {"result", {{"accuracy", 0.9}}}},
      {{"event", "run_ended"}, {"state", "done"}, {"exit_code", 0}, {"wall_s", 4.5}},
  });
  EXPECT_TRUE(history.is_done());
  EXPECT_EQ(history.attempts, 2);
  EXPECT_EQ(history.committed_step, 10);
  EXPECT_EQ(history.last_step, 100);
  EXPECT_DOUBLE_EQ(history.wall_s, 15);
  EXPECT_EQ(history.result->at("accuracy"), 0.9);
}

TEST(History, ANewAttemptReopensAnEndedRun) {
  const RunHistory history = read_history({{{"event", "run_ended"}, {"state", "done"}, {"exit_code", 0}},
                                           {{"event", "attempt_started"}, {"attempt", 2}}});
  EXPECT_FALSE(history.is_done());
}

}  // namespace
}  // namespace muster
