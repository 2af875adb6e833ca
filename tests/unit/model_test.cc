// Models on shards: the cpu device against the reference, and results that depend on the shard alone.
#include "trainer/models/model.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "tests/support/flat_buckets.h"
#include "tests/support/test_tensor.h"
#include "trainer/device/cpu_device.h"
#include "trainer/device/reference_device.h"

namespace muster::models {
namespace {

using device::DType;
using testing::FlatBuckets;
using testing::relative_error;
using testing::TestTensor;

constexpr std::int64_t kClasses = 10;

ModelConfig config_of(std::vector<std::int64_t> hidden, double dropout, nn::SampleShape input) {
  return {.name = "mlp",
          .hidden = std::move(hidden),
          .dropout = dropout,
          .input_shape = std::move(input),
          .classes = kClasses};
}

TestTensor labels_for(std::int64_t samples) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) labels.push_back(static_cast<std::int32_t>(i * 7 % kClasses));
  return TestTensor::labels(labels);
}

// A model with parameters and gradients, on one device.
struct Instance {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<Model> model;
  nn::BucketLayout layout;
  FlatBuckets parameters;
  FlatBuckets gradients;
  nn::SampleShape sample_shape;

  Instance(std::unique_ptr<device::Device> device_in, const ModelConfig& config, DType dtype,
           std::size_t offset_bytes = 0)
      : device(std::move(device_in)),
        model(*make_model(config)),
        layout(nn::plan_buckets(model->parameters())),
        parameters(layout, dtype, offset_bytes),
        gradients(layout, dtype, offset_bytes),
        sample_shape(config.input_shape) {
    nn::initialise_parameters(model->parameters(), 42, parameters.tensors);
  }

  // A shard of random samples that belong to its index. Gradients as bits.
  ShardResult train(std::int64_t samples, std::int32_t shard, std::int64_t step = 3,
                    device::ParametersVersion version = 0) {
    std::vector<std::int64_t> shape = {samples};
    shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
    const auto x = TestTensor::random(parameters.flat[0].dtype, shape, static_cast<std::uint64_t>(shard));
    const auto labels = labels_for(samples);
    const nn::ShardContext context{.device = device.get(),
                                   .seed = 9,
                                   .step = step,
                                   .shard = shard,
                                   .gradient_scale = 1.0 / 256,
                                   .parameters_version = version};
    const auto result =
        model->train_shard(context, {.inputs = x, .labels = labels}, parameters.tensors, gradients.tensors);
    EXPECT_TRUE(result) << result.error().message;
    return *result;
  }
  std::string gradient_bits() const { return TestTensor::bits_of(gradients.flat[0]); }
};

std::unique_ptr<device::Device> cpu(int threads = 1, bool reorder = false) {
  return *device::make_cpu_device({.threads = threads, .native_weight_layout = reorder});
}

ModelConfig lenet(double dropout = 0.2, nn::SampleShape input = {8, 8}) {
  ModelConfig config = config_of({}, dropout, std::move(input));
  config.name = "lenet";
  return config;
}

void expect_agreement(const ModelConfig& config, std::int64_t samples, bool reorder,
                      double tolerance = 1e-6) {
  Instance narrow(cpu(1, reorder), config, DType::kFloat32);
  Instance wide(device::make_reference_device(), config, DType::kFloat64);
  const ShardResult got = narrow.train(samples, 2, 3, 1);
  const ShardResult expected = wide.train(samples, 2, 3, 1);
  EXPECT_NEAR(got.loss_sum, expected.loss_sum, 1e-6 * expected.loss_sum);
  EXPECT_EQ(got.correct, expected.correct);
  EXPECT_EQ(got.samples, samples);
  for (std::size_t i = 0; i < narrow.layout.placements.size(); ++i) {
    EXPECT_LE(relative_error(TestTensor::values_of(narrow.gradients.tensors[i]),
                             TestTensor::values_of(wide.gradients.tensors[i])),
              tolerance)
        << narrow.layout.placements[i].name;
  }
}

TEST(Model, CpuAgreesWithTheReference) {
  for (const double dropout : {0.0, 0.2}) {
    for (const bool reorder : {false, true}) {
      SCOPED_TRACE(fmt::format("dropout {}, reordered weights {}", dropout, reorder));
      expect_agreement(config_of({512, 256}, dropout, {28, 28}), 16, reorder);
    }
  }
}

TEST(Model, CpuAgreesWithTheReferenceWithGeluAndLayerNorm) {
  for (const char* activation : {"relu", "gelu"}) {
    SCOPED_TRACE(activation);
    ModelConfig config = config_of({64, 32}, 0.2, {28, 28});
    config.activation = activation;
    config.layer_norm = true;
    config.label_smoothing = 0.1;
    expect_agreement(config, 16, false);
  }
}

TEST(Model, CpuAgreesWithTheReferenceOnImages) {
  for (const nn::SampleShape& input : {nn::SampleShape{8, 8}, {1, 9, 7}, {3, 6, 5}}) {
    SCOPED_TRACE(fmt::format("images of [{}]", fmt::join(input, ", ")));
    for (const std::int64_t samples : {1, 5}) expect_agreement(lenet(0.2, input), samples, false);
  }
}

TEST(Model, AShardGivesTheSameBitsWhateverElseWasComputed) {
  for (const ModelConfig& config : {config_of({64, 32}, 0.2, {28, 28}), lenet()}) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, {} threads", config.name, threads));
      Instance alone(cpu(threads), config, DType::kFloat32);
      const ShardResult expected = alone.train(16, 5, 3, 1);
      const std::string bits = alone.gradient_bits();

      Instance busy(cpu(threads), config, DType::kFloat32, 4);  // and its buckets lie elsewhere
      for (const std::int64_t samples : {1, 64, 15, 0, 16, 17}) {
        busy.train(samples, 6, 3, 1);
        const ShardResult got = busy.train(16, 5, 3, 1);
        EXPECT_EQ(got.loss_sum, expected.loss_sum);
        EXPECT_EQ(busy.gradient_bits(), bits) << "after a shard of " << samples;
      }
    }
  }
}

// oneDNN's own record of what it ran: lines "onednn_verbose,exec,cpu,reorder,…,SHAPE,TIME".
std::vector<std::string> reorders_of(const std::function<void()>& run) {
  ::testing::internal::CaptureStdout();
  dnnl_set_verbose(1);
  run();
  dnnl_set_verbose(0);
  std::istringstream record(::testing::internal::GetCapturedStdout());
  std::vector<std::string> shapes;
  for (std::string line; std::getline(record, line);) {
    if (line.find(",exec,cpu,reorder,") == std::string::npos) continue;
    const std::size_t time = line.rfind(',');
    const std::size_t shape = line.rfind(',', time - 1) + 1;
    shapes.push_back(line.substr(shape, time - shape));
  }
  return shapes;
}

TEST(Model, LenetReordersWeightsOnceAVersionAndActivationsNever) {
  Instance instance(cpu(), lenet(0.2, {28, 28}), DType::kFloat32);
  using ::testing::UnorderedElementsAre;
  // Only the gradients of the convolutions' weights, which a shard's buckets want row-major.
  const auto gradients = UnorderedElementsAre("32x1x5x5", "64x32x5x5");
  instance.train(16, 0, 3, 1);
  EXPECT_THAT(reorders_of([&] { instance.train(16, 1, 3, 1); }), gradients);
  // New parameters: a convolution's weight for forward, and for backward but in the first layer; a linear
  // layer's for both at once, or for each where the library wants layouts of its own.
  std::vector<std::string> expected{"32x1x5x5", "64x32x5x5", "64x32x5x5", "512x3136",
                                    "10x512",   "32x1x5x5",  "64x32x5x5"};
  if (cpu()->info().find("library weights") != std::string::npos)
    expected.insert(expected.end(), {"3136x512", "512x10"});
  EXPECT_THAT(reorders_of([&] { instance.train(16, 0, 4, 2); }),
              ::testing::UnorderedElementsAreArray(expected));
  EXPECT_THAT(reorders_of([&] { instance.train(16, 1, 4, 2); }), gradients);
}

TEST(Model, AnEmptyShardHasZeroGradients) {
  for (const ModelConfig& config : {config_of({64, 32}, 0.2, {28, 28}), lenet()}) {
    SCOPED_TRACE(config.name);
    Instance instance(cpu(), config, DType::kFloat32);
    instance.train(16, 0);  // leaves something to be overwritten
    const ShardResult result = instance.train(0, 1);
    EXPECT_EQ(result.samples, 0);
    EXPECT_EQ(result.loss_sum, 0);
    EXPECT_EQ(result.correct, 0);
    const auto values = TestTensor::values_of(instance.gradients.flat[0]);
    EXPECT_EQ(values, std::vector<double>(values.size(), 0.0));
  }
}

TEST(Model, ShardsAddUpToTheBatch) {
  // Without dropout, the gradient of a batch is the sum over its shards, however it is cut.
  const auto config = config_of({16}, 0, {784});
  Instance instance(device::make_reference_device(), config, DType::kFloat64);
  const auto x = TestTensor::random(DType::kFloat64, {10, 784}, 1);
  const auto labels = labels_for(10);
  const nn::ShardContext context{.device = instance.device.get(), .gradient_scale = 0.1};
  const auto gradients_of = [&](std::int64_t begin, std::int64_t end) {
    const Batch batch{
        .inputs = device::Tensor(x.view().as<double>() + begin * 784, DType::kFloat64, {end - begin, 784}),
        .labels = device::Tensor(labels.view().as<std::int32_t>() + begin, DType::kInt32, {end - begin})};
    EXPECT_TRUE(
        instance.model->train_shard(context, batch, instance.parameters.tensors, instance.gradients.tensors));
    return TestTensor::values_of(instance.gradients.flat[0]);
  };
  const auto whole = gradients_of(0, 10);
  std::vector<double> sum(whole.size(), 0.0);
  for (const auto& [begin, end] : {std::pair{0, 3}, std::pair{3, 3}, std::pair{3, 4}, std::pair{4, 10}}) {
    const auto part = gradients_of(begin, end);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  EXPECT_LE(relative_error(sum, whole), 1e-14);
}

TEST(Model, EvaluationDropsNothing) {
  Instance instance(cpu(), config_of({64}, 0.5, {784}), DType::kFloat32);
  Instance without(cpu(), config_of({64}, 0, {784}), DType::kFloat32);
  const auto x = TestTensor::random(DType::kFloat32, {16, 784}, 1);
  const auto labels = labels_for(16);
  const Batch batch{.inputs = x, .labels = labels};
  const nn::ShardContext context{.device = instance.device.get(), .training = true};
  const auto result = instance.model->evaluate_shard(context, batch, instance.parameters.tensors);
  const auto expected = without.model->evaluate_shard(context, batch, without.parameters.tensors);
  ASSERT_TRUE(result && expected);
  EXPECT_EQ(result->loss_sum, expected->loss_sum);
  EXPECT_EQ(result->correct, expected->correct);
  EXPECT_EQ(result->samples, 16);
}

TEST(Model, DropoutFollowsStepAndShardAlone) {
  const auto config = config_of({64}, 0.5, {784});
  Instance instance(cpu(), config, DType::kFloat32);
  const double at_step_3 = instance.train(16, 1, 3).loss_sum;
  EXPECT_NE(instance.train(16, 1, 4).loss_sum, at_step_3);
  Instance other_rank(cpu(), config, DType::kFloat32);
  EXPECT_EQ(other_rank.train(16, 1, 3).loss_sum, at_step_3);
}

std::vector<std::string> parameter_lines(const ModelConfig& config) {
  const auto model = *make_model(config);
  std::vector<std::string> lines;
  for (const auto& spec : model->parameters()) {
    lines.push_back(fmt::format("{} [{}] fan_in {}", spec.name, fmt::join(spec.shape, ","), spec.fan_in));
  }
  return lines;
}

TEST(Model, NamesItsParametersInOrder) {
  using ::testing::ElementsAre;
  EXPECT_THAT(parameter_lines(config_of({512, 256}, 0.2, {28, 28})),
              ElementsAre("layer0.weight [512,784] fan_in 784", "layer0.bias [512] fan_in 784",
                          "layer1.weight [256,512] fan_in 512", "layer1.bias [256] fan_in 512",
                          "layer2.weight [10,256] fan_in 256", "layer2.bias [10] fan_in 256"));
  EXPECT_THAT(parameter_lines(lenet(0.5, {28, 28})),
              ElementsAre("conv1.weight [32,1,5,5] fan_in 25", "conv1.bias [32] fan_in 25",
                          "conv2.weight [64,32,5,5] fan_in 800", "conv2.bias [64] fan_in 800",
                          "fc1.weight [512,3136] fan_in 3136", "fc1.bias [512] fan_in 3136",
                          "fc2.weight [10,512] fan_in 512", "fc2.bias [10] fan_in 512"));
  ModelConfig config = config_of({8}, 0, {28, 28});
  config.layer_norm = true;
  EXPECT_THAT(parameter_lines(config),
              ElementsAre("layer0.weight [8,784] fan_in 784", "layer0.bias [8] fan_in 784",
                          "norm0.weight [8] fan_in 1", "norm0.bias [8] fan_in 1",
                          "layer1.weight [10,8] fan_in 8", "layer1.bias [10] fan_in 8"));
  config.name = "logistic";  // other models' settings do not matter
  EXPECT_THAT(parameter_lines(config),
              ElementsAre("layer0.weight [10,784] fan_in 784", "layer0.bias [10] fan_in 784"));
}

TEST(Model, LayerNormsBeginAsIdentities) {
  ModelConfig config = config_of({8}, 0, {4});
  config.layer_norm = true;
  const Instance instance(cpu(), config, DType::kFloat32);
  EXPECT_EQ(TestTensor::values_of(instance.parameters.tensors[2]), std::vector<double>(8, 1.0));
  EXPECT_EQ(TestTensor::values_of(instance.parameters.tensors[3]), std::vector<double>(8, 0.0));
}

TEST(Model, LabelsAreSmoothedInTrainingOnly) {
  ModelConfig config = config_of({16}, 0, {784});
  Instance plain(cpu(), config, DType::kFloat32);
  config.label_smoothing = 0.2;
  Instance smoothed(cpu(), config, DType::kFloat32);
  EXPECT_NE(plain.train(16, 0).loss_sum, smoothed.train(16, 0).loss_sum);
  EXPECT_NE(plain.gradient_bits(), smoothed.gradient_bits());
  const auto x = TestTensor::random(DType::kFloat32, {16, 784}, 1);
  const auto labels = labels_for(16);
  const nn::ShardContext context{.device = plain.device.get()};
  const Batch batch{.inputs = x, .labels = labels};
  EXPECT_EQ(plain.model->evaluate_shard(context, batch, plain.parameters.tensors)->loss_sum,
            smoothed.model->evaluate_shard(context, batch, smoothed.parameters.tensors)->loss_sum);
}

TEST(Model, WorksWithoutHiddenLayers) {
  Instance instance(cpu(), config_of({}, 0.2, {784}), DType::kFloat32);
  EXPECT_EQ(instance.layout.placements.size(), 2u);
  EXPECT_GT(instance.train(16, 0).loss_sum, 0);
}

TEST(Model, RefusesWhatCannotBe) {
  const auto message = [](const ModelConfig& asked) {
    const auto model = make_model(asked);
    return model ? std::string() : model.error().message;
  };
  ModelConfig config = config_of({8}, 0.1, {4});
  EXPECT_EQ(message(config), "");
  config.name = "resnet";
  EXPECT_EQ(message(config), "unknown model 'resnet'; allowed: mlp, lenet, logistic");
  config.name = "mlp";
  config.activation = "tanh";
  EXPECT_EQ(message(config), "unknown activation 'tanh'; allowed: relu, gelu");
  config.activation = "gelu";
  config.label_smoothing = 1;
  EXPECT_EQ(message(config), "label_smoothing is 1; it must be at least 0 and below 1");
  EXPECT_EQ(message(lenet(0, {4, 4})), "");
  const std::string images =
      "; allowed: images, [height, width] or [channels, height, width], of at least 4 by 4 pixels";
  EXPECT_EQ(message(lenet(0, {784})), "model lenet on samples of shape [784]" + images);
  EXPECT_EQ(message(lenet(0, {28, 3})), "model lenet on samples of shape [28, 3]" + images);
  EXPECT_EQ(message(config_of({8, 0}, 0, {4})), "a hidden layer of size 0; allowed: 1 to 1048576");
  EXPECT_EQ(message(config_of({8}, 1.0, {4})), "dropout is 1; it must be at least 0 and below 1");
  EXPECT_EQ(message(config_of({8}, std::nan(""), {4})), "dropout is nan; it must be at least 0 and below 1");
  EXPECT_THAT(message(config_of({8}, 0, {})), ::testing::HasSubstr("1 to 3 dimensions"));
  EXPECT_THAT(message(config_of({8}, 0, {4, 0})), ::testing::HasSubstr("1 to 3 dimensions"));
  config = config_of({8}, 0, {4});
  config.classes = 0;
  EXPECT_THAT(message(config), ::testing::HasSubstr("0 classes"));
}

}  // namespace
}  // namespace muster::models
