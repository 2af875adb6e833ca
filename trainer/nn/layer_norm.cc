#include "trainer/nn/layer_norm.h"

#include <utility>

namespace muster::nn {
namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

LayerNorm::LayerNorm(std::string name, SampleShape shape)
    : name_(std::move(name)), shape_(std::move(shape)) {}

std::vector<ParameterSpec> LayerNorm::parameters() const {
  return {{.name = name_ + ".weight", .shape = shape_, .initializer = Initializer::kOne},
          {.name = name_ + ".bias", .shape = shape_, .initializer = Initializer::kZero}};
}

Status LayerNorm::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  return context.device->layer_norm_forward(arguments.x.as_matrix(), arguments.parameters[0],
                                            arguments.parameters[1], kEpsilon, arguments.state,
                                            arguments.y.as_matrix());
}

Status LayerNorm::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  return context.device->layer_norm_backward(arguments.x.as_matrix(), arguments.dy.as_matrix(),
                                             arguments.parameters[0], arguments.state,
                                             arguments.dx ? arguments.dx.as_matrix() : device::Tensor(),
                                             arguments.gradients[0], arguments.gradients[1]);
}

}  // namespace muster::nn
