// Philox4x32-10: counter-based random numbers (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). A number is a pure function of (key, counter), so nothing has to be carried from
// step to step, saved, or shared between ranks: whoever computes a shard draws the same numbers.
// Thread safety: everything here is a value or a pure function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::random {

using Block = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

Block philox4x32_10(const Block& counter, const Key& key);

// What the numbers are for. Each purpose has its own key, so that no two uses share a number. The values are
// part of what makes a run repeatable: never renumber them.
enum class Purpose : std::uint32_t { kShuffle = 1, kInitialise = 2, kDropout = 3 };

Key make_key(std::uint64_t seed, Purpose purpose);

// The numbers of one (key, step, shard, layer). `step` may be an epoch or a tensor's index: whatever counts
// for the purpose. shard and layer must be below 65536.
struct Stream {
  Key key{};
  std::uint64_t step = 0;
  std::uint32_t shard = 0;
  std::uint32_t layer = 0;

  // Words 4*index … 4*index+3 of the stream.
  Block block(std::uint32_t index) const;
  // Words [0, words.size()) of the stream; the quick way to get many.
  void fill(std::span<std::uint32_t> words) const { fill_from_block(0, words); }
  // Words 4*first_block … of the stream.
  void fill_from_block(std::uint32_t first_block, std::span<std::uint32_t> words) const;
};

// Uniform in [0, 1), a multiple of 2^-24.
inline float to_uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }

// A stream read one number after the other.
class Sequence {
 public:
  explicit Sequence(const Stream& stream) : stream_(stream) {}
  std::uint32_t next();
  std::uint64_t next_wide();
  // Uniform in [0, bound) without bias; bound > 0.
  std::uint64_t next_below(std::uint64_t bound);

 private:
  Stream stream_;
  Block block_{};
  std::uint32_t next_block_ = 0;
  std::size_t used_ = 4;
};

}  // namespace muster::random
