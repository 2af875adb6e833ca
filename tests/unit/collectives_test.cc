// All ranks' operations driven by one thread in a random order, over a transport that buffers nothing: every
// interleaving must come to its end, and to the right one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "trainer/comm/message.h"
#include "trainer/comm/shard_tree.h"
#include "trainer/comm/thread_communicator.h"

namespace muster::comm {
namespace {

struct Group {
  Group(int size, Algorithm algorithm) {
    CommunicatorOptions options;
    options.algorithm = algorithm;
    options.segment_bytes = 3 * sizeof(double);
    communicators = make_thread_communicators(size, options);
  }
  Communicator& rank(int r) { return *communicators.ranks[static_cast<std::size_t>(r)]; }
  int size() const { return static_cast<int>(communicators.ranks.size()); }

  // Calls test() on one random rank after another until all have finished.
  void drive(std::vector<std::unique_ptr<Work>>& work, std::mt19937& random) {
    constexpr int kPollsMax = 2'000'000;
    std::vector<std::size_t> left(work.size());
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (int polls = 0; !left.empty(); ++polls) {
      ASSERT_LT(polls, kPollsMax) << "deadlock";
      const std::size_t pick = random() % left.size();
      if (work[left[pick]]->test()) left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    for (const auto& one : work) {
      const Status status = one->wait();
      ASSERT_TRUE(status) << status.error().message;
    }
  }

  ThreadCommunicators communicators;
};

using Buffers = std::vector<std::vector<double>>;

Buffers whole_numbers(int size, std::size_t count) {
  Buffers buffers;
  for (int r = 0; r < size; ++r) {
    buffers.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i)
      buffers.back()[i] = static_cast<double>(i * 10 + static_cast<std::size_t>(r));
  }
  return buffers;
}

class Interleavings : public ::testing::TestWithParam<Algorithm> {};

TEST_P(Interleavings, AllReduceAndReduceScatterAndAllGather) {
  std::mt19937 random(5);
  for (int size = 1; size <= 9; ++size) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(size), std::size_t{61}}) {
      Group group(size, GetParam());
      Buffers sums = whole_numbers(size, count);
      Buffers parts = whole_numbers(size, count);
      std::vector<std::unique_ptr<Work>> work;
      const CollectiveOptions first{.step = 1};
      for (int r = 0; r < size; ++r) {
        const auto at = static_cast<std::size_t>(r);
        work.push_back(group.rank(r).all_reduce(sums[at].data(), count, DType::kFloat64, first));
        work.push_back(group.rank(r).reduce_scatter(parts[at].data(), count, DType::kFloat64, first));
      }
      group.drive(work, random);
      work.clear();
      for (int r = 0; r < size; ++r)
        work.push_back(group.rank(r).all_gather(parts[static_cast<std::size_t>(r)].data(), count,
                                                DType::kFloat64, first));
      group.drive(work, random);
      for (int r = 0; r < size; ++r) {
        for (std::size_t i = 0; i < count; ++i) {
          const double expected = size * (static_cast<double>(i) * 10 + (size - 1) / 2.0);
          ASSERT_EQ(sums[static_cast<std::size_t>(r)][i], expected) << size << " ranks, element " << i;
          ASSERT_EQ(parts[static_cast<std::size_t>(r)][i], expected) << size << " ranks, element " << i;
        }
      }
    }
  }
}

TEST_P(Interleavings, ShardsAndBroadcast) {
  std::mt19937 random(6);
  constexpr int kShards = 16;
  constexpr std::size_t kCount = 50;
  for (int size = 1; size <= 9; ++size) {
    Group group(size, GetParam());
    Buffers totals(static_cast<std::size_t>(size), std::vector<double>(kCount));
    std::vector<DoubleShardAccumulator> accumulators;
    for (int r = 0; r < size; ++r) accumulators.emplace_back(kCount);
    std::vector<std::unique_ptr<Work>> work;
    Buffers copies = whole_numbers(size, kCount);
    for (int r = 0; r < size; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const ShardRange range = shard_range(r, size, kShards);
      accumulators[at].begin(range);
      for (auto shard = range.begin; shard < range.end; ++shard)
        accumulators[at].add(std::vector<double>(kCount, static_cast<double>(shard + 1)));
      work.push_back(group.rank(r).all_reduce_shards(accumulators[at].partials(), kShards, totals[at].data(),
                                                     kCount, DType::kFloat64, {}));
      work.push_back(group.rank(r).broadcast(copies[at].data(), kCount, DType::kFloat64, size / 2, {}));
    }
    group.drive(work, random);
    for (const auto& total : totals) ASSERT_THAT(total, ::testing::Each(kShards * (kShards + 1) / 2.0));
    for (const auto& copy : copies)
      ASSERT_EQ(copy, whole_numbers(size, kCount)[static_cast<std::size_t>(size / 2)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, Interleavings, ::testing::Values(Algorithm::kTree, Algorithm::kRing),
                         [](const auto& one) { return std::string(make_reduction(one.param)->name()); });

TEST(Algorithm, IsParsed) {
  EXPECT_EQ(parse_algorithm("tree").value(), Algorithm::kTree);
  EXPECT_EQ(parse_algorithm("ring").value(), Algorithm::kRing);
  EXPECT_EQ(parse_algorithm("rign").error().message,
            "unknown all-reduce algorithm 'rign'; allowed: tree, ring");
}

TEST(MessageHeader, EveryDifferenceIsTold) {
  MessageHeader expected;
  expected.collective = Collective::kAllReduce;
  expected.step = 7;
  expected.count = 10;
  EXPECT_TRUE(check_header(expected, expected, 1, 2));
  MessageHeader received = expected;
  received.count = 11;
  received.dtype = DType::kFloat32;
  const Status status = check_header(expected, received, 1, 2);
  EXPECT_EQ(status.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(status.error().message,
            "ranks 1 and 2 disagree in all_reduce of step 7, bucket 0: the type is byte on rank 1 and "
            "float32 on rank 2; "
            "the count is 10 on rank 1 and 11 on rank 2");
  received = expected;
  received.protocol = 99;
  EXPECT_THAT(check_header(expected, received, 1, 2).error().message,
              ::testing::HasSubstr("another program or version"));
}

}  // namespace
}  // namespace muster::comm
