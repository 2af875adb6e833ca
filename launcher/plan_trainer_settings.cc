// The trainer's settings as muster-train's flags: every resolved value, so that no default can differ between
// what the plan shows and what runs.
#include <fmt/format.h>

#include "launcher/plan_parts.h"

namespace muster::planning {

namespace {

std::string flag_value(bool value) { return value ? "1" : "0"; }

class Settings {
 public:
  template <class T>
  void decisive(std::string name, std::string flag, const T& value) {
    add(std::move(name), std::move(flag), value, true);
  }
  template <class T>
  void incidental(std::string name, std::string flag, const T& value) {
    add(std::move(name), std::move(flag), value, false);
  }
  std::vector<TrainerSetting> take() { return std::move(settings_); }

 private:
  template <class T>
  void add(std::string name, std::string flag, const T& value, bool decides_result) {
    settings_.push_back({std::move(name), std::move(flag), fmt::format("{}", value), decides_result});
  }
  std::vector<TrainerSetting> settings_;
};

void add_model(const TrainerSpec& trainer, Settings& settings) {
  settings.decisive("model", "--model", trainer.model);
  if (trainer.model == "mlp") {
    settings.decisive("hidden", "--hidden", fmt::format("{}", fmt::join(trainer.hidden, ",")));
    settings.decisive("activation", "--activation", trainer.activation);
    settings.decisive("layer_norm", "--layer-norm", flag_value(trainer.layer_norm));
  }
  if (trainer.model != "logistic") settings.decisive("dropout", "--dropout", trainer.dropout);
  settings.decisive("label_smoothing", "--label-smoothing", trainer.label_smoothing);
}

void add_optimizer(const OptimizerSpec& optimizer, Settings& settings) {
  settings.decisive("optimizer.name", "--optimizer", optimizer.name);
  settings.decisive("optimizer.learning_rate", "--learning-rate", optimizer.learning_rate);
  settings.decisive("optimizer.weight_decay", "--weight-decay", optimizer.weight_decay);
  if (optimizer.name == "sgd") {
    settings.decisive("optimizer.momentum", "--momentum", optimizer.momentum);
    return;
  }
  settings.decisive("optimizer.beta1", "--beta1", optimizer.beta1);
  settings.decisive("optimizer.beta2", "--beta2", optimizer.beta2);
  settings.decisive("optimizer.epsilon", "--epsilon", optimizer.epsilon);
}

void add_schedule(const LearningRateSpec& schedule, Settings& settings) {
  settings.decisive("schedule.kind", "--lr-schedule", schedule.kind);
  settings.decisive("schedule.warmup_steps", "--warmup-steps", schedule.warmup_steps);
  if (schedule.kind == "cosine") {
    settings.decisive("schedule.min_learning_rate", "--min-learning-rate", schedule.min_learning_rate);
  } else if (schedule.kind == "step") {
    settings.decisive("schedule.every_steps", "--lr-every-steps", schedule.every_steps);
    settings.decisive("schedule.every_epochs", "--lr-every-epochs", schedule.every_epochs);
    settings.decisive("schedule.gamma", "--lr-gamma", schedule.gamma);
  }
}

void add_checkpoint(const CheckpointSpec& checkpoint, Settings& settings) {
  settings.incidental("checkpoint.every_steps", "--checkpoint-every-steps", checkpoint.every_steps);
  settings.incidental("checkpoint.every", "--checkpoint-every-seconds",
                      checkpoint.every / std::chrono::seconds(1));
  settings.incidental("checkpoint.automatic", "--checkpoint-automatic", flag_value(checkpoint.automatic));
  settings.incidental("checkpoint.expected_mtbf", "--expected-mtbf-seconds",
                      checkpoint.expected_mtbf / std::chrono::seconds(1));
  settings.incidental("checkpoint.background", "--checkpoint-background", flag_value(checkpoint.background));
  settings.incidental("checkpoint.timeout", "--checkpoint-timeout-ms", checkpoint.timeout.count());
  settings.incidental("checkpoint.keep_last", "--keep-last", checkpoint.keep_last);
  settings.incidental("checkpoint.keep_best", "--keep-best", flag_value(checkpoint.keep_best));
}

// Passed only if the task asks for them, so that runs begun before there were such keys go on unchanged.
void add_if_asked(const TrainerSpec& trainer, Settings& settings) {
  if (!trainer.init_from.empty()) settings.decisive("init_from", "--init-from", trainer.init_from);
  if (trainer.accumulation_steps > 1) {
    settings.decisive("accumulation_steps", "--accumulation-steps", trainer.accumulation_steps);
  }
  if (trainer.clip_norm > 0) settings.decisive("clip_norm", "--clip-norm", trainer.clip_norm);
  if (trainer.early_stop.metric == "none") return;
  settings.decisive("early_stop.metric", "--early-stop-metric", trainer.early_stop.metric);
  settings.decisive("early_stop.patience", "--early-stop-patience", trainer.early_stop.patience);
  settings.decisive("early_stop.min_delta", "--early-stop-min-delta", trainer.early_stop.min_delta);
}

}  // namespace

std::vector<TrainerSetting> trainer_settings(const TrainerSpec& trainer) {
  Settings settings;
  add_model(trainer, settings);
  settings.decisive("dataset", "--dataset", trainer.dataset);
  settings.decisive("batch_size", "--batch-size", trainer.batch_size);
  if (trainer.epochs) settings.decisive("epochs", "--epochs", *trainer.epochs);
  if (trainer.steps) settings.decisive("steps", "--steps", *trainer.steps);
  settings.decisive("seed", "--seed", trainer.seed);
  settings.decisive("shards", "--shards", trainer.shards);
  add_optimizer(trainer.optimizer, settings);
  add_schedule(trainer.schedule, settings);
  add_if_asked(trainer, settings);
  settings.decisive("precision", "--precision", trainer.precision);
  settings.decisive("device", "--device", trainer.device);
  settings.decisive("threads", "--threads", trainer.threads);
  settings.decisive("allreduce.algorithm", "--allreduce", trainer.allreduce.algorithm);
  settings.incidental("allreduce.timeout", "--collective-timeout-ms", trainer.allreduce.timeout.count());
  settings.incidental("allreduce.peer_timeout", "--peer-timeout-ms", trainer.allreduce.peer_timeout.count());
  settings.decisive("reproducible", "--reproducible", flag_value(trainer.reproducible));
  settings.decisive("on_nonfinite", "--on-nonfinite", trainer.on_nonfinite);
  settings.incidental("prefetch", "--prefetch", trainer.prefetch);
  settings.incidental("data_timeout", "--data-timeout-ms", trainer.data_timeout.count());
  // An early stop is decided by the evaluations.
  if (trainer.early_stop.metric == "none") {
    settings.incidental("evaluate_every_epochs", "--evaluate-every-epochs", trainer.evaluate_every_epochs);
  } else {
    settings.decisive("evaluate_every_epochs", "--evaluate-every-epochs", trainer.evaluate_every_epochs);
  }
  settings.incidental("log_every_steps", "--log-every-steps", trainer.log_every_steps);
  settings.incidental("log_samples", "--log-samples", flag_value(trainer.log_samples));
  add_checkpoint(trainer.checkpoint, settings);
  return settings.take();
}

}  // namespace muster::planning
