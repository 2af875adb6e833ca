#include "trainer/training_state.h"

#include <nlohmann/json.hpp>

namespace muster {

using nlohmann::json;

json to_json(const InitialParameters& initial) {
  return {{"path", initial.path}, {"step", initial.step}, {"manifest_sha256", initial.manifest_sha256}};
}

json to_json(const TrainingState& s) {
  return {{"step", s.step},
          {"epoch", s.epoch},
          {"batch_in_epoch", s.batch_in_epoch},
          {"rng", {{"seed", s.rng_seed}, {"counter", s.rng_counter}}},
          {"optimizer_step", s.optimizer_step},
          {"best_accuracy", s.best_accuracy ? json(*s.best_accuracy) : json(nullptr)},
          {"early_stop", to_json(s.early_stop)},
          {"evaluation_due", s.evaluation_due},
          {"initial_parameters", s.initial_parameters ? to_json(*s.initial_parameters) : json(nullptr)}};
}

Result<TrainingState> training_state_from_json(const json& stored) {
  TrainingState s;
  try {
    s.step = stored.at("step").get<std::int64_t>();
    s.epoch = stored.at("epoch").get<std::int64_t>();
    s.batch_in_epoch = stored.at("batch_in_epoch").get<std::int64_t>();
    s.rng_seed = stored.at("rng").at("seed").get<std::uint64_t>();
    s.rng_counter = stored.at("rng").at("counter").get<std::int64_t>();
    s.optimizer_step = stored.at("optimizer_step").get<std::int64_t>();
    const json& best = stored.at("best_accuracy");
    if (!best.is_null()) s.best_accuracy = best.get<double>();
    if (stored.contains("early_stop")) s.early_stop = early_stop_state_from_json(stored.at("early_stop"));
    s.evaluation_due = stored.value("evaluation_due", false);
    if (const json initial = stored.value("initial_parameters", json()); !initial.is_null()) {
      s.initial_parameters = {initial.at("path").get<std::string>(), initial.at("step").get<std::int64_t>(),
                              initial.at("manifest_sha256").get<std::string>()};
    }
  } catch (const json::exception& error) {
    return fail(ErrorCode::kCorrupt, "the checkpoint's training state is incomplete: {}", error.what());
  }
  if (s.step < 0 || s.epoch < 0 || s.batch_in_epoch < 0 || s.rng_counter < 0 || s.optimizer_step < 0) {
    return fail(ErrorCode::kCorrupt, "the checkpoint's training state has a negative position");
  }
  return s;
}

}  // namespace muster
