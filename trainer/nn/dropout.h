// Dropout: in training each element is zeroed with probability `rate` and the rest scaled by 1/(1-rate);
// otherwise the identity. Which elements is a pure function of (seed, step, shard, layer, element), so it
// does not matter who computes a shard, or how often.
#pragma once

#include <cstdint>

#include "trainer/nn/layer.h"

namespace muster::nn {

class Dropout final : public Layer {
 public:
  // layer: distinguishes the dropout layers of one model; below 65536. 0 <= rate < 1.
  Dropout(SampleShape shape, double rate, std::uint32_t layer);

  std::vector<ParameterSpec> parameters() const override { return {}; }
  SampleShape output_shape() const override { return shape_; }
  StateSpec state() const override;  // the mask
  bool takes_channels_last() const override { return false; }
  Status forward(const ShardContext& context, const ForwardArguments& arguments) const override;
  Status backward(const ShardContext& context, const BackwardArguments& arguments) const override;

 private:
  SampleShape shape_;
  double rate_;
  std::uint32_t layer_;
};

}  // namespace muster::nn
