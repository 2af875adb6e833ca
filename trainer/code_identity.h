// Who computes: recorded in every checkpoint, so that a change can be named when a run goes on.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/device/device.h"

namespace muster {

// {"version", "executable_sha256", "device": {library, version, ISA, threads}}
nlohmann::json code_identity(const device::Device& device);

}  // namespace muster
