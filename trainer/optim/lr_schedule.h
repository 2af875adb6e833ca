// The learning rate as a pure function of the step, so that nothing of it has to be saved.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace muster::optim {

enum class LrScheduleKind : std::uint8_t { kConstant, kCosine };

struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double learning_rate = 0;      // the peak
  double min_learning_rate = 0;  // cosine: what it falls to
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // cosine: the step at which it reaches the minimum
};

// Step 0 is the first update. Warm-up: learning_rate · (step + 1) / warmup_steps for steps below
// warmup_steps, so the peak is first reached at step warmup_steps - 1. Then the peak for good (constant), or
// min + (peak - min) · (1 + cos(π t)) / 2 with t = (step - warmup_steps) / (total_steps - warmup_steps)
// (cosine): the peak at step warmup_steps, the minimum at total_steps and after it.
double learning_rate_at(const LrSchedule& schedule, std::int64_t step);

// "cosine", "constant".
Result<LrScheduleKind> parse_lr_schedule_kind(const std::string& text);

}  // namespace muster::optim
