// Evaluates a stored checkpoint on its test data, with the configuration that the checkpoint holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/status.h"
#include "trainer/comm/communicator.h"

namespace muster {

struct Evaluation {
  std::string checkpoint;  // the step directory
  std::int64_t step = 0;
  std::string data_path;
  std::int64_t samples = 0;
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // 0 to 1
};

// Collective. `checkpoint` as find_checkpoint() takes it; `data_path`: empty for the stored one. Every byte
// of the checkpoint is verified. The numbers are those of the run's own evaluation at that step, the same
// bits on any number of ranks of an order-free communicator.
Result<Evaluation> evaluate_checkpoint(comm::Communicator& communicator,
                                       const std::filesystem::path& checkpoint, const std::string& data_path);

}  // namespace muster
