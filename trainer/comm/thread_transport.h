// Messages between threads of one process, for tests: mailboxes in which the sender's own buffer waits for
// the receiver to copy it. A send finishes only when it was received, so a schedule that relies on buffering
// hangs here.
#pragma once

#include <memory>

#include "trainer/comm/transport.h"

namespace muster::comm {

// The mailboxes of a group. Shared by its transports; may be used by all their threads.
class ThreadFabric {
 public:
  static std::shared_ptr<ThreadFabric> create(int size);
  virtual ~ThreadFabric() = default;
  virtual int size() const = 0;
};

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<ThreadFabric> fabric, int rank);

}  // namespace muster::comm
