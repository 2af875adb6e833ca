#include "trainer/device/reference_device.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "trainer/device/host_memory.h"
#include "trainer/device/reference_elements.h"
#include "trainer/device/reference_images.h"
#include "trainer/device/reference_layer_norm.h"
#include "trainer/device/shape_checks.h"

namespace muster::device {
namespace {

constexpr double kInverseRoot2 = 0.70710678118654752440;    // 1 / sqrt(2)
constexpr double kInverseRoot2Pi = 0.39894228040143267794;  // 1 / sqrt(2 pi)

double normal_distribution(double x) { return 0.5 * (1.0 + std::erf(x * kInverseRoot2)); }

class ReferenceDevice final : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  std::string info() const override { return "reference: plain loops in double precision, 1 thread"; }
  Location location() const override { return Location::kHost; }
  bool supports(DType dtype) const override { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }
  Result<std::unique_ptr<Memory>> allocate(std::size_t bytes) override { return allocate_host_memory(bytes); }

  Status linear_forward(const Tensor& x_tensor, const Tensor& weight_tensor, const Tensor& bias,
                        Activation activation, ParametersVersion /*version*/,
                        const Tensor& y_tensor) override {
    assert_linear_shapes(x_tensor, weight_tensor, bias, y_tensor);
    const Elements x(x_tensor);
    const Elements weight(weight_tensor);
    const Elements y(y_tensor);
    const std::int64_t in = x_tensor.shape[1];
    const std::int64_t out = y_tensor.shape[1];
    for (std::int64_t row = 0; row < x_tensor.shape[0]; ++row) {
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = bias ? Elements(bias)[o] : 0.0;
        for (std::int64_t i = 0; i < in; ++i) sum += x[row * in + i] * weight[o * in + i];
        y.set(row * out + o, activated(sum, activation));
      }
    }
    return {};
  }

  Status linear_backward_data(const Tensor& dy_tensor, const Tensor& weight_tensor,
                              ParametersVersion /*version*/, const Tensor& dx_tensor) override {
    assert_linear_shapes(dx_tensor, weight_tensor, Tensor(), dy_tensor);
    const Elements dy(dy_tensor);
    const Elements weight(weight_tensor);
    const Elements dx(dx_tensor);
    const std::int64_t in = dx_tensor.shape[1];
    const std::int64_t out = dy_tensor.shape[1];
    for (std::int64_t row = 0; row < dy_tensor.shape[0]; ++row) {
      for (std::int64_t i = 0; i < in; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < out; ++o) sum += dy[row * out + o] * weight[o * in + i];
        dx.set(row * in + i, sum);
      }
    }
    return {};
  }

  Status linear_backward_weights(const Tensor& x_tensor, const Tensor& dy_tensor, const Tensor& dweight,
                                 const Tensor& dbias) override {
    assert_linear_shapes(x_tensor, dweight, dbias, dy_tensor);
    const Elements x(x_tensor);
    const Elements dy(dy_tensor);
    const std::int64_t rows = x_tensor.shape[0];
    const std::int64_t in = x_tensor.shape[1];
    const std::int64_t out = dy_tensor.shape[1];
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i) {
        double sum = 0;
        for (std::int64_t row = 0; row < rows; ++row) sum += dy[row * out + o] * x[row * in + i];
        Elements(dweight).set(o * in + i, sum);
      }
      if (!dbias) continue;
      double sum = 0;
      for (std::int64_t row = 0; row < rows; ++row) sum += dy[row * out + o];
      Elements(dbias).set(o, sum);
    }
    return {};
  }

  Status conv2d_forward(const Window2d& window, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Activation activation, ParametersVersion /*version*/, const Tensor& y) override {
    reference::conv2d_forward(window, x, weight, bias, activation, y);
    return {};
  }

  Status conv2d_backward_data(const Window2d& window, const Tensor& dy, const Tensor& weight,
                              ParametersVersion /*version*/, const Tensor& dx) override {
    reference::conv2d_backward_data(window, dy, weight, dx);
    return {};
  }

  Status conv2d_backward_weights(const Window2d& window, const Tensor& x, const Tensor& dy,
                                 const Tensor& dweight, const Tensor& dbias) override {
    reference::conv2d_backward_weights(window, x, dy, dweight, dbias);
    return {};
  }

  Status max_pool_forward(const Extent2d& window, const Tensor& x, Activation activation,
                          const Tensor& choice, const Tensor& y) override {
    reference::max_pool_forward(window, x, activation, choice, y);
    return {};
  }

  Status max_pool_backward(const Extent2d& window, const Tensor& dy, const Tensor& choice,
                           const Tensor& dx) override {
    reference::max_pool_backward(window, dy, choice, dx);
    return {};
  }

  Status layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                            const Tensor& moments, const Tensor& y) override {
    reference::layer_norm_forward(x, weight, bias, epsilon, moments, y);
    return {};
  }

  Status layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& weight, const Tensor& moments,
                             const Tensor& dx, const Tensor& dweight, const Tensor& dbias) override {
    reference::layer_norm_backward(x, dy, weight, moments, dx, dweight, dbias);
    return {};
  }

  Status gelu_forward(const Tensor& x, const Tensor& y) override {
    assert_elementwise(x, y);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const double value = Elements(x)[i];
      Elements(y).set(i, value * normal_distribution(value));
    }
    return {};
  }

  Status gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    assert_elementwise(x, dy);
    assert_elementwise(x, dx);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const double value = Elements(x)[i];
      const double density = kInverseRoot2Pi * std::exp(-0.5 * value * value);
      Elements(dx).set(i, Elements(dy)[i] * (normal_distribution(value) + value * density));
    }
    return {};
  }

  Status relu_forward(const Tensor& x, const Tensor& y) override {
    assert_elementwise(x, y);
    for (std::int64_t i = 0; i < x.elements(); ++i)
      Elements(y).set(i, activated(Elements(x)[i], Activation::kRelu));
    return {};
  }

  Status relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    assert_elementwise(y, dy);
    assert_elementwise(y, dx);
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      Elements(dx).set(i, Elements(y)[i] > 0 ? Elements(dy)[i] : 0.0);
    }
    return {};
  }

  Status dropout_forward(const Tensor& x, double rate, const random::Stream& stream, const Tensor& mask,
                         const Tensor& y) override {
    assert(x.elements() == y.elements() && x.elements() == mask.elements());
    const std::uint32_t threshold = dropout_threshold(rate);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const std::uint32_t word =
          stream.block(static_cast<std::uint32_t>(i / 4))[static_cast<std::size_t>(i % 4)];
      mask.as<std::uint8_t>()[i] = word >= threshold;
    }
    return dropout_backward(x, rate, mask, y);  // the same linear map both ways
  }

  Status dropout_backward(const Tensor& dy, double rate, const Tensor& mask, const Tensor& dx) override {
    assert(dy.elements() == dx.elements() && dy.elements() == mask.elements());
    const double kept_factor = 1.0 / (1.0 - rate);
    for (std::int64_t i = 0; i < dy.elements(); ++i) {
      Elements(dx).set(i, Elements(dy)[i] * (mask.as<std::uint8_t>()[i] != 0 ? kept_factor : 0.0));
    }
    return {};
  }

  Result<LossSum> softmax_cross_entropy(const Tensor& logits_tensor, const Tensor& labels, double smoothing,
                                        double scale, const Tensor& dlogits) override {
    assert(logits_tensor.rank == 2 && labels.elements() == logits_tensor.shape[0]);
    const Elements logits(logits_tensor);
    const std::int64_t classes = logits_tensor.shape[1];
    std::vector<double> row_logits(static_cast<std::size_t>(classes));
    LossSum sum;
    for (std::int64_t row = 0; row < logits_tensor.shape[0]; ++row) {
      const std::int32_t label = labels.as<std::int32_t>()[row];
      assert(label >= 0 && label < classes);
      std::size_t largest = 0;
      for (std::size_t c = 0; c < row_logits.size(); ++c) {
        row_logits[c] = logits[row * classes + static_cast<std::int64_t>(c)];
        if (row_logits[c] > row_logits[largest]) largest = c;
      }
      double total = 0;
      for (const double logit : row_logits) total += std::exp(logit - row_logits[largest]);
      const double log_total = std::log(total) + row_logits[largest];
      const auto target = [&](std::int64_t c) {
        return (c == label ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
      };
      for (std::int64_t c = 0; c < classes; ++c) {
        sum.loss += target(c) * (log_total - row_logits[static_cast<std::size_t>(c)]);
      }
      sum.correct += static_cast<std::int32_t>(largest) == label ? 1 : 0;
      for (std::int64_t c = 0; dlogits && c < classes; ++c) {
        const double probability = std::exp(row_logits[static_cast<std::size_t>(c)] - log_total);
        Elements(dlogits).set(row * classes + c, (probability - target(c)) * scale);
      }
    }
    return sum;
  }

  Status fill(const Tensor& x, double value) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) Elements(x).set(i, value);
    return {};
  }

  Status copy(const Tensor& from, const Tensor& to) override {
    assert(from.dtype == to.dtype && from.elements() == to.elements());
    if (from.elements() > 0 && from.data != to.data) std::memcpy(to.data, from.data, from.bytes());
    return {};
  }

  Status scale(const Tensor& x, double factor) override {
    for (std::int64_t i = 0; i < x.elements(); ++i) Elements(x).set(i, Elements(x)[i] * factor);
    return {};
  }

  Status add(const Tensor& a, const Tensor& b, const Tensor& sum) override {
    assert(a.elements() == b.elements() && a.elements() == sum.elements());
    for (std::int64_t i = 0; i < a.elements(); ++i) Elements(sum).set(i, Elements(a)[i] + Elements(b)[i]);
    return {};
  }

  Result<double> squared_norm(const Tensor& x) override {
    double sum = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i) sum += Elements(x)[i] * Elements(x)[i];
    return sum;
  }

  Status sgd_step(const SgdScalars& scalars, const Tensor& parameter_tensor, const Tensor& gradient,
                  const Tensor& momentum) override {
    assert(parameter_tensor.elements() == gradient.elements());
    assert(momentum ? momentum.elements() == gradient.elements() : scalars.momentum == 0);
    const Elements parameter(parameter_tensor);
    for (std::int64_t i = 0; i < gradient.elements(); ++i) {
      double update = Elements(gradient)[i] + scalars.weight_decay * parameter[i];
      if (momentum) {
        update += scalars.momentum * Elements(momentum)[i];
        Elements(momentum).set(i, update);
      }
      parameter.set(i, parameter[i] - scalars.learning_rate * update);
    }
    return {};
  }

  Status adamw_step(const AdamWScalars& scalars, const Tensor& parameter_tensor, const Tensor& gradient,
                    const Tensor& exp_avg, const Tensor& exp_avg_sq) override {
    assert(parameter_tensor.elements() == gradient.elements() && gradient.elements() == exp_avg.elements() &&
           gradient.elements() == exp_avg_sq.elements() && scalars.step_count >= 1);
    const Elements parameter(parameter_tensor);
    const auto steps = static_cast<double>(scalars.step_count);
    const double correction1 = 1.0 - std::pow(scalars.beta1, steps);
    const double correction2 = 1.0 - std::pow(scalars.beta2, steps);
    for (std::int64_t i = 0; i < gradient.elements(); ++i) {
      const double g = Elements(gradient)[i];
      const double m = scalars.beta1 * Elements(exp_avg)[i] + (1.0 - scalars.beta1) * g;
      const double v = scalars.beta2 * Elements(exp_avg_sq)[i] + (1.0 - scalars.beta2) * g * g;
      Elements(exp_avg).set(i, m);
      Elements(exp_avg_sq).set(i, v);
      const double decayed = parameter[i] * (1.0 - scalars.learning_rate * scalars.weight_decay);
      const double denominator = std::sqrt(v / correction2) + scalars.epsilon;
      parameter.set(i, decayed - scalars.learning_rate * (m / correction1) / denominator);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Device> make_reference_device() { return std::make_unique<ReferenceDevice>(); }

}  // namespace muster::device
