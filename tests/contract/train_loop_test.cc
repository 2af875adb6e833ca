// The promise of the train loop: the result depends on the options and the data alone.
#include "trainer/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "common/run_contract.h"
#include "tests/contract/demanding_run.h"
#include "tests/support/disturbed_dataset.h"
#include "tests/support/store_wrapper.h"
#include "tests/support/training_fixture.h"
#include "trainer/training_state.h"

namespace muster {
namespace {

namespace event = contract::event;
using checkpoint::CheckpointStore;
using checkpoint::LoadedCheckpoint;
using checkpoint::LoadOutcome;
using checkpoint::MemoryCheckpoints;
using nlohmann::json;
using testing::demanding_options;
using testing::demanding_run;
using testing::expect_completed;
using testing::newest_tensors;
using testing::run_training;
using testing::stopped_at;
using testing::Tensors;
using testing::TrainingResult;
using testing::TrainingRun;
using testing::undisturbed;

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

// ---- Each saved item is needed ------------------------------------------------------------------------

// A checkpoint as it would be if one item had not been saved: it comes back as it was before the first step.
class ForgetfulCheckpoint final : public LoadedCheckpoint {
 public:
  ForgetfulCheckpoint(std::unique_ptr<LoadedCheckpoint> inner, std::string item)
      : inner_(std::move(inner)), item_(std::move(item)), state_(inner_->state()) {
    if (item_.starts_with("tensors:")) return;
    const json::json_pointer pointer("/training/" + item_);
    const json before_the_first_step = to_json(TrainingState());
    state_.at(pointer) = before_the_first_step.at(json::json_pointer("/" + item_));
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

// ---- What evaluations leave behind: it decides how a run ends, and what is kept of it.

// Everything that an attempt says about evaluations, and what it saves for them.
struct Conclusions {
  std::vector<std::int64_t> evaluated;  // steps
  std::vector<std::int64_t> saved;
  std::int64_t ended_at = 0;
};

TrainingRun concluding_run() {
  TrainingRun run = demanding_run(2);
  run.options.epochs = 40;
  run.options.early_stop = {"loss", 3, 0.3};
  run.options.checkpoint_every_steps = 0;
  run.options.keep_best = true;
  run.options.checkpoint_background = false;
  return run;
}

Conclusions conclusions_of(const TrainingRun& run, const std::shared_ptr<MemoryCheckpoints>& backing) {
  const TrainingResult result = run_training(run, backing);
  EXPECT_TRUE(result.outcomes[0]) << result.outcomes[0].error().message;
  Conclusions seen;
  for (const json& e : result.events->named(event::kEvaluation)) seen.evaluated.push_back(e.at("step"));
  for (const json& e : result.events->named(event::kCheckpoint)) seen.saved.push_back(e.at("step"));
  seen.ended_at = result.outcomes[0]->step;
  return seen;
}

// Of the attempt that goes on after a stop at `step`; `forgotten` comes back as it was before the first step.
Conclusions conclusions_after(std::int64_t step, const std::string& forgotten) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = concluding_run();
  run.stop_rank = 1;
  run.stop_at_step = step - 1;  // counted from 0
  EXPECT_EQ(conclusions_of(run, backing).ended_at, step);
  run.stop_rank = -1;
  run.generation = 2;
  run.decorate = [&](auto store) { return std::make_unique<ForgetfulStore>(std::move(store), forgotten); };
  return conclusions_of(run, backing);
}

TEST(EachSavedItemOfEvaluations, ChangesHowTheRunEndsIfItIsNotSaved) {
  const Conclusions whole = conclusions_of(concluding_run(), std::make_shared<MemoryCheckpoints>());
  const auto evaluated = whole.evaluated;
  const std::string nothing = "initial_parameters";  // which this run has none of
  // A stop after the last step of an epoch leaves its evaluation undone.
  EXPECT_EQ(conclusions_after(10, nothing).evaluated.at(0), 10);
  EXPECT_EQ(conclusions_after(10, "evaluation_due").evaluated.at(0), 15);
  // The third evaluation without an improvement ends the run: a stop after the first of them.
  const std::int64_t in_the_middle = whole.ended_at - 8;
  EXPECT_EQ(conclusions_after(in_the_middle, nothing).ended_at, whole.ended_at);
  EXPECT_GT(conclusions_after(in_the_middle, "early_stop").ended_at, whole.ended_at);
  // An accuracy that was not the best one is not saved for it: a stop before one.
  const auto not_best = std::find_if(evaluated.begin() + 2, evaluated.end(), [&](std::int64_t step) {
    return std::find(whole.saved.begin(), whole.saved.end(), step) == whole.saved.end();
  });
  ASSERT_NE(not_best, evaluated.end());
  EXPECT_THAT(conclusions_after(*not_best - 2, nothing).saved,
              ::testing::Not(::testing::Contains(*not_best)));
  EXPECT_THAT(conclusions_after(*not_best - 2, "best_accuracy").saved, ::testing::Contains(*not_best));
}

// ---- Early stop ---------------------------------------------------------------------------------------

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

// ---- Everything at once -------------------------------------------------------------------------------

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

// ---- Faults -------------------------------------------------------------------------------------------

TEST(TrainLoop, FewerShardsThanRanksIsAnError) {
  TrainingRun run = demanding_run(3);
  run.options.shards = 2;
  for (const auto& outcome : run_training(run, std::make_shared<MemoryCheckpoints>()).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("--shards is 2, but there are 3 ranks"));
  }
}

}  // namespace
}  // namespace muster
