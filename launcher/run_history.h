// What a journal tells about a run so far. Pure; the same for a run that is going on and one long gone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct RunHistory {
  int attempts = 0;  // the highest attempt number
  std::int64_t last_step = -1;
  std::int64_t committed_step = -1;
  std::optional<std::int64_t> stop_step;  // at which the last attempt stopped because it was asked to
  std::string last_checkpoint;            // path
  std::optional<nlohmann::json> result;   // of the last `finished` event
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::string state;  // of the last run_ended with no attempt after it; empty: not ended
  int exit_code = 0;
  nlohmann::json verdict;  // of that end
  double wall_s = 0;       // under muster's supervision, all continuations together

  bool is_done() const { return state == "done"; }
};

RunHistory read_history(const std::vector<nlohmann::json>& events);

}  // namespace muster
