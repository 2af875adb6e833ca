// The cpu device's layer norm (Ba, Kiros, Hinton 2016, arXiv:1607.06450). See device.h. Pure; means are taken
// in double, in a fixed order.
#pragma once

#include <cstdint>

namespace muster::device::cpu {

// x and y [rows, features]; moments [rows, 2].
void layer_norm_forward(const float* x, std::int64_t rows, std::int64_t features, const float* weight,
                        const float* bias, double epsilon, double* moments, float* y);
// dx may be null.
void layer_norm_backward(const float* x, const float* dy, std::int64_t rows, std::int64_t features,
                         const float* weight, const double* moments, float* dx, float* dweight, float* dbias);

}  // namespace muster::device::cpu
