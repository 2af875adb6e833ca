// The reference device's convolution and max-pooling, loop by loop as they are defined. See device.h.
#pragma once

#include "trainer/device/arguments.h"
#include "trainer/device/tensor.h"

namespace muster::device::reference {

void conv2d_forward(const Window2d& window, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Activation activation, const Tensor& y);
void conv2d_backward_data(const Window2d& window, const Tensor& dy, const Tensor& weight, const Tensor& dx);
void conv2d_backward_weights(const Window2d& window, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                             const Tensor& dbias);

void max_pool_forward(const Extent2d& window, const Tensor& x, Activation activation, const Tensor& choice,
                      const Tensor& y);
void max_pool_backward(const Extent2d& window, const Tensor& dy, const Tensor& choice, const Tensor& dx);

}  // namespace muster::device::reference
