// The reference device against the definition of a derivative: central finite differences in double
// precision, for each layer and for whole models.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/flat_buckets.h"
#include "tests/support/test_tensor.h"
#include "trainer/device/reference_device.h"
#include "trainer/models/model.h"
#include "trainer/nn/conv2d.h"
#include "trainer/nn/dropout.h"
#include "trainer/nn/gelu.h"
#include "trainer/nn/layer_norm.h"
#include "trainer/nn/linear.h"
#include "trainer/nn/max_pool.h"
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

TEST(GradientCheck, Gelu) {
  check_network(network_of({11}, layers_of(std::make_unique<nn::Gelu>(nn::SampleShape{11}))), 3);
}

TEST(GradientCheck, LayerNorm) {
  check_network(network_of({7}, layers_of(std::make_unique<nn::LayerNorm>("a", nn::SampleShape{7}))), 3);
  check_network(network_of({3, 4}, layers_of(std::make_unique<nn::LayerNorm>("a", nn::SampleShape{3, 4}))),
                1);
}

TEST(GradientCheck, Convolution) {
  check_network(network_of({1, 5, 5}, layers_of(std::make_unique<nn::Conv2d>(
                                          "a", nn::SampleShape{1, 5, 5},
                                          nn::Conv2dOptions{.out_channels = 3, .kernel = {3, 3}}))),
                2);
  check_network(
      network_of({3, 5, 6},
                 layers_of(std::make_unique<nn::Conv2d>(
                     "a", nn::SampleShape{3, 5, 6},
                     nn::Conv2dOptions{.out_channels = 2, .kernel = {3, 2}, .window = {{2, 1}, {1, 1}}}))),
      1);
}

TEST(GradientCheck, ConvolutionWithRelu) {
  check_network(network_of({4, 3}, layers_of(std::make_unique<nn::Conv2d>(
                                       "a", nn::SampleShape{1, 4, 3},
                                       nn::Conv2dOptions{.out_channels = 5,
                                                         .kernel = {3, 3},
                                                         .window = {{1, 1}, {1, 1}},
                                                         .activation = device::Activation::kRelu}))),
                2);
}

TEST(GradientCheck, MaxPooling) {
  for (const device::Activation activation : {device::Activation::kNone, device::Activation::kRelu}) {
    check_network(network_of({3, 5, 7}, layers_of(std::make_unique<nn::MaxPool>(
                                            nn::SampleShape{3, 5, 7}, device::Extent2d{2, 3}, activation))),
                  2);
  }
}

TEST(GradientCheck, ConvolutionsAndPoolings) {
  const nn::Conv2dOptions first{.out_channels = 3, .kernel = {3, 3}, .window = {{1, 1}, {1, 1}}};
  const nn::Conv2dOptions second{.out_channels = 2, .kernel = {2, 2}};
  check_network(
      network_of({6, 7},
                 layers_of(std::make_unique<nn::Conv2d>("a", nn::SampleShape{1, 6, 7}, first),
                           std::make_unique<nn::MaxPool>(nn::SampleShape{3, 6, 7}, device::Extent2d{2, 2},
                                                         device::Activation::kRelu),
                           std::make_unique<nn::Conv2d>("b", nn::SampleShape{3, 3, 3}, second),
                           std::make_unique<nn::Gelu>(nn::SampleShape{2, 2, 2}),
                           std::make_unique<nn::Linear>("c", 8, 4))),
      3);
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
  for (const double smoothing : {0.0, 0.2}) {
    ASSERT_TRUE(device->softmax_cross_entropy(logits, labels, smoothing, kScale, dlogits));
    const auto f = [&] {
      return kScale * device->softmax_cross_entropy(logits, labels, smoothing, 1.0, Tensor())->loss;
    };
    EXPECT_LE(relative_error(dlogits.values(), numeric_gradient(logits, f)), kTolerance);
  }
}

// The mean loss of 6 samples of a batch of 24, in the model's parameters. stride: only each stride-th
// element.
void check_model(const models::ModelConfig& config, std::int64_t bucket_bytes_max, std::int64_t stride,
                 double tolerance) {
  const auto device = device::make_reference_device();
  auto model = *models::make_model(config);
  const nn::BucketLayout layout = nn::plan_buckets(model->parameters(), bucket_bytes_max);
  ASSERT_GT(layout.buckets(), 1u);
  FlatBuckets parameters(layout, DType::kFloat64);
  FlatBuckets gradients(layout, DType::kFloat64);
  FlatBuckets scratch(layout, DType::kFloat64);
  nn::initialise_parameters(model->parameters(), 8, parameters.tensors);
  std::vector<std::int64_t> shape = {6};
  shape.insert(shape.end(), config.input_shape.begin(), config.input_shape.end());
  const auto x = TestTensor::random(DType::kFloat64, shape, 1);
  const auto labels = TestTensor::labels({4, 3, 2, 1, 0, 4});
  const models::Batch batch{.inputs = x, .labels = labels};
  const nn::ShardContext context{
      .device = device.get(), .seed = 1, .step = 2, .shard = 3, .gradient_scale = 1.0 / 24};
  ASSERT_TRUE(model->train_shard(context, batch, parameters.tensors, gradients.tensors));
  const auto f = [&] {
    return model->train_shard(context, batch, parameters.tensors, scratch.tensors)->loss_sum / 24;
  };
  for (std::size_t i = 0; i < layout.placements.size(); ++i) {
    std::vector<double> exact;
    std::vector<double> numeric;
    for (std::int64_t at = 0; at < gradients.tensors[i].elements(); at += stride) {
      const Tensor element(parameters.tensors[i].as<double>() + at, DType::kFloat64, {1});
      exact.push_back(gradients.tensors[i].as<double>()[at]);
      numeric.push_back(numeric_gradient(element, f)[0]);
    }
    EXPECT_LE(relative_error(exact, numeric), tolerance) << layout.placements[i].name;
  }
}

TEST(GradientCheck, WholeMlp) {
  check_model({.name = "mlp", .hidden = {12, 9}, .dropout = 0.25, .input_shape = {4, 3}, .classes = 5}, 512,
              1, kTolerance);
}

TEST(GradientCheck, WholeMlpWithEverything) {
  for (const char* activation : {"relu", "gelu"}) {
    check_model({.name = "mlp",
                 .hidden = {12, 9},
                 .activation = activation,
                 .layer_norm = true,
                 .dropout = 0.25,
                 .label_smoothing = 0.1,
                 .input_shape = {4, 3},
                 .classes = 5},
                512, 1, kTolerance);
  }
}

TEST(GradientCheck, WholeLogistic) {
  check_model({.name = "logistic", .hidden = {7}, .input_shape = {4, 3}, .classes = 5}, 256, 1, kTolerance);
}

TEST(GradientCheck, WholeLenet) {
  // Single elements are as small as 1e-4, and a difference quotient is exact to about 1e-16 / kStep = 1e-11.
  check_model({.name = "lenet", .dropout = 0.25, .label_smoothing = 0.1, .input_shape = {5, 6}, .classes = 5},
              100'000, 9973, 1e-6);
}

}  // namespace
}  // namespace muster
