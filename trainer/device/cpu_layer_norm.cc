#include "trainer/device/cpu_layer_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace muster::device::cpu {
namespace {

// The sum of term(i) for i in [0, count): four running sums, which hide the latency of an addition.
template <class Term>
double sum_of(std::int64_t count, Term term) {
  std::array<double, 4> sums{};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += term(i + static_cast<std::int64_t>(lane));
  }
  for (; i < count; ++i) sums[0] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double normed(float x, const double* moments) { return (x - moments[0]) * moments[1]; }

}  // namespace

void layer_norm_forward(const float* x, std::int64_t rows, std::int64_t features, const float* weight,
                        const float* bias, double epsilon, double* moments, float* y) {
  const auto count = static_cast<double>(features);
  for (std::int64_t row = 0; row < rows; ++row, x += features, y += features, moments += 2) {
    moments[0] = sum_of(features, [&](std::int64_t i) { return static_cast<double>(x[i]); }) / count;
    const double variance =
        sum_of(features, [&](std::int64_t i) { return (x[i] - moments[0]) * (x[i] - moments[0]); }) / count;
    moments[1] = 1.0 / std::sqrt(variance + epsilon);
    for (std::int64_t i = 0; i < features; ++i) {
      y[i] = static_cast<float>(normed(x[i], moments)) * weight[i] + bias[i];
    }
  }
}

void layer_norm_backward(const float* x, const float* dy, std::int64_t rows, std::int64_t features,
                         const float* weight, const double* moments, float* dx, float* dweight,
                         float* dbias) {
  const auto count = static_cast<double>(features);
  std::fill_n(dweight, features, 0.0F);
  std::fill_n(dbias, features, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row, x += features, dy += features, moments += 2) {
    for (std::int64_t i = 0; i < features; ++i) {
      dweight[i] += dy[i] * static_cast<float>(normed(x[i], moments));
      dbias[i] += dy[i];
    }
    if (dx == nullptr) continue;
    // The gradient with respect to the normed row, less its mean and its share along that row.
    const auto gradient = [&](std::int64_t i) { return static_cast<double>(dy[i]) * weight[i]; };
    const double mean = sum_of(features, gradient) / count;
    const double projection =
        sum_of(features, [&](std::int64_t i) { return gradient(i) * normed(x[i], moments); }) / count;
    for (std::int64_t i = 0; i < features; ++i) {
      dx[i] = static_cast<float>(moments[1] * (gradient(i) - mean - normed(x[i], moments) * projection));
    }
    dx += features;
  }
}

}  // namespace muster::device::cpu
