// Options as JSON: stored in checkpoints, and read again from there.
#include <nlohmann/json.hpp>

#include "trainer/options.h"

namespace muster {
namespace {

// Every option with its name in JSON: the one list that both directions use.
template <class Options, class Visitor>
void visit_options(Options& o, const Visitor& visit) {
  visit("model", o.model);
  visit("hidden", o.hidden);
  visit("activation", o.activation);
  visit("layer_norm", o.layer_norm);
  visit("dropout", o.dropout);
  visit("label_smoothing", o.label_smoothing);
  visit("dataset", o.dataset);
  visit("data_path", o.data_path);
  visit("init_from", o.init_from);
  visit("batch_size", o.batch_size);
  visit("accumulation_steps", o.accumulation_steps);
  visit("seed", o.seed);
  visit("shards", o.shards);
  visit("optimizer", o.optimizer);
  visit("learning_rate", o.learning_rate);
  visit("momentum", o.momentum);
  visit("weight_decay", o.weight_decay);
  visit("beta1", o.beta1);
  visit("beta2", o.beta2);
  visit("epsilon", o.epsilon);
  visit("lr_schedule", o.lr_schedule);
  visit("warmup_steps", o.warmup_steps);
  visit("min_learning_rate", o.min_learning_rate);
  visit("lr_every_steps", o.lr_every_steps);
  visit("lr_every_epochs", o.lr_every_epochs);
  visit("lr_gamma", o.lr_gamma);
  visit("clip_norm", o.clip_norm);
  visit("precision", o.precision);
  visit("device", o.device);
  visit("threads", o.threads);
  visit("allreduce", o.allreduce);
  visit("reproducible", o.reproducible);
  visit("collective_timeout_ms", o.collective_timeout);
  visit("peer_timeout_ms", o.peer_timeout);
  visit("on_nonfinite", o.on_nonfinite);
  visit("prefetch", o.prefetch);
  visit("data_timeout_ms", o.data_timeout);
  visit("evaluate_every_epochs", o.evaluate_every_epochs);
  visit("log_every_steps", o.log_every_steps);
  visit("log_samples", o.log_samples);
  visit("run_id", o.run_id);
  visit("checkpoint_dir", o.checkpoint_dir);
  visit("checkpoint_every_steps", o.checkpoint_every_steps);
  visit("checkpoint_every_seconds", o.checkpoint_every_seconds);
  visit("checkpoint_automatic", o.checkpoint_automatic);
  visit("expected_mtbf_seconds", o.expected_mtbf_seconds);
  visit("checkpoint_background", o.checkpoint_background);
  visit("checkpoint_timeout_ms", o.checkpoint_timeout);
  visit("keep_last", o.keep_last);
  visit("keep_best", o.keep_best);
  visit("early_stop_metric", o.early_stop.metric);
  visit("early_stop_patience", o.early_stop.patience);
  visit("early_stop_min_delta", o.early_stop.min_delta);
  visit("epochs", o.epochs);
  visit("steps", o.steps);
}

class Writer {
 public:
  explicit Writer(nlohmann::json& json) : json_(json) {}
  template <class T>
  void operator()(const char* name, const T& value) const {
    json_[name] = value;
  }
  void operator()(const char* name, const std::chrono::milliseconds& value) const {
    json_[name] = value.count();
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value) json_[name] = *value;
  }

 private:
  nlohmann::json& json_;
};

// Takes what it finds out of the object; what is not there keeps its default.
class Reader {
 public:
  explicit Reader(nlohmann::json& json) : json_(json) {}
  template <class T>
  void operator()(const char* name, T& value) const {
    take<T>(name, [&](const T& found) { value = found; });
  }
  void operator()(const char* name, std::chrono::milliseconds& value) const {
    take<std::int64_t>(name, [&](std::int64_t found) { value = std::chrono::milliseconds(found); });
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) const {
    take<T>(name, [&](const T& found) { value = found; });
  }

 private:
  template <class T, class Set>
  void take(const char* name, const Set& set) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    set(found->get<T>());
    json_.erase(found);
  }

  nlohmann::json& json_;
};

}  // namespace

nlohmann::json to_json(const TrainerOptions& options) {
  nlohmann::json json = nlohmann::json::object();
  visit_options(options, Writer(json));
  return json;
}

Result<TrainerOptions> trainer_options_from_json(nlohmann::json json) {
  TrainerOptions options;
  try {
    visit_options(options, Reader(json));
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kCorrupt, "the stored configuration cannot be read: {}", error.what());
  }
  json.erase("data");
  if (json.empty()) return options;
  return fail(ErrorCode::kUnavailable,
              "the stored configuration has '{}', which this version does not know; use a newer muster-train",
              json.begin().key());
}

const std::vector<std::string>& fixed_option_names() {
  static const std::vector<std::string> names = {"data",       "model",   "hidden",     "activation",
                                                 "layer_norm", "dataset", "batch_size", "accumulation_steps",
                                                 "seed",       "shards",  "optimizer"};
  return names;
}

}  // namespace muster
