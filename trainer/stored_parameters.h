// Parameters out of a checkpoint, without the rest of what it holds: to begin another run with, to evaluate,
// to export.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/find_checkpoint.h"
#include "common/status.h"
#include "trainer/checkpointer.h"
#include "trainer/comm/communicator.h"

namespace muster {

inline constexpr std::string_view kParameterPrefix = "parameters/";

// Those of `tensors` whose names begin with kParameterPrefix.
std::vector<NamedTensor> parameters_of(std::vector<NamedTensor> tensors);

// Fills `parameters`. Names and shapes must be those of the checkpoint's parameters, no more and no less:
// kInvalidArgument names every tensor that differs. Bytes are checked against the checkpoint's hashes.
Status read_parameters(const checkpoint::FoundCheckpoint& stored, std::span<const NamedTensor> parameters);

// Collective: the checkpoint that rank 0 finds at `path` and verifies. An error is the same on all ranks;
// kMismatch if they do not see the same checkpoint.
Result<checkpoint::FoundCheckpoint> find_together(comm::Communicator& communicator,
                                                  const std::filesystem::path& path,
                                                  const comm::CollectiveOptions& options);

}  // namespace muster
