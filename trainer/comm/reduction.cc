#include "trainer/comm/reduction.h"

#include "trainer/comm/ring.h"
#include "trainer/comm/shard_tree.h"
#include "trainer/comm/tree_reduction.h"

namespace muster::comm {
namespace {

class TreeReduction : public Reduction {
 public:
  Algorithm algorithm() const override { return Algorithm::kTree; }
  std::string_view name() const override { return "tree"; }
  bool order_free() const override { return true; }
  Schedule all_reduce(const Shape& shape) const override {
    return plan_tree_reduction(shape, one_leaf_per_rank(shape.size));
  }
  Schedule all_reduce_shards(const Shape& shape, int num_shards) const override {
    return plan_tree_reduction(shape, blocks_of_ranks(shape.size, num_shards));
  }
};

class RingReduction : public Reduction {
 public:
  Algorithm algorithm() const override { return Algorithm::kRing; }
  std::string_view name() const override { return "ring"; }
  bool order_free() const override { return false; }
  Schedule all_reduce(const Shape& shape) const override { return plan_ring_all_reduce(shape); }
  Schedule all_reduce_shards(const Shape& shape, int num_shards) const override {
    const auto blocks = dyadic_blocks(shard_range(shape.rank, shape.size, num_shards));
    return plan_ring_all_reduce_inputs(shape, static_cast<int>(blocks.size()));
  }
};

}  // namespace

Result<Algorithm> parse_algorithm(std::string_view text) {
  if (text == "tree") return Algorithm::kTree;
  if (text == "ring") return Algorithm::kRing;
  return fail(ErrorCode::kInvalidArgument, "unknown all-reduce algorithm '{}'; allowed: tree, ring", text);
}

std::unique_ptr<Reduction> make_reduction(Algorithm algorithm) {
  if (algorithm == Algorithm::kRing) return std::make_unique<RingReduction>();
  return std::make_unique<TreeReduction>();
}

}  // namespace muster::comm
