// Max-pooling: the largest element of each window, windows side by side; rows and columns that do not fill
// one are left out, as in PyTorch's nn.MaxPool2d(window). A ReLU after it costs no pass of its own here, and
// gives what a ReLU before it gives, gradients included: both keep the order of elements.
#pragma once

#include "trainer/nn/layer.h"

namespace muster::nn {

class MaxPool final : public Layer {
 public:
  // input: [channels, height, width], at least one window. A window has at most Device::kNoChoice elements.
  MaxPool(SampleShape input, device::Extent2d window,
          device::Activation activation = device::Activation::kNone);

  std::vector<ParameterSpec> parameters() const override { return {}; }
  SampleShape output_shape() const override;
  StateSpec state() const override;  // which element of a window was the largest
  bool takes_channels_last() const override { return true; }
  Status forward(const ShardContext& context, const ForwardArguments& arguments) const override;
  Status backward(const ShardContext& context, const BackwardArguments& arguments) const override;

 private:
  SampleShape input_;
  device::Extent2d window_;
  device::Activation activation_;
};

}  // namespace muster::nn
