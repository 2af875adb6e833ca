#include <fmt/ranges.h>

#include "trainer/device/cpu_device.h"
#include "trainer/device/cuda_info.h"
#include "trainer/device/device.h"
#include "trainer/device/reference_device.h"

namespace muster::device {

std::vector<std::string> list_devices() {
  std::vector<std::string> lines;
  auto cpu = make_cpu_device({});
  lines.push_back(cpu ? (*cpu)->info() : "cpu: " + cpu.error().message);
  lines.push_back(make_reference_device()->info());
  lines.push_back(fmt::format("cuda: training on CUDA devices is not available in this version; {}",
                              fmt::join(cuda_lines(), "; ")));
  return lines;
}

Result<std::unique_ptr<Device>> make_device(std::string_view name, int threads) {
  if (name == "cpu") return make_cpu_device({.threads = threads});
  if (name == "reference") return make_reference_device();
  if (name == "cuda") {
    return fail(ErrorCode::kUnavailable,
                "device cuda: training on CUDA devices is not available in this version ({}); use cpu or "
                "reference",
                fmt::join(cuda_lines(), "; "));
  }
  return fail(ErrorCode::kInvalidArgument, "unknown device '{}'; allowed: cpu, reference, cuda", name);
}

}  // namespace muster::device
