#include "trainer/random/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace muster::random {
namespace {

TEST(Philox, KnownAnswersOfRandom123) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, FillGivesTheBlocksInOrder) {
  const Stream stream{.key = {1, 2}, .step = (std::uint64_t{9} << 32) | 8, .shard = 7, .layer = 6};
  for (const std::size_t count : {0u, 1u, 3u, 4u, 63u, 64u, 65u, 1000u}) {
    std::vector<std::uint32_t> words(count);
    stream.fill_from_block(5, words);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(words[i], stream.block(static_cast<std::uint32_t>(5 + i / 4))[i % 4]) << i << " of " << count;
    }
  }
}

TEST(Philox, EachCoordinateOfAStreamMatters) {
  const Stream base{.key = make_key(1, Purpose::kDropout), .step = 1, .shard = 1, .layer = 1};
  std::vector<Stream> streams(8, base);
  streams[1].key = make_key(2, Purpose::kDropout);
  streams[2].key = make_key(1, Purpose::kShuffle);
  streams[3].key = make_key(1 + (std::uint64_t{1} << 32), Purpose::kDropout);
  streams[4].step = 2;
  streams[5].step = 1 + (std::uint64_t{1} << 32);
  streams[6].shard = 2;
  streams[7].layer = 2;
  std::set<Block> blocks;
  for (const Stream& stream : streams) blocks.insert(stream.block(0));
  EXPECT_EQ(blocks.size(), streams.size());
}

TEST(Philox, KeysNeverChange) {
  // Runs in progress depend on these values.
  constexpr std::uint64_t kSeed = 1234567890123;
  EXPECT_EQ(make_key(kSeed, Purpose::kShuffle), (Key{0x5e2fd944, 0xe2e06ac6}));
  EXPECT_EQ(make_key(kSeed, Purpose::kInitialise), (Key{0x39d473ec, 0xfedb3943}));
  EXPECT_EQ(make_key(kSeed, Purpose::kDropout), (Key{0x8095c588, 0x3a643da5}));
}

TEST(Philox, UniformIsInTheHalfOpenInterval) {
  EXPECT_EQ(to_uniform(0), 0.0F);
  EXPECT_LT(to_uniform(0xffffffff), 1.0F);
  EXPECT_EQ(to_uniform(0x80000000), 0.5F);
  std::vector<std::uint32_t> words(100000);
  Stream{.key = {3, 4}}.fill(words);
  double sum = 0;
  for (const std::uint32_t word : words) sum += to_uniform(word);
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(Sequence, BoundedNumbersAreBoundedAndEven) {
  Sequence numbers(Stream{.key = {5, 6}});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(numbers.next_below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(numbers.next_below(1), 0u);
  const std::uint64_t huge = (std::uint64_t{1} << 63) + 1;  // half of all words are drawn again
  for (int i = 0; i < 100; ++i) EXPECT_LT(numbers.next_below(huge), huge);
}

}  // namespace
}  // namespace muster::random
