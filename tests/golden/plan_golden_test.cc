// The plans of the examples, word for word, as text and JSON: tests/golden/plan_*.{txt,json}.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/plan.h"
#include "launcher/task_spec.h"
#include "tests/golden/golden_file.h"

namespace muster {
namespace {

using testing::expect_golden;
using testing::kSource;

struct GoldenPlan {
  std::string name;
  std::string task_file;  // below the source directory
  std::vector<Host> hosts;
};

void PrintTo(const GoldenPlan& golden, std::ostream* out) { *out << golden.name; }

std::string name_of(const ::testing::TestParamInfo<GoldenPlan>& info) { return info.param.name; }

class PlanGoldenTest : public ::testing::TestWithParam<GoldenPlan> {};

TEST_P(PlanGoldenTest, IsTheSameWordForWord) {
  const auto spec = load_task_file(kSource + "/" + GetParam().task_file);
  ASSERT_TRUE(spec) << spec.error().message;
  PlanOptions options;
  options.hosts = GetParam().hosts;
  options.trainer_executable = "BIN/muster-train";
  options.default_checkpoint_root = "STATE/muster/work";
  const auto plan = make_plan(*spec, options);
  ASSERT_TRUE(plan) << plan.error().message;
  expect_golden("plan_" + GetParam().name + ".txt", plan_to_text(*plan));
  expect_golden("plan_" + GetParam().name + ".json", plan_to_json(*plan).dump(2) + "\n");
}

INSTANTIATE_TEST_SUITE_P(
    Examples, PlanGoldenTest,
    ::testing::Values(GoldenPlan{"mnist", "examples/mnist.yaml", {}},
                      GoldenPlan{"mnist_on_hosts", "examples/mnist.yaml", {{"node1", 1}, {"node2", 4}}},
                      GoldenPlan{"digits", "examples/digits.yaml", {}},
                      GoldenPlan{"foreign", "examples/foreign.yaml", {}},
                      GoldenPlan{"secrets", "tests/golden/secrets.yaml", {}}),
    name_of);

}  // namespace
}  // namespace muster
