// The small types that operations of a Device take and give.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::device {

// Owns memory of one device: zero-initialised, aligned to kAlignmentBytes.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() = 0;
  virtual std::size_t bytes() const = 0;
};

// What an operation applies to its result before it stores it. ReLU keeps a NaN: it must not hide a diverged
// run.
enum class Activation : std::uint8_t { kNone, kRelu };

// A promise about parameters: calls that pass the same non-zero version see the same parameter values, so a
// device may keep reordered copies. 0 promises nothing.
using ParametersVersion = std::uint64_t;

struct Extent2d {
  std::int64_t height = 1;
  std::int64_t width = 1;
};

// How a window moves over images: output row o reads the rows o · stride - padding and the window's height -
// 1 that follow; rows outside of the image are zero. Columns likewise.
struct Window2d {
  Extent2d stride{1, 1};
  Extent2d padding{0, 0};  // on each side
};

// Places of a window of `size` on a line of `in`, of which the last may leave a rest of the line uncovered.
// 0 if it does not fit.
constexpr std::int64_t window_places(std::int64_t in, std::int64_t size, std::int64_t stride,
                                     std::int64_t padding) {
  return in + 2 * padding < size ? 0 : (in + 2 * padding - size) / stride + 1;
}

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

}  // namespace muster::device
