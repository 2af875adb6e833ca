// How a rank waits for others: it polls, since MPI makes no progress by itself, but gives the core away soon,
// because there may be more ranks than cores, and sleeps once nothing has happened for some milliseconds.
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace muster::comm {

class Backoff {
 public:
  // Call after each poll that did not finish the wait.
  void pause(bool moved) {
    if (moved) {
      idle_polls_ = 0;
      return;
    }
    ++idle_polls_;
    if (idle_polls_ <= kSpins) return;
    if (idle_polls_ <= kSpins + kYields) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(kNap);
  }

 private:
  static constexpr int kSpins = 64;
  static constexpr int kYields = 2000;
  static constexpr std::chrono::microseconds kNap{50};
  int idle_polls_ = 0;
};

}  // namespace muster::comm
