#include "launcher/run_history.h"

#include <algorithm>

#include "common/json_fields.h"
#include "common/run_contract.h"

namespace muster {
namespace {

using nlohmann::json;
namespace name = contract::event;

std::optional<double> optional_number(const json& event, const char* field) {
  const auto member = event.find(field);
  return member != event.end() && member->is_number() ? std::optional(member->get<double>()) : std::nullopt;
}

void add(RunHistory& history, const json& event) {
  const std::string kind = text_field(event, "event");
  if (kind == name::kAttemptStarted) {
    history.attempts = std::max(history.attempts, static_cast<int>(integer_field(event, "attempt", 0)));
    history.state.clear();
    history.stop_step.reset();
  } else if (kind == name::kStep) {
    history.last_step = integer_field(event, "step", history.last_step);
    if (const auto loss = optional_number(event, "loss")) history.loss = loss;
  } else if (kind == name::kEvaluation) {
    if (const auto loss = optional_number(event, "loss")) history.loss = loss;
    if (const auto accuracy = optional_number(event, "accuracy")) history.accuracy = accuracy;
  } else if (kind == name::kResumed) {
    const std::int64_t step = integer_field(event, "step", -1);
    history.committed_step = std::min(history.committed_step, step);
    history.last_checkpoint = text_field(event, "checkpoint");
  } else if (kind == name::kStopSeen) {
    history.stop_step = integer_field(event, "step", -1);
  } else if (kind == name::kCheckpointQuarantined) {
    history.last_checkpoint.clear();  // a sound one, if there is one, is what is resumed from
  } else if (kind == name::kCheckpoint) {
    const std::int64_t step = integer_field(event, "step", -1);
    if (step < history.committed_step) return;
    history.committed_step = step;
    history.last_checkpoint = text_field(event, "path");
  } else if (kind == name::kFinished) {
    history.last_step = integer_field(event, "step", history.last_step);
    if (event.contains("result")) history.result = event.at("result");
  } else if (kind == name::kRunEnded) {
    history.state = text_field(event, "state");
    history.exit_code = static_cast<int>(integer_field(event, "exit_code", 0));
    history.verdict = event.value("verdict", json());
    history.wall_s += number_field(event, "wall_s", 0);
  }
}

}  // namespace

RunHistory read_history(const std::vector<json>& events) {
  RunHistory history;
  for (const json& event : events) add(history, event);
  return history;
}

}  // namespace muster
