// Multi-layer perceptron: [linear, ReLU, dropout] for each hidden size, then linear to the classes.
// Parameters: layer0.weight, layer0.bias, layer1.weight, …
#pragma once

#include <memory>

#include "trainer/models/model.h"

namespace muster::models {

// The configuration has been checked by make_model().
std::unique_ptr<Model> make_mlp(const ModelConfig& config);

}  // namespace muster::models
