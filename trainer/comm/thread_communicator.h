// Communicators between threads of one process, for tests: the real algorithms over mailboxes.
#pragma once

#include <memory>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/communicator_options.h"
#include "trainer/comm/thread_liveness.h"

namespace muster::comm {

struct ThreadCommunicators {
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::shared_ptr<ThreadLivenessGroup> liveness;  // to silence a rank
};

ThreadCommunicators make_thread_communicators(int size, const CommunicatorOptions& options);

// One set of options for each rank: lets a test make ranks disagree.
ThreadCommunicators make_thread_communicators(const std::vector<CommunicatorOptions>& options);

}  // namespace muster::comm
