#include "trainer/optim/adamw.h"

#include <cassert>
#include <utility>

#include "trainer/optim/state_buckets.h"

namespace muster::optim {
namespace {

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerConfig& config, device::Device& device, StateBuckets exp_avg, StateBuckets exp_avg_sq)
      : config_(config), device_(device), states_{std::move(exp_avg), std::move(exp_avg_sq)} {}

  std::string_view name() const override { return "adamw"; }
  const std::vector<std::string>& state_names() const override { return names_; }
  std::span<const device::Tensor> state(std::size_t index) const override {
    return states_.at(index).views();
  }
  std::int64_t step_count() const override { return step_count_; }
  void set_step_count(std::int64_t count) override { step_count_ = count; }

  Status step(double learning_rate, std::span<const device::Tensor> parameters,
              std::span<const device::Tensor> gradients) override {
    assert(parameters.size() == gradients.size() && parameters.size() == states_[0].views().size());
    const device::AdamWScalars scalars{.learning_rate = learning_rate,
                                       .beta1 = config_.beta1,
                                       .beta2 = config_.beta2,
                                       .epsilon = config_.epsilon,
                                       .weight_decay = config_.weight_decay,
                                       .step_count = step_count_ + 1};
    for (std::size_t bucket = 0; bucket < parameters.size(); ++bucket) {
      MUSTER_TRY(device_.adamw_step(scalars, parameters[bucket], gradients[bucket],
                                    states_[0].views()[bucket], states_[1].views()[bucket]));
    }
    ++step_count_;
    return {};
  }

 private:
  OptimizerConfig config_;
  device::Device& device_;
  std::array<StateBuckets, 2> states_;
  std::vector<std::string> names_ = {"exp_avg", "exp_avg_sq"};
  std::int64_t step_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Optimizer>> make_adamw(const OptimizerConfig& config, device::Device& device,
                                              const nn::BucketLayout& layout, device::DType dtype) {
  MUSTER_ASSIGN(auto exp_avg, StateBuckets::create(device, layout, dtype));
  MUSTER_ASSIGN(auto exp_avg_sq, StateBuckets::create(device, layout, dtype));
  return std::make_unique<AdamW>(config, device, std::move(exp_avg), std::move(exp_avg_sq));
}

}  // namespace muster::optim
