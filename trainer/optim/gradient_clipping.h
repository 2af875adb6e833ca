// Clipping of the gradient by its global L2 norm, over all parameters together, as PyTorch's clip_grad_norm_
// does it. The norm is a sum over a fixed number of segments, so that ranks can share out the work and still
// get the same bits, whatever their number.
// Threads: as the device's.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"
#include "trainer/device/device.h"

namespace muster::optim {

// The sum of squares of segment `index` of `segments` cuts through the buckets (flat fp32 views, each of a
// multiple of 16 elements) laid end to end: units of 16 elements [U·index/segments, U·(index+1)/segments).
// Not finite exactly if some element of the segment is not.
Result<double> segment_squared_norm(device::Device& device, std::span<const device::Tensor> buckets,
                                    std::int64_t index, std::int64_t segments);

// What to scale a gradient of this norm with: min(1, max_norm / (norm + 1e-6)); 1 if max_norm is 0.
double clip_factor(double norm, double max_norm);

}  // namespace muster::optim
