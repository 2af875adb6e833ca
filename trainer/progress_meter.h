// Samples per second over the steps since the last report.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace muster {

class ProgressMeter {
 public:
  explicit ProgressMeter(std::int64_t every_steps) : every_steps_(every_steps) {}

  // Counts a step of so many samples; a rate when a report is due (every so many steps, and at the last one).
  std::optional<double> add(std::int64_t samples, bool last) {
    samples_ += samples;
    if (++steps_ < every_steps_ && !last) return std::nullopt;
    const auto now = std::chrono::steady_clock::now();
    const double rate = static_cast<double>(samples_) / std::chrono::duration<double>(now - since_).count();
    since_ = now;
    samples_ = 0;
    steps_ = 0;
    return rate;
  }

 private:
  std::int64_t every_steps_;
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace muster
