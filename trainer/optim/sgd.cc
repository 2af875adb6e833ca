#include "trainer/optim/sgd.h"

#include <cassert>
#include <utility>

#include "trainer/optim/state_buckets.h"

namespace muster::optim {
namespace {

class Sgd final : public Optimizer {
 public:
  // No state without momentum.
  Sgd(const OptimizerConfig& config, device::Device& device, std::vector<StateBuckets> states)
      : config_(config), device_(device), states_(std::move(states)) {
    if (!states_.empty()) names_.emplace_back("momentum");
  }

  std::string_view name() const override { return "sgd"; }
  const std::vector<std::string>& state_names() const override { return names_; }
  std::span<const device::Tensor> state(std::size_t index) const override {
    return states_.at(index).views();
  }
  std::int64_t step_count() const override { return step_count_; }
  void set_step_count(std::int64_t count) override { step_count_ = count; }

  Status step(double learning_rate, std::span<const device::Tensor> parameters,
              std::span<const device::Tensor> gradients) override {
    assert(parameters.size() == gradients.size());
    const device::SgdScalars scalars{
        .learning_rate = learning_rate, .momentum = config_.momentum, .weight_decay = config_.weight_decay};
    for (std::size_t bucket = 0; bucket < parameters.size(); ++bucket) {
      const device::Tensor momentum = states_.empty() ? device::Tensor() : states_[0].views()[bucket];
      MUSTER_TRY(device_.sgd_step(scalars, parameters[bucket], gradients[bucket], momentum));
    }
    ++step_count_;
    return {};
  }

 private:
  OptimizerConfig config_;
  device::Device& device_;
  std::vector<StateBuckets> states_;
  std::vector<std::string> names_;
  std::int64_t step_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Optimizer>> make_sgd(const OptimizerConfig& config, device::Device& device,
                                            const nn::BucketLayout& layout, device::DType dtype) {
  std::vector<StateBuckets> states;
  if (config.momentum != 0) {
    MUSTER_ASSIGN(auto momentum, StateBuckets::create(device, layout, dtype));
    states.push_back(std::move(momentum));
  }
  return std::make_unique<Sgd>(config, device, std::move(states));
}

}  // namespace muster::optim
