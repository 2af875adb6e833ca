// Memory in the process's own address space, for the devices that compute on the CPU.
#pragma once

#include <cstddef>
#include <memory>

#include "common/status.h"
#include "trainer/device/device.h"

namespace muster::device {

Result<std::unique_ptr<Memory>> allocate_host_memory(std::size_t bytes);

}  // namespace muster::device
