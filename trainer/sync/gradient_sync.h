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

// One shard's gradients: the same memory as one flat view a bucket and as one view a parameter.
struct ShardGradients {
  std::vector<device::Tensor> flat;
  std::vector<device::Tensor> parameters;
};

class GradientSync {
 public:
  virtual ~GradientSync() = default;
  virtual void begin_step(std::int64_t step) = 0;
  // Where the gradients of the next of this rank's shards are to be written: every parameter's; padding is
  // zero already.
  virtual ShardGradients next_shard() = 0;
  // They are written. The views are used up.
  virtual void add_shard() = 0;
  // Every rank's `totals` (one flat view a bucket) become the sum over all shards, the same bits everywhere.
  virtual Status finish_step(std::span<const device::Tensor> totals) = 0;
};

// `communicator` must outlive it.
std::unique_ptr<GradientSync> make_allreduce_sync(comm::Communicator& communicator,
                                                  const nn::BucketLayout& layout, int num_shards,
                                                  std::chrono::milliseconds timeout);

}  // namespace muster::sync
