// The promise of the train loop: the result depends on the options and the data alone.
#include "trainer/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "common/run_contract.h"
#include "tests/support/disturbed_dataset.h"
#include "tests/support/store_wrapper.h"
#include "tests/support/training_fixture.h"
#include "trainer/checkpoint/interval_advice.h"

namespace muster {
namespace {

namespace event = contract::event;
using checkpoint::CheckpointStore;
using checkpoint::LoadedCheckpoint;
using checkpoint::LoadOutcome;
using checkpoint::MemoryCheckpoints;
using checkpoint::SaveRequest;
using nlohmann::json;
using testing::demanding_options;
using testing::newest_tensors;
using testing::run_training;
using testing::TrainingResult;
using testing::TrainingRun;
using Tensors = std::map<std::string, std::vector<float>>;

TrainingRun demanding_run(int ranks) {
  TrainingRun run;
  run.options = demanding_options();
  run.ranks = ranks;
  return run;
}

void expect_completed(const TrainingResult& result) {
  for (const auto& outcome : result.outcomes) {
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->stopped);
    EXPECT_EQ(outcome->step, 30);
  }
}

Tensors undisturbed() {
  static const Tensors tensors = [] {
    auto backing = std::make_shared<MemoryCheckpoints>();
    expect_completed(run_training(demanding_run(1), backing));
    return newest_tensors(backing);
  }();
  return tensors;
}

// Runs on `ranks` until the stop at `step`, which only the last rank is told of.
std::shared_ptr<MemoryCheckpoints> stopped_at(int ranks, std::int64_t step) {
  auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(ranks);
  run.stop_rank = ranks - 1;
  run.stop_at_step = step;
  const TrainingResult result = run_training(run, backing);
  for (const auto& outcome : result.outcomes) {
    EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->stopped);
    EXPECT_EQ(outcome->step, result.outcomes[0]->step) << "ranks stopped at different steps";
    EXPECT_GE(outcome->step, step);
    EXPECT_LT(outcome->step, 30);
  }
  return backing;
}

TEST(TrainLoop, LearnsSomething) {
  auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(2);
  run.options.dropout = 0.0;
  run.options.epochs = 30;
  const TrainingResult result = run_training(run, backing);
  ASSERT_TRUE(result.outcomes[0]) << result.outcomes[0].error().message;
  EXPECT_GT(result.outcomes[0]->accuracy.value(), 0.8);
}

TEST(TrainLoop, SameBitsOnAnyNumberOfRanks) {
  ASSERT_FALSE(undisturbed().empty());
  for (const int ranks : {2, 3, 4, 5, 8}) {
    auto backing = std::make_shared<MemoryCheckpoints>();
    expect_completed(run_training(demanding_run(ranks), backing));
    EXPECT_EQ(newest_tensors(backing), undisturbed()) << ranks << " ranks";
  }
}

TEST(TrainLoop, StoppedAndResumedOnAnyNumberOfRanksItEndsWithTheSameBits) {
  for (const int ranks : {1, 2, 3, 5}) {
    const auto backing = stopped_at(4, 7);
    TrainingRun run = demanding_run(ranks);
    run.generation = 2;
    const TrainingResult result = run_training(run, backing);
    expect_completed(result);
    ASSERT_EQ(result.events->named(event::kResumed).size(), 1u);
    EXPECT_GE(result.events->named(event::kResumed)[0].at("step").get<int>(), 7);
    EXPECT_EQ(newest_tensors(backing), undisturbed()) << "resumed on " << ranks << " ranks";
  }
}

// Models and losses beside the plain mlp: 10 steps, on other numbers of ranks, and with a stop on the way.
class OtherModel : public ::testing::TestWithParam<const char*> {
 protected:
  static TrainingRun run_of(int ranks) {
    TrainingRun run = demanding_run(ranks);
    run.options.model = GetParam();
    run.options.activation = "gelu";
    run.options.layer_norm = true;
    run.options.label_smoothing = 0.1;
    run.options.epochs = 2;
    run.sample_shape = {4, 5};
    return run;
  }
};

TEST_P(OtherModel, GivesTheSameBitsOnAnyNumberOfRanksAndAfterAStop) {
  const auto whole = std::make_shared<MemoryCheckpoints>();
  for (const auto& outcome : run_training(run_of(1), whole).outcomes) ASSERT_TRUE(outcome);
  const Tensors expected = newest_tensors(whole);
  ASSERT_FALSE(expected.empty());
  for (const int ranks : {2, 3, 8}) {
    const auto backing = std::make_shared<MemoryCheckpoints>();
    TrainingRun first = run_of(ranks);
    first.stop_rank = ranks - 1;
    first.stop_at_step = 3;
    for (const auto& outcome : run_training(first, backing).outcomes) {
      ASSERT_TRUE(outcome) << outcome.error().message;
      ASSERT_TRUE(outcome->stopped);
    }
    TrainingRun rest = run_of(ranks - 1);
    rest.generation = 2;
    for (const auto& outcome : run_training(rest, backing).outcomes) {
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_EQ(outcome->step, 10);
    }
    EXPECT_EQ(newest_tensors(backing), expected) << ranks << " ranks, then " << ranks - 1;
  }
}

INSTANTIATE_TEST_SUITE_P(TrainLoop, OtherModel, ::testing::Values("lenet", "mlp", "logistic"));

TEST(TrainLoop, EachSampleIsSeenExactlyOnceAnEpochAcrossAStop) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = demanding_run(3);
  run.stop_rank = 0;
  run.stop_at_step = 8;
  const TrainingResult first = run_training(run, backing);
  TrainingRun rest = demanding_run(2);
  rest.generation = 2;
  const TrainingResult second = run_training(rest, backing);
  std::map<std::int64_t, std::multiset<std::int64_t>> seen;
  for (const TrainingResult* result : {&first, &second}) {
    for (const json& samples : result->events->named(event::kSamples)) {
      for (const std::int64_t id : samples.at("ids")) seen[samples.at("epoch")].insert(id);
    }
  }
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [epoch, ids] : seen) {
    EXPECT_EQ(ids.size(), 150u) << "epoch " << epoch;
    EXPECT_EQ(std::set<std::int64_t>(ids.begin(), ids.end()).size(), 150u) << "epoch " << epoch;
  }
}

// ---- Each saved item is needed
// -----------------------------------------------------------------------------

// A checkpoint as it would be if one item had not been saved: it comes back as it was before the first step.
class ForgetfulCheckpoint final : public LoadedCheckpoint {
 public:
  ForgetfulCheckpoint(std::unique_ptr<LoadedCheckpoint> inner, std::string item)
      : inner_(std::move(inner)), item_(std::move(item)), state_(inner_->state()) {
    const json::json_pointer pointer("/training/" + item_);
    if (!item_.starts_with("tensors:")) state_.at(pointer) = 0;
  }
  std::string path() const override { return inner_->path(); }
  const json& state() const override { return state_; }
  std::vector<std::string> tensor_names() const override { return inner_->tensor_names(); }
  Result<std::vector<std::int64_t>> shape(std::string_view name) const override {
    return inner_->shape(name);
  }
  Status read_rows(std::string_view name, std::int64_t begin, std::int64_t end, float* out) override {
    if (item_.starts_with("tensors:")) {
      const std::string_view which = std::string_view(item_).substr(8);
      if (name.starts_with(which) || name.ends_with(which)) return {};
    }
    return inner_->read_rows(name, begin, end, out);
  }

 private:
  std::unique_ptr<LoadedCheckpoint> inner_;
  std::string item_;
  json state_;
};

class ForgetfulStore final : public testing::StoreWrapper {
 public:
  ForgetfulStore(std::unique_ptr<CheckpointStore> inner, std::string item)
      : StoreWrapper(std::move(inner)), item_(std::move(item)) {}
  Result<LoadOutcome> load_latest() override {
    auto outcome = StoreWrapper::load_latest();
    if (outcome && outcome->checkpoint) {
      outcome->checkpoint = std::make_unique<ForgetfulCheckpoint>(std::move(outcome->checkpoint), item_);
    }
    return outcome;
  }

 private:
  std::string item_;
};

class EachSavedItem : public ::testing::TestWithParam<const char*> {};

TEST_P(EachSavedItem, ChangesTheResultIfItIsNotSaved) {
  const std::string item = GetParam();
  const auto backing = stopped_at(2, 7);
  TrainingRun run = demanding_run(2);
  run.generation = 2;
  run.decorate = [&](auto store) { return std::make_unique<ForgetfulStore>(std::move(store), item); };
  const TrainingResult result = run_training(run, backing);
  for (const auto& outcome : result.outcomes) ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_NE(newest_tensors(backing), undisturbed());
}

INSTANTIATE_TEST_SUITE_P(TrainLoop, EachSavedItem,
                         ::testing::Values("step", "epoch", "batch_in_epoch", "rng/seed", "rng/counter",
                                           "optimizer_step", "tensors:parameters/", "tensors:/exp_avg",
                                           "tensors:/exp_avg_sq"));

// ---- Early stop
// -----------------------------------------------------------------------------

// The loss of 40 epochs does not go on falling by a third.
TrainerOptions early_stopping_options() {
  TrainerOptions options = demanding_options();
  options.epochs = 40;
  options.early_stop = {"loss", 3, 0.3};
  return options;
}

struct Ending {
  std::int64_t step = 0;
  std::string early_stop;
  Tensors tensors;
  bool operator==(const Ending&) const = default;
};

Ending ending_of(const TrainingRun& run, const std::shared_ptr<MemoryCheckpoints>& backing) {
  const TrainingResult result = run_training(run, backing);
  for (const auto& outcome : result.outcomes) {
    EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->stopped);
    EXPECT_EQ(outcome->step, result.outcomes[0]->step);
    EXPECT_EQ(outcome->early_stop, result.outcomes[0]->early_stop);
  }
  return {result.outcomes[0]->step, result.outcomes[0]->early_stop, newest_tensors(backing)};
}

TEST(EarlyStop, EndsTheRunAsDoneAtTheSameStepOnAnyNumberOfRanks) {
  TrainingRun run = demanding_run(1);
  run.options = early_stopping_options();
  const Ending alone = ending_of(run, std::make_shared<MemoryCheckpoints>());
  EXPECT_LT(alone.step, 200);
  EXPECT_GT(alone.step, 15);
  EXPECT_EQ(alone.step % 5, 0) << "decided by an evaluation, at the end of an epoch";
  EXPECT_THAT(alone.early_stop,
              ::testing::HasSubstr("loss has not improved by more than 0.3 in 3 evaluations"));
  run.ranks = 3;
  const auto backing = std::make_shared<MemoryCheckpoints>();
  EXPECT_EQ(ending_of(run, backing), alone);

  // The same again trains nothing, and ends alike.
  run.generation = std::numeric_limits<std::int32_t>::max();  // looking at the tensors took that
  const TrainingResult again = run_training(run, backing);
  ASSERT_TRUE(again.outcomes[0]) << again.outcomes[0].error().message;
  EXPECT_TRUE(again.events->named(event::kStep).empty());
  EXPECT_EQ(again.outcomes[0]->early_stop, alone.early_stop);
}

// Steps 9 and 14 are the last ones of an epoch: the stop comes before the evaluation.
class StoppedBefore : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(StoppedBefore, ARunEndsEarlyAtTheSameStep) {
  TrainingRun run = demanding_run(2);
  run.options = early_stopping_options();
  const Ending undisturbed_ending = ending_of(run, std::make_shared<MemoryCheckpoints>());
  const auto backing = std::make_shared<MemoryCheckpoints>();
  run.stop_rank = 1;
  run.stop_at_step = GetParam();
  const TrainingResult first = run_training(run, backing);
  EXPECT_TRUE(first.outcomes[0]->stopped);
  run.stop_rank = -1;
  run.generation = 2;
  run.ranks = 3;
  EXPECT_EQ(ending_of(run, backing), undisturbed_ending);
}

INSTANTIATE_TEST_SUITE_P(EarlyStop, StoppedBefore, ::testing::Values(7, 9, 10, 14));

// ---- Everything at once
// -----------------------------------------------------------------------------

TEST(TrainLoop, WithEverythingOnTheBitsSurviveKillsAndOtherRankCounts) {
  TrainingRun run = demanding_run(1);
  run.options.batch_size = 16;
  run.options.accumulation_steps = 2;  // ten batches of an epoch, the last of six samples: five steps
  run.options.clip_norm = 0.2;
  run.options.lr_schedule = "step";
  run.options.lr_every_epochs = 2;
  run.options.lr_gamma = 0.5;
  run.options.early_stop = {"accuracy", 5, 0.01};
  const Ending undisturbed_ending = ending_of(run, std::make_shared<MemoryCheckpoints>());
  EXPECT_GE(undisturbed_ending.step, 15);

  const auto backing = std::make_shared<MemoryCheckpoints>();
  // Each attempt dies without a word at another fetch of another rank, and goes on with another number of
  // ranks.
  for (const int ranks : {4, 3, 8, 2}) {
    run.ranks = ranks;
    run.decorate_data = [ranks](int rank, std::shared_ptr<const data::Dataset> samples) {
      const int dies_at = 7 * 2 * 8 / ranks + ranks;  // within the seventh step of the attempt
      return std::make_shared<testing::DisturbedDataset>(std::move(samples), [=](int fetch) -> Status {
        if (rank == ranks / 2 && fetch == dies_at) return fail(ErrorCode::kInternal, "killed");
        return {};
      });
    };
    for (const auto& outcome : run_training(run, backing).outcomes) EXPECT_FALSE(outcome) << ranks;
    ++run.generation;
  }
  run.ranks = 5;
  run.decorate_data = nullptr;
  EXPECT_EQ(ending_of(run, backing), undisturbed_ending);
}

// ---- Faults
// -------------------------------------------------------------------------------------------------

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

TEST(TrainLoop, FewerShardsThanRanksIsAnError) {
  TrainingRun run = demanding_run(3);
  run.options.shards = 2;
  for (const auto& outcome : run_training(run, std::make_shared<MemoryCheckpoints>()).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("--shards is 2, but there are 3 ranks"));
  }
}

// Refuses saves [first, last], counted from 1.
class FullDisk final : public testing::StoreWrapper {
 public:
  FullDisk(std::unique_ptr<CheckpointStore> inner, int first, int last)
      : StoreWrapper(std::move(inner)), first_(first), last_(last) {}
  Status begin_save(const SaveRequest& request) override {
    ++saves_;
    if (saves_ >= first_ && saves_ <= last_) return fail(ErrorCode::kNoSpace, "disk full");
    return StoreWrapper::begin_save(request);
  }

 private:
  int first_;
  int last_;
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

// ---- When saves are made
// -------------------------------------------------------------------------------

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
