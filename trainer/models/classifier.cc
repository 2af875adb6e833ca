#include "trainer/models/classifier.h"

#include <cassert>
#include <utility>

namespace muster::models {
namespace {

ShardResult result_of(const device::LossSum& sum, const Batch& batch) {
  return {.loss_sum = sum.loss, .correct = sum.correct, .samples = batch.inputs.rows()};
}

}  // namespace

Classifier::Classifier(const ModelConfig& config, std::vector<std::unique_ptr<nn::Layer>> layers)
    : network_(config.input_shape, std::move(layers)), label_smoothing_(config.label_smoothing) {}

Status Classifier::reserve_dlogits(device::Device& device, std::size_t bytes) {
  if (dlogits_ && dlogits_->bytes() >= bytes && dlogits_owner_ == &device) return {};
  MUSTER_ASSIGN(dlogits_, device.allocate(bytes));
  dlogits_owner_ = &device;
  return {};
}

Result<ShardResult> Classifier::train_shard(const nn::ShardContext& context, const Batch& batch,
                                            std::span<const device::Tensor> parameters,
                                            std::span<const device::Tensor> gradients) {
  nn::ShardContext training = context;
  training.training = true;
  MUSTER_ASSIGN(const device::Tensor logits, network_.forward(training, batch.inputs, parameters));
  MUSTER_TRY(reserve_dlogits(*context.device, logits.bytes()));
  device::Tensor dlogits = logits;
  dlogits.data = dlogits_->data();
  MUSTER_ASSIGN(const device::LossSum sum,
                context.device->softmax_cross_entropy(logits, batch.labels, label_smoothing_,
                                                      context.gradient_scale, dlogits));
  MUSTER_TRY(network_.backward(training, batch.inputs, dlogits, parameters, gradients));
  return result_of(sum, batch);
}

Result<ShardResult> Classifier::evaluate_shard(const nn::ShardContext& context, const Batch& batch,
                                               std::span<const device::Tensor> parameters) {
  nn::ShardContext inference = context;
  inference.training = false;
  MUSTER_ASSIGN(const device::Tensor logits, network_.forward(inference, batch.inputs, parameters));
  MUSTER_ASSIGN(const device::LossSum sum,
                context.device->softmax_cross_entropy(logits, batch.labels, 0.0, 1.0, device::Tensor()));
  return result_of(sum, batch);
}

}  // namespace muster::models
