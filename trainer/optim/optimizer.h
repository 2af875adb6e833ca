// SEAM: how parameters move. An optimizer's state is flat tensors that lie like the parameters' buckets, plus
// the number of updates made; both belong in a checkpoint.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "trainer/device/device.h"
#include "trainer/nn/bucket_layout.h"

namespace muster::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view name() const = 0;
  // Names of the state tensors that each parameter has: "exp_avg", "exp_avg_sq"; "momentum"; or none.
  virtual const std::vector<std::string>& state_names() const = 0;
  // Flat views, one a bucket, of the state state_names()[index]. They stay valid, may be read to save and
  // written to restore, and begin as zeros. nn::parameter_views() of their data gives tensors.
  virtual std::span<const device::Tensor> state(std::size_t index) const = 0;

  // Updates made so far. Part of what has to be saved.
  virtual std::int64_t step_count() const = 0;
  virtual void set_step_count(std::int64_t count) = 0;

  // One update. Parameters and gradients: flat views, one a bucket, as nn::bucket_views() makes them.
  virtual Status step(double learning_rate, std::span<const device::Tensor> parameters,
                      std::span<const device::Tensor> gradients) = 0;
};

struct OptimizerConfig {
  std::string name = "adamw";  // "adamw", "sgd"
  double momentum = 0;         // sgd
  double weight_decay = 0;
  double beta1 = 0.9;  // adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// The device must outlive the optimizer. kInvalidArgument for an unknown name or impossible numbers.
Result<std::unique_ptr<Optimizer>> make_optimizer(const OptimizerConfig& config, device::Device& device,
                                                  const nn::BucketLayout& layout,
                                                  device::DType dtype = device::DType::kFloat32);

}  // namespace muster::optim
