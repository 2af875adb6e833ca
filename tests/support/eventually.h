// Waiting for what another process changes (a file, a process that ends, what a command says): nothing tells
// this one, so it looks again and again until the deadline. Where there is an event, wait for that.
#pragma once

#include <poll.h>

#include <chrono>

#include "common/clock.h"

namespace muster::testing {

// False at the deadline. `pause`: between two looks.
template <class Condition>
bool eventually(const Condition& holds, std::chrono::milliseconds timeout = std::chrono::seconds(60),
                std::chrono::milliseconds pause = std::chrono::milliseconds(2)) {
  const Deadline deadline = Deadline::after(timeout);
  while (!holds()) {
    if (deadline.expired()) return false;
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
  }
  return true;
}

}  // namespace muster::testing
