#include "trainer/device/cpu_max_pool.h"

#include <algorithm>
#include <array>

#include "trainer/device/device.h"
#include "trainer/device/shape_checks.h"

namespace muster::device::cpu {
namespace {

// Channels are worked on in groups: vector code where they lie side by side.
constexpr std::int64_t kGroup = 8;

// Where the channels of one pixel lie.
struct Pixels {
  std::int64_t sample;   // elements from one sample to the next
  std::int64_t row;      // … from one row of pixels to the next
  std::int64_t pixel;    // … from one pixel to the next
  std::int64_t channel;  // … from one channel to the next

  explicit Pixels(const Tensor& images) {
    const auto& [samples, channels, height, width] = images.shape;
    const bool last = images.layout == Layout::kChannelsLast;
    sample = channels * height * width;
    channel = last ? 1 : height * width;
    pixel = last ? channels : 1;
    row = width * pixel;
  }
  std::int64_t at(std::int64_t n, std::int64_t h, std::int64_t w) const {
    return n * sample + h * row + w * pixel;
  }
};

// Channels side by side, or far apart.
enum class Stride : std::uint8_t { kOne, kAny };

template <Stride kStride>
std::int64_t offset(const Pixels& pixels, std::int64_t channel) {
  return kStride == Stride::kOne ? channel : channel * pixels.channel;
}

struct Largest {
  std::array<float, kGroup> value;
  std::array<std::int32_t, kGroup> position;
};

template <Stride kStride>
void load(const float* from, const Pixels& pixels, std::int64_t channels, std::array<float, kGroup>& values) {
  for (std::int64_t c = 0; c < channels; ++c)
    values[static_cast<std::size_t>(c)] = from[offset<kStride>(pixels, c)];
}

// The first largest element of one window in up to kGroup channels.
template <Stride kStride>
Largest largest_of(const Extent2d& window, const float* x, const Pixels& pixels, std::int64_t channels) {
  Largest largest{};
  std::array<float, kGroup> values{};
  load<kStride>(x, pixels, channels, largest.value);
  std::int32_t position = 0;
  for (std::int64_t i = 0; i < window.height; ++i) {
    for (std::int64_t j = 0; j < window.width; ++j, ++position) {
      load<kStride>(x + i * pixels.row + j * pixels.pixel, pixels, channels, values);
      for (std::size_t c = 0; c < kGroup; ++c) {
        // A NaN takes the place of a number, and keeps it.
        const bool larger = (values[c] > largest.value[c]) |
                            ((values[c] != values[c]) & (largest.value[c] == largest.value[c]));
        largest.value[c] = larger ? values[c] : largest.value[c];
        largest.position[c] = larger ? position : largest.position[c];
      }
    }
  }
  return largest;
}

// Calls f(n, h, w, first channel, channels) for each pixel of y and group of channels.
template <class F>
void for_each_group(const Tensor& y, F f) {
  for (std::int64_t n = 0; n < y.shape[0]; ++n) {
    for (std::int64_t h = 0; h < y.shape[2]; ++h) {
      for (std::int64_t w = 0; w < y.shape[3]; ++w) {
        for (std::int64_t c = 0; c < y.shape[1]; c += kGroup) f(n, h, w, c, std::min(kGroup, y.shape[1] - c));
      }
    }
  }
}

template <Stride kXStride, Stride kYStride>
void forward(const Extent2d& window, const Tensor& x, Activation activation, const Tensor& choice,
             const Tensor& y) {
  const Pixels from(x);
  const Pixels to(y);
  for_each_group(
      y, [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t first, std::int64_t channels) {
        const float* corner =
            x.as<float>() + from.at(n, h * window.height, w * window.width) + offset<kXStride>(from, first);
        Largest largest = channels == kGroup ? largest_of<kXStride>(window, corner, from, kGroup)
                                             : largest_of<kXStride>(window, corner, from, channels);
        if (activation == Activation::kRelu) {
          for (std::size_t c = 0; c < kGroup; ++c) {
            largest.position[c] = largest.value[c] > 0.0F ? largest.position[c] : Device::kNoChoice;
            largest.value[c] = largest.value[c] < 0.0F ? 0.0F : largest.value[c];
          }
        }
        const std::int64_t target = to.at(n, h, w) + offset<kYStride>(to, first);
        for (std::int64_t c = 0; c < channels; ++c) {
          y.as<float>()[target + offset<kYStride>(to, c)] = largest.value[static_cast<std::size_t>(c)];
          choice.as<std::uint8_t>()[target + offset<kYStride>(to, c)] =
              static_cast<std::uint8_t>(largest.position[static_cast<std::size_t>(c)]);
        }
      });
}

template <Stride kXStride, Stride kYStride>
void backward(const Extent2d& window, const Tensor& dy, const Tensor& choice, const Tensor& dx) {
  const Pixels from(dx);
  const Pixels to(dy);
  if (dx.shape[2] % window.height != 0 || dx.shape[3] % window.width != 0) {
    std::fill_n(dx.as<float>(), dx.elements(), 0.0F);  // the rest that no window covers
  }
  for_each_group(
      dy, [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t first, std::int64_t channels) {
        std::array<float, kGroup> gradient{};
        std::array<std::int32_t, kGroup> chosen{};
        const std::int64_t source = to.at(n, h, w) + offset<kYStride>(to, first);
        for (std::int64_t c = 0; c < channels; ++c) {
          gradient[static_cast<std::size_t>(c)] = dy.as<float>()[source + offset<kYStride>(to, c)];
          chosen[static_cast<std::size_t>(c)] = choice.as<std::uint8_t>()[source + offset<kYStride>(to, c)];
        }
        float* corner =
            dx.as<float>() + from.at(n, h * window.height, w * window.width) + offset<kXStride>(from, first);
        std::int32_t position = 0;
        for (std::int64_t i = 0; i < window.height; ++i) {
          for (std::int64_t j = 0; j < window.width; ++j, ++position) {
            float* target = corner + i * from.row + j * from.pixel;
            for (std::int64_t c = 0; c < channels; ++c) {
              const auto lane = static_cast<std::size_t>(c);
              target[offset<kXStride>(from, c)] = chosen[lane] == position ? gradient[lane] : 0.0F;
            }
          }
        }
      });
}

// Calls f with the strides of both tensors' channels as compile-time constants.
template <class F>
void with_strides(const Tensor& x, const Tensor& y, F f) {
  using One = std::integral_constant<Stride, Stride::kOne>;
  using Any = std::integral_constant<Stride, Stride::kAny>;
  const bool x_last = x.layout == Layout::kChannelsLast;
  const bool y_last = y.layout == Layout::kChannelsLast;
  if (x_last && y_last) return f(One(), One());
  if (x_last) return f(One(), Any());
  if (y_last) return f(Any(), One());
  return f(Any(), Any());
}

}  // namespace

void max_pool_forward(const Extent2d& window, const Tensor& x, Activation activation, const Tensor& choice,
                      const Tensor& y) {
  assert_max_pool_shapes(window, x, choice, y);
  with_strides(x, y, [&](auto x_stride, auto y_stride) {
    forward<x_stride(), y_stride()>(window, x, activation, choice, y);
  });
}

void max_pool_backward(const Extent2d& window, const Tensor& dy, const Tensor& choice, const Tensor& dx) {
  assert_max_pool_shapes(window, dx, choice, dy);
  with_strides(dx, dy, [&](auto x_stride, auto y_stride) {
    backward<x_stride(), y_stride()>(window, dy, choice, dx);
  });
}

}  // namespace muster::device::cpu
