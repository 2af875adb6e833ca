#include "trainer/handles/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace muster {

Watchdog::Watchdog(std::chrono::milliseconds timeout, std::string message, int exit_code)
    : thread_([this, timeout, message = std::move(message), exit_code] {
        // Signals are the program's business: none may land on this thread.
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        std::unique_lock lock(mutex_);
        if (disarmed_changed_.wait_for(lock, timeout, [this] { return disarmed_; })) return;
        (void)std::fprintf(stderr, "%s\n", message.c_str());
        _exit(exit_code);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    disarmed_ = true;
  }
  disarmed_changed_.notify_one();
  thread_.join();
}

}  // namespace muster
