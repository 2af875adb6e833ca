// What the tests of all Devices share: the implementations, and an operation's tensors on a device (fp32) and
// on the reference in double precision.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/test_tensor.h"
#include "trainer/device/cpu_device.h"
#include "trainer/device/device.h"
#include "trainer/device/reference_device.h"

namespace muster::device {

using testing::random_values;
using testing::relative_error;
using testing::TestTensor;

constexpr double kTolerance = 1e-6;

struct Implementation {
  std::string name;
  std::unique_ptr<Device> (*make)();
};

inline std::unique_ptr<Device> make_cpu(int threads, bool reorder) {
  auto device = make_cpu_device({.threads = threads, .native_weight_layout = reorder});
  EXPECT_TRUE(device) << device.error().message;
  return device ? std::move(*device) : nullptr;
}

class DeviceContract : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    device = GetParam().make();
    ASSERT_NE(device, nullptr);
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Device> reference = make_reference_device();
};

// The same operation on the device (fp32) and on the reference (fp64), from the same values.
struct Both {
  TestTensor narrow;
  TestTensor wide;

  Both(const std::vector<std::int64_t>& shape, std::uint64_t seed)
      : narrow(TestTensor::random(DType::kFloat32, shape, seed)),
        wide(TestTensor::random(DType::kFloat64, shape, seed)) {}
  Both(const std::vector<std::int64_t>& shape, const std::vector<double>& values)
      : narrow(TestTensor::of(DType::kFloat32, shape, values)),
        wide(TestTensor::of(DType::kFloat64, shape, narrow.values())) {}

  double error() const { return relative_error(narrow.values(), wide.values()); }
};

inline auto all_devices() {
  return ::testing::Values(Implementation{"cpu", [] { return make_cpu(1, false); }},
                           Implementation{"cpu_library_layout", [] { return make_cpu(1, true); }},
                           Implementation{"cpu_two_threads", [] { return make_cpu(2, false); }},
                           Implementation{"reference", [] { return make_reference_device(); }});
}

inline std::string name_of(const ::testing::TestParamInfo<Implementation>& instance) {
  return instance.param.name;
}

}  // namespace muster::device
