// Samples seen as images.
#pragma once

#include "trainer/nn/layer.h"

namespace muster::nn {

// The tensor as [samples, channels, height, width]. shape: [channels, height, width] of one sample.
inline device::Tensor as_images(const device::Tensor& samples, const SampleShape& shape) {
  if (samples.rank == 4) return samples;
  return samples.reshaped({samples.rows(), shape[0], shape[1], shape[2]});
}

}  // namespace muster::nn
