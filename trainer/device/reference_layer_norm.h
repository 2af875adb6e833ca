// The reference device's layer norm (Ba, Kiros, Hinton 2016, arXiv:1607.06450). See device.h.
#pragma once

#include "trainer/device/tensor.h"

namespace muster::device::reference {

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                        const Tensor& moments, const Tensor& y);
void layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& weight, const Tensor& moments,
                         const Tensor& dx, const Tensor& dweight, const Tensor& dbias);

}  // namespace muster::device::reference
