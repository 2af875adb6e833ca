#include "trainer/device/reference_images.h"

#include <cmath>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/device/reference_elements.h"
#include "trainer/device/shape_checks.h"

namespace muster::device::reference {
namespace {

// Calls f(n, c, h, w) for every element of images.
template <class F>
void for_each_element(const Tensor& images, F f) {
  for (std::int64_t n = 0; n < images.shape[0]; ++n) {
    for (std::int64_t c = 0; c < images.shape[1]; ++c) {
      for (std::int64_t h = 0; h < images.shape[2]; ++h) {
        for (std::int64_t w = 0; w < images.shape[3]; ++w) f(n, c, h, w);
      }
    }
  }
}

void fill_zero(const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) Elements(tensor).set(i, 0);
}

// Sums of a tensor's elements, in double until store() rounds each once.
class Sums {
 public:
  explicit Sums(const Tensor& target)
      : target_(target), values_(static_cast<std::size_t>(target.elements())) {}
  void add(std::int64_t index, double value) { values_[static_cast<std::size_t>(index)] += value; }
  void store() const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      Elements(target_).set(static_cast<std::int64_t>(i), values_[i]);
    }
  }

 private:
  const Tensor& target_;
  std::vector<double> values_;
};

}  // namespace

void conv2d_forward(const Window2d& window, const Tensor& x_tensor, const Tensor& weight_tensor,
                    const Tensor& bias, Activation activation, const Tensor& y_tensor) {
  assert_conv2d_shapes(window, x_tensor, weight_tensor, bias, y_tensor);
  const ImageElements x(x_tensor);
  const ImageElements weight(weight_tensor);
  const ImageElements y(y_tensor);
  for_each_element(y_tensor, [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
    double sum = bias ? Elements(bias)[o] : 0.0;
    const std::int64_t top = h * window.stride.height - window.padding.height;
    const std::int64_t left = w * window.stride.width - window.padding.width;
    for (std::int64_t c = 0; c < weight_tensor.shape[1]; ++c) {
      for (std::int64_t i = 0; i < weight_tensor.shape[2]; ++i) {
        for (std::int64_t j = 0; j < weight_tensor.shape[3]; ++j) {
          sum += x.at(n, c, top + i, left + j) * weight.at(o, c, i, j);
        }
      }
    }
    y.set(n, o, h, w, activated(sum, activation));
  });
}

void conv2d_backward_data(const Window2d& window, const Tensor& dy_tensor, const Tensor& weight_tensor,
                          const Tensor& dx_tensor) {
  assert_conv2d_shapes(window, dx_tensor, weight_tensor, Tensor(), dy_tensor);
  const ImageElements dy(dy_tensor);
  const ImageElements dx(dx_tensor);
  const ImageElements weight(weight_tensor);
  Sums sums(dx_tensor);
  for_each_element(dy_tensor, [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
    for (std::int64_t i = 0; i < weight_tensor.shape[2]; ++i) {
      for (std::int64_t j = 0; j < weight_tensor.shape[3]; ++j) {
        const std::int64_t row = h * window.stride.height - window.padding.height + i;
        const std::int64_t column = w * window.stride.width - window.padding.width + j;
        if (row < 0 || row >= dx_tensor.shape[2] || column < 0 || column >= dx_tensor.shape[3]) continue;
        for (std::int64_t c = 0; c < weight_tensor.shape[1]; ++c) {
          sums.add(dx.index(n, c, row, column), dy.at(n, o, h, w) * weight.at(o, c, i, j));
        }
      }
    }
  });
  sums.store();
}

void conv2d_backward_weights(const Window2d& window, const Tensor& x_tensor, const Tensor& dy_tensor,
                             const Tensor& dweight_tensor, const Tensor& dbias) {
  assert_conv2d_shapes(window, x_tensor, dweight_tensor, dbias, dy_tensor);
  const ImageElements x(x_tensor);
  const ImageElements dy(dy_tensor);
  const ImageElements dweight(dweight_tensor);
  for_each_element(dweight_tensor, [&](std::int64_t o, std::int64_t c, std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (std::int64_t n = 0; n < dy_tensor.shape[0]; ++n) {
      for (std::int64_t h = 0; h < dy_tensor.shape[2]; ++h) {
        for (std::int64_t w = 0; w < dy_tensor.shape[3]; ++w) {
          sum += dy.at(n, o, h, w) * x.at(n, c, h * window.stride.height - window.padding.height + i,
                                          w * window.stride.width - window.padding.width + j);
        }
      }
    }
    dweight.set(o, c, i, j, sum);
  });
  if (!dbias) return;
  Sums sums(dbias);
  for_each_element(dy_tensor, [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
    sums.add(o, dy.at(n, o, h, w));
  });
  sums.store();
}

void max_pool_forward(const Extent2d& window, const Tensor& x_tensor, Activation activation,
                      const Tensor& choice, const Tensor& y_tensor) {
  assert_max_pool_shapes(window, x_tensor, choice, y_tensor);
  const ImageElements x(x_tensor);
  const ImageElements y(y_tensor);
  for_each_element(y_tensor, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double largest = x.at(n, c, h * window.height, w * window.width);
    std::uint8_t chosen = 0;
    for (std::int64_t position = 1; position < window.height * window.width; ++position) {
      const double value =
          x.at(n, c, h * window.height + position / window.width, w * window.width + position % window.width);
      if (value > largest || (std::isnan(value) && !std::isnan(largest))) {
        largest = value;
        chosen = static_cast<std::uint8_t>(position);
      }
    }
    if (activation == Activation::kRelu && !(largest > 0)) chosen = Device::kNoChoice;
    choice.as<std::uint8_t>()[y.index(n, c, h, w)] = chosen;
    y.set(n, c, h, w, activated(largest, activation));
  });
}

void max_pool_backward(const Extent2d& window, const Tensor& dy_tensor, const Tensor& choice,
                       const Tensor& dx_tensor) {
  assert_max_pool_shapes(window, dx_tensor, choice, dy_tensor);
  const ImageElements dy(dy_tensor);
  const ImageElements dx(dx_tensor);
  fill_zero(dx_tensor);
  for_each_element(dy_tensor, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const std::int64_t position = choice.as<std::uint8_t>()[dy.index(n, c, h, w)];
    if (position == Device::kNoChoice) return;
    dx.set(n, c, h * window.height + position / window.width, w * window.width + position % window.width,
           dy.at(n, c, h, w));
  });
}

}  // namespace muster::device::reference
