#include "trainer/nn/relu.h"

namespace muster::nn {

Status Relu::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  return context.device->relu_forward(arguments.x, arguments.y);
}

Status Relu::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  if (!arguments.dx) return {};
  return context.device->relu_backward(arguments.y, arguments.dy, arguments.dx);
}

}  // namespace muster::nn
