// One rank's copy of what is learned: model, optimizer, and the flat buckets they live in. All ranks hold the
// same bits. Threads: one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer/checkpointer.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/dataset.h"
#include "trainer/device/device.h"
#include "trainer/models/model.h"
#include "trainer/nn/bucket_layout.h"
#include "trainer/optim/optimizer.h"
#include "trainer/options.h"

namespace muster {

// fp32 buckets of one layout, allocated by the communicator, with flat and per-parameter views.
class Buckets {
 public:
  static Result<Buckets> allocate(comm::Communicator& communicator, const nn::BucketLayout& layout);
  std::span<const device::Tensor> flat() const { return flat_; }
  std::span<const device::Tensor> tensors() const { return tensors_; }

 private:
  std::vector<std::unique_ptr<comm::BucketMemory>> memory_;
  std::vector<device::Tensor> flat_;
  std::vector<device::Tensor> tensors_;
};

class Replica {
 public:
  // Parameters have their initial values: a pure function of the seed. `device` and `communicator` must
  // outlive it.
  static Result<Replica> create(const TrainerOptions& options, const data::Dataset& data,
                                device::Device& device, comm::Communicator& communicator);

  models::Model& model() { return *model_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const nn::BucketLayout& layout() const { return layout_; }
  const Buckets& parameters() const { return parameters_; }
  const Buckets& gradients() const { return gradients_; }  // totals over all shards
  // Of the second batch of a shard and each further one; there only with gradient accumulation.
  const Buckets& batch_gradients() const { return batch_gradients_; }

  // Everything a checkpoint must hold: parameters/… and optimizer/….
  std::vector<NamedTensor> saved_tensors() const;

 private:
  std::unique_ptr<models::Model> model_;
  nn::BucketLayout layout_;
  Buckets parameters_;
  Buckets gradients_;
  Buckets batch_gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace muster
