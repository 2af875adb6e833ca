// Checks and scalars that every device's implementation shares.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "trainer/device/arguments.h"
#include "trainer/device/tensor.h"

namespace muster::device {

inline void assert_linear_shapes([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& weight,
                                 [[maybe_unused]] const Tensor& bias, [[maybe_unused]] const Tensor& y) {
  assert(x.rank == 2 && weight.rank == 2 && y.rank == 2);
  assert(x.shape[0] == y.shape[0] && x.shape[1] == weight.shape[1] && y.shape[1] == weight.shape[0]);
  assert(x.dtype == weight.dtype && x.dtype == y.dtype);
  assert(!bias || (bias.dtype == x.dtype && bias.elements() == y.shape[1]));
}

inline void assert_elementwise([[maybe_unused]] const Tensor& a, [[maybe_unused]] const Tensor& b) {
  assert(a.elements() == b.elements() && a.layout == b.layout);
}

inline void assert_conv2d_shapes([[maybe_unused]] const Window2d& window, [[maybe_unused]] const Tensor& x,
                                 [[maybe_unused]] const Tensor& weight, [[maybe_unused]] const Tensor& bias,
                                 [[maybe_unused]] const Tensor& y) {
  assert(x.rank == 4 && weight.rank == 4 && y.rank == 4);
  assert(x.shape[0] == y.shape[0] && x.shape[1] == weight.shape[1] && y.shape[1] == weight.shape[0]);
  assert(y.shape[2] ==
         window_places(x.shape[2], weight.shape[2], window.stride.height, window.padding.height));
  assert(y.shape[3] == window_places(x.shape[3], weight.shape[3], window.stride.width, window.padding.width));
  assert(window.padding.height < weight.shape[2] && window.padding.width < weight.shape[3]);
  assert(x.dtype == weight.dtype && x.dtype == y.dtype);
  assert(!bias || (bias.dtype == x.dtype && bias.elements() == y.shape[1]));
}

inline void assert_max_pool_shapes([[maybe_unused]] const Extent2d& window, [[maybe_unused]] const Tensor& x,
                                   [[maybe_unused]] const Tensor& choice, [[maybe_unused]] const Tensor& y) {
  assert(x.rank == 4 && y.rank == 4 && x.shape[0] == y.shape[0] && x.shape[1] == y.shape[1]);
  assert(window.height * window.width <= 255);
  assert(y.shape[2] == x.shape[2] / window.height && y.shape[3] == x.shape[3] / window.width);
  assert(choice.dtype == DType::kUint8 && choice.elements() == y.elements() && x.dtype == y.dtype);
}

inline void assert_layer_norm_shapes([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& weight,
                                     [[maybe_unused]] const Tensor& bias,
                                     [[maybe_unused]] const Tensor& moments) {
  assert(x.rank == 2 && weight.elements() == x.shape[1] && bias.elements() == x.shape[1]);
  assert(moments.dtype == DType::kFloat64 && moments.elements() == 2 * x.shape[0]);
}

// The smallest word that is kept: rate · 2^32, rounded up.
inline std::uint32_t dropout_threshold(double rate) {
  assert(rate >= 0 && rate < 1);
  return static_cast<std::uint32_t>(std::min(std::ceil(rate * 0x1.0p32), 0x1.0p32 - 1));
}

}  // namespace muster::device
