// SEAM: how the gradients of all virtual shards become one. Implementation: all-reduce over a communicator.
// (A parameter server, which is no communicator, would be another.)
// Collective; one thread drives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer/comm/communicator.h"
#include "trainer/device/tensor.h"
#include "trainer/nn/bucket_layout.h"

namespace muster::sync {

class GradientSync {
 public:
  virtual ~GradientSync() = default;
  virtual void begin_step(std::int64_t step) = 0;
  // The gradients of the next of this rank's shards, one flat view a bucket. The views may be reused at once.
  virtual void add_shard(std::span<const device::Tensor> buckets) = 0;
  // Every rank's `totals` (one flat view a bucket) become the sum over all shards, the same bits everywhere.
  virtual Status finish_step(std::span<const device::Tensor> totals) = 0;
};

// `communicator` must outlive it.
std::unique_ptr<GradientSync> make_allreduce_sync(comm::Communicator& communicator,
                                                  const nn::BucketLayout& layout, int num_shards,
                                                  std::chrono::milliseconds timeout);

}  // namespace muster::sync
