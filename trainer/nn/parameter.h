// What a layer says about its parameters, and their deterministic initial values. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/device/tensor.h"

namespace muster::nn {

enum class Initializer : std::uint8_t {
  kZero,
  kOne,
  // Uniform in ±1/sqrt(fan_in): PyTorch's default for nn.Linear, its weights and its biases.
  kKaimingUniform
};

struct ParameterSpec {
  std::string name;  // unique within a model: "layer0.weight"
  std::vector<std::int64_t> shape;
  Initializer initializer = Initializer::kKaimingUniform;
  std::int64_t fan_in = 1;

  std::int64_t elements() const;
};

// Fills the parameters (host memory; one view a spec, in order) as a pure function of the seed and each
// tensor's index: every rank gets the same bits, and an fp64 view gets the values of the fp32 one.
void initialise_parameters(std::span<const ParameterSpec> specs, std::uint64_t seed,
                           std::span<const device::Tensor> parameters);

}  // namespace muster::nn
