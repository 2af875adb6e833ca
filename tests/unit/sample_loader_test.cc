// Samples come in order whatever the loader's lead, and a loader that is dead or stuck is an error in time.
#include "trainer/data/sample_loader.h"
#include "tests/support/eventually.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <semaphore>
#include <stdexcept>

#include "tests/support/disturbed_dataset.h"
#include "tests/support/training_fixture.h"

namespace muster::data {
namespace {

using std::chrono::milliseconds;
using testing::ClusterDataset;
using testing::DisturbedDataset;
using testing::Gate;
using ::testing::HasSubstr;

constexpr std::int64_t kSamples = 50;
constexpr int kShards = 4;

BatchSchedule schedule() { return {kSamples, 8, 3, kShards}; }

SampleOrder order_of_steps(std::int64_t steps) {
  return training_order(schedule(), {1, 3}, {.total_steps = steps, .accumulation_steps = 2});
}

std::shared_ptr<const Dataset> samples() { return std::make_shared<ClusterDataset>(kSamples, 5); }

std::shared_ptr<const Dataset> disturbed(DisturbedDataset::Disturbance disturbance) {
  return std::make_shared<DisturbedDataset>(samples(), std::move(disturbance));
}

std::vector<SampleRequest> all_of(const SampleOrder& order) {
  std::vector<SampleRequest> requests;
  while (auto request = order()) requests.push_back(*std::move(request));
  return requests;
}

TEST(SampleOrder, TrainingGoesByStepShardAndBatchAndCrossesEpochs) {
  // Seven batches an epoch: four steps, of 2, 2, 2 and 1 batches.
  const auto requests = all_of(order_of_steps(5));
  std::vector<std::string> places;
  for (const SampleRequest& r : requests) places.push_back(fmt::format("{}/{}/{}", r.step, r.shard, r.batch));
  EXPECT_THAT(places, ::testing::ElementsAre("0/1/0", "0/1/1", "0/2/0", "0/2/1",  //
                                             "1/1/2", "1/1/3", "1/2/2", "1/2/3",  //
                                             "2/1/4", "2/1/5", "2/2/4", "2/2/5",  //
                                             "3/1/6", "3/2/6",                    //
                                             "4/1/0", "4/1/1", "4/2/0", "4/2/1"));
  BatchSchedule same = schedule();
  const auto first = same.samples(0, 1, 2);
  EXPECT_EQ(requests[3].ids, std::vector<std::int64_t>(first.begin(), first.end()));
  const auto second_epoch = same.samples(1, 1, 2);
  EXPECT_EQ(requests.back().ids, std::vector<std::int64_t>(second_epoch.begin(), second_epoch.end()));
}

TEST(SampleOrder, TrainingGoesOnWhereItStopped) {
  const auto whole = all_of(order_of_steps(6));
  const auto rest = all_of(
      training_order(schedule(), {1, 3}, {.step = 2, .total_steps = 6, .batch = 4, .accumulation_steps = 2}));
  ASSERT_EQ(rest.size(), whole.size() - 8);
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].ids, whole[i + 8].ids) << i;
}

TEST(SampleOrder, EvaluationSeesEverySampleOnce) {
  std::vector<std::int64_t> seen;
  const BatchSchedule sequential(kSamples, 8, 0, kShards, Order::kSequential);
  for (const SampleRequest& request : all_of(evaluation_order(sequential, {0, kShards}, 9))) {
    EXPECT_EQ(request.step, 9);
    seen.insert(seen.end(), request.ids.begin(), request.ids.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

TEST(StepBatches, CoverAnEpochAndWeightItsRaggedEnd) {
  EXPECT_EQ(steps_per_epoch(schedule(), 2), 4);
  EXPECT_EQ(steps_per_epoch(schedule(), 100), 1);
  std::int64_t seen = 0;
  for (std::int64_t begin = 0; begin < schedule().batches_per_epoch();) {
    const StepBatches step = step_batches(schedule(), begin, 3);
    EXPECT_EQ(step.begin, begin);
    EXPECT_GT(step.end, begin);
    seen += step.samples;
    begin = step.end;
  }
  EXPECT_EQ(seen, kSamples);
  EXPECT_EQ(step_batches(schedule(), 6, 3).samples, 2);
}

class Lead : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Lead, ChangesNothingAndIsBounded) {
  const std::int64_t ahead = GetParam();
  std::atomic<int> asked{0};
  std::atomic<bool> too_far{false};
  SampleLoader loader(disturbed([&](int fetch) {
                        if (fetch >= asked + ahead) too_far = true;
                        return Status();
                      }),
                      order_of_steps(6), {.ahead_max = ahead});
  for (const SampleRequest& request : all_of(order_of_steps(6))) {
    ++asked;
    const Result<Samples*> got = loader.next();
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ((*got)->request.ids, request.ids);
    std::vector<float> inputs(std::max<std::size_t>(request.ids.size() * 12, 1));
    std::vector<std::int32_t> labels(std::max<std::size_t>(request.ids.size(), 1));
    ASSERT_TRUE(samples()->fetch(request.ids, inputs.data(), labels.data()));
    if (request.ids.empty()) continue;
    EXPECT_EQ((*got)->inputs, inputs);
    EXPECT_EQ((*got)->labels, labels);
  }
  EXPECT_FALSE(too_far) << "more was fetched ahead than allowed";
}

INSTANTIATE_TEST_SUITE_P(SampleLoader, Lead, ::testing::Values(0, 1, 3, 1000));

TEST(SampleLoader, AFetchThatDoesNotEndIsAnErrorInTimeAndHoldsNobodyUp) {
  auto gate = std::make_shared<Gate>();
  auto dataset = disturbed([gate](int fetch) {
    if (fetch == 3) gate->wait();
    return Status();
  });
  const std::weak_ptr<const Dataset> watched = dataset;
  const auto began = std::chrono::steady_clock::now();
  {
    SampleLoader loader(std::move(dataset), order_of_steps(3),
                        {.ahead_max = 2, .timeout = milliseconds(200)});
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader.next());
    const Result<Samples*> stalled = loader.next();
    ASSERT_FALSE(stalled);
    EXPECT_EQ(stalled.error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(stalled.error().message,
              "stalled: the 2 samples of step 0, batch 1, shard 2 did not come within 0.2 s");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30))
      << "the stuck thread was joined";
  EXPECT_FALSE(watched.expired()) << "the thread that was left behind still reads from it";
  gate->open();
  EXPECT_TRUE(testing::eventually([&] { return watched.expired(); }))
      << "what the thread used was not given back";
}

TEST(SampleLoader, AFetchThatEndsAfterItWasAskedForIsNoError) {
  std::counting_semaphore<> asked{0};
  SampleLoader loader(disturbed([&asked](int) {
                        if (!asked.try_acquire_for(std::chrono::minutes(1)))
                          return Status(fail(ErrorCode::kDeadlineExceeded, "nobody asked"));
                        return Status();
                      }),
                      order_of_steps(2), {.ahead_max = 1});
  for (int i = 0; i < 8; ++i) {
    asked.release();
    ASSERT_TRUE(loader.next());
  }
}

TEST(SampleLoader, AFailedFetchIsItsConsumersErrorAfterTheSamplesBeforeIt) {
  SampleLoader loader(disturbed([](int fetch) -> Status {
                        if (fetch == 1) return fail(ErrorCode::kIo, "disk gone");
                        return {};
                      }),
                      order_of_steps(3), {.ahead_max = 5});
  ASSERT_TRUE(loader.next());
  const Result<Samples*> failed = loader.next();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_EQ(failed.error().message, "cannot read the 2 samples of step 0, batch 1, shard 1: disk gone");
}

TEST(SampleLoader, AnExceptionInItsThreadIsAnErrorToo) {
  SampleLoader loader(disturbed([](int) -> Status { throw std::runtime_error("no such luck"); }),
                      order_of_steps(3), {});
  const Result<Samples*> died = loader.next();
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().code, ErrorCode::kInternal);
  EXPECT_THAT(died.error().message,
              HasSubstr("died at the 2 samples of step 0, batch 0, shard 1: no such luck"));
}

TEST(SampleLoader, AfterTheLastSamplesThereIsAnError) {
  SampleLoader loader(samples(), order_of_steps(1), {});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(loader.next());
  EXPECT_EQ(loader.next().error().message, "was asked for more than there is");
}

}  // namespace
}  // namespace muster::data
