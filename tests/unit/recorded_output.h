// What Slurm's commands printed on the emulated cluster: tests/unit/slurm_22_05.
#pragma once

#include <stdexcept>
#include <string>

#include "common/file_ops.h"

namespace muster::testing {

inline std::string recorded_output(const std::string& name) {
  const auto text = read_text_file(std::string(MUSTER_SOURCE_DIR) + "/tests/unit/slurm_22_05/" + name);
  if (!text) throw std::runtime_error(text.error().message);
  return *text;
}

}  // namespace muster::testing
