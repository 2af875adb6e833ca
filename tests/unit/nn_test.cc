// Dropout's statistics, initial values, and the layout of buckets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/flat_buckets.h"
#include "tests/support/test_tensor.h"
#include "trainer/device/cpu_device.h"
#include "trainer/nn/bucket_layout.h"
#include "trainer/nn/dropout.h"
#include "trainer/nn/parameter.h"

namespace muster::nn {
namespace {

using device::DType;
using testing::FlatBuckets;
using testing::TestTensor;

TEST(Dropout, KeepsTheRightShareAndScalesIt) {
  constexpr std::int64_t kElements = 200000;
  const auto device = *device::make_cpu_device({});
  const TestTensor x = TestTensor::of(DType::kFloat32, {1, kElements}, std::vector<double>(kElements, 1.0));
  const TestTensor y(DType::kFloat32, {1, kElements});
  const TestTensor mask(DType::kUint8, {1, kElements});
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const Dropout layer({kElements}, rate, 3);
    const ShardContext context{.device = device.get(), .seed = 1, .step = 2, .shard = 3, .training = true};
    ASSERT_TRUE(layer.forward(context, {.x = x, .parameters = {}, .y = y, .state = mask}));
    double kept = 0;
    for (const double value : y.values()) {
      if (value == 0) continue;
      ++kept;
      EXPECT_NEAR(value, 1 / (1 - rate), 1e-5);
    }
    EXPECT_NEAR(kept / kElements, 1 - rate, 0.005);

    ShardContext inference = context;
    inference.training = false;
    ASSERT_TRUE(layer.forward(inference, {.x = x, .parameters = {}, .y = y, .state = mask}));
    EXPECT_EQ(y.bits(), x.bits());
  }
}

TEST(Dropout, LayersShardsStepsAndSeedsDrawDifferentMasks) {
  const auto device = *device::make_cpu_device({});
  const TestTensor x = TestTensor::of(DType::kFloat32, {1, 256}, std::vector<double>(256, 1.0));
  const auto output = [&](std::uint64_t seed, std::int64_t step, std::int32_t shard, std::uint32_t layer) {
    const TestTensor y(DType::kFloat32, {1, 256});
    const TestTensor mask(DType::kUint8, {1, 256});
    const ShardContext context{
        .device = device.get(), .seed = seed, .step = step, .shard = shard, .training = true};
    EXPECT_TRUE(
        Dropout({256}, 0.5, layer).forward(context, {.x = x, .parameters = {}, .y = y, .state = mask}));
    return y.bits();
  };
  const std::string base = output(1, 1, 1, 1);
  EXPECT_EQ(output(1, 1, 1, 1), base);
  EXPECT_NE(output(2, 1, 1, 1), base);
  EXPECT_NE(output(1, 2, 1, 1), base);
  EXPECT_NE(output(1, 1, 2, 1), base);
  EXPECT_NE(output(1, 1, 1, 2), base);
}

std::vector<ParameterSpec> specs_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<ParameterSpec> specs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    specs.push_back({.name = fmt::format("p{}", i), .shape = shapes[i], .fan_in = 100});
  }
  return specs;
}

TEST(InitialValues, AreUniformWithinTheBoundAndReproducible) {
  const auto specs = specs_of({{200, 100}, {200}});
  const BucketLayout layout = plan_buckets(specs);
  const FlatBuckets first(layout);
  const FlatBuckets again(layout);
  const FlatBuckets other(layout);
  const FlatBuckets wide(layout, DType::kFloat64);
  initialise_parameters(specs, 1, first.tensors);
  initialise_parameters(specs, 1, again.tensors);
  initialise_parameters(specs, 2, other.tensors);
  initialise_parameters(specs, 1, wide.tensors);
  EXPECT_EQ(TestTensor::bits_of(first.flat[0]), TestTensor::bits_of(again.flat[0]));
  EXPECT_NE(TestTensor::bits_of(first.flat[0]), TestTensor::bits_of(other.flat[0]));
  EXPECT_EQ(TestTensor::values_of(first.flat[0]), TestTensor::values_of(wide.flat[0]));

  double sum = 0;
  double squares = 0;
  double largest = 0;
  for (const double value : TestTensor::values_of(first.tensors[0])) {
    sum += value;
    squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  EXPECT_LE(largest, 0.1);  // 1 / sqrt(100)
  EXPECT_GT(largest, 0.099);
  EXPECT_NEAR(sum / 20000, 0, 0.002);
  EXPECT_NEAR(squares / 20000, 0.1 * 0.1 / 3, 0.0001);
  EXPECT_NE(TestTensor::values_of(first.tensors[0])[0], TestTensor::values_of(first.tensors[1])[0]);
}

TEST(InitialValues, CanBeZero) {
  auto specs = specs_of({{3}});
  specs[0].initializer = Initializer::kZero;
  const FlatBuckets parameters(plan_buckets(specs));
  parameters.tensors[0].as<float>()[1] = 5;
  initialise_parameters(specs, 1, parameters.tensors);
  EXPECT_EQ(TestTensor::values_of(parameters.tensors[0]), std::vector<double>(3, 0.0));
}

TEST(BucketLayout, AlignsEachTensorTo64Bytes) {
  const BucketLayout layout = plan_buckets(specs_of({{3, 5}, {1}, {16}, {17}}));
  ASSERT_EQ(layout.buckets(), 1u);
  std::vector<std::int64_t> offsets;
  for (const Placement& placement : layout.placements) offsets.push_back(placement.offset);
  EXPECT_THAT(offsets, ::testing::ElementsAre(0, 16, 32, 48));
  EXPECT_EQ(layout.bucket_elements[0], 80);
  EXPECT_EQ(layout.bucket_bytes(0), 320u);
  EXPECT_EQ(layout.bucket_bytes(0, DType::kFloat64), 640u);
}

TEST(BucketLayout, StartsANewBucketAtTheLimit) {
  const auto specs = specs_of({{16}, {16}, {16}, {100}, {1}});
  const BucketLayout layout = plan_buckets(specs, 128);
  std::vector<std::pair<std::size_t, std::int64_t>> places;
  for (const Placement& placement : layout.placements)
    places.emplace_back(placement.bucket, placement.offset);
  using P = std::pair<std::size_t, std::int64_t>;
  EXPECT_THAT(places, ::testing::ElementsAre(P(0, 0), P(0, 16), P(1, 0), P(2, 0), P(3, 0)));
  EXPECT_THAT(layout.bucket_elements, ::testing::ElementsAre(32, 16, 112, 16));
}

TEST(BucketLayout, HashTellsPlansApart) {
  const auto specs = specs_of({{3, 5}, {7}});
  const std::string hash = plan_buckets(specs).hash;
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(plan_buckets(specs).hash, hash);
  EXPECT_NE(plan_buckets(specs, 64).hash, hash);
  EXPECT_NE(plan_buckets(specs_of({{5, 3}, {7}})).hash, hash);
  EXPECT_NE(plan_buckets(specs_of({{3, 5}})).hash, hash);
  auto renamed = specs;
  renamed[1].name = "other";
  EXPECT_NE(plan_buckets(renamed).hash, hash);
}

TEST(BucketLayout, NoParametersMakeNoBuckets) { EXPECT_EQ(plan_buckets({}).buckets(), 0u); }

}  // namespace
}  // namespace muster::nn
