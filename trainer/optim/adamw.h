// AdamW as PyTorch defines it: decoupled weight decay, bias correction, no AMSGrad.
#pragma once

#include <memory>

#include "trainer/optim/optimizer.h"

namespace muster::optim {

// The configuration has been checked by make_optimizer().
Result<std::unique_ptr<Optimizer>> make_adamw(const OptimizerConfig& config, device::Device& device,
                                              const nn::BucketLayout& layout, device::DType dtype);

}  // namespace muster::optim
