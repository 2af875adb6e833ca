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
#include "trainer/early_stop.h"

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
  std::string init_from;  // a checkpoint whose parameters a run without one of its own begins with
  // How long, in which portions
  std::int64_t batch_size = 256;        // global
  std::int64_t accumulation_steps = 1;  // batches of one optimizer step
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
  std::int64_t lr_every_steps = 0;   // step: exactly one of these is not 0
  std::int64_t lr_every_epochs = 0;  // …
  double lr_gamma = 0.1;
  double clip_norm = 0.0;  // 0: gradients are not clipped
  // Machine
  std::string precision = "fp32";
  std::string device = "cpu";
  int threads = 1;
  std::string allreduce = "tree";
  bool reproducible = true;
  std::chrono::milliseconds collective_timeout{600000};
  std::chrono::milliseconds peer_timeout{10000};
  std::string on_nonfinite = "stop";
  std::int64_t prefetch = 2;  // steps whose samples are fetched ahead
  std::chrono::milliseconds data_timeout{60000};
  EarlyStopRule early_stop;
  // Output
  std::int64_t evaluate_every_epochs = 1;
  std::int64_t log_every_steps = 10;
  bool log_samples = false;
  std::string run_id;                         // MUSTER_RUN_ID; empty: started by hand
  std::string checkpoint_dir;                 // empty: no checkpoints
  std::int64_t checkpoint_every_steps = 0;    // 0: never by count
  std::int64_t checkpoint_every_seconds = 0;  // 0: never by time
  bool checkpoint_automatic = false;          // the interval follows from how long a save takes
  std::int64_t expected_mtbf_seconds = 0;     // 0: not known
  bool checkpoint_background = true;
  std::chrono::milliseconds checkpoint_timeout{600000};  // of one wait for a save
  int keep_last = 2;
  bool keep_best = true;
};

enum class OptionsOutcome { kRun, kShowHelp, kShowVersion, kListDevices, kCheckOnly };

struct ParsedOptions {
  OptionsOutcome outcome = OptionsOutcome::kRun;
  TrainerOptions options;
};

// All errors of the command line at once, in one message. Reads MUSTER_CHECKPOINT_DIR,
// MUSTER_DATA_DIR and MUSTER_RUN_ID.
Result<ParsedOptions> parse_trainer_options(int argc, const char* const* argv);

std::string trainer_help();

// Everything, resolved: printed at start and stored in checkpoints.
nlohmann::json to_json(const TrainerOptions& options);

// What to_json() gave; what a checkpoint of an older version lacks has its default. kUnavailable, naming it,
// for an option that this version does not know.
Result<TrainerOptions> trainer_options_from_json(nlohmann::json json);

// The keys of to_json(), and "data" (the fingerprint of the training data), that a checkpoint's continuation
// must not change, since stored positions or tensors depend on them. What an older checkpoint does not name
// has its default.
const std::vector<std::string>& fixed_option_names();

}  // namespace muster
