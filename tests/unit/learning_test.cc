// All of the trainer's mathematics together, in one process: it learns real digits.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "tests/support/flat_buckets.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/dataset.h"
#include "trainer/models/model.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/optimizer.h"

namespace muster {
namespace {

using device::DType;
using device::Tensor;
using testing::FlatBuckets;

constexpr int kShards = 8;
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kEpochs = 30;
constexpr std::uint64_t kSeed = 7;

std::filesystem::path digits() {
  return std::filesystem::path(MUSTER_SOURCE_DIR) / "examples/data/digits8x8";
}

struct Samples {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;

  models::Batch fetch(const data::Dataset& dataset, std::span<const std::int64_t> ids) {
    const auto count = static_cast<std::int64_t>(ids.size());
    const std::int64_t elements = nn::elements_of(dataset.sample_shape());
    inputs.resize(static_cast<std::size_t>(count * elements) + 1);
    labels.resize(ids.size() + 1);
    EXPECT_TRUE(dataset.fetch(ids, inputs.data(), labels.data()));
    return {.inputs = Tensor(inputs.data(), DType::kFloat32, {count, elements}),
            .labels = Tensor(labels.data(), DType::kInt32, {count})};
  }
};

struct Learner {
  data::DatasetPair datasets;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<models::Model> model;
  nn::BucketLayout layout;

  explicit Learner(const std::string& device_name)
      : datasets(*data::load_datasets("idx", digits())), device(*device::make_device(device_name, 1)) {
    model = *models::make_model({.name = "mlp",
                                 .hidden = {128, 64},
                                 .dropout = 0.1,
                                 .input_shape = datasets.train->sample_shape(),
                                 .classes = datasets.train->classes()});
    layout = nn::plan_buckets(model->parameters());
  }
};

// The sum over shards [begin, begin + count) in the order of the fixed binary tree.
models::ShardResult train_shards(Learner& learner, data::BatchSchedule& schedule, nn::ShardContext context,
                                 std::int64_t epoch, std::int64_t batch, int begin, int count,
                                 const FlatBuckets& parameters, FlatBuckets& sum) {
  if (count == 1) {
    Samples samples;
    context.shard = begin;
    const models::Batch data = samples.fetch(*learner.datasets.train, schedule.samples(epoch, batch, begin));
    auto result = learner.model->train_shard(context, data, parameters.tensors, sum.tensors);
    if (!result) throw std::runtime_error(result.error().message);
    return *result;
  }
  FlatBuckets right(learner.layout);
  auto left_result =
      train_shards(learner, schedule, context, epoch, batch, begin, count / 2, parameters, sum);
  const auto right_result =
      train_shards(learner, schedule, context, epoch, batch, begin + count / 2, count / 2, parameters, right);
  for (std::size_t bucket = 0; bucket < sum.flat.size(); ++bucket) {
    if (!learner.device->add(sum.flat[bucket], right.flat[bucket], sum.flat[bucket])) std::abort();
  }
  left_result.loss_sum += right_result.loss_sum;
  left_result.correct += right_result.correct;
  left_result.samples += right_result.samples;
  return left_result;
}

models::ShardResult evaluate(Learner& learner, const FlatBuckets& parameters) {
  data::BatchSchedule schedule(learner.datasets.test->size(), kBatch, kSeed, 1, data::Order::kSequential);
  models::ShardResult total;
  Samples samples;
  const nn::ShardContext context{.device = learner.device.get()};
  for (std::int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
    const models::Batch data = samples.fetch(*learner.datasets.test, schedule.samples(0, batch, 0));
    const auto result = learner.model->evaluate_shard(context, data, parameters.tensors);
    if (!result) throw std::runtime_error(result.error().message);
    total.loss_sum += result->loss_sum;
    total.correct += result->correct;
    total.samples += result->samples;
  }
  return total;
}

double accuracy_after_training(const std::string& device_name, std::int64_t epochs, double* first_loss,
                               double* last_loss) {
  Learner learner(device_name);
  FlatBuckets parameters(learner.layout);
  FlatBuckets gradients(learner.layout);
  nn::initialise_parameters(learner.model->parameters(), kSeed, parameters.tensors);
  auto optimizer =
      *optim::make_optimizer({.name = "adamw", .weight_decay = 0.01}, *learner.device, learner.layout);
  data::BatchSchedule schedule(learner.datasets.train->size(), kBatch, kSeed, kShards);
  const optim::LrSchedule rates{.kind = optim::LrScheduleKind::kCosine,
                                .learning_rate = 5e-3,
                                .warmup_steps = 10,
                                .total_steps = epochs * schedule.batches_per_epoch()};
  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch, ++step) {
      const std::int64_t samples = schedule.batch_samples(batch);
      const nn::ShardContext context{.device = learner.device.get(),
                                     .seed = kSeed,
                                     .step = step,
                                     .gradient_scale = 1.0 / static_cast<double>(samples),
                                     .parameters_version = static_cast<std::uint64_t>(step) + 1};
      const auto result =
          train_shards(learner, schedule, context, epoch, batch, 0, kShards, parameters, gradients);
      EXPECT_EQ(result.samples, samples);
      *last_loss = result.loss_sum / static_cast<double>(samples);
      if (step == 0) *first_loss = *last_loss;
      EXPECT_TRUE(optimizer->step(optim::learning_rate_at(rates, step), parameters.flat, gradients.flat));
    }
  }
  const auto test = evaluate(learner, parameters);
  EXPECT_EQ(test.samples, 297);
  return static_cast<double>(test.correct) / static_cast<double>(test.samples);
}

TEST(Learning, MlpLearnsDigitsOnTheCpuDevice) {
  double first_loss = 0;
  double last_loss = 0;
  const double accuracy = accuracy_after_training("cpu", kEpochs, &first_loss, &last_loss);
  EXPECT_NEAR(first_loss, std::log(10.0), 0.2);  // knows nothing at first
  EXPECT_LT(last_loss, 0.5);
  EXPECT_GT(accuracy, 0.90) << "loss " << last_loss;
}

TEST(Learning, TheReferenceDeviceWalksTheSameWay) {
  double cpu_first = 0;
  double cpu_last = 0;
  double reference_first = 0;
  double reference_last = 0;
  accuracy_after_training("cpu", 1, &cpu_first, &cpu_last);
  accuracy_after_training("reference", 1, &reference_first, &reference_last);
  EXPECT_NEAR(cpu_first, reference_first, 1e-6);
  EXPECT_NEAR(cpu_last, reference_last, 1e-3);
}

}  // namespace
}  // namespace muster
