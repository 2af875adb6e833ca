#include "trainer/comm/shard_tree.h"

#include <algorithm>
#include <cassert>
#include <new>

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

// Until partials(), term i of the stack lies in buffer i.
template <class T>
T* BasicShardAccumulator<T>::next() {
  if (buffers_.size() == stack_.size()) {
    buffers_.emplace_back(
        static_cast<T*>(::operator new(std::max<std::size_t>(count_, 1) * sizeof(T), kAlignment)));
    std::fill_n(buffers_.back().get(), count_, T{0});
  }
  return buffers_[stack_.size()].get();
}

template <class T>
void BasicShardAccumulator<T>::add() {
  assert(next_ < range_.end && stack_.size() < buffers_.size());
  stack_.push_back({{0, next_++}, buffers_[stack_.size()].get()});
  while (merge_four()) continue;
}

template <class T>
void BasicShardAccumulator<T>::add(std::span<const T> values) {
  assert(values.size() == count_);
  std::copy(values.begin(), values.end(), next());
  add();
}

template <class T>
bool BasicShardAccumulator<T>::merge_four() {
  if (stack_.size() < 4) return false;
  const std::size_t first = stack_.size() - 4;
  const ShardBlock block = stack_[first].block;
  if (block.index % 4 != 0) return false;
  for (std::size_t i = 1; i < 4; ++i) {
    const ShardBlock sibling{block.level, block.index + static_cast<std::int64_t>(i)};
    if (stack_[first + i].block != sibling) return false;
  }
  comm::add_four(stack_[first].sum, stack_[first + 1].sum, stack_[first + 2].sum, stack_[first + 3].sum,
                 count_, kDType);
  stack_.resize(first + 1);
  stack_[first].block = {block.level + 2, block.index / 4};
  return true;
}

template <class T>
void BasicShardAccumulator<T>::merge_pairs() {
  std::size_t merged = 0;
  for (const Term& term : stack_) {
    stack_[merged++] = term;
    while (merged > 1 && are_siblings(stack_[merged - 2].block, stack_[merged - 1].block)) {
      Term& left = stack_[merged - 2];
      comm::add(left.sum, left.sum, stack_[merged - 1].sum, count_, kDType);
      left.block = {left.block.level + 1, left.block.index / 2};
      --merged;
    }
  }
  stack_.resize(merged);
}

template <class T>
std::span<const ShardPartial> BasicShardAccumulator<T>::partials() {
  assert(next_ == range_.end);
  merge_pairs();
  partials_.clear();
  for (const Term& term : stack_) partials_.push_back({term.block.level, term.block.index, term.sum});
  return partials_;
}

template class BasicShardAccumulator<float>;
template class BasicShardAccumulator<double>;

}  // namespace muster::comm
