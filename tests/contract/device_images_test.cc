// Convolution and pooling on every Device, against the reference device in double precision, in all layouts.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/contract/device_contract.h"

namespace muster::device {
namespace {

constexpr Layout kLayouts[] = {Layout::kRowMajor, Layout::kChannelsLast};

Tensor with_layout(const TestTensor& images, Layout layout) {
  Tensor view = images;
  view.layout = layout;
  return view;
}

// The same images on both sides: row-major on the reference, in `layout` on the device.
struct BothImages {
  TestTensor narrow;
  TestTensor wide;
  Layout layout;

  BothImages(const std::vector<std::int64_t>& shape, std::uint64_t seed, Layout layout_in)
      : narrow(DType::kFloat32, shape),
        wide(TestTensor::random(DType::kFloat64, shape, seed)),
        layout(layout_in) {
    const auto values = wide.values();
    for (std::size_t i = 0; i < values.size(); ++i) narrow.set(place(i), values[i]);
  }

  // Where element i of row-major images lies.
  std::size_t place(std::size_t i) const {
    if (layout == Layout::kRowMajor) return i;
    const auto& shape = wide.view().shape;
    const auto pixels = static_cast<std::size_t>(shape[2] * shape[3]);
    const auto channels = static_cast<std::size_t>(shape[1]);
    const std::size_t n = i / (channels * pixels);
    const std::size_t c = i / pixels % channels;
    return (n * pixels + i % pixels) * channels + c;
  }
  Tensor view() const { return with_layout(narrow, layout); }
  std::vector<double> row_major() const {
    const auto stored = narrow.values();
    std::vector<double> values(stored.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = stored[place(i)];
    return values;
  }
  double error() const { return relative_error(row_major(), wide.values()); }
};

struct Convolution {
  std::int64_t samples;
  std::int64_t in;
  Extent2d image;
  std::int64_t out;
  Extent2d kernel;
  Window2d window;
  std::vector<std::int64_t> y_shape() const {
    return {samples, out,
            window_places(image.height, kernel.height, window.stride.height, window.padding.height),
            window_places(image.width, kernel.width, window.stride.width, window.padding.width)};
  }
};

// The model's own shapes; no sample, one sample; odd channels; images, kernels, strides and paddings that are
// not square; a kernel of one pixel and one as large as the image.
const Convolution kConvolutions[] = {
    {2, 1, {28, 28}, 32, {5, 5}, {{1, 1}, {2, 2}}}, {1, 32, {14, 14}, 64, {5, 5}, {{1, 1}, {2, 2}}},
    {16, 1, {8, 8}, 32, {5, 5}, {{1, 1}, {2, 2}}},  {0, 3, {6, 5}, 4, {3, 3}, {{1, 1}, {1, 1}}},
    {1, 5, {9, 11}, 7, {3, 3}, {{2, 2}, {1, 1}}},   {3, 3, {9, 11}, 16, {3, 2}, {{1, 2}, {1, 0}}},
    {2, 12, {7, 6}, 20, {2, 4}, {{2, 1}, {0, 3}}},  {3, 16, {5, 9}, 8, {1, 1}, {{1, 1}, {0, 0}}},
    {2, 17, {4, 6}, 33, {4, 6}, {{1, 1}, {0, 0}}},  {1, 1, {5, 5}, 1, {5, 5}, {{3, 2}, {2, 4}}}};

std::string text_of(const Convolution& c) {
  return fmt::format("{} samples of {}x{}x{}, {} of {}x{}, stride {}x{}, padding {}x{}", c.samples, c.in,
                     c.image.height, c.image.width, c.out, c.kernel.height, c.kernel.width,
                     c.window.stride.height, c.window.stride.width, c.window.padding.height,
                     c.window.padding.width);
}

using DeviceImages = DeviceContract;

void check_convolution(Device& device, Device& reference, const Convolution& c, Layout x_layout,
                       Layout y_layout) {
  const BothImages x({c.samples, c.in, c.image.height, c.image.width}, 1, x_layout);
  const Both weight({c.out, c.in, c.kernel.height, c.kernel.width}, 2);
  const Both bias({c.out}, 3);
  const BothImages y(c.y_shape(), 4, y_layout);
  for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
    ASSERT_TRUE(
        device.conv2d_forward(c.window, x.view(), weight.narrow, bias.narrow, activation, 0, y.view()));
    ASSERT_TRUE(reference.conv2d_forward(c.window, x.wide, weight.wide, bias.wide, activation, 0, y.wide));
    EXPECT_LE(y.error(), kTolerance);
  }
  ASSERT_TRUE(
      device.conv2d_forward(c.window, x.view(), weight.narrow, Tensor(), Activation::kNone, 0, y.view()));
  ASSERT_TRUE(
      reference.conv2d_forward(c.window, x.wide, weight.wide, Tensor(), Activation::kNone, 0, y.wide));
  EXPECT_LE(y.error(), kTolerance) << "without bias";

  const BothImages dy(c.y_shape(), 5, y_layout);
  const BothImages dx({c.samples, c.in, c.image.height, c.image.width}, 6, x_layout);
  const Both dweight({c.out, c.in, c.kernel.height, c.kernel.width}, 7);  // old contents must not matter
  const Both dbias({c.out}, 8);
  ASSERT_TRUE(device.conv2d_backward_data(c.window, dy.view(), weight.narrow, 0, dx.view()));
  ASSERT_TRUE(reference.conv2d_backward_data(c.window, dy.wide, weight.wide, 0, dx.wide));
  EXPECT_LE(dx.error(), kTolerance);
  ASSERT_TRUE(device.conv2d_backward_weights(c.window, x.view(), dy.view(), dweight.narrow, dbias.narrow));
  ASSERT_TRUE(reference.conv2d_backward_weights(c.window, x.wide, dy.wide, dweight.wide, dbias.wide));
  EXPECT_LE(dweight.error(), kTolerance);
  EXPECT_LE(dbias.error(), kTolerance);
  ASSERT_TRUE(device.conv2d_backward_weights(c.window, x.view(), dy.view(), dweight.narrow, Tensor()));
  EXPECT_LE(dweight.error(), kTolerance) << "without bias";
}

TEST_P(DeviceImages, Convolution) {
  for (const Convolution& convolution : kConvolutions) {
    for (const Layout x_layout : kLayouts) {
      for (const Layout y_layout : kLayouts) {
        // The large ones in the model's layout only: the reference is slow.
        const bool large = convolution.image.height > 9;
        if (large && (x_layout != Layout::kChannelsLast || y_layout != Layout::kChannelsLast)) continue;
        SCOPED_TRACE(
            fmt::format("{}, layouts {} and {}", text_of(convolution), int(x_layout), int(y_layout)));
        check_convolution(*device, *reference, convolution, x_layout, y_layout);
      }
    }
  }
}

TEST_P(DeviceImages, ConvolutionParametersThatChangeAreSeen) {
  const Window2d window{{1, 1}, {1, 1}};
  const auto x = TestTensor::random(DType::kFloat32, {2, 8, 6, 6}, 1);
  auto weight = TestTensor::random(DType::kFloat32, {8, 8, 3, 3}, 2);
  const TestTensor y(DType::kFloat32, {2, 8, 6, 6});
  const TestTensor dx(DType::kFloat32, {2, 8, 6, 6});
  const auto run = [&](ParametersVersion version) {
    EXPECT_TRUE(device->conv2d_forward(window, x, weight, Tensor(), Activation::kNone, version, y));
    EXPECT_TRUE(device->conv2d_backward_data(window, x, weight, version, dx));
    return y.bits() + dx.bits();
  };
  const auto first = random_values(std::size_t{8} * 8 * 9, 2);
  const auto second = random_values(std::size_t{8} * 8 * 9, 3);
  const std::string with_first = run(1);
  EXPECT_EQ(run(1), with_first);
  weight.set(second);
  const std::string with_second = run(2);
  EXPECT_NE(with_second, with_first);
  weight.set(first);
  EXPECT_EQ(run(0), with_first);
  weight.set(second);
  EXPECT_EQ(run(3), with_second);
}

// Everything that a training step computes, as bits. offset_bytes moves all tensors off their alignment.
std::string convolution_bits(Device& device, const Convolution& c, std::size_t offset_bytes) {
  const auto x =
      TestTensor::random(DType::kFloat32, {c.samples, c.in, c.image.height, c.image.width}, 1, offset_bytes);
  const auto weight =
      TestTensor::random(DType::kFloat32, {c.out, c.in, c.kernel.height, c.kernel.width}, 2, offset_bytes);
  const auto bias = TestTensor::random(DType::kFloat32, {c.out}, 3, offset_bytes);
  const TestTensor y(DType::kFloat32, c.y_shape(), offset_bytes);
  const TestTensor dx(DType::kFloat32, {c.samples, c.in, c.image.height, c.image.width}, offset_bytes);
  const TestTensor dweight(DType::kFloat32, {c.out, c.in, c.kernel.height, c.kernel.width}, offset_bytes);
  const TestTensor dbias(DType::kFloat32, {c.out}, offset_bytes);
  const Tensor images = with_layout(x, Layout::kChannelsLast);
  const Tensor outputs = with_layout(y, Layout::kChannelsLast);
  EXPECT_TRUE(device.conv2d_forward(c.window, images, weight, bias, Activation::kRelu, 0, outputs));
  EXPECT_TRUE(
      device.conv2d_backward_data(c.window, outputs, weight, 0, with_layout(dx, Layout::kChannelsLast)));
  EXPECT_TRUE(device.conv2d_backward_weights(c.window, images, outputs, dweight, dbias));
  return y.bits() + dx.bits() + dweight.bits() + dbias.bits();
}

TEST_P(DeviceImages, ConvolutionsDependOnInputsAndShapesAlone) {
  std::vector<std::string> first;
  for (const Convolution& shape : kConvolutions) first.push_back(convolution_bits(*device, shape, 0));
  // The other way round, elsewhere in memory, on a device that has not seen the other shapes before.
  const auto fresh = GetParam().make();
  for (std::size_t i = std::size(kConvolutions); i-- > 0;) {
    SCOPED_TRACE(text_of(kConvolutions[i]));
    for (const std::size_t offset : {0u, 4u, 16u, 36u}) {
      EXPECT_EQ(convolution_bits(*device, kConvolutions[i], offset), first[i]) << "offset " << offset;
    }
    EXPECT_EQ(convolution_bits(*fresh, kConvolutions[i], 0), first[i]);
  }
}

struct Pooling {
  std::vector<std::int64_t> x_shape;
  Extent2d window;
  std::vector<std::int64_t> y_shape() const {
    return {x_shape[0], x_shape[1], x_shape[2] / window.height, x_shape[3] / window.width};
  }
};

// No and one sample, odd channels, images that are not square or not divisible by the window.
const Pooling kPoolings[] = {{{2, 32, 28, 28}, {2, 2}}, {{0, 5, 6, 6}, {2, 2}},  {{1, 1, 4, 4}, {2, 2}},
                             {{3, 7, 9, 11}, {2, 3}},   {{2, 19, 5, 8}, {3, 1}}, {{2, 8, 7, 7}, {1, 1}},
                             {{1, 3, 16, 16}, {15, 17}}};

TEST_P(DeviceImages, MaxPooling) {
  for (const Pooling& pooling : kPoolings) {
    for (const Layout x_layout : kLayouts) {
      for (const Layout y_layout : kLayouts) {
        for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
          SCOPED_TRACE(fmt::format("[{}], window {}x{}, layouts {} and {}, activation {}",
                                   fmt::join(pooling.x_shape, ", "), pooling.window.height,
                                   pooling.window.width, int(x_layout), int(y_layout), int(activation)));
          const BothImages x(pooling.x_shape, 1, x_layout);
          const BothImages y(pooling.y_shape(), 2, y_layout);
          const TestTensor choice(DType::kUint8, pooling.y_shape());
          const TestTensor reference_choice(DType::kUint8, pooling.y_shape());
          ASSERT_TRUE(device->max_pool_forward(pooling.window, x.view(), activation, choice, y.view()));
          ASSERT_TRUE(
              reference->max_pool_forward(pooling.window, x.wide, activation, reference_choice, y.wide));
          EXPECT_EQ(y.row_major(), y.wide.values());
          const BothImages dy(pooling.y_shape(), 3, y_layout);
          const BothImages dx(pooling.x_shape, 4, x_layout);  // old contents must not matter
          ASSERT_TRUE(device->max_pool_backward(pooling.window, dy.view(), choice, dx.view()));
          ASSERT_TRUE(reference->max_pool_backward(pooling.window, dy.wide, reference_choice, dx.wide));
          EXPECT_EQ(dx.row_major(), dx.wide.values());
        }
      }
    }
  }
}

TEST_P(DeviceImages, PoolingChoosesTheFirstOfEqualsAndReluCutsOff) {
  const auto x = TestTensor::of(DType::kFloat32, {1, 1, 2, 6},
                                {3, 3, -1, -2, 0, 0,  //
                                 3, 1, -1, -1, 0, -5});
  const TestTensor y(DType::kFloat32, {1, 1, 1, 3});
  const TestTensor choice(DType::kUint8, {1, 1, 1, 3});
  const auto choices = [&] {
    const auto* data = choice.view().as<std::uint8_t>();
    return std::vector<int>(data, data + 3);
  };
  ASSERT_TRUE(device->max_pool_forward({2, 2}, x, Activation::kNone, choice, y));
  EXPECT_EQ(y.values(), (std::vector<double>{3, -1, 0}));
  EXPECT_EQ(choices(), (std::vector<int>{0, 0, 0}));
  ASSERT_TRUE(device->max_pool_forward({2, 2}, x, Activation::kRelu, choice, y));
  EXPECT_EQ(y.values(), (std::vector<double>{3, 0, 0}));
  EXPECT_EQ(choices(), (std::vector<int>{0, Device::kNoChoice, Device::kNoChoice}));
}

TEST_P(DeviceImages, NothingHidesNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t at = 0; at < 4; ++at) {
    auto x = TestTensor::of(DType::kFloat32, {1, 1, 2, 2}, {1, 5, -2, 3});
    x.set(at, nan);
    const TestTensor y(DType::kFloat32, {1, 1, 1, 1});
    const TestTensor choice(DType::kUint8, {1, 1, 1, 1});
    for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
      ASSERT_TRUE(device->max_pool_forward({2, 2}, x, activation, choice, y));
      EXPECT_TRUE(std::isnan(y.values()[0])) << "NaN at " << at;
      const auto weight = TestTensor::of(DType::kFloat32, {1, 1, 2, 2}, {1, 1, 1, 1});
      ASSERT_TRUE(device->conv2d_forward({}, x, weight, Tensor(), activation, 0, y));
      EXPECT_TRUE(std::isnan(y.values()[0])) << "NaN at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceImages, all_devices(), name_of);

}  // namespace
}  // namespace muster::device
