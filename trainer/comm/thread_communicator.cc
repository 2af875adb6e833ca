#include "trainer/comm/thread_communicator.h"

#include "trainer/comm/collective_communicator.h"
#include "trainer/comm/thread_transport.h"

namespace muster::comm {

ThreadCommunicators make_thread_communicators(int size, const CommunicatorOptions& options) {
  return make_thread_communicators(std::vector<CommunicatorOptions>(static_cast<std::size_t>(size), options));
}

ThreadCommunicators make_thread_communicators(const std::vector<CommunicatorOptions>& options) {
  const int size = static_cast<int>(options.size());
  ThreadCommunicators group;
  group.liveness = ThreadLivenessGroup::create(size, options.front().peer_timeout);
  const auto fabric = ThreadFabric::create(size);
  for (int rank = 0; rank < size; ++rank)
    group.ranks.push_back(std::make_unique<CollectiveCommunicator>(make_thread_transport(fabric, rank),
                                                                   make_thread_liveness(group.liveness, rank),
                                                                   options[static_cast<std::size_t>(rank)]));
  return group;
}

}  // namespace muster::comm
