// Gaussian error linear unit, elementwise: x · Φ(x), PyTorch's default form (Hendrycks, Gimpel 2016,
// arXiv:1606.08415).
#pragma once

#include <utility>

#include "trainer/nn/layer.h"

namespace muster::nn {

class Gelu final : public Layer {
 public:
  explicit Gelu(SampleShape shape) : shape_(std::move(shape)) {}

  std::vector<ParameterSpec> parameters() const override { return {}; }
  SampleShape output_shape() const override { return shape_; }
  StateSpec state() const override { return {}; }
  bool takes_channels_last() const override { return false; }
  Status forward(const ShardContext& context, const ForwardArguments& arguments) const override;
  Status backward(const ShardContext& context, const BackwardArguments& arguments) const override;

 private:
  SampleShape shape_;
};

}  // namespace muster::nn
