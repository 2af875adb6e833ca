#include "trainer/nn/parameter.h"

#include <cassert>
#include <cmath>
#include <numeric>

#include "trainer/random/philox.h"

namespace muster::nn {

std::int64_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void initialise_parameters(std::span<const ParameterSpec> specs, std::uint64_t seed,
                           std::span<const device::Tensor> parameters) {
  assert(specs.size() == parameters.size());
  const random::Key key = random::make_key(seed, random::Purpose::kInitialise);
  std::vector<std::uint32_t> words;
  for (std::size_t index = 0; index < specs.size(); ++index) {
    const ParameterSpec& spec = specs[index];
    const device::Tensor& tensor = parameters[index];
    assert(tensor.location == device::Location::kHost && tensor.elements() == spec.elements());
    const double centre = spec.initializer == Initializer::kOne ? 1.0 : 0.0;
    const double bound = spec.initializer == Initializer::kKaimingUniform
                             ? 1.0 / std::sqrt(static_cast<double>(spec.fan_in))
                             : 0.0;
    words.resize(static_cast<std::size_t>(spec.elements()));
    random::Stream{.key = key, .step = index}.fill(words);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto value = static_cast<float>(centre + bound * (2.0 * random::to_uniform(words[i]) - 1.0));
      if (tensor.dtype == device::DType::kFloat64) {
        tensor.as<double>()[i] = value;
      } else {
        tensor.as<float>()[i] = value;
      }
    }
  }
}

}  // namespace muster::nn
