// muster-train's options: one parse of the command line and the run contract's environment into an immutable
// struct. `muster` passes every value explicitly; the defaults serve those who start muster-train by hand.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace muster {

struct TrainerOptions {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order of reading
  // What is learned
  std::string model = "mlp";
  std::vector<std::int64_t> hidden = {512, 256};
  std::string activation = "relu";
  bool layer_norm = false;
  double dropout = 0.0;
  double label_smoothing = 0.0;
  std::string dataset = "idx";
  std::string data_path;
  // How long, in which portions
  std::int64_t batch_size = 256;  // global
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::uint64_t seed = 1;
  int shards = 16;
  // Optimizer
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string lr_schedule = "cosine";
  std::int64_t warmup_steps = 0;
  double min_learning_rate = 0.0;
  // Machine
  std::string precision = "fp32";
  std::string device = "cpu";
  int threads = 1;
  std::string allreduce = "tree";
  bool reproducible = true;
  std::chrono::milliseconds collective_timeout{600000};
  std::chrono::milliseconds peer_timeout{10000};
  std::string on_nonfinite = "stop";
  // Output
  std::int64_t evaluate_every_epochs = 1;
  std::int64_t log_every_steps = 10;
  bool log_samples = false;
  std::string checkpoint_dir;                 // empty: no checkpoints
  std::int64_t checkpoint_every_steps = 0;    // 0: never by count
  std::int64_t checkpoint_every_seconds = 0;  // 0: never by time
  int keep_last = 2;
  bool keep_best = true;
};

enum class OptionsOutcome { kRun, kShowHelp, kShowVersion, kListDevices, kCheckOnly };

struct ParsedOptions {
  OptionsOutcome outcome = OptionsOutcome::kRun;
  TrainerOptions options;
};

// All errors of the command line at once, in one message. Reads MUSTER_CHECKPOINT_DIR and MUSTER_DATA_DIR.
Result<ParsedOptions> parse_trainer_options(int argc, const char* const* argv);

std::string trainer_help();

// Everything, resolved: printed at start and stored in checkpoints.
nlohmann::json to_json(const TrainerOptions& options);

// The keys of to_json(), and "data" (the fingerprint of the training data), that a checkpoint's continuation
// must not change, since stored positions or tensors depend on them.
const std::vector<std::string>& fixed_option_names();

}  // namespace muster
