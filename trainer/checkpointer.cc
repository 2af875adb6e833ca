#include "trainer/checkpointer.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

#include "common/run_contract.h"
#include "trainer/checkpoint/interval_advice.h"
#include "trainer/options.h"

namespace muster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Between tries to store the last state.
constexpr milliseconds kFirstPause{1000};
constexpr milliseconds kLongestPause{30000};
// Of the advised interval: worth telling again.
constexpr double kNoteworthyChange = 1.25;

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::int64_t row_elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The keys on which two objects differ, with both values.
json differences(const json& before, const json& now) {
  json changed = json::object();
  for (const auto& [key, value] : now.items()) {
    const json old = before.value(key, json(nullptr));
    if (old != value) changed[key] = {{"before", old}, {"now", value}};
  }
  return changed;
}

// A stored configuration as it is to be read: an option that did not exist yet when it was written had what
// is its default now.
json with_defaults(const json& stored) {
  json complete = to_json(TrainerOptions());
  complete.update(stored);
  return complete;
}

Status load_tensor(checkpoint::LoadedCheckpoint& loaded, const NamedTensor& tensor) {
  MUSTER_ASSIGN(const auto shape, loaded.shape(tensor.name));
  if (shape != tensor.shape) {
    return fail(ErrorCode::kInvalidArgument, "{}: tensor {} has shape [{}] there and [{}] here",
                loaded.path(), tensor.name, fmt::join(shape, ", "), fmt::join(tensor.shape, ", "));
  }
  const Status read = loaded.read_rows(tensor.name, 0, tensor.shape[0], tensor.data);
  if (read || read.error().code != ErrorCode::kCorrupt) return read;
  // It was sound a moment ago. The next attempt verifies anew, and puts it aside if it is damaged.
  return fail(ErrorCode::kIo, "{}: tensor {} changed after it was verified: {}", loaded.path(), tensor.name,
              read.error().message);
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

Checkpointer::Checkpointer(checkpoint::CheckpointStore& store, EventSink& events, RequestedSaves& requested,
                           CheckpointContext context, std::vector<NamedTensor> tensors, SavePolicy policy)
    : store_(store),
      events_(events),
      requested_(requested),
      context_(std::move(context)),
      tensors_(std::move(tensors)),
      policy_(std::move(policy)),
      last_begin_(policy_.now()) {}

Status Checkpointer::check_configuration(const json& stored) const {
  std::string changes;
  for (const std::string& name : fixed_option_names()) {
    const json before = stored.value(name, json(nullptr));
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
  const json configuration = differences(with_defaults(stored.at("configuration")), context_.configuration);
  const json code = differences(stored.at("code"), context_.code);
  if (configuration.empty() && code.empty()) return;
  events_.emit(
      {{"event", contract::event::kConfigurationChanged}, {"configuration", configuration}, {"code", code}});
}

Result<bool> Checkpointer::restore(TrainingState& state) {
  MUSTER_ASSIGN(checkpoint::LoadOutcome outcome, store_.load_latest());
  for (const checkpoint::Quarantined& bad : outcome.quarantined) {
    events_.emit(
        {{"event", contract::event::kCheckpointQuarantined}, {"path", bad.path}, {"reason", bad.reason}});
  }
  if (outcome.lost) {
    // Starting over by itself would hide that finished work is at stake, however often it is tried.
    return fail(
        ErrorCode::kCorrupt,
        "every checkpoint is damaged; the newest is now {} ({}). Put a sound one back, start another run "
        "(`muster run --new`), or remove {} to begin this one anew",
        outcome.lost->path, outcome.lost->reason,
        std::filesystem::path(outcome.lost->path).parent_path().string());
  }
  if (!outcome.checkpoint) return false;
  checkpoint::LoadedCheckpoint& loaded = *outcome.checkpoint;
  const json& stored = loaded.state();
  if (!stored.contains("configuration") || !stored.contains("code") || !stored.contains("training")) {
    return fail(ErrorCode::kCorrupt, "{}: the stored state lacks configuration, code or training",
                loaded.path());
  }
  MUSTER_TRY(check_configuration(with_defaults(stored.at("configuration"))));
  MUSTER_ASSIGN(state, training_state_from_json(stored.at("training")));
  for (const NamedTensor& tensor : tensors_) MUSTER_TRY(load_tensor(loaded, tensor));
  report_changes(stored);
  last_path_ = loaded.path();
  events_.emit({{"event", contract::event::kResumed},
                {"step", state.step},
                {"epoch", state.epoch},
                {"checkpoint", loaded.path()},
                {"world_size_then", stored.value("world_size", 0)}});
  return true;
}

bool Checkpointer::asks_for_save() const {
  const bool is_time =
      context_.rank == 0 && policy_.every.count() > 0 && policy_.now() - last_begin_ >= policy_.every;
  return is_time || !requested_.empty();
}

Status Checkpointer::after_step(const SavePoint& point, bool asked, bool some_rank_busy) {
  due_ = due_ || asked || point.is_best ||
         (policy_.every_steps > 0 && point.state.step % policy_.every_steps == 0);
  if (store_.saving()) {
    ++steps_meanwhile_;
    if (point.is_best) {
      MUSTER_TRY(tolerate(finish()));
    } else if (some_rank_busy) {
      report_slowness();
    } else {
      MUSTER_TRY(tolerate(advance()));
    }
  }
  if (!due_ || store_.saving()) return {};
  due_ = false;
  return tolerate(policy_.background ? begin(point) : save_and_wait(point));
}

Status Checkpointer::save_last(const SavePoint& point, bool persistent) {
  // The pauses, not a clock, say when it is enough: all ranks make the same number of tries.
  milliseconds paused{0};
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (store_.saving()) MUSTER_TRY(tolerate(finish()));
    const Status saved = save_and_wait(point);
    if (saved) return {};
    if (!tolerable(saved.error())) return saved;
    const bool stuck = store_.saving();  // it was waited for as long as one may
    if (!persistent || stuck || paused + pause > policy_.timeout) {
      return not_stored(point.state.step, saved.error());
    }
    report_failure(saved.error(), pause);
    std::this_thread::sleep_for(pause);
    paused += pause;
  }
}

Status Checkpointer::begin(const SavePoint& point) {
  if (store_.saving()) return fail(ErrorCode::kDeadlineExceeded, "the save of step {} does not end", step_);
  const auto began = policy_.now();
  last_begin_ = began;
  step_ = point.state.step;
  steps_meanwhile_ = 0;
  requests_ = requested_.take();
  slowness_told_ = false;
  const auto slices = slices_of_rank(tensors_, context_.rank, context_.world_size);
  checkpoint::SaveRequest request;
  request.step = step_;
  request.state = {{"training", to_json(point.state)},
                   {"configuration", context_.configuration},
                   {"code", context_.code},
                   {"world_size", context_.world_size}};
  request.metric = point.metric;
  request.slices = slices;
  request.generation = context_.generation;
  MUSTER_TRY(store_.begin_save(request));
  held_up_ = policy_.now() - began;
  events_.emit({{"event", contract::event::kCheckpointBegun}, {"step", step_}});
  return {};
}

Status Checkpointer::advance() {
  const auto began = policy_.now();
  MUSTER_ASSIGN(const auto report, store_.advance());
  held_up_ += policy_.now() - began;
  if (report) report_success(*report);
  return {};
}

Status Checkpointer::finish() {
  const auto began = policy_.now();
  MUSTER_ASSIGN(const auto report, store_.finish_save(policy_.timeout));
  held_up_ += policy_.now() - began;
  report_success(report);
  return {};
}

Status Checkpointer::save_and_wait(const SavePoint& point) {
  MUSTER_TRY(begin(point));
  return finish();
}

// The disk may be full or slow, somebody may have cleared the directory, memory may be short: the next save
// may work. What says that this attempt must not go on (a newer one has taken over, a rank is lost, the ranks
// do not see one file system) is not tolerable.
bool Checkpointer::tolerable(const Error& error) const {
  switch (error.code) {
    case ErrorCode::kIo:
    case ErrorCode::kDenied:
    case ErrorCode::kNoSpace:
    case ErrorCode::kNotFound:
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kInternal:
      return true;
    case ErrorCode::kDeadlineExceeded:
      return store_.saving();
    default:
      return false;
  }
}

Status Checkpointer::tolerate(const Status& outcome) {
  if (outcome) return {};
  report_failure(outcome.error(), std::nullopt);
  return tolerable(outcome.error()) ? Status() : outcome;
}

tl::unexpected<Error> Checkpointer::not_stored(std::int64_t step, const Error& error) {
  report_failure(error, std::nullopt);
  const std::string last =
      last_path_.empty() ? "there is no checkpoint" : fmt::format("the last checkpoint is {}", last_path_);
  return fail(ErrorCode::kNotStored, "the state after step {} could not be stored: {}; {}", step,
              error.message, last);
}

void Checkpointer::report_success(const checkpoint::SaveReport& report) {
  last_path_ = report.path;
  events_.emit({{"event", contract::event::kCheckpoint},
                {"step", step_},
                {"path", report.path},
                {"bytes", report.bytes},
                {"seconds", report.seconds},
                {"held_up_seconds", seconds_of(held_up_)},
                {"steps_meanwhile", steps_meanwhile_},
                {"requests", std::exchange(requests_, {})},
                {"warnings", report.warnings}});
  learn_duration(report.seconds);
}

void Checkpointer::report_failure(const Error& error, std::optional<milliseconds> retry_in) {
  json event = {{"event", contract::event::kCheckpointFailed}, {"step", step_}, {"reason", error.message}};
  event["requests"] = std::exchange(requests_, {});
  if (retry_in) event["retry_seconds"] = seconds_of(*retry_in);
  events_.emit(event);
}

void Checkpointer::learn_duration(double save_s) {
  if (policy_.expected_mtbf.count() <= 0) return;
  save_s_ = save_s_ > 0 ? (save_s_ + save_s) / 2 : save_s;
  const double mtbf_s = policy_.expected_mtbf.count();
  const double interval_s = checkpoint::advised_interval_s(save_s_, mtbf_s);
  if (policy_.automatic) policy_.every = std::chrono::duration<double>(interval_s);
  const double change = interval_s / advised_interval_s_;  // infinite at first
  if (change < kNoteworthyChange && change > 1 / kNoteworthyChange) return;
  advised_interval_s_ = interval_s;
  events_.emit(
      {{"event", contract::event::kCheckpointAdvice},
       {"interval_seconds", interval_s},
       {"save_seconds", save_s_},
       {"mtbf_seconds", mtbf_s},
       {"automatic", policy_.automatic},
       {"text", fmt::format("a save takes {:.3g} s; with a failure every {:.0f} s, a save every "
                            "{:.0f} s loses the least time (Young, Daly){}",
                            save_s_, mtbf_s, interval_s, policy_.automatic ? ", so that is done" : "")}});
}

void Checkpointer::report_slowness() {
  const auto elapsed = policy_.now() - last_begin_;
  if (slowness_told_ || elapsed < policy_.timeout) return;
  slowness_told_ = true;
  events_.emit(
      {{"event", contract::event::kCheckpointSlow}, {"step", step_}, {"seconds", seconds_of(elapsed)}});
}

}  // namespace muster
