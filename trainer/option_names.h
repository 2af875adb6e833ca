// What to call an option when speaking to whoever set it. Pure but for the environment.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "common/run_contract.h"

namespace muster {

// Under muster the key of the task file; the flag for those who start muster-train by hand.
inline std::string option_name(std::string_view flag, std::string_view task_file_key) {
  return std::string(std::getenv(contract::kRunDir) == nullptr ? flag : task_file_key);
}

}  // namespace muster
