#include "trainer/nn/max_pool.h"

#include <cassert>
#include <utility>

#include "trainer/nn/images.h"

namespace muster::nn {

MaxPool::MaxPool(SampleShape input, device::Extent2d window, device::Activation activation)
    : input_(std::move(input)), window_(window), activation_(activation) {
  assert(input_.size() == 3 && elements_of(output_shape()) > 0);
  assert(window_.height * window_.width <= device::Device::kNoChoice);
}

SampleShape MaxPool::output_shape() const {
  return {input_[0], input_[1] / window_.height, input_[2] / window_.width};
}

StateSpec MaxPool::state() const { return {device::DType::kUint8, elements_of(output_shape())}; }

Status MaxPool::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  return context.device->max_pool_forward(window_, as_images(arguments.x, input_), activation_,
                                          arguments.state, arguments.y);
}

Status MaxPool::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  if (!arguments.dx) return {};
  return context.device->max_pool_backward(window_, as_images(arguments.dy, output_shape()), arguments.state,
                                           as_images(arguments.dx, input_));
}

}  // namespace muster::nn
