// A model as the train loop sees it: parameters, and the loss and gradients of one virtual shard. What a
// shard gives depends on its samples, the parameters and the context alone, never on which rank computes it.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "trainer/device/device.h"
#include "trainer/nn/layer.h"

namespace muster::models {

struct Batch {
  device::Tensor inputs;  // [samples, sample shape…], dtype of the parameters
  device::Tensor labels;  // kInt32 [samples]
};

struct ShardResult {
  double loss_sum = 0;  // over samples, not scaled
  std::int64_t correct = 0;
  std::int64_t samples = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const std::vector<nn::ParameterSpec>& parameters() const = 0;

  // Forward and backward. Overwrites every gradient with this shard's (times context.gradient_scale); an
  // empty shard gives zeros. Views are one a parameter, in the order of parameters().
  virtual Result<ShardResult> train_shard(const nn::ShardContext& context, const Batch& batch,
                                          std::span<const device::Tensor> parameters,
                                          std::span<const device::Tensor> gradients) = 0;

  // Forward only, as at inference time.
  virtual Result<ShardResult> evaluate_shard(const nn::ShardContext& context, const Batch& batch,
                                             std::span<const device::Tensor> parameters) = 0;
};

struct ModelConfig {
  std::string name = "mlp";               // mlp, lenet, logistic (one linear layer)
  std::vector<std::int64_t> hidden = {};  // mlp: sizes of the hidden layers; may be empty
  std::string activation = "relu";        // mlp: relu, gelu
  bool layer_norm = false;                // mlp: between each hidden layer and its activation
  double dropout = 0;                     // mlp, lenet: after each hidden linear layer; 0 <= dropout < 1
  double label_smoothing = 0;             // of the loss in training; 0 <= label_smoothing < 1
  nn::SampleShape input_shape;
  std::int64_t classes = 0;
};

// kInvalidArgument for an unknown name, impossible sizes, or samples that the model cannot take. Settings of
// other models are ignored.
Result<std::unique_ptr<Model>> make_model(const ModelConfig& config);

}  // namespace muster::models
