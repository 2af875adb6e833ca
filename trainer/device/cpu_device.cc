#include "trainer/device/cpu_device.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "trainer/device/channels_last.h"
#include "trainer/device/cpu_kernels.h"
#include "trainer/device/cpu_layer_norm.h"
#include "trainer/device/cpu_max_pool.h"
#include "trainer/device/dnnl_convolution.h"
#include "trainer/device/dnnl_linear.h"
#include "trainer/device/host_memory.h"
#include "trainer/device/shape_checks.h"

namespace muster::device {
namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(std::unique_ptr<DnnlEngine> engine, WeightLayout layout)
      : engine_(std::move(engine)), linear_(*engine_, layout), convolution_(*engine_) {}

  std::string_view name() const override { return "cpu"; }
  std::string info() const override { return fmt::format("cpu: {}, {}", engine_->info(), linear_.info()); }
  Location location() const override { return Location::kHost; }
  bool supports(DType dtype) const override { return dtype == DType::kFloat32; }
  Result<std::unique_ptr<Memory>> allocate(std::size_t bytes) override { return allocate_host_memory(bytes); }

  Status linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                        ParametersVersion version, const Tensor& y) override {
    assert_linear_shapes(x, weight, bias, y);
    if (x.shape[0] == 0) return {};
    MUSTER_TRY(linear_.forward(x, weight, bias, version, y));
    // Not oneDNN's fused ReLU: that one turns NaN into 0, and would hide a diverged run.
    return activation == Activation::kRelu ? relu_forward(y, y) : Status();
  }

  Status linear_backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version,
                              const Tensor& dx) override {
    assert_linear_shapes(dx, weight, Tensor(), dy);
    if (dy.shape[0] == 0) return {};
    return linear_.backward_data(dy, weight, version, dx);
  }

  Status linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                 const Tensor& dbias) override {
    assert_linear_shapes(x, dweight, dbias, dy);
    if (x.shape[0] > 0) return linear_.backward_weights(x, dy, dweight, dbias);
    MUSTER_TRY(fill(dweight, 0));
    if (dbias) MUSTER_TRY(fill(dbias, 0));
    return {};
  }

  Status conv2d_forward(const Window2d& window, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Activation activation, ParametersVersion version, const Tensor& y) override {
    assert_conv2d_shapes(window, x, weight, bias, y);
    if (x.shape[0] == 0) return {};
    MUSTER_ASSIGN(const Tensor input, staged_[0].read(x));
    MUSTER_ASSIGN(const Tensor output, staged_[1].write(y));
    MUSTER_TRY(convolution_.forward(window, input, weight, bias, version, output));
    // Not oneDNN's fused ReLU: see linear_forward.
    if (activation == Activation::kRelu) MUSTER_TRY(relu_forward(output, output));
    ChannelsLast::deliver(output, y);
    return {};
  }

  Status conv2d_backward_data(const Window2d& window, const Tensor& dy, const Tensor& weight,
                              ParametersVersion version, const Tensor& dx) override {
    assert_conv2d_shapes(window, dx, weight, Tensor(), dy);
    if (dy.shape[0] == 0) return {};
    MUSTER_ASSIGN(const Tensor input, staged_[0].read(dy));
    MUSTER_ASSIGN(const Tensor output, staged_[1].write(dx));
    MUSTER_TRY(convolution_.backward_data(window, input, weight, version, output));
    ChannelsLast::deliver(output, dx);
    return {};
  }

  Status conv2d_backward_weights(const Window2d& window, const Tensor& x, const Tensor& dy,
                                 const Tensor& dweight, const Tensor& dbias) override {
    assert_conv2d_shapes(window, x, dweight, dbias, dy);
    if (x.shape[0] == 0) {
      MUSTER_TRY(fill(dweight, 0));
      return dbias ? fill(dbias, 0) : Status();
    }
    MUSTER_ASSIGN(const Tensor input, staged_[0].read(x));
    MUSTER_ASSIGN(const Tensor gradient, staged_[1].read(dy));
    return convolution_.backward_weights(window, input, gradient, dweight, dbias);
  }

  Status max_pool_forward(const Extent2d& window, const Tensor& x, Activation activation,
                          const Tensor& choice, const Tensor& y) override {
    cpu::max_pool_forward(window, x, activation, choice, y);
    return {};
  }

  Status max_pool_backward(const Extent2d& window, const Tensor& dy, const Tensor& choice,
                           const Tensor& dx) override {
    cpu::max_pool_backward(window, dy, choice, dx);
    return {};
  }

  Status layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                            const Tensor& moments, const Tensor& y) override {
    assert_layer_norm_shapes(x, weight, bias, moments);
    cpu::layer_norm_forward(x.as<float>(), x.shape[0], x.shape[1], weight.as<float>(), bias.as<float>(),
                            epsilon, moments.as<double>(), y.as<float>());
    return {};
  }

  Status layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& weight, const Tensor& moments,
                             const Tensor& dx, const Tensor& dweight, const Tensor& dbias) override {
    assert_layer_norm_shapes(x, dweight, dbias, moments);
    cpu::layer_norm_backward(x.as<float>(), dy.as<float>(), x.shape[0], x.shape[1], weight.as<float>(),
                             moments.as<double>(), dx ? dx.as<float>() : nullptr, dweight.as<float>(),
                             dbias.as<float>());
    return {};
  }

  Status gelu_forward(const Tensor& x, const Tensor& y) override {
    assert_elementwise(x, y);
    cpu::gelu_forward(x.as<float>(), x.elements(), y.as<float>());
    return {};
  }

  Status gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    assert_elementwise(x, dy);
    assert_elementwise(x, dx);
    cpu::gelu_backward(x.as<float>(), dy.as<float>(), x.elements(), dx.as<float>());
    return {};
  }

  Status relu_forward(const Tensor& x, const Tensor& y) override {
    assert_elementwise(x, y);
    cpu::relu_forward(x.as<float>(), x.elements(), y.as<float>());
    return {};
  }

  Status relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    assert_elementwise(y, dy);
    assert_elementwise(y, dx);
    cpu::relu_backward(y.as<float>(), dy.as<float>(), y.elements(), dx.as<float>());
    return {};
  }

  Status dropout_forward(const Tensor& x, double rate, const random::Stream& stream, const Tensor& mask,
                         const Tensor& y) override {
    assert(x.elements() == y.elements() && x.elements() == mask.elements());
    cpu::dropout_forward(x.as<float>(), x.elements(), rate, stream, mask.as<std::uint8_t>(), y.as<float>());
    return {};
  }

  Status dropout_backward(const Tensor& dy, double rate, const Tensor& mask, const Tensor& dx) override {
    assert(dy.elements() == dx.elements() && dy.elements() == mask.elements());
    cpu::dropout_backward(dy.as<float>(), mask.as<std::uint8_t>(), dy.elements(), rate, dx.as<float>());
    return {};
  }

  Result<LossSum> softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing,
                                        double scale, const Tensor& dlogits) override {
    assert(logits.rank == 2 && labels.elements() == logits.shape[0]);
    const std::int64_t classes = logits.shape[1];
    const auto* label = labels.as<std::int32_t>();
    LossSum sum;
    for (std::int64_t row = 0; row < logits.shape[0]; ++row) {
      assert(label[row] >= 0 && label[row] < classes);
      cpu::softmax_cross_entropy_row(logits.as<float>() + row * classes, classes, label[row], smoothing,
                                     scale, dlogits ? dlogits.as<float>() + row * classes : nullptr, sum);
    }
    return sum;
  }

  Status fill(const Tensor& x, double value) override {
    std::fill_n(x.as<float>(), x.elements(), static_cast<float>(value));
    return {};
  }

  Status copy(const Tensor& from, const Tensor& to) override {
    assert(from.dtype == to.dtype && from.elements() == to.elements());
    if (from.elements() > 0 && from.data != to.data) std::memcpy(to.data, from.data, from.bytes());
    return {};
  }

  Status scale(const Tensor& x, double factor) override {
    cpu::scale(x.as<float>(), x.elements(), static_cast<float>(factor));
    return {};
  }

  Status add(const Tensor& a, const Tensor& b, const Tensor& sum) override {
    assert(a.elements() == b.elements() && a.elements() == sum.elements());
    cpu::add(a.as<float>(), b.as<float>(), a.elements(), sum.as<float>());
    return {};
  }

  Result<double> squared_norm(const Tensor& x) override {
    return cpu::squared_norm(x.as<float>(), x.elements());
  }

  Status sgd_step(const SgdScalars& scalars, const Tensor& parameter, const Tensor& gradient,
                  const Tensor& momentum) override {
    assert(parameter.elements() == gradient.elements());
    assert(momentum ? momentum.elements() == parameter.elements() : scalars.momentum == 0);
    cpu::sgd_step(scalars, parameter.elements(), parameter.as<float>(), gradient.as<float>(),
                  momentum ? momentum.as<float>() : nullptr);
    return {};
  }

  Status adamw_step(const AdamWScalars& scalars, const Tensor& parameter, const Tensor& gradient,
                    const Tensor& exp_avg, const Tensor& exp_avg_sq) override {
    assert(parameter.elements() == gradient.elements() && parameter.elements() == exp_avg.elements() &&
           parameter.elements() == exp_avg_sq.elements() && scalars.step_count >= 1);
    cpu::adamw_step(scalars, parameter.elements(), parameter.as<float>(), gradient.as<float>(),
                    exp_avg.as<float>(), exp_avg_sq.as<float>());
    return {};
  }

 private:
  std::unique_ptr<DnnlEngine> engine_;
  DnnlLinear linear_;
  DnnlConvolution convolution_;
  ChannelsLast staged_[2];  // inputs and outputs of a convolution that are row-major
};

}  // namespace

Result<std::unique_ptr<Device>> make_cpu_device(const CpuOptions& options) {
  if (options.threads < 1) {
    return fail(ErrorCode::kInvalidArgument, "threads is {}; it must be at least 1", options.threads);
  }
  const auto layout = options.native_weight_layout ? WeightLayout::kLibrary : WeightLayout::kByIsa;
  MUSTER_ASSIGN(auto engine, DnnlEngine::create(options.threads));
  return std::make_unique<CpuDevice>(std::move(engine), layout);
}

}  // namespace muster::device
