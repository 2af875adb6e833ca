// The time for a cache line to travel between two threads and back: what cores of this machine cost each
// other.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

namespace muster::benchmarks {

// Nanoseconds, from the fastest of several batches (so that other work on the machine matters less); at most
// about half a second of them. Threads that share one core yield, and measure that.
inline double core_round_trip_ns() {
  constexpr int kBatches = 400;
  constexpr int kRounds = 200;
  constexpr std::chrono::milliseconds kLongest{500};
  constexpr int kSpinsMax = 10000;
  constexpr int kEnd = -1;
  alignas(64) std::atomic<int> ball{0};  // odd: the echo's turn
  // Waits until the ball is not `seen`, and returns what it is then.
  const auto change_from = [&ball](int seen) {
    for (int spins = 0;; ++spins) {
      const int now = ball.load(std::memory_order_acquire);
      if (now != seen) return now;
      if (spins > kSpinsMax) std::this_thread::yield();
    }
  };
  std::thread echo([&] {
    for (int seen = change_from(0); seen != kEnd; seen = change_from(seen)) {
      ball.store(++seen, std::memory_order_release);
    }
  });
  double best = std::numeric_limits<double>::infinity();
  const auto start = std::chrono::steady_clock::now();
  for (int batch = 0; batch < kBatches && std::chrono::steady_clock::now() - start < kLongest; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round < kRounds; ++round) {
      const int sent = ball.load(std::memory_order_relaxed) + 1;
      ball.store(sent, std::memory_order_release);
      change_from(sent);
    }
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count() / kRounds);
  }
  ball.store(kEnd, std::memory_order_release);
  echo.join();
  return best;
}

}  // namespace muster::benchmarks
