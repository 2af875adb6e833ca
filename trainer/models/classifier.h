// A model made of layers that end in class scores, trained by softmax cross-entropy.
#pragma once

#include <memory>
#include <vector>

#include "trainer/models/model.h"
#include "trainer/nn/sequential.h"

namespace muster::models {

class Classifier final : public Model {
 public:
  // The layers end in one score a class. Labels are smoothed in training only: evaluation gives the plain
  // cross-entropy.
  Classifier(const ModelConfig& config, std::vector<std::unique_ptr<nn::Layer>> layers);

  const std::vector<nn::ParameterSpec>& parameters() const override { return network_.parameters(); }
  Result<ShardResult> train_shard(const nn::ShardContext& context, const Batch& batch,
                                  std::span<const device::Tensor> parameters,
                                  std::span<const device::Tensor> gradients) override;
  Result<ShardResult> evaluate_shard(const nn::ShardContext& context, const Batch& batch,
                                     std::span<const device::Tensor> parameters) override;

 private:
  Status reserve_dlogits(device::Device& device, std::size_t bytes);

  nn::Sequential network_;
  double label_smoothing_;
  std::unique_ptr<device::Memory> dlogits_;
  const device::Device* dlogits_owner_ = nullptr;
};

}  // namespace muster::models
