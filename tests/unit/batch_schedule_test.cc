#include "trainer/data/batch_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace muster::data {
namespace {

using Ids = std::vector<std::int64_t>;

Ids ids_of(BatchSchedule& schedule, std::int64_t epoch, std::int64_t batch, int shard) {
  const auto span = schedule.samples(epoch, batch, shard);
  return {span.begin(), span.end()};
}

Ids epoch_of(BatchSchedule& schedule, std::int64_t epoch) {
  Ids all;
  for (std::int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
    for (int shard = 0; shard < schedule.shards(); ++shard) {
      const Ids ids = ids_of(schedule, epoch, batch, shard);
      all.insert(all.end(), ids.begin(), ids.end());
    }
  }
  return all;
}

TEST(BatchSchedule, EachSampleOncePerEpochWhateverTheSizes) {
  for (const std::int64_t samples : {1, 2, 7, 16, 31, 100, 257}) {
    for (const std::int64_t batch_size : {1, 3, 16, 100, 300}) {
      for (const int shards : {1, 2, 8, 64}) {
        SCOPED_TRACE(::testing::Message()
                     << samples << " samples, batch " << batch_size << ", shards " << shards);
        BatchSchedule schedule(samples, batch_size, 5, shards);
        EXPECT_EQ(schedule.batches_per_epoch(), (samples - 1) / batch_size + 1);
        for (const std::int64_t epoch : {0, 1}) {
          Ids all = epoch_of(schedule, epoch);
          std::sort(all.begin(), all.end());
          Ids expected(static_cast<std::size_t>(samples));
          std::iota(expected.begin(), expected.end(), 0);
          EXPECT_EQ(all, expected);
        }
        std::int64_t total = 0;
        for (std::int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
          std::int64_t smallest = samples;
          std::int64_t largest = 0;
          std::int64_t sum = 0;
          for (int shard = 0; shard < shards; ++shard) {
            const auto count = static_cast<std::int64_t>(schedule.samples(0, batch, shard).size());
            smallest = std::min(smallest, count);
            largest = std::max(largest, count);
            sum += count;
          }
          EXPECT_EQ(sum, schedule.batch_samples(batch));
          EXPECT_LE(largest - smallest, 1);
          EXPECT_LE(largest, schedule.shard_samples_max());
          total += sum;
        }
        EXPECT_EQ(total, samples);
      }
    }
  }
}

TEST(BatchSchedule, IsAPureFunctionOfItsArguments) {
  BatchSchedule forwards(100, 16, 5, 4);
  BatchSchedule jumping(100, 16, 5, 4);
  const Ids later = ids_of(jumping, 7, 3, 2);
  EXPECT_EQ(ids_of(jumping, 2, 6, 1), ids_of(forwards, 2, 6, 1));
  epoch_of(forwards, 3);
  EXPECT_EQ(ids_of(forwards, 7, 3, 2), later);
  EXPECT_EQ(ids_of(jumping, 7, 3, 2), later);
}

TEST(BatchSchedule, ShardsCutABatchAndDoNotChangeIt) {
  BatchSchedule one(100, 30, 5, 1);
  BatchSchedule many(100, 30, 5, 8);
  for (std::int64_t batch = 0; batch < one.batches_per_epoch(); ++batch) {
    Ids joined;
    for (int shard = 0; shard < 8; ++shard) {
      const Ids ids = ids_of(many, 1, batch, shard);
      joined.insert(joined.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(joined, ids_of(one, 1, batch, 0));
  }
}

TEST(BatchSchedule, EpochsAndSeedsShuffleDifferently) {
  BatchSchedule schedule(100, 16, 5, 4);
  BatchSchedule other_seed(100, 16, 6, 4);
  const Ids epoch0 = epoch_of(schedule, 0);
  EXPECT_NE(epoch_of(schedule, 1), epoch0);
  EXPECT_NE(epoch_of(other_seed, 0), epoch0);
  EXPECT_FALSE(std::is_sorted(epoch0.begin(), epoch0.end()));
}

TEST(BatchSchedule, ShufflesEvenly) {
  // Where sample 0 of 5 lands, over many epochs: each position about equally often.
  BatchSchedule schedule(5, 5, 1, 1);
  std::array<int, 5> landed{};
  for (std::int64_t epoch = 0; epoch < 5000; ++epoch) {
    const Ids ids = ids_of(schedule, epoch, 0, 0);
    ++landed.at(static_cast<std::size_t>(std::find(ids.begin(), ids.end(), 0) - ids.begin()));
  }
  for (const int count : landed) EXPECT_NEAR(count, 1000, 150);
}

TEST(BatchSchedule, SequentialOrderForEvaluation) {
  BatchSchedule schedule(10, 4, 5, 2, Order::kSequential);
  Ids expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(epoch_of(schedule, 0), expected);
  EXPECT_EQ(ids_of(schedule, 0, 2, 1), (Ids{9}));
}

}  // namespace
}  // namespace muster::data
