// Collectives around a ring of ranks, cut into segments so that sums, sends and receives overlap. Pure
// planning. Each rank sends and receives 2 (size-1)/size of the data for an all-reduce; every element is
// summed once, by its owner, and then copied, so all ranks hold the same bits (which depend on the number of
// ranks).
#pragma once

#include "trainer/comm/schedule.h"

namespace muster::comm {

Schedule plan_ring_reduce_scatter(const Shape& shape);
Schedule plan_ring_all_gather(const Shape& shape);
Schedule plan_ring_all_reduce(const Shape& shape);

// Like all_reduce, but this rank's contribution is the sum of `partials` inputs, from left to right.
Schedule plan_ring_all_reduce_inputs(const Shape& shape, int partials);

}  // namespace muster::comm
