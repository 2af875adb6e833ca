#include "trainer/comm/tree_reduction.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace muster::comm {
namespace {

constexpr int kNone = ScheduleBuilder::kNone;
constexpr std::size_t kSlotSets = 2;  // segments of the own slice that are received and summed at once

class TreePlanner {
 public:
  TreePlanner(const Shape& shape, const std::vector<std::vector<ShardBlock>>& blocks)
      : shape_(shape), blocks_(blocks), builder_(shape) {
    std::vector<ShardBlock> all;
    for (int rank = 0; rank < shape.size; ++rank) {
      for (std::size_t i = 0; i < blocks_of(rank).size(); ++i) terms_.push_back({rank, static_cast<int>(i)});
      all.insert(all.end(), blocks_of(rank).begin(), blocks_of(rank).end());
    }
    adds_ = plan_tree_sum(all);
    if (shape.slice(shape.rank).count > 0) reserve_slots();
  }

  Schedule plan() && {
    std::size_t rounds = 0;
    for (int rank = 0; rank < shape_.size; ++rank)
      rounds = std::max(rounds, shape_.segments(shape_.slice(rank)));
    for (std::size_t k = 0; k < rounds; ++k) plan_segment(k);
    return std::move(builder_).finish();
  }

 private:
  struct Term {
    int rank;
    int input;  // which of that rank's partial sums
  };
  // Where a term's value is while the tree is summed, and the action that put it there.
  struct Value {
    Place place;
    bool writable;
    int ready;
  };

  const std::vector<ShardBlock>& blocks_of(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }
  bool is_own(const Term& term) const { return term.rank == shape_.rank; }

  void reserve_slots() {
    for (auto& set : slots_)
      for (const Term& term : terms_)
        set.push_back(is_own(term)
                          ? Place{}
                          : builder_.reserve_scratch(shape_.segment_elements * shape_.element_bytes));
  }

  // Segment k of every rank's slice: scatter the partial sums to the owners, add up, hand out the totals.
  void plan_segment(std::size_t k) {
    std::vector<int> sent(static_cast<std::size_t>(shape_.size), kNone);  // the last send to each owner
    for (int distance = 1; distance < shape_.size; ++distance) {
      const int owner = shape_.neighbour(distance);
      if (k >= shape_.segments(shape_.slice(owner))) continue;
      const ElementRange range = shape_.segment(shape_.slice(owner), k);
      for (int i = 0; i < static_cast<int>(blocks_of(shape_.rank).size()); ++i) {
        const int send = builder_.send(owner, shape_.input(i, range), range.count, {});
        // The total may replace the first partial sum in place, so it must wait for that one's send.
        if (i == 0) sent[static_cast<std::size_t>(owner)] = send;
      }
    }
    if (k < shape_.segments(shape_.slice(shape_.rank))) sum_own_segment(k);
    for (int distance = 1; distance < shape_.size; ++distance) {
      const int owner = shape_.neighbour(-distance);
      if (k >= shape_.segments(shape_.slice(owner))) continue;
      const ElementRange range = shape_.segment(shape_.slice(owner), k);
      builder_.receive(owner, shape_.output(range), range.count, {sent[static_cast<std::size_t>(owner)]});
    }
  }

  void sum_own_segment(std::size_t k) {
    const ElementRange range = shape_.segment(shape_.slice(shape_.rank), k);
    const std::size_t set = k % kSlotSets;
    std::vector<Value> values = collect_terms(range, set);
    const int total = add_up(values, range);
    last_use_[set] = total;
    for (int distance = 1; distance < shape_.size; ++distance)
      builder_.send(shape_.neighbour(distance), shape_.output(range), range.count, {total});
  }

  std::vector<Value> collect_terms(const ElementRange& range, std::size_t set) {
    std::vector<Value> values(terms_.size());
    for (int distance = 0; distance < shape_.size; ++distance) {
      const int source = shape_.neighbour(-distance);
      for (std::size_t t = 0; t < terms_.size(); ++t) {
        if (terms_[t].rank != source) continue;
        if (is_own(terms_[t])) {
          values[t] = {shape_.input(terms_[t].input, range), false, kNone};
        } else {
          const Place slot = slots_[set][t];
          values[t] = {slot, true, builder_.receive(source, slot, range.count, {last_use_[set]})};
        }
      }
    }
    return values;
  }

  // Returns the action that writes the total into the output.
  int add_up(std::vector<Value>& values, const ElementRange& range) {
    const Place out = shape_.output(range);
    if (adds_.empty()) return builder_.copy(out, values[0].place, range.count, {values[0].ready});
    for (const TreeAdd& step : adds_) {
      Value& left = values[static_cast<std::size_t>(step.left)];
      const Value& right = values[static_cast<std::size_t>(step.right)];
      // Blocks of one rank are never siblings, so at least one side is ours to overwrite.
      assert(left.writable || right.writable);
      const bool last = &step == &adds_.back();
      const Place sum = last ? out : (left.writable ? left.place : right.place);
      const int added = builder_.add(sum, left.place, right.place, range.count, {left.ready, right.ready});
      left = {sum, true, added};
    }
    return values[0].ready;
  }

  Shape shape_;
  const std::vector<std::vector<ShardBlock>>& blocks_;
  ScheduleBuilder builder_;
  std::vector<Term> terms_;  // all ranks' partial sums, in shard order
  std::vector<TreeAdd> adds_;
  std::array<std::vector<Place>, kSlotSets> slots_;  // where each foreign term's segment arrives
  std::array<int, kSlotSets> last_use_{kNone, kNone};
};

}  // namespace

Schedule plan_tree_reduction(const Shape& shape, const std::vector<std::vector<ShardBlock>>& blocks) {
  return TreePlanner(shape, blocks).plan();
}

std::vector<std::vector<ShardBlock>> blocks_of_ranks(int size, int num_shards) {
  std::vector<std::vector<ShardBlock>> blocks;
  for (int rank = 0; rank < size; ++rank)
    blocks.push_back(dyadic_blocks(shard_range(rank, size, num_shards)));
  return blocks;
}

std::vector<std::vector<ShardBlock>> one_leaf_per_rank(int size) {
  std::vector<std::vector<ShardBlock>> blocks;
  for (int rank = 0; rank < size; ++rank) blocks.push_back({{0, rank}});
  return blocks;
}

}  // namespace muster::comm
