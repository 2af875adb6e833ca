// Thins out `step` events for the journal: at most one each interval, and always the last before anything
// else that is written. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace muster {

class StepSampler {
 public:
  explicit StepSampler(double interval_s) : interval_s_(interval_s) {}

  // The event if it is to be written now; otherwise it waits.
  std::optional<nlohmann::json> offer(nlohmann::json step, double now_s) {
    if (last_written_s_ && now_s - *last_written_s_ < interval_s_) {
      waiting_ = std::move(step);
      return std::nullopt;
    }
    last_written_s_ = now_s;
    waiting_.reset();
    return step;
  }

  // The last event that was offered and not written, if any.
  std::optional<nlohmann::json> take_waiting() { return std::exchange(waiting_, std::nullopt); }

 private:
  double interval_s_;
  std::optional<double> last_written_s_;
  std::optional<nlohmann::json> waiting_;
};

}  // namespace muster
