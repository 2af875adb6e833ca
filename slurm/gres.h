// Generic resources as Slurm writes them for nodes and jobs: "gpu:a100:4(S:0-1),shard:8". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster::slurm {

struct Gres {
  std::string name;  // gpu
  std::string type;  // a100; empty: none
  std::uint64_t count = 1;
  bool operator==(const Gres&) const = default;
};

// Items NAME, NAME:COUNT, NAME:TYPE, NAME:TYPE:COUNT, separated by commas; sockets and indices in round
// brackets, `no_consume` and a "gres:" or "gres/" before the name are passed over; counts may have K, M, G, T
// or P, powers of 1024. Nothing for "" and "(null)". kInvalidArgument for other texts.
Result<std::vector<Gres>> parse_gres(std::string_view text);

}  // namespace muster::slurm
