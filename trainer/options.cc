#include "trainer/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>

#include "common/run_contract.h"

namespace muster {
namespace {

namespace po = boost::program_options;

std::string environment_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Values as they stand on the command line, before the rules are applied.
struct RawOptions {
  TrainerOptions values;
  std::string hidden = "512,256";
  std::int64_t epochs = 0;  // these count only if they are given
  std::int64_t steps = 0;
  std::int64_t seed = 1;
  std::int64_t collective_timeout_ms = 600000;
  std::int64_t peer_timeout_ms = 10000;
  std::int64_t checkpoint_timeout_ms = 600000;
  std::int64_t data_timeout_ms = 60000;
};

po::options_description describe(RawOptions& raw) {
  TrainerOptions& v = raw.values;
  const auto value = [](auto& target) { return po::value(&target)->default_value(target); };
  po::options_description model("Model and data");
  model.add_options()                                                                                      //
      ("model", value(v.model), "mlp, lenet or logistic")                                                  //
      ("hidden", value(raw.hidden), "mlp: sizes of the hidden layers")                                     //
      ("activation", value(v.activation), "mlp: relu or gelu")                                             //
      ("layer-norm", value(v.layer_norm), "mlp: layer norm between each hidden layer and its activation")  //
      ("dropout", value(v.dropout), "mlp, lenet: drop probability after each hidden layer, in [0, 1)")     //
      ("label-smoothing", value(v.label_smoothing), "of the loss in training, in [0, 1)")                  //
      ("dataset", value(v.dataset), "data format: idx or hdf5")                                            //
      ("data-path", value(v.data_path), "folder of the data (default: $MUSTER_DATA_DIR)")                  //
      ("init-from", value(v.init_from),
       "checkpoint (or folder of them) whose parameters a new run begins with")                     //
      ("batch-size", value(v.batch_size), "global batch size")                                      //
      ("accumulation-steps", value(v.accumulation_steps), "batches whose gradients make one step")  //
      ("epochs", po::value(&raw.epochs), "train this many passes over the data …")                  //
      ("steps", po::value(&raw.steps), "… or this many steps")                                      //
      ("seed", value(raw.seed), "seed of everything random")                                        //
      ("shards", value(v.shards), "virtual shards of a batch: a power of two, at least the number of ranks");
  po::options_description optimizer("Optimizer");
  optimizer.add_options()                                                                             //
      ("optimizer", value(v.optimizer), "adamw or sgd")                                               //
      ("learning-rate", value(v.learning_rate), "peak learning rate")                                 //
      ("momentum", value(v.momentum), "sgd: momentum")                                                //
      ("weight-decay", value(v.weight_decay), "weight decay")                                         //
      ("beta1", value(v.beta1), "adamw: decay of the first moment")                                   //
      ("beta2", value(v.beta2), "adamw: decay of the second moment")                                  //
      ("epsilon", value(v.epsilon), "adamw: added to the denominator")                                //
      ("lr-schedule", value(v.lr_schedule), "after the warm-up: cosine, step or constant")            //
      ("warmup-steps", value(v.warmup_steps), "steps of linear warm-up")                              //
      ("min-learning-rate", value(v.min_learning_rate), "cosine: where it ends")                      //
      ("lr-every-steps", value(v.lr_every_steps), "step: multiplied by gamma every so many steps …")  //
      ("lr-every-epochs", value(v.lr_every_epochs), "… or epochs")                                    //
      ("lr-gamma", value(v.lr_gamma), "step: the factor")                                             //
      ("clip-norm", value(v.clip_norm), "largest global norm of the gradient; 0: not clipped");
  po::options_description machine("Machine");
  machine.add_options()                                                                              //
      ("precision", value(v.precision), "fp32")                                                      //
      ("device", value(v.device), "cpu or reference")                                                //
      ("threads", value(v.threads), "threads of each rank's kernels (decides results bit for bit)")  //
      ("allreduce", value(v.allreduce), "tree (order-free) or ring")                                 //
      ("reproducible", value(v.reproducible),
       "the same bits on any number of ranks; needs --allreduce tree")                                   //
      ("collective-timeout-ms", value(raw.collective_timeout_ms), "longest wait in one collective")      //
      ("peer-timeout-ms", value(raw.peer_timeout_ms), "a rank that is silent for so long is lost")       //
      ("on-nonfinite", value(v.on_nonfinite), "NaN or Inf in loss or gradients: stop or skip the step")  //
      ("prefetch", value(v.prefetch), "steps whose samples are fetched ahead; 0: none")                  //
      ("data-timeout-ms", value(raw.data_timeout_ms), "longest wait for samples");
  po::options_description early("Early stop");
  early.add_options()  //
      ("early-stop-metric", value(v.early_stop.metric),
       "accuracy or loss of the evaluations; none: never stop early")  //
      ("early-stop-patience", value(v.early_stop.patience),
       "evaluations without an improvement that end the run")  //
      ("early-stop-min-delta", value(v.early_stop.min_delta), "an improvement is more than this");
  po::options_description output("Output and checkpoints");
  output.add_options()                                                                     //
      ("evaluate-every-epochs", value(v.evaluate_every_epochs), "0: only at the end")      //
      ("log-every-steps", value(v.log_every_steps), "steps between progress events")       //
      ("log-samples", value(v.log_samples), "send each step's sample ids to the journal")  //
      ("checkpoint-dir", value(v.checkpoint_dir),
       "folder of checkpoints (default: $MUSTER_CHECKPOINT_DIR)")                          //
      ("checkpoint-every-steps", value(v.checkpoint_every_steps), "0: never by count")     //
      ("checkpoint-every-seconds", value(v.checkpoint_every_seconds), "0: never by time")  //
      ("checkpoint-automatic", value(v.checkpoint_automatic),
       "save as often as is worth while (by time); needs --expected-mtbf-seconds")  //
      ("expected-mtbf-seconds", value(v.expected_mtbf_seconds),
       "mean time between failures, for advice on how often to save; 0: not known")  //
      ("checkpoint-background", value(v.checkpoint_background),
       "save while training goes on; 0: training waits")                                            //
      ("checkpoint-timeout-ms", value(raw.checkpoint_timeout_ms), "longest wait for a checkpoint")  //
      ("keep-last", value(v.keep_last), "checkpoints kept")                                         //
      ("keep-best", value(v.keep_best), "also keep the one with the best accuracy");
  po::options_description general("General");
  general.add_options()                                        //
      ("help,h", "show this help")                             //
      ("version", "show versions")                             //
      ("list-devices", "show what this build can compute on")  //
      ("check-options", "check the options, print the resolved configuration, and end");
  po::options_description all(
      "usage: mpirun -np N muster-train OPTIONS\n"
      "       muster-train eval --help, muster-train export --help");
  all.add(model).add(optimizer).add(machine).add(early).add(output).add(general);
  return all;
}

// Collects violations, so that the user sees all of them at once, and knows what each flag allows.
class Rules {
 public:
  void require(bool holds, const std::string& violation) {
    if (!holds) violations_.push_back(violation);
  }
  void one_of(const std::string& flag, const std::string& value, const std::vector<std::string>& allowed) {
    const bool holds = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    check(holds, flag, "'" + value + "'", fmt::format("{}", fmt::join(allowed, ", ")));
  }
  template <class T>
  void range(const std::string& flag, T value, T low, T high) {
    check(value >= low && value <= high, flag, fmt::format("{}", value), fmt::format("{} to {}", low, high));
  }
  void positive(const std::string& flag, double value, double high) {
    check(value > 0 && value <= high, flag, fmt::format("{}", value), fmt::format("above 0, up to {}", high));
  }
  void below_one(const std::string& flag, double value) {
    check(value >= 0 && value < 1, flag, fmt::format("{}", value), "at least 0 and below 1");
  }
  const std::vector<std::string>& violations() const { return violations_; }
  // Empty for a flag that no rule mentions.
  std::string allowed(const std::string& flag) const {
    const auto known = allowed_.find(flag);
    return known == allowed_.end() ? "" : known->second;
  }

 private:
  void check(bool holds, const std::string& flag, const std::string& found, const std::string& allowed) {
    allowed_[flag] = allowed;
    require(holds, fmt::format("--{} is {}; allowed: {}", flag, found, allowed));
  }

  std::vector<std::string> violations_;
  std::map<std::string, std::string> allowed_;
};

void parse_hidden(const std::string& text, std::vector<std::int64_t>& hidden, Rules& rules) {
  hidden.clear();
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    char* end = nullptr;
    const long long size = std::strtoll(item.c_str(), &end, 10);
    if (item.empty() || *end != '\0' || size < 1 || size > 1'000'000) {
      rules.require(false, fmt::format("--hidden has '{}'; allowed: whole numbers from 1 to 1000000", item));
      return;
    }
    hidden.push_back(size);
  }
}

// The ranges are the task file's (launcher/task_spec_trainer.cc).
constexpr std::int64_t kCountMax = 1'000'000'000'000;
constexpr double kRateMax = 1e6;

void apply_model_rules(const RawOptions& raw, const TrainerOptions& v, Rules& rules) {
  rules.one_of("model", v.model, {"mlp", "lenet", "logistic"});
  rules.one_of("activation", v.activation, {"relu", "gelu"});
  rules.range("dropout", v.dropout, 0.0, 0.999);
  rules.below_one("label-smoothing", v.label_smoothing);
  rules.one_of("dataset", v.dataset, {"idx", "hdf5"});
  rules.require(!v.data_path.empty(), "--data-path is missing (or set MUSTER_DATA_DIR)");
  rules.range<std::int64_t>("batch-size", v.batch_size, 1, 1 << 24);
  rules.range<std::int64_t>("accumulation-steps", v.accumulation_steps, 1, 1 << 20);
  rules.require(!v.epochs || !v.steps, "--epochs and --steps exclude each other");
  rules.require(v.epochs || v.steps, "one of --epochs and --steps is needed");
  rules.range<std::int64_t>("epochs", v.epochs.value_or(1), 1, kCountMax);
  rules.range<std::int64_t>("steps", v.steps.value_or(1), 1, kCountMax);
  rules.range<std::int64_t>("seed", raw.seed, 0, std::numeric_limits<std::int64_t>::max());
  rules.require(v.shards >= 1 && v.shards <= 65536 && (v.shards & (v.shards - 1)) == 0,
                fmt::format("--shards is {}; allowed: a power of two from 1 to 65536", v.shards));
}

void apply_learning_rate_rules(const TrainerOptions& v, Rules& rules) {
  rules.one_of("lr-schedule", v.lr_schedule, {"cosine", "step", "constant"});
  rules.range<std::int64_t>("warmup-steps", v.warmup_steps, 0, v.steps.value_or(kCountMax));
  rules.range("min-learning-rate", v.min_learning_rate, 0.0, kRateMax);
  rules.require(!(v.min_learning_rate > v.learning_rate),
                fmt::format("--min-learning-rate is {}; allowed: at most the learning rate, which is {}",
                            v.min_learning_rate, v.learning_rate));
  rules.range<std::int64_t>("lr-every-steps", v.lr_every_steps, 0, kCountMax);
  rules.range<std::int64_t>("lr-every-epochs", v.lr_every_epochs, 0, kCountMax);
  rules.positive("lr-gamma", v.lr_gamma, 1.0);
  const bool has_one = (v.lr_every_steps > 0) != (v.lr_every_epochs > 0);
  const bool has_none = v.lr_every_steps == 0 && v.lr_every_epochs == 0;
  rules.require(
      v.lr_schedule == "step" ? has_one : has_none,
      "--lr-schedule step needs one of --lr-every-steps and --lr-every-epochs; no other schedule has "
      "them");
}

void apply_optimizer_rules(const TrainerOptions& v, Rules& rules) {
  rules.one_of("optimizer", v.optimizer, {"adamw", "sgd"});
  rules.positive("learning-rate", v.learning_rate, kRateMax);
  rules.below_one("momentum", v.momentum);
  rules.range("weight-decay", v.weight_decay, 0.0, kRateMax);
  rules.below_one("beta1", v.beta1);
  rules.below_one("beta2", v.beta2);
  rules.positive("epsilon", v.epsilon, 1.0);
  apply_learning_rate_rules(v, rules);
  rules.range("clip-norm", v.clip_norm, 0.0, kRateMax);
}

void apply_machine_rules(const RawOptions& raw, const TrainerOptions& v, Rules& rules) {
  rules.one_of("precision", v.precision, {"fp32"});
  rules.one_of("device", v.device, {"cpu", "reference", "cuda"});
  rules.range("threads", v.threads, 1, 1024);
  rules.one_of("allreduce", v.allreduce, {"tree", "ring"});
  rules.require(!v.reproducible || v.allreduce == "tree",
                "--reproducible 1 needs --allreduce tree: a ring's sums depend on the number of ranks");
  rules.range<std::int64_t>("collective-timeout-ms", raw.collective_timeout_ms, 1, kCountMax);
  rules.range<std::int64_t>("peer-timeout-ms", raw.peer_timeout_ms, 100, kCountMax);
  rules.one_of("on-nonfinite", v.on_nonfinite, {"stop", "skip"});
  rules.range<std::int64_t>("prefetch", v.prefetch, 0, 1024);
  rules.range<std::int64_t>("data-timeout-ms", raw.data_timeout_ms, 1, kCountMax);
}

void apply_output_rules(const RawOptions& raw, const TrainerOptions& v, Rules& rules) {
  rules.range<std::int64_t>("evaluate-every-epochs", v.evaluate_every_epochs, 0, kCountMax);
  rules.range<std::int64_t>("log-every-steps", v.log_every_steps, 1, kCountMax);
  rules.range<std::int64_t>("checkpoint-every-steps", v.checkpoint_every_steps, 0, kCountMax);
  rules.range<std::int64_t>("checkpoint-every-seconds", v.checkpoint_every_seconds, 0, kCountMax);
  rules.range<std::int64_t>("expected-mtbf-seconds", v.expected_mtbf_seconds, 0, kCountMax);
  rules.require(!v.checkpoint_automatic || (v.expected_mtbf_seconds > 0 && v.checkpoint_every_seconds > 0),
                "--checkpoint-automatic 1 needs --expected-mtbf-seconds, and --checkpoint-every-seconds to "
                "begin with");
  rules.range<std::int64_t>("checkpoint-timeout-ms", raw.checkpoint_timeout_ms, 1, kCountMax);
  rules.range("keep-last", v.keep_last, 1, 1'000'000);
}

void apply_early_stop_rules(const TrainerOptions& v, Rules& rules) {
  rules.one_of("early-stop-metric", v.early_stop.metric, {"none", "accuracy", "loss"});
  rules.range<std::int64_t>("early-stop-patience", v.early_stop.patience, 1, kCountMax);
  rules.range("early-stop-min-delta", v.early_stop.min_delta, 0.0, kRateMax);
  rules.require(!v.early_stop.armed() || v.evaluate_every_epochs > 0,
                "--early-stop-metric needs evaluations; allowed: --evaluate-every-epochs of at least 1");
}

void apply_rules(const RawOptions& raw, const TrainerOptions& v, Rules& rules) {
  apply_model_rules(raw, v, rules);
  apply_optimizer_rules(v, rules);
  apply_machine_rules(raw, v, rules);
  apply_early_stop_rules(v, rules);
  apply_output_rules(raw, v, rules);
}

// An option that the model has no use for was meant for another model.
void apply_rules_of_model(const po::variables_map& variables, const std::string& model, Rules& rules) {
  const auto only_for = [&](const char* flag, std::initializer_list<std::string_view> owners) {
    if (variables[flag].defaulted() || std::find(owners.begin(), owners.end(), model) != owners.end()) return;
    rules.require(false, fmt::format("--{} is given with --model {}, which has none; allowed: only with {}",
                                     flag, model, fmt::join(owners, ", ")));
  };
  only_for("hidden", {"mlp"});
  only_for("activation", {"mlp"});
  only_for("layer-norm", {"mlp"});
  only_for("dropout", {"mlp", "lenet"});
}

// A value that its flag's type cannot hold, in the words of every other violation.
Error bad_value(const po::validation_error& error, const std::string& value) {
  const std::string flag = error.get_option_name().substr(2);
  const RawOptions defaults;
  Rules rules;
  apply_rules(defaults, defaults.values, rules);
  const std::string allowed = rules.allowed(flag);
  if (allowed.empty()) return {ErrorCode::kInvalidArgument, error.what()};
  return {ErrorCode::kInvalidArgument, fmt::format("--{} is '{}'; allowed: {}", flag, value, allowed)};
}

}  // namespace

Result<ParsedOptions> parse_trainer_options(int argc, const char* const* argv) {
  RawOptions raw;
  raw.values.data_path = environment_or_empty(contract::kDataDir);
  raw.values.checkpoint_dir = environment_or_empty(contract::kCheckpointDir);
  raw.values.run_id = environment_or_empty(contract::kRunId);
  const po::options_description description = describe(raw);
  po::variables_map variables;
  std::map<std::string, std::string> texts;  // by flag
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto line =
        po::command_line_parser(argc, argv).options(description).positional({}).style(style).run();
    for (const auto& option : line.options) {
      if (!option.value.empty()) texts["--" + option.string_key] = option.value.front();
    }
    po::store(line, variables);
    po::notify(variables);
  } catch (const po::validation_error& error) {
    return tl::unexpected<Error>(bad_value(error, texts[error.get_option_name()]));
  } catch (const po::error& error) {
    return fail(ErrorCode::kInvalidArgument, "{}; `muster-train --help` lists the options", error.what());
  }
  ParsedOptions parsed;
  if (variables.count("help") != 0) return ParsedOptions{OptionsOutcome::kShowHelp, {}};
  if (variables.count("version") != 0) return ParsedOptions{OptionsOutcome::kShowVersion, {}};
  if (variables.count("list-devices") != 0) return ParsedOptions{OptionsOutcome::kListDevices, {}};
  if (variables.count("check-options") != 0) parsed.outcome = OptionsOutcome::kCheckOnly;

  TrainerOptions& options = raw.values;
  if (variables.count("epochs") != 0) options.epochs = raw.epochs;
  if (variables.count("steps") != 0) options.steps = raw.steps;
  Rules rules;
  parse_hidden(raw.hidden, options.hidden, rules);
  apply_rules(raw, options, rules);
  apply_rules_of_model(variables, options.model, rules);
  if (!rules.violations().empty()) {
    return fail(ErrorCode::kInvalidArgument, "{}", fmt::join(rules.violations(), "\n"));
  }
  options.seed = static_cast<std::uint64_t>(raw.seed);
  options.collective_timeout = std::chrono::milliseconds(raw.collective_timeout_ms);
  options.peer_timeout = std::chrono::milliseconds(raw.peer_timeout_ms);
  options.checkpoint_timeout = std::chrono::milliseconds(raw.checkpoint_timeout_ms);
  options.data_timeout = std::chrono::milliseconds(raw.data_timeout_ms);
  parsed.options = options;
  return parsed;
}

std::string trainer_help() {
  RawOptions raw;
  std::ostringstream out;
  out << describe(raw);
  return out.str();
}

}  // namespace muster
