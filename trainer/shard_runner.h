// Runs the model on this rank's virtual shards, and adds up what comes out over all ranks along the shard
// tree. Collective; one thread (and its sample loader's).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/status.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/shard_tree.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sample_loader.h"
#include "trainer/data/sample_order.h"
#include "trainer/device/device.h"
#include "trainer/replica.h"
#include "trainer/sync/gradient_sync.h"

namespace muster {

// One optimizer step: which batches, and the random numbers that belong to them.
struct StepPosition {
  std::int64_t step = 0;
  data::StepBatches batches;
  std::uint64_t seed = 0;
  std::int64_t rng_counter = 0;  // of the first batch; each further one has the next
};

// What this rank tells all of them; decided together, at the same step.
struct Requests {
  bool stop = false;
  bool save = false;
  bool saving = false;  // its thread is busy with the save in flight
};

// Totals over all shards, the same on every rank.
struct ShardTotals {
  double loss_sum = 0;
  double correct = 0;
  double samples = 0;
  double gradient_squared_norm = 0;  // of the reduced gradient; not finite if any element is not
  bool stop = false;                 // some rank asked
  bool save = false;
  bool saving = false;  // some rank is
};

struct ShardRunnerOptions {
  int num_shards = 1;
  std::chrono::milliseconds collective_timeout{600'000};
  std::int64_t prefetch_steps = 2;  // steps whose samples are fetched ahead; 0: none
  std::chrono::milliseconds data_timeout{60'000};
};

class ShardRunner {
 public:
  // `communicator`, `device` and `replica` must outlive it.
  ShardRunner(comm::Communicator& communicator, device::Device& device, Replica& replica,
              const ShardRunnerOptions& options);

  // Starts to fetch samples. Before train_step().
  void begin_training(std::shared_ptr<const data::Dataset> dataset, data::BatchSchedule schedule,
                      const data::TrainingSpan& span);

  // Forward and backward of the next step of begin_training()'s span on every own shard;
  // replica.gradients() gets the gradient of the mean loss over all samples of the step's batches. Each shard
  // adds its batches up before the tree does, so one all-reduce serves the whole step.
  // The gradient's norm is worked out in as many segments as there are shards, each by the shard's rank, and
  // summed along the same tree: it costs no collective of its own.
  Result<ShardTotals> train_step(const StepPosition& position, const Requests& requests);

  // Loss and correct predictions over a whole dataset.
  Result<ShardTotals> evaluate(std::shared_ptr<const data::Dataset> dataset, std::int64_t batch_size,
                               std::int64_t step);

  const comm::ShardRange& shards() const { return range_; }
  // Those of this rank whose loss was not finite in the last train_step().
  const std::vector<std::int64_t>& nonfinite_shards() const { return nonfinite_shards_; }

 private:
  Result<models::ShardResult> train_shard(const StepPosition& position, std::int64_t shard,
                                          const sync::ShardGradients& gradients);
  Result<models::Batch> next_batch(data::SampleLoader& loader);
  data::SampleLoaderOptions loader_options(std::int64_t batches_of_a_step) const;
  data::OwnShards own_shards() const;
  Result<ShardTotals> reduce_totals(std::int64_t step, std::int32_t bucket);

  comm::Communicator& communicator_;
  device::Device& device_;
  Replica& replica_;
  ShardRunnerOptions options_;
  comm::ShardRange range_;
  std::unique_ptr<sync::GradientSync> gradients_;
  comm::DoubleShardAccumulator totals_;
  std::optional<data::SampleLoader> training_samples_;
  std::vector<std::int64_t> nonfinite_shards_;
};

}  // namespace muster
