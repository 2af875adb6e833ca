// meet() for ranks that share no directory: at a port of rank 0's host. For those who start `muster exec`
// with their own srun or mpirun over several nodes.
//
//   rank 0      listens on the first free one of a few ports that follow from the start's key
//   every rank  asks each of these ports on each host where rank 0 may be, until one answers to the key; then
//               tells its rank and node, and waits
//   rank 0      when all have told theirs: answers all of them with the table
// Another start's rank 0 that has one of the ports does not answer to our key, so the next one is tried. The
// key is no secret: like MASTER_ADDR itself, this trusts those who can reach the hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/rendezvous.h"

namespace muster {

struct MeetingPoint {
  std::string key;                 // equal on the ranks of one start only
  std::vector<std::string> hosts;  // names or addresses; rank 0 is on one of them
};

// Ports below the range from which Linux takes those of connections. Pure.
std::vector<std::uint16_t> meeting_ports(std::string_view key);

// As meet(), with the same errors.
Result<RendezvousTable> meet_at(const MeetingPoint& point, int rank, int world_size, const std::string& node,
                                const MasterChoice& choose_master, Deadline deadline);

// Where Open MPI's mpirun was started, by its daemon's address: the user's own host file usually begins
// there. Empty if `environment` does not tell. Pure.
std::vector<std::string> mpirun_hosts(const Environment& environment);

}  // namespace muster
