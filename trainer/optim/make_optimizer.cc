#include <cmath>

#include "trainer/optim/adamw.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/sgd.h"

namespace muster::optim {
namespace {

Status check_factor(const char* what, double value) {
  if (value >= 0 && value < 1) return {};
  return fail(ErrorCode::kInvalidArgument, "{} is {}; it must be at least 0 and below 1", what, value);
}

Status check(const OptimizerConfig& config) {
  MUSTER_TRY(check_factor("momentum", config.momentum));
  MUSTER_TRY(check_factor("beta1", config.beta1));
  MUSTER_TRY(check_factor("beta2", config.beta2));
  if (!(config.epsilon > 0 && std::isfinite(config.epsilon))) {
    return fail(ErrorCode::kInvalidArgument, "epsilon is {}; it must be above 0", config.epsilon);
  }
  if (!(config.weight_decay >= 0 && std::isfinite(config.weight_decay))) {
    return fail(ErrorCode::kInvalidArgument, "weight_decay is {}; it must be at least 0",
                config.weight_decay);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Optimizer>> make_optimizer(const OptimizerConfig& config, device::Device& device,
                                                  const nn::BucketLayout& layout, device::DType dtype) {
  MUSTER_TRY(check(config));
  if (!device.supports(dtype)) {
    return fail(ErrorCode::kInvalidArgument, "device {} does not compute in the dtype asked for",
                device.name());
  }
  if (config.name == "sgd") return make_sgd(config, device, layout, dtype);
  if (config.name == "adamw") return make_adamw(config, device, layout, dtype);
  return fail(ErrorCode::kInvalidArgument, "unknown optimizer '{}'; allowed: adamw, sgd", config.name);
}

}  // namespace muster::optim
