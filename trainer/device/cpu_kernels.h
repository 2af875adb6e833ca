// The cpu device's loops over fp32 arrays: everything but matrix products, convolution, pooling and layer
// norm. Pure functions of their arguments;
// the order of operations is fixed, whatever the alignment.
#pragma once

#include <cstdint>

#include "trainer/device/arguments.h"
#include "trainer/random/philox.h"

namespace muster::device::cpu {

void relu_forward(const float* x, std::int64_t count, float* y);
void relu_backward(const float* y, const float* dy, std::int64_t count, float* dx);

void gelu_forward(const float* x, std::int64_t count, float* y);
void gelu_backward(const float* x, const float* dy, std::int64_t count, float* dx);

void dropout_forward(const float* x, std::int64_t count, double rate, const random::Stream& stream,
                     std::uint8_t* mask, float* y);
void dropout_backward(const float* dy, const std::uint8_t* mask, std::int64_t count, double rate, float* dx);

// One row. Adds to `sum`. dlogits may be null or the logits.
void softmax_cross_entropy_row(const float* logits, std::int64_t classes, std::int32_t label,
                               double smoothing, double scale, float* dlogits, LossSum& sum);

// [n, rows, columns] to [n, columns, rows].
void transpose(const float* x, std::int64_t count, std::int64_t rows, std::int64_t columns, float* y);

void scale(float* x, std::int64_t count, float factor);
void add(const float* a, const float* b, std::int64_t count, float* sum);
double squared_norm(const float* x, std::int64_t count);

void sgd_step(const SgdScalars& scalars, std::int64_t count, float* parameter, const float* gradient,
              float* momentum);
void adamw_step(const AdamWScalars& scalars, std::int64_t count, float* parameter, const float* gradient,
                float* exp_avg, float* exp_avg_sq);

}  // namespace muster::device::cpu
