// The task file: good ones, bad ones in a table (tests/unit/bad_task_files.h), and all errors at once.
#include "launcher/task_spec.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TaskFileContext context() {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/work/jobs/task.yaml";
  context.home = "/home/ada";
  context.file_exists = [](const std::string& path) { return path == "/work/jobs/beside"; };
  return context;
}

constexpr const char* kTrainerTask = R"(task_name: distributed_mnist
num_workers: 4
entry_point: muster-train
data_path: ${TASK_DIR}/../data/mnist
checkpoint_path: ${HOME}/checkpoints/
trainer:
  hidden: [512, 256]
  dropout: 0.2
  epochs: 12
  optimizer: {name: adamw, learning_rate: 0.002}
  schedule: {kind: cosine, warmup_steps: 50}
  checkpoint: {every_steps: 50, every: 10s}
)";

TEST(TaskSpec, ReadsATrainerTask) {
  const auto spec = parse_task(kTrainerTask, context());
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->task_name, "distributed_mnist");
  EXPECT_EQ(spec->num_workers, 4);
  EXPECT_EQ(spec->schedule.min_workers, 4);
  EXPECT_EQ(spec->schedule.max_workers, 4);
  EXPECT_EQ(spec->data_path, "/work/data/mnist");
  EXPECT_EQ(spec->checkpoint_path, "/home/ada/checkpoints");
  ASSERT_TRUE(spec->trainer);
  EXPECT_EQ(spec->trainer->hidden, (std::vector<int>{512, 256}));
  EXPECT_EQ(spec->trainer->optimizer.learning_rate, 0.002);
  EXPECT_EQ(spec->trainer->optimizer.weight_decay, 0.01);
  EXPECT_EQ(spec->trainer->checkpoint.every, std::chrono::seconds(10));
  EXPECT_EQ(spec->positions.at("trainer.schedule.warmup_steps"), (SourcePosition{11, 28}));
}

TEST(TaskSpec, ReportsAllErrorsInFileOrder) {
  const auto spec = parse_task("num_worker: 2\ntask_name: a b\nentry_point: x\nnum_workers: 0\n", context());
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(spec.error().message,
            "task.yaml:1:1: unknown key 'num_worker'; did you mean 'num_workers'? allowed here: args, "
            "checkpoint_path, data_path, entry_point, env, gpu_per_worker, hooks, image, mounts, network, "
            "num_workers, ranks_per_worker, resources, schedule, task_name, trainer\n"
            "task.yaml:2:12: task_name: found 'a b'; allowed: 1 to 64 letters, digits, '.', '_' or '-', the "
            "first a letter or digit\n"
            "task.yaml:4:14: num_workers: found '0'; allowed: a whole number from 1 to 65536");
}

}  // namespace
}  // namespace muster
