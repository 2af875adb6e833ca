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

// Does this rank's part, a function that returns Result<json>, and agrees on the outcome. An exception (out
// of memory) is a failed part too: the other ranks must not wait for this one.
template <class Work>
Result<std::vector<nlohmann::json>> agree_after(const Group& group, const Work& work) {
  const auto guarded = [&]() -> Result<nlohmann::json> {
    try {
      return work();
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInternal, "{}", error.what());
    }
  };
  return agree(group, guarded());
}

// The same, but only rank 0 has something to do.
template <class Work>
Result<nlohmann::json> agree_after_rank_0(const Group& group, const Work& work) {
  MUSTER_ASSIGN(auto values, agree_after(group, [&]() -> Result<nlohmann::json> {
                  if (group.rank != 0) return nlohmann::json();
                  return work();
                }));
  return std::move(values.front());
}

}  // namespace muster::checkpoint
