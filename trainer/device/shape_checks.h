// Checks and scalars that every device's implementation shares.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "trainer/device/tensor.h"

namespace muster::device {

inline void assert_linear_shapes([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& weight,
                                 [[maybe_unused]] const Tensor& bias, [[maybe_unused]] const Tensor& y) {
  assert(x.rank == 2 && weight.rank == 2 && y.rank == 2);
  assert(x.shape[0] == y.shape[0] && x.shape[1] == weight.shape[1] && y.shape[1] == weight.shape[0]);
  assert(x.dtype == weight.dtype && x.dtype == y.dtype);
  assert(!bias || (bias.dtype == x.dtype && bias.elements() == y.shape[1]));
}

// The smallest word that is kept: rate · 2^32, rounded up.
inline std::uint32_t dropout_threshold(double rate) {
  assert(rate >= 0 && rate < 1);
  return static_cast<std::uint32_t>(std::min(std::ceil(rate * 0x1.0p32), 0x1.0p32 - 1));
}

}  // namespace muster::device
