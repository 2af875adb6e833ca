// The file that carries an attempt's environment to its ranks: {"variables": {"NAME": "VALUE", …}}, mode 600.
// A file, because launchers' own options cut values at commas, quotes and newlines.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/file_ops.h"
#include "common/status.h"

namespace muster {

using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

// In the order of the names. kInvalidArgument: no such object, or a name or value that no environment can
// hold.
Result<EnvironmentVariables> read_environment_file(const std::filesystem::path& path);

}  // namespace muster
