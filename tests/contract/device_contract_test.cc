// What every Device promises, on each implementation: each operation against the reference device in double
// precision (1e-6, norm-wise), and results that depend on inputs and shapes alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/contract/device_contract.h"

namespace muster::device {
namespace {

struct LinearShape {
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;
};

// The trainer's own shapes, single rows and columns, and sizes that no vector length divides.
const LinearShape kShapes[] = {{1, 1, 1},      {16, 784, 512}, {16, 512, 256}, {16, 256, 10},
                               {15, 784, 512}, {1, 784, 512},  {3, 5, 7},      {17, 33, 65},
                               {64, 64, 10},   {2, 1, 129},    {31, 129, 1}};

TEST_P(DeviceContract, LinearForward) {
  for (const auto& [rows, in, out] : kShapes) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
      SCOPED_TRACE(fmt::format("{} rows, {} in, {} out, activation {}", rows, in, out, int(activation)));
      const Both x({rows, in}, 1);
      const Both weight({out, in}, 2);
      const Both bias({out}, 3);
      const Both y({rows, out}, 4);
      ASSERT_TRUE(device->linear_forward(x.narrow, weight.narrow, bias.narrow, activation, 0, y.narrow));
      ASSERT_TRUE(reference->linear_forward(x.wide, weight.wide, bias.wide, activation, 0, y.wide));
      EXPECT_LE(y.error(), kTolerance);

      ASSERT_TRUE(device->linear_forward(x.narrow, weight.narrow, Tensor(), activation, 0, y.narrow));
      ASSERT_TRUE(reference->linear_forward(x.wide, weight.wide, Tensor(), activation, 0, y.wide));
      EXPECT_LE(y.error(), kTolerance) << "without bias";
    }
  }
}

TEST_P(DeviceContract, LinearBackward) {
  for (const auto& [rows, in, out] : kShapes) {
    SCOPED_TRACE(fmt::format("{} rows, {} in, {} out", rows, in, out));
    const Both x({rows, in}, 5);
    const Both weight({out, in}, 6);
    const Both dy({rows, out}, 7);
    const Both dx({rows, in}, 8);  // old contents must not matter
    const Both dweight({out, in}, 9);
    const Both dbias({out}, 10);
    ASSERT_TRUE(device->linear_backward_data(dy.narrow, weight.narrow, 0, dx.narrow));
    ASSERT_TRUE(reference->linear_backward_data(dy.wide, weight.wide, 0, dx.wide));
    EXPECT_LE(dx.error(), kTolerance);
    ASSERT_TRUE(device->linear_backward_weights(x.narrow, dy.narrow, dweight.narrow, dbias.narrow));
    ASSERT_TRUE(reference->linear_backward_weights(x.wide, dy.wide, dweight.wide, dbias.wide));
    EXPECT_LE(dweight.error(), kTolerance);
    EXPECT_LE(dbias.error(), kTolerance);
    ASSERT_TRUE(device->linear_backward_weights(x.narrow, dy.narrow, dweight.narrow, Tensor()));
    EXPECT_LE(dweight.error(), kTolerance) << "without bias";
  }
}

TEST_P(DeviceContract, NoRowsGiveZeroGradients) {
  const TestTensor x(DType::kFloat32, {0, 5});
  const TestTensor dx(DType::kFloat32, {0, 5});
  const TestTensor y(DType::kFloat32, {0, 7});
  const auto weight = TestTensor::random(DType::kFloat32, {7, 5}, 1);
  const auto dweight = TestTensor::random(DType::kFloat32, {7, 5}, 2);
  const auto dbias = TestTensor::random(DType::kFloat32, {7}, 3);
  const auto labels = TestTensor::labels({});
  ASSERT_TRUE(device->linear_forward(x, weight, dbias, Activation::kRelu, 1, y));
  ASSERT_TRUE(device->linear_backward_data(y, weight, 1, dx));
  ASSERT_TRUE(device->linear_backward_weights(x, y, dweight, dbias));
  EXPECT_EQ(dweight.values(), std::vector<double>(35, 0.0));
  EXPECT_EQ(dbias.values(), std::vector<double>(7, 0.0));
  const auto sum = device->softmax_cross_entropy(y, labels, 0.1, 1.0, y);
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->loss, 0);
  EXPECT_EQ(sum->correct, 0);
}

TEST_P(DeviceContract, ParametersThatChangeAreSeen) {
  const auto x = TestTensor::random(DType::kFloat32, {16, 96}, 1);
  auto weight = TestTensor::random(DType::kFloat32, {64, 96}, 2);
  const TestTensor y(DType::kFloat32, {16, 64});
  const TestTensor dx(DType::kFloat32, {16, 96});
  const auto run = [&](ParametersVersion version) {
    EXPECT_TRUE(device->linear_forward(x, weight, Tensor(), Activation::kNone, version, y));
    EXPECT_TRUE(device->linear_backward_data(y, weight, version, dx));
    return y.bits() + dx.bits();
  };
  const auto first = random_values(std::size_t{64} * 96, 2);
  const auto second = random_values(std::size_t{64} * 96, 3);
  const std::string with_first = run(1);
  EXPECT_EQ(run(1), with_first);
  weight.set(second);
  const std::string with_second = run(2);
  EXPECT_NE(with_second, with_first);
  weight.set(first);
  EXPECT_EQ(run(0), with_first);  // version 0 never trusts a copy
  weight.set(second);
  EXPECT_EQ(run(0), with_second);
  weight.set(first);
  EXPECT_EQ(run(3), with_first);
}

TEST_P(DeviceContract, ForwardAndBackwardOfASquareWeightDoNotMixUp) {
  // Both products may keep copies of the same shape, of which one is transposed.
  const Both x({8, 64}, 1);
  const Both weight({64, 64}, 2);
  const Both y({8, 64}, 3);
  const Both dx({8, 64}, 4);
  ASSERT_TRUE(device->linear_forward(x.narrow, weight.narrow, Tensor(), Activation::kNone, 1, y.narrow));
  ASSERT_TRUE(device->linear_backward_data(x.narrow, weight.narrow, 1, dx.narrow));
  ASSERT_TRUE(reference->linear_forward(x.wide, weight.wide, Tensor(), Activation::kNone, 1, y.wide));
  ASSERT_TRUE(reference->linear_backward_data(x.wide, weight.wide, 1, dx.wide));
  EXPECT_LE(y.error(), kTolerance);
  EXPECT_LE(dx.error(), kTolerance);
}

TEST_P(DeviceContract, ReluKeepsWhatIsPositive) {
  const Both x({7, 13}, 1);
  const Both dy({7, 13}, 2);
  const Both y({7, 13}, 3);
  const Both dx({7, 13}, 4);
  ASSERT_TRUE(device->relu_forward(x.narrow, y.narrow));
  ASSERT_TRUE(device->relu_backward(y.narrow, dy.narrow, dx.narrow));
  const auto inputs = x.narrow.values();
  const auto outputs = y.narrow.values();
  const auto gradients = dx.narrow.values();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(outputs[i], inputs[i] > 0 ? inputs[i] : 0);
    EXPECT_EQ(gradients[i], inputs[i] > 0 ? dy.narrow.values()[i] : 0);
  }
}

TEST_P(DeviceContract, ReluDoesNotHideNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto x = TestTensor::of(DType::kFloat32, {4}, {nan, -1, 0, 2});
  ASSERT_TRUE(device->relu_forward(x, x));
  EXPECT_TRUE(std::isnan(x.values()[0]));

  const auto row = TestTensor::of(DType::kFloat32, {1, 2}, {nan, 1});
  const auto weight = TestTensor::of(DType::kFloat32, {3, 2}, {1, 0, 0, 1, -1, 1});
  const TestTensor y(DType::kFloat32, {1, 3});
  ASSERT_TRUE(device->linear_forward(row, weight, Tensor(), Activation::kRelu, 0, y));
  EXPECT_TRUE(std::isnan(y.values()[0]));
}

TEST_P(DeviceContract, Gelu) {
  std::vector<double> values = random_values(1003, 1);
  for (double& value : values) value *= 6;  // well into both tails
  const Both x({1003}, values);
  const Both dy({1003}, 2);
  const Both y({1003}, 3);
  const Both dx({1003}, 4);
  ASSERT_TRUE(device->gelu_forward(x.narrow, y.narrow));
  ASSERT_TRUE(reference->gelu_forward(x.wide, y.wide));
  EXPECT_LE(y.error(), kTolerance);
  ASSERT_TRUE(device->gelu_backward(x.narrow, dy.narrow, dx.narrow));
  ASSERT_TRUE(reference->gelu_backward(x.wide, dy.wide, dx.wide));
  EXPECT_LE(dx.error(), kTolerance);

  const auto known = TestTensor::of(DType::kFloat32, {3}, {-1, 0, 1});  // Φ(1) = 0.8413447460685429
  ASSERT_TRUE(device->gelu_forward(known, known));
  EXPECT_NEAR(known.values()[0], -0.1586552539314571, 1e-7);
  EXPECT_EQ(known.values()[1], 0);
  EXPECT_NEAR(known.values()[2], 0.8413447460685429, 1e-7);
}

TEST_P(DeviceContract, LayerNorm) {
  for (const auto& [rows, features] :
       {std::pair<std::int64_t, std::int64_t>{0, 7}, {1, 1}, {1, 13}, {16, 512}, {5, 33}}) {
    SCOPED_TRACE(fmt::format("{} rows of {}", rows, features));
    const Both x({rows, features}, 1);
    const Both weight({features}, 2);
    const Both bias({features}, 3);
    const Both y({rows, features}, 4);
    const TestTensor moments(DType::kFloat64, {rows, 2});
    const TestTensor reference_moments(DType::kFloat64, {rows, 2});
    ASSERT_TRUE(device->layer_norm_forward(x.narrow, weight.narrow, bias.narrow, 1e-5, moments, y.narrow));
    ASSERT_TRUE(
        reference->layer_norm_forward(x.wide, weight.wide, bias.wide, 1e-5, reference_moments, y.wide));
    EXPECT_LE(y.error(), kTolerance);
    EXPECT_LE(relative_error(moments.values(), reference_moments.values()), kTolerance);

    const Both dy({rows, features}, 5);
    const Both dx({rows, features}, 6);
    const Both dweight({features}, 7);
    const Both dbias({features}, 8);
    ASSERT_TRUE(device->layer_norm_backward(x.narrow, dy.narrow, weight.narrow, moments, dx.narrow,
                                            dweight.narrow, dbias.narrow));
    ASSERT_TRUE(reference->layer_norm_backward(x.wide, dy.wide, weight.wide, reference_moments, dx.wide,
                                               dweight.wide, dbias.wide));
    EXPECT_LE(dx.error(), kTolerance);
    EXPECT_LE(dweight.error(), kTolerance);
    EXPECT_LE(dbias.error(), kTolerance);
    const std::string before = dweight.narrow.bits();
    ASSERT_TRUE(device->layer_norm_backward(x.narrow, dy.narrow, weight.narrow, moments, Tensor(),
                                            dweight.narrow, dbias.narrow));
    EXPECT_EQ(dweight.narrow.bits(), before) << "without dx";
  }
}

TEST_P(DeviceContract, DropoutIsTheStreamsMask) {
  constexpr double kRate = 0.3;
  constexpr std::int64_t kElements = 4 * 1500 + 3;
  const random::Stream stream{.key = {11, 12}, .step = 5, .shard = 3, .layer = 2};
  const Both x({1, kElements}, 1);
  const Both y({1, kElements}, 2);
  const TestTensor mask(DType::kUint8, {1, kElements});
  const TestTensor reference_mask(DType::kUint8, {1, kElements});
  ASSERT_TRUE(device->dropout_forward(x.narrow, kRate, stream, mask, y.narrow));
  ASSERT_TRUE(reference->dropout_forward(x.wide, kRate, stream, reference_mask, y.wide));
  EXPECT_EQ(mask.bits(), reference_mask.bits());
  EXPECT_LE(y.error(), kTolerance);
  const Both dx({1, kElements}, 3);
  ASSERT_TRUE(device->dropout_backward(x.narrow, kRate, mask, dx.narrow));
  EXPECT_EQ(dx.narrow.bits(), y.narrow.bits());  // the same linear map
}

TEST_P(DeviceContract, SoftmaxCrossEntropy) {
  for (const double smoothing : {0.0, 0.1, 0.9}) {
    for (const double size : {1.0, 30.0, 500.0}) {  // 500: exp() of a logit overflows even in double
      SCOPED_TRACE(fmt::format("smoothing {}, logits of {}", smoothing, size));
      std::vector<double> values = random_values(30, 1);
      for (double& value : values) value *= size;
      const Both logits({6, 5}, values);
      const Both dlogits({6, 5}, 2);
      const auto labels = TestTensor::labels({0, 1, 2, 3, 4, 0});
      const auto got = device->softmax_cross_entropy(logits.narrow, labels, smoothing, 0.25, dlogits.narrow);
      const auto expected =
          reference->softmax_cross_entropy(logits.wide, labels, smoothing, 0.25, dlogits.wide);
      ASSERT_TRUE(got && expected);
      EXPECT_NEAR(got->loss, expected->loss, kTolerance * expected->loss);
      EXPECT_EQ(got->correct, expected->correct);
      EXPECT_LE(dlogits.error(), kTolerance);

      const auto without = device->softmax_cross_entropy(logits.narrow, labels, smoothing, 0.25, Tensor());
      ASSERT_TRUE(without);
      EXPECT_EQ(without->loss, got->loss);
    }
  }
}

TEST_P(DeviceContract, LabelSmoothingIsPyTorchs) {
  // torch.nn.functional.cross_entropy(torch.tensor([[2., 0., -1.], [0., 1., 0.]]), torch.tensor([0, 2]),
  // reduction="sum", label_smoothing=0.3), by its definition: 0.7 · (loss of the label) + 0.3 · (mean loss of
  // all classes).
  const auto logits = TestTensor::of(DType::kFloat32, {2, 3}, {2, 0, -1, 0, 1, 0});
  const auto sum = device->softmax_cross_entropy(logits, TestTensor::labels({0, 2}), 0.3, 1.0, Tensor());
  ASSERT_TRUE(sum);
  const double first = std::log(std::exp(2.0) + 1 + std::exp(-1.0));
  const double second = std::log(std::exp(1.0) + 2);
  const double expected =
      0.7 * (first - 2) + 0.3 * (first - 1.0 / 3) + 0.7 * second + 0.3 * (second - 1.0 / 3);
  EXPECT_NEAR(sum->loss, expected, 1e-6);
}

TEST_P(DeviceContract, CountsTheFirstLargestLogitAsThePrediction) {
  const auto logits = TestTensor::of(DType::kFloat32, {3, 3}, {1, 1, 0, 1, 1, 0, 0, 0, 2});
  const auto sum = device->softmax_cross_entropy(logits, TestTensor::labels({0, 1, 2}), 0.0, 1.0, Tensor());
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->correct, 2);
}

TEST_P(DeviceContract, FlatArithmetic) {
  const Both a({1003}, 1);
  const Both b({1003}, 2);
  const Both sum({1003}, 3);
  ASSERT_TRUE(device->add(a.narrow, b.narrow, sum.narrow));
  for (std::size_t i = 0; i < 1003; ++i) {  // rounded once, so exactly this
    ASSERT_EQ(sum.narrow.values()[i],
              static_cast<float>(a.narrow.values()[i]) + static_cast<float>(b.narrow.values()[i]));
  }
  const auto norm = device->squared_norm(a.narrow);
  const auto expected = reference->squared_norm(a.wide);
  ASSERT_TRUE(norm && expected);
  EXPECT_NEAR(*norm, *expected, 1e-12 * *expected);

  ASSERT_TRUE(device->copy(a.narrow, sum.narrow));
  EXPECT_EQ(sum.narrow.bits(), a.narrow.bits());
  ASSERT_TRUE(device->scale(sum.narrow, 0.5));
  EXPECT_EQ(sum.narrow.values()[7], a.narrow.values()[7] / 2);
  ASSERT_TRUE(device->fill(sum.narrow, 3));
  EXPECT_EQ(sum.narrow.values(), std::vector<double>(1003, 3.0));
  ASSERT_TRUE(device->add(a.narrow, a.narrow, a.narrow));
  EXPECT_EQ(a.narrow.values()[9], 2 * a.wide.values()[9]);
}

TEST_P(DeviceContract, SquaredNormTellsNonFinite) {
  for (std::size_t at : {0u, 500u, 1002u}) {
    for (const double bad :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      auto x = TestTensor::random(DType::kFloat32, {1003}, 1);
      x.set(at, bad);
      const auto norm = device->squared_norm(x);
      ASSERT_TRUE(norm);
      EXPECT_FALSE(std::isfinite(*norm));
    }
  }
  const auto largest = TestTensor::of(DType::kFloat32, {3}, std::vector<double>(3, 3.4e38));
  EXPECT_TRUE(std::isfinite(*device->squared_norm(largest)));
  EXPECT_EQ(*device->squared_norm(TestTensor(DType::kFloat32, {0})), 0);
}

TEST_P(DeviceContract, OptimizerSteps) {
  const Both parameter({1003}, 1);
  const Both gradient({1003}, 2);
  const Both momentum({1003}, 3);
  const SgdScalars sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  ASSERT_TRUE(device->sgd_step(sgd, parameter.narrow, gradient.narrow, momentum.narrow));
  ASSERT_TRUE(reference->sgd_step(sgd, parameter.wide, gradient.wide, momentum.wide));
  EXPECT_LE(parameter.error(), kTolerance);
  EXPECT_LE(momentum.error(), kTolerance);
  const SgdScalars plain{.learning_rate = 0.05, .momentum = 0, .weight_decay = 0.01};
  ASSERT_TRUE(device->sgd_step(plain, parameter.narrow, gradient.narrow, Tensor()));
  ASSERT_TRUE(reference->sgd_step(plain, parameter.wide, gradient.wide, Tensor()));
  EXPECT_LE(parameter.error(), kTolerance);

  const Both exp_avg({1003}, std::vector<double>(1003, 0.0));
  const Both exp_avg_sq({1003}, std::vector<double>(1003, 0.0));
  for (std::int64_t step = 1; step <= 3; ++step) {
    const AdamWScalars adamw{.learning_rate = 1e-2, .weight_decay = 0.1, .step_count = step};
    ASSERT_TRUE(
        device->adamw_step(adamw, parameter.narrow, gradient.narrow, exp_avg.narrow, exp_avg_sq.narrow));
    ASSERT_TRUE(reference->adamw_step(adamw, parameter.wide, gradient.wide, exp_avg.wide, exp_avg_sq.wide));
    EXPECT_LE(parameter.error(), kTolerance);
    EXPECT_LE(exp_avg.error(), kTolerance);
    EXPECT_LE(exp_avg_sq.error(), kTolerance);
  }
}

TEST_P(DeviceContract, AdamWLeavesPaddingZero) {
  const TestTensor zeros[4] = {TestTensor(DType::kFloat32, {16}), TestTensor(DType::kFloat32, {16}),
                               TestTensor(DType::kFloat32, {16}), TestTensor(DType::kFloat32, {16})};
  ASSERT_TRUE(
      device->adamw_step({.learning_rate = 1, .weight_decay = 0.1}, zeros[0], zeros[1], zeros[2], zeros[3]));
  EXPECT_EQ(zeros[0].values(), std::vector<double>(16, 0.0));
}

// Everything that a training step computes, as bits. offset_bytes moves all tensors off their alignment.
std::string linear_bits(Device& device, const LinearShape& shape, std::size_t offset_bytes) {
  const auto& [rows, in, out] = shape;
  const auto x = TestTensor::random(DType::kFloat32, {rows, in}, 1, offset_bytes);
  const auto weight = TestTensor::random(DType::kFloat32, {out, in}, 2, offset_bytes);
  const auto bias = TestTensor::random(DType::kFloat32, {out}, 3, offset_bytes);
  const TestTensor y(DType::kFloat32, {rows, out}, offset_bytes);
  const TestTensor dx(DType::kFloat32, {rows, in}, offset_bytes);
  const TestTensor dweight(DType::kFloat32, {out, in}, offset_bytes);
  const TestTensor dbias(DType::kFloat32, {out}, offset_bytes);
  EXPECT_TRUE(device.linear_forward(x, weight, bias, Activation::kRelu, 0, y));
  EXPECT_TRUE(device.linear_backward_data(y, weight, 0, dx));
  EXPECT_TRUE(device.linear_backward_weights(x, y, dweight, dbias));
  const auto norm = device.squared_norm(dweight);
  EXPECT_TRUE(norm);
  return y.bits() + dx.bits() + dweight.bits() + dbias.bits() + fmt::format("{}", *norm);
}

TEST_P(DeviceContract, ResultsDependOnInputsAndShapesAlone) {
  std::vector<std::string> first;
  for (const LinearShape& shape : kShapes) first.push_back(linear_bits(*device, shape, 0));
  // The other way round, elsewhere in memory, on a device that has not seen the other shapes before.
  const auto fresh = GetParam().make();
  for (std::size_t i = std::size(kShapes); i-- > 0;) {
    SCOPED_TRACE(i);
    for (const std::size_t offset : {0u, 4u, 16u, 36u}) {
      EXPECT_EQ(linear_bits(*device, kShapes[i], offset), first[i]) << "offset " << offset;
    }
    EXPECT_EQ(linear_bits(*fresh, kShapes[i], 0), first[i]);
  }
}

TEST_P(DeviceContract, AllocatesZeroedAlignedMemory) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100000}}) {
    const auto memory = device->allocate(bytes);
    ASSERT_TRUE(memory);
    EXPECT_EQ((*memory)->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*memory)->data()) % kAlignmentBytes, 0u);
    const std::string contents(static_cast<const char*>((*memory)->data()), bytes);
    EXPECT_EQ(contents, std::string(bytes, '\0'));
  }
  EXPECT_FALSE(device->allocate(SIZE_MAX));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract, all_devices(), name_of);

TEST(MakeDevice, KnowsItsNames) {
  EXPECT_EQ((*make_device("cpu", 1))->name(), "cpu");
  EXPECT_EQ((*make_device("reference", 1))->name(), "reference");
  EXPECT_NE((*make_device("cpu", 2))->info().find("2 threads"), std::string::npos);
  EXPECT_EQ(make_device("cuda", 1).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(make_device("cpu", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_device("tpu", 1).error().message, "unknown device 'tpu'; allowed: cpu, reference, cuda");
  EXPECT_EQ(list_devices().size(), 3u);
}

}  // namespace
}  // namespace muster::device
