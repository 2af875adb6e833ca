// Liveness of threads in one process, for tests. A thread is alive unless a test silences it.
#pragma once

#include <chrono>
#include <memory>

#include "trainer/comm/liveness.h"

namespace muster::comm {

// Shared by the members of a group; may be used by all their threads.
class ThreadLivenessGroup {
 public:
  static std::shared_ptr<ThreadLivenessGroup> create(int size, std::chrono::milliseconds peer_timeout);
  virtual ~ThreadLivenessGroup() = default;
  // From now on this rank gives no sign of life (and learns nothing).
  virtual void silence(int rank) = 0;
};

std::unique_ptr<Liveness> make_thread_liveness(std::shared_ptr<ThreadLivenessGroup> group, int rank);

}  // namespace muster::comm
