#include "trainer/nn/conv2d.h"

#include <cassert>
#include <utility>

#include "trainer/nn/images.h"

namespace muster::nn {

Conv2d::Conv2d(std::string name, SampleShape input, const Conv2dOptions& options)
    : name_(std::move(name)), input_(std::move(input)), options_(options) {
  assert(input_.size() == 3 && elements_of(output_shape()) > 0);
}

std::vector<ParameterSpec> Conv2d::parameters() const {
  const std::int64_t fan_in = input_[0] * options_.kernel.height * options_.kernel.width;
  return {{.name = name_ + ".weight",
           .shape = {options_.out_channels, input_[0], options_.kernel.height, options_.kernel.width},
           .fan_in = fan_in},
          {.name = name_ + ".bias", .shape = {options_.out_channels}, .fan_in = fan_in}};
}

SampleShape Conv2d::output_shape() const {
  const device::Window2d& window = options_.window;
  return {
      options_.out_channels,
      device::window_places(input_[1], options_.kernel.height, window.stride.height, window.padding.height),
      device::window_places(input_[2], options_.kernel.width, window.stride.width, window.padding.width)};
}

Status Conv2d::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  return context.device->conv2d_forward(options_.window, as_images(arguments.x, input_),
                                        arguments.parameters[0], arguments.parameters[1], options_.activation,
                                        context.parameters_version, arguments.y);
}

Status Conv2d::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  device::Device& device = *context.device;
  if (options_.activation == device::Activation::kRelu) {
    MUSTER_TRY(device.relu_backward(arguments.y, arguments.dy, arguments.dy));
  }
  const device::Tensor dy = as_images(arguments.dy, output_shape());
  MUSTER_TRY(device.conv2d_backward_weights(options_.window, as_images(arguments.x, input_), dy,
                                            arguments.gradients[0], arguments.gradients[1]));
  if (!arguments.dx) return {};
  return device.conv2d_backward_data(options_.window, dy, arguments.parameters[0], context.parameters_version,
                                     as_images(arguments.dx, input_));
}

}  // namespace muster::nn
