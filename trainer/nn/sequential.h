// Layers one after the other, and the workspace that their activations live in. The workspace grows to the
// largest shard seen and is reused: no allocation from step to step. Between two layers that both take
// channels-last images, images are; everything else is row-major, the network's own input and output too.
// Threads: one at a time; backward belongs to the last forward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "trainer/nn/layer.h"

namespace muster::nn {

class Sequential {
 public:
  Sequential(SampleShape input_shape, std::vector<std::unique_ptr<Layer>> layers);

  const SampleShape& input_shape() const { return input_shape_; }
  SampleShape output_shape() const;
  // All layers', in order; views passed below are in this order.
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }

  // x: [samples, input shape…]. The result is a view into the workspace, valid until the next forward.
  Result<device::Tensor> forward(const ShardContext& context, const device::Tensor& x,
                                 std::span<const device::Tensor> parameters);

  // dy: the gradient of the loss with respect to forward's result; may be overwritten, and must not be that
  // result's memory. Overwrites gradients. dx may be no tensor.
  Status backward(const ShardContext& context, const device::Tensor& x, const device::Tensor& dy,
                  std::span<const device::Tensor> parameters, std::span<const device::Tensor> gradients,
                  const device::Tensor& dx = {});

 private:
  struct Slot {  // of one layer
    SampleShape output_shape;
    device::Layout output_layout = device::Layout::kRowMajor;
    StateSpec state;
    std::size_t parameter_begin = 0;
    std::size_t parameter_count = 0;
    device::Tensor y;  // views into the workspace, made by the last forward
    device::Tensor state_view;
  };

  Status prepare(device::Device& device, const device::Tensor& x);
  // Lays the workspace out for the samples of x and returns the bytes it takes; base may be null.
  std::size_t place(const device::Tensor& x, std::byte* base);

  SampleShape input_shape_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<ParameterSpec> parameters_;
  std::vector<Slot> slots_;
  std::int64_t gradient_elements_ = 0;  // of one sample: the largest gradient between two layers
  std::unique_ptr<device::Memory> workspace_;
  const device::Device* workspace_owner_ = nullptr;
  void* gradient_buffers_[2] = {nullptr, nullptr};
};

}  // namespace muster::nn
