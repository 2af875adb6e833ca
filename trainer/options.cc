#include "trainer/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
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
  std::int64_t epochs = -1;
  std::int64_t steps = -1;
  std::int64_t collective_timeout_ms = 600000;
  std::int64_t peer_timeout_ms = 10000;
  std::int64_t checkpoint_timeout_ms = 600000;
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
      ("dataset", value(v.dataset), "data format: idx")                                                    //
      ("data-path", value(v.data_path), "folder of the data (default: $MUSTER_DATA_DIR)")                  //
      ("batch-size", value(v.batch_size), "global batch size")                                             //
      ("epochs", po::value(&raw.epochs), "train this many passes over the data …")                         //
      ("steps", po::value(&raw.steps), "… or this many steps")                                             //
      ("seed", value(v.seed), "seed of everything random")                                                 //
      ("shards", value(v.shards), "virtual shards of a batch: a power of two, at least the number of ranks");
  po::options_description optimizer("Optimizer");
  optimizer.add_options()                                                             //
      ("optimizer", value(v.optimizer), "adamw or sgd")                               //
      ("learning-rate", value(v.learning_rate), "peak learning rate")                 //
      ("momentum", value(v.momentum), "sgd: momentum")                                //
      ("weight-decay", value(v.weight_decay), "weight decay")                         //
      ("beta1", value(v.beta1), "adamw: decay of the first moment")                   //
      ("beta2", value(v.beta2), "adamw: decay of the second moment")                  //
      ("epsilon", value(v.epsilon), "adamw: added to the denominator")                //
      ("lr-schedule", value(v.lr_schedule), "after the warm-up: cosine or constant")  //
      ("warmup-steps", value(v.warmup_steps), "steps of linear warm-up")              //
      ("min-learning-rate", value(v.min_learning_rate), "cosine: where it ends");
  po::options_description machine("Machine");
  machine.add_options()                                                                              //
      ("precision", value(v.precision), "fp32")                                                      //
      ("device", value(v.device), "cpu or reference")                                                //
      ("threads", value(v.threads), "threads of each rank's kernels (decides results bit for bit)")  //
      ("allreduce", value(v.allreduce), "tree (order-free) or ring")                                 //
      ("reproducible", value(v.reproducible),
       "the same bits on any number of ranks; needs --allreduce tree")                               //
      ("collective-timeout-ms", value(raw.collective_timeout_ms), "longest wait in one collective")  //
      ("peer-timeout-ms", value(raw.peer_timeout_ms), "a rank that is silent for so long is lost")   //
      ("on-nonfinite", value(v.on_nonfinite), "NaN or Inf in loss or gradients: stop or skip the step");
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
  po::options_description all("usage: mpirun -np N muster-train OPTIONS");
  all.add(model).add(optimizer).add(machine).add(output).add(general);
  return all;
}

// Collects violations, so that the user sees all of them at once.
class Rules {
 public:
  void require(bool holds, const std::string& violation) {
    if (!holds) violations_.push_back(violation);
  }
  void one_of(const char* flag, const std::string& value, const std::vector<std::string>& allowed) {
    for (const std::string& candidate : allowed) {
      if (value == candidate) return;
    }
    violations_.push_back(fmt::format("--{} is '{}'; allowed: {}", flag, value, fmt::join(allowed, ", ")));
  }
  template <class T>
  void range(const char* flag, T value, T low, T high) {
    if (!(value >= low && value <= high)) {
      violations_.push_back(fmt::format("--{} is {}; allowed: {} to {}", flag, value, low, high));
    }
  }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  std::vector<std::string> violations_;
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

void apply_rules(const RawOptions& raw, const TrainerOptions& v, Rules& rules) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  constexpr double kLarge = 1e6;
  rules.one_of("model", v.model, {"mlp", "lenet", "logistic"});
  rules.one_of("activation", v.activation, {"relu", "gelu"});
  rules.range("dropout", v.dropout, 0.0, 0.999);
  rules.require(v.label_smoothing >= 0 && v.label_smoothing < 1,
                fmt::format("--label-smoothing is {}; allowed: [0, 1)", v.label_smoothing));
  rules.one_of("dataset", v.dataset, {"idx"});
  rules.require(!v.data_path.empty(), "--data-path is missing (or set MUSTER_DATA_DIR)");
  rules.range<std::int64_t>("batch-size", v.batch_size, 1, 1 << 24);
  rules.require(raw.epochs == -1 || raw.steps == -1, "--epochs and --steps exclude each other");
  rules.require(raw.epochs != -1 || raw.steps != -1, "one of --epochs and --steps is needed");
  if (raw.epochs != -1) rules.range<std::int64_t>("epochs", raw.epochs, 1, kMany);
  if (raw.steps != -1) rules.range<std::int64_t>("steps", raw.steps, 1, kMany);
  rules.require(v.shards >= 1 && v.shards <= 65536 && (v.shards & (v.shards - 1)) == 0,
                fmt::format("--shards is {}; allowed: a power of two from 1 to 65536", v.shards));
  rules.one_of("optimizer", v.optimizer, {"adamw", "sgd"});
  rules.range("learning-rate", v.learning_rate, 0.0, kLarge);
  rules.range("momentum", v.momentum, 0.0, 1.0);
  rules.range("weight-decay", v.weight_decay, 0.0, kLarge);
  rules.require(v.beta1 >= 0 && v.beta1 < 1, fmt::format("--beta1 is {}; allowed: [0, 1)", v.beta1));
  rules.require(v.beta2 >= 0 && v.beta2 < 1, fmt::format("--beta2 is {}; allowed: [0, 1)", v.beta2));
  rules.range("epsilon", v.epsilon, 0.0, 1.0);
  rules.one_of("lr-schedule", v.lr_schedule, {"cosine", "constant"});
  rules.range<std::int64_t>("warmup-steps", v.warmup_steps, 0, kMany);
  rules.range("min-learning-rate", v.min_learning_rate, 0.0, kLarge);
  rules.one_of("precision", v.precision, {"fp32"});
  rules.one_of("device", v.device, {"cpu", "reference", "cuda"});
  rules.range("threads", v.threads, 1, 1024);
  rules.one_of("allreduce", v.allreduce, {"tree", "ring"});
  rules.require(!v.reproducible || v.allreduce == "tree",
                "--reproducible 1 needs --allreduce tree: a ring's sums depend on the number of ranks");
  rules.range<std::int64_t>("collective-timeout-ms", raw.collective_timeout_ms, 1, kMany);
  rules.range<std::int64_t>("peer-timeout-ms", raw.peer_timeout_ms, 100, kMany);
  rules.one_of("on-nonfinite", v.on_nonfinite, {"stop", "skip"});
  rules.range<std::int64_t>("evaluate-every-epochs", v.evaluate_every_epochs, 0, kMany);
  rules.range<std::int64_t>("log-every-steps", v.log_every_steps, 1, kMany);
  rules.range<std::int64_t>("checkpoint-every-steps", v.checkpoint_every_steps, 0, kMany);
  rules.range<std::int64_t>("checkpoint-every-seconds", v.checkpoint_every_seconds, 0, kMany);
  rules.range<std::int64_t>("expected-mtbf-seconds", v.expected_mtbf_seconds, 0, kMany);
  rules.require(!v.checkpoint_automatic || (v.expected_mtbf_seconds > 0 && v.checkpoint_every_seconds > 0),
                "--checkpoint-automatic 1 needs --expected-mtbf-seconds, and --checkpoint-every-seconds to "
                "begin with");
  rules.range<std::int64_t>("checkpoint-timeout-ms", raw.checkpoint_timeout_ms, 1, kMany);
  rules.range("keep-last", v.keep_last, 1, 1'000'000);
}

// An option that the model has no use for was meant for another model.
void apply_model_rules(const po::variables_map& variables, const std::string& model, Rules& rules) {
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

}  // namespace

Result<ParsedOptions> parse_trainer_options(int argc, const char* const* argv) {
  RawOptions raw;
  raw.values.data_path = environment_or_empty(contract::kDataDir);
  raw.values.checkpoint_dir = environment_or_empty(contract::kCheckpointDir);
  const po::options_description description = describe(raw);
  po::variables_map variables;
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(argc, argv).options(description).positional({}).style(style).run(),
              variables);
    po::notify(variables);
  } catch (const po::error& error) {
    return fail(ErrorCode::kInvalidArgument, "{}; `muster-train --help` lists the options", error.what());
  }
  ParsedOptions parsed;
  if (variables.count("help") != 0) return ParsedOptions{OptionsOutcome::kShowHelp, {}};
  if (variables.count("version") != 0) return ParsedOptions{OptionsOutcome::kShowVersion, {}};
  if (variables.count("list-devices") != 0) return ParsedOptions{OptionsOutcome::kListDevices, {}};
  if (variables.count("check-options") != 0) parsed.outcome = OptionsOutcome::kCheckOnly;

  TrainerOptions& options = raw.values;
  Rules rules;
  parse_hidden(raw.hidden, options.hidden, rules);
  apply_rules(raw, options, rules);
  apply_model_rules(variables, options.model, rules);
  if (!rules.violations().empty()) {
    return fail(ErrorCode::kInvalidArgument, "{}", fmt::join(rules.violations(), "\n"));
  }
  if (raw.epochs != -1) options.epochs = raw.epochs;
  if (raw.steps != -1) options.steps = raw.steps;
  options.collective_timeout = std::chrono::milliseconds(raw.collective_timeout_ms);
  options.peer_timeout = std::chrono::milliseconds(raw.peer_timeout_ms);
  options.checkpoint_timeout = std::chrono::milliseconds(raw.checkpoint_timeout_ms);
  parsed.options = options;
  return parsed;
}

std::string trainer_help() {
  RawOptions raw;
  std::ostringstream out;
  out << describe(raw);
  return out.str();
}

nlohmann::json to_json(const TrainerOptions& o) {
  nlohmann::json json = {
      {"model", o.model},
      {"hidden", o.hidden},
      {"activation", o.activation},
      {"layer_norm", o.layer_norm},
      {"dropout", o.dropout},
      {"label_smoothing", o.label_smoothing},
      {"dataset", o.dataset},
      {"data_path", o.data_path},
      {"batch_size", o.batch_size},
      {"seed", o.seed},
      {"shards", o.shards},
      {"optimizer", o.optimizer},
      {"learning_rate", o.learning_rate},
      {"momentum", o.momentum},
      {"weight_decay", o.weight_decay},
      {"beta1", o.beta1},
      {"beta2", o.beta2},
      {"epsilon", o.epsilon},
      {"lr_schedule", o.lr_schedule},
      {"warmup_steps", o.warmup_steps},
      {"min_learning_rate", o.min_learning_rate},
      {"precision", o.precision},
      {"device", o.device},
      {"threads", o.threads},
      {"allreduce", o.allreduce},
      {"reproducible", o.reproducible},
      {"collective_timeout_ms", o.collective_timeout.count()},
      {"peer_timeout_ms", o.peer_timeout.count()},
      {"on_nonfinite", o.on_nonfinite},
      {"evaluate_every_epochs", o.evaluate_every_epochs},
      {"log_every_steps", o.log_every_steps},
      {"log_samples", o.log_samples},
      {"checkpoint_dir", o.checkpoint_dir},
      {"checkpoint_every_steps", o.checkpoint_every_steps},
      {"checkpoint_every_seconds", o.checkpoint_every_seconds},
      {"checkpoint_automatic", o.checkpoint_automatic},
      {"expected_mtbf_seconds", o.expected_mtbf_seconds},
      {"checkpoint_background", o.checkpoint_background},
      {"checkpoint_timeout_ms", o.checkpoint_timeout.count()},
      {"keep_last", o.keep_last},
      {"keep_best", o.keep_best},
  };
  if (o.epochs) json["epochs"] = *o.epochs;
  if (o.steps) json["steps"] = *o.steps;
  return json;
}

const std::vector<std::string>& fixed_option_names() {
  static const std::vector<std::string> names = {"data",       "model",    "hidden",     "activation",
                                                 "layer_norm", "dataset",  "batch_size", "seed",
                                                 "shards",     "optimizer"};
  return names;
}

}  // namespace muster
