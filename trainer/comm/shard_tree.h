// The fixed binary tree over virtual shards, which makes a sum independent of the number of ranks.
//
// The leaves are the shards 0 … num_shards-1 (a power of two); every inner node is left child + right child.
// A node that covers the shards [index << level, (index + 1) << level) is a block. However the shards are
// shared out, every rank adds up the blocks that lie within its own range, and the remaining additions are
// the same ones everywhere: so the root has the same bits for every number of ranks. Pure functions, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "common/status.h"
#include "trainer/comm/communicator.h"

namespace muster::comm {

// [begin, end)
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const ShardRange&) const = default;
};

// The shards that a rank computes: [num_shards * rank / size, num_shards * (rank + 1) / size).
ShardRange shard_range(int rank, int size, int num_shards);

bool is_power_of_two(std::int64_t value);

struct ShardBlock {
  int level = 0;
  std::int64_t index = 0;
  std::int64_t begin() const { return index << level; }
  std::int64_t end() const { return (index + 1) << level; }
  bool operator==(const ShardBlock&) const = default;
};

// The fewest blocks that cover a range, in order. At most 2 log2(num_shards) of them.
std::vector<ShardBlock> dyadic_blocks(ShardRange range);

// True for a left child and its right sibling: they add up to their parent.
bool are_siblings(const ShardBlock& left, const ShardBlock& right);

// One inner node: term `left` becomes left + right, and term `right` is used up.
struct TreeAdd {
  int left = 0;
  int right = 0;
  bool operator==(const TreeAdd&) const = default;
};

// The additions that turn blocks (in order, without gaps, the first one beginning at shard 0) into the sum of
// all; it ends in term 0. Leaves missing at the end of the tree are skipped: a node whose right child does
// not exist is its left child.
std::vector<TreeAdd> plan_tree_sum(std::span<const ShardBlock> blocks);

// Whether a rank passes exactly the partial sums it should: dyadic_blocks(shard_range(…)), with data if there
// is anything to sum.
Status check_partials(std::span<const ShardPartial> partials, int rank, int size, int num_shards,
                      std::size_t count);

// Adds up one rank's own shards along the tree: begin(), then next() and add() for each shard of the range in
// order, then partials(). A shard's values are written where they are summed, and four siblings are added in
// one pass: sums of many shards are bound by memory. Keeps only the blocks not yet merged (at most
// 3 log2(num_shards)), in memory that is allocated in the first step and reused. T is float or double. One
// thread.
template <class T>
class BasicShardAccumulator {
 public:
  // count: elements of every shard's buffer.
  explicit BasicShardAccumulator(std::size_t count);

  // Forgets the previous step's sums.
  void begin(ShardRange range);
  // Where the next shard's values are to be written: `count` of them, zero or left from an earlier shard.
  T* next();
  // They are written.
  void add();
  // next() and add() with a copy of the values.
  void add(std::span<const T> values);
  // Valid until the next begin(). Every shard of the range must have been added.
  std::span<const ShardPartial> partials();

 private:
  struct Deleter {
    void operator()(T* memory) const;
  };
  using Buffer = std::unique_ptr<T, Deleter>;
  static constexpr DType kDType = std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64;

  struct Term {
    ShardBlock block;
    T* sum = nullptr;
  };

  // Merges the stack's last four terms if they are all of a block two levels up.
  bool merge_four();
  // Merges siblings wherever in the stack they are.
  void merge_pairs();

  std::size_t count_;
  ShardRange range_;
  std::int64_t next_ = 0;    // the shard that comes now
  std::vector<Term> stack_;  // not merged yet, in order
  std::vector<Buffer> buffers_;
  std::vector<ShardPartial> partials_;
};

using ShardAccumulator = BasicShardAccumulator<float>;
using DoubleShardAccumulator = BasicShardAccumulator<double>;

}  // namespace muster::comm
