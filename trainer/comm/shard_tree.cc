#include "trainer/comm/shard_tree.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <type_traits>

#include "trainer/comm/elementwise.h"

namespace muster::comm {

ShardRange shard_range(int rank, int size, int num_shards) {
  const std::int64_t shards = num_shards;
  return {shards * rank / size, shards * (rank + 1) / size};
}

bool is_power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

std::vector<ShardBlock> dyadic_blocks(ShardRange range) {
  std::vector<ShardBlock> blocks;
  std::int64_t begin = range.begin;
  while (begin < range.end) {
    int level = 0;
    // Grow while the block still starts on a multiple of its size and ends within the range.
    while (begin % (std::int64_t{2} << level) == 0 && begin + (std::int64_t{2} << level) <= range.end)
      ++level;
    blocks.push_back({level, begin >> level});
    begin += std::int64_t{1} << level;
  }
  return blocks;
}

bool are_siblings(const ShardBlock& left, const ShardBlock& right) {
  return left.level == right.level && left.index % 2 == 0 && right.index == left.index + 1;
}

std::vector<TreeAdd> plan_tree_sum(std::span<const ShardBlock> blocks) {
  struct Node {
    ShardBlock block;
    int term;
  };
  std::vector<TreeAdd> adds;
  std::vector<Node> stack;
  for (int term = 0; term < static_cast<int>(blocks.size()); ++term) {
    stack.push_back({blocks[static_cast<std::size_t>(term)], term});
    while (stack.size() > 1 && are_siblings(stack[stack.size() - 2].block, stack.back().block)) {
      const Node right = stack.back();
      stack.pop_back();
      Node& left = stack.back();
      adds.push_back({left.term, right.term});
      left.block = {left.block.level + 1, left.block.index / 2};
    }
  }
  // What is left has falling levels: the tree's right edge is missing, and each node there is its left child.
  while (stack.size() > 1) {
    const int right = stack.back().term;
    stack.pop_back();
    adds.push_back({stack.back().term, right});
  }
  return adds;
}

Status check_partials(std::span<const ShardPartial> partials, int rank, int size, int num_shards,
                      std::size_t count) {
  if (!is_power_of_two(num_shards))
    return fail(ErrorCode::kInvalidArgument, "rank {}: the number of shards must be a power of two, not {}",
                rank, num_shards);
  if (num_shards < size)
    return fail(ErrorCode::kInvalidArgument, "rank {}: {} shards are too few for {} ranks: each needs one",
                rank, num_shards, size);
  const ShardRange range = shard_range(rank, size, num_shards);
  const std::vector<ShardBlock> expected = dyadic_blocks(range);
  if (partials.size() != expected.size())
    return fail(ErrorCode::kInvalidArgument,
                "rank {} of {} passes {} partial sums; its shards [{}, {}) of {} make {} blocks", rank, size,
                partials.size(), range.begin, range.end, num_shards, expected.size());
  for (std::size_t i = 0; i < partials.size(); ++i) {
    if (ShardBlock{partials[i].level, partials[i].index} != expected[i])
      return fail(
          ErrorCode::kInvalidArgument,
          "rank {} of {}: partial sum {} is (level {}, index {}); for shards [{}, {}) of {} it must be "
          "(level {}, index {})",
          rank, size, i, partials[i].level, partials[i].index, range.begin, range.end, num_shards,
          expected[i].level, expected[i].index);
    if (partials[i].data == nullptr && count > 0)
      return fail(ErrorCode::kInvalidArgument, "rank {}: partial sum {} has no data", rank, i);
  }
  return {};
}

namespace {
constexpr std::align_val_t kAlignment{64};
}

template <class T>
void BasicShardAccumulator<T>::Deleter::operator()(T* memory) const {
  ::operator delete(memory, kAlignment);
}

template <class T>
BasicShardAccumulator<T>::BasicShardAccumulator(std::size_t count) : count_(count) {}

template <class T>
void BasicShardAccumulator<T>::begin(ShardRange range) {
  range_ = range;
  next_ = range.begin;
  stack_.clear();
}

template <class T>
void BasicShardAccumulator<T>::add(std::span<const T> values) {
  assert(values.size() == count_ && next_ < range_.end);
  constexpr DType dtype = std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64;
  const ShardBlock leaf{0, next_++};
  if (!stack_.empty() && are_siblings(stack_.back(), leaf)) {  // no copy of every second leaf
    T* left = buffers_[stack_.size() - 1].get();
    comm::add(left, left, values.data(), count_, dtype);
    stack_.back() = {1, leaf.index / 2};
    merge_siblings();
    return;
  }
  if (buffers_.size() == stack_.size())
    buffers_.emplace_back(
        static_cast<T*>(::operator new(std::max<std::size_t>(count_, 1) * sizeof(T), kAlignment)));
  if (count_ > 0) std::memcpy(buffers_[stack_.size()].get(), values.data(), count_ * sizeof(T));
  stack_.push_back(leaf);
}

template <class T>
void BasicShardAccumulator<T>::merge_siblings() {
  constexpr DType dtype = std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64;
  while (stack_.size() > 1 && are_siblings(stack_[stack_.size() - 2], stack_.back())) {
    T* left = buffers_[stack_.size() - 2].get();
    comm::add(left, left, buffers_[stack_.size() - 1].get(), count_, dtype);
    stack_.pop_back();
    stack_.back() = {stack_.back().level + 1, stack_.back().index / 2};
  }
}

template <class T>
std::span<const ShardPartial> BasicShardAccumulator<T>::partials() {
  assert(next_ == range_.end);
  partials_.clear();
  for (std::size_t i = 0; i < stack_.size(); ++i)
    partials_.push_back({stack_[i].level, stack_[i].index, buffers_[i].get()});
  return partials_;
}

template class BasicShardAccumulator<float>;
template class BasicShardAccumulator<double>;

}  // namespace muster::comm
