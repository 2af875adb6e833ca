// The learning rate as a pure function of the step, so that nothing of it has to be saved.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace muster::optim {

enum class LrScheduleKind : std::uint8_t { kConstant, kCosine, kStep };

struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double learning_rate = 0;      // the peak
  double min_learning_rate = 0;  // cosine: what it falls to
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // cosine: the step at which it reaches the minimum
  std::int64_t step_size = 1;    // step: steps from one decay to the next
  double gamma = 1;              // step: what each decay multiplies with
};

// Step 0 is the first update. Warm-up: learning_rate · (step + 1) / warmup_steps for steps below
// warmup_steps, so the peak is first reached at step warmup_steps - 1. Then the peak for good (constant), or
// min + (peak - min) · (1 + cos(π t)) / 2 with t = (step - warmup_steps) / (total_steps - warmup_steps)
// (cosine): the peak at step warmup_steps, the minimum at total_steps and after it. Or
// peak · gamma^floor((step - warmup_steps) / step_size) (step): PyTorch's StepLR, begun after the warm-up.
double learning_rate_at(const LrSchedule& schedule, std::int64_t step);

// "cosine", "step", "constant".
Result<LrScheduleKind> parse_lr_schedule_kind(const std::string& text);

}  // namespace muster::optim
