// SEAM: how a communicator sums over ranks; everything else is common to all communicators.
// Implementations are pure planners without state.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/status.h"
#include "trainer/comm/schedule.h"

namespace muster::comm {

enum class Algorithm : std::uint32_t {
  kTree = 1,  // order-free: the same bits for any number of ranks
  kRing = 2
};

// "tree" or "ring"; otherwise kInvalidArgument.
Result<Algorithm> parse_algorithm(std::string_view text);

class Reduction {
 public:
  virtual ~Reduction() = default;
  virtual Algorithm algorithm() const = 0;
  virtual std::string_view name() const = 0;
  virtual bool order_free() const = 0;
  // In place; input 0 and the output are the same memory.
  virtual Schedule all_reduce(const Shape& shape) const = 0;
  // The inputs are the partial sums of this rank's blocks.
  virtual Schedule all_reduce_shards(const Shape& shape, int num_shards) const = 0;
};

std::unique_ptr<Reduction> make_reduction(Algorithm algorithm);

}  // namespace muster::comm
