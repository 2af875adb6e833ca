// What the train loop does with checkpoints: which it accepts, which it makes, and what becomes of failures.
#include "trainer/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "common/run_contract.h"
#include "tests/contract/demanding_run.h"
#include "tests/support/store_wrapper.h"
#include "tests/support/training_fixture.h"
#include "trainer/checkpoint/interval_advice.h"

namespace muster {
namespace {

namespace event = contract::event;
using checkpoint::CheckpointStore;
using checkpoint::MemoryCheckpoints;
using checkpoint::SaveRequest;
using nlohmann::json;
using testing::demanding_run;
using testing::expect_completed;
using testing::newest_tensors;
using testing::run_training;
using testing::stopped_at;
using testing::TrainingResult;
using testing::TrainingRun;
using testing::undisturbed;

TEST(TrainLoop, ACheckpointThatLacksAnItemIsRefusedByAllRanks) {
  class LackingStore final : public testing::StoreWrapper {
   public:
    using StoreWrapper::StoreWrapper;
    Status begin_save(const SaveRequest& request) override {
      SaveRequest lacking = request;
      lacking.state.at("training").erase("optimizer_step");
      return StoreWrapper::begin_save(lacking);
    }
  };
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.decorate = [](auto store) { return std::make_unique<LackingStore>(std::move(store)); };
  run_training(run, backing);
  run.generation = 2;
  for (const auto& outcome : run_training(run, backing).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("optimizer_step"));
  }
}

TEST(TrainLoop, ADamagedCheckpointIsPassedOverForTheOneBefore) {
  const auto backing = stopped_at(2, 9);
  ASSERT_GE(backing->steps().size(), 2u);
  backing->damage_newest();
  TrainingRun run = demanding_run(2);
  run.generation = 2;
  const TrainingResult result = run_training(run, backing);
  expect_completed(result);
  EXPECT_EQ(result.events->named(event::kCheckpointQuarantined).size(), 1u);
  EXPECT_GT(result.events->named(event::kResumed).at(0).at("step").get<int>(), 0);
  EXPECT_EQ(newest_tensors(backing), undisturbed());
}

TEST(TrainLoop, IfEveryCheckpointIsDamagedTheUserIsToldBeforeARunStartsOver) {
  auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.options.keep_last = 1;
  run.stop_rank = 0;
  run.stop_at_step = 6;
  run_training(run, backing);
  ASSERT_EQ(backing->steps().size(), 1u);
  backing->damage_newest();
  TrainingRun again = demanding_run(2);
  // Each time: trying again is no decision.
  for (again.generation = 2; again.generation <= 3; ++again.generation) {
    for (const auto& outcome : run_training(again, backing).outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("every checkpoint is damaged"));
      EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("muster run --new"));
    }
  }
  backing->forget_quarantined();
  expect_completed(run_training(again, backing));
  EXPECT_EQ(newest_tensors(backing), undisturbed());
}

TEST(TrainLoop, ARunDoesNotGoOnWithAnotherBatchSizeOrOtherData) {
  const auto backing = stopped_at(2, 5);
  TrainingRun other_batch = demanding_run(2);
  other_batch.generation = 2;
  other_batch.options.batch_size = 30;
  TrainingRun other_data = demanding_run(2);
  other_data.generation = 3;
  other_data.samples = 151;
  for (const TrainingRun& run : {other_batch, other_data}) {
    for (const auto& outcome : run_training(run, backing).outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("cannot be continued"));
    }
  }
}

TEST(TrainLoop, WhatChangedSinceTheCheckpointIsNamed) {
  const auto backing = stopped_at(2, 5);
  TrainingRun run = demanding_run(2);
  run.generation = 2;
  run.options.learning_rate = 0.02;
  const TrainingResult result = run_training(run, backing);
  const auto changes = result.events->named(event::kConfigurationChanged);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].at("configuration").dump(), R"({"learning_rate":{"before":0.01,"now":0.02}})");
}

TEST(TrainLoop, AnotherWayToComputeIsNamed) {
  const auto backing = stopped_at(2, 5);
  TrainingRun run = demanding_run(2);
  run.generation = 2;
  run.options.threads = 2;
  const auto changes = run_training(run, backing).events->named(event::kConfigurationChanged);
  ASSERT_EQ(changes.size(), 1u);
  const json device = changes[0].at("code").at("device");
  // Library version, instruction set, threads.
  EXPECT_THAT(device.at("before").get<std::string>(),
              ::testing::ContainsRegex("^cpu: oneDNN [0-9.]+, [A-Z0-9.-]+, 1 thread, "));
  EXPECT_THAT(device.at("now").get<std::string>(),
              ::testing::ContainsRegex("^cpu: oneDNN [0-9.]+, [A-Z0-9.-]+, 2 threads, "));
}

// Writes checkpoints as an older muster-train did, which did not know these options.
class OldStore final : public testing::StoreWrapper {
 public:
  using StoreWrapper::StoreWrapper;
  Status begin_save(const SaveRequest& request) override {
    SaveRequest old = request;
    for (const char* option : {"activation", "layer_norm", "label_smoothing"}) {
      old.state.at("configuration").erase(option);
    }
    return StoreWrapper::begin_save(old);
  }
};

TEST(TrainLoop, AnOptionThatACheckpointDoesNotKnowHadItsDefault) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun old = demanding_run(2);
  old.decorate = [](auto store) { return std::make_unique<OldStore>(std::move(store)); };
  old.stop_rank = 0;
  old.stop_at_step = 7;
  run_training(old, backing);
  TrainingRun other = demanding_run(2);
  other.generation = 2;
  other.options.activation = "gelu";
  for (const auto& outcome : run_training(other, backing).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message,
                ::testing::HasSubstr(R"(activation: "relu" in the checkpoint, "gelu" now)"));
  }
  TrainingRun same = demanding_run(2);
  same.generation = 3;
  const TrainingResult result = run_training(same, backing);
  expect_completed(result);
  EXPECT_TRUE(result.events->named(event::kConfigurationChanged).empty());
  EXPECT_EQ(newest_tensors(backing), undisturbed());
}

// Refuses saves [first, last], counted from 1.
class FullDisk final : public testing::StoreWrapper {
 public:
  FullDisk(std::unique_ptr<CheckpointStore> inner, int first, int last, ErrorCode code = ErrorCode::kNoSpace)
      : StoreWrapper(std::move(inner)), first_(first), last_(last), code_(code) {}
  Status begin_save(const SaveRequest& request) override {
    ++saves_;
    if (saves_ >= first_ && saves_ <= last_) return fail(code_, "disk full");
    return StoreWrapper::begin_save(request);
  }

 private:
  int first_;
  int last_;
  ErrorCode code_;
  int saves_ = 0;
};

TEST(TrainLoop, AFullDiskInMidRunIsReportedAndTrainingGoesOn) {
  auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.decorate = [](auto store) { return std::make_unique<FullDisk>(std::move(store), 2, 3); };
  const TrainingResult result = run_training(run, backing);
  expect_completed(result);
  EXPECT_EQ(result.events->named(event::kCheckpointFailed).size(), 2u);
  EXPECT_EQ(newest_tensors(backing), undisturbed());
}

// Somebody cleared the directory, a stale file handle, memory was short: the next save may work.
TEST(TrainLoop, WhateverOnlyKeepsASaveFromBeingStoredIsNoReasonToStop) {
  for (const ErrorCode code :
       {ErrorCode::kIo, ErrorCode::kNotFound, ErrorCode::kAlreadyExists, ErrorCode::kInternal}) {
    SCOPED_TRACE(static_cast<int>(code));
    auto backing = std::make_shared<MemoryCheckpoints>();
    TrainingRun run = demanding_run(2);
    run.decorate = [&](auto store) { return std::make_unique<FullDisk>(std::move(store), 2, 3, code); };
    const TrainingResult result = run_training(run, backing);
    expect_completed(result);
    EXPECT_EQ(result.events->named(event::kCheckpointFailed).size(), 2u);
    EXPECT_EQ(newest_tensors(backing), undisturbed());
  }
}

TEST(TrainLoop, AnAttemptThatWasSupersededStopsAtItsNextSave) {
  TrainingRun run = demanding_run(2);
  run.decorate = [](auto store) {
    return std::make_unique<FullDisk>(std::move(store), 2, 1000, ErrorCode::kAborted);
  };
  for (const auto& outcome : run_training(run, std::make_shared<MemoryCheckpoints>()).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kAborted);
  }
}

TEST(TrainLoop, ALastCheckpointThatCannotBeStoredIsTheRunsFailure) {
  TrainingRun run = demanding_run(2);
  run.options.checkpoint_timeout = std::chrono::milliseconds(10);
  run.decorate = [](auto store) { return std::make_unique<FullDisk>(std::move(store), 2, 1000); };
  for (const auto& outcome : run_training(run, std::make_shared<MemoryCheckpoints>()).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kNotStored);
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("the state after step 30 could not be stored"));
    EXPECT_THAT(outcome.error().message,
                ::testing::HasSubstr("disk full; the last checkpoint is memory:step-0000000000"));
  }
}

TEST(TrainLoop, TheLastStateIsStoredAfterAllIfThereIsRoomInTime) {
  auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.options.checkpoint_every_steps = 0;
  run.decorate = [](auto store) { return std::make_unique<FullDisk>(std::move(store), 1, 1); };
  const TrainingResult result = run_training(run, backing);
  expect_completed(result);
  const auto failures = result.events->named(event::kCheckpointFailed);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].at("retry_seconds"), 1.0);
  EXPECT_EQ(newest_tensors(backing), undisturbed());
}

// ---- When saves are made ------------------------------------------------------------------------------

TEST(TrainLoop, ARequestedSaveIsMadeAtOnceAndAnswersAllWhoAskedUntilThen) {
  TrainingRun run = demanding_run(3);
  run.options.checkpoint_every_steps = 0;
  RequestedSaves requests;
  run.requested_saves = &requests;
  run.on_event = [&](const json& e) {
    if (e.at("event") != event::kStep || e.at("step") != 5) return;
    requests.add("first");
    requests.add("second");
  };
  const auto backing = std::make_shared<MemoryCheckpoints>();
  const TrainingResult result = run_training(run, backing);
  expect_completed(result);
  const auto saved = result.events->named(event::kCheckpoint);
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].at("step"), 6);
  EXPECT_THAT(saved[0].at("requests"), ::testing::ElementsAre("first", "second"));
  EXPECT_EQ(saved[1].at("step"), 30);
  EXPECT_TRUE(saved[1].at("requests").empty());
}

// A clock that stands still but for so many seconds a step.
class StepClock {
 public:
  StepClock(TrainingRun& run, double seconds_a_step) {
    run.now = [now = now_] { return std::chrono::steady_clock::time_point(now->load()); };
    const auto passing =
        std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds_a_step));
    run.on_event = [now = now_, passing](const json& e) {
      if (e.at("event") == event::kStep) now->store(now->load() + passing);
    };
  }

 private:
  std::shared_ptr<std::atomic<std::chrono::nanoseconds>> now_ =
      std::make_shared<std::atomic<std::chrono::nanoseconds>>(std::chrono::nanoseconds(0));
};

std::vector<std::int64_t> saved_steps(const TrainingResult& result) {
  std::vector<std::int64_t> steps;
  for (const json& saved : result.events->named(event::kCheckpoint)) steps.push_back(saved.at("step"));
  return steps;
}

// 30 steps of 4 s. A save falls due with the first step that begins 20 s or more after the one before
// (after 20 s, at the earliest), so with every sixth step.
TEST(TrainLoop, ASaveIsMadeOnceSoManySecondsHavePassedSinceTheLastOne) {
  for (const int ranks : {1, 3}) {
    TrainingRun run = demanding_run(ranks);
    run.options.checkpoint_every_steps = 0;
    run.options.checkpoint_every_seconds = 20;
    run.options.checkpoint_background = false;
    const StepClock clock(run, 4);
    const TrainingResult result = run_training(run, std::make_shared<MemoryCheckpoints>());
    expect_completed(result);
    EXPECT_THAT(saved_steps(result), ::testing::ElementsAre(6, 12, 18, 24, 30)) << ranks << " ranks";
  }
}

// Tells that each save took as long as this.
class TimedStore final : public testing::StoreWrapper {
 public:
  TimedStore(std::unique_ptr<CheckpointStore> inner, double seconds)
      : StoreWrapper(std::move(inner)), seconds_(seconds) {}
  Result<checkpoint::SaveReport> finish_save(std::chrono::milliseconds timeout) override {
    auto report = StoreWrapper::finish_save(timeout);
    if (report) report->seconds = seconds_;
    return report;
  }

 private:
  double seconds_;
};

// The first save is due by the interval of the options; the rest by what is advised for saves that long.
TEST(TrainLoop, AnAutomaticIntervalIsTheOneThatIsAdvised) {
  static constexpr double kSave_s = 0.5;
  static constexpr double kMtbf_s = 100;
  const double interval_s = checkpoint::advised_interval_s(kSave_s, kMtbf_s);
  EXPECT_NEAR(interval_s, 9.67, 0.01);  // Young: 10 s
  TrainingRun run = demanding_run(2);
  run.options.checkpoint_every_steps = 0;
  run.options.checkpoint_every_seconds = 4;
  run.options.checkpoint_automatic = true;
  run.options.expected_mtbf_seconds = static_cast<std::int64_t>(kMtbf_s);
  run.options.checkpoint_background = false;
  run.decorate = [](auto store) { return std::make_unique<TimedStore>(std::move(store), kSave_s); };
  const StepClock clock(run, 1);
  const TrainingResult automatic = run_training(run, std::make_shared<MemoryCheckpoints>());
  expect_completed(automatic);
  // Asked for in the step that begins 10 s after the save before.
  EXPECT_THAT(saved_steps(automatic), ::testing::ElementsAre(5, 16, 27, 30));
  run.options.checkpoint_automatic = false;
  const StepClock clock_again(run, 1);
  const TrainingResult fixed = run_training(run, std::make_shared<MemoryCheckpoints>());
  EXPECT_THAT(saved_steps(fixed), ::testing::ElementsAre(5, 10, 15, 20, 25, 30));
}

TEST(TrainLoop, HowOftenToSaveIsToldOnceItIsKnownHowLongThatTakes) {
  for (const bool automatic : {false, true}) {
    TrainingRun run = demanding_run(2);
    run.options.checkpoint_every_seconds = 30;
    run.options.expected_mtbf_seconds = 3600;
    run.options.checkpoint_automatic = automatic;
    const TrainingResult result = run_training(run, std::make_shared<MemoryCheckpoints>());
    expect_completed(result);
    const auto advice = result.events->named(event::kCheckpointAdvice);
    ASSERT_FALSE(advice.empty());
    EXPECT_EQ(advice[0].at("automatic"), automatic);
    EXPECT_EQ(advice[0].at("mtbf_seconds"), 3600);
    const double save_s = result.events->named(event::kCheckpoint)[0].at("seconds");
    EXPECT_EQ(advice[0].at("save_seconds"), save_s);
    EXPECT_EQ(advice[0].at("interval_seconds"), checkpoint::advised_interval_s(save_s, 3600));
  }
}

TEST(TrainLoop, WaitingForEachSaveGivesTheSameBits) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.options.checkpoint_background = false;
  const TrainingResult result = run_training(run, backing);
  expect_completed(result);
  for (const json& saved : result.events->named(event::kCheckpoint))
    EXPECT_EQ(saved.at("steps_meanwhile"), 0);
  EXPECT_EQ(newest_tensors(backing), undisturbed());
}

TEST(TrainLoop, ABestCheckpointHoldsTheParametersThatWereEvaluated) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.options.keep_best = true;
  run.options.checkpoint_every_steps = 1;  // so that a save is always in flight
  const TrainingResult result = run_training(run, backing);
  expect_completed(result);
  double best = -1;
  for (const json& evaluation : result.events->named(event::kEvaluation)) {
    if (evaluation.at("accuracy").get<double>() <= best) continue;
    best = evaluation.at("accuracy").get<double>();
    const auto saved = result.events->named(event::kCheckpoint);
    EXPECT_TRUE(std::any_of(saved.begin(), saved.end(),
                            [&](const json& e) { return e.at("step") == evaluation.at("step"); }))
        << "no checkpoint of step " << evaluation.at("step");
  }
}

}  // namespace
}  // namespace muster
