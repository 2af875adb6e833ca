// The contract of Communicator where all goes well: every collective, type, length and alignment. Included by
// each binary that runs it (see communicator_group.h).
#pragma once

#include <cmath>
#include <random>
#include <set>

#include "tests/contract/communicator_group.h"
#include "trainer/comm/shard_tree.h"

namespace muster::comm::contract {

// Runs check(communicator, T{}, count, offset) for all types, lengths and alignments.
template <class Check>
void for_all_shapes(Communicator& communicator, Check check) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const std::set<std::size_t> counts{0, 1, 3, size - 1, size, size + 1, 1000};
  for (const std::size_t count : counts) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}}) {
      check(communicator, static_cast<unsigned char>(0), count, offset);
      check(communicator, 0.0f, count, offset);
      check(communicator, 0.0, count, offset);
    }
  }
}

inline std::size_t begin_of(std::size_t count, int rank, int size) {
  return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(size);
}

template <class T>
void fill(GuardedBuffer<T>& buffer, int rank) {
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = value_of<T>(rank, i);
}

TEST_P(CommunicatorContract, AllReduceSumsOnEveryRank) {
  run([](Communicator& communicator) {
    for_all_shapes(communicator, []<class T>(Communicator& c, T, std::size_t count, std::size_t offset) {
      GuardedBuffer<T> data(count, offset);
      fill(data, c.rank());
      const Status status = c.all_reduce(data.data(), count, dtype_of<T>(), of_step(1))->wait();
      EXPECT_TRUE(status) << status.error().message;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], sum_over_ranks<T>(c.size(), i)) << i;
      EXPECT_TRUE(data.guards_are_intact());
    });
  });
}

TEST_P(CommunicatorContract, ReduceScatterLeavesEachRankItsPart) {
  run([](Communicator& communicator) {
    for_all_shapes(communicator, []<class T>(Communicator& c, T, std::size_t count, std::size_t offset) {
      GuardedBuffer<T> data(count, offset);
      fill(data, c.rank());
      const Status status = c.reduce_scatter(data.data(), count, dtype_of<T>(), of_step(1))->wait();
      EXPECT_TRUE(status) << status.error().message;
      for (std::size_t i = begin_of(count, c.rank(), c.size()); i < begin_of(count, c.rank() + 1, c.size());
           ++i)
        ASSERT_EQ(data[i], sum_over_ranks<T>(c.size(), i)) << i;
      EXPECT_TRUE(data.guards_are_intact());
    });
  });
}

TEST_P(CommunicatorContract, AllGatherCollectsEachRanksPart) {
  run([](Communicator& communicator) {
    for_all_shapes(communicator, []<class T>(Communicator& c, T, std::size_t count, std::size_t offset) {
      GuardedBuffer<T> data(count, offset);
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>(99);
      for (std::size_t i = begin_of(count, c.rank(), c.size()); i < begin_of(count, c.rank() + 1, c.size());
           ++i)
        data[i] = value_of<T>(7, i);
      const Status status = c.all_gather(data.data(), count, dtype_of<T>(), of_step(1))->wait();
      EXPECT_TRUE(status) << status.error().message;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], value_of<T>(7, i)) << i;
      EXPECT_TRUE(data.guards_are_intact());
    });
  });
}

TEST_P(CommunicatorContract, BroadcastCopiesTheRootsData) {
  run([](Communicator& communicator) {
    for_all_shapes(communicator, []<class T>(Communicator& c, T, std::size_t count, std::size_t offset) {
      for (const int root : std::set<int>{0, c.size() / 2, c.size() - 1}) {
        GuardedBuffer<T> data(count, offset);
        fill(data, c.rank());
        const Status status = c.broadcast(data.data(), count, dtype_of<T>(), root, of_step(1))->wait();
        EXPECT_TRUE(status) << status.error().message;
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], value_of<T>(root, i)) << i;
        EXPECT_TRUE(data.guards_are_intact());
      }
    });
  });
}

TEST_P(CommunicatorContract, LongBuffersWithTheUsualSegments) {
  CommunicatorOptions with = options();
  with.segment_bytes = CommunicatorOptions{}.segment_bytes;
  run(with, [](Communicator& c) {
    constexpr std::size_t kCount = 1'000'003;
    auto bucket = c.allocate_bucket(kCount * sizeof(float)).value();
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(bucket->bytes().data()) % 64, 0u);
    for (const std::byte byte : bucket->bytes()) ASSERT_EQ(byte, std::byte{0});
    auto* data = reinterpret_cast<float*>(bucket->bytes().data());
    for (std::size_t i = 0; i < kCount; ++i) data[i] = value_of<float>(c.rank(), i);
    Status status = c.all_reduce(data, kCount, DType::kFloat32, of_step(1))->wait();
    EXPECT_TRUE(status) << status.error().message;
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], sum_over_ranks<float>(c.size(), i)) << i;
    if (c.rank() != c.size() - 1) std::memset(data, 0, kCount * sizeof(float));
    status = c.broadcast(data, kCount, DType::kFloat32, c.size() - 1, of_step(2))->wait();
    EXPECT_TRUE(status) << status.error().message;
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], sum_over_ranks<float>(c.size(), i)) << i;
  });
}

// Positive and negative, from 1e-6 to 1e6: every change of order changes bits.
inline std::vector<float> wild_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-6.0, 6.0);
  std::vector<float> values(count);
  for (float& value : values) {
    const double magnitude = std::pow(10.0, exponent(random));
    value = static_cast<float>((random() & 1u) != 0 ? magnitude : -magnitude);
  }
  return values;
}

TEST_P(CommunicatorContract, AllRanksHoldTheSameBits) {
  run([](Communicator& c) {
    std::vector<float> data = wild_floats(777, 40u + static_cast<unsigned>(c.rank()));
    const Status status = c.all_reduce(data.data(), data.size(), DType::kFloat32, of_step(1))->wait();
    EXPECT_TRUE(status) << status.error().message;
    const std::string bits(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
    const auto all = all_gather_text(c, bits, of_step(2));
    ASSERT_TRUE(all) << all.error().message;
    for (const std::string& other : *all) EXPECT_EQ(other, bits);
  });
}

// The sum over the tree, written down as its definition.
inline std::vector<float> tree_sum(const std::vector<std::vector<float>>& leaves, std::size_t begin,
                                   std::size_t end) {
  if (end - begin == 1) return leaves[begin];
  std::vector<float> left = tree_sum(leaves, begin, (begin + end) / 2);
  const std::vector<float> right = tree_sum(leaves, (begin + end) / 2, end);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] + right[i];
  return left;
}

TEST_P(CommunicatorContract, AllReduceShardsHasTheBitsOfTheSerialTreeOnAnyNumberOfRanks) {
  run([](Communicator& c) {
    for (const int num_shards : {8, 32}) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{997}}) {
        std::vector<std::vector<float>> leaves;
        for (int shard = 0; shard < num_shards; ++shard)
          leaves.push_back(wild_floats(count, 1000u + static_cast<unsigned>(shard)));
        const std::vector<float> reference = tree_sum(leaves, 0, leaves.size());

        const ShardRange range = shard_range(c.rank(), c.size(), num_shards);
        ShardAccumulator accumulator(count);
        accumulator.begin(range);
        for (std::int64_t shard = range.begin; shard < range.end; ++shard)
          accumulator.add(leaves[static_cast<std::size_t>(shard)]);
        GuardedBuffer<float> out(count, 1);
        const Status status =
            c.all_reduce_shards(accumulator.partials(), num_shards, out.data(), count, DType::kFloat32,
                                of_step(static_cast<std::int64_t>(count), num_shards))
                ->wait();
        ASSERT_TRUE(status) << status.error().message;
        EXPECT_TRUE(out.guards_are_intact());
        const bool same_bits =
            count == 0 || std::memcmp(out.data(), reference.data(), count * sizeof(float)) == 0;
        if (c.order_free()) {
          EXPECT_TRUE(same_bits) << num_shards << " shards, " << count << " elements";
        }
        // The data can tell: around a ring of three or more, the order is another one, and so are the bits.
        if (!c.order_free() && c.size() > 2 && count > 100) {
          EXPECT_FALSE(same_bits);
        }
        for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(out[i], reference[i], 10.0) << i;
      }
    }
  });
}

TEST_P(CommunicatorContract, AllReduceShardsMayReplaceTheFirstPartial) {
  run([](Communicator& c) {
    constexpr int kShards = 16;
    constexpr std::size_t kCount = 500;
    const ShardRange range = shard_range(c.rank(), c.size(), kShards);
    DoubleShardAccumulator accumulator(kCount);
    double expected = 0;
    for (int shard = 0; shard < kShards; ++shard) expected += shard;
    for (int step = 0; step < 3; ++step) {  // the accumulator is used again
      accumulator.begin(range);
      for (std::int64_t shard = range.begin; shard < range.end; ++shard)
        accumulator.add(std::vector<double>(kCount, static_cast<double>(shard)));
      const auto partials = accumulator.partials();
      auto* out = const_cast<double*>(static_cast<const double*>(partials[0].data));
      const Status status =
          c.all_reduce_shards(partials, kShards, out, kCount, DType::kFloat64, of_step(step))->wait();
      ASSERT_TRUE(status) << status.error().message;
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], expected) << i;
    }
  });
}

TEST_P(CommunicatorContract, OperationsOverlapAndMayBeAwaitedInAnyOrder) {
  run([](Communicator& c) {
    constexpr int kOperations = 6;
    std::vector<std::vector<float>> data;
    std::vector<std::unique_ptr<Work>> work;
    for (int k = 0; k < kOperations; ++k) {
      data.emplace_back(static_cast<std::size_t>(k * 150 + 1));
      for (std::size_t i = 0; i < data.back().size(); ++i) data.back()[i] = value_of<float>(c.rank() + k, i);
      work.push_back(c.all_reduce(data.back().data(), data.back().size(), DType::kFloat32, of_step(1, k)));
    }
    work.push_back(c.barrier(of_step(1, kOperations)));
    if (c.rank() % 2 == 0) std::swap(work.front(), work.back());
    for (const auto& one : work) {
      const Status status = one->wait();
      EXPECT_TRUE(status) << status.error().message;
      EXPECT_TRUE(one->test());
    }
    for (int k = 0; k < kOperations; ++k) {
      auto& buffer = data[static_cast<std::size_t>(k)];
      for (std::size_t i = 0; i < buffer.size(); ++i) {
        float expected = 0;
        for (int rank = 0; rank < c.size(); ++rank) expected += value_of<float>(rank + k, i);
        ASSERT_EQ(buffer[i], expected) << k << " " << i;
      }
    }
  });
}

TEST_P(CommunicatorContract, TextsOfAnyLength) {
  run([](Communicator& c) {
    const std::vector<std::size_t> lengths{100'000, 0, 1, 1000, 99'999, 7, 2, 0};
    const auto text_of = [&](int rank) {
      return std::string(lengths[static_cast<std::size_t>(rank) % lengths.size()],
                         static_cast<char>('a' + rank));
    };
    const auto all = all_gather_text(c, text_of(c.rank()), of_step(1));
    ASSERT_TRUE(all) << all.error().message;
    ASSERT_EQ(all->size(), static_cast<std::size_t>(c.size()));
    for (int rank = 0; rank < c.size(); ++rank)
      EXPECT_EQ((*all)[static_cast<std::size_t>(rank)], text_of(rank));
    for (int root = 0; root < c.size(); ++root) {
      const auto text = broadcast_text(c, c.rank() == root ? text_of(root) : "mine", root, of_step(2, root));
      ASSERT_TRUE(text) << text.error().message;
      EXPECT_EQ(*text, text_of(root));
    }
    const auto nothing = all_gather_text(c, "", of_step(3));
    ASSERT_TRUE(nothing);
    EXPECT_EQ(nothing->size(), static_cast<std::size_t>(c.size()));
  });
}

TEST_P(CommunicatorContract, NobodyLeavesABarrierBeforeAllHaveComeToIt) {
  std::atomic<int> arrived{0};  // counts threads; under mpirun each process sees only itself
  run([&](Communicator& c) {
    arrived.fetch_add(1);
    EXPECT_TRUE(c.barrier(of_step(1))->wait());
    EXPECT_TRUE(arrived.load() == c.size() || arrived.load() == 1);
  });
}

}  // namespace muster::comm::contract
