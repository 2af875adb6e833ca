// The order-free all-reduce over the tree of virtual shards (shard_tree.h). Pure planning.
//
// Each rank owns a slice of the elements. It receives that slice of everybody's partial sums, adds them up
// along the tree, and sends the result to all. The same bytes as a ring moves when each rank has one partial.
#pragma once

#include <vector>

#include "trainer/comm/schedule.h"
#include "trainer/comm/shard_tree.h"

namespace muster::comm {

// blocks[r]: the blocks whose sums rank r passes as its inputs, in order; all ranks' blocks in rank order
// cover the leaves 0 … L-1 without gaps.
Schedule plan_tree_reduction(const Shape& shape, const std::vector<std::vector<ShardBlock>>& blocks);

// blocks for all_reduce_shards, and for an all_reduce in which each rank's buffer is one leaf.
std::vector<std::vector<ShardBlock>> blocks_of_ranks(int size, int num_shards);
std::vector<std::vector<ShardBlock>> one_leaf_per_rank(int size);

}  // namespace muster::comm
