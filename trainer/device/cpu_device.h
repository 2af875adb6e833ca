// The cpu device: fp32, matrix products and convolutions through oneDNN, the rest plain loops on the calling
// thread.
#pragma once

#include <memory>

#include "common/status.h"
#include "trainer/device/device.h"

namespace muster::device {

struct CpuOptions {
  int threads = 1;  // of matrix products and convolutions
  // Lets oneDNN choose the layout in which it reads weights, as it does by default with AVX-512 only.
  bool native_weight_layout = false;
};

Result<std::unique_ptr<Device>> make_cpu_device(const CpuOptions& options);

}  // namespace muster::device
