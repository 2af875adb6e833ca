#include "trainer/models/lenet.h"

#include <fmt/ranges.h>

#include <utility>

#include "trainer/models/classifier.h"
#include "trainer/nn/conv2d.h"
#include "trainer/nn/dropout.h"
#include "trainer/nn/linear.h"
#include "trainer/nn/max_pool.h"

namespace muster::models {

Result<std::unique_ptr<Model>> make_lenet(const ModelConfig& config) {
  constexpr std::int64_t kSizeMin = 4;  // two poolings halve it twice
  constexpr std::int64_t kUnits = 512;
  nn::SampleShape shape = config.input_shape;
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  if (shape.size() != 3 || shape[1] < kSizeMin || shape[2] < kSizeMin) {
    return fail(
        ErrorCode::kInvalidArgument,
        "model lenet on samples of shape [{}]; allowed: images, [height, width] or [channels, height, "
        "width], of at least {} by {} pixels",
        fmt::join(config.input_shape, ", "), kSizeMin, kSizeMin);
  }

  std::vector<std::unique_ptr<nn::Layer>> layers;
  const auto convolution_and_pooling = [&](const char* name, std::int64_t channels) {
    nn::Conv2dOptions options;
    options.out_channels = channels;
    options.kernel = {5, 5};
    options.window.padding = {2, 2};
    layers.push_back(std::make_unique<nn::Conv2d>(name, shape, options));
    shape = layers.back()->output_shape();
    // The ReLU is in the pooling, where it has a quarter of the elements to do: see max_pool.h.
    layers.push_back(std::make_unique<nn::MaxPool>(shape, device::Extent2d{2, 2}, device::Activation::kRelu));
    shape = layers.back()->output_shape();
  };
  convolution_and_pooling("conv1", 32);
  convolution_and_pooling("conv2", 64);
  layers.push_back(
      std::make_unique<nn::Linear>("fc1", nn::elements_of(shape), kUnits, device::Activation::kRelu));
  if (config.dropout > 0) {
    layers.push_back(std::make_unique<nn::Dropout>(nn::SampleShape{kUnits}, config.dropout, 0));
  }
  layers.push_back(std::make_unique<nn::Linear>("fc2", kUnits, config.classes));
  return std::make_unique<Classifier>(config, std::move(layers));
}

}  // namespace muster::models
