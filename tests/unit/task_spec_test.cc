// Good task files: every key arrives, defaults are resolved, YAML and JSON mean the same. Bad ones are in the
// table of bad_task_files_*.cc.
#include "launcher/task_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_directory.h"

namespace muster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TaskFileContext context() {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/proj/jobs/task.yaml";
  context.home = "/home/ada";
  context.file_exists = [](const std::string& path) { return path == "/proj/jobs/beside"; };
  return context;
}

TaskSpec parse(const std::string& text) {
  const auto spec = parse_task(text, context());
  EXPECT_TRUE(spec) << spec.error().message;
  return spec.value_or(TaskSpec{});
}

constexpr const char* kEveryKey = R"(
task_name: every.key_1
num_workers: 4
gpu_per_worker: 2
ranks_per_worker: 2
image: /images/pytorch.sqsh
entry_point: muster-train
args: [--extra, 1, 2.5, true, "", "a b"]
data_path: ${TASK_DIR}/../data/mnist
checkpoint_path: ${HOME}/checkpoints/
resources:
  gpu_type: a100
  cpus_per_worker: 8
  memory_per_worker: 64G
  time_limit: 1-12:30:00
  constraint: ib&ssd
  exclude: [node1, "node[3-4]"]
schedule:
  priority: high
  preemptible: true
  min_workers: 2
  max_workers: 8
  spare_workers: 1
  retry: {crashes_without_progress: 5, crashes_total: 6, node_failures: 7, launcher_errors: 8}
  grace: 2m
  stop_signal: SIGUSR2
trainer:
  model: mlp
  hidden: [64, 32]
  activation: gelu
  layer_norm: true
  dropout: 0.25
  label_smoothing: 0.1
  dataset: idx
  batch_size: 128
  steps: 1000
  seed: 9223372036854775807
  shards: 32
  optimizer: {name: sgd, learning_rate: 1e-1, momentum: 0.5, weight_decay: 1.0e-4}
  schedule: {kind: cosine, warmup_steps: 1000, min_learning_rate: 0.001}
  precision: bf16
  device: cuda
  threads: 4
  allreduce: {algorithm: ring, timeout: 90s, peer_timeout: 1m30s}
  reproducible: false
  on_nonfinite: skip
  evaluate_every_epochs: 0
  log_every_steps: 1
  log_samples: true
  checkpoint:
    {every_steps: 10, every: 1m, keep_last: 4, keep_best: false, background: false, timeout: 2m, expected_mtbf: 8h}
mounts: ["/data:/data:ro", {source: "${HOME}/x", target: /x}]
env:
  GREETING: "hello, world=1"
  NUMBER: 8080
  WANDB_API_KEY: hush
  PLAIN: {secret: hush}
network:
  interface: ib0
  rdma: false
  NCCL_DEBUG: INFO
hooks:
  on_preempt: save.sh
  before: [mkdir -p /x, touch /x/y]
)";

TEST(TaskSpec, ReadsEveryKeyAtTheTopLevel) {
  const TaskSpec spec = parse(kEveryKey);
  EXPECT_EQ(spec.task_name, "every.key_1");
  EXPECT_EQ(spec.num_workers, 4);
  EXPECT_EQ(spec.gpu_per_worker, 2);
  EXPECT_EQ(spec.ranks_per_worker, 2);
  EXPECT_EQ(spec.image, "/images/pytorch.sqsh");
  EXPECT_EQ(spec.entry_point, "muster-train");
  EXPECT_THAT(spec.args, ElementsAre("--extra", "1", "2.5", "true", "", "a b"));
  EXPECT_EQ(spec.data_path, "/proj/data/mnist");
  EXPECT_EQ(spec.checkpoint_path, "/home/ada/checkpoints");
  EXPECT_EQ(spec.file, "/proj/jobs/task.yaml");
  EXPECT_EQ(spec.directory, "/proj/jobs");
  EXPECT_EQ(spec.source_text, kEveryKey);
}

TEST(TaskSpec, ReadsResourcesAndSchedule) {
  const TaskSpec spec = parse(kEveryKey);
  EXPECT_EQ(spec.resources.gpu_type, "a100");
  EXPECT_EQ(spec.resources.cpus_per_worker, 8);
  EXPECT_EQ(spec.resources.memory_bytes, 64ULL << 30U);
  EXPECT_EQ(spec.resources.time_limit, std::chrono::minutes((24 + 12) * 60 + 30));
  EXPECT_EQ(spec.resources.constraint, "ib&ssd");
  EXPECT_THAT(spec.resources.exclude, ElementsAre("node1", "node[3-4]"));
  EXPECT_EQ(spec.schedule.priority, Priority::kHigh);
  EXPECT_TRUE(spec.schedule.preemptible);
  EXPECT_EQ(spec.schedule.min_workers, 2);
  EXPECT_EQ(spec.schedule.max_workers, 8);
  EXPECT_EQ(spec.schedule.spare_workers, 1);
  EXPECT_EQ(spec.schedule.retry, (RetryBudgets{5, 6, 7, 8}));
  EXPECT_EQ(spec.schedule.grace, seconds(120));
  EXPECT_EQ(spec.schedule.stop_signal, "SIGUSR2");
}

TEST(TaskSpec, ReadsTheTrainer) {
  const TrainerSpec trainer = *parse(kEveryKey).trainer;
  EXPECT_THAT(trainer.hidden, ElementsAre(64, 32));
  EXPECT_EQ(trainer.activation, "gelu");
  EXPECT_TRUE(trainer.layer_norm);
  EXPECT_EQ(trainer.dropout, 0.25);
  EXPECT_EQ(trainer.label_smoothing, 0.1);
  EXPECT_EQ(trainer.batch_size, 128);
  EXPECT_EQ(trainer.epochs, std::nullopt);
  EXPECT_EQ(trainer.steps, 1000);
  EXPECT_EQ(trainer.seed, 9'223'372'036'854'775'807);
  EXPECT_EQ(trainer.shards, 32);
  EXPECT_EQ(trainer.optimizer.name, "sgd");
  EXPECT_EQ(trainer.optimizer.learning_rate, 0.1);
  EXPECT_EQ(trainer.optimizer.momentum, 0.5);
  EXPECT_EQ(trainer.optimizer.weight_decay, 0.0001);
  EXPECT_EQ(trainer.schedule.warmup_steps, 1000);
  EXPECT_EQ(trainer.schedule.min_learning_rate, 0.001);
  EXPECT_EQ(trainer.precision, "bf16");
  EXPECT_EQ(trainer.device, "cuda");
  EXPECT_EQ(trainer.threads, 4);
  EXPECT_EQ(trainer.allreduce.algorithm, "ring");
  EXPECT_EQ(trainer.allreduce.timeout, seconds(90));
  EXPECT_EQ(trainer.allreduce.peer_timeout, seconds(90));
  EXPECT_FALSE(trainer.reproducible);
  EXPECT_EQ(trainer.on_nonfinite, "skip");
  EXPECT_EQ(trainer.evaluate_every_epochs, 0);
  EXPECT_EQ(trainer.log_every_steps, 1);
  EXPECT_TRUE(trainer.log_samples);
  EXPECT_EQ(trainer.checkpoint.every_steps, 10);
  EXPECT_EQ(trainer.checkpoint.every, seconds(60));
  EXPECT_EQ(trainer.checkpoint.keep_last, 4);
  EXPECT_FALSE(trainer.checkpoint.keep_best);
  EXPECT_FALSE(trainer.checkpoint.background);
  EXPECT_EQ(trainer.checkpoint.timeout, seconds(120));
  EXPECT_EQ(trainer.checkpoint.expected_mtbf, seconds(8 * 3600));
  EXPECT_FALSE(trainer.checkpoint.automatic);
}

TEST(TaskSpec, AnAutomaticIntervalBeginsWithTheDefaultAndADayBetweenFailures) {
  const auto checkpoint = [](const std::string& settings) {
    return parse("task_name: t\nentry_point: muster-train\ndata_path: /d\ntrainer: {steps: 1, checkpoint: " +
                 settings + "}\n")
        .trainer->checkpoint;
  };
  EXPECT_TRUE(checkpoint("{every: auto}").automatic);
  EXPECT_EQ(checkpoint("{every: auto}").every, seconds(30));
  EXPECT_EQ(checkpoint("{every: auto}").expected_mtbf, seconds(86400));
  EXPECT_EQ(checkpoint("{every: auto, every_steps: 9}").every, seconds(30));
  EXPECT_EQ(checkpoint("{every: auto, expected_mtbf: 2h}").expected_mtbf, seconds(7200));
  EXPECT_TRUE(checkpoint("auto").automatic);
  EXPECT_EQ(checkpoint("auto").expected_mtbf, seconds(86400));
  EXPECT_FALSE(checkpoint("{expected_mtbf: 2h}").automatic);
}

TEST(TaskSpec, ReadsMountsEnvNetworkAndHooks) {
  const TaskSpec spec = parse(kEveryKey);
  ASSERT_EQ(spec.mounts.size(), 2U);
  EXPECT_EQ(spec.mounts[0].source, "/data");
  EXPECT_TRUE(spec.mounts[0].read_only);
  EXPECT_EQ(spec.mounts[1].source, "/home/ada/x");
  EXPECT_FALSE(spec.mounts[1].read_only);
  EXPECT_THAT(spec.env, ElementsAre(EnvironmentVariable{"GREETING", "hello, world=1", false},
                                    EnvironmentVariable{"NUMBER", "8080", false},
                                    EnvironmentVariable{"WANDB_API_KEY", "hush", true},
                                    EnvironmentVariable{"PLAIN", "hush", true}));
  EXPECT_EQ(spec.network.interface, "ib0");
  EXPECT_EQ(spec.network.rdma, false);
  EXPECT_THAT(spec.network.variables, ElementsAre(EnvironmentVariable{"NCCL_DEBUG", "INFO", false}));
  EXPECT_THAT(spec.hooks.on_preempt, ElementsAre("save.sh"));
  EXPECT_THAT(spec.hooks.before, ElementsAre("mkdir -p /x", "touch /x/y"));
  EXPECT_TRUE(spec.hooks.after.empty());
}

TEST(TaskSpec, KnowsThePlaceOfEachKey) {
  const TaskSpec spec = parse(kEveryKey);
  EXPECT_EQ(spec.positions.at("image"), (SourcePosition{6, 1}));
  EXPECT_EQ(spec.positions.at("resources.gpu_type"), (SourcePosition{12, 3}));
  EXPECT_EQ(spec.positions.at("schedule.retry.node_failures"), (SourcePosition{24, 58}));
  EXPECT_TRUE(spec.has("hooks.before"));
  EXPECT_FALSE(spec.has("hooks.after"));
}

TEST(TaskSpec, ResolvesDefaults) {
  const TaskSpec spec =
      parse("task_name: t\nentry_point: muster-train\ndata_path: /d\nnum_workers: 3\ntrainer: {epochs: 2}\n");
  EXPECT_EQ(spec.ranks_per_worker, 1);
  EXPECT_EQ(spec.schedule.min_workers, 3);
  EXPECT_EQ(spec.schedule.max_workers, 3);
  EXPECT_EQ(spec.schedule.grace, seconds(30));
  EXPECT_EQ(spec.schedule.retry, RetryBudgets{});
  EXPECT_EQ(spec.resources.time_limit, std::nullopt);
  EXPECT_EQ(spec.network.rdma, std::nullopt);
  EXPECT_EQ(spec.trainer->optimizer.learning_rate, 0.001);
  EXPECT_EQ(spec.trainer->optimizer.weight_decay, 0.01);
  EXPECT_EQ(spec.trainer->shards, 16);
  EXPECT_EQ(spec.trainer->device, "cpu");
  EXPECT_TRUE(spec.trainer->reproducible);
  EXPECT_EQ(spec.trainer->checkpoint.every, seconds(30));
  EXPECT_EQ(spec.trainer->checkpoint.every_steps, 0);
}

TEST(TaskSpec, DefaultsFollowOtherKeys) {
  const std::string head = "task_name: t\nentry_point: muster-train\ndata_path: /d\n";
  const TaskSpec sgd = parse(head + "trainer: {epochs: 2, optimizer: {name: sgd}}\n");
  EXPECT_EQ(sgd.trainer->optimizer.learning_rate, 0.01);
  EXPECT_EQ(sgd.trainer->optimizer.weight_decay, 0);
  const TaskSpec ring = parse(head + "trainer: {epochs: 2, allreduce: {algorithm: ring}}\n");
  EXPECT_FALSE(ring.trainer->reproducible);
  const TaskSpec by_steps = parse(head + "trainer: {epochs: 2, checkpoint: {every_steps: 5}}\n");
  EXPECT_EQ(by_steps.trainer->checkpoint.every, seconds(0));
  const TaskSpec gpus = parse(head + "gpu_per_worker: 4\ntrainer: {epochs: 2}\n");
  EXPECT_EQ(gpus.ranks_per_worker, 4);
  EXPECT_EQ(gpus.trainer->device, "cuda");
}

TEST(TaskSpec, FindsEntryPoints) {
  const auto entry_point = [](const std::string& value) {
    return parse("task_name: t\nentry_point: " + value + "\n").entry_point;
  };
  EXPECT_EQ(entry_point("train.py"), "/proj/jobs/train.py");
  EXPECT_EQ(entry_point("./bin/../train"), "/proj/jobs/train");
  EXPECT_EQ(entry_point("../train"), "/proj/train");
  EXPECT_EQ(entry_point("beside"), "/proj/jobs/beside");
  EXPECT_EQ(entry_point("hostname"), "hostname");
  EXPECT_EQ(entry_point("/bin/true"), "/bin/true");
  EXPECT_EQ(entry_point("${HOME}/bin/x"), "/home/ada/bin/x");
  EXPECT_EQ(entry_point("\"${TASK_DIR}/x\""), "/proj/jobs/x");
}

TEST(TaskSpec, UnlimitedTimeIsNoLimit) {
  const TaskSpec spec = parse("task_name: t\nentry_point: x\nresources: {time_limit: UNLIMITED}\n");
  EXPECT_EQ(spec.resources.time_limit, std::nullopt);
}

TEST(TaskSpec, HomeMustBeSetToBeUsed) {
  TaskFileContext homeless = context();
  homeless.home.clear();
  const auto spec = parse_task("task_name: t\nentry_point: x\ndata_path: ${HOME}/d\n", homeless);
  ASSERT_FALSE(spec);
  EXPECT_EQ(
      spec.error().message,
      "task.yaml:3:12: data_path: found '${HOME}/d' while HOME is not set; allowed: an absolute path, or "
      "one that begins with ${TASK_DIR} or ${HOME}");
}

TEST(TaskSpec, JsonMeansTheSameAsYaml) {
  const TaskSpec yaml = parse(
      "task_name: t\nentry_point: muster-train\ndata_path: /d\nargs: [a, \"b\"]\nenv: {A: x, B: ''}\n"
      "trainer:\n  epochs: 3\n  dropout: 0.5\n  checkpoint:\n    keep_best: false\n");
  const TaskSpec json = parse(
      "{\n\t\"task_name\": \"t\",\n\t\"entry_point\": \"muster-train\",\n\t\"data_path\": \"/d\",\n"
      "\t\"args\": [\"a\", \"b\"],\n\t\"env\": {\"A\": \"x\", \"B\":\"\"},\n"
      "\t\"trainer\": {\"epochs\": 3, \"dropout\":0.5, \"checkpoint\": {\"keep_best\": false}}\n}\n");
  EXPECT_EQ(yaml.task_name, json.task_name);
  EXPECT_EQ(yaml.args, json.args);
  EXPECT_EQ(yaml.env, json.env);
  EXPECT_EQ(yaml.trainer->epochs, json.trainer->epochs);
  EXPECT_EQ(yaml.trainer->dropout, json.trainer->dropout);
  EXPECT_EQ(yaml.trainer->checkpoint.keep_best, json.trainer->checkpoint.keep_best);
  EXPECT_EQ(json.positions.at("trainer.dropout"), (SourcePosition{7, 27}));
}

TEST(TaskSpec, ReportsAllErrorsInFileOrder) {
  const auto spec = parse_task(
      "trainer:\n  epochs: 0\n  seeds: 1\nnum_worker: 2\ntask_name: a b\nnum_workers: 0\nnum_workers: 1\n"
      "resources: {memory_per_worker: 5}\nentry_point: muster-train\ndata_path: here\n",
      context());
  ASSERT_FALSE(spec);
  std::vector<std::string> places;
  std::istringstream lines(spec.error().message);
  for (std::string line; std::getline(lines, line);) places.push_back(line.substr(0, line.find(": ")));
  EXPECT_THAT(places, ElementsAre("task.yaml:2:11", "task.yaml:3:3", "task.yaml:4:1", "task.yaml:5:12",
                                  "task.yaml:6:14", "task.yaml:7:1", "task.yaml:8:32", "task.yaml:10:12"));
}

TEST(TaskSpec, ErrorsShowNoSecret) {
  const auto spec = parse_task(
      "task_name: t\nentry_point: x\nenv:\n  RANK: tip-top-1\n  A: {secrte: tip-top-2}\n  B-C: tip-top-3\n"
      "  D: [tip-top-4]\n",
      context());
  ASSERT_FALSE(spec);
  EXPECT_THAT(spec.error().message, HasSubstr("task.yaml:7:6: env.D"));
  EXPECT_THAT(spec.error().message, Not(HasSubstr("tip-top")));
}

TEST(TaskSpec, LoadsFromDisk) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "task.yaml";
  std::ofstream(path) << "task_name: t\nentry_point: program\n";
  std::ofstream(directory.path() / "program") << "#!/bin/sh\n";
  const auto spec = load_task_file(path);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->entry_point, (directory.path() / "program").string());
  EXPECT_EQ(spec->shown_file, path.string());
  const auto missing = load_task_file(directory.path() / "nothing.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(TaskSpec, RefusesAFileThatIsTooLarge) {
  const auto spec = parse_task(std::string((1U << 20U) + 1, 'x'), context());
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().message, "task.yaml:1:1: found a file of 1048577 bytes; allowed: up to 1048576");
}

}  // namespace
}  // namespace muster
