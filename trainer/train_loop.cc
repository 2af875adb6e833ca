#include "trainer/train_loop.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "common/run_contract.h"
#include "common/version.h"
#include "trainer/agreement.h"
#include "trainer/checkpointer.h"
#include "trainer/code_identity.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/progress_meter.h"
#include "trainer/replica.h"
#include "trainer/shard_runner.h"
#include "trainer/training_state.h"

namespace muster {
namespace {

namespace event = contract::event;
using nlohmann::json;

class NullSink final : public EventSink {
 public:
  void emit(const json&) override {}
};

class TrainLoop {
 public:
  TrainLoop(const TrainerOptions& options, TrainerParts& parts)
      : options_(options),
        parts_(parts),
        leader_(parts.communicator.rank() == 0 ? parts.events : nobody_),
        meter_(options.log_every_steps) {}

  Result<TrainOutcome> run() {
    MUSTER_TRY(prepare());
    while (state_.step < total_steps_) {
      MUSTER_ASSIGN(const bool stop, one_step());
      if (stop) return outcome(true);
    }
    if (!evaluated_) MUSTER_TRY(evaluate());
    return outcome(false);
  }

 private:
  comm::CollectiveOptions agreement_options() const {
    comm::CollectiveOptions options;
    options.step = state_.step;
    options.bucket = -3;
    options.timeout = options_.collective_timeout;
    return options;
  }

  Status agree_here(const Status& mine) { return agree(parts_.communicator, mine, agreement_options()); }

  // ---- Start ---------------------------------------------------------------------------------------------

  Status prepare() {
    MUSTER_TRY(agree_here(load_data()));
    MUSTER_TRY(agree_here(build()));
    MUSTER_TRY(require_equal(parts_.communicator, "what the ranks are about to train", plan_identity(),
                             agreement_options()));
    leader_.emit({{"event", event::kConfiguration},
                  {"configuration", to_json(options_)},
                  {"code", code_identity(parts_.device)},
                  {"world_size", parts_.communicator.size()},
                  {"communicator", parts_.communicator.name()},
                  {"total_steps", total_steps_}});
    return agree_here(restore());
  }

  Status load_data() {
    const int ranks = parts_.communicator.size();
    if (options_.shards < ranks) {
      return fail(
          ErrorCode::kInvalidArgument,
          "--shards is {}, but there are {} ranks; allowed: a power of two, at least the number of ranks",
          options_.shards, ranks);
    }
    MUSTER_ASSIGN(data_, parts_.load_data());
    return {};
  }

  Status build() {
    schedule_.emplace(data_.train->size(), options_.batch_size, options_.seed, options_.shards);
    total_steps_ = options_.steps ? *options_.steps : *options_.epochs * schedule_->steps_per_epoch();
    lr_.learning_rate = options_.learning_rate;
    lr_.min_learning_rate = options_.min_learning_rate;
    lr_.warmup_steps = options_.warmup_steps;
    lr_.total_steps = total_steps_;
    MUSTER_ASSIGN(lr_.kind, optim::parse_lr_schedule_kind(options_.lr_schedule));
    MUSTER_ASSIGN(Replica replica,
                  Replica::create(options_, *data_.train, parts_.device, parts_.communicator));
    replica_ = std::make_unique<Replica>(std::move(replica));
    runner_ = std::make_unique<ShardRunner>(parts_.communicator, parts_.device, *replica_, options_.shards,
                                            options_.collective_timeout);
    state_.rng_seed = options_.seed;
    return {};
  }

  // What must be the same on every rank before the first collective on gradients.
  std::string plan_identity() const {
    const json identity = {{"version", kVersion},
                           {"configuration", to_json(options_)},
                           {"data", data_.train->fingerprint() + data_.test->fingerprint()},
                           {"device", parts_.device.info()},
                           {"buckets", replica_->layout().hash}};
    return identity.dump();
  }

  Status restore() {
    if (parts_.store == nullptr) return {};
    CheckpointContext context;
    context.rank = parts_.communicator.rank();
    context.world_size = parts_.communicator.size();
    context.generation = parts_.communicator.generation();
    context.configuration = to_json(options_);
    context.configuration["data"] = data_.train->fingerprint();
    context.code = code_identity(parts_.device);
    SavePolicy policy;
    policy.every_steps = options_.checkpoint_every_steps;
    policy.every = std::chrono::seconds(options_.checkpoint_every_seconds);
    policy.background = options_.checkpoint_background;
    policy.timeout = options_.checkpoint_timeout;
    policy.expected_mtbf = std::chrono::seconds(options_.expected_mtbf_seconds);
    policy.automatic = options_.checkpoint_automatic;
    checkpointer_ = std::make_unique<Checkpointer>(*parts_.store, leader_, parts_.requested_saves,
                                                   std::move(context), replica_->saved_tensors(), policy);
    MUSTER_ASSIGN(const bool resumed, checkpointer_->restore(state_));
    if (resumed) replica_->optimizer().set_step_count(state_.optimizer_step);
    return {};
  }

  // ---- One step ------------------------------------------------------------------------------------------

  // True: stop now.
  Result<bool> one_step() {
    const BatchPosition position{state_.step, state_.epoch, state_.batch_in_epoch, state_.rng_seed,
                                 state_.rng_counter};
    if (options_.log_samples) log_samples();
    const Requests requests{parts_.stop_signal.load() != 0, checkpointer_ && checkpointer_->asks_for_save(),
                            checkpointer_ && checkpointer_->busy()};
    MUSTER_ASSIGN(const BatchTotals totals,
                  runner_->train_batch(*data_.train, *schedule_, position, requests));
    MUSTER_TRY(apply(totals));
    const bool epoch_ended = advance();
    report_step(totals);

    const bool finished = state_.step == total_steps_;
    const bool stop = totals.stop && !finished;
    const bool evaluate_now = !stop && (finished || (epoch_ended && options_.evaluate_every_epochs > 0 &&
                                                     state_.epoch % options_.evaluate_every_epochs == 0));
    bool is_best = false;
    if (evaluate_now) {
      MUSTER_TRY(evaluate());
      is_best = !state_.best_accuracy || *accuracy_ > *state_.best_accuracy;
      if (is_best) state_.best_accuracy = accuracy_;
    }
    if (checkpointer_) {
      const SavePoint point{state_, evaluate_now ? accuracy_ : std::nullopt, is_best && options_.keep_best};
      if (stop || finished) {
        MUSTER_TRY(agree_here(checkpointer_->save_last(point, finished)));
      } else {
        MUSTER_TRY(checkpointer_->after_step(point, totals.save, totals.saving));
      }
    }
    if (stop) leader_.emit({{"event", event::kStopSeen}, {"step", state_.step}});
    return stop;
  }

  // The update, or the decision not to make it. Totals are the same bits everywhere, so the decision is too.
  Status apply(const BatchTotals& totals) {
    bool finite = std::isfinite(totals.loss_sum);
    for (const device::Tensor& bucket : replica_->gradients().flat()) {
      MUSTER_ASSIGN(const double norm, parts_.device.squared_norm(bucket));
      finite = finite && std::isfinite(norm);
    }
    if (!finite) return nonfinite(totals);
    MUSTER_TRY(replica_->optimizer().step(optim::learning_rate_at(lr_, state_.step),
                                          replica_->parameters().flat(), replica_->gradients().flat()));
    state_.optimizer_step = replica_->optimizer().step_count();
    return {};
  }

  Status nonfinite(const BatchTotals& totals) {
    const std::string reason =
        fmt::format("loss {} or its gradients are not finite at step {} (epoch {}, batch {})",
                    totals.loss_sum / totals.samples, state_.step, state_.epoch, state_.batch_in_epoch);
    if (options_.on_nonfinite == "skip") {
      leader_.emit({{"event", event::kStepSkipped}, {"step", state_.step}, {"reason", reason}});
      return {};
    }
    return agree_here(fail(
        ErrorCode::kInvalidArgument,
        "{}; all ranks stop here. Lower the learning rate, or skip such steps (on_nonfinite: skip)", reason));
  }

  // True at the end of an epoch.
  bool advance() {
    ++state_.step;
    ++state_.rng_counter;
    ++state_.batch_in_epoch;
    evaluated_ = false;
    if (state_.batch_in_epoch < schedule_->steps_per_epoch()) return false;
    state_.batch_in_epoch = 0;
    ++state_.epoch;
    return true;
  }

  // ---- Around a step
  // ---------------------------------------------------------------------------------------

  Status evaluate() {
    MUSTER_ASSIGN(const BatchTotals totals, runner_->evaluate(*data_.test, options_.batch_size, state_.step));
    loss_ = totals.loss_sum / totals.samples;
    accuracy_ = totals.correct / totals.samples;
    evaluated_ = true;
    leader_.emit({{"event", event::kEvaluation},
                  {"step", state_.step},
                  {"epoch", state_.epoch},
                  {"loss", *loss_},
                  {"accuracy", *accuracy_},
                  {"samples", static_cast<std::int64_t>(totals.samples)}});
    return {};
  }

  void log_samples() {
    for (std::int64_t shard = runner_->shards().begin; shard < runner_->shards().end; ++shard) {
      const auto ids = schedule_->samples(state_.epoch, state_.batch_in_epoch, static_cast<int>(shard));
      parts_.events.emit({{"event", event::kSamples},
                          {"step", state_.step},
                          {"epoch", state_.epoch},
                          {"shard", shard},
                          {"ids", std::vector<std::int64_t>(ids.begin(), ids.end())}});
    }
  }

  void report_step(const BatchTotals& totals) {
    const auto rate = meter_.add(static_cast<std::int64_t>(totals.samples), state_.step == total_steps_);
    if (!rate) return;
    leader_.emit({{"event", event::kStep},
                  {"step", state_.step},
                  {"total_steps", total_steps_},
                  {"epoch", state_.epoch},
                  {"loss", totals.loss_sum / totals.samples},
                  {"learning_rate", optim::learning_rate_at(lr_, state_.step - 1)},
                  {"samples_per_s", *rate}});
  }

  TrainOutcome outcome(bool stopped) const { return {stopped, state_.step, total_steps_, loss_, accuracy_}; }

  const TrainerOptions& options_;
  TrainerParts& parts_;
  NullSink nobody_;
  EventSink& leader_;  // rank 0's events; nobody's elsewhere
  ProgressMeter meter_;
  data::DatasetPair data_;
  std::optional<data::BatchSchedule> schedule_;
  optim::LrSchedule lr_;
  std::int64_t total_steps_ = 0;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<ShardRunner> runner_;
  std::unique_ptr<Checkpointer> checkpointer_;
  TrainingState state_;
  std::optional<double> loss_;
  std::optional<double> accuracy_;
  bool evaluated_ = false;  // loss_ and accuracy_ belong to the present parameters
};

}  // namespace

Result<TrainOutcome> train(const TrainerOptions& options, TrainerParts parts) {
  return TrainLoop(options, parts).run();
}

}  // namespace muster
