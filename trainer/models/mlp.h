// Multi-layer perceptron: [linear, layer norm, activation, dropout] for each hidden size (layer norm and
// dropout if asked for), then linear to the classes. Without hidden sizes: logistic regression. Parameters:
// layer0.weight, layer0.bias, norm0.weight, norm0.bias, layer1.weight, …
#pragma once

#include <memory>

#include "trainer/models/model.h"

namespace muster::models {

// The configuration has been checked by make_model().
std::unique_ptr<Model> make_mlp(const ModelConfig& config);

}  // namespace muster::models
