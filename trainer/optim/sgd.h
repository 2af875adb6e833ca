// Stochastic gradient descent as PyTorch defines it: decay is added to the gradient, momentum without
// dampening, no Nesterov.
#pragma once

#include <memory>

#include "trainer/optim/optimizer.h"

namespace muster::optim {

// The configuration has been checked by make_optimizer().
Result<std::unique_ptr<Optimizer>> make_sgd(const OptimizerConfig& config, device::Device& device,
                                            const nn::BucketLayout& layout, device::DType dtype);

}  // namespace muster::optim
