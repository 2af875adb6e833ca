// SEAM: the arithmetic that layers, losses and optimizers need. Implementations: cpu (oneDNN, fp32),
// reference (plain loops that compute in double, on fp32 or fp64 tensors).
//
// Results depend on the inputs, the shapes, the thread count and (cpu) the instruction set, and on nothing
// else: not on which rank computes, on what was computed before, or on where the tensors lie. info() says
// what they depend on. All floating-point tensors of one call have the same dtype; tensors are row-major
// unless an operation says otherwise; shapes must fit (programmer errors are asserts). Calls with zero rows
// are fine: outputs that sum over rows become zero. Unless an operation says otherwise, outputs must not
// overlap inputs. A failed Status (out of memory, a library or device error) leaves the outputs unspecified.
//
// Threads: one thread at a time drives a Device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "trainer/device/arguments.h"
#include "trainer/device/tensor.h"
#include "trainer/random/philox.h"

namespace muster::device {

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;
  // What results depend on besides inputs and shapes: library, version, instruction set, threads. One line.
  virtual std::string info() const = 0;
  virtual Location location() const = 0;
  virtual bool supports(DType dtype) const = 0;  // as the dtype of activations and parameters

  virtual Result<std::unique_ptr<Memory>> allocate(std::size_t bytes) = 0;

  // ---- Linear: x [n, in], weight [out, in], bias [out], y [n, out] ------------------------------------
  // y = activation(x · weightᵀ + bias). bias may be no tensor.
  virtual Status linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                Activation activation, ParametersVersion version, const Tensor& y) = 0;
  // dx = dy · weight
  virtual Status linear_backward_data(const Tensor& dy, const Tensor& weight, ParametersVersion version,
                                      const Tensor& dx) = 0;
  // dweight = dyᵀ · x, dbias = the sum of dy over rows. dbias may be no tensor.
  virtual Status linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                         const Tensor& dbias) = 0;

  // ---- Images: x [n, c, h, w], y [n, out, h', w'], each in any Layout -------------------------------------
  // Convolution (cross-correlation, as everywhere in this field): weight [out, c, kernel h, kernel w], bias
  // [out]; h' and w' are window_places() of the kernel. `padding` is below the kernel's size.
  virtual Status conv2d_forward(const Window2d& window, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, Activation activation, ParametersVersion version,
                                const Tensor& y) = 0;
  virtual Status conv2d_backward_data(const Window2d& window, const Tensor& dy, const Tensor& weight,
                                      ParametersVersion version, const Tensor& dx) = 0;
  virtual Status conv2d_backward_weights(const Window2d& window, const Tensor& x, const Tensor& dy,
                                         const Tensor& dweight, const Tensor& dbias) = 0;
  // y = activation(the largest of each window); windows lie side by side, and rows and columns that do not
  // fill one are left out. choice (kUint8, one an element of y, in y's order) gets the position in the window
  // of the first largest element, counted along rows, or kNoChoice where the activation cut it off. A NaN is
  // larger than any number. A window has at most kNoChoice elements.
  static constexpr std::uint8_t kNoChoice = 255;
  virtual Status max_pool_forward(const Extent2d& window, const Tensor& x, Activation activation,
                                  const Tensor& choice, const Tensor& y) = 0;
  virtual Status max_pool_backward(const Extent2d& window, const Tensor& dy, const Tensor& choice,
                                   const Tensor& dx) = 0;

  // ---- Layer norm: x, y [n, features], weight and bias [features] ---------------------------------------
  // y = (x - mean) / sqrt(variance + epsilon) · weight + bias, mean and (biased) variance of each row;
  // moments (kFloat64 [n, 2]) gets mean and 1 / sqrt(variance + epsilon).
  virtual Status layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                                    const Tensor& moments, const Tensor& y) = 0;
  // dx may be no tensor.
  virtual Status layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& weight,
                                     const Tensor& moments, const Tensor& dx, const Tensor& dweight,
                                     const Tensor& dbias) = 0;

  // ---- Elementwise, on tensors of one layout; the output may be the input --------------------------------
  virtual Status relu_forward(const Tensor& x, const Tensor& y) = 0;
  // dx = dy where y > 0, else 0; y is what relu_forward gave.
  virtual Status relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) = 0;
  // y = x · Φ(x), Φ the normal distribution's: the exact form, with erf. dx = dy · (Φ(x) + x · φ(x)).
  virtual Status gelu_forward(const Tensor& x, const Tensor& y) = 0;
  virtual Status gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) = 0;
  // Element i is kept if word i of the stream is at least rate · 2^32, and is then scaled by 1 / (1 - rate).
  // mask (kUint8, one an element) gets 1 where kept. 0 <= rate < 1.
  virtual Status dropout_forward(const Tensor& x, double rate, const random::Stream& stream,
                                 const Tensor& mask, const Tensor& y) = 0;
  virtual Status dropout_backward(const Tensor& dy, double rate, const Tensor& mask, const Tensor& dx) = 0;

  // ---- Loss --------------------------------------------------------------------------------------------
  // logits [n, classes], labels kInt32 [n] in [0, classes). The cross-entropy of softmax(logits) with the
  // target (1 - smoothing) · one-hot + smoothing / classes, 0 <= smoothing < 1. dlogits = (softmax - target)
  // · scale; it may be no tensor, or the logits.
  virtual Result<LossSum> softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing,
                                                double scale, const Tensor& dlogits) = 0;

  // ---- Flat arithmetic ---------------------------------------------------------------------------------
  virtual Status fill(const Tensor& x, double value) = 0;
  virtual Status copy(const Tensor& from, const Tensor& to) = 0;
  virtual Status scale(const Tensor& x, double factor) = 0;
  // sum = a + b, rounded once an element. sum may be a or b.
  virtual Status add(const Tensor& a, const Tensor& b, const Tensor& sum) = 0;
  // The sum of squares, in double, in an order that depends on the length alone. Not finite exactly if some
  // element of an fp32 tensor is not.
  virtual Result<double> squared_norm(const Tensor& x) = 0;

  // ---- Optimizer updates, elementwise, as PyTorch defines them -----------------------------------------
  // g = grad + weight_decay · param; momentum = momentum_factor · momentum + g; param -= lr · momentum.
  // With momentum 0, `momentum` may be no tensor.
  virtual Status sgd_step(const SgdScalars& scalars, const Tensor& parameter, const Tensor& gradient,
                          const Tensor& momentum) = 0;
  // Decoupled weight decay and bias correction; the scalars are worked out in double.
  virtual Status adamw_step(const AdamWScalars& scalars, const Tensor& parameter, const Tensor& gradient,
                            const Tensor& exp_avg, const Tensor& exp_avg_sq) = 0;
};

// Names that make_device() knows, and what each is, one line each; includes what this build or machine lacks,
// and why.
std::vector<std::string> list_devices();

// "cpu", "reference": made. "cuda": kUnavailable. Anything else: kInvalidArgument. threads >= 1 is the number
// of threads of matrix products and convolutions on the cpu.
Result<std::unique_ptr<Device>> make_device(std::string_view name, int threads);

}  // namespace muster::device
