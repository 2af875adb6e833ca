#include "trainer/code_identity.h"

#include <nlohmann/json.hpp>

#include "common/sha256.h"
#include "common/version.h"

namespace muster {

nlohmann::json code_identity(const device::Device& device) {
  // Hashed once: the file may be replaced while the process runs.
  static const Result<std::string> executable = sha256_file("/proc/self/exe");
  return {{"version", kVersion},
          {"executable_sha256", executable ? *executable : "unknown: " + executable.error().message},
          {"device", device.info()}};
}

}  // namespace muster
