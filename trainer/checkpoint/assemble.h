// From the ranks' slices to one manifest: the checks and the bookkeeping that every store needs.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace muster::checkpoint {

// One rank's slices on their own: kInvalidArgument naming the slice.
Status check_slices(std::span<const TensorSlice> slices);

std::int64_t slice_bytes(const TensorSlice& slice);

// The entry of a slice, without its place (offset) and hash.
StoredRows describe_slice(const TensorSlice& slice);

// Collective: do all ranks save the same step in the same attempt, with slices that make sense? A rank whose
// slices do calls `copy`, which may throw std::bad_alloc. Returns the bytes of all slices of all ranks.
Result<std::int64_t> agree_on_save(const Group& group, const SaveRequest& request,
                                   const std::function<void()>& copy);

// What a rank tells rank 0 after it has stored its slices. `file` is null if none of them has elements.
nlohmann::json rank_answer(std::span<const TensorSlice> slices, const StoredFile* file);

// Rank 0: the manifest of all ranks' answers, in rank order. Fails if ranks disagree on a tensor's shape or
// if their slices do not cover every tensor exactly once.
Result<Manifest> assemble_manifest(const SaveRequest& request, const std::string& code,
                                   const std::vector<nlohmann::json>& answers);

}  // namespace muster::checkpoint
