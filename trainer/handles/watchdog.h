// Ends the process if something that offers no deadline of its own does not return in time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace muster {

// While it lives, a thread waits; if the timeout passes first, it writes the message to standard error and
// ends the process with _exit(exit_code), without running destructors or MPI_Finalize.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds timeout, std::string message, int exit_code);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable disarmed_changed_;
  bool disarmed_ = false;
  std::thread thread_;
};

}  // namespace muster
