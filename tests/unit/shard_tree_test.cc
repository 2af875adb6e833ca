// Properties of the tree of virtual shards, for every number of shards up to 64 and every number of ranks.
#include "trainer/comm/shard_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace muster::comm {
namespace {

constexpr int kShardsMax = 64;

template <class Check>
void for_all_distributions(Check check) {
  for (int num_shards = 1; num_shards <= kShardsMax; num_shards *= 2)
    for (int size = 1; size <= num_shards; ++size) check(num_shards, size);
}

TEST(ShardTree, RangesShareOutAllShardsEvenly) {
  for_all_distributions([](int num_shards, int size) {
    std::int64_t next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const ShardRange range = shard_range(rank, size, num_shards);
      ASSERT_EQ(range.begin, next);
      ASSERT_GE(range.end - range.begin, num_shards / size);
      ASSERT_LE(range.end - range.begin, (num_shards + size - 1) / size);
      next = range.end;
    }
    ASSERT_EQ(next, num_shards);
  });
}

TEST(ShardTree, BlocksCoverEveryRangeInOrderAndAreAsFewAsPossible) {
  for (std::int64_t begin = 0; begin <= kShardsMax; ++begin) {
    for (std::int64_t end = begin; end <= kShardsMax; ++end) {
      const std::vector<ShardBlock> blocks = dyadic_blocks({begin, end});
      std::int64_t next = begin;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        ASSERT_EQ(blocks[i].begin(), next);
        next = blocks[i].end();
        // Fewest: no two neighbours are siblings, so nothing could be merged.
        ASSERT_TRUE(i == 0 || !are_siblings(blocks[i - 1], blocks[i]));
      }
      ASSERT_EQ(next, end);
      ASSERT_LE(blocks.size(), 12u);  // 2 log2(64)
    }
  }
}

// The tree written out as text: "((0+1)+(2+3))". Equal texts are equal orders of summation.
std::string full_tree(std::int64_t begin, std::int64_t end, std::int64_t leaves) {
  if (end - begin == 1) return std::to_string(begin);
  const std::int64_t middle = (begin + end) / 2;
  if (middle >= leaves) return full_tree(begin, middle, leaves);  // the right child does not exist
  return fmt::format("({}+{})", full_tree(begin, middle, leaves), full_tree(middle, end, leaves));
}

std::string sum_as_planned(const std::vector<ShardBlock>& blocks) {
  std::vector<std::string> terms;
  for (const ShardBlock& block : blocks) terms.push_back(full_tree(block.begin(), block.end(), block.end()));
  for (const TreeAdd& add : plan_tree_sum(blocks)) {
    std::string& left = terms[static_cast<std::size_t>(add.left)];
    std::string& right = terms[static_cast<std::size_t>(add.right)];
    left = fmt::format("({}+{})", left, right);
    right.clear();
  }
  for (std::size_t i = 1; i < terms.size(); ++i)
    EXPECT_TRUE(terms[i].empty()) << "term " << i << " is left over";
  return terms.front();
}

TEST(ShardTree, EveryDistributionAddsInTheSameOrder) {
  for_all_distributions([](int num_shards, int size) {
    std::vector<ShardBlock> all;
    for (int rank = 0; rank < size; ++rank)
      for (const ShardBlock& block : dyadic_blocks(shard_range(rank, size, num_shards))) all.push_back(block);
    ASSERT_EQ(sum_as_planned(all), full_tree(0, num_shards, num_shards)) << num_shards << " on " << size;
  });
}

TEST(ShardTree, LeavesMissingAtTheEndAreSkipped) {
  for (std::int64_t leaves = 1; leaves <= kShardsMax; ++leaves) {
    std::vector<ShardBlock> all;
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) all.push_back({0, leaf});
    ASSERT_EQ(sum_as_planned(all), full_tree(0, kShardsMax, leaves));
  }
  EXPECT_EQ(full_tree(0, 8, 5), "(((0+1)+(2+3))+4)");
}

TEST(ShardAccumulator, MakesTheBlocksOfItsRangeWithTheTreesBits) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-1e6f, 1e6f);
  constexpr std::size_t kCount = 3;
  std::vector<std::vector<float>> leaves(kShardsMax, std::vector<float>(kCount));
  for (auto& leaf : leaves)
    for (float& value : leaf) value = uniform(random) / (1.0f + static_cast<float>(random() % 100000));
  const auto subtree = [&](auto&& self, std::int64_t begin, std::int64_t end, std::size_t i) -> float {
    if (end - begin == 1) return leaves[static_cast<std::size_t>(begin)][i];
    const float left = self(self, begin, (begin + end) / 2, i);
    const float right = self(self, (begin + end) / 2, end, i);
    return left + right;
  };
  ShardAccumulator accumulator(kCount);
  for_all_distributions([&](int num_shards, int size) {
    for (int rank = 0; rank < size; ++rank) {
      const ShardRange range = shard_range(rank, size, num_shards);
      accumulator.begin(range);
      for (std::int64_t shard = range.begin; shard < range.end; ++shard)
        accumulator.add(leaves[static_cast<std::size_t>(shard)]);
      const auto partials = accumulator.partials();
      ASSERT_TRUE(check_partials(partials, rank, size, num_shards, kCount));
      for (const ShardPartial& partial : partials) {
        const ShardBlock block{partial.level, partial.index};
        for (std::size_t i = 0; i < kCount; ++i)
          ASSERT_EQ(static_cast<const float*>(partial.data)[i],
                    subtree(subtree, block.begin(), block.end(), i));
      }
    }
  });
}

TEST(ShardAccumulator, UsesTheSameMemoryStepAfterStep) {
  ShardAccumulator accumulator(100);
  const std::vector<float> values(100, 1.0f);
  std::vector<const void*> first_step;
  for (int step = 0; step < 3; ++step) {
    accumulator.begin({1, 7});
    for (int shard = 1; shard < 7; ++shard) accumulator.add(values);
    std::vector<const void*> memory;
    for (const ShardPartial& partial : accumulator.partials()) memory.push_back(partial.data);
    if (step == 0) first_step = memory;
    EXPECT_EQ(memory, first_step);
  }
  EXPECT_EQ(first_step.size(), 4u);  // [1,2) [2,4) [4,6) [6,7)
}

TEST(ShardTree, PartialsThatAreNotTheRanksOwnAreRefused) {
  const float data = 0;
  const std::vector<ShardPartial> right{{2, 1, &data}};  // shards [4, 8): rank 1 of 2
  EXPECT_TRUE(check_partials(right, 1, 2, 8, 1));
  EXPECT_EQ(check_partials(right, 1, 2, 12, 1).error().message,
            "rank 1: the number of shards must be a power of two, not 12");
  EXPECT_EQ(check_partials(right, 0, 2, 8, 1).error().message,
            "rank 0 of 2: partial sum 0 is (level 2, index 1); for shards [0, 4) of 8 it must be (level 2, "
            "index 0)");
  EXPECT_EQ(check_partials({}, 0, 2, 8, 1).error().message,
            "rank 0 of 2 passes 0 partial sums; its shards [0, 4) of 8 make 1 blocks");
  EXPECT_EQ(check_partials(right, 0, 9, 8, 1).error().message,
            "rank 0: 8 shards are too few for 9 ranks: each needs one");
  const std::vector<ShardPartial> empty{{2, 1, nullptr}};
  EXPECT_TRUE(check_partials(empty, 1, 2, 8, 0));
  EXPECT_FALSE(check_partials(empty, 1, 2, 8, 1));
}

}  // namespace
}  // namespace muster::comm
