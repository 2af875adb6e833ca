// The cpu device's max-pooling, with ReLU in the same pass. oneDNN's loses NaNs. See
// Device::max_pool_forward.
#pragma once

#include "trainer/device/arguments.h"
#include "trainer/device/tensor.h"

namespace muster::device::cpu {

void max_pool_forward(const Extent2d& window, const Tensor& x, Activation activation, const Tensor& choice,
                      const Tensor& y);
void max_pool_backward(const Extent2d& window, const Tensor& dy, const Tensor& choice, const Tensor& dx);

}  // namespace muster::device::cpu
