#include "trainer/nn/linear.h"

#include <utility>

namespace muster::nn {

Linear::Linear(std::string name, std::int64_t in, std::int64_t out, device::Activation activation)
    : name_(std::move(name)), in_(in), out_(out), activation_(activation) {}

std::vector<ParameterSpec> Linear::parameters() const {
  return {{.name = name_ + ".weight", .shape = {out_, in_}, .fan_in = in_},
          {.name = name_ + ".bias", .shape = {out_}, .fan_in = in_}};
}

Status Linear::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  return context.device->linear_forward(arguments.x.as_matrix(), arguments.parameters[0],
                                        arguments.parameters[1], activation_, context.parameters_version,
                                        arguments.y);
}

Status Linear::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  device::Device& device = *context.device;
  if (activation_ == device::Activation::kRelu) {
    MUSTER_TRY(device.relu_backward(arguments.y, arguments.dy, arguments.dy));
  }
  MUSTER_TRY(device.linear_backward_weights(arguments.x.as_matrix(), arguments.dy, arguments.gradients[0],
                                            arguments.gradients[1]));
  if (!arguments.dx) return {};
  return device.linear_backward_data(arguments.dy, arguments.parameters[0], context.parameters_version,
                                     arguments.dx.as_matrix());
}

}  // namespace muster::nn
