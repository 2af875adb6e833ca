// Where the ranks of one start learn MASTER_ADDR, MASTER_PORT and each other's nodes: a directory that all of
// them see.
//
//   rank 0      publishes begin-NONCE
//   every rank  answers each begin it sees with rank-R-NONCE: a nonce of its own, and its node
//   rank 0      when all answered its begin: table-NONCE with every rank's nonce and node, and the address
//   every rank  believes a table only if its own nonce is in it, and removes its answer; the last one
//               removes the directory
// So files that an earlier start left behind are never believed, whatever the directory's name. Each file is
// written once under its final name; nothing is synced, since a power loss ends the start anyway.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "launcher/rank_environment.h"

namespace muster {

struct MasterAddress {
  std::string address;
  std::uint16_t port = 0;
};

struct RendezvousTable {
  MasterAddress master;
  std::vector<std::string> node_of_rank;
};

// Run by rank 0 when all ranks are known: where they shall find it.
using MasterChoice = std::function<Result<MasterAddress>(const std::vector<std::string>& node_of_rank)>;

// Every rank calls this with the same directory (made if it is not there; its parent's rights are the
// caller's concern). kDeadlineExceeded names the ranks that did not come.
Result<RendezvousTable> meet(const std::filesystem::path& directory, int rank, int world_size,
                             const std::string& node, const MasterChoice& choose_master, Deadline deadline);

// Which directory, by what is there: the run's own under muster, then `option` (--rendezvous-dir), then, on a
// single node, a private one of this user. kInvalidArgument: several nodes and no shared directory.
Result<std::filesystem::path> rendezvous_directory(const Environment& environment, const std::string& option,
                                                   const RankPlacement& placement);

// Makes (or checks) a directory that belongs to this user and that nobody else can look into.
// kInvalidArgument if something else has its name: in /tmp anybody may have put it there.
Status make_private_directory(const std::filesystem::path& path);

}  // namespace muster
