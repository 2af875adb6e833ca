// SEAM: the arithmetic that layers, losses and optimizers need. Implementations: cpu (oneDNN, fp32),
// reference (plain loops that compute in double, on fp32 or fp64 tensors).
//
// Results depend on the inputs, the shapes, the thread count and (cpu) the instruction set, and on nothing
// else: not on which rank computes, on what was computed before, or on where the tensors lie. info() says
// what they depend on. All floating-point tensors of one call have the same dtype; shapes must fit
// (programmer errors are asserts). Calls with zero rows are fine: outputs that sum over rows become zero.
// Unless an operation says otherwise, outputs must not overlap inputs. A failed Status (out of memory, a
// library or device error) leaves the outputs unspecified.
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
#include "trainer/device/tensor.h"
#include "trainer/random/philox.h"

namespace muster::device {

// Owns memory of one device: zero-initialised, aligned to kAlignmentBytes.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() = 0;
  virtual std::size_t bytes() const = 0;
};

enum class Activation : std::uint8_t { kNone, kRelu };

// A promise about parameters: calls that pass the same non-zero version see the same parameter values, so a
// device may keep reordered copies. 0 promises nothing.
using ParametersVersion = std::uint64_t;

struct LossSum {
  double loss = 0;           // summed over samples, in natural-logarithm units, not scaled
  std::int64_t correct = 0;  // samples whose largest logit (the first, if several) is their label's
};

struct SgdScalars {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
};

struct AdamWScalars {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t step_count = 1;  // 1 at the first update
};

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

  // ---- Elementwise; the output may be the input --------------------------------------------------------
  virtual Status relu_forward(const Tensor& x, const Tensor& y) = 0;
  // dx = dy where y > 0, else 0; y is what relu_forward gave.
  virtual Status relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) = 0;
  // Element i is kept if word i of the stream is at least rate · 2^32, and is then scaled by 1 / (1 - rate).
  // mask (kUint8, one an element) gets 1 where kept. 0 <= rate < 1.
  virtual Status dropout_forward(const Tensor& x, double rate, const random::Stream& stream,
                                 const Tensor& mask, const Tensor& y) = 0;
  virtual Status dropout_backward(const Tensor& dy, double rate, const Tensor& mask, const Tensor& dx) = 0;

  // ---- Loss --------------------------------------------------------------------------------------------
  // logits [n, classes], labels kInt32 [n] in [0, classes). dlogits = (softmax - one-hot) · scale; it may be
  // no tensor, or the logits.
  virtual Result<LossSum> softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double scale,
                                                const Tensor& dlogits) = 0;

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
// of threads of matrix products on the cpu.
Result<std::unique_ptr<Device>> make_device(std::string_view name, int threads);

}  // namespace muster::device
