// Layer norm over all elements of a sample, with a learned scale and shift of each: PyTorch's nn.LayerNorm
// and its epsilon (Ba, Kiros, Hinton 2016, arXiv:1607.06450).
#pragma once

#include <string>

#include "trainer/nn/layer.h"

namespace muster::nn {

class LayerNorm final : public Layer {
 public:
  // Parameters are named NAME.weight (ones at first) and NAME.bias (zeros), both of the sample's shape.
  LayerNorm(std::string name, SampleShape shape);

  std::vector<ParameterSpec> parameters() const override;
  SampleShape output_shape() const override { return shape_; }
  StateSpec state() const override { return {device::DType::kFloat64, 2}; }  // mean and 1 / deviation
  bool takes_channels_last() const override { return false; }
  Status forward(const ShardContext& context, const ForwardArguments& arguments) const override;
  Status backward(const ShardContext& context, const BackwardArguments& arguments) const override;

 private:
  std::string name_;
  SampleShape shape_;
};

}  // namespace muster::nn
