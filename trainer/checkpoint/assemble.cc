#include "trainer/checkpoint/assemble.h"

#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "common/clock.h"
#include "trainer/checkpoint/collective.h"

namespace muster::checkpoint {
namespace {

using nlohmann::json;

Status check_slice(const TensorSlice& slice) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, "cannot save tensor '{}': {}", slice.name, why);
  };
  if (auto status = check_tensor_name(slice.name); !status) {
    return fail(ErrorCode::kInvalidArgument, "cannot save: {}", status.error().message);
  }
  if (auto status = check_shape(slice.global_shape); !status) return bad(status.error().message);
  if (slice.row_begin < 0 || slice.row_begin > slice.row_end || slice.row_end > slice.global_shape.front()) {
    return bad(fmt::format("rows [{}, {}) do not exist, it has {} rows", slice.row_begin, slice.row_end,
                           slice.global_shape.front()));
  }
  if (slice.data == nullptr && slice_bytes(slice) > 0) return bad("the slice has no data");
  return {};
}

// The tensors of all ranks, sorted by name.
Result<std::vector<TensorInfo>> merge_tensors(const std::vector<json>& answers) {
  struct Known {
    std::vector<std::int64_t> shape;
    std::size_t rank;
  };
  std::map<std::string, Known> tensors;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    for (const json& tensor : answers[rank].at("tensors")) {
      const auto shape = tensor.at("shape").get<std::vector<std::int64_t>>();
      const auto [at, fresh] = tensors.try_emplace(tensor.at("name").get<std::string>(), Known{shape, rank});
      if (!fresh && at->second.shape != shape) {
        return fail(ErrorCode::kMismatch, "tensor '{}' has shape {} on rank {} and {} on rank {}", at->first,
                    json(at->second.shape).dump(), at->second.rank, json(shape).dump(), rank);
      }
    }
  }
  std::vector<TensorInfo> merged;
  for (auto& [name, known] : tensors) merged.push_back({name, std::move(known.shape)});
  return merged;
}

}  // namespace

std::int64_t slice_bytes(const TensorSlice& slice) {
  return (slice.row_end - slice.row_begin) * row_elements(slice.global_shape) * kElementBytes;
}

Status check_slices(std::span<const TensorSlice> slices) {
  std::set<std::string_view> seen;
  for (const TensorSlice& slice : slices) {
    MUSTER_TRY(check_slice(slice));
    if (!seen.insert(slice.name).second) {
      return fail(ErrorCode::kInvalidArgument,
                  "cannot save tensor '{}': a rank passes at most one slice of it", slice.name);
    }
  }
  return {};
}

StoredRows describe_slice(const TensorSlice& slice) {
  StoredRows rows;
  rows.tensor = slice.name;
  rows.row_begin = slice.row_begin;
  rows.row_end = slice.row_end;
  rows.shape = slice.global_shape;
  rows.shape.front() = slice.row_end - slice.row_begin;
  rows.bytes = slice_bytes(slice);
  return rows;
}

json rank_answer(std::span<const TensorSlice> slices, const StoredFile* file) {
  json tensors = json::array();
  for (const TensorSlice& slice : slices)
    tensors.push_back({{"name", slice.name}, {"shape", slice.global_shape}});
  return {{"file", file == nullptr ? json() : stored_file_to_json(*file)}, {"tensors", std::move(tensors)}};
}

Result<Manifest> assemble_manifest(const SaveRequest& request, const std::string& code,
                                   const std::vector<json>& answers) {
  Manifest manifest;
  manifest.step = request.step;
  manifest.generation = request.generation;
  manifest.world_size = static_cast<int>(answers.size());
  manifest.created = iso8601_utc(unix_time_s());
  manifest.code = code;
  if (request.metric && std::isfinite(*request.metric)) manifest.metric = request.metric;
  manifest.state = request.state;
  MUSTER_ASSIGN(manifest.tensors, merge_tensors(answers));
  for (const json& answer : answers) {
    if (answer.at("file").is_null()) continue;
    MUSTER_ASSIGN(StoredFile file, stored_file_from_json(answer.at("file")));
    manifest.files.push_back(std::move(file));
  }
  if (const Status status = check_manifest(manifest); !status) {
    return fail(ErrorCode::kInvalidArgument, "the ranks' slices do not make whole tensors: {}",
                status.error().message);
  }
  return manifest;
}

Result<std::int64_t> agree_on_save(const Group& group, const SaveRequest& request,
                                   const std::function<void()>& copy) {
  const auto announce = [&]() -> Result<json> {
    if (request.step < 0 || request.generation < 0) {
      return fail(ErrorCode::kInvalidArgument, "cannot save step {} of attempt {}: both must be at least 0",
                  request.step, request.generation);
    }
    if (!request.state.is_object())
      return fail(ErrorCode::kInvalidArgument, "the training state is not an object");
    MUSTER_TRY(check_slices(request.slices));
    std::int64_t bytes = 0;
    for (const TensorSlice& slice : request.slices) bytes += slice_bytes(slice);
    copy();
    return json{{"step", request.step}, {"generation", request.generation}, {"bytes", bytes}};
  };
  MUSTER_ASSIGN(const auto by_rank, agree_after(group, announce));
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const json& first = by_rank.front();
    const json& other = by_rank[rank];
    if (other.at("step") != first.at("step") || other.at("generation") != first.at("generation")) {
      return fail(
          ErrorCode::kMismatch,
          "ranks disagree on what to save: rank 0 step {} of attempt {}, rank {} step {} of attempt {}",
          first.at("step").dump(), first.at("generation").dump(), rank, other.at("step").dump(),
          other.at("generation").dump());
    }
    total += other.at("bytes").get<std::int64_t>();
  }
  return total;
}

}  // namespace muster::checkpoint
