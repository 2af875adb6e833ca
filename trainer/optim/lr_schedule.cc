#include "trainer/optim/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace muster::optim {

double learning_rate_at(const LrSchedule& schedule, std::int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.kind == LrScheduleKind::kConstant) return schedule.learning_rate;
  if (schedule.kind == LrScheduleKind::kStep) {
    const std::int64_t decays = (step - schedule.warmup_steps) / schedule.step_size;
    return schedule.learning_rate * std::pow(schedule.gamma, static_cast<double>(decays));
  }
  if (step >= schedule.total_steps) return schedule.min_learning_rate;
  const double t = static_cast<double>(step - schedule.warmup_steps) /
                   static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  return schedule.min_learning_rate +
         (schedule.learning_rate - schedule.min_learning_rate) * (1.0 + std::cos(std::numbers::pi * t)) / 2.0;
}

Result<LrScheduleKind> parse_lr_schedule_kind(const std::string& text) {
  if (text == "cosine") return LrScheduleKind::kCosine;
  if (text == "step") return LrScheduleKind::kStep;
  if (text == "constant") return LrScheduleKind::kConstant;
  return fail(ErrorCode::kInvalidArgument,
              "unknown learning-rate schedule '{}'; allowed: cosine, step, constant", text);
}

}  // namespace muster::optim
