#include "trainer/nn/gelu.h"

namespace muster::nn {

Status Gelu::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  return context.device->gelu_forward(arguments.x, arguments.y);
}

Status Gelu::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  if (!arguments.dx) return {};
  return context.device->gelu_backward(arguments.x, arguments.dy, arguments.dx);
}

}  // namespace muster::nn
