// Liveness by heartbeats: a thread of its own sends a small datagram to every peer several times per peer
// timeout, whatever the rank is doing, and watches theirs. Each heartbeat carries the group's fault, so news
// of it reaches every rank that any live rank can reach.
//
// Cost: size datagrams per interval (peer_timeout / 8, at most 500 ms) for each rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/liveness.h"
#include "trainer/comm/udp_socket.h"

namespace muster::comm {

struct UdpGroup {
  int rank = 0;
  std::vector<UdpAddress> addresses;  // of each rank's socket
  std::vector<std::string> hosts;     // its host's name, for messages
  std::uint64_t nonce = 0;            // the same on all ranks, different for every group
  std::int32_t generation = 0;
  std::chrono::milliseconds peer_timeout{10'000};
};

// The heartbeat begins at once and ends with the object. Destroying it without leave() looks like a crash.
Result<std::unique_ptr<Liveness>> make_udp_liveness(UdpSocket socket, UdpGroup group);

}  // namespace muster::comm
