#include "trainer/checkpoint/retention.h"

namespace muster::checkpoint {

Status check_retention(const Retention& retention) {
  if (retention.keep_last >= 1) return {};
  return fail(ErrorCode::kInvalidArgument, "keep_last is {}; at least 1 checkpoint must be kept",
              retention.keep_last);
}

std::vector<bool> kept(const Retention& retention, std::span<const std::optional<double>> metrics) {
  std::vector<bool> keep(metrics.size(), false);
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    keep[i] = i + static_cast<std::size_t>(retention.keep_last) >= metrics.size();
    if (metrics[i] && (!best || *metrics[i] >= *metrics[*best])) best = i;
  }
  if (retention.keep_best && best) keep[*best] = true;
  return keep;
}

}  // namespace muster::checkpoint
