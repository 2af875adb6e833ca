// Which checkpoints are worth keeping. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/status.h"

namespace muster::checkpoint {

struct Retention {
  int keep_last = 2;       // at least 1
  bool keep_best = false;  // also the one with the largest metric; of equals the newest
};

Status check_retention(const Retention& retention);

// For checkpoints in ascending order of step, given their metrics: which of them to keep.
std::vector<bool> kept(const Retention& retention, std::span<const std::optional<double>> metrics);

}  // namespace muster::checkpoint
