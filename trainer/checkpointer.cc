#include "trainer/checkpointer.h"

#include <functional>
#include <numeric>
#include <utility>

#include "common/run_contract.h"
#include "trainer/options.h"

namespace muster {
namespace {

using nlohmann::json;

std::int64_t row_elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

// What a checkpoint was made with: a key that it does not have yet had its default.
json stored_option(const json& stored, const std::string& name) {
  static const json defaults = to_json(TrainerOptions());
  return stored.value(name, defaults.value(name, json(nullptr)));
}

// The keys on which two objects differ, with both values.
json differences(const json& before, const json& now) {
  json changed = json::object();
  for (const auto& [key, value] : now.items()) {
    const json old = stored_option(before, key);
    if (old != value) changed[key] = {{"before", old}, {"now", value}};
  }
  return changed;
}

Status load_tensor(checkpoint::LoadedCheckpoint& loaded, const NamedTensor& tensor) {
  MUSTER_ASSIGN(const auto shape, loaded.shape(tensor.name));
  if (shape != tensor.shape) {
    return fail(ErrorCode::kInvalidArgument, "{}: tensor {} has shape [{}] there and [{}] here",
                loaded.path(), tensor.name, fmt::join(shape, ", "), fmt::join(tensor.shape, ", "));
  }
  return loaded.read_rows(tensor.name, 0, tensor.shape[0], tensor.data);
}

}  // namespace

std::vector<checkpoint::TensorSlice> slices_of_rank(const std::vector<NamedTensor>& tensors, int rank,
                                                    int size) {
  std::vector<checkpoint::TensorSlice> slices;
  slices.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) {
    const std::int64_t rows = tensor.shape[0];
    const std::int64_t begin = rows * rank / size;
    const std::int64_t end = rows * (rank + 1) / size;
    slices.push_back(
        {tensor.name, tensor.shape, begin, end, tensor.data + begin * row_elements(tensor.shape)});
  }
  return slices;
}

Checkpointer::Checkpointer(checkpoint::CheckpointStore& store, EventSink& events, CheckpointContext context)
    : store_(store), events_(events), context_(std::move(context)) {}

Status Checkpointer::check_configuration(const json& stored) const {
  std::string changes;
  for (const std::string& name : fixed_option_names()) {
    const json before = stored_option(stored, name);
    const json& now = context_.configuration.at(name);
    if (before != now)
      changes += fmt::format("\n  {}: {} in the checkpoint, {} now", name, before.dump(), now.dump());
  }
  if (changes.empty()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the last checkpoint cannot be continued with this configuration:{}\nstart a new run instead",
              changes);
}

void Checkpointer::report_changes(const json& stored) {
  const json configuration = differences(stored.at("configuration"), context_.configuration);
  const json code = differences(stored.at("code"), context_.code);
  if (configuration.empty() && code.empty()) return;
  events_.emit(
      {{"event", contract::event::kConfigurationChanged}, {"configuration", configuration}, {"code", code}});
}

Result<bool> Checkpointer::restore(const std::vector<NamedTensor>& tensors, TrainingState& state) {
  MUSTER_ASSIGN(checkpoint::LoadOutcome outcome, store_.load_latest());
  for (const checkpoint::Quarantined& bad : outcome.quarantined) {
    events_.emit(
        {{"event", contract::event::kCheckpointQuarantined}, {"path", bad.path}, {"reason", bad.reason}});
  }
  if (!outcome.checkpoint && !outcome.quarantined.empty()) {
    // Starting over by itself would hide that finished work is at stake.
    return fail(
        ErrorCode::kCorrupt,
        "every checkpoint is damaged; the newest is now {} ({}). Put a sound one back, or run again to start "
        "from the beginning",
        outcome.quarantined[0].path, outcome.quarantined[0].reason);
  }
  if (!outcome.checkpoint) return false;
  checkpoint::LoadedCheckpoint& loaded = *outcome.checkpoint;
  const json& stored = loaded.state();
  if (!stored.contains("configuration") || !stored.contains("code") || !stored.contains("training")) {
    return fail(ErrorCode::kCorrupt, "{}: the stored state lacks configuration, code or training",
                loaded.path());
  }
  MUSTER_TRY(check_configuration(stored.at("configuration")));
  MUSTER_ASSIGN(state, training_state_from_json(stored.at("training")));
  for (const NamedTensor& tensor : tensors) MUSTER_TRY(load_tensor(loaded, tensor));
  report_changes(stored);
  events_.emit({{"event", contract::event::kResumed},
                {"step", state.step},
                {"epoch", state.epoch},
                {"checkpoint", loaded.path()},
                {"world_size_then", stored.value("world_size", 0)}});
  return true;
}

Status Checkpointer::save(const std::vector<NamedTensor>& tensors, const TrainingState& state,
                          std::optional<double> metric) {
  const auto slices = slices_of_rank(tensors, context_.rank, context_.world_size);
  checkpoint::SaveRequest request;
  request.step = state.step;
  request.state = {{"training", to_json(state)},
                   {"configuration", context_.configuration},
                   {"code", context_.code},
                   {"world_size", context_.world_size}};
  request.metric = metric;
  request.slices = slices;
  request.generation = context_.generation;
  const Result<checkpoint::SaveReport> report = store_.save(request);
  if (!report) {
    events_.emit({{"event", contract::event::kCheckpointFailed},
                  {"step", state.step},
                  {"reason", report.error().message}});
    return tl::unexpected<Error>(report.error());
  }
  events_.emit({{"event", contract::event::kCheckpoint},
                {"step", state.step},
                {"path", report->path},
                {"bytes", report->bytes},
                {"seconds", report->seconds},
                {"warnings", report->warnings}});
  return {};
}

}  // namespace muster
