// What ctest is told of an executable of ours: its exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

testing::ProgramResult run_probe(const std::string& filter,
                                 const testing::ProgramOptions& options = testing::ProgramOptions()) {
  return testing::run_program({OUTCOME_PROBE, "--gtest_filter=" + filter}, options);
}

testing::ProgramResult run_probe_on_2_ranks(const std::string& filter) {
  return testing::run_program({OUTCOME_MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                               "-np", "2", OUTCOME_PROBE_MPI, "--gtest_filter=" + filter});
}

TEST(TestOutcome, SkippedOnlyIfNothingFailed) {
  EXPECT_EQ(run_probe("Probe.Passes").exit_code, 0);
  EXPECT_EQ(run_probe("Probe.IsSkipped").exit_code, 77);
  // A pattern in the output once had ctest report this as skipped.
  EXPECT_EQ(run_probe("Probe.IsSkipped:Probe.Fails").exit_code, 1);
  EXPECT_EQ(run_probe("Probe.Passes:Probe.IsSkipped:Probe.Fails").exit_code, 1);
}

TEST(TestOutcome, APassedTestDoesNotHideASkippedOne) {
  const testing::ProgramResult mixed = run_probe("Probe.Passes:Probe.IsSkipped");
  EXPECT_EQ(mixed.exit_code, 77) << mixed;
  EXPECT_THAT(mixed.out, HasSubstr("1 test, listed below:\n[  SKIPPED ] Probe.IsSkipped\n"));
  EXPECT_THAT(mixed.out, HasSubstr("nothing to see"));
}

TEST(TestOutcome, AnEnvironmentMaySkipAll) {
  testing::ProgramOptions options;
  options.set = {{"PROBE_SKIPS_ALL", "1"}};
  const testing::ProgramResult result = run_probe("Probe.Passes", options);
  EXPECT_EQ(result.exit_code, 77) << result;
  EXPECT_THAT(result.out, HasSubstr("not here"));
}

TEST(TestOutcome, OfAllRanksTheWorstCounts) {
  EXPECT_EQ(run_probe_on_2_ranks("Probe.Passes").exit_code, 0);
  EXPECT_EQ(run_probe_on_2_ranks("Probe.IsSkippedOnRank0").exit_code, 77);
  const testing::ProgramResult failed = run_probe_on_2_ranks("Probe.IsSkippedOnRank0:Probe.FailsOnRank1");
  EXPECT_EQ(failed.exit_code, 1) << failed;
  EXPECT_THAT(failed.err, HasSubstr("rank 1: "));
}

}  // namespace
}  // namespace muster
