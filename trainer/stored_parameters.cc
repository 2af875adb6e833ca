#include "trainer/stored_parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/checkpoint/tensor_reader.h"
#include "trainer/agreement.h"

namespace muster {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status check_fit(const checkpoint::FoundCheckpoint& stored, std::span<const NamedTensor> parameters) {
  std::string differences;
  std::set<std::string_view> wanted;
  for (const NamedTensor& parameter : parameters) {
    wanted.insert(parameter.name);
    const checkpoint::TensorInfo* tensor = checkpoint::find_tensor(stored.manifest, parameter.name);
    if (tensor != nullptr && tensor->shape == parameter.shape) continue;
    differences +=
        fmt::format("\n  {}: {} there, {} here", parameter.name,
                    tensor == nullptr ? "missing" : shape_text(tensor->shape), shape_text(parameter.shape));
  }
  for (const checkpoint::TensorInfo& tensor : stored.manifest.tensors) {
    if (!tensor.name.starts_with(kParameterPrefix) || wanted.contains(tensor.name)) continue;
    differences += fmt::format("\n  {}: {} there, missing here", tensor.name, shape_text(tensor.shape));
  }
  if (differences.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "the parameters of {} do not fit this model:{}",
              stored.path.string(), differences);
}

}  // namespace

std::vector<NamedTensor> parameters_of(std::vector<NamedTensor> tensors) {
  std::erase_if(tensors, [](const NamedTensor& t) { return !t.name.starts_with(kParameterPrefix); });
  return tensors;
}

Status read_parameters(const checkpoint::FoundCheckpoint& stored, std::span<const NamedTensor> parameters) {
  MUSTER_TRY(check_fit(stored, parameters));
  const checkpoint::TensorReader reader(stored.path, stored.manifest);
  for (const NamedTensor& parameter : parameters) {
    MUSTER_TRY(reader.read_rows(parameter.name, 0, parameter.shape.at(0), parameter.data));
  }
  return {};
}

Result<checkpoint::FoundCheckpoint> find_together(comm::Communicator& communicator,
                                                  const std::filesystem::path& path,
                                                  const comm::CollectiveOptions& options) {
  using checkpoint::FoundCheckpoint;
  using checkpoint::Verify;
  const auto status_of = [](const Result<FoundCheckpoint>& found) -> Status {
    if (found) return {};
    return tl::unexpected<Error>(found.error());
  };
  Result<FoundCheckpoint> found{FoundCheckpoint{}};
  if (communicator.rank() == 0) found = checkpoint::find_checkpoint(path, Verify::kEverything);
  MUSTER_TRY(follow_rank_0(communicator, status_of(found), options));
  MUSTER_ASSIGN(const std::string chosen,
                comm::broadcast_text(communicator, found->path.string(), 0, options));
  if (communicator.rank() != 0) found = checkpoint::find_checkpoint(chosen, Verify::kManifest);
  MUSTER_TRY(agree(communicator, status_of(found), options));
  MUSTER_TRY(require_equal(communicator, "the checkpoint at " + chosen, found->manifest_sha256, options));
  return found;
}

}  // namespace muster
