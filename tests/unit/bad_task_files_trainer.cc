// Task files with errors: the trainer group, and the rules between keys.
#include "tests/unit/bad_task_files.h"

namespace muster::testing {

namespace {

const std::string kHead = "task_name: t\nentry_point: prog\n";
const std::string kTrainer =
    "task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer:\n  epochs: 1\n";
const std::string kPaths = "an absolute path, or one that begins with ${TASK_DIR} or ${HOME}";
const std::string kLayers = "a list of 1 to 64 layer sizes, each a whole number from 1 to 1000000";
const std::string kRates = "a number greater than 0, up to 1000000";

}  // namespace

std::vector<BadTaskFile> bad_trainers() {
  return {
      {"TrainerWithAnotherProgram", kHead + "trainer: {epochs: 1}\n",
       "3:1: trainer: found settings of muster-train; allowed: only with entry_point: muster-train"},
      {"TrainerIsNothing", "task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer:\n",
       "4:1: trainer: found neither epochs nor steps; allowed: exactly one of the two"},
      {"TrainerIsAText", "task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer: mlp\n",
       "4:10: trainer: found 'mlp'; allowed: a group of keys"},
      {"TrainerWithoutData", "task_name: t\nentry_point: muster-train\ntrainer: {steps: 5}\n",
       "2:1: data_path: the key is missing; allowed: " + kPaths + " (muster-train reads its data there)"},
      {"NoTrainerGroup", "task_name: t\nentry_point: muster-train\ndata_path: /d\n",
       "2:1: trainer: found neither epochs nor steps; allowed: exactly one of the two"},
      {"EpochsAndSteps", kTrainer + "  steps: 10\n",
       "6:3: trainer.steps: found beside trainer.epochs; allowed: exactly one of the two"},
      {"EpochsIsZero", "task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer: {epochs: 0}\n",
       "4:19: trainer.epochs: found '0'; allowed: a whole number from 1 to 1000000000000"},
      {"UnknownModel", kTrainer + "  model: mpl\n",
       "6:10: trainer.model: found 'mpl'; allowed: mlp, lenet, logistic; did you mean 'mlp'?"},
      {"HiddenWithLenet", kTrainer + "  model: lenet\n  hidden: [512]\n",
       "7:3: trainer.hidden: found beside model lenet, which has none; allowed: only with mlp"},
      {"DropoutWithLogistic", kTrainer + "  model: logistic\n  dropout: 0.1\n",
       "7:3: trainer.dropout: found beside model logistic, which has none; allowed: only with mlp, lenet"},
      {"LayerNormAndActivationWithLogistic",
       kTrainer + "  model: logistic\n  layer_norm: true\n  activation: gelu\n",
       "7:3: trainer.layer_norm: found beside model logistic, which has none; allowed: only with mlp\n"
       "8:3: trainer.activation: found beside model logistic, which has none; allowed: only with mlp"},
      {"UnknownActivation", kTrainer + "  activation: gleu\n",
       "6:15: trainer.activation: found 'gleu'; allowed: relu, gelu; did you mean 'gelu'?"},
      {"LayerNormIsANumber", kTrainer + "  layer_norm: 1\n",
       "6:15: trainer.layer_norm: found '1'; allowed: true or false"},
      {"LabelSmoothingIsOne", kTrainer + "  label_smoothing: 1\n",
       "6:20: trainer.label_smoothing: found '1'; allowed: a number of at least 0 and less than 1"},
      {"UnknownDataset", kTrainer + "  dataset: imagenet\n",
       "6:12: trainer.dataset: found 'imagenet'; allowed: idx, hdf5"},
      {"InitFromIsRelative", kTrainer + "  init_from: runs/other\n",
       "6:14: trainer.init_from: found the relative path 'runs/other'; allowed: " + kPaths},
      {"BatchSizeIsZero", kTrainer + "  batch_size: 0\n",
       "6:15: trainer.batch_size: found '0'; allowed: a whole number from 1 to 16777216"},
      {"HiddenIsANumber", kTrainer + "  hidden: 512\n",
       "6:11: trainer.hidden: found '512'; allowed: " + kLayers},
      {"HiddenIsEmpty", kTrainer + "  hidden: []\n",
       "6:11: trainer.hidden: found an empty list; allowed: " + kLayers},
      {"HiddenHoldsZero", kTrainer + "  hidden: [512, 0]\n",
       "6:17: trainer.hidden: found '0'; allowed: " + kLayers},
      {"DropoutIsOne", kTrainer + "  dropout: 1\n",
       "6:12: trainer.dropout: found '1'; allowed: a number from 0 to 0.999"},
      {"DropoutIsNan", kTrainer + "  dropout: .nan\n",
       "6:12: trainer.dropout: found '.nan'; allowed: a number from 0 to 0.999"},
      {"DropoutIsNanInC", kTrainer + "  dropout: nan\n",
       "6:12: trainer.dropout: found 'nan'; allowed: a number from 0 to 0.999"},
      {"SeedIsNegative", kTrainer + "  seed: -1\n",
       "6:9: trainer.seed: found '-1'; allowed: a whole number from 0 to 9223372036854775807"},
      {"SeedOverflows", kTrainer + "  seed: 18446744073709551616\n",
       "6:9: trainer.seed: found '18446744073709551616'; allowed: a whole number from 0 to "
       "9223372036854775807"},
      {"ShardsNoPowerOfTwo", kTrainer + "  shards: 12\n",
       "6:3: trainer.shards: found 12; allowed: a power of two, such as 16"},
      {"ShardsFewerThanRanks", kTrainer + "  shards: 4\nnum_workers: 3\nranks_per_worker: 2\n",
       "6:3: trainer.shards: found 4 for 6 ranks (3 workers of 2); allowed: a power of two, at least the "
       "number of ranks"},
      {"ShardsFewerThanMaxWorkers", kTrainer + "  shards: 4\nnum_workers: 2\nschedule: {max_workers: 8}\n",
       "6:3: trainer.shards: found 4 for 8 ranks (8 workers of 1); allowed: a power of two, at least the "
       "number of ranks"},
      {"DefaultShardsFewerThanRanks", kTrainer + "num_workers: 17\n",
       "6:1: trainer.shards: found 16 for 17 ranks (17 workers of 1); allowed: a power of two, at least the "
       "number of ranks"},
      {"UnknownOptimizer", kTrainer + "  optimizer: {name: adam}\n",
       "6:21: trainer.optimizer.name: found 'adam'; allowed: adamw, sgd; did you mean 'adamw'?"},
      {"OptimizerIsAText", kTrainer + "  optimizer: sgd\n",
       "6:14: trainer.optimizer: found 'sgd'; allowed: a group of keys"},
      {"LearningRateIsZero", kTrainer + "  optimizer: {learning_rate: 0}\n",
       "6:30: trainer.optimizer.learning_rate: found '0'; allowed: " + kRates},
      {"LearningRateIsInfinite", kTrainer + "  optimizer: {learning_rate: inf}\n",
       "6:30: trainer.optimizer.learning_rate: found 'inf'; allowed: " + kRates},
      {"LearningRateOverflows", kTrainer + "  optimizer: {learning_rate: 1e999}\n",
       "6:30: trainer.optimizer.learning_rate: found '1e999'; allowed: " + kRates},
      {"LearningRateInQuotes", kTrainer + "  optimizer: {learning_rate: \"0.1\"}\n",
       "6:30: trainer.optimizer.learning_rate: found the quoted text '0.1'; allowed: " + kRates},
      {"NegativeWeightDecay", kTrainer + "  optimizer: {weight_decay: -0.1}\n",
       "6:29: trainer.optimizer.weight_decay: found '-0.1'; allowed: a number from 0 to 1000000"},
      {"MomentumWithAdamw", kTrainer + "  optimizer: {momentum: 0.9}\n",
       "6:15: trainer.optimizer.momentum: found beside optimizer adamw, which has none; allowed: only with "
       "sgd"},
      {"BetaWithSgd", kTrainer + "  optimizer: {name: sgd, beta1: 0.9}\n",
       "6:26: trainer.optimizer.beta1: found beside optimizer sgd, which has none; allowed: only with adamw"},
      {"BetaIsOne", kTrainer + "  optimizer: {beta2: 1.0}\n",
       "6:22: trainer.optimizer.beta2: found '1.0'; allowed: a number of at least 0 and less than 1"},
      {"WarmupLongerThanTheRun",
       "task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer:\n  steps: 10\n  schedule: "
       "{warmup_steps: 11}\n",
       "6:14: trainer.schedule.warmup_steps: found 11; allowed: at most trainer.steps, which is 10"},
      {"UnknownSchedule", kTrainer + "  schedule: {kind: cosin}\n",
       "6:20: trainer.schedule.kind: found 'cosin'; allowed: cosine, step, constant; did you mean 'cosine'?"},
      {"MinLearningRateWithConstant", kTrainer + "  schedule: {kind: constant, min_learning_rate: 0.1}\n",
       "6:30: trainer.schedule.min_learning_rate: found beside schedule kind constant, which has none; "
       "allowed: only with cosine"},
      {"StepScheduleWithoutLength", kTrainer + "  schedule: {kind: step}\n",
       "6:14: trainer.schedule: found neither every_steps nor every_epochs; allowed with kind step: exactly "
       "one of every_steps and every_epochs"},
      {"StepScheduleWithTwoLengths", kTrainer + "  schedule: {kind: step, every_steps: 3, every_epochs: 1}\n",
       "6:42: trainer.schedule: found both every_steps and every_epochs; allowed with kind step: exactly one "
       "of every_steps and every_epochs"},
      {"StepLengthWithCosine", kTrainer + "  schedule: {every_steps: 3}\n",
       "6:14: trainer.schedule.every_steps: found beside schedule kind cosine, which has none; allowed: only "
       "with step"},
      {"GammaIsAboveOne", kTrainer + "  schedule: {kind: step, every_epochs: 1, gamma: 1.5}\n",
       "6:50: trainer.schedule.gamma: found '1.5'; allowed: a number greater than 0, up to 1"},
      {"EarlyStopWithoutPatience", kTrainer + "  early_stop: {metric: loss}\n",
       "6:3: trainer.early_stop.patience: the key is missing; allowed: metric (accuracy or loss) and "
       "patience "
       "(evaluations without an improvement), and min_delta"},
      {"EarlyStopWithoutMetric", kTrainer + "  early_stop: {patience: 2}\n",
       "6:3: trainer.early_stop.metric: the key is missing; allowed: metric (accuracy or loss) and patience "
       "(evaluations without an improvement), and min_delta"},
      {"EarlyStopOfAnUnknownMetric", kTrainer + "  early_stop: {metric: los, patience: 2}\n",
       "6:24: trainer.early_stop.metric: found 'los'; allowed: accuracy, loss; did you mean 'loss'?"},
      {"EarlyStopWithoutPatienceAtAll", kTrainer + "  early_stop: {metric: loss, patience: 0}\n",
       "6:40: trainer.early_stop.patience: found '0'; allowed: a whole number from 1 to 1000000000000"},
      {"EarlyStopWithoutEvaluations",
       kTrainer + "  early_stop: {metric: loss, patience: 1}\n  evaluate_every_epochs: 0\n",
       "7:3: trainer.evaluate_every_epochs: found 0 beside early_stop, which needs evaluations; allowed: at "
       "least 1"},
      {"MinLearningRateAboveLearningRate",
       kTrainer + "  optimizer: {learning_rate: 0.1}\n  schedule: {min_learning_rate: 0.2}\n",
       "7:14: trainer.schedule.min_learning_rate: found 0.2; allowed: at most the learning rate, which is "
       "0.1"},
      {"ClipNormIsZero", kTrainer + "  clip_norm: 0\n",
       "6:14: trainer.clip_norm: found '0'; allowed: " + kRates},
      {"ClipNormIsATruthValue", kTrainer + "  clip_norm: true\n",
       "6:14: trainer.clip_norm: found 'true'; allowed: " + kRates},
      {"UnknownPrecision", kTrainer + "  precision: fp8\n",
       "6:14: trainer.precision: found 'fp8'; allowed: fp32, bf16, fp16"},
      {"CudaWithoutGpus", kTrainer + "  device: cuda\n",
       "6:3: trainer.device: found 'cuda' while gpu_per_worker is 0; allowed: cuda only with gpu_per_worker "
       "of at least 1"},
      {"CpuWithGpus", kTrainer + "  device: cpu\ngpu_per_worker: 1\n",
       "6:3: trainer.device: found 'cpu' while gpu_per_worker is 1; allowed: cuda, or gpu_per_worker: 0"},
      {"GpusNotDivisibleByRanks", kHead + "gpu_per_worker: 4\nranks_per_worker: 3\n",
       "4:1: ranks_per_worker: found 3; allowed: a divisor of gpu_per_worker, which is 4, so that each rank "
       "has as many GPUs as the others"},
      {"MoreThreadsThanCpus",
       kTrainer + "  threads: 4\nranks_per_worker: 2\nresources: {cpus_per_worker: 4}\n",
       "6:3: trainer.threads: found 4 for each of 2 ranks of a worker; allowed: at most "
       "resources.cpus_per_worker together, which is 4"},
      {"ReproducibleRing", kTrainer + "  allreduce: {algorithm: ring}\n  reproducible: true\n",
       "7:3: trainer.reproducible: found true with allreduce algorithm ring, whose sums depend on the number "
       "of ranks; allowed: true only with tree"},
      {"UnknownAllreduce", kTrainer + "  allreduce: {algorithm: rign}\n",
       "6:26: trainer.allreduce.algorithm: found 'rign'; allowed: tree, ring; did you mean 'ring'?"},
      {"DataTimeoutAboveTimeout", kTrainer + "  allreduce: {timeout: 30s}\n  data_timeout: 1m\n",
       "7:3: trainer.data_timeout: found 1m; allowed: at most trainer.allreduce.timeout, which is 30s: the "
       "other ranks wait no longer"},
      {"DataTimeoutWithoutUnit", kTrainer + "  data_timeout: 60\n",
       "6:17: trainer.data_timeout: found '60'; allowed: a duration with a unit, from 1s to 1d, such as 90s, "
       "30m, 2h, "
       "1h30m, 500ms, or Slurm's 30:00, 1:30:00, 1-12:30:00"},
      {"PrefetchIsNegative", kTrainer + "  prefetch: -1\n",
       "6:13: trainer.prefetch: found '-1'; allowed: a whole number from 0 to 1024"},
      {"AccumulationIsZero", kTrainer + "  accumulation_steps: 0\n",
       "6:23: trainer.accumulation_steps: found '0'; allowed: a whole number from 1 to 1048576"},
      {"PeerTimeoutAboveTimeout", kTrainer + "  allreduce: {timeout: 5s, peer_timeout: 10s}\n",
       "6:28: trainer.allreduce.peer_timeout: found 10s; allowed: at most trainer.allreduce.timeout, which "
       "is 5s"},
      {"CheckpointIsAnotherWord", kTrainer + "  checkpoint: often\n",
       "6:15: trainer.checkpoint: found 'often'; allowed: auto, or a group of keys"},
      {"CheckpointEveryHalfSecond", kTrainer + "  checkpoint: {every: 1500ms}\n",
       "6:23: trainer.checkpoint.every: found '1500ms'; allowed: whole seconds"},
      {"CheckpointEveryNow", kTrainer + "  checkpoint: {every: now}\n",
       "6:23: trainer.checkpoint.every: found 'now'; allowed: auto, or a duration with a unit, from 1s to "
       "1d, "
       "such as 90s, 30m, 2h, 1h30m, 500ms, or Slurm's 30:00, 1:30:00, 1-12:30:00"},
      {"CheckpointMtbfTooShort", kTrainer + "  checkpoint: {expected_mtbf: 5s}\n",
       "6:31: trainer.checkpoint.expected_mtbf: found '5s'; allowed: a duration with a unit, from 1m to "
       "3650d, "
       "such as 90s, 30m, 2h, 1h30m, 500ms, or Slurm's 30:00, 1:30:00, 1-12:30:00"},
      {"CheckpointKeepsNone", kTrainer + "  checkpoint: {keep_last: 0}\n",
       "6:27: trainer.checkpoint.keep_last: found '0'; allowed: a whole number from 1 to 1000000"},
      {"CheckpointEveryZeroSteps", kTrainer + "  checkpoint: {every_steps: 0}\n",
       "6:29: trainer.checkpoint.every_steps: found '0'; allowed: a whole number from 1 to 1000000000000"},
  };
}

}  // namespace muster::testing
