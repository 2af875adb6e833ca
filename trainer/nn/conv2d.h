// 2-D convolution: y = activation(weight ∗ x + bias), weight [out, in, kernel height, kernel width], bias
// [out]; ∗ is cross-correlation, as in PyTorch's nn.Conv2d.
#pragma once

#include <string>

#include "trainer/nn/layer.h"

namespace muster::nn {

struct Conv2dOptions {
  std::int64_t out_channels = 1;
  device::Extent2d kernel = {};
  device::Window2d window = {};  // its padding is below the kernel's size
  device::Activation activation = device::Activation::kNone;
};

class Conv2d final : public Layer {
 public:
  // Parameters are named NAME.weight and NAME.bias. input: [channels, height, width]; samples may have
  // another shape of as many elements ([height, width] for one channel). The kernel fits into the padded
  // image.
  Conv2d(std::string name, SampleShape input, const Conv2dOptions& options);

  std::vector<ParameterSpec> parameters() const override;
  SampleShape output_shape() const override;
  StateSpec state() const override { return {}; }
  bool takes_channels_last() const override { return true; }
  Status forward(const ShardContext& context, const ForwardArguments& arguments) const override;
  Status backward(const ShardContext& context, const BackwardArguments& arguments) const override;

 private:
  std::string name_;
  SampleShape input_;
  Conv2dOptions options_;
};

}  // namespace muster::nn
