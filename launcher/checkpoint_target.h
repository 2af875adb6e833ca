// What a user means by DIR in `muster checkpoint … DIR`: a checkpoint, a directory of checkpoints, or a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "common/checkpoint/layout.h"
#include "common/status.h"

namespace muster {

struct CheckpointTarget {
  std::filesystem::path directory;                  // holds the step directories
  std::optional<std::filesystem::path> checkpoint;  // one step directory, if DIR named one
};

// `name`: a step directory, a directory of step directories, a run directory, or what resolve_run() takes.
Result<CheckpointTarget> find_checkpoints(std::string_view name);

// The checkpoint that was named, or the newest committed one. kNotFound if there is none.
Result<std::filesystem::path> named_or_newest(const CheckpointTarget& target);

}  // namespace muster
