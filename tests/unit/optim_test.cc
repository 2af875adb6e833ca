#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "tests/support/flat_buckets.h"
#include "tests/support/test_tensor.h"
#include "trainer/device/cpu_device.h"
#include "trainer/device/reference_device.h"
#include "trainer/optim/gradient_clipping.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/optimizer.h"

namespace muster::optim {
namespace {

using device::DType;
using testing::FlatBuckets;
using testing::random_values;
using testing::relative_error;
using testing::TestTensor;

// Two buckets, so that a forgotten bucket shows.
nn::BucketLayout two_buckets() {
  const std::vector<nn::ParameterSpec> specs = {{.name = "a", .shape = {16}}, {.name = "b", .shape = {16}}};
  nn::BucketLayout layout = nn::plan_buckets(specs, 64);
  EXPECT_EQ(layout.buckets(), 2u);
  return layout;
}

struct Updates {
  std::unique_ptr<device::Device> device;
  DType dtype;
  nn::BucketLayout layout = two_buckets();
  FlatBuckets parameters;
  FlatBuckets gradients;
  std::unique_ptr<Optimizer> optimizer;

  Updates(bool reference, const OptimizerConfig& config)
      : device(reference ? device::make_reference_device() : *device::make_cpu_device({})),
        dtype(reference ? DType::kFloat64 : DType::kFloat32),
        parameters(layout, dtype),
        gradients(layout, dtype),
        optimizer(*make_optimizer(config, *device, layout, dtype)) {}

  void set(const FlatBuckets& buckets, const std::vector<double>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const device::Tensor& bucket = buckets.flat[i / 16];
      if (dtype == DType::kFloat64) {
        bucket.as<double>()[i % 16] = values[i];
      } else {
        bucket.as<float>()[i % 16] = static_cast<float>(values[i]);
      }
    }
  }
  static std::vector<double> get(std::span<const device::Tensor> flat) {
    std::vector<double> values;
    for (const device::Tensor& bucket : flat) {
      for (const double value : TestTensor::values_of(bucket)) values.push_back(value);
    }
    return values;
  }
  double first_parameter() const { return TestTensor::values_of(parameters.flat[0])[0]; }
};

// PyTorch's algorithms, written from its documentation, one parameter at a time.
struct TorchAdamW {
  double p;
  double m = 0;
  double v = 0;
  int t = 0;
  void step(double g, double lr, double beta1, double beta2, double eps, double decay) {
    ++t;
    p = p - lr * decay * p;
    m = m + (1 - beta1) * (g - m);
    v = beta2 * v + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, t));
    const double v_hat = v / (1 - std::pow(beta2, t));
    p = p - lr * m_hat / (std::sqrt(v_hat) + eps);
  }
};

struct TorchSgd {
  double p;
  double buffer = 0;
  bool first = true;
  void step(double g, double lr, double momentum, double decay) {
    double d = g + decay * p;
    if (momentum != 0) {
      buffer = first ? d : momentum * buffer + d;
      first = false;
      d = buffer;
    }
    p -= lr * d;
  }
};

TEST(AdamW, FirstStepByHand) {
  // g = 2: m = 0.2, v = 0.004; corrected 2 and 4; p = 1 · (1 - 0.1 · 0.5) - 0.1 · 2 / (2 + 1e-8).
  Updates run(true, {.name = "adamw", .weight_decay = 0.5});
  run.set(run.parameters, std::vector<double>(32, 1.0));
  run.set(run.gradients, std::vector<double>(32, 2.0));
  ASSERT_TRUE(run.optimizer->step(0.1, run.parameters.flat, run.gradients.flat));
  EXPECT_NEAR(run.first_parameter(), 0.95 - 0.1 * 2 / (2 + 1e-8), 1e-15);
  EXPECT_NEAR(Updates::get(run.optimizer->state(0))[31], 0.2, 1e-15);
  EXPECT_NEAR(Updates::get(run.optimizer->state(1))[31], 0.004, 1e-15);
  EXPECT_EQ(run.optimizer->step_count(), 1);
}

TEST(AdamW, FollowsPyTorchsFormula) {
  const OptimizerConfig config{
      .name = "adamw", .weight_decay = 0.05, .beta1 = 0.85, .beta2 = 0.99, .epsilon = 1e-6};
  for (const bool reference : {true, false}) {
    Updates run(reference, config);
    const auto initial = random_values(32, 1);
    run.set(run.parameters, initial);
    std::vector<TorchAdamW> torch;
    torch.reserve(initial.size());
    for (const double p : initial) torch.push_back({.p = p});
    for (std::uint64_t step = 0; step < 50; ++step) {
      const auto gradients = random_values(32, 100 + step);
      run.set(run.gradients, gradients);
      const double rate = 0.01 / static_cast<double>(step + 1);
      ASSERT_TRUE(run.optimizer->step(rate, run.parameters.flat, run.gradients.flat));
      for (std::size_t i = 0; i < torch.size(); ++i)
        torch[i].step(gradients[i], rate, 0.85, 0.99, 1e-6, 0.05);
    }
    std::vector<double> expected;
    expected.reserve(torch.size());
    for (const TorchAdamW& each : torch) expected.push_back(each.p);
    EXPECT_LE(relative_error(Updates::get(run.parameters.flat), expected), reference ? 1e-13 : 1e-6);
  }
}

TEST(Sgd, StepsByHand) {
  // p = 1, g = 2, decay 0.5, momentum 0.9, rate 0.1: d = 2.5, p = 0.75; then d = 2 + 0.375 + 0.9 · 2.5
  // = 4.625.
  Updates run(true, {.name = "sgd", .momentum = 0.9, .weight_decay = 0.5});
  run.set(run.parameters, std::vector<double>(32, 1.0));
  run.set(run.gradients, std::vector<double>(32, 2.0));
  ASSERT_TRUE(run.optimizer->step(0.1, run.parameters.flat, run.gradients.flat));
  EXPECT_NEAR(run.first_parameter(), 0.75, 1e-15);
  ASSERT_TRUE(run.optimizer->step(0.1, run.parameters.flat, run.gradients.flat));
  EXPECT_NEAR(run.first_parameter(), 0.2875, 1e-15);
  EXPECT_NEAR(Updates::get(run.optimizer->state(0))[20], 4.625, 1e-15);
}

TEST(Sgd, FollowsPyTorchsFormula) {
  for (const bool reference : {true, false}) {
    for (const double momentum : {0.0, 0.9}) {
      Updates run(reference, {.name = "sgd", .momentum = momentum, .weight_decay = 0.01});
      EXPECT_EQ(run.optimizer->state_names().size(), momentum == 0 ? 0u : 1u);
      const auto initial = random_values(32, 1);
      run.set(run.parameters, initial);
      std::vector<TorchSgd> torch;
      torch.reserve(initial.size());
      for (const double p : initial) torch.push_back({.p = p});
      for (std::uint64_t step = 0; step < 50; ++step) {
        const auto gradients = random_values(32, 100 + step);
        run.set(run.gradients, gradients);
        ASSERT_TRUE(run.optimizer->step(0.02, run.parameters.flat, run.gradients.flat));
        for (std::size_t i = 0; i < torch.size(); ++i) torch[i].step(gradients[i], 0.02, momentum, 0.01);
      }
      std::vector<double> expected;
      expected.reserve(torch.size());
      for (const TorchSgd& each : torch) expected.push_back(each.p);
      EXPECT_LE(relative_error(Updates::get(run.parameters.flat), expected), reference ? 1e-13 : 1e-6);
    }
  }
}

TEST(Optimizer, SavedStateIsAllThereIs) {
  // A new optimizer that gets parameters, state tensors and step count goes on with the same bits.
  for (const std::string name : {"adamw", "sgd"}) {
    const OptimizerConfig config{.name = name, .momentum = 0.9, .weight_decay = 0.01};
    Updates whole(false, config);
    Updates resumed(false, config);
    whole.set(whole.parameters, random_values(32, 1));
    const auto step = [](Updates& run, std::uint64_t index) {
      run.set(run.gradients, random_values(32, 50 + index));
      ASSERT_TRUE(run.optimizer->step(0.01, run.parameters.flat, run.gradients.flat));
    };
    for (std::uint64_t i = 0; i < 5; ++i) step(whole, i);
    const auto copy_all = [](std::span<const device::Tensor> from, std::span<const device::Tensor> to) {
      for (std::size_t i = 0; i < from.size(); ++i) std::memcpy(to[i].data, from[i].data, from[i].bytes());
    };
    copy_all(whole.parameters.flat, resumed.parameters.flat);
    for (std::size_t i = 0; i < whole.optimizer->state_names().size(); ++i) {
      copy_all(whole.optimizer->state(i), resumed.optimizer->state(i));
    }
    resumed.optimizer->set_step_count(whole.optimizer->step_count());
    for (std::uint64_t i = 5; i < 10; ++i) {
      step(whole, i);
      step(resumed, i);
    }
    EXPECT_EQ(Updates::get(whole.parameters.flat), Updates::get(resumed.parameters.flat)) << name;

    if (name == "adamw") {  // and the step count is not decoration
      resumed.optimizer->set_step_count(0);
      step(whole, 10);
      step(resumed, 10);
      EXPECT_NE(Updates::get(whole.parameters.flat), Updates::get(resumed.parameters.flat));
    }
  }
}

TEST(Optimizer, RefusesWhatCannotBe) {
  const auto device = *device::make_cpu_device({});
  const nn::BucketLayout layout = two_buckets();
  const auto message = [&](const OptimizerConfig& config) {
    const auto optimizer = make_optimizer(config, *device, layout);
    return optimizer ? std::string() : optimizer.error().message;
  };
  EXPECT_EQ(message({.name = "lamb"}), "unknown optimizer 'lamb'; allowed: adamw, sgd");
  EXPECT_EQ(message({.momentum = 1}), "momentum is 1; it must be at least 0 and below 1");
  EXPECT_EQ(message({.beta1 = -0.1}), "beta1 is -0.1; it must be at least 0 and below 1");
  EXPECT_EQ(message({.beta2 = std::nan("")}), "beta2 is nan; it must be at least 0 and below 1");
  EXPECT_EQ(message({.epsilon = 0}), "epsilon is 0; it must be above 0");
  EXPECT_EQ(message({.weight_decay = -1}), "weight_decay is -1; it must be at least 0");
  EXPECT_FALSE(make_optimizer({}, *device, layout, DType::kFloat64));
}

TEST(LrSchedule, CosineAtItsJoints) {
  const LrSchedule schedule{.kind = LrScheduleKind::kCosine,
                            .learning_rate = 0.8,
                            .min_learning_rate = 0.2,
                            .warmup_steps = 4,
                            .total_steps = 24};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 2), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 3), 0.8);   // the last step of warm-up
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 4), 0.8);   // the first of the cosine
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 14), 0.5);  // half way
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 9), 0.2 + 0.6 * (1 + std::numbers::sqrt2 / 2) / 2);
  EXPECT_GT(learning_rate_at(schedule, 23), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 24), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1000), 0.2);
  for (std::int64_t step = 4; step < 24; ++step) {
    EXPECT_GT(learning_rate_at(schedule, step), learning_rate_at(schedule, step + 1));
  }
}

TEST(LrSchedule, ConstantAfterWarmUp) {
  const LrSchedule schedule{
      .kind = LrScheduleKind::kConstant, .learning_rate = 0.1, .warmup_steps = 2, .total_steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 0), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 9), 0.1);
}

TEST(LrSchedule, DegenerateSchedules) {
  const LrSchedule none{.kind = LrScheduleKind::kCosine, .learning_rate = 0.1, .total_steps = 2};
  EXPECT_DOUBLE_EQ(learning_rate_at(none, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(none, 1), 0.05);
  const LrSchedule all{
      .kind = LrScheduleKind::kCosine, .learning_rate = 0.1, .warmup_steps = 5, .total_steps = 5};
  EXPECT_DOUBLE_EQ(learning_rate_at(all, 4), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(all, 5), 0);
  EXPECT_EQ(*parse_lr_schedule_kind("cosine"), LrScheduleKind::kCosine);
  EXPECT_EQ(*parse_lr_schedule_kind("constant"), LrScheduleKind::kConstant);
  EXPECT_EQ(*parse_lr_schedule_kind("step"), LrScheduleKind::kStep);
  EXPECT_FALSE(parse_lr_schedule_kind("linear"));
}

// torch.optim.lr_scheduler.StepLR(step_size=3, gamma=0.1) with a learning rate of 1.
TEST(LrSchedule, StepIsTorchsStepLr) {
  const LrSchedule schedule{
      .kind = LrScheduleKind::kStep, .learning_rate = 1, .total_steps = 9, .step_size = 3, .gamma = 0.1};
  const std::vector<double> expected = {1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01};
  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule, static_cast<std::int64_t>(step)), expected[step]) << step;
}

TEST(LrSchedule, StepBeginsAfterTheWarmUp) {
  const LrSchedule schedule{.kind = LrScheduleKind::kStep,
                            .learning_rate = 0.8,
                            .warmup_steps = 4,
                            .total_steps = 20,
                            .step_size = 2,
                            .gamma = 0.5};
  const std::vector<double> expected = {0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2};
  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule, static_cast<std::int64_t>(step)), expected[step]) << step;
}

// ---- Clipping by global norm ---------------------------------------------------------------------------

TEST(GradientClipping, SegmentsOfAnyNumberCoverAllBucketsExactlyOnce) {
  const auto device = *device::make_cpu_device({});
  const std::vector<nn::ParameterSpec> specs = {
      {.name = "a", .shape = {100}}, {.name = "b", .shape = {40}}, {.name = "c", .shape = {7}}};
  const nn::BucketLayout layout = nn::plan_buckets(specs, 512);
  ASSERT_GT(layout.buckets(), 1u);
  const FlatBuckets gradients(layout, DType::kFloat32);
  double expected = 0;
  double value = 1;
  for (const device::Tensor& bucket : gradients.flat) {
    for (std::int64_t i = 0; i < bucket.elements(); ++i, value += 1) {
      bucket.as<float>()[i] = static_cast<float>(value);
      expected += value * value;  // whole numbers: exact in any order
    }
  }
  for (const std::int64_t segments : {1, 2, 3, 8, 64}) {
    double sum = 0;
    for (std::int64_t segment = 0; segment < segments; ++segment)
      sum += *segment_squared_norm(*device, gradients.flat, segment, segments);
    EXPECT_EQ(sum, expected) << segments << " segments";
  }
}

TEST(GradientClipping, ScalesAsTorchDoes) {
  EXPECT_EQ(clip_factor(2.0, 0.0), 1.0) << "no bound";
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0) << "below the bound";
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
}

}  // namespace
}  // namespace muster::optim
