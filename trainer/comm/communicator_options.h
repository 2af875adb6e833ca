// What a communicator is made with. All ranks of a group use the same values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "trainer/comm/reduction.h"

namespace muster::comm {

struct CommunicatorOptions {
  Algorithm algorithm = Algorithm::kTree;
  std::int32_t generation = 0;  // the attempt; messages of another one are refused
  // A peer without a heartbeat for so long is lost. At least 100 ms.
  std::chrono::milliseconds peer_timeout{10'000};
  // Longest time for all ranks to come together when the communicator is made.
  std::chrono::milliseconds setup_timeout{120'000};
  // Messages are cut to this length: the unit in which sums and transfers overlap.
  std::size_t segment_bytes = std::size_t{256} << 10;
  // Network interface for heartbeats between hosts (contract::kNetworkInterface). Empty: the one that routes
  // to master_address; if that says nothing, the first that is up and not loopback.
  std::string network_interface;
  // Name or address of a host that all ranks reach (contract::kMasterAddr); may be empty.
  std::string master_address;
};

}  // namespace muster::comm
