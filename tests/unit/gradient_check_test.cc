// The reference device against the definition of a derivative: central finite differences in double
// precision, for each layer and for whole models.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/flat_buckets.h"
#include "tests/support/test_tensor.h"
#include "trainer/device/reference_device.h"
#include "trainer/models/model.h"
#include "trainer/nn/dropout.h"
#include "trainer/nn/linear.h"
#include "trainer/nn/relu.h"
#include "trainer/nn/sequential.h"

namespace muster {
namespace {

using device::DType;
using device::Tensor;
using testing::FlatBuckets;
using testing::relative_error;
using testing::TestTensor;

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-8;

// The derivative of f with respect to each element of x, which f reads.
std::vector<double> numeric_gradient(const Tensor& x, const std::function<double()>& f) {
  std::vector<double> gradient;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    double& element = x.as<double>()[i];
    const double value = element;
    element = value + kStep;
    const double above = f();
    element = value - kStep;
    const double below = f();
    element = value;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

// Checks a network as the function sum(output · weights), weights random, in its input and all parameters.
void check_network(nn::Sequential network, std::int64_t samples) {
  const auto device = device::make_reference_device();
  const nn::ShardContext context{.device = device.get(), .seed = 3, .step = 4, .shard = 5, .training = true};
  const nn::BucketLayout layout = nn::plan_buckets(network.parameters());
  FlatBuckets parameters(layout, DType::kFloat64);
  const FlatBuckets gradients(layout, DType::kFloat64);
  nn::initialise_parameters(network.parameters(), 6, parameters.tensors);

  const std::vector<std::int64_t> input_shape = {samples, nn::elements_of(network.input_shape())};
  const std::int64_t outputs = nn::elements_of(network.output_shape());
  const auto x = TestTensor::random(DType::kFloat64, input_shape, 1);
  const TestTensor dx(DType::kFloat64, input_shape);
  const auto weights = testing::random_values(static_cast<std::size_t>(samples * outputs), 2);
  const auto f = [&] {
    const auto y = network.forward(context, x, parameters.tensors);
    EXPECT_TRUE(y);
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * y->as<double>()[i];
    return sum;
  };

  f();
  auto dy = TestTensor::of(DType::kFloat64, {samples, outputs}, weights);
  ASSERT_TRUE(network.backward(context, x, dy, parameters.tensors, gradients.tensors, dx));
  EXPECT_LE(relative_error(dx.values(), numeric_gradient(x, f)), kTolerance);
  for (std::size_t i = 0; i < layout.placements.size(); ++i) {
    EXPECT_LE(relative_error(TestTensor::values_of(gradients.tensors[i]),
                             numeric_gradient(parameters.tensors[i], f)),
              kTolerance)
        << layout.placements[i].name;
  }
}

nn::Sequential network_of(nn::SampleShape input, std::vector<std::unique_ptr<nn::Layer>> layers) {
  return {std::move(input), std::move(layers)};
}

template <class... Layers>
std::vector<std::unique_ptr<nn::Layer>> layers_of(std::unique_ptr<Layers>... layers) {
  std::vector<std::unique_ptr<nn::Layer>> all;
  (all.push_back(std::move(layers)), ...);
  return all;
}

TEST(GradientCheck, Linear) {
  check_network(network_of({5}, layers_of(std::make_unique<nn::Linear>("a", 5, 3))), 4);
}

TEST(GradientCheck, LinearOnSamplesWithSeveralDimensions) {
  check_network(network_of({2, 3}, layers_of(std::make_unique<nn::Linear>("a", 6, 4))), 3);
}

TEST(GradientCheck, LinearWithRelu) {
  check_network(
      network_of({5}, layers_of(std::make_unique<nn::Linear>("a", 5, 8, device::Activation::kRelu))), 4);
}

TEST(GradientCheck, Relu) {
  check_network(network_of({11}, layers_of(std::make_unique<nn::Relu>(nn::SampleShape{11}))), 3);
}

TEST(GradientCheck, Dropout) {
  check_network(network_of({40}, layers_of(std::make_unique<nn::Dropout>(nn::SampleShape{40}, 0.4, 1))), 3);
}

TEST(GradientCheck, SeveralLayers) {
  check_network(network_of({6}, layers_of(std::make_unique<nn::Linear>("a", 6, 9),
                                          std::make_unique<nn::Relu>(nn::SampleShape{9}),
                                          std::make_unique<nn::Dropout>(nn::SampleShape{9}, 0.3, 0),
                                          std::make_unique<nn::Linear>("b", 9, 7, device::Activation::kRelu),
                                          std::make_unique<nn::Dropout>(nn::SampleShape{7}, 0.2, 1),
                                          std::make_unique<nn::Linear>("c", 7, 4))),
                5);
}

TEST(GradientCheck, SoftmaxCrossEntropy) {
  const auto device = device::make_reference_device();
  const auto logits = TestTensor::random(DType::kFloat64, {4, 6}, 1);
  const TestTensor dlogits(DType::kFloat64, {4, 6});
  const auto labels = TestTensor::labels({5, 0, 2, 2});
  constexpr double kScale = 0.125;
  ASSERT_TRUE(device->softmax_cross_entropy(logits, labels, kScale, dlogits));
  const auto f = [&] { return kScale * device->softmax_cross_entropy(logits, labels, 1.0, Tensor())->loss; };
  EXPECT_LE(relative_error(dlogits.values(), numeric_gradient(logits, f)), kTolerance);
}

TEST(GradientCheck, WholeMlp) {
  const auto device = device::make_reference_device();
  auto model = *models::make_model(
      {.name = "mlp", .hidden = {12, 9}, .dropout = 0.25, .input_shape = {4, 3}, .classes = 5});
  const nn::BucketLayout layout = nn::plan_buckets(model->parameters(), 512);
  ASSERT_GT(layout.buckets(), 1u);
  FlatBuckets parameters(layout, DType::kFloat64);
  FlatBuckets gradients(layout, DType::kFloat64);
  FlatBuckets scratch(layout, DType::kFloat64);
  nn::initialise_parameters(model->parameters(), 8, parameters.tensors);
  const auto x = TestTensor::random(DType::kFloat64, {6, 4, 3}, 1);
  const auto labels = TestTensor::labels({4, 3, 2, 1, 0, 4});
  const models::Batch batch{.inputs = x, .labels = labels};
  const nn::ShardContext context{
      .device = device.get(), .seed = 1, .step = 2, .shard = 3, .gradient_scale = 1.0 / 24};
  ASSERT_TRUE(model->train_shard(context, batch, parameters.tensors, gradients.tensors));
  const auto f = [&] {
    return model->train_shard(context, batch, parameters.tensors, scratch.tensors)->loss_sum / 24;
  };
  for (std::size_t i = 0; i < layout.placements.size(); ++i) {
    EXPECT_LE(relative_error(TestTensor::values_of(gradients.tensors[i]),
                             numeric_gradient(parameters.tensors[i], f)),
              kTolerance)
        << layout.placements[i].name;
  }
}

}  // namespace
}  // namespace muster
