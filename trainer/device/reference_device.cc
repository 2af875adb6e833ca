#include "trainer/device/reference_device.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "trainer/device/host_memory.h"
#include "trainer/device/shape_checks.h"

namespace muster::device {
namespace {

// Elements of a tensor as doubles, whatever its dtype.
class Elements {
 public:
  explicit Elements(const Tensor& tensor) : data_(tensor.data), wide_(tensor.dtype == DType::kFloat64) {
    assert(wide_ || tensor.dtype == DType::kFloat32);
  }

  double operator[](std::int64_t index) const {
    return wide_ ? static_cast<const double*>(data_)[index]
                 : static_cast<double>(static_cast<const float*>(data_)[index]);
  }
  void set(std::int64_t index, double value) const {
    if (wide_) {
      static_cast<double*>(data_)[index] = value;
    } else {
      static_cast<float*>(data_)[index] = static_cast<float>(value);
    }
  }

 private:
  void* data_;
  bool wide_;
};

double relu(double value) { return value < 0 ? 0.0 : value; }

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
        y.set(row * out + o, activation == Activation::kRelu ? relu(sum) : sum);
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

  Status relu_forward(const Tensor& x, const Tensor& y) override {
    assert(x.elements() == y.elements());
    for (std::int64_t i = 0; i < x.elements(); ++i) Elements(y).set(i, relu(Elements(x)[i]));
    return {};
  }

  Status relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    assert(y.elements() == dy.elements() && y.elements() == dx.elements());
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

  Result<LossSum> softmax_cross_entropy(const Tensor& logits_tensor, const Tensor& labels, double scale,
                                        const Tensor& dlogits) override {
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
      sum.loss += log_total - row_logits[static_cast<std::size_t>(label)];
      sum.correct += static_cast<std::int32_t>(largest) == label ? 1 : 0;
      for (std::int64_t c = 0; dlogits && c < classes; ++c) {
        const double probability = std::exp(row_logits[static_cast<std::size_t>(c)] - log_total);
        Elements(dlogits).set(row * classes + c, (probability - (c == label ? 1.0 : 0.0)) * scale);
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
