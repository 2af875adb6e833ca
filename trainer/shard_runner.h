// Runs the model on this rank's virtual shards of one batch, and adds up what comes out over all ranks along
// the shard tree. Collective; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/status.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/shard_tree.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/dataset.h"
#include "trainer/device/device.h"
#include "trainer/replica.h"
#include "trainer/sync/gradient_sync.h"

namespace muster {

// Which batch, and the random numbers that belong to it.
struct BatchPosition {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  std::uint64_t seed = 0;
  std::int64_t rng_counter = 0;
};

// What this rank tells all of them; decided together, at the same step.
struct Requests {
  bool stop = false;
  bool save = false;
  bool saving = false;  // its thread is busy with the save in flight
};

// Totals over all shards, the same on every rank.
struct BatchTotals {
  double loss_sum = 0;
  double correct = 0;
  double samples = 0;
  bool stop = false;  // some rank asked
  bool save = false;
  bool saving = false;  // some rank is
};

class ShardRunner {
 public:
  ShardRunner(comm::Communicator& communicator, device::Device& device, Replica& replica, int num_shards,
              std::chrono::milliseconds timeout);

  // Forward and backward on every own shard; replica.gradients() gets the gradient of the batch's mean loss.
  Result<BatchTotals> train_batch(const data::Dataset& data, data::BatchSchedule& schedule,
                                  const BatchPosition& position, const Requests& requests);

  // Loss and correct predictions over a whole dataset.
  Result<BatchTotals> evaluate(const data::Dataset& data, std::int64_t batch_size, std::int64_t step);

  const comm::ShardRange& shards() const { return range_; }

 private:
  models::Batch fetch(const data::Dataset& data, std::span<const std::int64_t> ids);
  Result<BatchTotals> reduce_totals(std::int64_t step, std::int32_t bucket);

  comm::Communicator& communicator_;
  device::Device& device_;
  Replica& replica_;
  int num_shards_;
  comm::ShardRange range_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<sync::GradientSync> gradients_;
  comm::DoubleShardAccumulator totals_;
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
};

}  // namespace muster
