// The `trainer` group of a task file.
#include <limits>

#include "launcher/task_spec_readers.h"

namespace muster::task_file {

namespace {

using std::chrono::milliseconds;

// muster-train's own limits: what passes here must not be refused there.
constexpr std::int64_t kCountMax = 1'000'000'000'000;
constexpr std::int64_t kBatchMax = 16'777'216;
constexpr std::int64_t kAccumulationMax = 1'048'576;
constexpr std::int64_t kPrefetchMax = 1'024;
constexpr double kRateMax = 1e6;
constexpr int kShardsMax = 65'536;
constexpr milliseconds kSecond{1'000};
constexpr milliseconds kDay{86'400'000};
constexpr milliseconds kMtbfMax = 3'650 * kDay;

constexpr NumberRange kRate{0, kRateMax, true, false, "a number greater than 0, up to 1000000"};
constexpr NumberRange kRateOrNone{0, kRateMax, false, false, "a number from 0 to 1000000"};
constexpr NumberRange kFraction{0, 1, false, true, "a number of at least 0 and less than 1"};
constexpr NumberRange kDropout{0, 0.999, false, false, "a number from 0 to 0.999"};
constexpr NumberRange kGamma{0, 1, true, false, "a number greater than 0, up to 1"};
constexpr NumberRange kEpsilon{0, 1, true, false, "a number greater than 0, up to 1"};

Choices<std::string> names(std::initializer_list<std::string_view> list) {
  Choices<std::string> choices;
  for (const std::string_view name : list) choices.emplace_back(name, std::string(name));
  return choices;
}

void read_hidden(GroupReader& group, std::vector<int>& hidden) {
  constexpr std::string_view kAllowed =
      "a list of 1 to 64 layer sizes, each a whole number from 1 to 1000000";
  constexpr std::size_t kLayersMax = 64;
  constexpr std::int64_t kUnitsMax = 1'000'000;
  const YamlNode* node = group.take("hidden");
  if (node == nullptr) return;
  if (node->kind != YamlNode::Kind::kSequence || node->items.empty() || node->items.size() > kLayersMax) {
    group.reject("hidden", *node, kAllowed);
    return;
  }
  std::vector<int> sizes;
  for (const YamlNode& item : node->items) {
    std::int64_t units = 0;
    if (item.kind == YamlNode::Kind::kScalar && !item.quoted && parse_integer(item.text, units) &&
        units >= 1 && units <= kUnitsMax) {
      sizes.push_back(static_cast<int>(units));
    } else if (item.kind != YamlNode::Kind::kInvalid) {
      group.reject("hidden", item, kAllowed);
    }
  }
  hidden = std::move(sizes);
}

void read_optimizer(GroupReader group, OptimizerSpec& optimizer) {
  group.choice("name", names({"adamw", "sgd"}), optimizer.name);
  const bool is_adamw = optimizer.name == "adamw";
  optimizer.learning_rate = is_adamw ? 0.001 : 0.01;
  optimizer.weight_decay = is_adamw ? 0.01 : 0;
  group.number("learning_rate", kRate, optimizer.learning_rate);
  group.number("momentum", kFraction, optimizer.momentum);
  group.number("weight_decay", kRateOrNone, optimizer.weight_decay);
  group.number("beta1", kFraction, optimizer.beta1);
  group.number("beta2", kFraction, optimizer.beta2);
  group.number("epsilon", kEpsilon, optimizer.epsilon);
  group.finish();
}

void read_learning_rate_schedule(GroupReader group, LearningRateSpec& schedule) {
  group.choice("kind", names({"cosine", "step", "constant"}), schedule.kind);
  group.integer("warmup_steps", 0, kCountMax, schedule.warmup_steps);
  group.number("min_learning_rate", kRateOrNone, schedule.min_learning_rate);
  group.integer("every_steps", 1, kCountMax, schedule.every_steps);
  group.integer("every_epochs", 1, kCountMax, schedule.every_epochs);
  group.number("gamma", kGamma, schedule.gamma);
  group.finish();
}

void read_early_stop(GroupReader group, EarlyStopSpec& early_stop) {
  group.choice("metric", names({"accuracy", "loss"}), early_stop.metric);
  group.integer("patience", 1, kCountMax, early_stop.patience);
  group.number("min_delta", kRateOrNone, early_stop.min_delta);
  group.finish();
}

void read_allreduce(GroupReader group, AllreduceSpec& allreduce) {
  group.choice("algorithm", names({"tree", "ring"}), allreduce.algorithm);
  group.duration("timeout", {kSecond, kDay}, allreduce.timeout);
  group.duration("peer_timeout", {kSecond, kDay}, allreduce.peer_timeout);
  group.finish();
}

// `automatic`: the whole group is the word auto.
void read_checkpoint(GroupReader group, bool automatic, CheckpointSpec& checkpoint) {
  constexpr int kKeepMax = 1'000'000;
  const bool by_steps = group.integer("every_steps", 1, kCountMax, checkpoint.every_steps);
  const YamlNode* every = group.take("every");
  checkpoint.automatic =
      automatic || (every != nullptr && every->kind == YamlNode::Kind::kScalar && every->text == "auto");
  const bool by_time =
      checkpoint.automatic || group.duration("every", {kSecond, kDay}, checkpoint.every, "auto, or ");
  if (every != nullptr && checkpoint.every % kSecond != milliseconds{0})
    group.reject("every", *every, "whole seconds");
  if (by_steps && !by_time) checkpoint.every = milliseconds{0};
  if (checkpoint.automatic) checkpoint.expected_mtbf = kDay;
  group.duration("expected_mtbf", {60 * kSecond, kMtbfMax}, checkpoint.expected_mtbf);
  checkpoint.expected_mtbf -= checkpoint.expected_mtbf % kSecond;
  group.boolean("background", checkpoint.background);
  group.duration("timeout", {kSecond, kDay}, checkpoint.timeout);
  group.integer("keep_last", 1, kKeepMax, checkpoint.keep_last);
  group.boolean("keep_best", checkpoint.keep_best);
  group.finish();
}

void read_optional_count(GroupReader& group, std::string_view key, std::optional<std::int64_t>& count) {
  std::int64_t value = 0;
  if (group.integer(key, 1, kCountMax, value)) count = value;
}

}  // namespace

void read_trainer(GroupReader group, const TaskFileContext& context, TrainerSpec& trainer) {
  constexpr int kThreadsMax = 1'024;
  group.choice("model", names({"mlp", "lenet", "logistic"}), trainer.model);
  read_hidden(group, trainer.hidden);
  group.choice("activation", names({"relu", "gelu"}), trainer.activation);
  group.boolean("layer_norm", trainer.layer_norm);
  group.number("dropout", kDropout, trainer.dropout);
  group.number("label_smoothing", kFraction, trainer.label_smoothing);
  group.choice("dataset", names({"idx", "hdf5"}), trainer.dataset);
  read_path(group, "init_from", context, trainer.init_from);
  group.integer("batch_size", 1, kBatchMax, trainer.batch_size);
  group.integer("accumulation_steps", 1, kAccumulationMax, trainer.accumulation_steps);
  read_optional_count(group, "epochs", trainer.epochs);
  read_optional_count(group, "steps", trainer.steps);
  group.integer("seed", 0, std::numeric_limits<std::int64_t>::max(), trainer.seed);
  group.integer("shards", 1, kShardsMax, trainer.shards);
  read_optimizer(group.group("optimizer"), trainer.optimizer);
  read_learning_rate_schedule(group.group("schedule"), trainer.schedule);
  read_early_stop(group.group("early_stop"), trainer.early_stop);
  group.number("clip_norm", kRate, trainer.clip_norm);
  group.choice("precision", names({"fp32", "bf16", "fp16"}), trainer.precision);
  group.choice("device", names({"cpu", "reference", "cuda"}), trainer.device);
  group.integer("threads", 1, kThreadsMax, trainer.threads);
  read_allreduce(group.group("allreduce"), trainer.allreduce);
  trainer.reproducible = trainer.allreduce.algorithm == "tree";
  group.boolean("reproducible", trainer.reproducible);
  group.choice("on_nonfinite", names({"stop", "skip"}), trainer.on_nonfinite);
  group.integer("prefetch", 0, kPrefetchMax, trainer.prefetch);
  group.duration("data_timeout", {kSecond, kDay}, trainer.data_timeout);
  group.integer("evaluate_every_epochs", 0, kCountMax, trainer.evaluate_every_epochs);
  group.integer("log_every_steps", 1, kCountMax, trainer.log_every_steps);
  group.boolean("log_samples", trainer.log_samples);
  bool automatic = false;
  const GroupReader checkpoint = group.group_or_word("checkpoint", "auto", automatic);
  read_checkpoint(checkpoint, automatic, trainer.checkpoint);
  group.finish();
}

}  // namespace muster::task_file
