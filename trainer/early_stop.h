// When training may end before its last step: once so many evaluations in a row have brought no improvement.
// Pure: the state belongs in the checkpoint, so a run that was killed and resumed decides as one that was
// not.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/status.h"

namespace muster {

struct EarlyStopRule {
  std::string metric = "none";  // never stop early; "accuracy" (larger is better), "loss" (smaller)
  std::int64_t patience = 1;    // evaluations without an improvement that end the run
  double min_delta = 0;         // an improvement is better than the best so far by more than this

  bool armed() const { return metric != "none"; }
};

struct EarlyStopState {
  std::string metric = "none";  // what the rest is about: it begins anew with another one
  std::optional<double> best;
  std::int64_t best_step = 0;
  std::int64_t without_improvement = 0;  // evaluations since the best one

  bool operator==(const EarlyStopState&) const = default;
};

// The evaluation after `step` gave this value of the rule's metric. The first finite one is the best so far;
// one that is not finite is no improvement.
EarlyStopState judge_evaluation(const EarlyStopRule& rule, const EarlyStopState& before, double value,
                                std::int64_t step);

// Whether the run ends here. A run that goes on with another rule is judged by that one.
bool should_stop(const EarlyStopRule& rule, const EarlyStopState& state);

// "accuracy has not improved by more than 0.001 in 3 evaluations; the best was 0.95, at step 120"
std::string explain(const EarlyStopRule& rule, const EarlyStopState& state);

nlohmann::json to_json(const EarlyStopState& state);
// Throws nlohmann::json::exception if a member is missing or of another type.
EarlyStopState early_stop_state_from_json(const nlohmann::json& json);

}  // namespace muster
