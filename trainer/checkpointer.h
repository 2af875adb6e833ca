// Between the train loop and a checkpoint store: which tensors there are, which rows each rank writes, and
// what else a checkpoint says. Collective; one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/event_sink.h"
#include "common/status.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/training_state.h"

namespace muster {

// A whole tensor, the same on every rank, row-major fp32, not owned.
struct NamedTensor {
  std::string name;  // "parameters/…", "optimizer/…"
  std::vector<std::int64_t> shape;
  float* data = nullptr;
};

// Everything that identifies who wrote a checkpoint.
struct CheckpointContext {
  int rank = 0;
  int world_size = 1;
  std::int32_t generation = 1;
  nlohmann::json configuration;  // to_json(TrainerOptions)
  nlohmann::json code;           // version, executable hash, device library, ISA, threads
};

class Checkpointer {
 public:
  // Neither `store` nor `events` is owned.
  Checkpointer(checkpoint::CheckpointStore& store, EventSink& events, CheckpointContext context);

  // Fills tensors and state from the last committed checkpoint. False: there is none.
  // kInvalidArgument if it was made by a configuration that this one cannot continue.
  Result<bool> restore(const std::vector<NamedTensor>& tensors, TrainingState& state);

  // A failure to store (disk full, …) is reported as an event and returned; training can go on.
  Status save(const std::vector<NamedTensor>& tensors, const TrainingState& state,
              std::optional<double> metric);

 private:
  Status check_configuration(const nlohmann::json& stored) const;
  void report_changes(const nlohmann::json& stored);

  checkpoint::CheckpointStore& store_;
  EventSink& events_;
  CheckpointContext context_;
};

// The rows of each tensor that `rank` of `size` writes: an even share, [rows·r/n, rows·(r+1)/n).
std::vector<checkpoint::TensorSlice> slices_of_rank(const std::vector<NamedTensor>& tensors, int rank,
                                                    int size);

}  // namespace muster
