// How ranks agree on an outcome: any rank's error becomes everybody's.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::checkpoint {

// Collective. All ranks' values in rank order, or, on every rank, the error of the first rank that had one,
// naming the rank.
Result<std::vector<nlohmann::json>> agree(const Group& group, const Result<nlohmann::json>& mine);

// Collective. Rank 0's value or error on every rank. As it acted for all, the error does not name it.
Result<nlohmann::json> follow_rank_0(const Group& group, const Result<nlohmann::json>& mine);

// Does a part, a function that returns Result<json>. An exception (out of memory) is a failed part too: the
// other ranks must not wait for this one.
template <class Work>
Result<nlohmann::json> guarded(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "{}", error.what());
  }
}

// Does this rank's part and agrees on the outcome.
template <class Work>
Result<std::vector<nlohmann::json>> agree_after(const Group& group, const Work& work) {
  return agree(group, guarded(work));
}

// The same, but only rank 0 has something to do.
template <class Work>
Result<nlohmann::json> agree_after_rank_0(const Group& group, const Work& work) {
  return follow_rank_0(group, group.rank == 0 ? guarded(work) : Result<nlohmann::json>(nlohmann::json()));
}

}  // namespace muster::checkpoint
