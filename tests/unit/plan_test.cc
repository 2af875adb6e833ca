// The plan: argv, environment, fingerprint, refusals, and secrets that stay hidden.
#include "launcher/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/task_spec.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TaskSpec parse(const std::string& text) {
  TaskFileContext context;
  context.shown_file = "task.yaml";
  context.file = "/work/jobs/task.yaml";
  const auto spec = parse_task(text, context);
  EXPECT_TRUE(spec) << spec.error().message;
  return spec.value_or(TaskSpec{});
}

PlanOptions options() {
  PlanOptions options;
  options.trainer_executable = "/opt/muster/muster-train";
  options.default_checkpoint_root = "/state/muster/work";
  return options;
}

TEST(Plan, ScriptsRunWithPython) {
  const auto plan =
      make_plan(parse("task_name: t\nentry_point: train.py\nargs: [--lr, 0.1]\nnum_workers: 3\n"), options());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->argv, (std::vector<std::string>{"python3", "/work/jobs/train.py", "--lr", "0.1"}));
  EXPECT_EQ(plan->world_size, 3);
  EXPECT_EQ(plan->checkpoint_root, "/state/muster/work");
}

TEST(Plan, HidesSecrets) {
  const auto plan = make_plan(parse("task_name: t\nentry_point: prog\nenv:\n  WANDB_API_KEY: tip-top-1\n  "
                                    "PLAIN: {secret: tip-top-2}\n"),
                              options());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->environment.at(0).value, "tip-top-1");
  EXPECT_THAT(plan_to_text(*plan), Not(HasSubstr("tip-top")));
  EXPECT_THAT(plan_to_json(*plan).dump(), Not(HasSubstr("tip-top")));
}

TEST(Plan, RefusesWhatBareMetalCannotDo) {
  const auto plan =
      make_plan(parse("task_name: t\nentry_point: prog\nimage: /a.sqsh\ngpu_per_worker: 2\n"), options());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(
      plan.error().message,
      "task.yaml:3:1: image: found '/a.sqsh'; `muster run` does not start containers yet: remove the key\n"
      "task.yaml:4:1: gpu_per_worker: found 2; `muster run` does not start GPU jobs yet: remove the key, or "
      "make it 0");
}

}  // namespace
}  // namespace muster
