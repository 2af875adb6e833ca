// One layer of a network: what parameters it has, and its forward and backward on one virtual shard.
//
// A layer owns no tensor: parameters and gradients are views into the caller's flat buckets, activations and
// what backward needs to remember are views into the workspace of whoever strings the layers together. It
// computes through the device only. Tensors are [samples, sample shape…]; samples may be 0. Gradients are
// overwritten, not added to.
// Threads: a layer is immutable after construction; its methods may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "trainer/device/device.h"
#include "trainer/nn/parameter.h"

namespace muster::nn {

// Shape of one sample, without the axis of samples.
using SampleShape = std::vector<std::int64_t>;
std::int64_t elements_of(const SampleShape& shape);

// What a shard's results may depend on besides its samples and the parameters.
struct ShardContext {
  device::Device* device = nullptr;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int32_t shard = 0;
  bool training = false;
  // 1 / (samples of the whole batch, all shards together): gradients come out as their share of the mean.
  double gradient_scale = 1.0;
  // Change it whenever parameters changed (step + 1, say); 0 promises nothing. See device.h.
  device::ParametersVersion parameters_version = 0;
};

// Per-sample scratch that forward leaves for backward.
struct StateSpec {
  device::DType dtype = device::DType::kUint8;
  std::int64_t elements_per_sample = 0;
};

struct ForwardArguments {
  device::Tensor x;
  std::span<const device::Tensor> parameters;
  device::Tensor y;
  device::Tensor state;  // [samples, elements_per_sample]; no tensor if the layer wants none
};

struct BackwardArguments {
  device::Tensor x;
  device::Tensor y;
  device::Tensor dy;  // may be overwritten
  std::span<const device::Tensor> parameters;
  device::Tensor state;
  device::Tensor dx;  // no tensor: nobody needs it
  std::span<const device::Tensor> gradients;
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::vector<ParameterSpec> parameters() const = 0;
  virtual SampleShape output_shape() const = 0;
  virtual StateSpec state() const = 0;
  // True: x, y and their gradients may be channels-last images, each by itself. False: all are row-major.
  virtual bool takes_channels_last() const = 0;
  virtual Status forward(const ShardContext& context, const ForwardArguments& arguments) const = 0;
  virtual Status backward(const ShardContext& context, const BackwardArguments& arguments) const = 0;
};

}  // namespace muster::nn
