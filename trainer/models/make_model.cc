#include <algorithm>

#include "trainer/models/lenet.h"
#include "trainer/models/mlp.h"
#include "trainer/models/model.h"

namespace muster::models {
namespace {

constexpr std::int64_t kWidthMax = 1 << 20;
constexpr std::size_t kHiddenMax = 1000;

Status check(const ModelConfig& config) {
  const auto impossible = [](std::int64_t size) { return size < 1 || size > kWidthMax; };
  if (config.hidden.size() > kHiddenMax) {
    return fail(ErrorCode::kInvalidArgument, "hidden has {} layers; at most {} are allowed",
                config.hidden.size(), kHiddenMax);
  }
  if (const auto bad = std::find_if(config.hidden.begin(), config.hidden.end(), impossible);
      bad != config.hidden.end()) {
    return fail(ErrorCode::kInvalidArgument, "a hidden layer of size {}; allowed: 1 to {}", *bad, kWidthMax);
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return fail(ErrorCode::kInvalidArgument, "dropout is {}; it must be at least 0 and below 1",
                config.dropout);
  }
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    return fail(ErrorCode::kInvalidArgument, "label_smoothing is {}; it must be at least 0 and below 1",
                config.label_smoothing);
  }
  if (config.activation != "relu" && config.activation != "gelu") {
    return fail(ErrorCode::kInvalidArgument, "unknown activation '{}'; allowed: relu, gelu",
                config.activation);
  }
  if (config.input_shape.empty() || config.input_shape.size() >= device::Tensor::kRankMax ||
      std::any_of(config.input_shape.begin(), config.input_shape.end(), impossible)) {
    return fail(ErrorCode::kInvalidArgument, "samples must have 1 to {} dimensions of 1 to {} elements",
                device::Tensor::kRankMax - 1, kWidthMax);
  }
  if (impossible(config.classes)) {
    return fail(ErrorCode::kInvalidArgument, "{} classes; allowed: 1 to {}", config.classes, kWidthMax);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> make_model(const ModelConfig& config) {
  if (config.name != "mlp" && config.name != "lenet" && config.name != "logistic") {
    return fail(ErrorCode::kInvalidArgument, "unknown model '{}'; allowed: mlp, lenet, logistic",
                config.name);
  }
  MUSTER_TRY(check(config));
  if (config.name == "lenet") return make_lenet(config);
  if (config.name == "mlp") return make_mlp(config);
  ModelConfig logistic = config;
  logistic.hidden.clear();
  return make_mlp(logistic);
}

}  // namespace muster::models
