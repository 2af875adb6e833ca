#include "trainer/models/mlp.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/models/classifier.h"
#include "trainer/nn/dropout.h"
#include "trainer/nn/linear.h"

namespace muster::models {

std::unique_ptr<Model> make_mlp(const ModelConfig& config) {
  std::vector<std::unique_ptr<nn::Layer>> layers;
  std::int64_t width = nn::elements_of(config.input_shape);
  std::uint32_t index = 0;
  for (const std::int64_t hidden : config.hidden) {
    layers.push_back(std::make_unique<nn::Linear>(fmt::format("layer{}", index), width, hidden,
                                                  device::Activation::kRelu));
    if (config.dropout > 0) {
      layers.push_back(std::make_unique<nn::Dropout>(nn::SampleShape{hidden}, config.dropout, index));
    }
    width = hidden;
    ++index;
  }
  layers.push_back(std::make_unique<nn::Linear>(fmt::format("layer{}", index), width, config.classes));
  return std::make_unique<Classifier>(config.input_shape, std::move(layers));
}

}  // namespace muster::models
