// Where a training run stands: everything the next step depends on besides tensors. Saved in every
// checkpoint; a checkpoint that lacks any of it is refused, but for what older versions did not have.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/status.h"
#include "trainer/early_stop.h"

namespace muster {

// The checkpoint of another run whose parameters this run began with.
struct InitialParameters {
  std::string path;
  std::int64_t step = 0;
  std::string manifest_sha256;  // its identity: the manifest holds the hashes of all the rest

  bool operator==(const InitialParameters&) const = default;
};

struct TrainingState {
  std::int64_t step = 0;            // committed steps: position in the learning-rate schedule
  std::int64_t epoch = 0;           // data position: epoch …
  std::int64_t batch_in_epoch = 0;  // … and the next batch of it
  std::uint64_t rng_seed = 0;       // counter-based random numbers: key …
  std::int64_t rng_counter = 0;     // … and counter, one a batch (those of skipped steps too)
  std::int64_t optimizer_step = 0;  // updates applied: AdamW's bias correction
  std::optional<double> best_accuracy;
  EarlyStopState early_stop;
  // An epoch has just ended, but a stop came before its evaluation: the next attempt begins with it.
  bool evaluation_due = false;
  std::optional<InitialParameters> initial_parameters;  // none: they were drawn

  bool operator==(const TrainingState&) const = default;
};

nlohmann::json to_json(const InitialParameters& initial);
nlohmann::json to_json(const TrainingState& state);
Result<TrainingState> training_state_from_json(const nlohmann::json& json);

}  // namespace muster
