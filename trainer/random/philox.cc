#include "trainer/random/philox.h"

#include <algorithm>
#include <cassert>

namespace muster::random {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr std::size_t kLanes = 16;

// kLanes consecutive blocks at once, one array a counter word: loops that the compiler turns into vector
// code.
void philox_lanes(std::uint32_t (&c0)[kLanes], std::uint32_t (&c1)[kLanes], std::uint32_t (&c2)[kLanes],
                  std::uint32_t (&c3)[kLanes], Key key) {
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t product0 = static_cast<std::uint64_t>(kMultiplier0) * c0[lane];
      const std::uint64_t product1 = static_cast<std::uint64_t>(kMultiplier1) * c2[lane];
      c0[lane] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[lane] ^ key[0];
      c1[lane] = static_cast<std::uint32_t>(product1);
      c2[lane] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[lane] ^ key[1];
      c3[lane] = static_cast<std::uint32_t>(product0);
    }
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
}

}  // namespace

Block philox4x32_10(const Block& counter, const Key& key) {
  Block c = counter;
  Key k = key;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(kMultiplier0) * c[0];
    const std::uint64_t product1 = static_cast<std::uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(product0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

Key make_key(std::uint64_t seed, Purpose purpose) {
  // Philox itself mixes 64 bits of seed and the purpose into a key.
  constexpr Key kKeyOfKeys = {0x6d757374, 0x65720001};
  const Block mixed = philox4x32_10({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                                     static_cast<std::uint32_t>(purpose), 0},
                                    kKeyOfKeys);
  return {mixed[0], mixed[1]};
}

Block Stream::block(std::uint32_t index) const {
  assert(shard < 65536 && layer < 65536);
  return philox4x32_10({index, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                        (layer << 16) | shard},
                       key);
}

void Stream::fill_from_block(std::uint32_t first_block, std::span<std::uint32_t> words) const {
  assert(shard < 65536 && layer < 65536);
  std::uint32_t c0[kLanes];
  std::uint32_t c1[kLanes];
  std::uint32_t c2[kLanes];
  std::uint32_t c3[kLanes];
  std::uint32_t index = first_block;
  for (std::size_t done = 0; done < words.size(); done += 4 * kLanes, index += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      c0[lane] = index + static_cast<std::uint32_t>(lane);
      c1[lane] = static_cast<std::uint32_t>(step);
      c2[lane] = static_cast<std::uint32_t>(step >> 32);
      c3[lane] = (layer << 16) | shard;
    }
    philox_lanes(c0, c1, c2, c3, key);
    std::uint32_t interleaved[4 * kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      interleaved[4 * lane] = c0[lane];
      interleaved[4 * lane + 1] = c1[lane];
      interleaved[4 * lane + 2] = c2[lane];
      interleaved[4 * lane + 3] = c3[lane];
    }
    std::copy_n(interleaved, std::min(words.size() - done, 4 * kLanes), words.data() + done);
  }
}

std::uint32_t Sequence::next() {
  if (used_ == block_.size()) {
    block_ = stream_.block(next_block_++);
    used_ = 0;
  }
  return block_[used_++];
}

std::uint64_t Sequence::next_wide() {
  const std::uint64_t low = next();
  return (static_cast<std::uint64_t>(next()) << 32) | low;
}

std::uint64_t Sequence::next_below(std::uint64_t bound) {
  assert(bound > 0);
  // Words below 2^64 mod bound would make some results likelier than others: draw again.
  const std::uint64_t rejected_below = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t word = next_wide();
    if (word >= rejected_below) return word % bound;
  }
}

}  // namespace muster::random
