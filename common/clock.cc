#include "common/clock.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

namespace muster {

std::chrono::milliseconds Deadline::remaining() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
  return left.count() > 0 ? left : std::chrono::milliseconds(0);
}

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string iso8601_utc(double unix_s) {
  const auto total_ms = static_cast<long long>(std::llround(unix_s * 1e3));
  const std::time_t seconds = static_cast<std::time_t>(total_ms / 1000);
  std::tm tm{};
  gmtime_r(&seconds, &tm);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", tm.tm_year + 1900, tm.tm_mon + 1,
                     tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, total_ms % 1000);
}

}  // namespace muster
