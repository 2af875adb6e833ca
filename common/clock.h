// Deadlines (steady clock) and timestamps (UTC wall clock). Every wait in muster takes a Deadline.
#pragma once

#include <chrono>
#include <string>

namespace muster {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after(std::chrono::milliseconds timeout) { return Deadline(Clock::now() + timeout); }

  bool expired() const { return Clock::now() >= at_; }
  // Milliseconds left, rounded up, never negative: fit for poll(2).
  std::chrono::milliseconds remaining() const;

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

// Seconds since the Unix epoch, with fraction.
double unix_time_s();

// 2026-03-01T12:34:56.789Z
std::string iso8601_utc(double unix_s);

}  // namespace muster
