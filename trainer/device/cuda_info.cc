#include "trainer/device/cuda_info.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace muster::device {
namespace {

std::string version_text(int version) {
  return version == 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::vector<std::string> cuda_lines() {
  int driver = 0;
  // 0 stays when no driver is installed; a failure here is no failure of the listing.
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  std::vector<std::string> lines = {
      fmt::format("toolkit {}, driver supports {}", version_text(CUDART_VERSION), version_text(driver))};
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    lines.push_back(fmt::format("no device: {}", cudaGetErrorString(error)));
    return lines;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess) {
      lines.push_back(fmt::format("device {}: {}", index, cudaGetErrorString(error)));
      continue;
    }
    lines.push_back(fmt::format("device {}: {}, {} GiB, compute capability {}.{}", index, properties.name,
                                properties.totalGlobalMem >> 30, properties.major, properties.minor));
  }
  return lines;
}

}  // namespace muster::device
