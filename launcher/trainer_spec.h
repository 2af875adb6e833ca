// The `trainer` group of a task file: what muster-train is to do. Every value is resolved: what the file
// leaves out holds its documented default (docs/task_file.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct OptimizerSpec {
  std::string name = "adamw";  // adamw, sgd
  double learning_rate = 0;    // 0.001 for adamw, 0.01 for sgd
  double momentum = 0.9;       // sgd only
  double weight_decay = 0;     // 0.01 for adamw, 0 for sgd
  double beta1 = 0.9;          // adamw only, and the next two
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

struct LearningRateSpec {
  std::string kind = "cosine";  // cosine, step, constant
  std::int64_t warmup_steps = 0;
  double min_learning_rate = 0;   // cosine's end
  std::int64_t every_steps = 0;   // step: exactly one of the two is not 0
  std::int64_t every_epochs = 0;  // …
  double gamma = 0.1;             // step: the factor
};

struct EarlyStopSpec {
  std::string metric = "none";  // never; or of the evaluations: accuracy, loss
  std::int64_t patience = 0;    // evaluations without an improvement; must be given with a metric
  double min_delta = 0;
};

struct AllreduceSpec {
  std::string algorithm = "tree";                  // tree (order-free), ring
  std::chrono::milliseconds timeout{600'000};      // one collective
  std::chrono::milliseconds peer_timeout{10'000};  // without a sign of life
};

struct CheckpointSpec {
  std::int64_t every_steps = 0;                // 0: not by steps
  std::chrono::milliseconds every{30'000};     // whole seconds; 0: not by time
  bool automatic = false;                      // every: auto; `every` is what it begins with
  std::chrono::milliseconds expected_mtbf{0};  // whole seconds; 0: not known; a day with every: auto
  bool background = true;
  std::chrono::milliseconds timeout{600'000};  // one wait for a save
  int keep_last = 2;
  bool keep_best = true;
};

struct TrainerSpec {
  std::string model = "mlp";          // mlp, lenet, logistic
  std::vector<int> hidden{512, 256};  // mlp only, and the next two
  std::string activation = "relu";    // relu, gelu
  bool layer_norm = false;
  double dropout = 0;  // mlp, lenet
  double label_smoothing = 0;
  std::string dataset = "idx";          // idx, hdf5
  std::string init_from;                // a checkpoint whose parameters a new run begins with; empty: none
  std::int64_t batch_size = 256;        // of all ranks together
  std::int64_t accumulation_steps = 1;  // batches of one optimizer step
  std::optional<std::int64_t> epochs;   // exactly one of epochs and steps
  std::optional<std::int64_t> steps;
  std::int64_t seed = 1;
  int shards = 16;
  OptimizerSpec optimizer;
  LearningRateSpec schedule;
  EarlyStopSpec early_stop;
  double clip_norm = 0;            // of the gradient, over all parameters; 0: not clipped
  std::string precision = "fp32";  // fp32, bf16, fp16
  std::string device = "cpu";      // cpu, reference, cuda
  int threads = 1;                 // of each rank
  AllreduceSpec allreduce;
  bool reproducible = true;                        // true by default exactly for the tree
  std::string on_nonfinite = "stop";               // stop, skip
  std::int64_t prefetch = 2;                       // steps whose samples are fetched ahead
  std::chrono::milliseconds data_timeout{60'000};  // for samples; by default at most allreduce.timeout
  std::int64_t evaluate_every_epochs = 1;          // 0: only at the end
  std::int64_t log_every_steps = 10;
  bool log_samples = false;
  CheckpointSpec checkpoint;
};

}  // namespace muster
