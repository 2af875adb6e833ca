// What one optimizer step may be made of: clipped gradients, several batches, samples fetched ahead, numbers
// that are not finite. None of it may depend on the number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "common/run_contract.h"
#include "tests/support/disturbed_dataset.h"
#include "tests/support/training_fixture.h"
#include "trainer/data/batch_schedule.h"

namespace muster {
namespace {

namespace event = contract::event;
using checkpoint::MemoryCheckpoints;
using nlohmann::json;
using testing::demanding_options;
using testing::DisturbedDataset;
using testing::Gate;
using ::testing::HasSubstr;
using testing::newest_tensors;
using testing::run_training;
using testing::TrainingResult;
using testing::TrainingRun;
using Tensors = std::map<std::string, std::vector<float>>;

TrainingRun run_on(int ranks, const TrainerOptions& options) {
  TrainingRun run;
  run.options = options;
  run.ranks = ranks;
  return run;
}

// Trains to the end.
Tensors trained(const TrainingRun& run) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  for (const auto& outcome : run_training(run, backing).outcomes)
    EXPECT_TRUE(outcome) << outcome.error().message;
  return newest_tensors(backing);
}

// Stops on one number of ranks at a step, goes on with another.
Tensors interrupted(TrainingRun run, int ranks_afterwards, std::int64_t stop_at_step) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  run.stop_rank = run.ranks - 1;
  run.stop_at_step = stop_at_step;
  for (const auto& outcome : run_training(run, backing).outcomes)
    EXPECT_TRUE(outcome && outcome->stopped) << "it was to stop in between";
  run.ranks = ranks_afterwards;
  run.stop_rank = -1;
  run.generation = 2;
  for (const auto& outcome : run_training(run, backing).outcomes)
    EXPECT_TRUE(outcome) << outcome.error().message;
  return newest_tensors(backing);
}

double largest_difference(const Tensors& a, const Tensors& b) {
  double largest = 0;
  for (const auto& [name, values] : a) {
    for (std::size_t i = 0; i < values.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(values[i]) - b.at(name).at(i)));
  }
  return largest;
}

// ---- Clipping --------------------------------------------------------------------------------------------

TEST(Clipping, GivesTheSameBitsOnAnyNumberOfRanksAndChangesTheResult) {
  TrainerOptions options = demanding_options();
  const Tensors unclipped = trained(run_on(1, options));
  options.clip_norm = 0.05;
  const Tensors on_one_rank = trained(run_on(1, options));
  EXPECT_NE(on_one_rank, unclipped);
  for (const int ranks : {2, 3, 5, 8}) {
    EXPECT_EQ(trained(run_on(ranks, options)), on_one_rank) << ranks << " ranks";
  }
}

TEST(Clipping, ABoundThatNoGradientReachesChangesNothing) {
  TrainerOptions options = demanding_options();
  const Tensors unclipped = trained(run_on(2, options));
  options.clip_norm = 1e6;
  EXPECT_EQ(trained(run_on(2, options)), unclipped);
}

TEST(Clipping, TheNormOfEachStepIsReportedAndIsTheSameOnAnyNumberOfRanks) {
  std::vector<double> on_one_rank;
  for (const int ranks : {1, 3, 8}) {
    const auto result =
        run_training(run_on(ranks, demanding_options()), std::make_shared<MemoryCheckpoints>());
    std::vector<double> norms;
    for (const json& step : result.events->named(event::kStep)) norms.push_back(step.at("gradient_norm"));
    ASSERT_EQ(norms.size(), 30u);
    for (const double norm : norms) EXPECT_GT(norm, 0);
    if (ranks == 1) on_one_rank = norms;
    EXPECT_EQ(norms, on_one_rank) << ranks << " ranks";
  }
}

// Plain gradient descent with rate 1 moves the parameters by the clipped gradient itself.
TEST(Clipping, TheUpdateHasTheBoundsLength) {
  TrainerOptions options = demanding_options();
  options.dropout = 0;
  options.optimizer = "sgd";
  options.momentum = 0;
  options.weight_decay = 0;
  options.learning_rate = 1;
  options.lr_schedule = "constant";
  options.warmup_steps = 0;
  options.epochs.reset();
  options.checkpoint_every_steps = 1;
  options.clip_norm = 0.01;
  options.steps = 1;
  const Tensors after_one = trained(run_on(2, options));
  options.steps = 2;
  const Tensors after_two = trained(run_on(2, options));
  double squares = 0;
  for (const auto& [name, values] : after_two) {
    for (std::size_t i = 0; i < values.size(); ++i)
      squares += std::pow(static_cast<double>(values[i]) - after_one.at(name).at(i), 2);
  }
  EXPECT_NEAR(std::sqrt(squares), options.clip_norm, 1e-5);
}

// ---- Accumulation ----------------------------------------------------------------------------------------

// 150 samples: batches of 8 make steps of four batches, and one of the last three, of 22 samples.
TrainerOptions accumulating_options() {
  TrainerOptions options = demanding_options();
  options.batch_size = 8;
  options.accumulation_steps = 4;
  return options;
}

TEST(Accumulation, KBatchesAreOneBatchOfKTimesTheSize) {
  TrainerOptions small = accumulating_options();
  TrainerOptions large = demanding_options();
  for (TrainerOptions* options : {&small, &large}) {
    options->dropout = 0;  // its masks belong to (batch, shard), which differ
    options->optimizer = "sgd";
    options->learning_rate = 0.1;
    options->weight_decay = 0;
  }
  const Tensors in_parts = trained(run_on(2, small));
  const Tensors whole = trained(run_on(2, large));
  EXPECT_LT(largest_difference(in_parts, whole), 2e-6);
  small.accumulation_steps = 3;
  EXPECT_GT(largest_difference(trained(run_on(2, small)), whole), 1e-3) << "the comparison sees nothing";
}

TEST(Accumulation, GivesTheSameBitsOnAnyNumberOfRanksAndAfterAStop) {
  const Tensors on_one_rank = trained(run_on(1, accumulating_options()));
  for (const int ranks : {2, 3, 8})
    EXPECT_EQ(trained(run_on(ranks, accumulating_options())), on_one_rank) << ranks << " ranks";
  EXPECT_EQ(interrupted(run_on(4, accumulating_options()), 3, 7), on_one_rank);
}

TEST(Accumulation, ARunDoesNotGoOnWithAnotherNumberOfBatches) {
  const auto backing = std::make_shared<MemoryCheckpoints>();
  TrainingRun run = run_on(2, accumulating_options());
  run_training(run, backing);
  run.generation = 2;
  run.options.accumulation_steps = 2;
  for (const auto& outcome : run_training(run, backing).outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("accumulation_steps: 4 in the checkpoint, 2 now"));
  }
}

// ---- Samples fetched ahead -------------------------------------------------------------------------------

TEST(Prefetch, ChangesNoBit) {
  TrainerOptions options = demanding_options();
  const Tensors usual = trained(run_on(2, options));
  for (const std::int64_t prefetch : {0, 1, 40}) {
    options.prefetch = prefetch;
    EXPECT_EQ(trained(run_on(3, options)), usual) << "prefetch " << prefetch;
  }
}

// Disturbs the loader of one rank at its 20th fetch.
TrainingRun disturbed_run(int ranks, int disturbed_rank, const std::function<Status()>& disturb) {
  TrainingRun run = run_on(ranks, demanding_options());
  run.options.data_timeout = std::chrono::seconds(1);
  run.decorate_data = [=](int rank, std::shared_ptr<const data::Dataset> data) {
    if (rank != disturbed_rank) return data;
    const auto at_the_20th = [disturb](int fetch) { return fetch == 20 ? disturb() : Status(); };
    return std::shared_ptr<const data::Dataset>(
        std::make_shared<DisturbedDataset>(std::move(data), at_the_20th));
  };
  return run;
}

TEST(Prefetch, AStalledLoaderIsNamedOnAllRanks) {
  const auto gate = std::make_shared<Gate>();
  const auto began = std::chrono::steady_clock::now();
  const auto result = run_training(disturbed_run(3, 1,
                                                 [gate] {
                                                   gate->wait();
                                                   return Status();
                                                 }),
                                   std::make_shared<MemoryCheckpoints>());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40));
  gate->open();
  for (const auto& outcome : result.outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("the data loader of rank 1 stalled: the "));
    EXPECT_THAT(outcome.error().message, HasSubstr("did not come within 1.0 s"));
  }
  EXPECT_EQ(result.outcomes[1].error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(result.outcomes[0].error().code, ErrorCode::kAborted);
}

TEST(Prefetch, AFailedLoaderIsNamedOnAllRanks) {
  const auto result = run_training(
      disturbed_run(3, 2, []() -> Status { return fail(ErrorCode::kIo, "cannot read x: I/O error"); }),
      std::make_shared<MemoryCheckpoints>());
  for (const auto& outcome : result.outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_THAT(outcome.error().message, HasSubstr("the data loader of rank 2 cannot read the "));
    EXPECT_THAT(outcome.error().message, HasSubstr("cannot read x: I/O error"));
  }
  EXPECT_EQ(result.outcomes[2].error().code, ErrorCode::kIo);
}

TEST(Prefetch, ALoaderThatIsLateButInTimeIsNoError) {
  const Tensors usual = trained(run_on(2, demanding_options()));
  // Rank 0 has two of the eight shards, rank 1 three. What rank 0 fetches for step 10 comes only once rank 1
  // fetches for step 12, two steps ahead: so when rank 1 is in step 10 already.
  constexpr int kOfStep10 = 20;
  constexpr int kOfStep12 = 36;
  const auto gate = std::make_shared<Gate>();
  TrainingRun run = run_on(3, demanding_options());
  run.options.prefetch = 2;
  run.options.data_timeout = std::chrono::minutes(1);
  run.decorate_data = [=](int rank, std::shared_ptr<const data::Dataset> data) {
    const auto late = [=](int fetch) {
      if (rank == 0 && fetch == kOfStep10) gate->wait();
      if (rank == 1 && fetch == kOfStep12) gate->open();
      return Status();
    };
    return std::shared_ptr<const data::Dataset>(std::make_shared<DisturbedDataset>(std::move(data), late));
  };
  EXPECT_EQ(trained(run), usual);
}

// ---- Numbers that are not finite -------------------------------------------------------------------------

// A sample that the last shard, and so the last rank, gets in the first batch.
std::int64_t sample_of_the_last_shard() {
  const TrainerOptions options = demanding_options();
  data::BatchSchedule schedule(150, options.batch_size, options.seed, options.shards);
  return schedule.samples(0, 0, options.shards - 1)[0];
}

TEST(Nonfinite, OneSampleOfTheLastRankStopsAllWithOneDecisionThatBlamesNobody) {
  for (const int ranks : {1, 3, 8}) {
    TrainingRun run = run_on(ranks, demanding_options());
    run.poisoned = {sample_of_the_last_shard()};
    const TrainingResult result = run_training(run, std::make_shared<MemoryCheckpoints>());
    for (const auto& outcome : result.outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(
          outcome.error().message,
          fmt::format("the loss (nan) or the gradient (norm nan) is not finite at step 0 (epoch 0, batch "
                      "0); it comes from shard 7 (rank {}); all ranks stop here. Lower the learning "
                      "rate, or skip such steps (on_nonfinite: skip)",
                      ranks - 1));
    }
  }
}

TEST(Nonfinite, SkippedStepsAreSkippedEverywhereAndTheBitsStayEqual) {
  Tensors on_one_rank;
  for (const int ranks : {1, 2, 4, 8}) {
    auto backing = std::make_shared<MemoryCheckpoints>();
    TrainingRun run = run_on(ranks, demanding_options());
    run.poisoned = {sample_of_the_last_shard()};
    run.options.on_nonfinite = "skip";
    const TrainingResult result = run_training(run, backing);
    for (const auto& outcome : result.outcomes) ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(result.events->named(event::kStepSkipped).size(), 6u) << "once an epoch";
    if (ranks == 1) on_one_rank = newest_tensors(backing);
    EXPECT_EQ(newest_tensors(backing), on_one_rank) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace muster
