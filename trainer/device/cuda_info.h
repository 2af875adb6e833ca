// What this build and machine know about CUDA, for listings only. One implementation is built: cuda_info.cc
// with the CUDA Toolkit, cuda_info_none.cc without.
#pragma once

#include <string>
#include <vector>

namespace muster::device {

// Lines such as "toolkit 12.4, driver 12.4" and "device 0: NVIDIA H100, 80 GiB, compute capability 9.0".
// Never fails: no driver and no device are lines too.
std::vector<std::string> cuda_lines();

}  // namespace muster::device
