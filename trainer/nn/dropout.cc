#include "trainer/nn/dropout.h"

#include <cassert>
#include <utility>

namespace muster::nn {

Dropout::Dropout(SampleShape shape, double rate, std::uint32_t layer)
    : shape_(std::move(shape)), rate_(rate), layer_(layer) {
  assert(rate >= 0 && rate < 1);
}

StateSpec Dropout::state() const { return {device::DType::kUint8, elements_of(shape_)}; }

Status Dropout::forward(const ShardContext& context, const ForwardArguments& arguments) const {
  if (!context.training || rate_ == 0) return context.device->copy(arguments.x, arguments.y);
  const random::Stream stream{.key = random::make_key(context.seed, random::Purpose::kDropout),
                              .step = static_cast<std::uint64_t>(context.step),
                              .shard = static_cast<std::uint32_t>(context.shard),
                              .layer = layer_};
  return context.device->dropout_forward(arguments.x, rate_, stream, arguments.state, arguments.y);
}

Status Dropout::backward(const ShardContext& context, const BackwardArguments& arguments) const {
  if (!arguments.dx) return {};
  if (!context.training || rate_ == 0) return context.device->copy(arguments.dy, arguments.dx);
  return context.device->dropout_backward(arguments.dy, rate_, arguments.state, arguments.dx);
}

}  // namespace muster::nn
