#include "trainer/device/reference_layer_norm.h"

#include <cmath>

#include "trainer/device/reference_elements.h"
#include "trainer/device/shape_checks.h"

namespace muster::device::reference {

void layer_norm_forward(const Tensor& x_tensor, const Tensor& weight, const Tensor& bias, double epsilon,
                        const Tensor& moments, const Tensor& y_tensor) {
  assert_layer_norm_shapes(x_tensor, weight, bias, moments);
  const Elements x(x_tensor);
  const std::int64_t features = x_tensor.shape[1];
  for (std::int64_t row = 0; row < x_tensor.shape[0]; ++row) {
    double mean = 0;
    for (std::int64_t i = 0; i < features; ++i) mean += x[row * features + i];
    mean /= static_cast<double>(features);
    double variance = 0;
    for (std::int64_t i = 0; i < features; ++i) {
      variance += (x[row * features + i] - mean) * (x[row * features + i] - mean);
    }
    variance /= static_cast<double>(features);
    const double inverse_deviation = 1.0 / std::sqrt(variance + epsilon);
    moments.as<double>()[2 * row] = mean;
    moments.as<double>()[2 * row + 1] = inverse_deviation;
    for (std::int64_t i = 0; i < features; ++i) {
      const double normed = (x[row * features + i] - mean) * inverse_deviation;
      Elements(y_tensor).set(row * features + i, normed * Elements(weight)[i] + Elements(bias)[i]);
    }
  }
}

void layer_norm_backward(const Tensor& x_tensor, const Tensor& dy_tensor, const Tensor& weight_tensor,
                         const Tensor& moments, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias) {
  assert_layer_norm_shapes(x_tensor, dweight, dbias, moments);
  const Elements x(x_tensor);
  const Elements dy(dy_tensor);
  const Elements weight(weight_tensor);
  const std::int64_t rows = x_tensor.shape[0];
  const std::int64_t features = x_tensor.shape[1];
  const auto normed = [&](std::int64_t row, std::int64_t i) {
    const double* moment = moments.as<double>() + 2 * row;
    return (x[row * features + i] - moment[0]) * moment[1];
  };
  for (std::int64_t i = 0; i < features; ++i) {
    double weight_sum = 0;
    double bias_sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      weight_sum += dy[row * features + i] * normed(row, i);
      bias_sum += dy[row * features + i];
    }
    Elements(dweight).set(i, weight_sum);
    Elements(dbias).set(i, bias_sum);
  }
  for (std::int64_t row = 0; dx && row < rows; ++row) {
    // The gradient with respect to the normed row, less its mean and its share along that row.
    double sum = 0;
    double projection = 0;
    for (std::int64_t i = 0; i < features; ++i) {
      const double gradient = dy[row * features + i] * weight[i];
      sum += gradient;
      projection += gradient * normed(row, i);
    }
    const auto count = static_cast<double>(features);
    for (std::int64_t i = 0; i < features; ++i) {
      const double gradient = dy[row * features + i] * weight[i];
      Elements(dx).set(
          row * features + i,
          moments.as<double>()[2 * row + 1] * (gradient - sum / count - normed(row, i) * projection / count));
    }
  }
}

}  // namespace muster::device::reference
