// The batch scripts of the examples and of a task that asks for everything, word for word:
// tests/golden/sbatch_*.sh. tests/cluster gives such scripts to a real sbatch.
#include <gtest/gtest.h>

#include "launcher/task_spec.h"
#include "slurm/sbatch_script.h"
#include "tests/golden/golden_file.h"
#include "tests/support/sample_site.h"

namespace muster {
namespace {

struct GoldenScript {
  std::string name;
  std::string task_file;  // below the source directory
  SiteProfile site;
  slurm::SubmitOptions options;
};

void PrintTo(const GoldenScript& golden, std::ostream* out) { *out << golden.name; }

std::string name_of(const ::testing::TestParamInfo<GoldenScript>& info) { return info.param.name; }

class SbatchGoldenTest : public ::testing::TestWithParam<GoldenScript> {};

TEST_P(SbatchGoldenTest, IsTheSameWordForWord) {
  const auto spec = load_task_file(testing::kSource + "/" + GetParam().task_file);
  ASSERT_TRUE(spec) << spec.error().message;
  PlanOptions options;
  options.slurm_site = &GetParam().site;
  options.trainer_executable = "BIN/muster-train";
  options.default_checkpoint_root = "/home/ada/.local/state/muster/work";
  const auto plan = make_plan(*spec, options);
  ASSERT_TRUE(plan) << plan.error().message;
  slurm::JobIdentity job;
  job.comment = "muster:" + plan->task_name + "-0123abcd";
  job.run_directory = plan->checkpoint_root + "/" + plan->task_name + "-0123abcd";
  job.muster_executable = "/opt/muster/bin/muster";
  const auto script = slurm::sbatch_script(*plan, job, GetParam().options);
  ASSERT_TRUE(script) << script.error().message;
  testing::expect_golden("sbatch_" + GetParam().name + ".sh", *script);
}

INSTANTIATE_TEST_SUITE_P(
    Examples, SbatchGoldenTest,
    ::testing::Values(GoldenScript{"mnist", "examples/mnist.yaml", SiteProfile(), {}},
                      GoldenScript{"mnist_lenet", "examples/mnist_lenet.yaml", testing::sample_site(), {}},
                      GoldenScript{"digits", "examples/digits.yaml", SiteProfile(), {}},
                      GoldenScript{"foreign", "examples/foreign.yaml", SiteProfile(), {}},
                      GoldenScript{"everything",
                                   "tests/golden/everything_on_slurm.yaml",
                                   testing::sample_site(),
                                   {true, "afterok:1", "0-3%2", "2030-01-01T00:00:00"}}),
    name_of);

}  // namespace
}  // namespace muster
