#include "trainer/train_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/run_contract.h"
#include "common/version.h"
#include "trainer/agreement.h"
#include "trainer/checkpointer.h"
#include "trainer/code_identity.h"
#include "trainer/optim/gradient_clipping.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/option_names.h"
#include "trainer/progress_meter.h"
#include "trainer/replica.h"
#include "trainer/shard_runner.h"
#include "trainer/stored_parameters.h"
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
    if (state_.evaluation_due) MUSTER_TRY(conclude({}));
    while (!is_finished()) {
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
    MUSTER_TRY(agree_here(restore()));
    begin_training();
    return {};
  }

  Status load_data() {
    const int ranks = parts_.communicator.size();
    if (options_.shards < ranks) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} is {}, but there are {} ranks; allowed: a power of two, at least the number of ranks",
                  option_name("--shards", "trainer.shards"), options_.shards, ranks);
    }
    MUSTER_ASSIGN(data_, parts_.load_data());
    return {};
  }

  Status build() {
    schedule_.emplace(data_.train->size(), options_.batch_size, options_.seed, options_.shards);
    MUSTER_TRY(count_steps());
    lr_.learning_rate = options_.learning_rate;
    lr_.min_learning_rate = options_.min_learning_rate;
    lr_.warmup_steps = options_.warmup_steps;
    lr_.total_steps = total_steps_;
    lr_.gamma = options_.lr_gamma;
    lr_.step_size = decay_step_size();
    MUSTER_ASSIGN(lr_.kind, optim::parse_lr_schedule_kind(options_.lr_schedule));
    MUSTER_ASSIGN(Replica replica,
                  Replica::create(options_, *data_.train, parts_.device, parts_.communicator));
    replica_ = std::make_unique<Replica>(std::move(replica));
    runner_ =
        std::make_unique<ShardRunner>(parts_.communicator, parts_.device, *replica_,
                                      ShardRunnerOptions{.num_shards = options_.shards,
                                                         .collective_timeout = options_.collective_timeout,
                                                         .prefetch_steps = options_.prefetch,
                                                         .data_timeout = options_.data_timeout});
    state_.rng_seed = options_.seed;
    return {};
  }

  // In optimizer steps; a product that no step number reaches means never.
  std::int64_t decay_step_size() const {
    if (options_.lr_every_epochs == 0) return std::max<std::int64_t>(options_.lr_every_steps, 1);
    const std::int64_t of_an_epoch = data::steps_per_epoch(*schedule_, options_.accumulation_steps);
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    return options_.lr_every_epochs > kNever / of_an_epoch ? kNever : options_.lr_every_epochs * of_an_epoch;
  }

  Status count_steps() {
    if (options_.steps) {
      total_steps_ = *options_.steps;
      return {};
    }
    const std::int64_t of_an_epoch = data::steps_per_epoch(*schedule_, options_.accumulation_steps);
    const std::int64_t epochs_max = std::numeric_limits<std::int64_t>::max() / of_an_epoch;
    if (*options_.epochs > epochs_max) {
      return fail(ErrorCode::kInvalidArgument, "{} is {}; allowed with {} steps an epoch: 1 to {}",
                  option_name("--epochs", "trainer.epochs"), *options_.epochs, of_an_epoch, epochs_max);
    }
    total_steps_ = *options_.epochs * of_an_epoch;
    return {};
  }

  // What must be the same on every rank before the first collective on gradients.
  std::string plan_identity() const {
    const json identity = {{"version", kVersion},
                           {"configuration", to_json(options_)},
                           {"data", data_.train->fingerprint() + data_.test->fingerprint()},
                           {"device", parts_.device.info()},
                           {"buckets", replica_->layout().hash}};
    // Paths need not be UTF-8.
    return identity.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  Status restore() {
    MUSTER_ASSIGN(const bool resumed, resume());
    if (resumed || options_.init_from.empty()) return {};
    const auto found = find_initial_parameters();
    if (!found) {
      return fail(found.error().code, "{}: {}", option_name("--init-from", "trainer.init_from"),
                  found.error().message);
    }
    state_.initial_parameters = {found->path.string(), found->manifest.step, found->manifest_sha256};
    json initialised = to_json(*state_.initial_parameters);
    initialised["event"] = event::kInitialised;
    leader_.emit(initialised);
    return {};
  }

  // Collective; fills the parameters.
  Result<checkpoint::FoundCheckpoint> find_initial_parameters() {
    MUSTER_ASSIGN(checkpoint::FoundCheckpoint found,
                  find_together(parts_.communicator, options_.init_from, agreement_options()));
    MUSTER_TRY(read_parameters(found, parameters_of(replica_->saved_tensors())));
    return found;
  }

  // False: there is nothing to go on with.
  Result<bool> resume() {
    if (parts_.store == nullptr) return false;
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
    policy.now = parts_.now;
    checkpointer_ =
        std::make_unique<Checkpointer>(*parts_.store, leader_, parts_.requested_saves, std::move(context),
                                       replica_->saved_tensors(), std::move(policy));
    MUSTER_ASSIGN(const bool resumed, checkpointer_->restore(state_));
    if (resumed) replica_->optimizer().set_step_count(state_.optimizer_step);
    return resumed;
  }

  void begin_training() {
    runner_->begin_training(data_.train, *schedule_,
                            {.step = state_.step,
                             .total_steps = total_steps_,
                             .epoch = state_.epoch,
                             .batch = state_.batch_in_epoch,
                             .accumulation_steps = options_.accumulation_steps});
  }

  // ---- One step ------------------------------------------------------------------------------------------

  // True: stop now.
  Result<bool> one_step() {
    const StepPosition position{
        state_.step, data::step_batches(*schedule_, state_.batch_in_epoch, options_.accumulation_steps),
        state_.rng_seed, state_.rng_counter};
    if (options_.log_samples) log_samples(position.batches);
    const Requests requests{parts_.stop_signal.load() != 0, checkpointer_ && checkpointer_->asks_for_save(),
                            checkpointer_ && checkpointer_->busy()};
    MUSTER_ASSIGN(const ShardTotals totals, runner_->train_step(position, requests));
    MUSTER_TRY(apply(totals));
    const bool epoch_ended = advance(position.batches);
    report_step(totals);
    state_.evaluation_due =
        state_.step == total_steps_ || (epoch_ended && options_.evaluate_every_epochs > 0 &&
                                        state_.epoch % options_.evaluate_every_epochs == 0);
    return conclude(totals);
  }

  // After a step, or where a stop left an evaluation undone: evaluates and saves if that is due. True: stop
  // now.
  Result<bool> conclude(const ShardTotals& totals) {
    const bool stop = totals.stop && state_.step < total_steps_;
    const bool evaluate_now = state_.evaluation_due && !stop;
    bool is_best = false;
    if (evaluate_now) {
      MUSTER_ASSIGN(is_best, end_of_epoch());
    }
    if (checkpointer_) {
      const SavePoint point{state_, evaluate_now ? accuracy_ : std::nullopt, is_best && options_.keep_best};
      if (stop || is_finished()) {
        MUSTER_TRY(agree_here(checkpointer_->save_last(point, is_finished())));
      } else {
        MUSTER_TRY(checkpointer_->after_step(point, totals.save, totals.saving));
      }
    }
    if (stop) leader_.emit({{"event", event::kStopSeen}, {"step", state_.step}});
    return stop;
  }

  bool is_finished() const { return state_.step >= total_steps_ || stops_early(); }
  bool stops_early() const {
    return state_.step < total_steps_ && should_stop(options_.early_stop, state_.early_stop);
  }

  // Evaluates, and draws the conclusions. True: the best accuracy so far.
  Result<bool> end_of_epoch() {
    MUSTER_TRY(evaluate());
    state_.evaluation_due = false;
    const bool is_best = !state_.best_accuracy || *accuracy_ > *state_.best_accuracy;
    if (is_best) state_.best_accuracy = accuracy_;
    const EarlyStopRule& rule = options_.early_stop;
    if (!rule.armed()) return is_best;
    state_.early_stop =
        judge_evaluation(rule, state_.early_stop, rule.metric == "loss" ? *loss_ : *accuracy_, state_.step);
    if (stops_early()) {
      leader_.emit({{"event", event::kEarlyStop},
                    {"step", state_.step},
                    {"metric", rule.metric},
                    {"best", state_.early_stop.best ? json(*state_.early_stop.best) : json(nullptr)},
                    {"best_step", state_.early_stop.best_step},
                    {"reason", explain(rule, state_.early_stop)}});
    }
    return is_best;
  }

  // The update, or the decision not to make it. Totals are the same bits everywhere, so the decision is too.
  Status apply(const ShardTotals& totals) {
    if (!std::isfinite(totals.loss_sum) || !std::isfinite(totals.gradient_squared_norm))
      return nonfinite(totals);
    const double factor = optim::clip_factor(std::sqrt(totals.gradient_squared_norm), options_.clip_norm);
    if (factor < 1) {
      for (const device::Tensor& bucket : replica_->gradients().flat())
        MUSTER_TRY(parts_.device.scale(bucket, factor));
    }
    MUSTER_TRY(replica_->optimizer().step(optim::learning_rate_at(lr_, state_.step),
                                          replica_->parameters().flat(), replica_->gradients().flat()));
    state_.optimizer_step = replica_->optimizer().step_count();
    return {};
  }

  Status nonfinite(const ShardTotals& totals) {
    MUSTER_ASSIGN(const std::string where, nonfinite_shards());
    const std::string reason = fmt::format(
        "the loss ({}) or the gradient (norm {}) is not finite at step {} (epoch {}, batch {}); {}",
        totals.loss_sum / totals.samples, std::sqrt(totals.gradient_squared_norm), state_.step, state_.epoch,
        state_.batch_in_epoch, where);
    if (options_.on_nonfinite == "skip") {
      leader_.emit({{"event", event::kStepSkipped}, {"step", state_.step}, {"reason", reason}});
      return {};
    }
    return agree_here(fail(
        ErrorCode::kInvalidArgument,
        "{}; all ranks stop here. Lower the learning rate, or skip such steps (on_nonfinite: skip)", reason));
  }

  // Collective, and asked only when something was not finite.
  Result<std::string> nonfinite_shards() {
    const std::string mine = fmt::format("{}", fmt::join(runner_->nonfinite_shards(), ", "));
    MUSTER_ASSIGN(const auto all, comm::all_gather_text(parts_.communicator, mine, agreement_options()));
    std::vector<std::string> found;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty()) found.push_back(fmt::format("shard {} (rank {})", all[rank], rank));
    }
    if (found.empty()) return "each shard's loss is finite";
    return fmt::format("it comes from {}", fmt::join(found, ", "));
  }

  // True at the end of an epoch.
  bool advance(const data::StepBatches& batches) {
    ++state_.step;
    state_.rng_counter += batches.end - batches.begin;
    state_.batch_in_epoch = batches.end;
    evaluated_ = false;
    if (state_.batch_in_epoch < schedule_->batches_per_epoch()) return false;
    state_.batch_in_epoch = 0;
    ++state_.epoch;
    return true;
  }

  // ---- Around a step
  // ---------------------------------------------------------------------------------------

  Status evaluate() {
    MUSTER_ASSIGN(const ShardTotals totals, runner_->evaluate(data_.test, options_.batch_size, state_.step));
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

  void log_samples(const data::StepBatches& batches) {
    for (std::int64_t shard = runner_->shards().begin; shard < runner_->shards().end; ++shard) {
      std::vector<std::int64_t> ids;
      for (std::int64_t batch = batches.begin; batch < batches.end; ++batch) {
        const auto of_batch = schedule_->samples(state_.epoch, batch, static_cast<int>(shard));
        ids.insert(ids.end(), of_batch.begin(), of_batch.end());
      }
      parts_.events.emit({{"event", event::kSamples},
                          {"step", state_.step},
                          {"epoch", state_.epoch},
                          {"shard", shard},
                          {"ids", ids}});
    }
  }

  void report_step(const ShardTotals& totals) {
    const auto rate = meter_.add(static_cast<std::int64_t>(totals.samples), state_.step == total_steps_);
    if (!rate) return;
    leader_.emit({{"event", event::kStep},
                  {"step", state_.step},
                  {"total_steps", total_steps_},
                  {"epoch", state_.epoch},
                  {"loss", totals.loss_sum / totals.samples},
                  {"gradient_norm", std::sqrt(totals.gradient_squared_norm)},
                  {"learning_rate", optim::learning_rate_at(lr_, state_.step - 1)},
                  {"samples_per_s", *rate}});
  }

  TrainOutcome outcome(bool stopped) const {
    return {stopped, state_.step, total_steps_,
            loss_,   accuracy_,   stops_early() ? explain(options_.early_stop, state_.early_stop) : ""};
  }

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
