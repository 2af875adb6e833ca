// The reference device: plain loops that compute in double, on fp64 tensors, or on fp32 tensors whose results
// are rounded once. Slow and simple on purpose: the other devices are tested against it, and it is itself
// tested by finite differences.
#pragma once

#include <memory>

#include "trainer/device/device.h"

namespace muster::device {

std::unique_ptr<Device> make_reference_device();

}  // namespace muster::device
