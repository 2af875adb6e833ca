#include "trainer/nn/sequential.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <utility>

namespace muster::nn {
namespace {

device::Tensor samples_tensor(void* data, device::DType dtype, std::int64_t samples, const SampleShape& shape,
                              device::Location location) {
  std::array<std::int64_t, device::Tensor::kRankMax> full{};
  assert(shape.size() < full.size());
  full[0] = samples;
  std::copy(shape.begin(), shape.end(), full.begin() + 1);
  return {data, dtype, std::span<const std::int64_t>(full).first(shape.size() + 1), location};
}

}  // namespace

std::int64_t elements_of(const SampleShape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Sequential::Sequential(SampleShape input_shape, std::vector<std::unique_ptr<Layer>> layers)
    : input_shape_(std::move(input_shape)), layers_(std::move(layers)) {
  assert(!layers_.empty());
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    const std::vector<ParameterSpec> specs = layers_[index]->parameters();
    const bool images_last = layers_[index]->takes_channels_last() && index + 1 < layers_.size() &&
                             layers_[index + 1]->takes_channels_last();
    slots_.push_back(
        {.output_shape = layers_[index]->output_shape(),
         .output_layout = images_last ? device::Layout::kChannelsLast : device::Layout::kRowMajor,
         .state = layers_[index]->state(),
         .parameter_begin = parameters_.size(),
         .parameter_count = specs.size(),
         .y = {},
         .state_view = {}});
    parameters_.insert(parameters_.end(), specs.begin(), specs.end());
    if (index + 1 < layers_.size()) {
      gradient_elements_ = std::max(gradient_elements_, elements_of(slots_[index].output_shape));
    }
  }
}

SampleShape Sequential::output_shape() const { return slots_.back().output_shape; }

std::size_t Sequential::place(const device::Tensor& x, std::byte* base) {
  const std::int64_t samples = x.rows();
  std::size_t used = 0;
  const auto take = [&](std::int64_t elements_per_sample, device::DType dtype) -> void* {
    const std::size_t wanted =
        static_cast<std::size_t>(elements_per_sample * samples) * device::size_of(dtype);
    void* start = base == nullptr ? nullptr : base + used;
    used += (wanted + device::kAlignmentBytes - 1) / device::kAlignmentBytes * device::kAlignmentBytes;
    return start;
  };
  for (Slot& slot : slots_) {
    slot.y = samples_tensor(take(elements_of(slot.output_shape), x.dtype), x.dtype, samples,
                            slot.output_shape, x.location);
    slot.y.layout = slot.output_layout;
    if (slot.state.elements_per_sample > 0) {
      slot.state_view =
          device::Tensor(take(slot.state.elements_per_sample, slot.state.dtype), slot.state.dtype,
                         {samples, slot.state.elements_per_sample}, x.location);
    }
  }
  for (void*& buffer : gradient_buffers_) buffer = take(gradient_elements_, x.dtype);
  return used;
}

Status Sequential::prepare(device::Device& device, const device::Tensor& x) {
  const std::size_t bytes = place(x, nullptr);
  if (!workspace_ || workspace_->bytes() < bytes || workspace_owner_ != &device) {
    MUSTER_ASSIGN(workspace_, device.allocate(bytes));
    workspace_owner_ = &device;
  }
  place(x, static_cast<std::byte*>(workspace_->data()));
  return {};
}

Result<device::Tensor> Sequential::forward(const ShardContext& context, const device::Tensor& x,
                                           std::span<const device::Tensor> parameters) {
  assert(parameters.size() == parameters_.size() && x.row_elements() == elements_of(input_shape_));
  MUSTER_TRY(prepare(*context.device, x));
  device::Tensor input = x;
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    const Slot& slot = slots_[index];
    MUSTER_TRY(layers_[index]->forward(
        context, {.x = input,
                  .parameters = parameters.subspan(slot.parameter_begin, slot.parameter_count),
                  .y = slot.y,
                  .state = slot.state_view}));
    input = slot.y;
  }
  return input;
}

Status Sequential::backward(const ShardContext& context, const device::Tensor& x, const device::Tensor& dy,
                            std::span<const device::Tensor> parameters,
                            std::span<const device::Tensor> gradients, const device::Tensor& dx) {
  assert(gradients.size() == parameters_.size());
  device::Tensor gradient = dy;
  for (std::size_t index = layers_.size(); index-- > 0;) {
    const Slot& slot = slots_[index];
    device::Tensor input_gradient = dx;
    if (index > 0) {
      input_gradient = slots_[index - 1].y;
      input_gradient.data = gradient_buffers_[index % 2];  // the one that `gradient` is not in
    }
    MUSTER_TRY(layers_[index]->backward(
        context, {.x = index > 0 ? slots_[index - 1].y : x,
                  .y = slot.y,
                  .dy = gradient,
                  .parameters = parameters.subspan(slot.parameter_begin, slot.parameter_count),
                  .state = slot.state_view,
                  .dx = input_gradient,
                  .gradients = gradients.subspan(slot.parameter_begin, slot.parameter_count)}));
    gradient = input_gradient;
  }
  return {};
}

}  // namespace muster::nn
