#include "trainer/device/cuda_info.h"

namespace muster::device {

std::vector<std::string> cuda_lines() { return {"built without the CUDA Toolkit (MUSTER_CUDA)"}; }

}  // namespace muster::device
