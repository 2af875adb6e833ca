// Rules of a task file that concern several keys. A rule is skipped while a key it needs has an error of its
// own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "launcher/task_spec_readers.h"
#include "launcher/units.h"

namespace muster::task_file {

namespace {

class Rules {
 public:
  Rules(TaskSpec& spec, ReadContext& context) : spec_(spec), context_(context) {}

  bool good(std::initializer_list<const char*> keys) const {
    return std::all_of(keys.begin(), keys.end(), [&](const char* key) { return context_.is_good(key); });
  }

  // At the first of `keys` that the file gives.
  void error(std::initializer_list<const char*> keys, std::string message) {
    for (const char* key : keys) {
      const auto position = spec_.positions.find(key);
      if (position == spec_.positions.end()) continue;
      context_.diagnostics().error(position->second, std::move(message));
      return;
    }
    context_.diagnostics().error({}, std::move(message));
  }

  // A key that only one choice of another key has.
  void only_with(const char* key, std::string_view what, std::string_view chosen, std::string_view owner) {
    if (chosen == owner || !spec_.has(key)) return;
    error({key}, fmt::format("{}: found beside {} {}, which has none; allowed: only with {}", key, what,
                             chosen, owner));
  }

  void workers();
  void ranks_and_gpus();
  void environment();
  void trainer_presence();
  void trainer_length();
  void trainer_model();
  void trainer_shards();
  void trainer_optimizer();
  void trainer_schedule();
  void trainer_early_stop();
  void trainer_device();
  void trainer_allreduce();
  void trainer_data_timeout();

 private:
  TaskSpec& spec_;
  ReadContext& context_;
};

void Rules::workers() {
  ScheduleSpec& schedule = spec_.schedule;
  if (!spec_.has("schedule.min_workers")) schedule.min_workers = spec_.num_workers;
  if (!spec_.has("schedule.max_workers")) schedule.max_workers = spec_.num_workers;
  if (!good({"num_workers", "schedule.min_workers", "schedule.max_workers"})) return;
  if (schedule.min_workers > spec_.num_workers) {
    error({"schedule.min_workers"},
          fmt::format("schedule.min_workers: found {}; allowed: at most num_workers, which is {}",
                      schedule.min_workers, spec_.num_workers));
  }
  if (schedule.max_workers < spec_.num_workers) {
    error({"schedule.max_workers"},
          fmt::format("schedule.max_workers: found {}; allowed: at least num_workers, which is {}",
                      schedule.max_workers, spec_.num_workers));
  }
}

void Rules::ranks_and_gpus() {
  if (!good({"gpu_per_worker", "ranks_per_worker"})) return;
  if (!spec_.has("ranks_per_worker")) spec_.ranks_per_worker = std::max(1, spec_.gpu_per_worker);
  if (spec_.gpu_per_worker > 0 && spec_.gpu_per_worker % spec_.ranks_per_worker != 0) {
    error(
        {"ranks_per_worker"},
        fmt::format("ranks_per_worker: found {}; allowed: a divisor of gpu_per_worker, which is {}, so that "
                    "each rank has as many GPUs as the others",
                    spec_.ranks_per_worker, spec_.gpu_per_worker));
  }
  if (!spec_.resources.gpu_type.empty() && spec_.gpu_per_worker == 0) {
    error(
        {"resources.gpu_type"},
        fmt::format("resources.gpu_type: found '{}' while gpu_per_worker is 0; allowed: a GPU type only with "
                    "gpu_per_worker of at least 1",
                    spec_.resources.gpu_type));
  }
}

void Rules::environment() {
  for (const EnvironmentVariable& variable : spec_.network.variables) {
    const auto same = [&](const EnvironmentVariable& other) { return other.name == variable.name; };
    if (std::none_of(spec_.env.begin(), spec_.env.end(), same)) continue;
    error({("network." + variable.name).c_str()},
          fmt::format("network.{0}: found a variable that env.{0} sets, too; allowed: one of the two",
                      variable.name));
  }
}

void Rules::trainer_presence() {
  if (!good({"entry_point"})) return;
  if (!spec_.is_trainer() && spec_.has("trainer")) {
    error({"trainer"},
          "trainer: found settings of muster-train; allowed: only with entry_point: muster-train");
  }
  if (!spec_.is_trainer()) return;
  if (spec_.data_path.empty() && good({"data_path"})) {
    error({"entry_point"},
          fmt::format("data_path: the key is missing; allowed: {} (muster-train reads its data there)",
                      kPathForms));
  }
}

void Rules::trainer_length() {
  const TrainerSpec& trainer = *spec_.trainer;
  if (!good({"trainer", "trainer.epochs", "trainer.steps"})) return;
  if (trainer.epochs && trainer.steps) {
    error({"trainer.steps"}, "trainer.steps: found beside trainer.epochs; allowed: exactly one of the two");
  } else if (!trainer.epochs && !trainer.steps) {
    error({"trainer", "entry_point"},
          "trainer: found neither epochs nor steps; allowed: exactly one of the two");
  }
}

void Rules::trainer_model() {
  if (!good({"trainer.model"})) return;
  const std::string& model = spec_.trainer->model;
  const auto only_for = [&](const char* key, std::initializer_list<std::string_view> owners) {
    if (!spec_.has(key) || std::find(owners.begin(), owners.end(), model) != owners.end()) return;
    error({key}, fmt::format("{}: found beside model {}, which has none; allowed: only with {}", key, model,
                             fmt::join(owners, ", ")));
  };
  only_for("trainer.hidden", {"mlp"});
  only_for("trainer.activation", {"mlp"});
  only_for("trainer.layer_norm", {"mlp"});
  only_for("trainer.dropout", {"mlp", "lenet"});
}

void Rules::trainer_shards() {
  const int shards = spec_.trainer->shards;
  if (!good({"trainer.shards"})) return;
  if (!std::has_single_bit(static_cast<unsigned>(shards))) {
    error({"trainer.shards"}, fmt::format("trainer.shards: found {}; allowed: a power of two, such as {}",
                                          shards, std::bit_ceil(static_cast<unsigned>(shards))));
    return;
  }
  if (!good({"num_workers", "schedule.max_workers", "ranks_per_worker", "gpu_per_worker"})) return;
  const std::int64_t workers = std::max(spec_.num_workers, spec_.schedule.max_workers);
  const std::int64_t ranks = workers * spec_.ranks_per_worker;
  if (shards < ranks) {
    error({"trainer.shards", "num_workers", "entry_point"},
          fmt::format("trainer.shards: found {} for {} ranks ({} workers of {}); allowed: a power of two, at "
                      "least the number of ranks",
                      shards, ranks, workers, spec_.ranks_per_worker));
  }
}

void Rules::trainer_optimizer() {
  if (!good({"trainer.optimizer.name"})) return;
  const std::string& name = spec_.trainer->optimizer.name;
  const auto only_for = [&](const char* key, std::string_view owner) {
    only_with(key, "optimizer", name, owner);
  };
  only_for("trainer.optimizer.momentum", "sgd");
  only_for("trainer.optimizer.beta1", "adamw");
  only_for("trainer.optimizer.beta2", "adamw");
  only_for("trainer.optimizer.epsilon", "adamw");
}

void Rules::trainer_schedule() {
  const TrainerSpec& trainer = *spec_.trainer;
  if (good({"trainer.steps", "trainer.schedule.warmup_steps"}) && trainer.steps &&
      trainer.schedule.warmup_steps > *trainer.steps) {
    error({"trainer.schedule.warmup_steps"},
          fmt::format("trainer.schedule.warmup_steps: found {}; allowed: at most trainer.steps, which is {}",
                      trainer.schedule.warmup_steps, *trainer.steps));
  }
  if (!good({"trainer.schedule.kind"})) return;
  const std::string& kind = trainer.schedule.kind;
  const auto only_for = [&](const char* key, std::string_view owner) {
    only_with(key, "schedule kind", kind, owner);
  };
  constexpr const char* kMin = "trainer.schedule.min_learning_rate";
  constexpr const char* kSteps = "trainer.schedule.every_steps";
  constexpr const char* kEpochs = "trainer.schedule.every_epochs";
  only_for(kMin, "cosine");
  for (const char* key : {kSteps, kEpochs, "trainer.schedule.gamma"}) only_for(key, "step");
  if (kind == "step" && good({kSteps, kEpochs}) && spec_.has(kSteps) == spec_.has(kEpochs)) {
    error(
        {kEpochs, "trainer.schedule.kind"},
        fmt::format(
            "trainer.schedule: found {}; allowed with kind step: exactly one of every_steps and every_epochs",
            spec_.has(kSteps) ? "both every_steps and every_epochs"
                              : "neither every_steps nor every_epochs"));
  }
  if (kind == "cosine" && good({kMin, "trainer.optimizer.learning_rate"}) && spec_.has(kMin) &&
      trainer.schedule.min_learning_rate > trainer.optimizer.learning_rate) {
    error({kMin}, fmt::format("{}: found {}; allowed: at most the learning rate, which is {}", kMin,
                              trainer.schedule.min_learning_rate, trainer.optimizer.learning_rate));
  }
}

void Rules::trainer_early_stop() {
  const TrainerSpec& trainer = *spec_.trainer;
  if (!good({"trainer.early_stop", "trainer.early_stop.metric", "trainer.early_stop.patience"})) return;
  if (!spec_.has("trainer.early_stop")) return;
  for (const char* key : {"trainer.early_stop.metric", "trainer.early_stop.patience"}) {
    if (spec_.has(key)) continue;
    error({"trainer.early_stop"},
          fmt::format("{}: the key is missing; allowed: metric (accuracy or loss) and patience (evaluations "
                      "without an improvement), and min_delta",
                      key));
  }
  if (good({"trainer.evaluate_every_epochs"}) && trainer.evaluate_every_epochs == 0) {
    error({"trainer.evaluate_every_epochs"},
          "trainer.evaluate_every_epochs: found 0 beside early_stop, which needs evaluations; allowed: at "
          "least 1");
  }
}

void Rules::trainer_device() {
  TrainerSpec& trainer = *spec_.trainer;
  if (!good({"trainer.device", "gpu_per_worker", "trainer.threads", "ranks_per_worker"})) return;
  if (!spec_.has("trainer.device") && spec_.gpu_per_worker > 0) trainer.device = "cuda";
  if (trainer.device == "cuda" && spec_.gpu_per_worker == 0) {
    error({"trainer.device"},
          "trainer.device: found 'cuda' while gpu_per_worker is 0; allowed: cuda only with gpu_per_worker of "
          "at "
          "least 1");
  } else if (trainer.device != "cuda" && spec_.gpu_per_worker > 0) {
    error({"trainer.device"},
          fmt::format(
              "trainer.device: found '{}' while gpu_per_worker is {}; allowed: cuda, or gpu_per_worker: 0",
              trainer.device, spec_.gpu_per_worker));
  }
  const int cpus = spec_.resources.cpus_per_worker;
  const std::int64_t threads = std::int64_t{trainer.threads} * spec_.ranks_per_worker;
  if (cpus > 0 && threads > cpus && good({"resources.cpus_per_worker"})) {
    error({"trainer.threads", "resources.cpus_per_worker"},
          fmt::format("trainer.threads: found {} for each of {} ranks of a worker; allowed: at most "
                      "resources.cpus_per_worker together, which is {}",
                      trainer.threads, spec_.ranks_per_worker, cpus));
  }
}

void Rules::trainer_data_timeout() {
  constexpr const char* kKey = "trainer.data_timeout";
  TrainerSpec& trainer = *spec_.trainer;
  if (!good({kKey, "trainer.allreduce.timeout"})) return;
  if (!spec_.has(kKey)) {
    trainer.data_timeout = std::min(trainer.data_timeout, trainer.allreduce.timeout);
  } else if (trainer.data_timeout > trainer.allreduce.timeout) {
    error(
        {kKey},
        fmt::format("{}: found {}; allowed: at most trainer.allreduce.timeout, which is {}: the other ranks "
                    "wait no longer",
                    kKey, format_duration(trainer.data_timeout), format_duration(trainer.allreduce.timeout)));
  }
}

void Rules::trainer_allreduce() {
  const TrainerSpec& trainer = *spec_.trainer;
  if (!good({"trainer.allreduce.algorithm", "trainer.reproducible", "trainer.allreduce.timeout",
             "trainer.allreduce.peer_timeout"})) {
    return;
  }
  if (trainer.reproducible && trainer.allreduce.algorithm == "ring") {
    error(
        {"trainer.reproducible"},
        "trainer.reproducible: found true with allreduce algorithm ring, whose sums depend on the number of "
        "ranks; allowed: true only with tree");
  }
  if (trainer.allreduce.peer_timeout > trainer.allreduce.timeout) {
    error({"trainer.allreduce.peer_timeout", "trainer.allreduce.timeout"},
          fmt::format("trainer.allreduce.peer_timeout: found {}; allowed: at most trainer.allreduce.timeout, "
                      "which is {}",
                      format_duration(trainer.allreduce.peer_timeout),
                      format_duration(trainer.allreduce.timeout)));
  }
}

}  // namespace

void apply_rules(TaskSpec& spec, ReadContext& context) {
  Rules rules(spec, context);
  rules.workers();
  rules.ranks_and_gpus();
  rules.environment();
  rules.trainer_presence();
  if (!spec.trainer) return;
  rules.trainer_length();
  rules.trainer_model();
  rules.trainer_shards();
  rules.trainer_optimizer();
  rules.trainer_schedule();
  rules.trainer_early_stop();
  rules.trainer_device();
  rules.trainer_allreduce();
  rules.trainer_data_timeout();
}

}  // namespace muster::task_file
