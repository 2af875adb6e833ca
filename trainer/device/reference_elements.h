// How the reference device sees tensors: elements as doubles, whatever the dtype, at (n, c, h, w) whatever
// the layout.
#pragma once

#include <cassert>
#include <cstdint>

#include "trainer/device/arguments.h"
#include "trainer/device/tensor.h"

namespace muster::device {

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

class ImageElements {
 public:
  explicit ImageElements(const Tensor& images) : elements_(images), images_(images) {
    assert(images.rank == 4);
  }

  std::int64_t index(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    const auto& [samples, channels, height, width] = images_.shape;
    return images_.layout == Layout::kChannelsLast ? ((n * height + h) * width + w) * channels + c
                                                   : ((n * channels + c) * height + h) * width + w;
  }
  // 0 outside of the image.
  double at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    if (h < 0 || h >= images_.shape[2] || w < 0 || w >= images_.shape[3]) return 0;
    return elements_[index(n, c, h, w)];
  }
  void set(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, double value) const {
    elements_.set(index(n, c, h, w), value);
  }

 private:
  Elements elements_;
  const Tensor& images_;
};

// ReLU, written so that a NaN stays one.
inline double activated(double value, Activation activation) {
  return activation == Activation::kRelu && value < 0 ? 0.0 : value;
}

}  // namespace muster::device
