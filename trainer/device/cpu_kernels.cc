#include "trainer/device/cpu_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/device/shape_checks.h"

namespace muster::device::cpu {

void relu_forward(const float* x, std::int64_t count, float* y) {
  // Written so that a NaN stays one.
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] < 0.0F ? 0.0F : x[i];
}

void relu_backward(const float* y, const float* dy, std::int64_t count, float* dx) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = dy[i];  // read in any case: without a branch the loop becomes vector code
    dx[i] = y[i] > 0.0F ? gradient : 0.0F;
  }
}

namespace {

constexpr float kInverseRoot2 = 0.70710678F;    // 1 / sqrt(2)
constexpr float kInverseRoot2Pi = 0.39894228F;  // 1 / sqrt(2 pi)

float normal_distribution(float x) { return 0.5F * (1.0F + std::erf(x * kInverseRoot2)); }

}  // namespace

void gelu_forward(const float* x, std::int64_t count, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * normal_distribution(x[i]);
}

void gelu_backward(const float* x, const float* dy, std::int64_t count, float* dx) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float density = kInverseRoot2Pi * std::exp(-0.5F * x[i] * x[i]);
    dx[i] = dy[i] * (normal_distribution(x[i]) + x[i] * density);
  }
}

void dropout_forward(const float* x, std::int64_t count, double rate, const random::Stream& stream,
                     std::uint8_t* mask, float* y) {
  constexpr std::int64_t kBlocks = 256;
  constexpr std::int64_t kWords = 4 * kBlocks;
  const std::uint32_t threshold = dropout_threshold(rate);
  const auto kept_factor = static_cast<float>(1.0 / (1.0 - rate));
  std::array<std::uint32_t, kWords> words;
  for (std::int64_t begin = 0; begin < count; begin += kWords) {
    const std::int64_t length = std::min(kWords, count - begin);
    stream.fill_from_block(static_cast<std::uint32_t>(begin / 4),
                           std::span(words).first(static_cast<std::size_t>(length)));
    for (std::int64_t i = 0; i < length; ++i) {
      const bool kept = words[static_cast<std::size_t>(i)] >= threshold;
      mask[begin + i] = kept;
      y[begin + i] = x[begin + i] * (kept ? kept_factor : 0.0F);
    }
  }
}

void dropout_backward(const float* dy, const std::uint8_t* mask, std::int64_t count, double rate, float* dx) {
  const auto kept_factor = static_cast<float>(1.0 / (1.0 - rate));
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (mask[i] != 0 ? kept_factor : 0.0F);
}

void softmax_cross_entropy_row(const float* logits, std::int64_t classes, std::int32_t label,
                               double smoothing, double scale, float* dlogits, LossSum& sum) {
  const float* largest = std::max_element(logits, logits + classes);
  const double shift = *largest;
  // Rows are short: double costs little here and keeps the loss free of cancellation.
  double total = 0;
  double shifted_sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double shifted = static_cast<double>(logits[c]) - shift;
    total += std::exp(shifted);
    shifted_sum += shifted;
  }
  const double share = smoothing / static_cast<double>(classes);
  const double label_shifted = static_cast<double>(logits[label]) - shift;
  sum.loss += std::log(total) - (1.0 - smoothing) * label_shifted - share * shifted_sum;
  sum.correct += (largest - logits) == label ? 1 : 0;
  if (dlogits == nullptr) return;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double probability = std::exp(static_cast<double>(logits[c]) - shift) / total;
    const double target = (c == label ? 1.0 - smoothing : 0.0) + share;
    dlogits[c] = static_cast<float>((probability - target) * scale);
  }
}

void transpose(const float* x, std::int64_t count, std::int64_t rows, std::int64_t columns, float* y) {
  for (std::int64_t n = 0; n < count; ++n) {
    const float* from = x + n * rows * columns;
    float* to = y + n * rows * columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        to[column * rows + row] = from[row * columns + column];
      }
    }
  }
}

void scale(float* x, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

void add(const float* a, const float* b, std::int64_t count, float* sum) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

double squared_norm(const float* x, std::int64_t count) {
  // Eight running sums: enough for vector code and to hide the latency of an addition.
  constexpr std::int64_t kSums = 8;
  std::array<double, kSums> sums{};
  std::int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (std::int64_t lane = 0; lane < kSums; ++lane) {
      const double value = x[i + lane];
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane) {
    sums[static_cast<std::size_t>(lane)] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void sgd_step(const SgdScalars& scalars, std::int64_t count, float* parameter, const float* gradient,
              float* momentum) {
  const auto learning_rate = static_cast<float>(scalars.learning_rate);
  const auto factor = static_cast<float>(scalars.momentum);
  const auto decay = static_cast<float>(scalars.weight_decay);
  if (momentum == nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      parameter[i] -= learning_rate * (gradient[i] + decay * parameter[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    momentum[i] = factor * momentum[i] + (gradient[i] + decay * parameter[i]);
    parameter[i] -= learning_rate * momentum[i];
  }
}

void adamw_step(const AdamWScalars& scalars, std::int64_t count, float* parameter, const float* gradient,
                float* exp_avg, float* exp_avg_sq) {
  const auto steps = static_cast<double>(scalars.step_count);
  const double correction1 = 1.0 - std::pow(scalars.beta1, steps);
  const double correction2 = 1.0 - std::pow(scalars.beta2, steps);
  const auto kept = static_cast<float>(1.0 - scalars.learning_rate * scalars.weight_decay);
  const auto step_size = static_cast<float>(scalars.learning_rate / correction1);
  const auto inverse_root2 = static_cast<float>(1.0 / std::sqrt(correction2));
  const auto beta1 = static_cast<float>(scalars.beta1);
  const auto beta2 = static_cast<float>(scalars.beta2);
  const auto rest1 = static_cast<float>(1.0 - scalars.beta1);
  const auto rest2 = static_cast<float>(1.0 - scalars.beta2);
  const auto epsilon = static_cast<float>(scalars.epsilon);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float m = beta1 * exp_avg[i] + rest1 * g;
    const float v = beta2 * exp_avg_sq[i] + rest2 * (g * g);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    parameter[i] = kept * parameter[i] - step_size * (m / (std::sqrt(v) * inverse_root2 + epsilon));
  }
}

}  // namespace muster::device::cpu
