// Sizes of memory as Slurm writes them: 4096, 4000M, 3.91G, and per CPU or node 64Mc, 4Gn. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::slurm {

struct MemoryAmount {
  enum class Per { kNotSaid, kCpu, kNode };
  std::uint64_t bytes = 0;
  Per per = Per::kNotSaid;
  bool operator==(const MemoryAmount&) const = default;
};

// A number without a unit counts mebibytes, as everywhere in Slurm; K, M, G, T and P are powers of 1024, in
// either case. A 0 of a request (ReqMem, --mem) means all of a node's memory. Nothing for any other text
// (UNLIMITED, N/A, ?) or an overflow.
std::optional<MemoryAmount> parse_memory_amount(std::string_view text);

}  // namespace muster::slurm
