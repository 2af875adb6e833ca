// Tensors that own their memory, filled from doubles or with reproducible random values, and the distance
// between two of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "trainer/device/tensor.h"
#include "trainer/random/philox.h"

namespace muster::testing {

// Uniform in [-1, 1), exactly representable in fp32.
inline std::vector<double> random_values(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> words(count);
  random::Stream{.key = {static_cast<std::uint32_t>(seed), 0x7465u}}.fill(words);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 2.0 * random::to_uniform(words[i]) - 1.0;
  return values;
}

class TestTensor {
 public:
  // Zeros, offset_bytes after a 64-byte boundary.
  TestTensor(device::DType dtype, std::vector<std::int64_t> shape, std::size_t offset_bytes = 0) {
    view_ = device::Tensor(nullptr, dtype, std::span<const std::int64_t>(shape));
    const std::size_t lines = (view_.bytes() + offset_bytes) / device::kAlignmentBytes + 1;
    memory_.reset(static_cast<std::byte*>(
        std::aligned_alloc(device::kAlignmentBytes, lines * device::kAlignmentBytes)));
    if (!memory_) throw std::runtime_error("out of memory");
    std::fill_n(memory_.get(), lines * device::kAlignmentBytes, std::byte{0});
    view_.data = memory_.get() + offset_bytes;
  }

  static TestTensor of(device::DType dtype, std::vector<std::int64_t> shape,
                       const std::vector<double>& values, std::size_t offset_bytes = 0) {
    TestTensor tensor(dtype, std::move(shape), offset_bytes);
    tensor.set(values);
    return tensor;
  }
  static TestTensor random(device::DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed,
                           std::size_t offset_bytes = 0) {
    TestTensor tensor(dtype, std::move(shape), offset_bytes);
    tensor.set(random_values(static_cast<std::size_t>(tensor.view_.elements()), seed));
    return tensor;
  }
  static TestTensor labels(const std::vector<std::int32_t>& values) {
    TestTensor tensor(device::DType::kInt32, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.view_.as<std::int32_t>());
    return tensor;
  }

  operator const device::Tensor&() const { return view_; }  // NOLINT(google-explicit-constructor)
  const device::Tensor& view() const { return view_; }

  void set(const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }
  void set(std::size_t index, double value) {
    if (view_.dtype == device::DType::kFloat64) {
      view_.as<double>()[index] = value;
    } else {
      view_.as<float>()[index] = static_cast<float>(value);
    }
  }
  std::vector<double> values() const { return values_of(view_); }

  static std::vector<double> values_of(const device::Tensor& tensor) {
    std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = tensor.dtype == device::DType::kFloat64 ? tensor.as<double>()[i]
                                                          : static_cast<double>(tensor.as<float>()[i]);
    }
    return values;
  }

  // The bytes, for comparisons bit by bit.
  std::string bits() const { return bits_of(view_); }
  static std::string bits_of(const device::Tensor& tensor) {
    return {static_cast<const char*>(tensor.data), tensor.bytes()};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  device::Tensor view_;
};

// ‖got - expected‖ / ‖expected‖, in the Euclidean norm; ‖got‖ if the expected values are all zero.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
}

}  // namespace muster::testing
