#include "trainer/early_stop.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace muster {

using nlohmann::json;

EarlyStopState judge_evaluation(const EarlyStopRule& rule, const EarlyStopState& before, double value,
                                std::int64_t step) {
  EarlyStopState now = before;
  if (now.metric != rule.metric) {
    now = EarlyStopState();
    now.metric = rule.metric;
  }
  const double gain = rule.metric == "loss" ? now.best.value_or(0) - value : value - now.best.value_or(0);
  if (std::isfinite(value) && (!now.best || gain > rule.min_delta)) {
    now.best = value;
    now.best_step = step;
    now.without_improvement = 0;
    return now;
  }
  ++now.without_improvement;
  return now;
}

bool should_stop(const EarlyStopRule& rule, const EarlyStopState& state) {
  return rule.armed() && state.metric == rule.metric && state.without_improvement >= rule.patience;
}

std::string explain(const EarlyStopRule& rule, const EarlyStopState& state) {
  std::string text = fmt::format("{} has not improved", rule.metric);
  if (rule.min_delta > 0) text += fmt::format(" by more than {}", rule.min_delta);
  text += fmt::format(" in {} evaluation{}", state.without_improvement,
                      state.without_improvement == 1 ? "" : "s");
  if (state.best) text += fmt::format("; the best was {:.6g}, at step {}", *state.best, state.best_step);
  return text;
}

json to_json(const EarlyStopState& state) {
  return {{"metric", state.metric},
          {"best", state.best ? json(*state.best) : json(nullptr)},
          {"best_step", state.best_step},
          {"without_improvement", state.without_improvement}};
}

EarlyStopState early_stop_state_from_json(const json& stored) {
  EarlyStopState state;
  state.metric = stored.at("metric").get<std::string>();
  const json& best = stored.at("best");
  if (!best.is_null()) state.best = best.get<double>();
  state.best_step = stored.at("best_step").get<std::int64_t>();
  state.without_improvement = stored.at("without_improvement").get<std::int64_t>();
  return state;
}

}  // namespace muster
