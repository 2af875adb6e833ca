#include "trainer/models/mlp.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/models/classifier.h"
#include "trainer/nn/dropout.h"
#include "trainer/nn/gelu.h"
#include "trainer/nn/layer_norm.h"
#include "trainer/nn/linear.h"
#include "trainer/nn/relu.h"

namespace muster::models {

std::unique_ptr<Model> make_mlp(const ModelConfig& config) {
  std::vector<std::unique_ptr<nn::Layer>> layers;
  std::int64_t width = nn::elements_of(config.input_shape);
  std::uint32_t index = 0;
  const bool gelu = config.activation == "gelu";
  const auto linear_activation =
      gelu || config.layer_norm ? device::Activation::kNone : device::Activation::kRelu;
  for (const std::int64_t hidden : config.hidden) {
    const nn::SampleShape shape = {hidden};
    layers.push_back(
        std::make_unique<nn::Linear>(fmt::format("layer{}", index), width, hidden, linear_activation));
    if (config.layer_norm) {
      layers.push_back(std::make_unique<nn::LayerNorm>(fmt::format("norm{}", index), shape));
    }
    if (gelu) {
      layers.push_back(std::make_unique<nn::Gelu>(shape));
    } else if (config.layer_norm) {
      layers.push_back(std::make_unique<nn::Relu>(shape));
    }
    if (config.dropout > 0) layers.push_back(std::make_unique<nn::Dropout>(shape, config.dropout, index));
    width = hidden;
    ++index;
  }
  layers.push_back(std::make_unique<nn::Linear>(fmt::format("layer{}", index), width, config.classes));
  return std::make_unique<Classifier>(config, std::move(layers));
}

}  // namespace muster::models
