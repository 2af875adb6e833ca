// Fully connected layer: y = activation(x · weightᵀ + bias), weight [out, in], bias [out].
#pragma once

#include <string>

#include "trainer/nn/layer.h"

namespace muster::nn {

class Linear final : public Layer {
 public:
  // Parameters are named NAME.weight and NAME.bias. Any sample shape of `in` elements is accepted.
  Linear(std::string name, std::int64_t in, std::int64_t out,
         device::Activation activation = device::Activation::kNone);

  std::vector<ParameterSpec> parameters() const override;
  SampleShape output_shape() const override { return {out_}; }
  StateSpec state() const override { return {}; }
  bool takes_channels_last() const override { return false; }
  Status forward(const ShardContext& context, const ForwardArguments& arguments) const override;
  Status backward(const ShardContext& context, const BackwardArguments& arguments) const override;

 private:
  std::string name_;
  std::int64_t in_;
  std::int64_t out_;
  device::Activation activation_;
};

}  // namespace muster::nn
